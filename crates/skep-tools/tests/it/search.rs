//! `glob` and `grep` beside ripgrep itself, on a fixed tree.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Mode};
use serde_json::json;

use crate::lab::{OUTPUT_BYTES, call, context, tool, use_tool};

const FILES: [(&str, &str); 27] = [
    (".gitignore", "*.log\n/target/\n!keep.log\nbuild\n"),
    (".ignore", "drafts/\n"),
    (".hidden/inside.rs", "needle in hidden\n"),
    (".env", "needle=secret\n"),
    ("Cargo.toml", "[package]\nname = \"needle\"\n"),
    ("README.md", "# needle\n\ntext\nmore text\nneedle again\n"),
    ("app.log", "needle in a log\n"),
    ("keep.log", "needle in a kept log\n"),
    ("src/main.rs", "fn main() {\n    // needle\n    let x = 1;\n}\n"),
    ("src/lib.rs", "// nothing\n// here\n"),
    ("src/deep/er/still.rs", "NEEDLE\nneedle\r\nNeedle\n"),
    ("src/deep/.gitignore", "secret*\n!secret.keep\n"),
    ("src/deep/secret.txt", "needle\n"),
    ("src/deep/secret.keep", "needle\n"),
    ("src/deep/er/secret.rs", "needle\n"),
    ("target/debug/out.rs", "needle\n"),
    ("build/out.rs", "needle\n"),
    ("lib/build/out.rs", "needle\n"),
    ("drafts/a.md", "needle\n"),
    ("web/index.js", "const needle = 'needle';\n"),
    ("web/index.ts", "const needle: string = '';\n"),
    ("web/a b/with space.py", "needle = 1\nother = 2\nneedle = 3\n"),
    ("web/-rf.py", "needle\n"),
    ("web/[x].py", "needle\n"),
    ("web/ünïcode.py", "nëedle needle\n"),
    ("vendor/inner/.rgignore", "not_me.c\n"),
    ("vendor/inner/not_me.c", "needle\n"),
];

fn tree() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (path, content) in FILES {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let outside = home.path().join("src/lib.rs");
    symlink(outside, home.path().join("link.rs")).unwrap();
    symlink("src", home.path().join("linked")).unwrap();
    symlink("/etc", home.path().join("etc")).unwrap();
    fs::write(home.path().join("data.bin"), b"needle\0needle\n").unwrap();
    fs::write(home.path().join("utf16.txt"), b"\xff\xfen\0e\0e\0d\0l\0e\0\n\0").unwrap();
    // A repository inside: rules from outside it do not reach in.
    fs::create_dir_all(home.path().join("repo/.git/info")).unwrap();
    fs::write(home.path().join("repo/.git/info/exclude"), "*.tmp\n").unwrap();
    fs::write(home.path().join("repo/a.log"), "needle\n").unwrap();
    fs::write(home.path().join("repo/b.tmp"), "needle\n").unwrap();
    fs::write(home.path().join("repo/c.txt"), "needle\n").unwrap();
    home
}

fn ripgrep(folder: &Path, arguments: &[&str]) -> Vec<String> {
    let output = Command::new("rg")
        .args(["--no-config", "--no-require-git", "--no-ignore-global", "--sort", "path"])
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .output()
        .unwrap_or_else(|error| panic!("{error}: apt-get install -y ripgrep"));
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect()
}

/// What ripgrep does not ignore, narrowed to what its glob matches. (By itself ripgrep's `-g` also
/// brings back ignored files.)
fn expected_files(folder: &Path, glob: &str) -> BTreeSet<String> {
    let seen: BTreeSet<String> = ripgrep(folder, &["--files"]).into_iter().collect();
    let glob = format!("--glob={glob}");
    let matching = ripgrep(folder, &["--files", "--no-ignore", "--hidden", &glob]);
    matching.into_iter().filter(|path| seen.contains(path)).collect()
}

#[tokio::test]
async fn glob_agrees_with_ripgrep() {
    let home = tree();
    let globs = [
        "*",
        "**",
        "**/*",
        "*.rs",
        "**/*.rs",
        "src/*.rs",
        "src/**/*.rs",
        "/src/*.rs",
        "*.{rs,md}",
        "!*.rs",
        "**/deep/**",
        "web/*",
        "web/-*",
        "*.log",
        "web/\\[x\\].py",
        "*[[]x*",
        "with*",
        "ünï*",
        "nothing*",
        "lib",
        "src",
        "src/",
        "**/er/*",
        ".*",
        ".hidden/**",
        "*/inner/*",
        "?.txt",
    ];
    for glob in globs {
        for folder in ["", "src", "web", "src/deep", ".hidden", "repo"] {
            let expected = expected_files(&home.path().join(folder), glob);
            let arguments =
                json!({"pattern": glob, "path": if folder.is_empty() { "." } else { folder }});
            let answer = use_tool("glob", home.path(), arguments).await;
            assert!(!answer.is_error, "{glob} in {folder}: {answer:?}");
            let found: BTreeSet<String> = answer
                .text
                .lines()
                .filter(|line| *line != "[no file matches]")
                .map(|line| {
                    let below = Path::new(line).strip_prefix(folder).unwrap();
                    below.to_str().unwrap().to_owned()
                })
                .collect();
            assert_eq!(found, expected, "{glob} in {folder:?}");
        }
    }
}

#[tokio::test]
async fn glob_shows_the_newest_first_and_says_what_it_leaves_out() {
    let home = tempfile::tempdir().unwrap();
    let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    for number in 0..1200_u64 {
        let file = fs::File::create(home.path().join(format!("f{number:04}"))).unwrap();
        file.set_modified(begin + Duration::from_secs(number)).unwrap();
    }
    let answer = use_tool("glob", home.path(), json!({"pattern": "f*"})).await;
    let lines: Vec<&str> = answer.text.lines().collect();
    assert_eq!((lines[0], lines[1], lines[999]), ("f1199", "f1198", "f0200"));
    assert_eq!(lines[1000], "[1000 of 1200 files shown, the newest]");
    assert_eq!(lines.len(), 1001);
}

#[tokio::test]
async fn grep_agrees_with_ripgrep() {
    let home = tree();
    let patterns = [
        "needle",
        "^needle",
        "needle$",
        "(?i)needle",
        "n.*e",
        r"\bneedle\b",
        "nothing here",
        "needle|text",
        "^$",
        "ë",
        r"\d",
        "[nN]eedle",
        "-rf",
        "--files",
        "-e",
        r"\(\)",
    ];
    for pattern in patterns {
        for (context, folder) in [(0, ""), (1, ""), (2, "src"), (0, "web"), (1, "repo")] {
            let around = format!("--context={context}");
            let fixed = ["-n", "--no-heading", "--with-filename", "--color=never", &around];
            let arguments: Vec<&str> = fixed.into_iter().chain(["-e", pattern, "./"]).collect();
            let expected: Vec<String> = ripgrep(&home.path().join(folder), &arguments)
                .iter()
                .map(|line| match line.strip_prefix("./") {
                    Some(line) if folder.is_empty() => line.to_owned(),
                    Some(line) => format!("{folder}/{line}"),
                    None => line.clone(),
                })
                .collect();
            let path = if folder.is_empty() { "." } else { folder };
            let arguments = json!({"pattern": pattern, "path": path, "context": context});
            let answer = use_tool("grep", home.path(), arguments).await;
            assert!(!answer.is_error, "{pattern}: {answer:?}");
            let found: Vec<&str> =
                answer.text.lines().filter(|line| *line != "[no line matches]").collect();
            assert_eq!(blocks(&found), blocks(&expected), "{pattern} in {folder:?}, {context}");
        }
    }
}

/// The order of files is not compared: ripgrep sorts whole paths, a walk sorts folder by folder.
fn blocks<T: AsRef<str>>(lines: &[T]) -> BTreeSet<String> {
    lines.iter().map(|line| line.as_ref().to_owned()).collect()
}

#[tokio::test]
async fn grep_narrows_by_glob_and_type_like_ripgrep() {
    let home = tree();
    for (glob, kind) in [
        (Some("*.rs"), None),
        (Some("!*.rs"), None),
        (Some("src/**"), None),
        (Some("*.log"), None),
        (None, Some("rust")),
        (None, Some("py")),
        (None, Some("md")),
        (Some("*.p*"), Some("py")),
    ] {
        let files = match glob {
            Some(glob) => expected_files(home.path(), glob),
            None => ripgrep(home.path(), &["--files"]).into_iter().collect(),
        };
        let mut arguments = vec!["-l", "-e", "needle"];
        let kind_argument = kind.map(|kind| format!("--type={kind}"));
        arguments.extend(kind_argument.as_deref());
        let mut expected: BTreeSet<String> = ripgrep(home.path(), &arguments).into_iter().collect();
        expected.retain(|path| files.contains(path));
        // Ripgrep names a binary file; grep leaves it out.
        expected.remove("data.bin");
        let arguments = json!({"pattern": "needle", "glob": glob, "type": kind});
        let answer = use_tool("grep", home.path(), arguments).await;
        let found: BTreeSet<String> =
            answer.text.lines().map(|line| line.split(':').next().unwrap().to_owned()).collect();
        assert_eq!(found, expected, "{glob:?} {kind:?}: {answer:?}");
    }
}

#[tokio::test]
async fn grep_is_bounded_in_lines_bytes_and_memory() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("many"), "needle\n".repeat(500)).unwrap();
    let answer = use_tool("grep", home.path(), json!({"pattern": "needle", "max": 3})).await;
    let expected =
        "many:1:needle\nmany:2:needle\nmany:3:needle\n[more lines match: only 3 are shown]\n";
    assert_eq!(answer.text, expected);
    let answer = use_tool("grep", home.path(), json!({"pattern": "needle", "max": 500})).await;
    assert_eq!(answer.text.lines().count(), 500);
    let arguments = json!({"pattern": "needle", "path": "many", "context": 2, "max": 1});
    let answer = use_tool("grep", home.path(), arguments).await;
    assert_eq!(answer.text, "many:1:needle\n[more lines match: only 1 are shown]\n");

    fs::write(home.path().join("wide"), format!("wide {}\n", "ä".repeat(5000)).repeat(300))
        .unwrap();
    let answer = use_tool("grep", home.path(), json!({"pattern": "wide", "max": 300})).await;
    assert!(answer.text.len() <= OUTPUT_BYTES, "{}", answer.text.len());
    assert!(answer.text.ends_with("[more lines match: the answer is full; narrow the search]\n"));
    assert!(answer.text.contains(" [cut]\n"));

    let endless = fs::File::create(home.path().join("endless")).unwrap();
    endless.set_len(64 << 20).unwrap();
    fs::write(home.path().join("long"), vec![b'x'; 20 << 20]).unwrap();
    let answer = use_tool("grep", home.path(), json!({"pattern": "absent"})).await;
    assert_eq!(answer.text, "[no line matches]\n[1 files could not be searched whole]\n");
}

#[tokio::test]
async fn rule_files_that_are_links_or_pipes_are_not_read() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir_all(work.join("sub/.git/info")).unwrap();
    fs::write(home.path().join("secret"), "a.txt\n").unwrap();
    symlink("../secret", work.join(".gitignore")).unwrap();
    symlink("../secret", work.join(".ignore")).unwrap();
    for pipe in
        ["work/.rgignore", "work/sub/.gitignore", "work/sub/.git/info/exclude", "work/pipe.txt"]
    {
        let path = home.path().join(pipe);
        rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
    }
    fs::write(work.join("a.txt"), "needle\n").unwrap();
    fs::write(work.join("sub/b.txt"), "needle\n").unwrap();
    let limit = Duration::from_secs(10);
    for (name, pattern) in [("glob", "*.txt"), ("grep", "needle")] {
        let used = use_tool(name, &work, json!({"pattern": pattern}));
        let answer = tokio::time::timeout(limit, used).await.unwrap();
        let found = blocks(
            &answer.text.lines().map(|line| line.split(':').next().unwrap()).collect::<Vec<_>>(),
        );
        assert_eq!(found, blocks(&["a.txt", "sub/b.txt"]), "{name}");
    }
}

#[tokio::test]
async fn a_cancelled_search_ends_and_a_name_cannot_pass_for_lines() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a\nb.txt"), "needle\n").unwrap();
    let answer = use_tool("glob", home.path(), json!({"pattern": "*.txt"})).await;
    assert_eq!(answer.text, "a\\nb.txt\n");
    let answer = use_tool("grep", home.path(), json!({"pattern": "needle"})).await;
    assert_eq!(answer.text, "a\\nb.txt:1:needle\n");
    for name in ["glob", "grep"] {
        let context = context(home.path());
        context.cancel.cancel();
        let answer = call(tool(name).as_ref(), json!({"pattern": "*"}), context).await;
        let expected = if name == "glob" { "cancelled" } else { "bad_pattern" };
        assert_eq!(answer.class(), expected);
    }
}

/// What this process has at most had in memory.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn what_a_workspace_holds_does_not_fill_the_memory_of_the_hive() {
    // A process of its own: others of this program would be counted too.
    const ALONE: &str = "SKEP_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "search::what_a_workspace_holds_does_not_fill_the_memory_of_the_hive";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let lines = "\n".repeat(1 << 20);
    fs::write(home.path().join("lines"), &lines).unwrap();
    // No text: each of its bytes is three once it is shown.
    fs::write(home.path().join("long"), vec![0xff_u8; 7 << 20]).unwrap();
    fs::write(home.path().join("letters"), "a".repeat(15 << 20) + "b").unwrap();
    let names = home.path().join("names");
    fs::create_dir(&names).unwrap();
    for number in 0..3_000 {
        fs::write(names.join(format!("{number:0>240}")), "").unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let table = [
        (
            "edit",
            json!({"file_path": "lines", "old_string": "\n", "new_string": "\n\n",
            "replace_all": true}),
        ),
        (
            "edit",
            json!({"file_path": "letters", "old_string": "b", "new_string": "c",
            "replace_all": true}),
        ),
        ("write", json!({"file_path": "lines", "content": "\n".repeat(1 << 19)})),
        ("grep", json!({"pattern": "(?-u:\\xff)", "path": "long", "context": 100})),
        ("grep", json!({"pattern": "^", "context": 100, "max": 10_000})),
        ("glob", json!({"pattern": "**/*"})),
        ("read", json!({"file_path": "lines"})),
        ("read", json!({"file_path": "letters"})),
    ];
    for (tool, arguments) in table {
        let short: String = arguments.to_string().chars().take(60).collect();
        let before = peak_bytes();
        let answer = runtime.block_on(use_tool(tool, home.path(), arguments));
        assert!(!answer.is_error, "{tool} {short}: {}", answer.text);
        // The kernel sums it up from counters that lag: a look may say less than the one before.
        let grown = peak_bytes().saturating_sub(before);
        assert!(grown < 64 << 20, "{tool} {short}: {} MiB", grown >> 20);
    }
}

/// Neither where numbers stand between its lines, nor where a line is cut; and no pattern finds
/// out what it is letter by letter.
#[tokio::test]
async fn attack_grep_shows_and_finds_no_part_of_a_secret() {
    let home = tempfile::tempdir().unwrap();
    let digits = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let body = format!("{digits}\n").repeat(20);
    let key = format!("-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\n");
    fs::write(home.path().join("key.pem"), format!("needle\n{key}needle\n")).unwrap();
    let token = "ghp_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4";
    let wide: Vec<u8> = [0xFF, 0xFE]
        .into_iter()
        .chain(format!("needle {token}\n").encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    fs::write(home.path().join("wide.txt"), wide).unwrap();
    for before in [900, 950, 970, 985, 990] {
        let line = format!("needle {} {token} {}\n", "x".repeat(before), "y".repeat(99));
        fs::write(home.path().join(format!("long{before}.txt")), line).unwrap();
    }
    let all = use_tool("grep", home.path(), json!({"pattern": "needle", "context": 30})).await;
    assert!(!all.text.contains("MIIE") && !all.text.contains("ghp_aB"), "{}", all.text);
    assert!(all.text.contains("key.pem-2-[secret:format.private-key]\n"), "{}", all.text);
    assert!(all.text.contains("key.pem:24:needle\n"), "{}", all.text);
    assert!(all.text.contains("wide.txt:1:needle [secret:format.github-token]\n"), "{}", all.text);
    for pattern in ["^MIIE", "ghp_aB3d", "Us8cKj$", "E5fG7"] {
        let found = use_tool("grep", home.path(), json!({"pattern": pattern})).await;
        assert_eq!(found.text, "[no line matches]\n", "{pattern}");
    }
}

#[tokio::test]
async fn attack_a_secret_in_a_name_is_not_found_by_its_letters() {
    let home = tempfile::tempdir().unwrap();
    let value = "N4me-Canary-Q7xW";
    skep_scrub::known().add([skep_scrub::Secret::new("vault.NAMED", value)]);
    fs::create_dir(home.path().join("d")).unwrap();
    fs::write(home.path().join(format!("d/f-{value}.log")), "a line\n").unwrap();
    for glob in ["f-*", "*.log", "!f-N4me*", "!*.txt", "!{f-N4meX*,g}"] {
        let shown = ("grep", json!({"pattern": "line", "glob": glob}));
        let answer = use_tool(shown.0, home.path(), shown.1).await;
        assert!(answer.text.contains("a line"), "{glob}: {answer:?}");
    }
    for glob in ["f-N4me*", "*-Q7xW.log", "{f-N4me*,g}", "f-????????????????.log"] {
        let answer = use_tool("grep", home.path(), json!({"pattern": "line", "glob": glob})).await;
        assert_eq!(answer.text, "[no line matches]\n", "{glob}");
        let answer = use_tool("glob", home.path(), json!({"pattern": format!("**/{glob}")})).await;
        assert!(!answer.text.contains("f-"), "{glob}: {answer:?}");
    }
}

/// As a pattern, the name in brackets matches any line with one of its letters.
#[tokio::test]
async fn the_name_of_a_secret_is_no_pattern() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("c"), "a line of letters\n").unwrap();
    skep_scrub::known().add([skep_scrub::Secret::new("vault.SOUGHT", "Sought-Canary-Q7x")]);
    for marker in ["[secret:vault.SOUGHT]", "[secret:format.npm-token]"] {
        for (tool, arguments) in [
            ("grep", json!({"pattern": marker})),
            ("grep", json!({"pattern": "a", "glob": format!("*{marker}")})),
            ("glob", json!({"pattern": format!("**/{marker}")})),
        ] {
            let answer = use_tool(tool, home.path(), arguments).await;
            assert_eq!(answer.class(), "secret_in_arguments", "{tool}: {answer:?}");
        }
    }
    let answer = use_tool("grep", home.path(), json!({"pattern": "[secret]"})).await;
    assert!(!answer.is_error && answer.text.contains("a line"), "{answer:?}");
}

//! The commands of README and docs, run as they stand there: page by page, each in a home of its
//! own with the rehearsal model.
//!
//! A block tagged `sh` must end with exit code 0. A block tagged `text` right behind it is what it
//! prints: its lines come in this order among others, `…` stands for anything. A block of another
//! language whose first line is a comment with a file name is that file. A page that does not
//! start a hive finds one running. `skep up` is given a port and `--detach`, port 7537 is read as
//! that port, and `cargo run --release --` is the program under test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use skep_testkit::hive::Start;
use skep_testkit::locate;

const PATIENCE: Duration = Duration::from_secs(120);

/// Blocks that are not run: page, first line, why. At most fifteen.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("README.md", "./test", "it is what runs this test"),
    (
        "docs/install.md",
        "packaging/build",
        "takes minutes; `./test --all` builds the program for release",
    ),
    ("docs/install.md", "sudo useradd --system", "changes the users and services of the machine"),
    ("docs/install.md", "sudo systemctl stop skep", "changes the services of the machine"),
    ("docs/install.md", "sudo systemctl disable", "changes the users and services of the machine"),
    ("docs/testing.md", "./test", "it is what runs this test"),
];

const TAGS: [&str; 7] = ["sh", "text", "yaml", "json", "python", "js", "ebnf"];

#[derive(Debug)]
struct Block {
    /// Of its first line, counted from 1.
    line: usize,
    tag: String,
    text: String,
    /// Nothing but blank lines stands between it and the block before.
    follows: bool,
}

struct Page {
    path: String,
    blocks: Vec<Block>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<Page> {
    let docs = fs::read_dir(root().join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let docs = docs.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    let mut paths: Vec<String> = docs.chain(["README.md".to_owned()]).collect();
    paths.sort();
    let read = |path: String| {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        Page { blocks: blocks(&text), path }
    };
    paths.into_iter().map(read).collect()
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut is_open, mut follows) = (false, false);
    for (index, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), is_open) {
            (Some(tag), false) => {
                let (line, tag) = (index + 2, tag.to_owned());
                blocks.push(Block { line, tag, text: String::new(), follows });
                is_open = true;
            }
            (Some(_), true) => (is_open, follows) = (false, true),
            (None, true) => {
                let block = blocks.last_mut().unwrap();
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, false) => follows &= line.trim().is_empty(),
        }
    }
    assert!(!is_open, "a block does not end");
    blocks
}

fn exception(page: &str, block: &Block) -> Option<usize> {
    EXCEPTIONS.iter().position(|(path, begins, _)| *path == page && block.text.starts_with(begins))
}

#[test]
fn docs_blocks_are_tagged_and_exceptions_are_few() {
    assert!(EXCEPTIONS.len() <= 15, "{} exceptions", EXCEPTIONS.len());
    let mut used = vec![0; EXCEPTIONS.len()];
    for page in pages() {
        for block in &page.blocks {
            let place = format!("{}:{}", page.path, block.line);
            assert!(TAGS.contains(&block.tag.as_str()), "{place}: tag `{}`", block.tag);
            let command = |line: &str| {
                ["skep ", "curl ", "cargo ", "sudo ", "$ "]
                    .iter()
                    .any(|word| line.starts_with(word))
            };
            let runs = block.tag == "sh" || !block.text.lines().any(command);
            assert!(runs, "{place}: commands in a block that is not tagged `sh`");
            if let Some(at) = exception(&page.path, block).filter(|_| block.tag == "sh") {
                used[at] += 1;
            }
        }
    }
    assert!(used.iter().all(|uses| *uses == 1), "an exception names no block, or two: {used:?}");
}

#[test]
fn docs_are_all_named_by_the_readme() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for page in pages().iter().filter(|page| page.path != "README.md") {
        assert!(readme.contains(&format!("({})", page.path)), "README does not name {}", page.path);
    }
}

#[tokio::test]
async fn docs_commands_run_as_they_are_written() {
    let pages = pages();
    let (mut runs, mut failed) = (tokio::task::JoinSet::new(), Vec::new());
    for (index, page) in pages.into_iter().enumerate() {
        let ran = |block: &Block| block.tag == "sh" && exception(&page.path, block).is_none();
        if page.blocks.iter().any(ran) {
            runs.spawn(async move { run(&page, free_port(index)).await });
        }
        // As many at once as a small machine has cores.
        if runs.len() >= 2 {
            failed.extend(runs.join_next().await.and_then(Result::err));
        }
    }
    // The hive of a page is stopped at its end: none is left in the middle for another's failure.
    while let Some(done) = runs.join_next().await {
        failed.extend(done.err());
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Below the range that the system hands out by itself.
pub fn free_port(page: usize) -> u16 {
    let start = 20_000 + 200 * u16::try_from(page).unwrap();
    let offset = u16::try_from(std::process::id() % 100).unwrap();
    let mut ports = start + offset..start + 200;
    ports.find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

async fn run(page: &Page, port: u16) {
    let folder = tempfile::tempdir().unwrap();
    let user = folder.path();
    let skep = locate::skep().unwrap();
    wrappers(user, &skep, port);
    let path = format!("{}:{}", user.join("bin").display(), std::env::var("PATH").unwrap());
    let mut bash = tokio::process::Command::new("bash");
    bash.args(["-eu", "-o", "pipefail", "-c", &script(page, port)]).current_dir(user).env_clear();
    bash.env("PATH", path).env("HOME", user).env("SKEP_LOCAL_SERVERS", "none");
    bash.env("LANG", "C.UTF-8").stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, bash.output()).await;
    let down = Start::new(&skep, &user.join(".skep")).argument("down");
    let _not_started = down.finish().await;
    let output = ended.unwrap_or_else(|_| panic!("{} did not end", page.path)).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let parts = said.split("@@block ").skip(1).map(|part| part.split_once('\n').unwrap());
    let parts: Vec<(&str, &str)> = parts.collect();
    assert!(
        output.status.success(),
        "{}:{} ended with {}:\n{}\n{}",
        page.path,
        parts.last().map_or("?", |(line, _)| line),
        output.status,
        said,
        String::from_utf8_lossy(&output.stderr)
    );
    for (line, printed) in parts {
        let at = page.blocks.iter().position(|block| block.line.to_string() == line).unwrap();
        let after = page.blocks.get(at + 1).filter(|next| next.follows && next.tag == "text");
        if let Some(expected) = after {
            let place = format!("{}:{}", page.path, expected.line);
            assert_printed(&place, &expected.text.replace("7537", &port.to_string()), printed);
        }
    }
}

/// The whole page as one script, so that variables of one block are there in the next.
fn script(page: &Page, port: u16) -> String {
    let starts = |block: &Block| block.text.contains("skep up") || block.text.contains("-- up");
    let mut is_up = page.blocks.iter().any(|block| block.tag == "sh" && starts(block));
    let mut script = "exec 2>&1\n".to_owned();
    for block in &page.blocks {
        let text = block.text.replace("7537", &port.to_string());
        match block.tag.as_str() {
            "sh" if exception(&page.path, block).is_some() => {}
            "sh" => {
                if !is_up {
                    script.push_str("skep up >/dev/null\n");
                    is_up = true;
                }
                script.push_str(&format!("echo '@@block {}'\n{text}", block.line));
            }
            _ => {
                let first = text.lines().next().unwrap_or_default();
                let name = first.strip_prefix("# ").or_else(|| first.strip_prefix("// "));
                let is_name = |name: &&str| !name.contains(' ') && name.contains('.');
                if let Some(name) = name.filter(is_name) {
                    let name = name.replacen("~/", "", 1);
                    script.push_str(&format!(
                        "mkdir -p \"$(dirname {name})\"\ncat > {name} <<'@@end'\n{text}@@end\n"
                    ));
                }
            }
        }
    }
    script
}

/// What stands in for the programs that a reader has: the one under test, and cargo in a clone.
pub fn wrappers(user: &Path, skep: &Path, port: u16) {
    fs::create_dir(user.join("bin")).unwrap();
    let skep = skep.display();
    let up = format!(
        "#!/bin/sh\nup=; detach=--detach\nfor word; do case $word in up) up=1;; \
         --detach) detach=;; send|chat|why|--help) break;; esac; done\n\
         [ -z \"$up\" ] || set -- \"$@\" --port {port} $detach\nexec {skep} \"$@\"\n"
    );
    let cargo =
        "#!/bin/sh\n[ \"$1 $2 $3\" = 'run --release --' ] || exit 9\nshift 3\nexec skep \"$@\"\n";
    for (name, text) in [("skep", up.as_str()), ("cargo", cargo)] {
        let path = user.join("bin").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn assert_printed(place: &str, expected: &str, printed: &str) {
    let mut lines = printed.lines();
    for wanted in expected.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let found = lines.any(|line| fits(wanted, line.trim()));
        assert!(found, "{place}: `{wanted}` was not printed, or not in this order:\n{printed}");
    }
}

/// `…` stands for anything.
fn fits(wanted: &str, line: &str) -> bool {
    let mut pieces = wanted.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for piece in pieces {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = if piece.is_empty() { "" } else { after };
    }
    rest.is_empty()
}

#[test]
fn docs_lines_of_output_fit_what_was_printed() {
    for (wanted, line, fit) in [
        ("a b", "a b", true),
        ("a b", "a b c", false),
        ("a … c", "a b b c", true),
        ("a …", "a b", true),
        ("… c", "a b c", true),
        ("a … d", "a b c", false),
    ] {
        assert_eq!(fits(wanted, line), fit, "{wanted} {line}");
    }
}

#[tokio::test]
async fn docs_block_that_fails_is_found() {
    let text = "```sh\ntrue\nfalse\n```\n\n```text\nx\n```\nwords\n```yaml\n# ~/a.yaml\n```\n";
    let found = blocks(text);
    let told: Vec<_> =
        found.iter().map(|it| (it.line, it.tag.as_str(), it.text.as_str(), it.follows)).collect();
    let expected = [
        (2, "sh", "true\nfalse\n", false),
        (7, "text", "x\n", true),
        (11, "yaml", "# ~/a.yaml\n", false),
    ];
    assert_eq!(told, expected);
    let page = Page { path: "planted.md".to_owned(), blocks: found };
    let ended = tokio::spawn(async move { run(&page, free_port(90)).await }).await;
    assert!(ended.is_err_and(|error| error.is_panic()), "a block that fails passes");
    let printed = std::panic::catch_unwind(|| assert_printed("p:1", "b\na\n", "a\nb\n"));
    assert!(printed.is_err(), "the order of what is printed does not count");
}

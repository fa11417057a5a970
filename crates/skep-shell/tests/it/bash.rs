//! The plain grammar against the real bash. For every generated line that the reader takes for
//! plain: (i) the text written anew runs exactly the judged words, (ii) bash on the line itself
//! runs the same words. Programs are stubs that record how they were called.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use skep_shell::glob::Listed;
use skep_shell::plain::{Access, Connector, Judged, Plain, Redirect, Surroundings};

use crate::lines::{self, PROGRAMS, Random, TRICKS};

const HOME: &str = "/tmp/home";
/// Lines that one bash runs, each in a shell of its own below it.
const BATCH: usize = 100;
const DRIVER: &str = "n=0; while IFS= read -r -d '' line; do \
                      ( export SKEP_N=$n; eval -- \"$line\" ) </dev/null >/dev/null 2>&1; \
                      n=$((n+1)); done <\"$1\"";

/// A call of a stub, or one that is expected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    folder: String,
    a: String,
    b: String,
    words: Vec<String>,
}

/// A folder with files to name, and the stubs.
struct Rig {
    root: PathBuf,
    work: PathBuf,
    bins: PathBuf,
}

impl Rig {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("skep-bash-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let (work, bins) = (root.join("work"), root.join("bin"));
        for folder in ["f/sub", "g", "o"] {
            fs::create_dir_all(work.join(folder)).unwrap();
        }
        fs::create_dir_all(&bins).unwrap();
        let files =
            ["in.txt", "x.txt", "y", "f/a.txt", "f/b c.tat", "f/.h", "f/d'q", "f/sub/z", "g/é"];
        for file in files {
            fs::write(work.join(file), format!("text of {file}\n")).unwrap();
        }
        symlink("f", work.join("ln")).unwrap();
        let (stub, source) =
            (root.join("stub"), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/stub.c"));
        let built = Command::new("cc").args(["-O1", "-o"]).arg(&stub).arg(source).status().unwrap();
        assert!(built.success());
        for program in PROGRAMS {
            symlink(&stub, bins.join(program)).unwrap();
        }
        let work = work.canonicalize().unwrap();
        Self { root, work, bins }
    }

    /// What each of the scripts called.
    fn run(&self, scripts: &[String]) -> Vec<Vec<(Call, Vec<u8>)>> {
        let (input, record) = (self.root.join("scripts"), self.root.join("record"));
        let mut text = scripts.join("\0").into_bytes();
        text.push(0);
        fs::write(&input, text).unwrap();
        let _ = fs::remove_file(&record);
        let status = Command::new("/usr/bin/timeout")
            .args(["300", "/bin/bash", "-c", DRIVER, "driver"])
            .arg(&input)
            .env_clear()
            .env("PATH", &self.bins)
            .env("HOME", HOME)
            .env("LANG", "C.UTF-8")
            .env("SKEP_RECORD", &record)
            .current_dir(&self.work)
            .stdin(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{status}");
        let mut calls = vec![Vec::new(); scripts.len()];
        let bytes = fs::read(&record).unwrap_or_default();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap();
            let length: usize = std::str::from_utf8(&rest[..end]).unwrap().parse().unwrap();
            let (payload, behind) = rest[end + 1..].split_at(length);
            rest = behind;
            let fields: Vec<&[u8]> = payload[..length - 1].split(|byte| *byte == 0).collect();
            let text = |place: usize| String::from_utf8_lossy(fields[place]).into_owned();
            let words = (5..fields.len()).map(text).collect();
            let call = Call { folder: text(1), a: text(2), b: text(3), words };
            calls[text(0).parse::<usize>().unwrap()].push((call, fields[4].to_vec()));
        }
        calls
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Surroundings for Rig {
    fn home(&self) -> Option<&str> {
        Some(HOME)
    }

    fn workspace(&self) -> Option<&str> {
        self.work.to_str()
    }

    fn list(&self, folder: &str) -> Result<Listed, String> {
        let path = self.work.join(folder);
        let inside = path.canonicalize().is_ok_and(|path| path.starts_with(&self.work));
        // What redirections make is in `o`.
        if folder.split('/').any(|name| name == "o") || (path.exists() && !inside) {
            return Err("not listed".to_owned());
        }
        let Ok(entries) = fs::read_dir(&path) else { return Ok(Vec::new()) };
        let entries = entries.map(|entry| entry.unwrap());
        Ok(entries.map(|e| (e.file_name().into_string().unwrap(), e.path().is_dir())).collect())
    }

    fn enter(&self, folder: &str, _: bool) -> Result<(), String> {
        let path = self.work.join(folder);
        match path.is_dir() && path.canonicalize().is_ok_and(|real| real == path) {
            true => Ok(()),
            false => Err("no such folder".to_owned()),
        }
    }

    fn target(&self, folder: &str, path: &str) -> Result<String, String> {
        let fits = match path.strip_prefix("o/") {
            Some(name) => !name.is_empty() && !name.contains('/') && !name.starts_with('.'),
            None => path == "in.txt",
        };
        match fits && folder.is_empty() {
            true => Ok(path.to_owned()),
            false => Err("elsewhere".to_owned()),
        }
    }
}

/// What a judged line has to call, and the inputs of calls that redirect theirs.
#[derive(Default)]
struct Expected {
    calls: Vec<Call>,
    inputs: Vec<(Vec<String>, Vec<u8>)>,
}

/// Runs a judged line on paper. `builtin` programs leave no record.
fn expected(rig: &Rig, judged: &Judged, builtin: &[&str]) -> Expected {
    let mut expected = Expected::default();
    let (mut status, mut runs, mut failing_ends, mut pipefail) = (0, true, false, false);
    let mut piped = 0;
    for (place, command) in judged.commands.iter().enumerate() {
        let words = &command.words;
        let last_of_pipe = !matches!(command.then, Connector::Pipe | Connector::PipeBoth);
        let own = match words[0].as_str() {
            _ if !runs => 0,
            "exit" if last_of_pipe && (place == 0 || !in_pipe(judged, place)) => return expected,
            "exit" => words[1].parse().unwrap(),
            "set" => {
                // In a pipe it is said to a shell that ends with it.
                if !in_pipe(judged, place) {
                    failing_ends |=
                        words[1..].iter().any(|w| w.starts_with('-') && w.contains('e'));
                    pipefail |= words.iter().any(|word| word == "pipefail");
                }
                0
            }
            "cd" | ":" => 0,
            program if PROGRAMS.contains(&program) => {
                if !builtin.contains(&program) {
                    call(rig, judged, place, &mut expected);
                }
                i32::from(program == "no")
            }
            _ => 127,
        };
        piped = if own != 0 && pipefail { own } else { piped };
        if !last_of_pipe {
            continue;
        }
        if runs {
            status = if own == 0 { piped } else { own };
        }
        if runs
            && status != 0
            && failing_ends
            && matches!(command.then, Connector::Next | Connector::End)
        {
            return expected;
        }
        piped = 0;
        runs = match command.then {
            Connector::And => status == 0,
            Connector::Or => status != 0,
            _ => true,
        };
    }
    expected
}

fn in_pipe(judged: &Judged, place: usize) -> bool {
    let pipe = |link| matches!(link, Connector::Pipe | Connector::PipeBoth);
    pipe(judged.commands[place].then) || (place > 0 && pipe(judged.commands[place - 1].then))
}

fn call(rig: &Rig, judged: &Judged, place: usize, expected: &mut Expected) {
    let command = &judged.commands[place];
    let value = |name: &str| {
        let own = command.assigns.iter().rev().find(|(own, _)| own == name);
        own.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let folder = rig.work.join(&judged.folders[place]);
    let folder = folder.to_str().unwrap().trim_end_matches('/').to_owned();
    let words = command.words.clone();
    let mut input = None;
    for redirect in &command.redirects {
        match redirect {
            Redirect::Body(text) => input = Some(text.clone().into_bytes()),
            Redirect::File { access, target, .. } if *access == Access::Read => {
                let path = Path::new(target);
                input = Some(fs::read(rig.work.join(path)).unwrap_or_default());
            }
            _ => {}
        }
    }
    expected.inputs.extend(input.map(|input| (words.clone(), input)));
    expected.calls.push(Call { folder, a: value("A"), b: value("B"), words });
}

fn differs(expected: Expected, found: &[(Call, Vec<u8>)]) -> Option<String> {
    let (mut wanted, mut got) = (expected.calls, Vec::new());
    got.extend(found.iter().map(|(call, _)| call.clone()));
    wanted.sort();
    got.sort();
    if wanted != got {
        return Some(format!("judged {wanted:#?}\nran {got:#?}"));
    }
    let missing = expected.inputs.iter().find(|(words, input)| {
        !found.iter().any(|(call, own)| call.words == *words && own == input)
    });
    missing.map(|input| format!("input {input:?} of {found:?}"))
}

#[derive(Default)]
struct Tally {
    lines: usize,
    plain: usize,
    tricks: BTreeMap<usize, usize>,
    wrong: Vec<String>,
}

/// How the reader under test sees a line; a faulty one sees another.
type Sees = fn(&str) -> String;

fn compare(rig: &Rig, random: &mut Random, sees: Sees, tally: &mut Tally) {
    let mut batch: Vec<(String, Judged)> = Vec::new();
    for _ in 0..BATCH {
        let line = lines::line(random);
        tally.lines += 1;
        if let Some(trick) = line.trick {
            *tally.tricks.entry(trick).or_default() += 1;
        }
        let plain = Plain::read(&sees(&line.text)).ok();
        // What a line reads no line writes.
        let apart = |judged: &Judged| {
            let fits =
                |(access, path): &(Access, String)| (*access == Access::Read) == (path == "in.txt");
            judged.targets.iter().all(fits)
        };
        if let Some(judged) = plain.and_then(|plain| plain.judge(rig).ok()).filter(apart) {
            tally.plain += 1;
            batch.push((line.text, judged));
        }
    }
    let anew: Vec<String> = batch.iter().map(|(_, judged)| judged.run_as()).collect();
    // The same without builtins, because `test` and others would look into quoted words.
    let same = batch.iter().map(|(line, judged)| {
        let prologue = judged.run_as();
        format!("{}{line}", prologue.strip_suffix(&judged.text()).unwrap())
    });
    let same: Vec<String> = same.collect();
    // And as bash is: of builtins in these lines only `echo` is harmless.
    let calls = |judged: &Judged, name: &str| {
        judged.commands.iter().any(|command| command.words[0] == name)
    };
    // An `echo` into a program that has ended already ends a line under `pipefail`.
    let races = |line: &str, judged: &Judged| line.contains("pipefail") && calls(judged, "echo");
    let bare = batch.iter().filter(|(line, it)| !calls(it, "test") && !races(line, it));
    let bare: Vec<&(String, Judged)> = bare.collect();
    let raw: Vec<String> = bare.iter().map(|(line, _)| line.clone()).collect();
    let all = batch.iter().collect::<Vec<_>>();
    let runs = [
        ("anew", &anew, &all, &[][..]),
        ("same", &same, &all, &[]),
        ("raw", &raw, &bare, &["echo"]),
    ];
    for (name, scripts, batch, builtin) in runs {
        for ((line, judged), found) in batch.iter().zip(rig.run(scripts)) {
            if let Some(how) = differs(expected(rig, judged, builtin), &found) {
                let text = judged.text();
                tally.wrong.push(format!("{name}: {line:?}\nwritten anew {text:?}\n{how}"));
            }
        }
    }
}

fn as_it_is(line: &str) -> String {
    line.to_owned()
}

#[test]
fn gate_plain_lines_run_as_bash_reads_them() {
    let all = std::env::var_os("SKEP_TEST_ALL").is_some_and(|value| value == "1");
    let count = if all { 100_000 } else { 5_000 };
    let found = AtomicBool::new(false);
    let work = |seed: u64| {
        let rig = Rig::new(&format!("lines{seed}"));
        let (mut random, mut tally) = (Random(0x9E37_79B9_7F4A_7C15 ^ seed), Tally::default());
        while tally.lines < count / 2 && !found.load(Ordering::Relaxed) {
            compare(&rig, &mut random, as_it_is, &mut tally);
            found.fetch_or(!tally.wrong.is_empty(), Ordering::Relaxed);
        }
        tally
    };
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| work(2));
        (work(1), second.join().unwrap())
    });
    let wrong: Vec<String> = first.wrong.into_iter().chain(second.wrong).take(3).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let (lines, plain) = (first.lines + second.lines, first.plain + second.plain);
    println!("{plain} of {lines} lines are plain; tricks: {:?}", first.tricks);
    assert!(lines >= count && plain * 10 >= lines * 3, "{plain} of {lines} are plain");
    for (trick, name) in TRICKS.iter().enumerate() {
        let times =
            first.tricks.get(&trick).unwrap_or(&0) + second.tricks.get(&trick).unwrap_or(&0);
        assert!(times * 100 >= lines, "{name}: {times} times in {lines} lines");
    }
}

/// Walks over the line: `change` is told what stands outside (`None`) or inside of quotes.
fn walk(
    line: &str,
    change: impl Fn(Option<char>, char, &mut std::iter::Peekable<std::str::Chars<'_>>, &mut String),
) -> String {
    let (mut text, mut quote, mut rest) = (String::new(), None, line.chars().peekable());
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            _ => {}
        }
        change(quote, c, &mut rest, &mut text);
    }
    text
}

/// A reader for which a backslash in double quotes takes away the meaning of anything.
fn drops_backslashes(line: &str) -> String {
    walk(line, |quote, c, rest, text| match (quote, c, rest.peek()) {
        (Some('"'), '\\', Some(next)) if "$`\"\\\n".contains(*next) => {
            text.push(c);
            text.extend(rest.next());
        }
        (Some('"'), '\\', Some(_)) => text.extend(rest.next()),
        (None, '\\', Some(_)) => {
            text.push(c);
            text.extend(rest.next());
        }
        _ => text.push(c),
    })
}

/// A reader for which a comment begins inside of a word.
fn cuts_at_hashes(line: &str) -> String {
    walk(line, |quote, c, rest, text| match (quote, c) {
        (None, '#') => text.push_str(" #"),
        (None, '\\') => {
            text.push(c);
            text.extend(rest.next());
        }
        _ => text.push(c),
    })
}

/// A reader for which `$'` opens a quote inside of double quotes too.
fn opens_dollar_quotes(line: &str) -> String {
    let Some((before, rest)) = line.split_once("\"$'\"") else { return line.to_owned() };
    let Some((inside, after)) = rest.split_once("\"'\"") else { return line.to_owned() };
    format!("{before}'{}'{after}", inside.replace('\'', ""))
}

#[test]
fn gate_plain_reader_bugs_are_found() {
    let bugs: [(&str, Sees); 3] = [
        ("backslash", drops_backslashes),
        ("hash", cuts_at_hashes),
        ("dollar", opens_dollar_quotes),
    ];
    let rig = Rig::new("bugs");
    for (name, sees) in bugs {
        let (mut random, mut tally) = (Random(7), Tally::default());
        while tally.wrong.is_empty() && tally.lines < 3_000 {
            compare(&rig, &mut random, sees, &mut tally);
        }
        assert!(!tally.wrong.is_empty(), "{name} was not found in {} lines", tally.lines);
        println!("{name}: found within {} lines", tally.lines);
    }
}

//! Commands that run other commands: what is inside is a part of the line too.

use super::parser;
use super::{Part, Simple, Word};

/// A program that runs the command written behind it.
struct Wrapper {
    name: &'static str,
    /// Options that take the next word with them.
    valued: &'static [&'static str],
    /// Options that stand alone.
    flags: &'static [&'static str],
    /// Words of its own before the command.
    own: usize,
}

const fn wrapper(
    name: &'static str,
    valued: &'static [&'static str],
    flags: &'static [&'static str],
    own: usize,
) -> Wrapper {
    Wrapper { name, valued, flags, own }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("env", &["-u", "-C"], &["-i", "-0", "-"], 0),
    wrapper("sudo", &["-u", "-g", "-h", "-p", "-C", "-T", "-D"], &["-n", "-E", "-H", "-S"], 0),
    wrapper("doas", &["-u", "-C"], &["-n"], 0),
    wrapper("nice", &["-n"], &[], 0),
    wrapper("ionice", &["-c", "-n"], &["-t"], 0),
    wrapper("nohup", &[], &[], 0),
    wrapper("setsid", &[], &["-f", "-w"], 0),
    wrapper("stdbuf", &["-i", "-o", "-e"], &[], 0),
    wrapper("timeout", &["-s", "-k"], &["-v", "--foreground", "--preserve-status"], 1),
    wrapper("time", &["-f", "-o"], &["-p", "-v"], 0),
    wrapper("xargs", &["-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s"], &["-0", "-r", "-t"], 0),
    wrapper("exec", &["-a"], &["-c", "-l"], 0),
    wrapper("command", &[], &["-p"], 0),
    wrapper("builtin", &[], &[], 0),
    wrapper("chroot", &[], &[], 1),
    wrapper("busybox", &[], &[], 0),
    wrapper("strace", &["-o", "-e"], &["-f"], 0),
    wrapper("watch", &["-n"], &["-d", "-t"], 0),
    wrapper("flock", &["-w"], &["-n", "-x", "-s"], 1),
    wrapper("ssh", &["-p", "-i", "-l", "-o"], &["-q", "-T", "-t"], 1),
];

/// Programs that run what stands behind them, somewhere behind words of their own.
const LOOSE: &[&str] = &[
    "bwrap",
    "capsh",
    "choom",
    "chrt",
    "dbus-run-session",
    "eatmydata",
    "fakeroot",
    "gdb",
    "linux32",
    "linux64",
    "ltrace",
    "nsenter",
    "numactl",
    "perf",
    "pkexec",
    "prlimit",
    "rlwrap",
    "runuser",
    "setarch",
    "setpriv",
    "start-stop-daemon",
    "systemd-run",
    "taskset",
    "toybox",
    "unbuffer",
    "unshare",
    "valgrind",
    "xvfb-run",
];

/// Programs and builtins of the shell whose words are read in ways of their own, or that change
/// what the words after them mean.
const UNREAD: &[&str] =
    &["alias", "bind", "compgen", "complete", "enable", "parallel", "script", "su"];

/// Builtins that look into the subscripts of names they are given.
const SUBSCRIPTS: &[&str] = &[
    "[",
    "declare",
    "export",
    "getopts",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "test",
    "typeset",
    "unset",
    "wait",
];

const SHELLS: &[&str] =
    &["sh", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh"];

const BEGINNING_UNKNOWN: &str = "an option of the program before it is not known";

/// Appends what the command runs besides itself.
pub(super) fn unwrap(
    simple: &Simple,
    depth: usize,
    parts: &mut Vec<Part>,
) -> Result<(), &'static str> {
    let depth = parser::deeper(depth)?;
    let Some((Word::Plain(first), words)) = simple.words.split_first() else { return Ok(()) };
    let name = super::super::pattern::base_name(first);
    if SHELLS.contains(&name) {
        return script(words, depth, parts);
    }
    match name {
        "eval" => return evaluated(words, depth, parts),
        "trap" => return trapped(words, depth, parts),
        "." | "source" => return sourced(words),
        "find" => return found(words, depth, parts),
        "hash" if has_option(words, 'p') => return Err("it changes what a word means"),
        "mapfile" | "readarray" if has_option(words, 'C') => {
            return Err("it runs a command for each line");
        }
        _ if UNREAD.contains(&name) => return Err("what runs by alias, su and such is not read"),
        _ if SUBSCRIPTS.contains(&name) => return subscripts(words),
        _ if LOOSE.contains(&name) || is_loader(name) => return loose(words, parts),
        _ => {}
    }
    match WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
        Some(wrapper) => wrapped(wrapper, words, depth, parts),
        None => Ok(()),
    }
}

/// `ld-linux-x86-64.so.2 PROGRAM`.
fn is_loader(name: &str) -> bool {
    name == "ld.so" || (name.starts_with("ld-") && name.contains(".so"))
}

/// A short option among others, or with its value: `-p`, `-tp`, `-pNAME`. What is not known may
/// be one.
fn has_option(words: &[Word], option: char) -> bool {
    words.iter().any(|word| match word.plain() {
        Some(text) => text.starts_with('-') && text.contains(option),
        None => true,
    })
}

fn subscripts(words: &[Word]) -> Result<(), &'static str> {
    match words.iter().filter_map(Word::plain).any(parser::holds_command) {
        true => Err("a command may stand in a subscript"),
        false => Ok(()),
    }
}

/// What a shell runs: the text after `-c`, or a file.
fn script(words: &[Word], depth: usize, parts: &mut Vec<Part>) -> Result<(), &'static str> {
    let (mut place, mut has_text) = (0, false);
    while let Some(word) = words.get(place) {
        let text = word.plain().ok_or("an option of a shell is not known")?;
        let Some(letters) = text.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty())
        else {
            break;
        };
        place += 1;
        match text {
            "--rcfile" | "--init-file" => place += 1,
            "--login" | "--norc" | "--noprofile" | "--posix" | "--restricted" | "--verbose" => {}
            "--version" | "--help" => return Ok(()),
            "--" => break,
            _ if letters.starts_with('-') => return Err("an option of a shell is not known"),
            _ => {
                has_text |= text.starts_with('-') && letters.contains('c');
                if letters.contains('s') {
                    return Err("a shell reads what it runs");
                }
                // Each takes a word with it.
                place += letters.chars().filter(|letter| "oO".contains(*letter)).count();
            }
        }
    }
    match words.get(place) {
        Some(Word::Plain(script)) if has_text => parser::read(script, depth, parts),
        Some(_) if has_text => Err("the script of a shell is not known"),
        None if has_text => Ok(()),
        _ => sourced(&words[place.min(words.len())..]),
    }
}

/// A file with commands, which is taken for a program like others; unless it is none.
fn sourced(words: &[Word]) -> Result<(), &'static str> {
    let words = match words {
        [Word::Plain(first), rest @ ..] if first == "--" => rest,
        words => words,
    };
    match words.first() {
        Some(Word::Plain(file)) if file != "-" && !file.contains("/dev/") => {
            match file.contains("/proc/") {
                true => Err("a shell reads what it runs"),
                false => Ok(()),
            }
        }
        Some(Word::Plain(_)) | None => Err("a shell reads what it runs"),
        Some(Word::Unknown) => Err("the script of a shell is not known"),
    }
}

fn evaluated(words: &[Word], depth: usize, parts: &mut Vec<Part>) -> Result<(), &'static str> {
    let known: Option<Vec<&str>> = words.iter().map(Word::plain).collect();
    let known = known.ok_or("what eval runs is not known")?;
    let known = known.strip_prefix(&["--"]).unwrap_or(&known);
    parser::read(&known.join(" "), depth, parts)
}

/// `trap COMMAND SIGNAL…`.
fn trapped(words: &[Word], depth: usize, parts: &mut Vec<Part>) -> Result<(), &'static str> {
    let command = words.iter().find(|word| word.plain() != Some("--"));
    match command {
        Some(Word::Plain(text)) => parser::read(text, depth, parts),
        Some(Word::Unknown) => Err("what trap runs is not known"),
        None => Ok(()),
    }
}

/// Every `-exec` of a `find`, up to its `;` or `{} +`.
fn found(words: &[Word], depth: usize, parts: &mut Vec<Part>) -> Result<(), &'static str> {
    let mut place = 0;
    while let Some(word) = words.get(place) {
        place += 1;
        match word.plain() {
            Some("-exec" | "-execdir" | "-ok" | "-okdir") => {}
            Some(_) => continue,
            // It may be an `-exec` with all that belongs to it.
            None => {
                let words = vec![Word::Unknown];
                let never = Some("what find runs is not known");
                parser::push(parts, Simple { words, never, anywhere: false })?;
                continue;
            }
        }
        let rest = &words[place..];
        let is = |at: usize, text: &str| rest.get(at).and_then(Word::plain) == Some(text);
        let ends = |at: &usize| is(*at, ";") || (*at > 0 && is(*at, "+") && is(*at - 1, "{}"));
        let length = (0..rest.len()).find(ends).unwrap_or(rest.len());
        place += length;
        // The names it finds.
        let named = rest[..length].iter().map(|word| match word.plain() {
            Some(text) if !text.contains("{}") => word.clone(),
            _ => Word::Unknown,
        });
        inner(named.collect(), Some("find gives it names"), depth, parts)?;
    }
    Ok(())
}

/// One of the words begins a command.
fn loose(words: &[Word], parts: &mut Vec<Part>) -> Result<(), &'static str> {
    no_text_to_run(words)?;
    let never = Some(BEGINNING_UNKNOWN);
    parser::push(parts, Simple { words: words.to_vec(), never, anywhere: true })
}

/// Where it is not sure which word begins a command, none may be a shell or a text for one.
fn no_text_to_run(words: &[Word]) -> Result<(), &'static str> {
    let runs_text = |text: &str| {
        let name = super::super::pattern::base_name(text);
        text.contains(char::is_whitespace) || SHELLS.contains(&name) || name == "find"
    };
    match words.iter().filter_map(Word::plain).any(runs_text) {
        true => Err("where the command begins is not known"),
        false => Ok(()),
    }
}

fn wrapped(
    wrapper: &Wrapper,
    words: &[Word],
    depth: usize,
    parts: &mut Vec<Part>,
) -> Result<(), &'static str> {
    let (mut place, mut own, mut never) = (0, wrapper.own, None);
    loop {
        let Some(word) = words.get(place) else { return Ok(()) };
        let Some(text) = word.plain() else { break };
        if text == "--" {
            place += 1;
            break;
        } else if wrapper.valued.contains(&text) {
            place += 2;
        } else if wrapper.flags.contains(&text) || has_its_value(wrapper, text) {
            place += 1;
        } else if wrapper.name == "env" && splits(text) {
            return Err("env splits a word into several");
        } else if text.starts_with('-') {
            // Whether the next word belongs to it is not known.
            never = Some(BEGINNING_UNKNOWN);
            place += 1;
        } else if matches!(wrapper.name, "env" | "sudo" | "doas") && text.contains('=') {
            never = Some("it sets variables");
            place += 1;
        } else if own > 0 {
            own -= 1;
            place += 1;
        } else {
            break;
        }
    }
    if place >= words.len() {
        return Ok(());
    }
    let unsure = never == Some(BEGINNING_UNKNOWN)
        || words[..place].iter().any(|word| word.plain().is_none());
    // `ssh` and `watch` hand their words to a shell as one text.
    if matches!(wrapper.name, "ssh" | "watch") {
        let known: Option<Vec<&str>> = words[place..].iter().map(Word::plain).collect();
        let known = known.ok_or("what runs elsewhere is not known")?;
        parser::read(&known.join(" "), depth, parts)?;
    } else if unsure {
        no_text_to_run(words)?;
    }
    let begins = words[place].plain().unwrap_or_default();
    if wrapper.name == "time" && parser::BEFORE_COMMANDS.contains(&begins) {
        return Err("it takes the time of more than a command");
    }
    let mut words = words.to_vec();
    if wrapper.name == "xargs" {
        never = Some("its arguments come from elsewhere");
        let replaces = |word: &Word| {
            let option = |text: &str| ["-I", "-i", "--replace"].iter().any(|o| text.starts_with(o));
            word.plain().is_some_and(option)
        };
        // What is read stands at the end, or in the place of words; never in that of the program.
        if words[..place].iter().any(replaces) {
            words[place + 1..].fill(Word::Unknown);
        }
        words.push(Word::Unknown);
    }
    if unsure {
        unwrap(&Simple { words: words[place..].to_vec(), ..Simple::default() }, depth, parts)?;
        return parser::push(parts, Simple { words, never, anywhere: true });
    }
    inner(words.split_off(place), never, depth, parts)
}

/// `-n1` for `-n 1`.
fn has_its_value(wrapper: &Wrapper, option: &str) -> bool {
    !option.starts_with("--") && option.get(..2).is_some_and(|name| wrapper.valued.contains(&name))
}

/// `-S`, alone, among others or with what it splits.
fn splits(option: &str) -> bool {
    option.starts_with("--s")
        || (option.starts_with('-') && !option.starts_with("--") && option.contains('S'))
}

fn inner(
    words: Vec<Word>,
    never: Option<&'static str>,
    depth: usize,
    parts: &mut Vec<Part>,
) -> Result<(), &'static str> {
    let simple = Simple { words, never, anywhere: false };
    unwrap(&simple, depth, parts)?;
    parser::push(parts, simple)
}

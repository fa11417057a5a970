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
    wrapper("su", &["-s"], &["-", "-l"], 0),
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
    wrapper("unshare", &[], &[], 0),
    wrapper("nsenter", &[], &[], 0),
    wrapper("ssh", &["-p", "-i", "-l", "-o"], &["-q", "-T", "-t"], 1),
    wrapper("parallel", &["-j"], &[], 0),
];

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "ash", "fish"];

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
    if name == "eval" {
        return evaluated(words, depth, parts);
    }
    if name == "find" {
        for (place, word) in words.iter().enumerate() {
            if matches!(word.plain(), Some("-exec" | "-execdir" | "-ok" | "-okdir")) {
                inner(&words[place + 1..], Some("find gives it names"), depth, parts)?;
            }
        }
        return Ok(());
    }
    match WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
        Some(wrapper) => wrapped(wrapper, words, depth, parts),
        None => Ok(()),
    }
}

/// The text after `-c` of a shell.
fn script(words: &[Word], depth: usize, parts: &mut Vec<Part>) -> Result<(), &'static str> {
    for (place, word) in words.iter().enumerate() {
        let Some(text) = word.plain() else {
            return Err("an option of a shell is not known");
        };
        if !text.starts_with(['-', '+']) {
            return Ok(());
        }
        if !text.starts_with("--") && text.contains('c') {
            return match words.get(place + 1) {
                Some(Word::Plain(script)) => parser::read(script, depth, parts),
                Some(Word::Unknown) => Err("the script of a shell is not known"),
                None => Ok(()),
            };
        }
    }
    Ok(())
}

fn evaluated(words: &[Word], depth: usize, parts: &mut Vec<Part>) -> Result<(), &'static str> {
    let known: Option<Vec<&str>> = words.iter().map(Word::plain).collect();
    let known = known.ok_or("what eval runs is not known")?;
    parser::read(&known.join(" "), depth, parts)
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
        } else if wrapper.flags.contains(&text) {
            place += 1;
        } else if text.starts_with('-') {
            // Whether the next word belongs to it is not known.
            never = Some("an option of the program before it is not known");
            place += 1;
        } else if wrapper.name == "env" && text.contains('=') {
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
    let unsure = matches!(never, Some(why) if why.starts_with("an option"))
        || words[..place].iter().any(|word| word.plain().is_none());
    let from = if unsure { 0 } else { place };
    let never = match wrapper.name {
        "xargs" | "parallel" => Some("its arguments come from elsewhere"),
        _ => never,
    };
    // `ssh` and `watch` hand their words to a shell as one text.
    if matches!(wrapper.name, "ssh" | "watch" | "su") {
        let known: Option<Vec<&str>> = words[place..].iter().map(Word::plain).collect();
        let known = known.ok_or("what runs elsewhere is not known")?;
        parser::read(&known.join(" "), depth, parts)?;
    }
    let simple = Simple { words: words[from..].to_vec(), never, anywhere: unsure };
    unwrap(&Simple { words: words[place..].to_vec(), ..simple.clone() }, depth, parts)?;
    parts.push(Part::Command(simple));
    Ok(())
}

fn inner(
    words: &[Word],
    never: Option<&'static str>,
    depth: usize,
    parts: &mut Vec<Part>,
) -> Result<(), &'static str> {
    let simple = Simple { words: words.to_vec(), never, anywhere: false };
    unwrap(&simple, depth, parts)?;
    parts.push(Part::Command(simple));
    Ok(())
}

//! Commands that run other commands: what is inside is a part of the line too.

use std::sync::Arc;

use crate::base_name;
use crate::line::{Cover, Part, Simple, Word};
use crate::parser::{self, Understood};

/// Programs that run the command written behind them: name, how many words of their own stand
/// before it, options that take the next word with them, options that stand alone.
const WRAPPERS: &[(&str, usize, &str, &str)] = &[
    ("env", 0, "-u -C", "-i -0 -"),
    ("sudo", 0, "-u -g -h -p -C -T -D", "-n -E -H -S"),
    ("nice", 0, "-n", ""),
    ("nohup", 0, "", ""),
    ("setsid", 0, "", "-f -w"),
    ("stdbuf", 0, "-i -o -e", ""),
    ("timeout", 1, "-s -k", "-v --foreground --preserve-status"),
    ("time", 0, "-f -o", "-p -v"),
    ("xargs", 0, "-I -n -P -L -d -a -E -s", "-0 -r -t"),
    ("exec", 0, "-a", "-c -l"),
    ("command", 0, "", "-p"),
    ("builtin", 0, "", ""),
    ("watch", 0, "-n", "-d -t"),
    ("flock", 1, "-w", "-n -x -s"),
    ("ssh", 1, "-p -i -l -o", "-q -T -t"),
];

/// Programs that run what stands behind them, somewhere behind words of their own.
const LOOSE: &str = "busybox bwrap capsh choom chroot chrt coresched dbus-run-session doas \
    eatmydata entr fakeroot gdb i386 ionice linux32 linux64 logsave ltrace nsenter numactl perf \
    pkexec prlimit rlwrap runcon runuser setarch setpriv sg ssh-agent start-stop-daemon strace \
    systemd-run taskset toybox uclampset uname26 unbuffer unshare valgrind x86_64 xvfb-run";

/// Programs and builtins of the shell whose words are read in ways of their own, or that change
/// what the words after them mean.
const UNREAD: &str =
    "alias bind compgen complete enable fc hash mapfile parallel readarray script su";

/// Builtins that look into the subscripts of names they are given.
const SUBSCRIPTS: &str =
    "[ declare export getopts let local printf read readonly test typeset unset wait";

/// Those of them that set an element where they are given one.
const SETTERS: &str = "declare getopts let local read readonly typeset";

const SHELLS: &str = "sh bash rbash dash zsh ksh mksh ash fish csh tcsh";

const BEGINNING_UNKNOWN: &str = "an option of the program before it is not known";

pub(crate) fn is_among(name: &str, names: &str) -> bool {
    names.split(' ').any(|other| other == name)
}

/// Appends what the command runs besides itself.
pub(crate) fn unwrap(simple: &mut Simple, depth: usize, parts: &mut Vec<Part>) -> Understood {
    let depth = parser::deeper(depth)?;
    let Some((Word::Plain(first), words)) = simple.words.split_first() else { return Ok(()) };
    let name = base_name(first);
    let text = match name {
        _ if is_among(name, SHELLS) => script(words)?,
        "eval" | "trap" => Some(joined(words)?),
        "." | "source" => return sourced(words),
        "find" => return found(words, depth, parts),
        _ if is_among(name, UNREAD) => return Err("what runs by alias, su and such is not read"),
        _ if is_among(name, SUBSCRIPTS) => {
            let looked_into = words.iter().filter_map(Word::plain).any(parser::holds_command);
            // Which program a name stands for is an element of a variable of the shell's.
            let element = |word: &Word| word.plain().is_none_or(|word| word.contains('['));
            return match () {
                () if looked_into => Err("a command may stand in a subscript"),
                () if is_among(name, SETTERS) && words.iter().any(element) => {
                    Err("it may set an element of a variable")
                }
                () => Ok(()),
            };
        }
        // `ld-linux-x86-64.so.2 PROGRAM`.
        _ if is_among(name, LOOSE) || (name.starts_with("ld") && name.contains(".so")) => {
            return loose(words, parts);
        }
        _ => match WRAPPERS.iter().find(|wrapper| wrapper.0 == name) {
            Some(wrapper) => wrapped(wrapper, words, depth, parts)?,
            None => return Ok(()),
        },
    };
    let Some(text) = text else { return Ok(()) };
    if simple.cover == Cover::Words {
        simple.cover = Cover::Exactly;
    }
    let (outer, from) = (Arc::new(simple.clone()), parts.len());
    if let Err(why) = parser::read(&text, depth, parts) {
        parser::push(parts, Part::Unknown { why, cover: Cover::Words })?;
    }
    parts[from..].iter_mut().for_each(|part| part.cover_by(Cover::By(Arc::clone(&outer))));
    Ok(())
}

/// The words as one text, for those who hand them to a shell.
fn joined(words: &[Word]) -> Understood<String> {
    let known: Option<Vec<&str>> = words.iter().map(Word::plain).collect();
    let known = known.ok_or("the text that runs is not known")?;
    Ok(known.strip_prefix(&["--"]).unwrap_or(&known).join(" "))
}

/// What a shell runs: the text after `-c`, or a file.
fn script(words: &[Word]) -> Understood<Option<String>> {
    let (mut place, mut has_text) = (0, false);
    while let Some(word) = words.get(place) {
        let text = word.plain().ok_or("an option of a shell is not known")?;
        let Some(letters) = text.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty())
        else {
            break;
        };
        place += 1;
        match text {
            "--login" | "--norc" | "--noprofile" | "--posix" | "--restricted" | "--verbose" => {}
            "--version" | "--help" => return Ok(None),
            "--" => break,
            _ if letters.starts_with('-') || letters.contains('s') => {
                return Err("an option of a shell is not known, or it reads what it runs");
            }
            _ => {
                has_text |= text.starts_with('-') && letters.contains('c');
                // Each takes a word with it.
                place += letters.chars().filter(|letter| "oO".contains(*letter)).count();
            }
        }
    }
    match words.get(place) {
        Some(Word::Plain(script)) if has_text => Ok(Some(script.clone())),
        Some(_) if has_text => Err("the script of a shell is not known"),
        None if has_text => Ok(None),
        _ => sourced(&words[place.min(words.len())..]).map(|()| None),
    }
}

/// A file with commands, which is taken for a program like others; unless it is none.
fn sourced(words: &[Word]) -> Understood {
    let own = matches!(words.first().and_then(Word::plain), Some("--"));
    let file = words.get(usize::from(own)).and_then(Word::plain);
    let read = |file: &str| file == "-" || file.contains("/dev/") || file.contains("/proc/");
    match file.is_none_or(read) {
        true => Err("a shell reads what it runs, or its script is not known"),
        false => Ok(()),
    }
}

/// Every `-exec` of a `find`, up to its `;` or `{} +`.
fn found(words: &[Word], depth: usize, parts: &mut Vec<Part>) -> Understood {
    let mut place = 0;
    while let Some(word) = words.get(place) {
        place += 1;
        match word.plain() {
            Some("-exec" | "-execdir" | "-ok" | "-okdir") => {}
            Some(_) => continue,
            // It may be an `-exec` with all that belongs to it.
            None => {
                inner(vec![Word::Unknown], Some("what find runs is not known"), depth, parts)?;
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

/// One of the words begins a command; then none may be a shell or a text for one.
fn loose(words: &[Word], parts: &mut Vec<Part>) -> Understood {
    let runs_text = |text: &str| {
        let name = base_name(text);
        text.contains(char::is_whitespace) || is_among(name, SHELLS) || name == "find"
    };
    if words.iter().filter_map(Word::plain).any(runs_text) {
        return Err("where the command begins is not known");
    }
    let (words, cover) = (words.to_vec(), Cover::Never(BEGINNING_UNKNOWN));
    let simple = Simple { words, cover, anywhere: true, ..Simple::default() };
    parser::push(parts, Part::Command(simple))
}

/// Appends the command behind the wrapper, or returns the text that it hands to a shell.
fn wrapped(
    (name, own, valued, flags): &(&str, usize, &str, &str),
    words: &[Word],
    depth: usize,
    parts: &mut Vec<Part>,
) -> Understood<Option<String>> {
    let (mut place, mut own, mut never) = (0, *own, None);
    loop {
        let Some(word) = words.get(place) else { return Ok(None) };
        let Some(text) = word.plain() else { break };
        // `-n1` for `-n 1`.
        let has_its_value =
            || !text.starts_with("--") && text.get(..2).is_some_and(|name| is_among(name, valued));
        place += 1;
        if text == "--" {
            break;
        } else if is_among(text, valued) {
            place += 1;
        } else if is_among(text, flags) || has_its_value() {
        } else if *name == "env"
            && (text.starts_with("--s") || text.starts_with('-') && text.contains('S'))
        {
            return Err("env splits a word into several");
        } else if text.starts_with('-') {
            // Whether the next word belongs to it is not known.
            never = Some(BEGINNING_UNKNOWN);
        } else if matches!(*name, "env" | "sudo" | "doas")
            && let Some((variable, value)) = text.split_once('=')
        {
            // A function is handed on as a variable whose name no shell can write.
            let odd = !variable.chars().all(parser::is_name);
            if odd || parser::holds_command(value) {
                return Err("it keeps a command in a variable");
            }
            never = Some("it sets variables");
        } else if own > 0 {
            own -= 1;
        } else {
            place -= 1;
            break;
        }
    }
    if place >= words.len() {
        return Ok(None);
    }
    let unsure = never == Some(BEGINNING_UNKNOWN)
        || words[..place].iter().any(|word| word.plain().is_none());
    match *name {
        "ssh" | "watch" if unsure => return Err(BEGINNING_UNKNOWN),
        // They hand their words to a shell as one text.
        "ssh" | "watch" => return joined(&words[place..]).map(Some),
        "time" if words[place].plain().is_some_and(|w| is_among(w, parser::BEFORE_COMMANDS)) => {
            return Err("it takes the time of more than a command");
        }
        _ => {}
    }
    let mut words = words.to_vec();
    if *name == "xargs" {
        // What is read stands behind the words or in their place, never in that of the program.
        never = Some("its arguments come from elsewhere");
        words[place + 1..].fill(Word::Unknown);
        words.push(Word::Unknown);
    }
    if unsure {
        let mut simple = Simple { words: words[place..].to_vec(), ..Simple::default() };
        unwrap(&mut simple, depth, parts)?;
        loose(&words, parts)?;
    } else {
        inner(words.split_off(place), never, depth, parts)?;
    }
    Ok(None)
}

fn inner(
    words: Vec<Word>,
    never: Option<&'static str>,
    depth: usize,
    parts: &mut Vec<Part>,
) -> Understood {
    let cover = never.map_or(Cover::Words, Cover::Never);
    let mut simple = Simple { words, cover, ..Simple::default() };
    unwrap(&mut simple, depth, parts)?;
    parser::push(parts, Part::Command(simple))
}

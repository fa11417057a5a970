//! Calls that try to look like something else than they are.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use skep_shell::line::Part;
use skep_shell::plain;

use super::evaluate::PolicyQuery;
use super::pattern::{CommandPattern, HostPattern, PathPattern, host_of};
use super::rule::{Piece, Rule};
use super::{Class, Effect, Policy};
use crate::settings::SandboxLevel;

/// Lines that run `rm`; each was seen to do so in bash.
#[rustfmt::skip]
const RUN_RM: &[&str] = &[
    // Words of wrappers that are split, replaced, or come from elsewhere.
    "env -S 'rm x'", "env -S'rm x'", "env --split-string='rm x'", "env -Srm x", "env -vS 'rm x'",
    "echo rm x | xargs env", "echo rm | xargs -I% env % x", "xargs rm <<< x",
    "sudo A=b rm x", "flock l -c 'rm x'", "taskset 1 rm x", "setarch -R rm x", "prlimit rm x",
    "chrt -o 0 rm x", "setpriv rm x", "taskset 1 sh -c 'rm x'", "taskset 1 sh <<< 'rm x'",
    "parallel ::: 'rm x'", "script -qc 'rm x' /dev/null", "su root -c 'rm x'",
    "/lib64/ld-linux-x86-64.so.2 /bin/rm x", "stdbuf -oL rm x", "command -p env rm x",
    "exec -a y rm x", "env - A=b rm x", "i386 rm x", "ssh-agent rm x", "sg root -c 'rm x'",
    "env r? x", "timeout 5 r* x", "logsave f rm x", "env PS4='$(rm x)' bash -xc :",
    "env SHELLOPTS=xtrace PS4='`rm x`' bash -c :", "sudo PS4='$(rm x)' bash -xc :",
    "env 'BASH_FUNC_ls%%=() { rm x; }' bash -c ls", "env 'BASH_FUNC_ls()=() { rm x; }' bash -c ls",
    // Shells.
    "bash -o errexit -c 'rm x'", "bash -c -e 'rm x'", "bash --rcfile /dev/null -c 'rm x'",
    "bash -O extglob -c 'rm x'", "bash -ec 'rm x'", "bash +x -c 'rm x'", "rbash -c 'rm x'",
    "echo 'rm x' | sh", "sh <<< 'rm x'", "bash -s <<< 'rm x'", "sh - <<< 'rm x'",
    "bash -- /dev/stdin <<< 'rm x'", ". /dev/stdin <<< 'rm x'", "source <(echo rm x)",
    "bash /dev/stdin <<< 'rm x'", "bash /proc/self/fd/0 <<< 'rm x'", "sh < x", "cat x | bash -e",
    // find.
    "find . -exec sh -c 'rm x' \\;", "X='-exec rm {} +'; find . $X",
    "find bin -name rm -exec {} x \\;", "find . -exec env {} x \\;",
    "find . -exec echo {} \\; -exec rm {} +", "find . -exec echo {} + -ok rm {} \\;",
    // Builtins that run text.
    "eval -- 'rm x'", "builtin eval 'rm x'", "trap 'rm x' EXIT", "trap -- 'rm x' 0",
    "mapfile -C 'rm x' -c 1 <<< a", "compgen -C 'rm x'", "hash -p $PWD/bin/rm q; q x",
    "shopt -s expand_aliases\nalias q=rm\nq x", "enable -f x.so rm; rm x",
    "BASH_CMDS[q]=/bin/rm; q x", "declare BASH_CMDS[q]=/bin/rm; q x",
    "shopt -s expand_aliases; BASH_ALIASES[q]=rm\nq x",
    "set -o history\necho pm x\nfc -s 'echo p=r'",
    // Subscripts are looked into.
    "let 'a[$(rm x)]=1'", "declare 'a[$(rm x)]=1'", "[ -v 'a[$(rm x)]' ]", "test -v 'a[`rm x`]'",
    "printf -v 'a[$(rm x)]' z", "read 'a[$(rm x)]' <<< 1", "unset 'a[$(rm x)]'",
    "a='b[$(rm x)]'; let a",
    // The shell's own words.
    "set -- a; for x do rm x; done", "for x in a\ndo rm x; done", "time { rm x; }", "time ! rm x",
    "time if rm x; then :; fi", "time -p rm x", "coproc rm x", "! ! rm x", "while rm x; do :; done",
    "case a in a) rm x;; esac", "f() { rm x; }; f", "if :; then rm x; fi", "{ rm x; }",
    "r\\\nm x", "rm<x", "2>/dev/null rm x", "<x rm x", "{fd}>/dev/null rm x", "a[0]=b rm x",
    "((0)) || rm x", "[[ a ]] && rm x", "true&rm x", "echo|&rm x", "echo ${X:-$(rm x)}",
    ": > >(rm x)", "echo $[`rm x`]", "BASH_ENV=<(echo rm x) bash -c :",
    // Too much of it.
    "cat <<E\nrm\nE",
];

fn may_run_rm(line: &str) -> bool {
    let rm = CommandPattern::parse("rm").unwrap();
    plain::line(line).0.iter().any(|part| match part {
        Part::Command(simple) => rm.may_mean(simple),
        Part::Unknown { .. } => true,
    })
}

#[test]
fn gate_evasions_of_a_rule_about_commands() {
    let missed: Vec<&&str> = RUN_RM.iter().filter(|line| !may_run_rm(line)).collect();
    assert!(missed.is_empty(), "not taken for what they are: {missed:#?}");
    // And what only talks of it is let alone.
    let harmless = ["echo rm x", "git log -- rm", "bash build.sh", ". ./env.sh", "sh -c 'ls rm'"];
    let others = ["find . -name rm", "test -f rm", "trap - EXIT", "printf '%s' rm", "xargs -n1 ls"];
    for line in harmless.iter().chain(&others) {
        assert!(!may_run_rm(line), "{line}");
    }
}

/// Whether a rule that allows commands that begin so covers the whole line.
fn is_allowed(pattern: &str, line: &str) -> bool {
    let pattern = CommandPattern::parse(pattern).unwrap();
    plain::line(line).0.iter().all(|part| match part {
        Part::Command(simple) => pattern.covers(simple).is_ok(),
        Part::Unknown { .. } => false,
    })
}

#[test]
fn gate_evasions_of_an_allowed_command() {
    let cases = [
        ("python3 $", "python3", true),
        // Who allowed it without arguments did not mean any program.
        ("python3 $", "python3 < evil.py", false),
        ("python3 $", "python3 <<< 'import os'", false),
        ("python3 $", "python3 <&3", false),
        ("python3 $", "python3 </dev/null", true),
        ("sh $", "sh", false),
        ("sh $", "sh < evil.sh", false),
        ("bash build.sh", "bash build.sh", true),
        ("bash build.sh", "bash build.sh; bash < evil.sh", false),
        ("find", "find . -name a", true),
        ("find", "find . $X", false),
        ("find", "find . -exec rm {} +", false),
        ("git", "alias git=rm", false),
        ("git", "hash -p ./evil git", false),
        ("git status", "git status\nrm x", false),
        ("git status", "git status;git status", true),
        ("git status", "gıt status", false),
        ("git status", "git\u{200b} status", false),
        ("git status", "git\u{a0}status", false),
        ("git status", "GIT status", false),
        ("git status", "git status\r\nrm x", false),
        ("git status $", "git status\r", false),
        ("git status $", "git status \u{b}", false),
    ];
    for (pattern, line, expected) in cases {
        assert_eq!(is_allowed(pattern, line), expected, "{pattern}: {line}");
    }
}

#[test]
fn gate_paths_that_look_like_others() {
    let cases = [
        ("*/notes.md", "a/notes.md", true),
        ("*/notes.md", "/notes.md", false),
        ("*/*/*", "/etc/passwd", false),
        ("**", "/etc/passwd", false),
        ("/**", "/etc/passwd", true),
        ("/**", "etc/passwd", false),
        ("a/**/b/**/c", "a/x/b/y/c", true),
        ("a/**/b/**/c", "a/b/c", true),
        ("a/**/b/**/c", "a/c/b", false),
        ("**/a/**/b", "a/b/a/c/b", true),
        ("secrets/**", "secrets", true),
        ("secrets/**", "secretsx/a", false),
        ("SECRETS/**", "secrets/a", false),
    ];
    for (pattern, path, expected) in cases {
        assert_eq!(
            PathPattern::parse(pattern).unwrap().matches(path),
            expected,
            "{pattern} {path}"
        );
    }
    // Where an agent works its paths are relative, however a rule is written.
    let within = |text: &str| PathPattern::parse(text).unwrap().within("/home/a/work").to_string();
    let written = ["/home/a/work/secrets/**", "/home/a/work", "/home/a/works/x", "work/x", "/**"];
    let expected = ["secrets/**", ".", "/home/a/works/x", "work/x", "/**"];
    assert_eq!(written.map(within), expected);
    // A rule that could never match is a mistake of whoever wrote it.
    for wrong in ["secrets/", "./", "a/./b", "a/../b", "", "a\nb"] {
        assert!(PathPattern::parse(wrong).is_err(), "{wrong}");
    }
    // A file may have any name; a pattern for exactly this file is not any pattern.
    for (path, exactly) in [("a b", Some("a b")), ("**", None), ("a?", None), ("*/x", None)] {
        assert_eq!(PathPattern::exactly(path).as_deref(), exactly);
    }
    assert_eq!(PathPattern::beneath(".").as_deref(), Some("**"));
    assert_eq!(PathPattern::beneath("a/*"), None);
}

#[test]
fn gate_hosts_that_can_be_read_in_two_ways() {
    let cases = [
        ("https://Example.ORG.:443/", Some("example.org")),
        ("https://example.org..", None),
        ("https://.example.org", None),
        ("https://a..b", None),
        ("https://example.org:80:81/", None),
        ("https://example.org:x/", None),
        ("https://user@example.org", None),
        ("https://example.org\\@evil.net", None),
        ("https://ex%61mple.org", None),
        ("https://еxample.org", None),
        ("https://xn--xample-2of.org", Some("xn--xample-2of.org")),
        ("http://127.0.0.1:8080/", Some("127.0.0.1")),
        ("http://127.1/", None),
        ("http://2130706433/", None),
        ("http://0x7f.0.0.1/", None),
        ("http://0x7f000001/", None),
        ("http://0177.0.0.1/", None),
        ("http://127.0.0.1./", Some("127.0.0.1")),
        ("http://[::1]/", Some("[::1]")),
        ("http://[0:0:0:0:0:0:0:1]:80/", Some("[::1]")),
        ("http://[::ffff:127.0.0.1]/", None),
        ("http://[::1%25eth0]/", None),
        ("http://[::1]x/", None),
        ("http:///example.org", None),
        ("ftp://example.org", None),
    ];
    for (url, host) in cases {
        assert_eq!(host_of(url).as_deref(), host, "{url}");
    }
    let pattern = |text: &str| HostPattern::parse(text).map(|found| found.to_string());
    assert_eq!(pattern("Example.org.").as_deref(), Ok("example.org"));
    assert_eq!(pattern("*.Example.org").as_deref(), Ok("*.example.org"));
    assert_eq!(pattern("[0:0::1]").as_deref(), Ok("[::1]"));
    for wrong in ["example.org:443", "*.*", "*.", "", "127.1", "*.127.0.0.1", "a..b", "::1", "a*b"]
    {
        assert!(HostPattern::parse(wrong).is_err(), "{wrong}");
    }
}

/// A decision tells enough to understand it, however many rules and parts there are.
#[test]
fn gate_a_trace_is_bounded() {
    let rule = |number: usize| Rule {
        effect: if number.is_multiple_of(2) { Effect::Allow } else { Effect::Ask },
        tool: "bash".to_owned(),
        path: None,
        command: Some(CommandPattern::parse(&format!("program{number} x")).unwrap()),
        host: None,
        grants: Vec::new(),
        approvers: Vec::new(),
        place: format!("teams/main/config.yaml:{number}"),
    };
    let policy = Policy { rules: (0..1000).map(rule).collect(), ..Policy::default() };
    let long = "y".repeat(100_000);
    for line in ["ls; ".repeat(300), "$x; ".repeat(300), format!("{long} {long}")] {
        let pieces: Vec<Piece> = plain::line(&line).0.into_iter().map(Piece::Command).collect();
        let (class, level) = (Class::Run, SandboxLevel::Confined);
        let asked = PolicyQuery { tool: "bash", class, level, pieces: &pieces, who: &[] };
        let verdict = policy.decide(&asked, &[]);
        let told = verdict.parts.iter().map(|part| part.rules.len() + part.untold);
        assert!(told.clone().all(|count| count == 1000), "every rule counts");
        let size = serde_json::to_string(&verdict).unwrap().len();
        assert!(size < 1_000_000, "{size} bytes about {:.20}", line);
    }
}

/// What is long or deep is decided in time that nobody notices.
#[test]
fn gate_hostile_sizes_take_no_time() {
    let began = Instant::now();
    let lines = [
        format!("find . {}", "-exec a ".repeat(30_000)),
        format!("find . {}", "-exec a {} + ".repeat(30_000)),
        format!("find . {}", "-exec find . ".repeat(30_000)),
        format!("find . {}", "$x ".repeat(60_000)),
        "ssh h ".repeat(30_000),
        "xargs watch ".repeat(30_000),
        "taskset 1 ".repeat(30_000),
        "a;".repeat(100_000),
        "a | ".repeat(100_000),
        "sh -c ".repeat(30_000),
    ];
    for line in &lines {
        let parts = plain::line(line).0;
        assert!(parts.len() <= 501, "{} parts of {:.20}", parts.len(), line);
        let words: usize = parts
            .iter()
            .map(|part| match part {
                Part::Command(simple) => simple.words.len(),
                Part::Unknown { .. } => 0,
            })
            .sum();
        assert!(words <= 2_000_000, "{words} words of {:.20}", line);
    }
    let path = "a/".repeat(100_000) + "b";
    for pattern in ["**/a/**/a/**/c", "**/**/**/**/c", "a/**/b/**/a/**"] {
        assert!(!PathPattern::parse(pattern).unwrap().matches(&path), "{pattern}");
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

//! The plain grammar: what it reads, what it leaves out, and what is written anew.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::plain::{NoFiles, Plain};

/// The commands of the corpus; `%<` and `%>` enclose one of several lines.
fn corpus() -> Vec<String> {
    let (mut commands, mut open) = (Vec::new(), None::<Vec<&str>>);
    for line in include_str!("ordinary_commands.txt").lines() {
        match (line, &mut open) {
            ("%<", _) => open = Some(Vec::new()),
            ("%>", _) => commands.push(open.take().unwrap().join("\n")),
            (line, Some(lines)) => lines.push(line),
            (line, None) if line.starts_with("%#") => {}
            (line, None) => commands.push(line.to_owned()),
        }
    }
    commands
}

#[test]
fn gate_plain_share_of_ordinary_commands() {
    let corpus = corpus();
    assert!(corpus.len() >= 300, "{}", corpus.len());
    let odd = corpus.iter().filter_map(|line| Some((Plain::read(line).err()?, line)));
    let odd: Vec<String> = odd.map(|(why, line)| format!("{why}: {line}")).collect();
    let share = 100.0 - 100.0 * odd.len() as f64 / corpus.len() as f64;
    println!("{share:.1} % of {} commands are plain; not plain:", corpus.len());
    println!("{}", odd.join("\n"));
    assert!(share >= 90.0, "{share}");
}

#[test]
fn gate_plain_lines_are_written_anew() {
    let cases = [
        ("ls -la", "'ls' -la\n"),
        ("echo \"a b\" 'c'\\''d' e\\ f # g", "'echo' 'a b' 'c'\\''d' 'e f'\n"),
        ("a && b || c; d | e |& f", "'a' && 'b' || 'c'\n'd' | 'e' |& 'f'\n"),
        ("a > x 2>&1", "'a' >'x' 2>&1\n"),
        ("a 2> 'x y' >>z < w >&2 &> v", "'a' 2>'x y' >>'z' <'w' 1>&2 &>'v'\n"),
        ("A=1 B='x y' cargo run", "/usr/bin/env A=1 'B=x y' 'cargo' run\n"),
        ("cat <<'E' | wc\n$(X)\nEND0\nE\nls", "'cat' <<'END1' | 'wc'\n$(X)\nEND0\nEND1\n'ls'\n"),
        ("cd a && ls; ls", "'cd' a || exit 1\n'ls'\n'ls'\n"),
        ("cd a && cd b && ls; ls", "'cd' a || exit 1\n'cd' b || exit 1\n'ls'\n'ls'\n"),
        ("mkdir a && cd a && ls", "'mkdir' a && 'cd' a && 'ls'\n"),
        ("grep \"a$\" x{} -I{}", "'grep' 'a$' 'x{}' '-I{}'\n"),
        ("git show HEAD~1", "'git' show 'HEAD~1'\n"),
        ("[ -f x ] && a", "'[' -f x ']' && 'a'\n"),
        ("set -euo pipefail; exit 3", "'set' -euo pipefail\n'exit' 3\n"),
        ("'if' x", "'if' x\n"),
        ("a \\\n  b", "'a' b\n"),
        ("\n\na\n\n", "'a'\n"),
        ("a |\n\n b", "'a' | 'b'\n"),
    ];
    for (line, expected) in cases {
        let judged = Plain::read(line).unwrap_or_else(|why| panic!("{line}: {why}"));
        assert_eq!(judged.judge(&NoFiles).unwrap().text(), expected, "{line}");
    }
}

#[rustfmt::skip]
const ODD: &[&str] = &[
    // The shell's language.
    "", "# a", "A=1", "a &", "a & b", "(a)", "{ a; }", "! a", "if a; then b; fi", "a $(b)",
    "a `b`", "a \"`b`\"", "a $X", "a \"$X\"", "a ${X}", "a $'b'", "a $\"b\"", "a $((1))",
    "a $[1]", "a {b,c}", "a <(b)", "a >(b)", "time a", "[[ a ]]", "((1))", "a() { b; }",
    "for x in a; do b; done", "case a in b) c;; esac", "a;;b", "a;;", ";a", "a && ; b", "a &&",
    "a ||| b", "| a", "a |", "function f", "coproc a", "select x", "a !", "a b!", "}", "a }",
    // Redirections.
    "a <<< b", "a <<E\nE", "a <<-'E'\nE", "a <<'E'\nb", "a >| b", "a <> b", "a 3> b", "a >& b",
    "a 2>&-", "a 2>&1-", "a <&0", "a &>> b", "> a", "a > *", "a 0<<'E'\nE", "a > $X", "a >",
    "a 0>&1", "10> a b", "{fd}> a b", "a 2\\\n>b", "a > #b",
    // Words.
    "a ~", "a ~b/c", "a b=~/c", "a b:~/c", "a ''~/b", "a\\\nb c", "a \\", "a b\u{1}", "a \r",
    "a \"b\u{7f}\"", "a [b", "a b[$c]", "a [[:alpha:]]", "a[0]=b", "a+=b c", "a=* b", "*.sh",
    "a 'b", "a \"b", "a \"$'\" ; b",
    // Builtins.
    "eval a", "exec a", ". a", "source a", "export A=b", "read a", "let a", "command a",
    "builtin a", "trap a", "exit", "exit 300", "exit a", "set a", "set -- a", "set -o posix",
    "set", "set +e", "cd", "cd a", "cd a; b", "cd - && b", "cd a b && c", "cd a || b",
    "a | cd b && c", "cd a | b", "a || cd b && c", "a && cd b && c; d", "cd a > b && c",
    "cd * && a", "%1", "A=1 cd b && c", "A=1 'b=c'", "'eval' a", "e''val a",
];

#[test]
fn gate_plain_leaves_out() {
    let read: Vec<&&str> = ODD.iter().filter(|line| Plain::read(line).is_ok()).collect();
    assert!(read.is_empty(), "read as plain: {read:#?}");
}

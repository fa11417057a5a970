//! Lines for the differential test: plain ones by the grammar, the tricks that once were taken for
//! plain, and plain ones with a few characters changed.

/// Programs of the test. `no` fails, `X` is what must not run unless it was judged, and `echo` is
/// a builtin too.
pub const PROGRAMS: &[&str] = &["a", "b", "cmd", "git", "ls", "no", "echo", "X", "test"];

/// The tricks of issue 11 A1, by name.
pub const TRICKS: &[&str] = &[
    "prompt expansion",
    "subscript in an offset",
    "subscript in $[ ]",
    "$' in double quotes",
    "# behind <( )",
    "backticks in double quotes",
    "subscript in test -v",
    "for PATH",
];

/// xorshift64*.
pub struct Random(pub u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    pub fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.draw() % most as u64).unwrap()
    }

    pub fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

pub struct Line {
    pub text: String,
    /// Place in [`TRICKS`].
    pub trick: Option<usize>,
}

/// 40 of 100 are plain by the grammar, 24 are tricks, the rest are plain ones with changes.
pub fn line(random: &mut Random) -> Line {
    match random.below(100) {
        0..40 => Line { text: plain(random), trick: None },
        40..64 => {
            let trick = random.below(TRICKS.len());
            Line { text: tricky(trick, random), trick: Some(trick) }
        }
        _ => Line { text: changed(random), trick: None },
    }
}

fn tricky(trick: usize, random: &mut Random) -> String {
    let blank = [" ", "  ", "\t", "", " \\\n"];
    let end = [";", " ; ", "\n", " && ", ";;", "; # c\n"];
    let (s, t, u) = (random.pick(&blank), random.pick(&blank), random.pick(&end));
    let text = match trick {
        0 => format!("echo '$(X)'{u}echo{s} ${{_@P}}"),
        1 => format!("echo{s} 'a[$(X)]'{u}echo ${{HOME:_}}{t}"),
        2 => format!("echo 'a[$(X)]'{u}echo{s} $[_]"),
        3 => format!("echo{s} \"$'\"{t}{u}{t}X; echo \"'\""),
        4 => format!("echo <(echo)#{s}{u}X"),
        5 => format!("echo{s} \"{t}`X`{t}\""),
        6 => match random.below(3) {
            0 => format!("test{s} -v $'a[\\x24(X)]'"),
            1 => format!("test -v{s} 'a[$(X)]'{u}a"),
            _ => format!("test 'a[$(X)]'{s} -eq 0{u}a"),
        },
        _ => format!("for PATH in {s}/x /y{u}do a; done"),
    };
    match random.below(4) {
        0 => format!("{}{}{text}", plain(random), random.pick(&[";", "\n", " && ", " || "])),
        1 => format!("{text}{}{}", random.pick(&[";", "\n", " && ", " | "]), plain(random)),
        _ => text,
    }
}

fn changed(random: &mut Random) -> String {
    let odd: Vec<char> = "'\"\\$`()<>|&;#{}[]*?~!=:@%^ \t\n\rX12-_.\u{1}é".chars().collect();
    let mut text: Vec<char> = plain(random).chars().collect();
    for _ in 0..=random.below(3) {
        let place = random.below(text.len() + 1);
        match random.below(3) {
            0 if place < text.len() => drop(text.remove(place)),
            1 if place < text.len() => text[place] = odd[random.below(odd.len())],
            _ => text.insert(place, odd[random.below(odd.len())]),
        }
    }
    text.into_iter().collect()
}

pub fn plain(random: &mut Random) -> String {
    let mut text = String::new();
    if random.percent(8) {
        text.push_str(random.pick(&["cd f && ", "cd f/sub && ", "cd f &&\n", "a && cd f && "]));
    }
    if random.percent(6) {
        let sets = ["set -e; ", "set -x\n", "set -eu\n", "set -euo pipefail; ", "set -o pipefail;"];
        text.push_str(random.pick(&sets));
    }
    let (pipes, mut bodies) = (1 + random.below(4), String::new());
    for pipe in 0..pipes {
        for command in 0..1 + usize::from(random.percent(25)) + usize::from(random.percent(10)) {
            if command > 0 {
                text.push_str(random.pick(&[" | ", "|", " |& ", " |\n"]));
                if text.ends_with('\n') {
                    text.push_str(&std::mem::take(&mut bodies));
                }
            }
            simple(random, &mut text, &mut bodies);
        }
        let last = pipe + 1 == pipes;
        let link = match last {
            true => random.pick(&["", "", ";", "\n", " # c", " ; # it's \"c\""]),
            false => {
                random.pick(&["; ", ";", "\n", " && ", "&&", " || ", " &&\n", " # c\n", "\n\n"])
            }
        };
        text.push_str(link);
        if last && !bodies.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        if text.ends_with('\n') {
            text.push_str(&std::mem::take(&mut bodies));
        }
    }
    text
}

fn simple(random: &mut Random, text: &mut String, bodies: &mut String) {
    if random.percent(2) {
        return text.push_str(random.pick(&["exit 3", "exit 0", ":", ": a 'b c'"]));
    }
    for name in ["A", "B"] {
        if random.percent(6) {
            let values = ["1", "'x y'", "\"a $\"", "", "a\\ b", "$HOME/x", "'$(X)'", "b=c"];
            text.push_str(&format!("{name}={} ", random.pick(&values)));
        }
    }
    let program = random.pick(&PROGRAMS[..8]);
    match random.below(12) {
        0 => text.push_str(&format!("'{program}'")),
        1 => text.push_str(&format!("\"{program}\"")),
        2 => text.push_str(&format!("\\{program}")),
        3 => text.push_str(&format!("''{program}\"\"")),
        _ => text.push_str(program),
    }
    for _ in 0..random.below(5) {
        text.push_str(random.pick(&[" ", " ", " ", "  ", "\t", " \\\n"]));
        for _ in 0..1 + usize::from(random.percent(30)) + usize::from(random.percent(15)) {
            bit(random, text);
        }
    }
    if random.percent(20) {
        let files = [
            ">o/x",
            " > o/y",
            " >> 'o/y z'",
            " 2> o/e",
            " 2>&1",
            " >&2",
            " &> o/b",
            " < in.txt",
            " </dev/null",
            " 2>/dev/null",
            " 1>>o/x",
            " 0<in.txt",
            " >\"o/q\"",
            " 1>&2 2>&1",
        ];
        text.push_str(random.pick(&files));
    }
    if random.percent(5) {
        text.push_str(random.pick(&[" <<'E'", " << 'E'"]));
        let inside = ["", "x\n", "$(X)\n`X`\n", "END0\nE2\n", " E\n", "it's \"x\\\n", "$HOME\\x\n"];
        bodies.push_str(&format!("{}E\n", random.pick(&inside)));
    }
}

fn bit(random: &mut Random, text: &mut String) {
    let bare = [
        "x", "-la", "a=b", "/v", "1", "2", "HEAD~1", "a#b", "{}", "x@y", "a:b", "%s", "+x", "é",
        "if", "done", "for", "]", "--a=b,c", "^x", "a.b", "..", "\\$X", "\\`", "\\*", "\\ ", "\\'",
        "\\\"", "\\\\", "\\#", "\\~", "\\n",
    ];
    let single = [
        "'x'",
        "'a b'",
        "''",
        "'$(X)'",
        "'`X`'",
        "'a[$(X)]'",
        "'\"'",
        "'\\'",
        "'*'",
        "'#'",
        "' x\ny'",
        "'\t'",
        "'!'",
        "'$X'",
        "'~'",
        "';X'",
        "'&'",
        "'é'",
    ];
    let double = [
        "\"x\"",
        "\"a b\"",
        "\"\"",
        "\"a$\"",
        "\"$ x\"",
        "\"a$|b\"",
        "\"(a$)\"",
        "\"'\"",
        "\"\\$(X)\"",
        "\"\\`X\\`\"",
        "\"\\\\\"",
        "\"\\\"\"",
        "\"\\x\"",
        "\"a\\\nb\"",
        "\"\\'\"",
        "\"*\"",
        "\"#\"",
        "\"!\"",
        "\";X;\"",
        "\"\t\n\"",
        "\"{a,b}\"",
        "\"~\"",
    ];
    let globs = [
        "*", "*.txt", "f/*", "f/?", "f/[a-c]*", "f/[!a]*", "*/", "*/*", "no*such", "?", "f/*.t?t",
        "f/.*", "[x-z]?", "f/sub/*",
    ];
    let constants = ["~/x", "$HOME", "$HOME/y", "$PWD", "$PWD/z"];
    text.push_str(match random.below(100) {
        0..35 => random.pick(&bare),
        35..60 => random.pick(&single),
        60..85 => random.pick(&double),
        85..95 => random.pick(&globs),
        _ => random.pick(&constants),
    });
}

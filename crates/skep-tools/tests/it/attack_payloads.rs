//! The payloads of the path attack, by class. Each is a path and where it leads.

pub type Payload = (String, Leads);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leads {
    /// Out of the workspace, or to what is no file: must be refused by every tool.
    Out,
    /// To a name that only looks dangerous. It may be made or found, inside.
    Inside,
}

pub fn payloads(home: &str) -> Vec<Payload> {
    let mut all = Vec::new();
    climbing(&mut all);
    absolute(&mut all, home);
    linked(&mut all);
    look_alikes(&mut all, home);
    all
}

fn climbing(all: &mut Vec<Payload>) {
    let targets = ["secret", "outside/secret", "work-evil/secret", "run/skep.db", "outside"];
    for target in targets {
        for prefix in [
            "../",
            "./../",
            "sub/../../",
            "sub/deep/../../../",
            ".//..//",
            "./sub/.././../",
            "sub/deep/./../.././../",
            "../work/../",
            "../work/sub/../../",
            "../outside/../",
            "sub/./../../",
            "..//",
            "../././",
        ] {
            all.push((format!("{prefix}{target}"), Leads::Out));
        }
    }
    for depth in 2..=24 {
        let up = "../".repeat(depth);
        all.push((format!("{up}etc/passwd"), Leads::Out));
        all.push((format!("sub/deep/{up}../../etc/shadow"), Leads::Out));
        all.push((format!("{up}proc/self/environ"), Leads::Out));
    }
    for path in
        ["..", "../", "../.", "../..", "sub/../..", "../work-evil", "../new-outside", "./.."]
    {
        all.push((path.to_owned(), Leads::Out));
    }
}

fn absolute(all: &mut Vec<Payload>, home: &str) {
    for path in [
        "/",
        "//",
        "/.",
        "/..",
        "/etc/passwd",
        "/etc/shadow",
        "//etc/passwd",
        "/./etc/passwd",
        "/etc/../etc/passwd",
        "/etc",
        "/root/.bashrc",
        "/root/.ssh/id_rsa",
        "/home",
        "/tmp",
        "/proc/self/environ",
        "/proc/self/mem",
        "/proc/self/maps",
        "/proc/self/fd/0",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/Cargo.toml",
        "/proc/1/environ",
        "/proc/thread-self/environ",
        "/proc/sys/kernel/hostname",
        "/dev/zero",
        "/dev/random",
        "/dev/stdin",
        "/dev/fd/0",
        "/dev/tty",
        "/dev/full",
        "/dev/shm/x",
        "/sys/class/net",
        "/var/run/docker.sock",
        "/run/skep.sock",
        "/usr/bin/env",
        "/bin/sh",
        "/boot",
        "/.dockerenv",
    ] {
        all.push((path.to_owned(), Leads::Out));
    }
    for path in [
        "secret",
        "outside/secret",
        "work-evil/secret",
        "run/skep.db",
        "work/../secret",
        "work/sub/../../secret",
        "work/./../outside/secret",
        "work-evil",
        "work/..",
        "work/../run",
        "./secret",
        "/secret",
        "WORK/../secret",
        "work/up",
        "work/away",
        "work/root/etc/passwd",
        "new-outside",
        "work/../new-outside",
        "work/up_folder/secret",
        "workx",
    ] {
        all.push((format!("{home}/{path}"), Leads::Out));
    }
}

fn linked(all: &mut Vec<Payload>) {
    for path in [
        "up",
        "away",
        "chain1",
        "chain2",
        "sub/deep/up",
        "environment",
        "zero",
        "descriptor",
        "loop1",
        "loop2",
        "self_loop",
        "self_loop/x/x",
        "pipe",
        "socket",
        "./up",
        "sub/../up",
        "sub/deep/../../up",
        "dangling",
        "dangling_folder/x",
        "dangling_folder/a/b",
        "pipe/x",
        "socket/x",
    ] {
        all.push((path.to_owned(), Leads::Out));
    }
    for folder in [
        "up_folder",
        "away_folder",
        "sub/deep/up_folder",
        "root",
        "magic",
        "cwd",
        "proc",
        "descriptors",
        "parent",
        "evil",
        "up_folder/sub/..",
        "parent/outside",
        "magic/etc",
        "root/proc/self",
        "parent/work/..",
        "parent/work-evil",
        "sub/../up_folder",
        "parent/run",
        "cwd/..",
        "proc/root",
        "proc/cwd",
    ] {
        for file in ["secret", "sub/secret", "etc/passwd", "new", "environ", "."] {
            all.push((format!("{folder}/{file}"), Leads::Out));
        }
    }
}

fn look_alikes(all: &mut Vec<Payload>, home: &str) {
    let mark = format!("{home}/outside/started");
    for path in LOOK_ALIKES {
        all.push((path.to_owned(), Leads::Inside));
    }
    for shell in [
        "; touch M",
        "| touch M",
        "& touch M",
        "$(touch M)",
        "`touch M`",
        "\ntouch M\n",
        "--pre=touch M",
    ] {
        all.push((shell.replace('M', &mark), Leads::Inside));
    }
    all.push(("x".repeat(300), Leads::Out));
    all.push(("x/".repeat(3000), Leads::Out));
    for path in [
        "",
        " ",
        "\t",
        "\n",
        "\0",
        "sub/note\0",
        "../secret\0.txt",
        "\0../secret",
        "sub\0/../../secret",
    ] {
        all.push((path.to_owned(), Leads::Out));
    }
}

/// Names that some decoder, shell or other system would take for a way out.
const LOOK_ALIKES: [&str; 76] = [
    "%2e%2e/secret",
    "%2e%2e%2fsecret",
    "..%2fsecret",
    "%252e%252e%252fsecret",
    "..%c0%afsecret",
    "%c0%ae%c0%ae/secret",
    "..\\secret",
    "..\\..\\secret",
    "sub\\..\\..\\secret",
    "....//secret",
    ".../secret",
    "..../secret",
    "..;/secret",
    "..%00/secret",
    "\u{2025}/secret",
    "\u{ff0e}\u{ff0e}/secret",
    "\u{ff0e}\u{ff0e}\u{ff0f}secret",
    "\u{2024}\u{2024}/secret",
    "..\u{2215}secret",
    "..\u{2044}secret",
    "..\u{200b}/secret",
    "\u{202e}terces/..",
    " ../secret",
    "..\u{a0}/secret",
    "~/secret",
    "~root/secret",
    "$HOME/secret",
    "${HOME}/secret",
    "%HOME%/secret",
    "C:\\secret",
    "\\\\host\\share",
    "file:///etc/passwd",
    "http://127.0.0.1/x",
    "-",
    "--",
    "-rf",
    "--help",
    "--files",
    "--follow",
    "-L",
    "--no-ignore",
    "-e",
    "--pre=sh",
    "--hostname-bin=sh",
    "@secret",
    "*",
    "**",
    "?ecret",
    "[s]ecret",
    "{secret,up}",
    "secret\n",
    "secret\r",
    "\tsecret",
    "'secret'",
    "\"secret\"",
    "a'b\"c",
    "|id",
    "&id",
    ">secret",
    "<secret",
    ":secret",
    "secret:stream",
    "sub/note.",
    "sub/note ",
    "SUB/NOTE",
    "Sub/Note",
    "sub/Note",
    "CON",
    "nul",
    ".git/config",
    ".env",
    ".npmrc",
    ".bashrc",
    ".ssh/authorized_keys",
    "sub/.git/hooks/post-checkout",
    "\u{feff}secret",
];

#![allow(clippy::unwrap_used)]

use super::*;

fn command(line: &str, folder: &str) -> Result<String, String> {
    let call = of_command("c", line, folder, Path::new("/home/demo/work"))?;
    assert_eq!((call.own.key.as_str(), call.own.class), ("bash", Class::Run));
    Ok(call.call.arguments["command"].as_str().unwrap().to_owned())
}

#[test]
fn a_command_is_the_line_that_bash_gets() {
    let here = "/home/demo/work";
    for (joined, line) in [
        ("/bin/bash -c ls", "ls"),
        ("/usr/bin/bash -c 'git status'", "git status"),
        // As the program was seen to write it.
        (
            "/bin/bash -c \"echo 'it''s' \\\"\"'$HOME\" # c\necho two'",
            "echo 'it''s' \"$HOME\" # c\necho two",
        ),
        ("/bin/bash -c \"printf '\\\\n' a\"", "printf '\\n' a"),
        ("/bin/bash -c ''", ""),
    ] {
        assert_eq!(command(joined, here).unwrap(), line, "{joined}");
    }
}

#[test]
fn where_it_runs_is_part_of_the_line() {
    let run = |folder| command("/bin/bash -c 'make all'", folder).unwrap();
    assert_eq!(run("/home/demo/work"), "make all");
    assert_eq!(run("/home/demo/work/a b"), "cd 'a b' && make all");
    assert_eq!(run("/root"), "cd /root && make all");
    assert!(command("/bin/bash -c ls", "/home/demo/work/../..").is_err());
    assert!(command("/bin/bash -c ls", "work").is_err());
}

#[test]
fn what_is_no_plain_line_for_bash_is_refused() {
    for joined in [
        "/bin/sh -c ls",
        "/bin/bash -lc ls",
        "bash -c ls",
        "/tmp/bash -c ls",
        "/bin/bash -c ls more",
        "/bin/bash",
        "",
        "/bin/bash -c 'ls",
        "/bin/bash -c \"$HOME\"",
        "/bin/bash -c ls; rm",
        "/bin/bash -c ls\\",
    ] {
        assert!(command(joined, "/home/demo/work").is_err(), "{joined}");
    }
}

#[test]
fn a_patch_is_a_call_for_each_file() {
    let change = |path: &str, kind, diff: &str| FileChange {
        path: path.to_owned(),
        kind,
        diff: diff.to_owned(),
    };
    let moved = ChangeKind::Update { move_path: Some("/home/demo/work/new".to_owned()) };
    let changes = [
        change("/home/demo/work/a.txt", ChangeKind::Add, "hello\n"),
        change("/etc/b", ChangeKind::Update { move_path: None }, "@@"),
        change("/home/demo/work/gone", ChangeKind::Delete, "old"),
        change("/home/demo/work/old", moved, "@@"),
    ];
    let calls = of_patch("p", &changes, Path::new("/home/demo/work")).unwrap();
    let calls: Vec<_> = calls
        .into_iter()
        .map(|OwnCall { call, own }| {
            assert_eq!((call.name.as_str(), own.class), ("apply_patch", Class::Write));
            (call.id.0, own.key, call.arguments)
        })
        .collect();
    let call = |id: &str, key: &str, arguments| (id.to_owned(), key.to_owned(), arguments);
    let expected = [
        call("p", "write", json!({"file_path": "a.txt", "content": "hello\n"})),
        call("p.2", "edit", json!({"file_path": "/etc/b", "diff": "@@"})),
        call("p.3", "write", json!({"file_path": "gone", "delete": true})),
        call("p.4", "edit", json!({"file_path": "old", "diff": "@@"})),
        call("p.5", "write", json!({"file_path": "new", "moved_from": "old", "diff": "@@"})),
    ];
    assert_eq!(calls, expected);
    let outside = [change("/home/demo/work/../x", ChangeKind::Add, "")];
    assert!(of_patch("p", &outside, Path::new("/home/demo/work")).is_err());
    assert!(of_patch("p", &[], Path::new("/")).is_err());
}

#![allow(clippy::unwrap_used)]

use std::io::Write;

use super::*;

fn write(folder: &Path, count: std::ops::Range<i64>) {
    let mut file = File::options().append(true).create(true).open(newest(folder)).unwrap();
    for number in count {
        let line = serde_json::json!({
            "time": time_text(number * 1000),
            "level": if number % 2 == 0 { "WARN" } else { "DEBUG" },
            "target": "t",
            "agent": if number % 3 == 0 { "main" } else { "cto" },
            "message": format!("m{number}"),
        });
        writeln!(file, "{line}").unwrap();
    }
}

fn said(page: &LogPage) -> Vec<&str> {
    page.lines.iter().map(|line| line.message.as_str()).collect()
}

fn query(limit: usize) -> LogQuery {
    LogQuery { limit, ..LogQuery::default() }
}

#[test]
fn the_newest_lines_over_several_files_and_what_follows() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(said(&read(folder, &query(5)).unwrap()), Vec::<&str>::new());
    write(folder, 0..3);
    move_on(folder).unwrap();
    write(folder, 3..5);
    let page = read(folder, &query(4)).unwrap();
    assert_eq!(said(&page), ["m1", "m2", "m3", "m4"]);
    let mut follow = LogQuery { after: page.next, ..query(2) };
    assert_eq!(said(&read(folder, &follow).unwrap()), Vec::<&str>::new());
    write(folder, 5..7);
    move_on(folder).unwrap();
    write(folder, 7..9);
    let mut followed = Vec::new();
    for expected in [&["m5", "m6"][..], &["m7", "m8"], &[]] {
        let page = read(folder, &follow).unwrap();
        assert_eq!(said(&page), expected);
        followed.push(page.next);
        follow.after = page.next;
    }
    // The file of the place is gone: nothing that is still there is left out.
    for _ in 0..OLDER {
        move_on(folder).unwrap();
    }
    write(folder, 9..10);
    follow = LogQuery { after: page.next, ..query(10) };
    assert_eq!(
        said(&read(folder, &follow).unwrap()),
        ["m3", "m4", "m5", "m6", "m7", "m8", "m9"][4..]
    );
}

#[test]
fn lines_are_chosen_by_level_agent_and_time() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, 0..10);
    let mut cut = File::options().append(true).open(newest(folder)).unwrap();
    write!(cut, "half a line\n\n{{\"time\"").unwrap();
    let ask = |change: fn(&mut LogQuery)| {
        let mut asked = query(100);
        change(&mut asked);
        let page = read(folder, &asked).unwrap();
        page.lines.iter().map(|line| line.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ask(|asked| asked.level = Some(LogLevel::Info)), ["m0", "m2", "m4", "m6", "m8"]);
    assert_eq!(ask(|asked| asked.agent = Some("main".to_owned())), ["m0", "m3", "m6", "m9"]);
    assert_eq!(ask(|asked| asked.since = Some(8000)), ["m8", "m9"]);
    assert_eq!(ask(|asked| asked.turn = Some("none".to_owned())), Vec::<String>::new());
    assert_eq!(ask(|_| ()).len(), 10);
}

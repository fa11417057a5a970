//! Whatever is done to a trail is named.
#![allow(clippy::unwrap_used)]

use super::*;

/// Ten rows, as they were written.
fn trail() -> Vec<StoredRow> {
    let mut seal = Seal::default();
    let rows = (1..=10).map(|id| {
        let row = AuditRow {
            id,
            principal: Some("operator".into()),
            agent: Some("main".into()),
            session: Some("s".into()),
            turn: Some("t".into()),
            call_id: Some(format!("c{id}")),
            tool: Some("bash".into()),
            arguments: format!(r#"{{"command":"echo {id}"}}"#),
            took_ms: 3,
            bytes: 4,
            ..AuditRow::new(AuditKind::Call, 1000 + id, "ok")
        };
        seal = seal.next(&row);
        StoredRow { id, row: Some(row), seal: Some(seal), redacted: false }
    });
    rows.collect()
}

fn head(rows: &[StoredRow]) -> Option<Head> {
    rows.last().map(|last| Head { id: last.id, seal: last.seal.unwrap() })
}

fn read(rows: Vec<StoredRow>, head: Option<Head>) -> Vec<(FindingKind, i64)> {
    let mut reading = ChainReader::new(head, Head::default());
    rows.into_iter().for_each(|row| reading.take(row));
    let verdict = reading.end();
    assert_eq!(verdict.ok, verdict.findings.is_empty());
    verdict.findings.iter().map(|finding| (finding.kind, finding.row)).collect()
}

fn altered(change: impl FnOnce(&mut Vec<StoredRow>)) -> Vec<(FindingKind, i64)> {
    let mut rows = trail();
    let head = head(&rows);
    change(&mut rows);
    read(rows, head)
}

fn edit(row: usize, change: impl FnOnce(&mut AuditRow)) -> Vec<(FindingKind, i64)> {
    altered(|rows| change(rows[row - 1].row.as_mut().unwrap()))
}

#[test]
fn a_change_of_any_column_is_named() {
    use FindingKind::Changed;
    type Change = fn(&mut AuditRow);
    let columns: [(&str, Change); 13] = [
        ("at", |row| row.at += 1),
        ("kind", |row| row.kind = AuditKind::Change),
        ("principal", |row| row.principal = None),
        ("agent", |row| row.agent = Some("main2".into())),
        ("session", |row| row.session = None),
        ("turn", |row| row.turn = Some("T".into())),
        ("call_id", |row| row.call_id = Some(String::new())),
        ("tool", |row| row.tool = Some("read".into())),
        ("arguments", |row| row.arguments.push(' ')),
        ("decision", |row| row.decision = "[1]".into()),
        ("outcome", |row| row.outcome = "refused".into()),
        ("took_ms", |row| row.took_ms = 0),
        ("bytes", |row| row.bytes = -1),
    ];
    for (column, change) in columns {
        for row in [1, 5, 10] {
            assert_eq!(edit(row, change), [(Changed, row as i64)], "{column} of row {row}");
        }
    }
    // Text that moves from one column to its neighbour is a change too.
    let moved = edit(4, |row| {
        row.tool = Some("ba".into());
        row.arguments = format!("sh{}", row.arguments);
    });
    assert_eq!(moved, [(Changed, 4)]);
}

#[test]
fn what_else_can_be_done_is_named_as_what_it_is() {
    use FindingKind::*;
    assert_eq!(altered(|_| {}), []);
    assert_eq!(altered(|rows| rows[4].seal = Some(Seal([7; 32]))), [(Changed, 5)]);
    assert_eq!(altered(|rows| rows[4].row = None), [(Changed, 5)]);
    assert_eq!(altered(|rows| rows[4].seal = None), [(Changed, 5)]);
    assert_eq!(altered(|rows| drop(rows.remove(4))), [(Removed, 5)]);
    assert_eq!(altered(|rows| drop(rows.remove(0))), [(Removed, 1)]);
    assert_eq!(altered(|rows| drop(rows.drain(2..6))), [(Removed, 3)]);
    assert_eq!(altered(|rows| rows.truncate(7)), [(CutOff, 8)]);
    assert_eq!(altered(Vec::clear), [(CutOff, 1)]);
    let swap = |a: usize, b: usize| {
        altered(|rows| {
            rows.swap(a - 1, b - 1);
            (rows[a - 1].id, rows[b - 1].id) = (a as i64, b as i64);
        })
    };
    assert_eq!(swap(5, 6), [(Reordered, 5), (Reordered, 6)]);
    assert_eq!(swap(2, 9), [(Reordered, 2), (Reordered, 9)]);
    // The last row has the hash that the head names in another place.
    assert_eq!(swap(3, 10), [(Reordered, 3), (Rewritten, 10), (Reordered, 10)]);
    let renumbered = altered(|rows| {
        rows.remove(4);
        rows.iter_mut().skip(4).for_each(|row| row.id -= 1);
    });
    assert_eq!(renumbered, [(Removed, 5), (CutOff, 10)]);
}

#[test]
fn a_trail_written_anew_does_not_have_the_head_on_record() {
    let rewritten = altered(|rows| {
        rows[2].row.as_mut().unwrap().outcome = "ok, really".into();
        let mut seal = Seal::default();
        for found in rows {
            seal = seal.next(found.row.as_ref().unwrap());
            found.seal = Some(seal);
        }
    });
    assert_eq!(rewritten, [(FindingKind::Rewritten, 10)]);
}

#[test]
fn a_head_that_lags_behind_is_no_finding() {
    // As after the end of a process between a commit and the head.
    let rows = trail();
    for lags in [0, 3, 9] {
        assert_eq!(read(rows.clone(), head(&rows[..lags])), []);
    }
}

#[test]
fn a_trail_may_begin_where_a_checkpoint_says_and_nowhere_else() {
    let rows = trail();
    let read_from = |first: usize, start: Head| {
        let mut reading = ChainReader::new(head(&rows), start);
        rows[first..].iter().cloned().for_each(|row| reading.take(row));
        reading.end().findings
    };
    let start = head(&rows[..4]).unwrap();
    assert_eq!(read_from(4, start), []);
    let other = Head { seal: Seal([1; 32]), ..start };
    assert_eq!(read_from(4, other)[0].kind, FindingKind::Changed);
    let found = read_from(5, start);
    assert_eq!(found, [AuditFinding::new(FindingKind::Removed, 1, "rows 1 to 5 are missing")]);
}

#[test]
fn a_seal_is_what_the_documentation_says() {
    // printf '%s\n%s' "$(printf '0%.0s' $(seq 64))" '[1,1001,"call",…]' | sha256sum
    let row = AuditRow { id: 1, ..AuditRow::new(AuditKind::Change, 7, "é\"\u{1}\u{7f}") };
    assert_eq!(
        row.canonical(),
        "[1,7,\"change\",null,null,null,null,null,null,\"{}\",\"[]\",\"é\\\"\\u0001\u{7f}\",0,0]"
    );
    let numbered = AuditRow { agent_id: Some(AgentId(7)), ..row.clone() };
    assert!(numbered.canonical().ends_with(",0,0,7]"), "{}", numbered.canonical());
    let seal = Seal::default().next(&row);
    assert_ne!(Seal::default().next(&numbered), seal);
    assert_eq!(Seal::parse(&seal.to_string()), Some(seal));
    assert_eq!(Seal::parse("zz"), None);
    assert_eq!(Seal::parse(&"+1".repeat(32)), None);
}

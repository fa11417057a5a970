//! What was redacted later is accepted, and nothing else.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;

const SECRET: &str = "hunter2-hunter2";

/// Six rows as an export had them; in rows 2 and 5 a secret was taken out.
fn export() -> Vec<Value> {
    let mut seal = Seal::default();
    let rows = (1..=6).map(|id| {
        let said = if id % 3 == 2 { SECRET } else { "plain" };
        let arguments = json!({ "command": said }).to_string();
        let outcome = AuditRow::new(AuditKind::Call, 1000 + id, "ok");
        let row = AuditRow { id, tool: Some("bash".into()), arguments, ..outcome };
        seal = seal.next(&row);
        let mut line = json!({
            "id": id, "at": row.at, "kind": "call", "tool": "bash", "decision": row.decision,
            "arguments": row.arguments.replace(SECRET, "[secret:key]"), "outcome": "ok",
            "took_ms": 0, "bytes": 0, "hash": seal.to_string(),
        });
        if said == SECRET {
            line["redacted"] = true.into();
        }
        line
    });
    rows.collect()
}

fn read(lines: &[Value]) -> (Vec<(FindingKind, i64)>, Vec<i64>) {
    let texts: Vec<String> = lines.iter().map(ToString::to_string).collect();
    read_texts(&texts)
}

fn read_texts(lines: &[String]) -> (Vec<(FindingKind, i64)>, Vec<i64>) {
    let start = lines.iter().filter_map(|line| checkpoint(line)).next_back();
    let mut reader = ExportReader::new(start.unwrap_or_default());
    lines.iter().enumerate().for_each(|(number, line)| reader.take(number + 1, line));
    let (verdict, redacted) = reader.end();
    assert_eq!(verdict.ok, verdict.findings.is_empty());
    (verdict.findings.iter().map(|it| (it.kind, it.row)).collect(), redacted)
}

#[test]
fn rows_redacted_later_verify_and_are_named() {
    assert_eq!(read(&export()), (vec![], vec![2, 5]));
    // Behind rows that retention deleted.
    let mut lines = export();
    let arguments = json!({"upto": 2, "hash": lines[1]["hash"]}).to_string();
    let told = AuditRow { id: 7, arguments, ..AuditRow::new(AuditKind::Checkpoint, 2000, "ok") };
    let seal = Seal::parse(lines[5]["hash"].as_str().unwrap()).unwrap().next(&told);
    lines.push(json!({
        "id": 7, "at": 2000, "kind": "checkpoint", "decision": "[]", "arguments": told.arguments,
        "outcome": "ok", "took_ms": 0, "bytes": 0, "hash": seal.to_string(),
    }));
    assert_eq!(read(&lines[2..]), (vec![], vec![5]));
}

#[test]
fn every_other_change_is_found() {
    use FindingKind::{Changed, Foreign, Removed, Reordered};
    let found = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut lines = export();
        change(&mut lines);
        read(&lines).0
    };
    // A row that says it was redacted, and shows nothing of it.
    assert_eq!(found(&|lines| lines[0]["redacted"] = true.into()), []);
    let lie = |lines: &mut Vec<Value>| {
        lines[0]["redacted"] = true.into();
        lines[0]["outcome"] = "refused".into();
    };
    assert_eq!(found(&lie), [(Changed, 1)]);
    // One that was redacted, and says nothing of it.
    assert_eq!(found(&|lines| lines[1]["redacted"] = false.into()), [(Changed, 2)]);
    assert_eq!(found(&|lines| lines[1]["arguments"] = "{}".into()), [(Changed, 2)]);
    // Its hash is proven by the row behind it.
    let forged = Seal::default().to_string();
    assert_eq!(found(&|lines| lines[1]["hash"] = forged.clone().into()), [(Changed, 3)]);
    assert_eq!(found(&|lines| lines[3]["tool"] = "read".into()), [(Changed, 4)]);
    assert_eq!(found(&|lines| lines[3]["more"] = "unsealed".into()), [(Changed, 4)]);
    assert_eq!(found(&|lines| drop(lines.remove(1))), [(Removed, 2)]);
    assert_eq!(
        found(&|lines| lines.swap(1, 4)),
        [(Removed, 2), (Reordered, 3), (Reordered, 4), (Reordered, 2)]
    );
    assert_eq!(found(&|lines| lines.insert(1, json!("x"))), [(Foreign, 0)]);
    // A key that stands there twice: who reads the first would read what nobody sealed.
    let mut texts: Vec<String> = export().iter().map(ToString::to_string).collect();
    texts[3] = texts[3].replacen('{', r#"{"outcome":"refused","#, 1);
    assert_eq!(read_texts(&texts).0, [(Changed, 4)]);
}

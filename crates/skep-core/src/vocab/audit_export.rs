//! Rows of the audit trail as an export has them. A row that holds what became known as a secret
//! later is exported without it: `redacted`, with the seal of the row as it is stored. Its own text
//! cannot be compared with that seal any more; the next row still proves the seal.

use serde::Deserialize;

use crate::Millis;
use crate::vocab::audit::{
    AuditFinding, AuditKind, AuditRow, AuditVerdict, ChainReader, FindingKind, Head, Seal,
    StoredRow,
};
use crate::vocab::ids::AgentId;

/// What stands where a secret was.
const MARK: &str = "[secret:";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: i64,
    at: Millis,
    kind: AuditKind,
    principal: Option<String>,
    agent: Option<String>,
    agent_id: Option<AgentId>,
    session: Option<String>,
    turn: Option<String>,
    call_id: Option<String>,
    tool: Option<String>,
    arguments: String,
    decision: String,
    outcome: String,
    took_ms: i64,
    bytes: i64,
    hash: String,
    #[serde(default)]
    redacted: bool,
}

/// All that is read of a line that is no row as we write it.
#[derive(Deserialize)]
struct Number {
    id: i64,
}

impl Line {
    fn row(self) -> StoredRow {
        let Self { id, at, kind, principal, agent, agent_id, session, turn, call_id, tool, .. } =
            self;
        let Self { arguments, decision, outcome, took_ms, bytes, .. } = self;
        let row = AuditRow {
            id,
            at,
            kind,
            principal,
            agent,
            agent_id,
            session,
            turn,
            call_id,
            tool,
            arguments,
            decision,
            outcome,
            took_ms,
            bytes,
        };
        // Without a mark nothing was taken out of it.
        let redacted = self.redacted && row.texts().any(|text| text.contains(MARK));
        StoredRow { id, row: Some(row), seal: Seal::parse(&self.hash), redacted }
    }
}

/// The last row that retention deleted, where this line tells of it.
pub fn checkpoint(line: &str) -> Option<Head> {
    // Most lines are none; they are not parsed for this.
    let line: Line =
        line.contains("checkpoint").then(|| serde_json::from_str(line).ok()).flatten()?;
    (line.kind == AuditKind::Checkpoint).then(|| Head::let_go(&line.arguments)).flatten()
}

/// Reads an export from its first line to its last.
pub struct ExportReader {
    chain: ChainReader,
    last: i64,
    redacted: Vec<i64>,
    findings: Vec<AuditFinding>,
}

impl ExportReader {
    /// `start`: what the last [`checkpoint`] of the export says.
    pub fn new(start: Head) -> Self {
        let chain = ChainReader::new(None, start);
        Self { chain, last: i64::MIN, redacted: Vec::new(), findings: Vec::new() }
    }

    pub fn take(&mut self, number: usize, line: &str) {
        let found = match serde_json::from_str::<Line>(line) {
            Ok(line) => line.row(),
            Err(_) => match serde_json::from_str(line) {
                Ok(Number { id }) => StoredRow { id, row: None, seal: None, redacted: false },
                Err(_) => {
                    let text = format!("line {number} is no row of an export");
                    return self.findings.push(AuditFinding::new(FindingKind::Foreign, 0, text));
                }
            },
        };
        if found.id <= self.last {
            let text = format!("row {} stands behind row {}", found.id, self.last);
            return self.findings.push(AuditFinding::new(FindingKind::Reordered, found.id, text));
        }
        self.last = found.id;
        if found.redacted {
            self.redacted.push(found.id);
        }
        self.chain.take(found);
    }

    /// The verdict, and the rows whose own text it does not speak of.
    pub fn end(self) -> (AuditVerdict, Vec<i64>) {
        let mut verdict = self.chain.end();
        verdict.findings.extend(self.findings);
        verdict.ok = verdict.findings.is_empty();
        (verdict, self.redacted)
    }
}

#[cfg(test)]
#[path = "audit_export_tests.rs"]
mod tests;

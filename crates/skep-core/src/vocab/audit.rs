//! The audit trail: what a row says, the seal that ties it to the row before, and the reading that
//! names what was changed, removed, reordered or cut off.
//!
//! A row's seal is the SHA-256 of the seal before it and the row as a JSON list, so that anybody
//! can compute it from an export.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::Millis;
use crate::vocab::ids::AgentId;
use crate::vocab::words::words;

words! {
    /// What a row of the audit trail is about.
    AuditKind {
        /// A tool call and what the gate made of it.
        Call = "call",
        /// A host that a call of a tool asked for, and whether it was reached.
        Contact = "contact",
        /// What a person decided.
        Decision = "decision",
        /// Something about the hive itself was changed.
        Change = "change",
        /// Retention deleted the rows before this one; the row names the last of them.
        Checkpoint = "checkpoint",
        /// At a start the trail was not as it had been left.
        Break = "break",
    }
    FindingKind {
        Changed = "changed",
        /// A row where the hive writes none.
        Foreign = "foreign",
        Removed = "removed",
        Reordered = "reordered",
        CutOff = "cut_off",
        /// Every row fits the one before it, but the newest seal on record is another.
        Rewritten = "rewritten",
        /// The record of the newest seal is gone or cannot be read.
        Head = "head",
        /// A row that says what an earlier start found.
        Break = "break",
    }
}

/// One row, without its seal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// The store assigns it: one more than the row before.
    pub id: i64,
    pub at: Millis,
    pub kind: AuditKind,
    /// Who asked for the turn, or who decided.
    pub principal: Option<String>,
    pub agent: Option<String>,
    /// Whose row it is: the name may be another agent's by now. Rows from before there was an id
    /// have none, and are sealed without it.
    pub agent_id: Option<AgentId>,
    pub session: Option<String>,
    pub turn: Option<String>,
    pub call_id: Option<String>,
    pub tool: Option<String>,
    /// JSON, as text.
    pub arguments: String,
    /// What each stage said: a JSON list of `{stage, word}`, as text.
    pub decision: String,
    pub outcome: String,
    pub took_ms: i64,
    pub bytes: i64,
}

impl AuditRow {
    pub fn new(kind: AuditKind, at: Millis, outcome: impl Into<String>) -> Self {
        Self {
            id: 0,
            at,
            kind,
            principal: None,
            agent: None,
            agent_id: None,
            session: None,
            turn: None,
            call_id: None,
            tool: None,
            arguments: "{}".to_owned(),
            decision: "[]".to_owned(),
            outcome: outcome.into(),
            took_ms: 0,
            bytes: 0,
        }
    }

    /// A change of the hive by a person, or by an unknown one; `what` describes it.
    pub fn change(outcome: &str, by: Option<&str>, what: &Value, now: Millis) -> Self {
        Self {
            principal: by.map(str::to_owned),
            arguments: what.to_string(),
            ..Self::new(AuditKind::Change, now, outcome)
        }
    }

    /// Every text in it that may hold what somebody wrote.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let Self { principal, agent, session, turn, call_id, tool, .. } = self;
        let named = [principal, agent, session, turn, call_id, tool];
        let whole = [&self.arguments, &self.decision, &self.outcome];
        named.into_iter().flatten().chain(whole).map(String::as_str)
    }

    /// The row as it is sealed. Texts stand in it as texts, also those that hold JSON.
    fn canonical(&self) -> String {
        let Self { id, at, kind, principal, agent, session, turn, call_id, tool, .. } = self;
        let Self { arguments, decision, outcome, took_ms, bytes, .. } = self;
        let kind = kind.as_str();
        let mut sealed = json!([
            id, at, kind, principal, agent, session, turn, call_id, tool, arguments, decision,
            outcome, took_ms, bytes
        ]);
        if let (Some(AgentId(agent_id)), Some(sealed)) = (self.agent_id, sealed.as_array_mut()) {
            sealed.push(agent_id.into());
        }
        sealed.to_string()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seal(pub [u8; 32]);

impl Seal {
    /// Of the row that follows `self`.
    pub fn next(self, row: &AuditRow) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.to_string());
        hash.update(b"\n");
        hash.update(row.canonical());
        Self(hash.finalize().into())
    }

    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let plain = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if digits.len() != 64 || !plain {
            return None;
        }
        let mut seal = [0; 32];
        for (byte, place) in seal.iter_mut().zip(0..) {
            *byte = u8::from_str_radix(text.get(place * 2..place * 2 + 2)?, 16).ok()?;
        }
        Some(Self(seal))
    }
}

impl std::fmt::Display for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The newest row and its seal; of an empty trail, row 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub id: i64,
    pub seal: Seal,
}

impl Head {
    /// What the arguments of a checkpoint say of the last row that retention deleted.
    pub fn let_go(arguments: &str) -> Option<Self> {
        let told: Value = serde_json::from_str(arguments).ok()?;
        Some(Self { id: told["upto"].as_i64()?, seal: Seal::parse(told["hash"].as_str()?)? })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct AuditFinding {
    pub kind: FindingKind,
    /// The row it is about, or the first of several.
    pub row: i64,
    pub text: String,
}

impl AuditFinding {
    pub fn new(kind: FindingKind, row: i64, text: impl Into<String>) -> Self {
        Self { kind, row, text: text.into() }
    }

    /// The row that tells of it.
    pub fn told(&self, now: Millis) -> AuditRow {
        let told = json!({ "found": self.kind, "row": self.row, "text": self.text });
        let row = AuditRow::new(AuditKind::Break, now, self.kind.as_str());
        AuditRow { arguments: told.to_string(), ..row }
    }
}

/// A row as it was found: nothing in `row` where a column cannot be what we write.
#[derive(Clone, Debug)]
pub struct StoredRow {
    pub id: i64,
    pub row: Option<AuditRow>,
    pub seal: Option<Seal>,
    /// Something was taken out of it after it was sealed: its text says nothing of its seal.
    pub redacted: bool,
}

impl StoredRow {
    /// Whether this is what stood at `id` behind `before`.
    fn fits(&self, id: i64, before: Seal) -> bool {
        let Some(row) = &self.row else { return false };
        self.seal == Some(before.next(&AuditRow { id, ..row.clone() }))
    }
}

/// What the reading of a whole trail came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct AuditVerdict {
    /// Nothing was found.
    pub ok: bool,
    pub rows: i64,
    pub first: i64,
    pub last: i64,
    /// Of the last row, in hexadecimal: kept elsewhere, it proves everything before it.
    pub hash: String,
    pub findings: Vec<AuditFinding>,
    /// How many findings are not listed.
    pub more: u64,
}

/// The most findings that are listed: one change can break every row after it.
const TOLD: usize = 100;
/// Rows that do not fit are kept to see where they came from.
const KEPT: usize = 256;

/// Reads a trail from its first row to its last.
pub struct ChainReader {
    head: Option<Head>,
    /// Row and seal before the first that is there, as the last checkpoint says.
    start: Head,
    rows: i64,
    first: i64,
    last: i64,
    /// The seal of the last row as it stands there.
    seal: Option<Seal>,
    /// What it would be if that row's own text were right.
    computed: Option<Seal>,
    misfits: Vec<Misfit>,
    unkept: u64,
    findings: Vec<AuditFinding>,
}

struct Misfit {
    found: StoredRow,
    /// The seal that stands in the row before.
    before: Option<Seal>,
}

impl ChainReader {
    /// `head`: the newest seal on record elsewhere. `start`: the last row that retention deleted.
    pub fn new(head: Option<Head>, start: Head) -> Self {
        Self {
            head,
            start,
            rows: 0,
            first: 0,
            last: 0,
            seal: Some(Seal::default()),
            computed: None,
            misfits: Vec::new(),
            unkept: 0,
            findings: Vec::new(),
        }
    }

    /// The next row, in the order of their numbers.
    pub fn take(&mut self, found: StoredRow) {
        let id = found.id;
        if id <= 0 {
            let text = format!("row {id} is none of ours: rows are numbered from 1");
            self.findings.push(AuditFinding::new(FindingKind::Foreign, id, text));
            return;
        }
        if self.rows == 0 {
            self.first = id;
            if id == self.start.id + 1 {
                (self.last, self.seal) = (self.start.id, Some(self.start.seal));
            }
        }
        if id != self.last + 1 {
            self.findings.push(missing(FindingKind::Removed, self.last + 1, id - 1, ""));
            (self.seal, self.computed) = (None, None);
        }
        let follows = |before: Option<Seal>| before.is_some_and(|before| found.fits(id, before));
        // After a gap there is nothing to compare with: the next row is.
        let unknown = self.seal.is_none() && self.computed.is_none() && found.row.is_some();
        let redacted = found.redacted && found.seal.is_some();
        let fits = unknown || redacted || follows(self.seal) || follows(self.computed);
        self.look(&found);
        let before = self.seal;
        self.computed = match (&found.row, before) {
            (Some(row), Some(before)) if !redacted => Some(before.next(row)),
            _ => None,
        };
        (self.rows, self.last, self.seal) = (self.rows + 1, id, found.seal);
        if !fits {
            if self.misfits.len() < KEPT {
                self.misfits.push(Misfit { found, before });
            } else {
                self.unkept += 1;
            }
        }
    }

    fn look(&mut self, found: &StoredRow) {
        if let Some(row) = &found.row
            && row.kind == AuditKind::Break
        {
            let text = format!("row {} tells of an earlier finding: {}", row.id, row.arguments);
            self.findings.push(AuditFinding::new(FindingKind::Break, row.id, text));
        }
        if let Some(head) = self.head
            && head.id == found.id
            && Some(head.seal) != found.seal
        {
            let text = format!(
                "row {} does not have the hash that run/audit.head names: this row or one before \
                 it was written anew",
                head.id
            );
            self.findings.push(AuditFinding::new(FindingKind::Rewritten, head.id, text));
        }
    }

    pub fn end(mut self) -> AuditVerdict {
        self.sort_misfits();
        let head = self.head.filter(|head| head.id > self.last);
        if let Some(head) = head {
            let why = "; run/audit.head names the last of them";
            self.findings.push(missing(FindingKind::CutOff, self.last + 1, head.id, why));
        }
        self.findings.sort_by_key(|finding| finding.row);
        let untold = self.findings.len().saturating_sub(TOLD);
        self.findings.truncate(TOLD);
        AuditVerdict {
            ok: self.findings.is_empty(),
            rows: self.rows,
            first: self.first,
            last: self.last,
            hash: self.seal.unwrap_or_default().to_string(),
            findings: self.findings,
            more: self.unkept + u64::try_from(untold).unwrap_or(u64::MAX),
        }
    }

    /// Says of each row that does not fit where it belongs, if anywhere.
    fn sort_misfits(&mut self) {
        let misfits = std::mem::take(&mut self.misfits);
        // Seals of rows whose true place was found.
        let mut true_seals: BTreeMap<i64, Option<Seal>> = BTreeMap::new();
        for (place, misfit) in misfits.iter().enumerate() {
            let id = misfit.found.id;
            let before = true_seals.get(&(id - 1)).copied().unwrap_or(misfit.before);
            let Some(before) = before else {
                // There is no row to compare with, but values that no row can hold are reported.
                let text = changed(id, &misfit.found);
                self.findings.push(AuditFinding::new(FindingKind::Changed, id, text));
                continue;
            };
            if misfit.found.fits(id, before) {
                true_seals.insert(id, misfit.found.seal);
                continue;
            }
            let elsewhere = misfits.iter().map(|other| &other.found);
            let moved = elsewhere.filter(|other| other.id != id).find(|it| it.fits(id, before));
            if let Some(moved) = moved {
                true_seals.insert(id, moved.seal);
                let text = format!("row {id} stands in the place of row {}", moved.id);
                self.findings.push(AuditFinding::new(FindingKind::Reordered, id, text));
                continue;
            }
            if let Some(gone) = renumbered(misfit, misfits.get(place + 1)) {
                let why = "; the rows after were numbered anew";
                self.findings.push(missing(FindingKind::Removed, id, id + gone - 1, why));
                self.unkept = 0;
                return;
            }
            self.findings.push(AuditFinding::new(
                FindingKind::Changed,
                id,
                changed(id, &misfit.found),
            ));
        }
    }
}

fn changed(id: i64, found: &StoredRow) -> String {
    if found.row.is_none() || found.seal.is_none() {
        return format!("row {id} was changed: it holds what no row can hold");
    }
    format!("row {id} was changed, or row {} with its hash made anew", id - 1)
}

fn missing(kind: FindingKind, from: i64, to: i64, why: &str) -> AuditFinding {
    let text = match (kind, from == to) {
        (FindingKind::CutOff, true) => format!("row {from} was cut off{why}"),
        (FindingKind::CutOff, false) => format!("rows {from} to {to} were cut off{why}"),
        (_, true) => format!("row {from} is missing{why}"),
        (_, false) => format!("rows {from} to {to} are missing{why}"),
    };
    AuditFinding::new(kind, from, text)
}

/// How many rows are gone before this one, where it and its neighbour fit with higher numbers.
fn renumbered(misfit: &Misfit, next: Option<&Misfit>) -> Option<i64> {
    const MOST: i64 = 64;
    let (seal, next) = (misfit.found.seal?, next?);
    (1..=MOST).find(|gone| next.found.fits(next.found.id + gone, seal))
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;

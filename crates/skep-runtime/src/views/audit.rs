//! The audit trail as the doors show it. Rows are scrubbed when they are written.

use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use skep_core::audit::{AuditKind, AuditRow, AuditVerdict, Seal, StoredRow};
use skep_core::ids::AgentName;
use skep_core::{BoxStream, Millis};
use skep_store::audit::{self, Wanted};

use crate::door::{Credential, DoorError};
use crate::hive::{Hive, door_error};

/// What is asked for; what is left out does not matter.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    pub agent: Option<AgentName>,
    pub tool: Option<String>,
    pub outcome: Option<String>,
    pub turn: Option<String>,
    pub kind: Option<AuditKind>,
    /// `next` of the page before.
    pub cursor: Option<i64>,
    pub limit: usize,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AuditPage {
    /// Newest first. A page may be short, even empty, and still have a `next`.
    pub rows: Vec<AuditInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// One row of the audit trail. What a row of its kind does not have is absent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AuditInfo {
    pub id: i64,
    pub at: Millis,
    pub kind: AuditKind,
    /// Who asked for the turn, or who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Another agent may have had the same name. Absent in rows from before there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Of a call, without secrets; of other kinds, what there is to say.
    pub arguments: Value,
    /// What each stage of the gate said: a list of `{stage, word}`.
    pub decision: Value,
    pub outcome: String,
    pub took_ms: i64,
    /// Of the answer.
    pub bytes: i64,
    /// SHA-256 over this row and the hash before it.
    pub hash: String,
}

impl AuditInfo {
    fn new((row, seal): (AuditRow, Seal)) -> Self {
        let parsed = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| text.into());
        Self {
            arguments: parsed(&row.arguments),
            decision: parsed(&row.decision),
            ..Self::verbatim(row, seal)
        }
    }

    /// With the texts that are sealed, as texts.
    fn verbatim(row: AuditRow, seal: Seal) -> Self {
        Self {
            id: row.id,
            at: row.at,
            kind: row.kind,
            principal: row.principal,
            agent: row.agent,
            agent_id: row.agent_id.map(|agent| agent.0),
            session: row.session,
            turn: row.turn,
            call_id: row.call_id,
            tool: row.tool,
            arguments: row.arguments.into(),
            decision: row.decision.into(),
            outcome: row.outcome,
            took_ms: row.took_ms,
            bytes: row.bytes,
            hash: seal.to_string(),
        }
    }
}

impl Hive {
    pub async fn audit(
        &self,
        query: AuditQuery,
        credential: &Credential,
    ) -> Result<AuditPage, DoorError> {
        let AuditQuery { agent, tool, outcome, turn, kind, cursor, limit } = query;
        let agent = match agent {
            None => None,
            Some(agent) => match self.shared.stored_agent(&agent).await? {
                Some((id, _)) => Some(id),
                None => return Ok(AuditPage { rows: Vec::new(), next: None }),
            },
        };
        let wanted = Wanted { agent, tool, outcome, turn, kind };
        let read = async move |conn: &mut _| audit::page(conn, &wanted, cursor, limit).await;
        let page = self.shared.store.read_page(credential.name(), read).await;
        let page = page.map_err(door_error)?;
        let rows = page.rows.into_iter().map(AuditInfo::new).collect();
        Ok(AuditPage { rows, next: page.next })
    }

    pub async fn verify_audit(&self) -> Result<AuditVerdict, DoorError> {
        self.shared.store.verify_audit().await.map_err(door_error)
    }

    /// Every row as JSON lines, oldest first, in pieces of whole lines: with the texts that are
    /// sealed, so that whoever has them can compute the hashes.
    pub fn export_audit(
        &self,
        credential: &Credential,
    ) -> BoxStream<'static, Result<String, DoorError>> {
        let begin = (self.shared.store.clone(), credential.name().to_owned(), 0);
        let pieces = stream::try_unfold(begin, |(store, who, after)| async move {
            let read = store.read_page(&who, async move |conn| {
                let found = audit::found_after(conn, after).await?;
                Ok(found.last().map(|found| found.id).map(|last| (lines_of(found), last)))
            });
            let piece = read.await.map_err(door_error)?;
            Ok(piece.map(|(lines, last)| (lines, (store, who, last))))
        });
        pieces.boxed()
    }
}

fn lines_of(found: Vec<StoredRow>) -> String {
    let mut lines = String::new();
    for found in found {
        // A row that cannot be read has its number all the same.
        let line = match (found.row, found.seal) {
            (Some(row), seal) => {
                let info = AuditInfo::verbatim(row, seal.unwrap_or_default());
                let mut line = serde_json::to_value(info).unwrap_or_default();
                // What became known as a secret after the row was written.
                if skep_scrub::known().clean_json(&mut line) {
                    line["redacted"] = true.into();
                }
                line
            }
            (None, _) => serde_json::json!({ "id": found.id, "unreadable": true }),
        };
        lines.push_str(&line.to_string());
        lines.push('\n');
    }
    lines
}

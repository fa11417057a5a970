//! Why the vendor's cache did not help a session's calls, from what is kept anyway.

use serde_json::Value;

use skep_core::Millis;
use skep_core::audit::{AuditKind, AuditRow};
use skep_core::cache_break::{CacheBreak, CacheChanges, CachedCall, ChangedFiles, explain};
use skep_core::ids::{AgentName, SessionId};
use skep_core::message::{Message, View};
use skep_store::audit::{self, Wanted};
use skep_store::{compactions, history};

use crate::door::{Credential, DoorError};
use crate::hive::{Hive, door_error};

/// The newest rows are looked at, and the newest changes of files.
const ROWS: u32 = 500;
const CHANGES: usize = 100;

impl Hive {
    /// Breaks of the cache in the newest part of a session, oldest first. Whoever asks sees it.
    pub async fn cache_breaks(
        &self,
        agent: &AgentName,
        session: &SessionId,
        credential: &Credential,
    ) -> Result<Vec<CacheBreak>, DoorError> {
        let places = self.places_of_rules(agent);
        let (agent, session) = (agent.clone(), session.clone());
        let read = self.shared.store.read_page(credential.name(), async move |conn| {
            let rows = history::page(conn, &agent, &session, View::Full, None, ROWS).await?;
            let calls = calls_of(&rows);
            let compaction = compactions::newest(conn, &session).await?;
            let wanted = Wanted {
                agent: None,
                tool: None,
                outcome: Some("config_applied".to_owned()),
                turn: None,
                kind: Some(AuditKind::Change),
            };
            let changed = audit::page(conn, &wanted, None, CHANGES).await?.rows;
            let changed = changed.iter().map(|(row, _)| row).filter(|row| touches(row, &agent));
            let reads = |file: &str| places.iter().any(|place| file.starts_with(place.as_str()));
            let mut settings: Vec<_> = changed.map(|row| change_of(row, reads)).collect();
            settings.reverse();
            let compaction = compaction.map(|compaction| (compaction.seam, compaction.at));
            Ok(explain(&calls, &CacheChanges { compaction, settings }))
        });
        read.await.map_err(door_error)
    }

    /// Where the files are that stand in an agent's prompt.
    fn places_of_rules(&self, agent: &AgentName) -> Vec<String> {
        let tree = self.tree();
        let mut places = vec!["rules/".to_owned(), format!("teams/{agent}/")];
        let mut above = tree.parent(agent);
        while let Some(name) = above {
            let place = format!("teams/{name}/org-rules/");
            // Where the tree leads back to the agent.
            if places.contains(&place) {
                break;
            }
            places.push(place);
            above = tree.parent(name);
        }
        places
    }
}

fn change_of(row: &AuditRow, reads: impl Fn(&str) -> bool) -> ChangedFiles {
    let what: Value = serde_json::from_str(&row.arguments).unwrap_or_default();
    let files = what["files_changed"].as_array().into_iter().flatten().filter_map(Value::as_str);
    ChangedFiles {
        at: row.at,
        files: files.filter(|file| reads(file)).map(str::to_owned).collect(),
    }
}

fn calls_of(rows: &[Message]) -> Vec<CachedCall> {
    let turns = rows.chunk_by(|before, row| before.turn == row.turn);
    let calls = turns.flat_map(|turn| {
        let began = turn.first().map_or(0, |row| row.timestamp);
        turn.iter().filter_map(move |row| call_of(row, began))
    });
    calls.collect()
}

fn call_of(row: &Message, turn_began: Millis) -> Option<CachedCall> {
    let meta = row.body.meta.as_ref().filter(|meta| !meta.api.is_empty())?;
    let usage = &meta.usage;
    Some(CachedCall {
        seq: row.seq,
        at: row.timestamp,
        turn_began,
        model: format!("{}/{}", meta.provider, meta.model),
        prompt: usage.total_tokens.saturating_sub(usage.output),
        cached: usage.cache_read,
        written: usage.cache_write,
    })
}

/// Whether changed files are this agent's, or everybody's.
fn touches(row: &AuditRow, agent: &AgentName) -> bool {
    let what: Value = serde_json::from_str(&row.arguments).unwrap_or_default();
    let named = what["agents_changed"].as_array().into_iter().flatten();
    what["hive_changed"] == true || named.into_iter().any(|name| name == agent.as_str())
}

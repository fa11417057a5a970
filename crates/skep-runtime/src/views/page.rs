//! A page of history on its way out. In the full view its rows are passed on as they are kept.

use std::ops::RangeInclusive;

use serde::Deserialize;

use skep_core::ids::SessionId;
use skep_core::message::{Message, Meta, Role, StopReason, View, view_of};
use skep_store::history::{self, Lines, Rows};
use skep_store::{Conn, SqlError};

use crate::door::{DoorError, HistoryQuery, json_of};

pub(crate) enum Page {
    Full(Lines),
    Simple(Vec<Message>),
}

/// What of a row the meter looks at.
#[derive(Deserialize)]
struct Metered {
    role: Role,
    meta: Option<Meta>,
}

impl Page {
    pub async fn read(
        conn: &mut Conn,
        query: &HistoryQuery,
        session: &SessionId,
        limit: u32,
    ) -> Result<Self, SqlError> {
        let (agent, view) = (&query.agent, query.view);
        if view == View::Full {
            let newest = Rows::Before(query.before.unwrap_or(i64::MAX));
            let rows = query.after.map_or(newest, Rows::After);
            return history::lines(conn, agent, session, rows, limit).await.map(Self::Full);
        }
        let rows = match query.after {
            Some(after) => history::after(conn, agent, session, view, after, limit).await?,
            None => history::page(conn, agent, session, view, query.before, limit).await?,
        };
        Ok(Self::Simple(rows))
    }

    pub fn seqs(&self) -> Vec<i64> {
        match self {
            Self::Full(lines) => lines.seqs().collect(),
            Self::Simple(rows) => rows.iter().map(|row| row.seq).collect(),
        }
    }

    /// From its first row to its last.
    pub fn range(&self) -> Option<RangeInclusive<i64>> {
        let seqs = self.seqs();
        Some(*seqs.first()?..=*seqs.last()?)
    }

    /// What the last call of the model used; nothing before the first one after the `seam`.
    pub fn newest_meta(&self, seam: Option<i64>) -> Option<Meta> {
        let counted = |role: Role, meta: Option<Meta>| {
            meta.filter(|meta| role == Role::Assistant && !meta.api.is_empty())
        };
        match self {
            Self::Full(lines) => {
                let mut after = lines.iter().rev().take_while(|(seq, _)| Some(*seq) > seam);
                after.find_map(|(_, json)| {
                    // Only where it can be one: most rows are looked over faster than read.
                    json.contains("\"meta\"").then_some(())?;
                    let row: Metered = serde_json::from_str(json).ok()?;
                    counted(row.role, row.meta)
                })
            }
            Self::Simple(rows) => {
                let mut after = rows.iter().rev().take_while(|row| Some(row.seq) > seam);
                after.find_map(|row| counted(row.body.role, row.body.meta.clone()))
            }
        }
    }

    /// The messages as JSON, with commas between them.
    pub fn into_json(self) -> Result<String, DoorError> {
        match self {
            Self::Full(lines) => Ok(lines.json),
            Self::Simple(rows) => {
                let rows = rows.into_iter().filter_map(spoken);
                let rows = json_of(&rows.collect::<Vec<_>>())?;
                let inside = rows.strip_prefix('[').and_then(|rows| rows.strip_suffix(']'));
                Ok(inside.unwrap_or_default().to_owned())
            }
        }
    }
}

/// What was said. An answer that is not whole keeps its `meta`, which says so.
fn spoken(row: Message) -> Option<Message> {
    let meta = row.body.meta.clone();
    let cut = |meta: &Meta| matches!(meta.stop_reason, StopReason::MaxTokens | StopReason::Refusal);
    let mut row = view_of(row, View::Simple)?;
    row.body.meta = meta.filter(cut);
    Some(row)
}

//! Calls whose outcome a crash left unknown: a person says what became of them, or has one run
//! again.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use skep_core::Millis;
use skep_core::cause::{CallRef, Cause};
use skep_core::event::Resolution;
use skep_core::ids::{AgentName, CallId, ItemId, Principal, SessionKey, TurnId};
use skep_core::settings::QueueMode;
use skep_guard::clock;
use skep_store::approvals;
use skep_store::inbox::{Accept, Accepted};
use skep_store::outcomes::{self, Resolve, UnknownCallRow};
use skep_turn::lane::Slot;

use crate::door::{DoorError, ErrorKind, Inbound, Source};
use crate::hive::{Hive, door_error};
use crate::intake::Opens;

/// Calls of one answer.
const SHOWN: u32 = 200;
/// Of a note, in characters.
const LONGEST_NOTE: usize = 2000;

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct UnknownCallInfo {
    pub turn: TurnId,
    pub call_id: CallId,
    pub agent: AgentName,
    pub session_key: SessionKey,
    pub tool: String,
    pub arguments: Value,
    /// When it was found that nobody knows.
    pub at: Millis,
}

/// What was said about a call.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ResolvedInfo {
    pub turn: TurnId,
    pub call_id: CallId,
    pub outcome: Resolution,
    /// The item that runs it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemId>,
}

impl Hive {
    /// Newest first.
    pub async fn unknown_calls(&self) -> Result<Vec<UnknownCallInfo>, DoorError> {
        let read = self.shared.store.read(async |conn| {
            let mut calls = Vec::new();
            for call in outcomes::unknown_calls(conn, SHOWN).await? {
                let of = CallRef { turn: call.turn.clone(), call: call.call_id.clone() };
                let arguments = outcomes::made(conn, &of).await?.unwrap_or_default().1;
                calls.push((call, arguments));
            }
            Ok(calls)
        });
        let calls = read.await.map_err(door_error)?;
        let info = |(call, mut arguments): (UnknownCallRow, Value)| {
            skep_scrub::known().clean_json(&mut arguments);
            let UnknownCallRow { turn, call_id, agent_name: agent, tool, at, session_key, .. } =
                call;
            UnknownCallInfo { turn, call_id, agent, session_key, tool, arguments, at }
        };
        Ok(calls.into_iter().map(info).collect())
    }

    /// Keeps what a person found out. A call that is to run again becomes an item of its lane; it
    /// passes the whole gate, as if it were made now.
    pub async fn resolve_call(
        &self,
        turn: TurnId,
        call: CallId,
        outcome: Resolution,
        note: Option<String>,
        principal: &Principal,
    ) -> Result<ResolvedInfo, DoorError> {
        let note = note.map(|note| skep_scrub::known().clean_owned(note));
        if note.as_ref().is_some_and(|note| note.chars().count() > LONGEST_NOTE) {
            let text = format!("A note has at most {LONGEST_NOTE} characters.");
            return Err(DoorError::new(ErrorKind::Invalid, "invalid_note", text));
        }
        let (again, permit) = match outcome {
            Resolution::RunAgain => {
                let (accept, permit) = self.again(&turn, &call, principal).await?;
                (Some(accept), permit)
            }
            Resolution::Happened | Resolution::DidNot => (None, None),
        };
        let item = again.as_ref().map(|again| again.letter.item.clone());
        let resolve = Resolve {
            turn: turn.clone(),
            call: call.clone(),
            outcome,
            note,
            principal: principal.clone(),
            again,
            now: clock::now_ms(),
        };
        let shared = Arc::clone(&self.shared);
        // Also where the caller goes away: what was accepted is to be run.
        let task = self.shared.tasks.spawn(async move {
            let outcome = shared.store.write(resolve).await.map_err(door_error)?;
            if let Some(Accepted::Started { lease }) = outcome {
                shared.turns.begin(*lease, permit);
            }
            shared.env().lanes.wake();
            Ok(())
        });
        task.await.unwrap_or_else(|_| Err(DoorError::failed()))?;
        Ok(ResolvedInfo { turn, call_id: call, outcome, item })
    }

    async fn again(
        &self,
        turn: &TurnId,
        call: &CallId,
        principal: &Principal,
    ) -> Result<(Accept, Option<Slot>), DoorError> {
        let made = CallRef { turn: turn.clone(), call: call.clone() };
        let read = self.shared.store.read(async |conn| {
            let calls = outcomes::unknown_calls(conn, u32::MAX).await?;
            let found = calls.into_iter().find(|it| it.turn == *turn && it.call_id == *call);
            Ok(match found.zip(outcomes::made(conn, &made).await?) {
                Some((found, _)) => Ok((found, approvals::asked_by(conn, turn).await?)),
                None => Err(outcomes::why_not(conn, turn, call).await?),
            })
        });
        let found = read.await.map_err(door_error)?;
        let (found, asked_by) = found.map_err(|why| door_error(why.into()))?;
        let agent = self.agent_of(found.agent, &found.agent_name)?;
        let inbound = Inbound {
            agent: found.agent_name,
            session_key: found.session_key,
            text: format!(
                "The call of `{}` whose outcome was unknown runs again now, as {principal} wants \
                 it; its result follows.",
                found.tool
            ),
            attachments: Vec::new(),
            mode: None,
            think: None,
            // It runs with the rights of whoever had asked for it, not of whoever decides.
            principal: asked_by.first().map_or_else(|| principal.clone(), Principal::new),
            source: Source::Api { key: None },
        };
        let cause = Cause::Again(made);
        let letter = self.letter(&inbound, cause, inbound.text.clone(), Vec::new())?;
        self.acceptance(&agent, letter, Some(QueueMode::Queue), Opens::Turn)
    }
}

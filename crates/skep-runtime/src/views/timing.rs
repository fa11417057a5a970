//! How the time of a turn was spent, from what it left in the store.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use skep_core::Millis;
use skep_core::engine::{FailureCode, RetryCode};
use skep_core::event::CallState;
use skep_core::ids::{CallId, TurnId};
use skep_core::message::{Meta, StopReason, Usage};
use skep_core::visible::summary;
use skep_store::timing::{self, TimedApproval, TimedCall, TimedRow, TimedTurn, TurnTimes};

use crate::door::{Credential, DoorError, ErrorKind, Sight, TimingKind, TimingRow, TurnTiming};
use crate::hive::{Hive, door_error};

impl Hive {
    pub async fn turn_timing(
        &self,
        id: &TurnId,
        credential: &Credential,
        sight: &Sight,
    ) -> Result<TurnTiming, DoorError> {
        let wanted = id.clone();
        let read = self
            .shared
            .store
            .read_page(credential.name(), async move |conn| timing::of_turn(conn, &wanted).await);
        let seen = |times: &TurnTimes| sight.covers(times.turn.agent, &times.turn.session_key);
        let found = read.await.map_err(door_error)?.filter(seen).ok_or_else(|| {
            let text = format!("There is no turn `{id}`.");
            DoorError::new(ErrorKind::NotFound, "unknown_turn", text)
        })?;
        let running = self.shared.env().lanes.registry.get(id);
        let asking = running.and_then(|running| running.times().under_way());
        let rows = rows(&found, asking);
        let failed = failed_row(&found)
            .map_or(0, |row| u32::try_from(row.tries.unwrap_or(1)).unwrap_or(u32::MAX));
        let mut usage = Usage::default();
        let metas = found.rows.iter().filter_map(|row| row.body.meta.as_ref());
        let model_calls = metas.map(|meta| usage.add(meta.usage)).count();
        let TurnTimes { turn, item, cut, .. } = found;
        Ok(TurnTiming {
            turn: id.clone(),
            agent: turn.agent_name,
            session: turn.session,
            session_key: turn.session_key,
            item_id: item.map(|(item, _)| item),
            state: turn.state,
            waiting_for: turn.waiting_for.filter(|_| turn.ended_at.is_none()),
            started_at: turn.started_at,
            ended_at: turn.ended_at,
            active_ms: turn.active_ms,
            model_calls: u32::try_from(model_calls).unwrap_or(u32::MAX).saturating_add(failed),
            cost: usage.cost,
            rows,
            cut,
        })
    }
}

/// `asking`: since when the model call under way is made, and since when it speaks.
fn rows(times: &TurnTimes, asking: Option<(Millis, Option<Millis>)>) -> Vec<TimingRow> {
    let mut rows = Vec::new();
    let begun = times.turn.started_at;
    if let Some((_, accepted)) = &times.item
        && *accepted < begun
    {
        rows.push(TimingRow { until: Some(begun), ..row(TimingKind::Wait, "queue", *accepted) });
    }
    // What was not seen to begin began when the thing before it was over.
    let mut before = begun;
    for said in &times.rows {
        rows.extend(model_row(said, before));
        before = said.at;
    }
    let said = Said::of(&times.rows);
    let took: HashMap<&CallId, i64> = times.took.iter().map(|(call, ms)| (call, *ms)).collect();
    for call in &times.calls {
        let asked = times.approvals.iter().filter(|approval| approval.call == call.call);
        let asked: Vec<&TimedApproval> = asked.collect();
        rows.extend(asked.iter().map(|approval| approval_row(approval, call)));
        rows.extend(call_row(call, &said, took.get(&call.call).copied(), asked.is_empty()));
    }
    rows.extend(failed_row(times));
    if let Some((from, first)) = asking {
        rows.push(TimingRow { first, ..row(TimingKind::Model, "model", from) });
    }
    // The clock of the machine may have been set back meanwhile.
    for row in &mut rows {
        row.first = row.first.map(|first| first.max(row.from));
        row.until = row.until.map(|until| until.max(row.from));
    }
    // Model calls stand before the tools they asked for.
    rows.sort_by_key(|row| row.from);
    rows
}

fn row(kind: TimingKind, name: &str, from: Millis) -> TimingRow {
    TimingRow {
        kind,
        name: name.to_owned(),
        from,
        first: None,
        until: None,
        detail: String::new(),
        failed: false,
        tries: None,
        usage: None,
        call_id: None,
        approval: None,
    }
}

fn model_row(said: &TimedRow, before: Millis) -> Option<TimingRow> {
    let meta = said.body.meta.as_ref()?;
    let from = said.times.map_or(before, |times| times.began);
    Some(TimingRow {
        first: said.times.and_then(|times| times.first),
        until: Some(said.times.map_or(said.at, |times| times.ended)),
        detail: meta.profile.clone().unwrap_or_default(),
        failed: is_failed(meta),
        tries: said.times.map(|times| times.tries).filter(|tries| *tries > 1),
        usage: Some(meta.usage),
        ..row(TimingKind::Model, &meta.model, from)
    })
}

/// The model call that the turn failed by, or that is made again later. Of its tries the turn keeps
/// how many there were and why the last one failed.
fn failed_row(times: &TurnTimes) -> Option<TimingRow> {
    let TimedTurn { outcome, attempts, started_at, changed_at, ended_at, .. } = &times.turn;
    let code = outcome.as_deref()?;
    let passes = RetryCode::parse(code).is_some_and(|code| code != RetryCode::EngineCrashed);
    let failed = FailureCode::parse(code).is_some_and(FailureCode::is_of_model);
    // What it had said by then is on record, with times of its own.
    let last = times.rows.last().filter(|_| !times.cut);
    let is_kept = last.and_then(|row| row.body.meta.as_ref()).is_some_and(is_failed);
    if is_kept || !(passes || failed) {
        return None;
    }
    let tries = attempts + i64::from(ended_at.is_some());
    let detail = if tries > 1 { format!("{code}, the last try") } else { code.to_owned() };
    Some(TimingRow {
        until: Some(ended_at.unwrap_or(*changed_at)),
        detail,
        failed: true,
        tries: Some(tries).filter(|tries| *tries > 1),
        ..row(TimingKind::Model, "model", last.map_or(*started_at, |row| row.at))
    })
}

fn is_failed(meta: &Meta) -> bool {
    meta.stop_reason == StopReason::Error
}

/// What the messages of a turn say of its calls.
#[derive(Default)]
struct Said<'a> {
    arguments: HashMap<&'a CallId, &'a Value>,
    failed: HashSet<&'a CallId>,
}

impl<'a> Said<'a> {
    fn of(rows: &'a [TimedRow]) -> Self {
        let mut said = Self::default();
        for row in rows {
            said.arguments.extend(row.body.tool_calls().map(|(id, _, arguments)| (id, arguments)));
            let failed = row.body.is_error == Some(true);
            said.failed.extend(row.body.tool_call_id.iter().filter(|_| failed));
        }
        said
    }

    fn detail(&self, call: &CallId) -> String {
        let Some(arguments) = self.arguments.get(call) else { return String::new() };
        let mut arguments = (*arguments).clone();
        skep_scrub::known().clean_json(&mut arguments);
        summary(&arguments)
    }
}

fn approval_row(approval: &TimedApproval, call: &TimedCall) -> TimingRow {
    let over = (call.state != CallState::Waiting).then_some(call.changed_at);
    let by = approval.decided_by.as_ref().map(|by| format!(" by {by}"));
    TimingRow {
        until: approval.decided_at.or(over),
        detail: format!("{}{}", approval.state.as_str(), by.unwrap_or_default()),
        call_id: Some(approval.call.clone()),
        approval: Some(approval.id.clone()),
        ..row(TimingKind::Wait, &approval.tool, approval.asked_at)
    }
}

/// Nothing for a call that never began. `took` is how long its program ran; `unasked`: what it
/// waited for, if it did, was no person's decision about it.
fn call_row(
    call: &TimedCall,
    said: &Said<'_>,
    took: Option<i64>,
    unasked: bool,
) -> Option<TimingRow> {
    let began = call.started_at?;
    let waits = call.state == CallState::Waiting;
    let over = match call.state {
        CallState::Done | CallState::Unknown => Some(call.changed_at),
        CallState::Planned | CallState::Started | CallState::Waiting => None,
    };
    // Short calls are written when they are over, and those beside each other when all are.
    let (from, until) = match (over, took.filter(|_| !call.waited)) {
        (Some(over), Some(took)) => {
            let from = began.min(over.saturating_sub(took));
            (from, Some(over.min(from.saturating_add(took))))
        }
        (over, _) => (began, over),
    };
    let kind = if unasked && (waits || call.waited) { TimingKind::Wait } else { TimingKind::Tool };
    let reason = call.reason.as_ref().filter(|_| waits).cloned();
    Some(TimingRow {
        until,
        detail: reason.unwrap_or_else(|| said.detail(&call.call)),
        failed: said.failed.contains(&call.call) || call.state == CallState::Unknown,
        call_id: Some(call.call.clone()),
        ..row(kind, &call.tool, from)
    })
}

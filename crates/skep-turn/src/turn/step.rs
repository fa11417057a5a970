//! A step's tool calls: journalled, run through the gate, journalled. A call is `started` once it
//! has its place among those that run, and not before; one with effects, or an approval, has that
//! on the disk before it runs. Calls that change nothing run side by side.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::mpsc;
use tracing::Instrument;

use skep_core::Millis;
use skep_core::decision::Decision;
use skep_core::engine::ToolCall;
use skep_core::event::CallState;
use skep_core::ids::CallId;
use skep_core::message::{Block, Body, Message};
use skep_core::redelivery::{self, Again};
use skep_core::tool::{ToolAnswer, ToolContext};
use skep_store::approvals::NewApproval;
use skep_store::history::{Call, NewHistoryRow};
use skep_store::journal::{Audit, Entry, NewCall};
use skep_store::waits::Park;

use skep_guard::random;

use super::persist::{Joining, Lost};
use super::start::{StepLog, mark_started, reach_start, started};
use super::state::{EndRequest, Turn, TurnState};
use crate::gate::{self, CallOutcome, ClearedCall, End, Examination, Question};

/// Calls without effects that end within this time are written with their results, in one commit;
/// what takes longer is seen to run.
const AT_ONCE: Duration = Duration::from_millis(10);

/// Calls of one answer that run. The others are answered to the model, which may make them again.
const MOST_CALLS: usize = 1000;

/// A call of the step, and what is to be done about it.
pub(crate) struct PlannedCall {
    pub call: ToolCall,
    pub retry_safe: bool,
    /// It may run before its message is on record.
    looks: bool,
    pub decision: Option<Decision>,
    pub again: Again,
    /// What it waits for, when it waits.
    pub reason: Option<String>,
    /// The question it waits for, where that is one to a person, and until when.
    pub question: Option<(String, Millis)>,
    /// An engine with a loop of its own asked for it: it is never run again by us.
    pub own: bool,
    /// More calls stand before it than one answer may hold.
    excess: bool,
}

impl PlannedCall {
    /// Nobody has answered its question, and the time for that is over.
    pub fn has_expired(&self, now: Millis) -> bool {
        let over = self.question.as_ref().is_some_and(|(_, until)| *until <= now);
        over && self.again == Again::Wait
    }
}

/// A call that waits.
pub(crate) struct WaitingCall {
    pub call: ToolCall,
    pub reason: String,
    /// To be asked with the wait.
    pub approval: Option<NewApproval>,
    pub until: Option<Millis>,
}

/// How a step's calls ended.
pub(crate) enum StepEnd {
    /// All have their results; these rows are new.
    Done(Vec<Arc<Message>>),
    /// The turn waits and gave its lease back.
    Parked,
    /// The turn is to end; `open` gives every call without a result its last word.
    Ended { request: EndRequest, open: Vec<Entry> },
}

/// The calls of a message that was just said.
pub(crate) fn plan(turn: &Turn, body: &Body) -> Vec<PlannedCall> {
    let calls = body.tool_calls().enumerate().map(|(at, (id, name, arguments))| {
        let manner = turn.manner(name, arguments);
        PlannedCall {
            call: gate::call_of(id, name, arguments),
            retry_safe: manner.retry_safe,
            looks: manner.only_looks(),
            decision: None,
            again: Again::Run,
            reason: None,
            question: None,
            own: false,
            excess: at >= MOST_CALLS,
        }
    });
    calls.collect()
}

/// The calls of the last journalled message, after a restart or a wait.
pub(crate) fn replan(body: &Body, journalled: &[Call]) -> Vec<PlannedCall> {
    let calls = body.tool_calls().enumerate().filter_map(|(at, (id, name, arguments))| {
        let row = journalled.iter().find(|row| row.call_id == *id)?;
        Some(PlannedCall {
            call: gate::call_of(id, name, arguments),
            retry_safe: row.retry_safe,
            looks: row.retry_safe,
            decision: row.decision.clone(),
            again: redelivery::decide(row.state, row.retry_safe, row.decision.is_some()),
            reason: row.reason.clone(),
            question: None,
            own: row.own,
            excess: at >= MOST_CALLS,
        })
    });
    calls.collect()
}

/// Runs the calls. `said` is the message that asks for them, where it is not on record yet.
pub(crate) async fn run(
    turn: &Turn,
    state: &mut TurnState,
    said: Option<NewHistoryRow>,
    calls: Vec<PlannedCall>,
) -> Result<StepEnd, Lost> {
    let mut entries = Vec::new();
    if let Some(message) = said {
        let planned = calls.iter().map(|planned| NewCall {
            id: planned.call.id.clone(),
            tool: planned.call.name.clone(),
            retry_safe: planned.retry_safe,
            decision: planned.decision.clone(),
            own: false,
        });
        entries.push(Entry::Assistant { message, calls: planned.collect() });
    }
    if state.is_looping(&calls) && !entries.is_empty() {
        let open = calls.into_iter().map(|planned| planned.call).collect();
        return end_step(turn, state, EndRequest::Loop, entries, open).await;
    }
    let mut to_run = Vec::new();
    let mut waiting = Vec::new();
    for planned in calls {
        let now = turn.env.now();
        match planned.again {
            Again::Wait if planned.has_expired(now) => {
                entries.extend(expired(&planned));
            }
            Again::Keep => {}
            Again::Unknown => entries.push(unknown(&planned.call)),
            Again::Wait => {
                let (reason, until) = (planned.reason, planned.question.map(|(_, until)| until));
                let reason = reason.unwrap_or_default();
                waiting.push(WaitingCall { call: planned.call, reason, approval: None, until });
            }
            Again::Run if planned.excess => entries.push(too_many(&planned.call)),
            Again::Run => to_run.push(planned),
        }
    }
    if to_run.iter().all(|planned| planned.looks && planned.decision.is_none()) {
        side_by_side(turn, state, entries, to_run, waiting).await
    } else {
        one_by_one(turn, state, entries, to_run, waiting).await
    }
}

async fn side_by_side(
    turn: &Turn,
    state: &mut TurnState,
    entries: Vec<Entry>,
    calls: Vec<PlannedCall>,
    mut waiting: Vec<WaitingCall>,
) -> Result<StepEnd, Lost> {
    let earlier = state.deferred.rows();
    let mut entries = state.with_notes(entries);
    // Calls that began and are not on record as started; there is room for all of them.
    let (begins, mut begun) = mpsc::channel(calls.len().max(1));
    let running: Vec<_> = calls
        .iter()
        .map(|planned| run_one(turn, planned, state.braked(&planned.call), begins.clone()))
        .collect();
    let mut running = std::pin::pin!(turn.guarded(join_all(running)));
    let mut submitted = Vec::new();
    let (ended, ran) = loop {
        tokio::select! {
            biased;
            ran = &mut running => break ran,
            () = tokio::time::sleep(AT_ONCE), if submitted.is_empty() => {}
            Some(call) = begun.recv(), if !submitted.is_empty() => {
                entries.push(Entry::Started { call });
            }
        }
        entries.extend(marks_of(&mut begun));
        let before = turn.journal(state, std::mem::take(&mut entries), Joining::Later);
        submitted.push((turn.submit(before.clone()), before));
    };
    entries.extend(marks_of(&mut begun));
    let (mut results, mut never_ran) = (Vec::new(), Vec::new());
    for (planned, passed) in calls.iter().zip(ran) {
        match settle(turn, state, planned, passed) {
            CallEnd::Answered(entries) => results.extend(entries),
            CallEnd::Waits(waits) => waiting.push(*waits),
            CallEnd::NotRun => never_ran.push(planned.call.clone()),
        }
    }
    let mut rows = Vec::new();
    let at_once = submitted.is_empty();
    if let Some(request) = ended {
        for (submitted, before) in submitted {
            turn.confirm(state, submitted, before).await?;
        }
        if !entries.is_empty() {
            turn.write(state, entries, Joining::Later).await?;
        }
        never_ran.extend(waiting.into_iter().map(|waits| waits.call));
        return end_step(turn, state, request, results, never_ran).await;
    }
    let all_ran = waiting.is_empty() && never_ran.is_empty();
    results.extend(never_ran.iter().map(|call| not_run(call, "the turn ended")));
    entries.extend(state.with_notes(results));
    if at_once && all_ran {
        entries = match turn.defer(state, entries) {
            Ok(rows) => return Ok(StepEnd::Done(rows)),
            Err(entries) => entries,
        };
    }
    let joining = if waiting.is_empty() { Joining::Now } else { Joining::Later };
    let after = turn.journal(state, entries, joining);
    let written = turn.submit(after.clone());
    for (submitted, before) in submitted {
        rows.extend(turn.confirm(state, submitted, before).await?);
    }
    rows.extend(turn.confirm(state, written, after).await?);
    finish(turn, state, rows.split_off(earlier), waiting).await
}

/// The marks of the calls that began by now.
fn marks_of(begun: &mut mpsc::Receiver<CallId>) -> impl Iterator<Item = Entry> {
    std::iter::from_fn(|| begun.try_recv().ok()).map(|call| Entry::Started { call })
}

async fn one_by_one(
    turn: &Turn,
    state: &mut TurnState,
    entries: Vec<Entry>,
    calls: Vec<PlannedCall>,
    mut waiting: Vec<WaitingCall>,
) -> Result<StepEnd, Lost> {
    let earlier = state.deferred.rows();
    let mut log = StepLog { entries: state.deferred.with(entries), rows: Vec::new() };
    // Their start is on the disk, and made again they come to the same.
    let may_defer = calls.iter().all(|call| call.retry_safe && call.decision.is_none());
    let mut calls = calls.into_iter();
    while let Some(planned) = calls.next() {
        let (ended, passed) = match run_alone(turn, state, &planned, &mut log).await? {
            Ok(passed) => passed,
            Err(request) => {
                let mut open = vec![planned.call];
                open.extend(calls.map(|planned| planned.call));
                open.extend(waiting.into_iter().map(|waits| waits.call));
                return end_step(turn, state, request, log.entries, open).await;
            }
        };
        match settle(turn, state, &planned, passed) {
            CallEnd::Answered(known) => log.entries.extend(known),
            CallEnd::Waits(waits) => waiting.push(*waits),
            CallEnd::NotRun => log.entries.push(not_run(&planned.call, "the turn ended")),
        }
        if let Some(request) = ended {
            let waiting = waiting.into_iter().map(|waits| waits.call);
            let open = calls.map(|planned| planned.call).chain(waiting).collect();
            return end_step(turn, state, request, log.entries, open).await;
        }
    }
    let joining = if waiting.is_empty() { Joining::Now } else { Joining::Later };
    let StepLog { mut entries, mut rows } = log;
    if may_defer && waiting.is_empty() {
        entries = match turn.defer(state, entries) {
            Ok(deferred) => {
                rows.extend(deferred);
                return Ok(StepEnd::Done(rows.split_off(earlier)));
            }
            Err(entries) => entries,
        };
    }
    rows.extend(turn.write(state, entries, joining).await?);
    finish(turn, state, rows.split_off(earlier), waiting).await
}

/// Runs one call with its start on the disk before it. `Err`: the turn ends before it began.
async fn run_alone(
    turn: &Turn,
    state: &mut TurnState,
    planned: &PlannedCall,
    log: &mut StepLog,
) -> Result<Result<(Option<EndRequest>, GateResult), EndRequest>, Lost> {
    let call = &planned.call;
    let context = turn.tool_context(call, planned.decision.clone());
    let cleared = match reach_start(turn, state, call, None, &context, log).await? {
        Ok(Examination::Cleared(cleared)) => cleared,
        Ok(Examination::Asks(question)) => return Ok(Ok((None, GateResult::Asks(question)))),
        Ok(Examination::Ended(ran)) => return Ok(Ok((None, GateResult::Ran(ran)))),
        Err(request) => return Ok(Err(request)),
    };
    if let Err(request) = mark_started(turn, state, call, cleared.approval(), log).await? {
        return Ok(Err(request));
    }
    let (ended, ran) = turn.guarded(turn.run_cleared(call, *cleared, context)).await;
    Ok(Ok((ended, GateResult::Ran(Box::new(ran)))))
}

pub(crate) async fn finish(
    turn: &Turn,
    state: &mut TurnState,
    rows: Vec<Arc<Message>>,
    waiting: Vec<WaitingCall>,
) -> Result<StepEnd, Lost> {
    let Some(first) = waiting.first() else {
        return Ok(StepEnd::Done(rows));
    };
    let reason = first.reason.clone();
    let until = waiting.iter().filter_map(|waits| waits.until).min();
    let calls = waiting.iter().map(|waits| (waits.call.id.clone(), waits.reason.clone())).collect();
    let park = Park {
        turn: turn.lease.turn.clone(),
        token: turn.lease.token,
        reason,
        calls,
        approvals: waiting.into_iter().filter_map(|waits| waits.approval).collect(),
        retries: None,
        until,
        active_ms: turn.active_ms(),
        now: turn.env.now(),
    };
    turn.park(state, park).await?;
    Ok(StepEnd::Parked)
}

impl WaitingCall {
    pub fn asks(call: &ToolCall, question: Question) -> Self {
        let Question { approval, reason } = question;
        let until = Some(approval.expires_at);
        Self { call: call.clone(), reason, until, approval: Some(approval) }
    }
}

/// How a call came through the gate.
enum GateResult {
    Ran(Box<CallOutcome>),
    Asks(Box<Question>),
}

/// `refused` is the word of the loop brake, where it does not let the call run.
async fn run_one(
    turn: &Turn,
    planned: &PlannedCall,
    refused: Option<CallOutcome>,
    begins: mpsc::Sender<CallId>,
) -> GateResult {
    if let Some(refused) = refused {
        return GateResult::Ran(Box::new(refused));
    }
    let call = &planned.call;
    let context = turn.tool_context(call, planned.decision.clone());
    let mut examined = turn.examine(call, None, &context).await;
    if let Examination::Cleared(mut cleared) = examined {
        turn.admit_now(&mut cleared);
        examined = turn.admit(call, cleared, &context).await;
    }
    match examined {
        Examination::Asks(question) => GateResult::Asks(question),
        Examination::Ended(ran) => GateResult::Ran(ran),
        Examination::Cleared(cleared) => {
            let _ = begins.try_send(call.id.clone());
            GateResult::Ran(Box::new(turn.run_cleared(call, *cleared, context).await))
        }
    }
}

pub(crate) enum CallEnd {
    Answered(Vec<Entry>),
    Waits(Box<WaitingCall>),
    /// The turn ended first.
    NotRun,
}

fn settle(
    turn: &Turn,
    state: &mut TurnState,
    planned: &PlannedCall,
    passed: GateResult,
) -> CallEnd {
    let call = &planned.call;
    match passed {
        GateResult::Asks(question) => CallEnd::Waits(Box::new(WaitingCall::asks(call, *question))),
        GateResult::Ran(ran) => call_end(turn, state, call, planned.retry_safe, *ran),
    }
}

/// What a call that came out of the gate is written as.
pub(crate) fn call_end(
    turn: &Turn,
    state: &mut TurnState,
    call: &ToolCall,
    retry_safe: bool,
    ran: CallOutcome,
) -> CallEnd {
    let manner = turn.manner(&call.name, &call.arguments);
    let (ran, id) = (state.watched(call, manner, ran), call.id.clone());
    match ran.answer {
        ToolAnswer::Wait { reason } => {
            let call = call.clone();
            CallEnd::Waits(Box::new(WaitingCall { call, reason, approval: None, until: None }))
        }
        _ if ran.end == End::NotRun => CallEnd::NotRun,
        ToolAnswer::Done { text, .. } | ToolAnswer::Cut { text, .. }
            if ran.end == End::Cut && !retry_safe =>
        {
            let (text, audit) = (format!("{UNKNOWN}\n{text}"), Some(ran.audit));
            CallEnd::Answered(vec![last_word(call, &text, "unknown", CallState::Unknown, audit)])
        }
        ToolAnswer::Cut { text, .. } => {
            let (state, audit) = (CallState::Done, Some(ran.audit));
            CallEnd::Answered(vec![last_word(call, &text, "stopped", state, audit)])
        }
        ToolAnswer::Done { text, is_error, details, files } => {
            let mut body = Body::tool_result(id.clone(), &call.name, text, is_error);
            body.details = details;
            body.content.extend(files.into_iter().map(Block::File));
            let message = new_message(body);
            let (state, audit) = (CallState::Done, Some(Box::new(ran.audit)));
            let result = Entry::Result { message, call: id, state, audit };
            // Whoever watches sees a call begin and end that never ran.
            let never_ran = ran.end == End::Refused || ran.asked.is_some();
            let mark = never_ran.then(|| started(call));
            let asked = ran.asked.map(|approval| Entry::Asked { approval });
            CallEnd::Answered(mark.into_iter().chain(asked).chain([result]).collect())
        }
    }
}

/// The answer to a call whose question nobody answered in time. It is not a no.
pub(crate) fn expired(planned: &PlannedCall) -> Vec<Entry> {
    let text = format!(
        "approval_expired: the call of `{}` was not run: it had to be approved, and nobody decided \
         in time. That is not a no. Go on without it, or say what you need.",
        planned.call.name
    );
    let audit = Some(gate::expired(&planned.call));
    let mark = planned.question.as_ref().map(|(id, _)| Entry::Expired { approval: id.clone() });
    let result = last_word(&planned.call, &text, "expired", CallState::Done, audit);
    mark.into_iter().chain([result]).collect()
}

const UNKNOWN: &str = "outcome unknown: the call had begun when the turn was cut off; it may or \
                       may not have had its effect, and it was not repeated";

/// The last word on a call that may have had its effect.
pub(crate) fn unknown(call: &ToolCall) -> Entry {
    last_word(call, UNKNOWN, "unknown", CallState::Unknown, Some(gate::lost(call)))
}

/// The last word on a call that never ran.
pub(crate) fn not_run(call: &ToolCall, why: &str) -> Entry {
    let text = format!("cancelled: the call did not run, because {why}");
    last_word(call, &text, "stopped", CallState::Done, Some(gate::never_ran(call, why)))
}

/// The answer to a call of which there are too many in one answer.
fn too_many(call: &ToolCall) -> Entry {
    let text = format!(
        "too_many_calls: the call of `{}` was not run: of one answer at most {MOST_CALLS} calls \
         run. Make it again later, with fewer calls at once.",
        call.name
    );
    last_word(call, &text, "refused", CallState::Done, Some(gate::in_excess(call)))
}

/// `outcome` is what people are shown in place of "failed".
pub(crate) fn last_word(
    call: &ToolCall,
    text: &str,
    outcome: &str,
    state: CallState,
    audit: Option<Audit>,
) -> Entry {
    let mut body = Body::tool_result(call.id.clone(), &call.name, text.to_owned(), true);
    body.details = Some(json!({ "outcome": outcome }));
    let (message, audit) = (new_message(body), audit.map(Box::new));
    Entry::Result { message, call: call.id.clone(), state, audit }
}

pub(crate) fn new_message(body: Body) -> NewHistoryRow {
    NewHistoryRow::new(random::uuid().to_string(), body)
}

impl Turn {
    pub async fn run_cleared(
        &self,
        call: &ToolCall,
        cleared: ClearedCall,
        context: ToolContext,
    ) -> CallOutcome {
        let span = tracing::info_span!("call", tool = call.name);
        let (policy, secrets) = (self.live_policy(), context.secrets.clone());
        let ran = self.gate(&policy).run(call, cleared, context).instrument(span).await;
        self.env.gate.secrets.keep_answer(&self.lease.turn, &call.id, &secrets);
        ran
    }
}

/// A step that is cut: what is known is either journalled for the next lease, or handed to the
/// close.
async fn end_step(
    turn: &Turn,
    state: &mut TurnState,
    request: EndRequest,
    results: Vec<Entry>,
    not_started: Vec<ToolCall>,
) -> Result<StepEnd, Lost> {
    if request == EndRequest::Cut {
        // Planned calls run in the next lease; a call that was cut has no result and will be
        // called unknown there.
        let known: Vec<Entry> = results.into_iter().filter(is_known).collect();
        turn.write(state, known, Joining::Later).await?;
        return Ok(StepEnd::Ended { request, open: Vec::new() });
    }
    let mut open = results;
    open.extend(not_started.iter().map(|call| not_run(call, request.because())));
    Ok(StepEnd::Ended { request, open })
}

fn is_known(entry: &Entry) -> bool {
    !matches!(entry, Entry::Result { state: CallState::Unknown, .. })
}

//! A step's tool calls: journalled, run through the gate, journalled. An effectful call has its
//! `started` on the disk before it runs; calls that change nothing run side by side.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tracing::Instrument;

use skep_core::Millis;
use skep_core::engine::ToolCall;
use skep_core::event::CallState;
use skep_core::ids::CallId;
use skep_core::message::{Block, Body, Message};
use skep_core::redelivery::{self, Again};
use skep_core::tool::{ToolAnswer, ToolContext};
use skep_store::approvals::NewApproval;
use skep_store::history::{Call, NewMessage};
use skep_store::journal::{Audit, Entry, Journal, NewCall};
use skep_store::leases::Park;

use skep_guard::random;

use crate::gate::{self, Cleared, End, Examined, Question, Ran};
use crate::persist::Lost;
use crate::turn::{EndRequest, Turn};

/// Calls without effects that end within this time are written with their results, in one commit;
/// what takes longer is seen to run.
const AT_ONCE: Duration = Duration::from_millis(10);

/// A call of the step, and what is to be done about it.
pub(crate) struct Planned {
    pub call: ToolCall,
    pub retry_safe: bool,
    pub decision: Option<serde_json::Value>,
    pub again: Again,
    /// What it waits for, when it waits.
    pub reason: Option<String>,
    /// The question it waits for, where that is one to a person, and until when.
    pub question: Option<(String, Millis)>,
}

/// A call that waits.
pub(crate) struct Waiting {
    call: CallId,
    reason: String,
    /// To be asked with the wait.
    approval: Option<NewApproval>,
    until: Option<Millis>,
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
pub(crate) fn plan(turn: &Turn, body: &Body) -> Vec<Planned> {
    let calls = body.tool_calls().map(|(id, name, arguments)| Planned {
        call: gate::call_of(id, name, arguments),
        retry_safe: !turn.toolbox().is_effectful(name),
        decision: None,
        again: Again::Run,
        reason: None,
        question: None,
    });
    calls.collect()
}

/// The calls of the last journalled message, after a restart or a wait.
pub(crate) fn replan(body: &Body, journalled: &[Call]) -> Vec<Planned> {
    let calls = body.tool_calls().filter_map(|(id, name, arguments)| {
        let row = journalled.iter().find(|row| row.call_id == *id)?;
        Some(Planned {
            call: gate::call_of(id, name, arguments),
            retry_safe: row.retry_safe,
            decision: row.decision.clone(),
            again: redelivery::decide(row.state, row.retry_safe, row.decision.is_some()),
            reason: row.reason.clone(),
            question: None,
        })
    });
    calls.collect()
}

/// Runs the calls. `said` is the message that asks for them, where it is not on record yet.
pub(crate) async fn run(
    turn: &Turn,
    said: Option<NewMessage>,
    calls: Vec<Planned>,
) -> Result<StepEnd, Lost> {
    let mut entries = Vec::new();
    if let Some(message) = said {
        let planned = calls.iter().map(|planned| NewCall {
            id: planned.call.id.clone(),
            tool: planned.call.name.clone(),
            retry_safe: planned.retry_safe,
            decision: planned.decision.clone(),
        });
        entries.push(Entry::Assistant { message, calls: planned.collect() });
    }
    if turn.is_looping(&calls) && !entries.is_empty() {
        let open = calls.into_iter().map(|planned| planned.call).collect();
        return turn.end_step(EndRequest::Loop, entries, open).await;
    }
    let mut to_run = Vec::new();
    let mut waiting = Vec::new();
    for planned in calls {
        let now = skep_guard::clock::now_ms();
        match planned.again {
            Again::Wait if planned.question.as_ref().is_some_and(|(_, until)| *until <= now) => {
                entries.extend(expired(&planned));
            }
            Again::Keep => {}
            Again::Unknown => entries.push(unknown(&planned.call)),
            Again::Wait => {
                let (reason, until) = (planned.reason, planned.question.map(|(_, until)| until));
                let reason = reason.unwrap_or_default();
                waiting.push(Waiting { call: planned.call.id, reason, approval: None, until });
            }
            Again::Run => to_run.push(planned),
        }
    }
    if to_run.iter().all(|planned| planned.retry_safe) {
        side_by_side(turn, entries, to_run, waiting).await
    } else {
        one_by_one(turn, entries, to_run, waiting).await
    }
}

async fn side_by_side(
    turn: &Turn,
    mut entries: Vec<Entry>,
    calls: Vec<Planned>,
    mut waiting: Vec<Waiting>,
) -> Result<StepEnd, Lost> {
    let earlier = turn.held_rows();
    let started = calls.iter().map(|planned| Entry::Started { call: planned.call.id.clone() });
    entries.extend(started);
    let mut entries = turn.with_notes(entries);
    let running = turn.guarded(join_all(calls.iter().map(|planned| run_one(turn, planned))));
    let mut running = std::pin::pin!(running);
    let (submitted, (ended, ran)) = match tokio::time::timeout(AT_ONCE, &mut running).await {
        Ok(ran) => (None, ran),
        Err(_) => {
            let before = turn.journal(std::mem::take(&mut entries), Steer::No);
            (Some((turn.submit(before.clone()), before)), running.await)
        }
    };
    let (mut results, mut never_ran) = (Vec::new(), Vec::new());
    for (planned, (passed, approval)) in calls.iter().zip(ran) {
        results.extend(approval.map(|approval| Entry::Approved { approval }));
        match settle(planned, passed) {
            Settled::Result(entry) => results.push(*entry),
            Settled::Waits(waits) => waiting.push(*waits),
            Settled::NotRun => never_ran.push(planned.call.clone()),
        }
    }
    if let Some(request) = ended {
        match submitted {
            Some((submitted, before)) => turn.confirm(submitted, before).await?,
            None => turn.persist(turn.journal(entries, Steer::No)).await?,
        };
        return turn.end_step(request, results, never_ran).await;
    }
    let all_ran = waiting.is_empty() && never_ran.is_empty();
    results.extend(never_ran.iter().map(|call| not_run(call, "the turn ended")));
    entries.extend(turn.with_notes(results));
    if submitted.is_none() && all_ran {
        entries = match turn.hold(entries) {
            Ok(rows) => return Ok(StepEnd::Done(rows)),
            Err(entries) => entries,
        };
    }
    let steer = if waiting.is_empty() { Steer::Yes } else { Steer::No };
    let after = turn.journal(entries, steer);
    let written = turn.submit(after.clone());
    let mut rows = match submitted {
        Some((submitted, before)) => turn.confirm(submitted, before).await?,
        None => Vec::new(),
    };
    rows.extend(turn.confirm(written, after).await?);
    finish(turn, rows.split_off(earlier), waiting).await
}

async fn one_by_one(
    turn: &Turn,
    entries: Vec<Entry>,
    calls: Vec<Planned>,
    mut waiting: Vec<Waiting>,
) -> Result<StepEnd, Lost> {
    let earlier = turn.held_rows();
    let mut entries = turn.with_held(entries);
    let mut rows = Vec::new();
    let mut calls = calls.into_iter();
    while let Some(planned) = calls.next() {
        // Before it is marked: a call that waits for a person has not begun.
        let context = turn.tool_context(&planned.call.id, planned.decision.clone());
        let (ended, examined) = turn.guarded(turn.examine(&planned.call, &context)).await;
        let examined = match (ended, examined) {
            (None, Examined::Asks(question)) => {
                waiting.push(Waiting::asks(*question));
                continue;
            }
            (Some(request), _) => {
                let mut open = vec![planned.call];
                open.extend(calls.map(|planned| planned.call));
                return turn.end_step(request, entries, open).await;
            }
            (None, examined) => examined,
        };
        entries.push(Entry::Started { call: planned.call.id.clone() });
        let mut marks = 1;
        if let Some(approval) = examined.approval() {
            entries.push(Entry::Approved { approval });
            marks = 2;
        }
        // The wish to end may have come with the last commit: then this call never starts.
        let ended = match turn.end_requested() {
            Some(request) => Err(request),
            None => turn.persist_unless_ended(turn.journal(entries.clone(), Steer::No)).await?,
        };
        match ended {
            Ok(written) => rows.extend(written),
            Err(request) => {
                entries.truncate(entries.len() - marks);
                let mut open = vec![planned.call];
                open.extend(calls.map(|planned| planned.call));
                return turn.end_step(request, entries, open).await;
            }
        }
        // Or it came while the disk took its time: what has not begun does not begin.
        if let Some(request) = turn.end_requested() {
            let never_ran = vec![not_run(&planned.call, request.because())];
            let open = calls.map(|planned| planned.call).collect();
            return turn.end_step(request, never_ran, open).await;
        }
        let (ended, ran) = turn.guarded(run_examined(turn, &planned, examined, context)).await;
        entries = Vec::new();
        match settle(&planned, Passed::Ran(Box::new(ran))) {
            Settled::Result(entry) => entries.push(*entry),
            Settled::Waits(waits) => waiting.push(*waits),
            Settled::NotRun => entries.push(not_run(&planned.call, "the turn ended")),
        }
        if let Some(request) = ended {
            let open = calls.map(|planned| planned.call).collect();
            return turn.end_step(request, entries, open).await;
        }
    }
    let steer = if waiting.is_empty() { Steer::Yes } else { Steer::No };
    rows.extend(turn.persist(turn.journal(entries, steer)).await?);
    finish(turn, rows.split_off(earlier), waiting).await
}

/// Whether messages that wait in the lane join the turn now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steer {
    Yes,
    No,
}

async fn finish(
    turn: &Turn,
    rows: Vec<Arc<Message>>,
    waiting: Vec<Waiting>,
) -> Result<StepEnd, Lost> {
    let Some(first) = waiting.first() else {
        return Ok(StepEnd::Done(rows));
    };
    let reason = first.reason.clone();
    let until = waiting.iter().filter_map(|waits| waits.until).min();
    let calls = waiting.iter().map(|waits| (waits.call.clone(), waits.reason.clone())).collect();
    let park = Park {
        turn: turn.lease.turn.clone(),
        token: turn.lease.token,
        reason,
        calls,
        approvals: waiting.into_iter().filter_map(|waits| waits.approval).collect(),
        until,
        active_ms: turn.active_ms(),
        now: skep_guard::clock::now_ms(),
    };
    turn.park(park).await?;
    Ok(StepEnd::Parked)
}

impl Waiting {
    fn asks(question: Question) -> Self {
        let Question { approval, reason } = question;
        Self {
            call: approval.call.clone(),
            reason,
            until: Some(approval.expires_at),
            approval: Some(approval),
        }
    }
}

/// How a call came through the gate.
enum Passed {
    Ran(Box<Ran>),
    Asks(Box<Question>),
}

async fn run_one(turn: &Turn, planned: &Planned) -> (Passed, Option<String>) {
    let context = turn.tool_context(&planned.call.id, planned.decision.clone());
    match turn.examine(&planned.call, &context).await {
        Examined::Asks(question) => (Passed::Asks(question), None),
        examined => {
            let approval = examined.approval();
            (Passed::Ran(Box::new(run_examined(turn, planned, examined, context).await)), approval)
        }
    }
}

async fn run_examined(
    turn: &Turn,
    planned: &Planned,
    examined: Examined,
    context: ToolContext,
) -> Ran {
    let span = tracing::info_span!("call", tool = planned.call.name);
    let ran = match examined {
        Examined::Cleared(cleared) => {
            turn.run_cleared(&planned.call, *cleared, context, span).await
        }
        Examined::Ended(ran) => *ran,
        // Whoever asks is not run.
        Examined::Asks(question) => Ran {
            answer: ToolAnswer::Wait { reason: question.reason },
            audit: gate::lost(&planned.call),
            end: End::NotRun,
        },
    };
    turn.watched(&planned.call, ran)
}

enum Settled {
    Result(Box<Entry>),
    Waits(Box<Waiting>),
    /// The turn ended first.
    NotRun,
}

fn settle(planned: &Planned, passed: Passed) -> Settled {
    let id = planned.call.id.clone();
    let ran = match passed {
        Passed::Asks(question) => return Settled::Waits(Box::new(Waiting::asks(*question))),
        Passed::Ran(ran) => *ran,
    };
    match ran.answer {
        ToolAnswer::Wait { reason } => {
            Settled::Waits(Box::new(Waiting { call: id, reason, approval: None, until: None }))
        }
        _ if ran.end == End::NotRun => Settled::NotRun,
        _ if ran.end == End::Cut && !planned.retry_safe => {
            let audit = Some(ran.audit);
            Settled::Result(Box::new(last_word(&planned.call, UNKNOWN, CallState::Unknown, audit)))
        }
        ToolAnswer::Done { text, is_error, details, files } => {
            let mut body = Body::tool_result(id.clone(), &planned.call.name, text, is_error);
            body.details = details;
            body.content.extend(files.into_iter().map(Block::File));
            let message = new_message(body);
            let (state, audit) = (CallState::Done, Some(ran.audit));
            Settled::Result(Box::new(Entry::Result { message, call: id, state, audit }))
        }
    }
}

/// The answer to a call whose question nobody answered in time. It is not a no.
fn expired(planned: &Planned) -> Vec<Entry> {
    let text = format!(
        "approval_expired: the call of `{}` was not run: it had to be approved, and nobody decided \
         in time. That is not a no. Go on without it, or say what you need.",
        planned.call.name
    );
    let audit = Some(gate::expired(&planned.call));
    let mark = planned.question.as_ref().map(|(id, _)| Entry::Expired { approval: id.clone() });
    let result = last_word(&planned.call, &text, CallState::Done, audit);
    mark.into_iter().chain([result]).collect()
}

const UNKNOWN: &str = "outcome unknown: the call had begun when the turn was cut off; it may or \
                       may not have had its effect, and it was not repeated";

/// The last word on a call that may have had its effect.
pub(crate) fn unknown(call: &ToolCall) -> Entry {
    last_word(call, UNKNOWN, CallState::Unknown, Some(gate::lost(call)))
}

/// The last word on a call that never ran.
pub(crate) fn not_run(call: &ToolCall, why: &str) -> Entry {
    let text = format!("cancelled: the call did not run, because {why}");
    last_word(call, &text, CallState::Done, None)
}

fn last_word(call: &ToolCall, text: &str, state: CallState, audit: Option<Audit>) -> Entry {
    let body = Body::tool_result(call.id.clone(), &call.name, text.to_owned(), true);
    Entry::Result { message: new_message(body), call: call.id.clone(), state, audit }
}

pub(crate) fn new_message(body: Body) -> NewMessage {
    NewMessage { id: random::uuid().to_string(), body }
}

impl Turn {
    /// Takes a call through the gate as far as it can go without running.
    async fn examine(&self, call: &ToolCall, context: &ToolContext) -> Examined {
        if let Some(refused) = self.braked(call) {
            return Examined::Ended(Box::new(refused));
        }
        let policy = self.live_policy();
        self.gate(&policy).examine(call, context).await
    }

    async fn run_cleared(
        &self,
        call: &ToolCall,
        cleared: Cleared,
        context: ToolContext,
        span: tracing::Span,
    ) -> Ran {
        let policy = self.live_policy();
        self.gate(&policy).run(call, cleared, context).instrument(span).await
    }

    /// With what was held before it.
    pub(crate) fn journal(&self, entries: Vec<Entry>, steer: Steer) -> Journal {
        if steer == Steer::Yes {
            self.running.forget_arrivals();
        }
        Journal {
            turn: self.lease.turn.clone(),
            token: self.lease.token,
            entries: self.with_held(self.with_notes(entries)),
            steer: steer == Steer::Yes && self.can_steer,
            active_ms: self.active_ms(),
            now: skep_guard::clock::now_ms(),
        }
    }

    /// A step that is cut: what is known is either journalled for the next lease, or handed to
    /// the close.
    async fn end_step(
        &self,
        request: EndRequest,
        results: Vec<Entry>,
        not_started: Vec<ToolCall>,
    ) -> Result<StepEnd, Lost> {
        if request == EndRequest::Cut {
            // Planned calls run in the next lease; a call that was cut has no result and will be
            // called unknown there.
            let known: Vec<Entry> = results.into_iter().filter(is_known).collect();
            self.persist(self.journal(known, Steer::No)).await?;
            return Ok(StepEnd::Ended { request, open: Vec::new() });
        }
        let mut open = results;
        open.extend(not_started.iter().map(|call| not_run(call, request.because())));
        Ok(StepEnd::Ended { request, open })
    }
}

fn is_known(entry: &Entry) -> bool {
    !matches!(entry, Entry::Result { state: CallState::Unknown, .. })
}

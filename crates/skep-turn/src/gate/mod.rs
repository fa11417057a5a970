//! The gate: the only path of a tool call. Allow-list → typed arguments → `tool.before` hooks →
//! no secrets to programs → policy, and a person where it asks → admission → policy again where
//! time passed → run under time limit and cancellation → `tool.after` hooks → scrub → bound →
//! audit. A refusal is an answer to the model, and its first word is its class.

mod admission;
mod binding;
mod bound;
mod chain;
mod held;
mod hooks;
mod own;
mod plain;
mod policy;
pub(crate) mod program_reach;
mod rows;
mod run;
mod secrets;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use skep_core::approval::ApprovalKind;
use skep_core::decision::Decision;
use skep_core::engine::{OwnTool, ToolCall};
use skep_core::hook::Hook;
use skep_core::ids::AgentId;
use skep_core::policy::{AgentReach, Policy};
use skep_core::settings::AgentSettings;
use skep_core::tool::{Prepared, Tool, ToolAnswer, ToolContext};
use skep_store::approvals::NewApproval;
use skep_store::journal::Audit;

pub use admission::Admission;
use admission::{AdmissionResult, CallPlace, Patience};
pub use binding::{PinnedError, pinned};
use bound::Rest;
use chain::{Chain, Stage};
pub use held::HeldSecrets;
pub(crate) use own::ForEngine;
pub use policy::{CallerRights, about, decide, person, rule_of};
use policy::{Moment, Permission};
pub(crate) use policy::{Question, Records};
pub(crate) use rows::{braked, expired, in_excess, lost, never_ran, ungated};
use secrets::{without_secrets, without_secrets_in};

use crate::handles::HolderOf;
use crate::snapshot::{Toolbox, is_listed};

/// What the gate of a hive is made of.
pub struct GateParts {
    pub admission: Admission,
    pub holder_of: HolderOf,
    /// Where whole answers are kept: a folder for each agent, in it one for each conversation. It
    /// lies below `run/`, which nobody else can enter; the sandbox shows a conversation its own
    /// alone.
    pub outputs: PathBuf,
    /// Arguments and answers that are on no record.
    pub secrets: HeldSecrets,
}

/// What the gate goes by.
pub(crate) struct GateEnv<'a> {
    pub toolbox: &'a Toolbox,
    pub admission: &'a Admission,
    pub hooks: &'a [Hook],
    pub agent: &'a AgentSettings,
    /// In force now, whatever was when the turn began.
    pub policy: &'a Policy,
    /// Absent where nobody asks.
    pub records: Option<Records<'a>>,
    /// How long a question stays open.
    pub approval_time: Duration,
    /// Bytes of an answer that the model is shown.
    pub bound: usize,
}

/// What became of a call.
pub(crate) struct CallOutcome {
    pub answer: ToolAnswer,
    pub audit: Audit,
    pub end: End,
    /// What is asked instead of running it; it does not wait for the answer.
    pub asked: Option<Box<NewApproval>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answered,
    Refused,
    /// The turn ended before the call could begin.
    NotRun,
    /// It was told to end before it was done: what it had done by then is unknown.
    Cut,
}

/// What was seen of a call on its way.
struct CallTrace {
    /// The tool's own name.
    tool: String,
    arguments: Option<Value>,
    chain: Chain,
    began: Instant,
}

/// A call that goes no further, and the text that says so.
struct GateRefusal {
    text: String,
    end: End,
}

impl GateRefusal {
    fn new(text: String) -> Self {
        Self { text, end: End::Refused }
    }
}

/// A call that may run: it went through every stage that can say no. It starts once it has a place
/// among the calls that run.
pub(crate) struct ClearedCall {
    prepared: Prepared,
    /// Where the engine runs it.
    own: Option<OwnTool>,
    /// As the hooks left them.
    arguments: Option<Value>,
    /// What runs in the place of its command.
    run_as: Option<String>,
    /// Its paths, and where they led when it was permitted.
    leads: Vec<(String, String)>,
    /// What a person said about it, where somebody had to.
    approval: Option<String>,
    /// Kept until it has run.
    place: Option<CallPlace>,
    chain: Chain,
    began: Instant,
}

impl ClearedCall {
    /// The approval it is to run with.
    pub fn approval(&self) -> Option<String> {
        self.approval.clone()
    }

    /// It has no place yet.
    pub fn waits(&self) -> bool {
        self.place.is_none()
    }

    fn admit(&mut self, place: CallPlace, word: impl Into<String>) {
        self.chain.note(Stage::Admission, word);
        self.place = Some(place);
    }

    fn seen(self, tool: String) -> CallTrace {
        CallTrace { tool, arguments: self.arguments, chain: self.chain, began: self.began }
    }
}

/// What became of a call before it could run.
pub(crate) enum Examination {
    Cleared(Box<ClearedCall>),
    Asks(Box<Question>),
    Ended(Box<CallOutcome>),
}

impl GateEnv<'_> {
    /// Takes a call through every stage before it runs. Nothing has happened by then. `own`: the
    /// tool is the engine's.
    pub async fn examine(
        &self,
        call: &ToolCall,
        own: Option<&OwnTool>,
        context: &ToolContext,
    ) -> Examination {
        let began = Instant::now();
        let mut chain = Chain::default();
        let mut arguments = None;
        match self.clear(call, own, context, &mut arguments, &mut chain).await {
            Ok((prepared, Permission::Go { approval, run_as, leads })) => {
                let (own, place) = (own.cloned(), None);
                Examination::Cleared(Box::new(ClearedCall {
                    prepared,
                    own,
                    arguments,
                    run_as,
                    leads,
                    approval,
                    place,
                    chain,
                    began,
                }))
            }
            Ok((_, Permission::Asks(question))) => {
                let tool = self.own_name(call, own);
                let seen = CallTrace { tool, arguments, chain, began };
                self.asks(call, context, seen, question).await
            }
            Err(refused) => {
                let tool = self.own_name(call, own);
                self.ended(call, context, CallTrace { tool, arguments, chain, began }, refused)
                    .await
            }
        }
    }

    /// A call that waits for a person; one that changes the shape of the hive has its answer.
    async fn asks(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        mut seen: CallTrace,
        question: Box<Question>,
    ) -> Examination {
        if question.approval.kind == ApprovalKind::Call {
            return Examination::Asks(question);
        }
        seen.chain.note(Stage::Run, "not run: it is asked for, and does not wait");
        let answer = ToolAnswer::ok(put_off(&question.approval.id));
        let mut outcome = self.conclude(call, context, seen, answer, End::Answered).await;
        outcome.audit.outcome = "asked";
        outcome.asked = Some(Box::new(question.approval));
        Examination::Ended(Box::new(outcome))
    }

    /// Gives the call a place where one is free now.
    pub fn admit_now(
        admission: &Admission,
        agent: AgentId,
        user: Option<&str>,
        cleared: &mut ClearedCall,
    ) -> bool {
        let place = admission.enter_now(agent, user);
        let is_in = place.is_some();
        if let Some(place) = place {
            cleared.admit(place, "at once");
        }
        is_in
    }

    /// Waits until the call has a place.
    pub async fn admit(
        &self,
        call: &ToolCall,
        mut cleared: Box<ClearedCall>,
        user: Option<&str>,
        context: &ToolContext,
    ) -> Examination {
        let patience = match cleared.approval {
            Some(_) => Patience::Unbounded,
            None => Patience::Bounded,
        };
        let entering = self.admission.enter(context.agent_id, user, patience, &context.cancel);
        let refused = match entering.await {
            AdmissionResult::In { place, waited } => {
                cleared.admit(place, format!("after {} ms", waited.as_millis()));
                return Examination::Cleared(cleared);
            }
            AdmissionResult::Full(why) => {
                cleared.chain.note(Stage::Admission, format!("refused: {why}"));
                GateRefusal::new(format!(
                    "agent_busy: the call of `{}` was not run: this agent runs {} calls at the \
                     same time, and {why}. Call again later, with fewer calls at once.",
                    call.name,
                    admission::AT_ONCE
                ))
            }
            AdmissionResult::Cancelled => {
                cleared.chain.note(Stage::Admission, "the turn ended");
                let text = "cancelled: the call did not run, because the turn ended".to_owned();
                GateRefusal { text, end: End::NotRun }
            }
        };
        let tool = self.own_name(call, cleared.own.as_ref());
        self.ended(call, context, cleared.seen(tool), refused).await
    }

    /// Directly before the start of a call that waited or was approved: whether it still may, and
    /// whether it still is what a person said yes to.
    pub async fn recheck(
        &self,
        call: &ToolCall,
        mut cleared: Box<ClearedCall>,
        context: &ToolContext,
    ) -> Examination {
        let mut chain = Chain::default();
        let arguments = cleared.arguments.as_ref().unwrap_or(&call.arguments);
        let permitted = async {
            let tool = &*self.listed(call, cleared.own.as_ref(), &mut chain)?;
            let moment = Moment::Start;
            let permitted =
                self.permitted(tool, call, arguments, context, moment, &mut chain).await?;
            // The files that its command names may be others by now.
            let prepared = match &permitted {
                Permission::Go { run_as, .. } => {
                    Some(anew(tool, call, arguments, run_as.as_deref())?)
                }
                Permission::Asks(_) => None,
            };
            Ok((permitted, prepared))
        };
        let permitted = permitted.await;
        cleared.chain.add_new(chain);
        match permitted {
            Ok((Permission::Go { approval, run_as, leads }, prepared)) => {
                (cleared.approval, cleared.run_as, cleared.leads) = (approval, run_as, leads);
                cleared.prepared = prepared.unwrap_or(cleared.prepared);
                Examination::Cleared(cleared)
            }
            Ok((Permission::Asks(question), _)) => {
                let tool = self.own_name(call, cleared.own.as_ref());
                self.asks(call, context, cleared.seen(tool), question).await
            }
            Err(refused) => {
                let tool = self.own_name(call, cleared.own.as_ref());
                self.ended(call, context, cleared.seen(tool), refused).await
            }
        }
    }

    /// Runs a call that has its place, to an answer of bounded size and its audit row.
    pub async fn run(
        &self,
        call: &ToolCall,
        cleared: ClearedCall,
        mut context: ToolContext,
    ) -> CallOutcome {
        let ClearedCall { prepared, arguments, leads, place, chain, began, .. } = cleared;
        context.judged = leads;
        // A person's word on whether it runs says nothing to the tool itself.
        context.decision = context.decision.filter(|it| !matches!(it, Decision::Approval { .. }));
        let seen_context = context.clone();
        let (answer, end) = run::to_end(prepared, context).await;
        drop(place);
        let seen = CallTrace { tool: self.own_name(call, None), arguments, chain, began };
        self.after_run(call, &seen_context, seen, answer, end).await
    }

    /// What came of a call that ran, as the hooks leave it.
    async fn after_run(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        mut seen: CallTrace,
        answer: ToolAnswer,
        end: End,
    ) -> CallOutcome {
        let word = match (&answer, end) {
            (_, End::Cut) => "told to end before it was done",
            (ToolAnswer::Wait { .. }, _) => "waits",
            _ => "answered",
        };
        seen.chain.note(Stage::Run, word);
        let answer = match end {
            End::Answered => {
                let final_arguments = seen.arguments.as_ref().unwrap_or(&call.arguments);
                let (hooks, chain) = (self.hooks, &mut seen.chain);
                hooks::after(hooks, &seen.tool, call, final_arguments, context, answer, chain).await
            }
            End::Refused | End::NotRun | End::Cut => answer,
        };
        self.conclude(call, context, seen, answer, end).await
    }

    async fn ended(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        seen: CallTrace,
        refused: GateRefusal,
    ) -> Examination {
        Examination::Ended(Box::new(self.refused(call, context, seen, refused).await))
    }

    async fn refused(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        seen: CallTrace,
        refused: GateRefusal,
    ) -> CallOutcome {
        let answer = ToolAnswer::error(refused.text);
        self.conclude(call, context, seen, answer, refused.end).await
    }

    /// The answer as the model gets it, and the row that tells of the call.
    async fn conclude(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        seen: CallTrace,
        answer: ToolAnswer,
        end: End,
    ) -> CallOutcome {
        let CallTrace { tool, arguments, mut chain, began } = seen;
        let arguments = arguments.unwrap_or_else(|| call.arguments.clone());
        // Whole first: a cut could leave half of a secret, which nobody would recognise.
        let open = self.open_arguments(&tool, &arguments);
        let answer = without_secrets_in(answer, &open, &mut chain).await;
        let answer = match end {
            End::Refused => bound::with_detail(answer, "outcome", chain.refusal().into()),
            End::Answered | End::NotRun | End::Cut => answer,
        };
        let answer = self.finish(answer, Rest::of(context), &mut chain).await;
        let (outcome, bytes) = match (&answer, end) {
            (_, End::Cut) | (ToolAnswer::Cut { .. }, _) => ("unknown", 0),
            (_, End::NotRun) => ("cancelled", 0),
            (ToolAnswer::Done { text, .. }, End::Refused) => ("refused", text.len()),
            (ToolAnswer::Done { is_error, text, files, .. }, _) => {
                let files = files.iter().filter_map(|file| Some(file.data.as_ref()?.0.len()));
                (if *is_error { "error" } else { "ok" }, text.len() + files.sum::<usize>())
            }
            (ToolAnswer::Wait { .. }, _) => ("waiting", 0),
        };
        let audit = Audit {
            call: call.id.clone(),
            tool,
            arguments,
            decision: chain.text(),
            outcome,
            took_ms: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
            bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
        };
        CallOutcome { answer, audit, end, asked: None }
    }

    /// The arguments without those that the tool takes as secrets: these it had as they were meant.
    fn open_arguments<'a>(&self, tool: &str, arguments: &'a Value) -> Cow<'a, Value> {
        let tool = self.toolbox.find(tool);
        let secret = tool.map(|tool| tool.secret_arguments(arguments)).unwrap_or_default();
        if secret.is_empty() {
            return Cow::Borrowed(arguments);
        }
        let mut open = arguments.clone();
        if let Some(fields) = open.as_object_mut() {
            fields.retain(|name, _| secret.iter().all(|it| it.argument != name));
        }
        Cow::Owned(open)
    }

    fn reach(&self) -> AgentReach<'_> {
        AgentReach { folder: &self.agent.folder, network: &self.policy.network }
    }

    fn own_name(&self, call: &ToolCall, own: Option<&OwnTool>) -> String {
        if let Some(own) = own {
            return own.key.clone();
        }
        let tool = self.toolbox.find(&call.name);
        tool.map_or_else(|| call.name.clone(), |tool| tool.spec().name.clone())
    }

    async fn clear(
        &self,
        call: &ToolCall,
        own: Option<&OwnTool>,
        context: &ToolContext,
        arguments: &mut Option<Value>,
        chain: &mut Chain,
    ) -> Result<(Prepared, Permission), GateRefusal> {
        let tool = &*self.listed(call, own, chain)?;
        let mut prepared = typed(tool, &call.name, &call.arguments, chain)?;
        if !self.hooks.is_empty() {
            let name = &tool.spec().name;
            *arguments = hooks::before(self.hooks, name, call, context, chain).await?;
            if let Some(rewritten) = arguments.as_ref() {
                prepared = typed(tool, &call.name, rewritten, chain)?;
            }
        }
        let arguments = arguments.as_ref().unwrap_or(&call.arguments);
        let class = tool.manner(arguments, self.reach()).class;
        without_secrets(class, tool, &call.name, arguments, chain).map_err(GateRefusal::new)?;
        let permitted =
            self.permitted(tool, call, arguments, context, Moment::First, chain).await?;
        if let Permission::Go { run_as: Some(line), .. } = &permitted {
            prepared = anew(tool, call, arguments, Some(line))?;
        }
        Ok((prepared, permitted))
    }

    fn listed(
        &self,
        call: &ToolCall,
        own: Option<&OwnTool>,
        chain: &mut Chain,
    ) -> Result<Arc<dyn Tool>, GateRefusal> {
        let (name, offered) = (&call.name, || self.offered());
        let Some(tool) = own.map(own::tool).or_else(|| self.toolbox.find(name).cloned()) else {
            chain.note(Stage::AllowList, "refused: unknown tool");
            let text = format!("unknown_tool: there is no tool `{name}`. {}", offered());
            return Err(GateRefusal::new(text));
        };
        if !is_listed(self.agent, &*tool) {
            chain.note(Stage::AllowList, "refused: not listed");
            let text =
                format!("not_listed: the tool `{name}` is not on this agent's list. {}", offered());
            return Err(GateRefusal::new(text));
        }
        chain.note(Stage::AllowList, "listed");
        Ok(tool)
    }

    async fn finish(&self, answer: ToolAnswer, rest: Rest, chain: &mut Chain) -> ToolAnswer {
        match answer {
            ToolAnswer::Done { text, is_error, details, files } => {
                let lines = (text.len() > self.bound).then(|| text.lines().count());
                let (text, word) = bound::bounded(text, self.bound, rest).await;
                chain.note(Stage::Bound, word);
                let answer = ToolAnswer::Done { text, is_error, details, files };
                match lines {
                    Some(lines) => bound::with_detail(answer, "lines", lines.into()),
                    None => answer,
                }
            }
            other @ (ToolAnswer::Cut { .. } | ToolAnswer::Wait { .. }) => other,
        }
    }

    fn offered(&self) -> String {
        let specs = self.toolbox.specs(self.agent);
        if specs.is_empty() {
            return "This agent has no tools.".to_owned();
        }
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        format!("This agent has: {}.", names.join(", "))
    }
}

/// What an agent is told whose change of the hive has to be approved.
fn put_off(approval: &str) -> String {
    let message = "A person decides on it. The decision, and what came of it, comes as an event in \
                   this conversation. Nothing exists yet; go on with other work or end here.";
    json!({
        "success": true, "status": "awaiting_approval", "approval_id": approval,
        "message": message,
    })
    .to_string()
}

/// The call with `run_as` in the place of its command.
fn anew(
    tool: &dyn Tool,
    call: &ToolCall,
    arguments: &Value,
    run_as: Option<&str>,
) -> Result<Prepared, GateRefusal> {
    let mut arguments = arguments.clone();
    if let Some(line) = run_as {
        arguments["command"] = Value::String(line.to_owned());
    }
    let name = &call.name;
    tool.prepare(arguments).map_err(|why| {
        GateRefusal::new(format!("bad_arguments: the command of `{name}` cannot run: {why}"))
    })
}

fn typed(
    tool: &dyn Tool,
    name: &str,
    arguments: &Value,
    chain: &mut Chain,
) -> Result<Prepared, GateRefusal> {
    if !arguments.is_object() {
        chain.note(Stage::Arguments, "refused: no JSON object");
        return Err(GateRefusal::new(format!(
            "bad_arguments: the arguments of `{name}` are not a JSON object, so nothing ran. Call \
             it again, with the arguments as one JSON object."
        )));
    }
    match tool.prepare(arguments.clone()) {
        Ok(prepared) => {
            chain.note(Stage::Arguments, "fit");
            Ok(prepared)
        }
        Err(why) => {
            chain.note(Stage::Arguments, "refused: do not fit");
            Err(GateRefusal::new(format!(
                "bad_arguments: the arguments of `{name}` do not fit: {why}"
            )))
        }
    }
}

/// The call as the model made it, for the gate.
pub(crate) fn call_of(id: &skep_core::ids::CallId, name: &str, arguments: &Value) -> ToolCall {
    ToolCall { id: id.clone(), name: name.to_owned(), arguments: arguments.clone() }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "gate_command_tests.rs"]
mod command_tests;

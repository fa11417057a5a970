//! The gate: the only path of a tool call. Allow-list → no secrets to programs → typed arguments →
//! run under time limit and cancellation → scrub → bound → audit. A refusal is an answer to the
//! model.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use skep_core::allow;
use skep_core::engine::ToolCall;
use skep_core::policy::Effect;
use skep_core::provider::ToolSpec;
use skep_core::settings::AgentSettings;
use skep_core::tool::{Prepared, Tool, ToolAnswer, ToolContext};
use skep_guard::scrub;
use skep_store::journal::Audit;

/// A call may take this long; waiting for a decision does not count.
const CALL_TIME: Duration = Duration::from_secs(600);
/// A cancelled tool has this long to end by itself before it is dropped.
const GRACE: Duration = Duration::from_millis(3500);

/// Every tool there is, by the names a model may use.
pub(crate) struct Toolbox {
    by_name: HashMap<String, Arc<dyn Tool>>,
}

/// A call after the stages that need no running.
pub(crate) enum Checked {
    Ready(Prepared),
    Refused { text: String, stage: &'static str },
}

/// What became of a call.
pub(crate) struct Ran {
    pub answer: ToolAnswer,
    pub audit: Audit,
    /// It was told to end and did not say what it had done by then.
    pub cut: bool,
}

impl Toolbox {
    /// Two tools of one name are a defect of the build: the second is refused, never a shadow.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, String> {
        let mut by_name: HashMap<String, Arc<dyn Tool>> = HashMap::new();
        for tool in tools {
            let aliases = tool.aliases().iter().map(|alias| (*alias).to_owned());
            for name in std::iter::once(tool.spec().name.clone()).chain(aliases) {
                if by_name.insert(name.clone(), Arc::clone(&tool)).is_some() {
                    return Err(format!("two tools have the name {name}"));
                }
            }
        }
        Ok(Self { by_name })
    }

    /// What the agent's model is told it has: sorted, so that the block is the same bytes always.
    pub fn specs(&self, agent: &AgentSettings) -> Arc<[ToolSpec]> {
        let mut specs: Vec<ToolSpec> = Vec::new();
        for (name, tool) in &self.by_name {
            let spec = tool.spec();
            if *name == spec.name && allow::allows(&agent.allowed_tools, name) {
                specs.push(spec.clone());
            }
        }
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        specs.into()
    }

    /// False for what is unknown or refused: nothing of it runs, so nothing is at stake.
    pub fn is_effectful(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|tool| !tool.spec().retry_safe)
    }

    pub fn check(&self, agent: &AgentSettings, call: &ToolCall) -> Checked {
        let Some(tool) = self.by_name.get(&call.name) else {
            return Checked::Refused {
                text: format!("There is no tool `{}`. {}", call.name, self.offered(agent)),
                stage: "unknown tool",
            };
        };
        if !allow::allows(&agent.allowed_tools, &tool.spec().name) {
            return Checked::Refused {
                text: format!(
                    "The tool `{}` is not on this agent's list. {}",
                    call.name,
                    self.offered(agent)
                ),
                stage: "allow-list",
            };
        }
        if tool.runs_programs() && scrub::known().is_json_marked(&call.arguments) {
            return Checked::Refused {
                text: format!(
                    "The arguments of `{}` hold a secret of this hive, or its name in brackets. \
                     No program gets one this way: leave it out.",
                    call.name
                ),
                stage: "secret",
            };
        }
        let prepared = match tool.prepare(call.arguments.clone()) {
            Ok(prepared) => prepared,
            Err(text) => {
                return Checked::Refused {
                    text: format!("The arguments of `{}` were refused: {text}", call.name),
                    stage: "arguments",
                };
            }
        };
        let class = tool.class();
        let why = match agent.policy.decide(class, agent.sandbox.level) {
            Effect::Allow => return Checked::Ready(prepared),
            Effect::Ask => "a person has to be asked first, and nobody can be asked yet",
            Effect::Deny => "this hive does not allow it",
        };
        let text = format!(
            "The tool `{}` was not run: it is of the class `{}`, and {why}. The operator decides \
             this in skep.yaml under defaults.policy.",
            call.name,
            class.as_str()
        );
        Checked::Refused { text, stage: "policy" }
    }

    fn offered(&self, agent: &AgentSettings) -> String {
        let specs = self.specs(agent);
        if specs.is_empty() {
            return "This agent has no tools.".to_owned();
        }
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        format!("This agent has: {}.", names.join(", "))
    }
}

/// Runs a call that passed, to an answer of bounded size and its audit row.
pub(crate) async fn run(
    call: &ToolCall,
    checked: Checked,
    context: ToolContext,
    bound: usize,
) -> Ran {
    let started = Instant::now();
    let (answer, decision, cut) = match checked {
        Checked::Refused { text, stage } => {
            (ToolAnswer::error(text), format!("refused: {stage}"), false)
        }
        Checked::Ready(prepared) => {
            let (answer, cut) = run_prepared(prepared, context).await;
            (answer, "allowed: allow-list".to_owned(), cut)
        }
    };
    // Whole first: a cut could leave half of a secret, which nobody would recognise.
    let answer = bounded(scrubbed(answer, &call.arguments), bound);
    let (outcome, bytes) = match &answer {
        _ if cut => ("unknown", 0),
        ToolAnswer::Done { is_error: true, text, .. } => ("error", text.len()),
        ToolAnswer::Done { text, .. } => ("ok", text.len()),
        ToolAnswer::Wait { .. } => ("waiting", 0),
    };
    let audit = Audit {
        call: call.id.clone(),
        tool: call.name.clone(),
        arguments: call.arguments.clone(),
        decision,
        outcome,
        took_ms: i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX),
        bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
    };
    Ran { answer, audit, cut }
}

/// In a task of its own, so that a tool that panics ends no turn.
async fn run_prepared(prepared: Prepared, mut context: ToolContext) -> (ToolAnswer, bool) {
    // Of this call alone: one that takes too long does not end its turn.
    let cancel = context.cancel.child_token();
    context.cancel = cancel.clone();
    let mut task = AbortOnDrop(tokio::spawn(prepared(context)));
    let ended = tokio::select! {
        ended = &mut task.0 => Some(ended),
        () = cancel.cancelled() => None,
        () = tokio::time::sleep(CALL_TIME) => {
            cancel.cancel();
            None
        }
    };
    let ended = match ended {
        Some(ended) => Some(ended),
        None => tokio::time::timeout(GRACE, &mut task.0).await.ok(),
    };
    match ended {
        Some(Ok(answer)) => (answer, false),
        Some(Err(_)) => (ToolAnswer::error("The tool failed inside; see the log."), false),
        None => (ToolAnswer::error("The tool was told to end and did not answer."), true),
    }
}

struct AbortOnDrop(JoinHandle<ToolAnswer>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The answer without secrets. The model is told where one in its own words was replaced: what it
/// wrote is not what it meant.
fn scrubbed(answer: ToolAnswer, arguments: &Value) -> ToolAnswer {
    let scrubber = scrub::known();
    match answer {
        ToolAnswer::Done { text, is_error, mut details } => {
            let mut text = scrubber.clean_owned(text);
            if let Some(details) = &mut details {
                scrubber.clean_json(details);
            }
            if !is_error && scrubber.is_json_marked(arguments) {
                text.push_str("\n[the call held a secret of this hive; its name was used instead]");
            }
            ToolAnswer::Done { text, is_error, details }
        }
        ToolAnswer::Wait { reason } => ToolAnswer::Wait { reason: scrubber.clean_owned(reason) },
    }
}

fn bounded(answer: ToolAnswer, bound: usize) -> ToolAnswer {
    match answer {
        ToolAnswer::Done { mut text, is_error, details } if text.len() > bound => {
            let whole = text.len();
            let mut cut = bound;
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            text.truncate(cut);
            text.push_str(&format!("\n[cut: {cut} of {whole} bytes shown]"));
            ToolAnswer::Done { text, is_error, details }
        }
        other => other,
    }
}

/// The call as the model made it, for the gate.
pub(crate) fn call_of(id: &skep_core::ids::CallId, name: &str, arguments: &Value) -> ToolCall {
    ToolCall { id: id.clone(), name: name.to_owned(), arguments: arguments.clone() }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;

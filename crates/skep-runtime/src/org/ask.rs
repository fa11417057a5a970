//! `ask_operator`, `answer`: questions that nobody waits for inside a turn.

use serde::Deserialize;
use serde_json::json;
use skep_core::cause::CallRef;
use skep_core::ids::{AgentName, ItemId};
use skep_core::provider::ToolSpec;
use skep_core::question::{AnswerForm, GivenAnswer};
use skep_core::task::TaskKind;
use skep_core::tool::ToolAnswer;
use skep_guard::clock;
use skep_store::assign::{Assign, Assigned, NewQuestion};
use skep_store::questions::{AnswerTask, Answerer};

use super::arguments::{number, spec, text};
use super::delegate;
use super::tool::{OrgCall, answered, failed, refused};

/// Seven days.
const LONGEST_SECONDS: i64 = 7 * 24 * 3600;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskArguments {
    question: String,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    multi: bool,
    ttl_seconds: Option<i64>,
    to: Option<AgentName>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerArguments {
    id: ItemId,
    answer: Option<String>,
    #[serde(default)]
    options: Vec<String>,
}

pub(super) fn ask_spec() -> ToolSpec {
    let options = json!({
        "type": "array", "items": { "type": "string" }, "maxItems": 20,
        "description": "Answers to choose from; other words are always possible.",
    });
    spec(
        "ask_operator",
        "Asks the operator, or another agent, and goes on at once. The answer comes later, as an \
         event in this conversation; your task stays open until then. Where nobody answers in \
         time, the answer is `expired`.",
        json!({
            "question": text("The question, complete in itself."),
            "options": options,
            "multi": { "type": "boolean", "description": "Several options may be chosen (false)." },
            "ttl_seconds": number("How long there is time to answer, at most 604800."),
            "to": text("operator, or the name of an agent that you may write to (operator)."),
        }),
        &["question"],
    )
}

pub(super) fn answer_spec() -> ToolSpec {
    let options = json!({
        "type": "array", "items": { "type": "string" }, "maxItems": 20,
        "description": "Options of the question, as they are written there.",
    });
    spec(
        "answer",
        "Answers a question that another agent has asked you, once.",
        json!({
            "id": text("The question, as the first line of it says."),
            "answer": text("The answer in words of your own."),
            "options": options,
        }),
        &["id"],
    )
}

pub(super) async fn ask(call: OrgCall, arguments: AskArguments) -> ToolAnswer {
    let AskArguments { question, options, multi, ttl_seconds, to } = arguments;
    let form = match AnswerForm::new(&options, multi) {
        Ok(form) => form,
        Err(why) => return refused("options", &why),
    };
    let to = to.unwrap_or_else(|| AgentName::new("operator"));
    let new = match delegate::new(&call, TaskKind::Question, vec![to], question) {
        Ok(new) => new,
        Err(refused) => return *refused,
    };
    let usual = call.shared.settings().limits.approval.as_secs();
    let seconds = ttl_seconds.unwrap_or_else(|| i64::try_from(usual).unwrap_or(LONGEST_SECONDS));
    let deadline = new.now.saturating_add(seconds.clamp(1, LONGEST_SECONDS) * 1000);
    let question = Some(NewQuestion { form, recipients: call.recipients() });
    match call.organisation.assign(&call.shared, Assign { deadline, question, ..new }).await {
        Ok(Assigned::Given { tasks, .. }) => match tasks.first() {
            Some(task) => answered(&json!({
                "success": true, "question_id": task.id, "to": task.agent_name,
                "expires_at": task.deadline, "status": "asked",
                "message": "The answer comes as an event in this conversation.",
            })),
            None => refused("store", "nothing was asked"),
        },
        Ok(Assigned::Busy { .. }) => refused("busy", "whoever is asked has other work"),
        Ok(Assigned::Refused { code, why }) => refused(code, &why),
        Err(error) => failed(&error),
    }
}

pub(super) async fn answer(call: OrgCall, arguments: AnswerArguments) -> ToolAnswer {
    let AnswerArguments { id, answer, options } = arguments;
    let context = &call.context;
    let by = Answerer::Agent {
        agent: context.agent_id,
        agent_name: context.agent.clone(),
        call: CallRef { turn: context.turn.clone(), call: context.call.clone() },
    };
    let given = GivenAnswer { answer, options };
    let command = AnswerTask { task: id.clone(), answer: given, by, now: clock::now_ms() };
    match call.shared.store.write(command).await {
        Ok(_) => {
            call.shared.env().lanes.wake();
            answered(&json!({ "success": true, "question_id": id, "status": "answered" }))
        }
        Err(error) => failed(&error),
    }
}

//! `get_open_threads`, `cancel_thread`, `whoami`, `set_status`: what an agent knows of itself and
//! of what it has begun.

use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::heads;
use skep_core::ids::ItemId;
use skep_core::provider::ToolSpec;
use skep_core::settings::AgentState;
use skep_core::tool::ToolAnswer;
use skep_guard::clock;
use skep_store::agents::SayDoing;
use skep_store::threads::{self, CancelThread, OpenTask};

use super::arguments::{spec, text};
use super::organisation::follow;
use super::tool::{OrgCall, answered, failed, refused};

/// Characters of each that are shown.
const PREVIEW: usize = 200;
/// Characters of what an agent says it does.
const STATUS: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoArguments {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelArguments {
    id: ItemId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetStatusArguments {
    status: String,
}

pub(super) fn open_spec() -> ToolSpec {
    spec(
        "get_open_threads",
        "Lists what is open in this conversation: tasks and questions that you have given, what \
         others ask you, reminders that are to come, and how many messages wait.",
        json!({}),
        &[],
    )
}

pub(super) fn cancel_spec() -> ToolSpec {
    spec(
        "cancel_thread",
        "Ends a task, a question or a reminder that you have begun in this conversation.",
        json!({ "id": text("Of the task, the question or the reminder.") }),
        &["id"],
    )
}

pub(super) fn whoami_spec() -> ToolSpec {
    spec(
        "whoami",
        "Says who you are: your name, the agents around you, and whom you may write to.",
        json!({}),
        &[],
    )
}

pub(super) fn status_spec() -> ToolSpec {
    spec(
        "set_status",
        "Says in a line what you do, for the people who run the hive. Nothing takes it back.",
        json!({ "status": text("At most 200 characters.") }),
        &["status"],
    )
}

pub(super) async fn open(call: OrgCall, _: NoArguments) -> ToolAnswer {
    let (agent, key) = (call.context.agent_id, &call.context.session_key);
    let read = call.shared.store.read(async |conn| threads::of_session(conn, agent, key).await);
    match read.await {
        Ok(open) => {
            let given: Vec<Value> = open.given.iter().map(|task| row(task, "to")).collect();
            let asked: Vec<Value> = open.asked.iter().map(|task| row(task, "from")).collect();
            let reminders = open.reminders.iter().map(|reminder| {
                json!({ "id": reminder.id, "message": cut(&reminder.body), "at": reminder.at })
            });
            let reminders: Vec<Value> = reminders.collect();
            answered(&json!({
                "success": true, "given": given, "asked": asked, "reminders": reminders,
                "messages_waiting": open.messages,
            }))
        }
        Err(error) => failed(&error),
    }
}

fn row(task: &OpenTask, whom: &str) -> Value {
    let mut row = json!({
        "id": task.id, "kind": task.kind, "text": cut(&task.body), "since": task.created_at,
        "until": task.deadline,
    });
    row[whom] = task.agent.as_str().into();
    row
}

fn cut(text: &str) -> String {
    text.chars().take(PREVIEW).collect()
}

pub(super) async fn cancel(call: OrgCall, arguments: CancelArguments) -> ToolAnswer {
    let command = CancelThread {
        agent: call.context.agent_id,
        key: call.context.session_key.clone(),
        id: arguments.id,
        now: clock::now_ms(),
    };
    match call.shared.store.write(command).await {
        Ok(cancelled) => {
            follow(&call.shared, &cancelled);
            answered(&json!({ "success": true, "status": "cancelled" }))
        }
        Err(error) => failed(&error),
    }
}

pub(super) async fn whoami(call: OrgCall, _: NoArguments) -> ToolAnswer {
    let snapshot = call.shared.snapshot();
    let own = match snapshot.agent(call.context.agent_id, &call.context.agent) {
        Ok(own) => own,
        Err(why) => return refused("not_there", &why),
    };
    let (mut children, mut siblings) = (Vec::new(), Vec::new());
    for (name, state) in snapshot.settings.agents.iter() {
        let AgentState::Active(other) = state else { continue };
        if call.shared.unfinished.contains(name) {
            continue;
        }
        if other.parent.as_ref() == Some(&own.name) {
            children.push(name);
        } else if own.parent.is_some() && other.parent == own.parent && *name != own.name {
            siblings.push(name);
        }
    }
    answered(&json!({
        "success": true, "name": own.name, "description": own.description, "parent": own.parent,
        "children": children, "siblings": siblings, "manager": own.manager,
        "allowed_recipients": own.allowed_recipients, "session": call.context.session_key,
    }))
}

pub(super) async fn set_status(call: OrgCall, arguments: SetStatusArguments) -> ToolAnswer {
    let status = heads::in_line(&arguments.status);
    if status.chars().count() > STATUS {
        return refused("too_large", "a status has at most 200 characters");
    }
    let doing = Some(status).filter(|status| !status.is_empty());
    let command = SayDoing { agent: call.context.agent_id, doing };
    match call.shared.store.write(command).await {
        Ok(()) => answered(&json!({ "success": true })),
        Err(error) => failed(&error),
    }
}

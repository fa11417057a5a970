//! The tools by which agents give each other work.

use serde_json::json;
use skep_core::policy::Class;
use skep_core::provider::ToolSpec;
use skep_core::tool::Manner;

use super::arguments::{number, one_of, spec, text};
use super::tool::OrgTool;
use super::{completed, delegate, query, upward};

const PRIORITIES: &[&str] = &["critical", "high", "normal", "low"];
const OVERLAPS: &[&str] = &["allow", "skip", "replace", "confirm"];

pub(super) fn all() -> Vec<OrgTool> {
    let write = Manner::keyed(Class::Write);
    vec![
        OrgTool::new(delegate_spec(), write, delegate::run),
        OrgTool::new(query_spec(), write, query::one),
        OrgTool::new(queries_spec(), write, query::several),
        OrgTool::new(escalate_spec(), write, upward::escalate),
        OrgTool::new(hand_up_spec(), write, upward::hand_up),
        OrgTool::new(completed_spec(), Manner::POLL, completed::run),
    ]
}

fn delegate_spec() -> ToolSpec {
    spec(
        "delegate_task",
        "Gives a team below you work and goes on at once. Its result comes later, as an event \
         in this conversation. A team that is at work asks for `overlap_policy`.",
        json!({
            "team": text("The name of a team directly below you."),
            "task": text("The work, complete in itself: the team sees nothing else."),
            "priority": one_of(PRIORITIES, "How urgent it is (normal)."),
            "overlap_policy": one_of(
                OVERLAPS,
                "Where the team has work: allow queues behind it, skip leaves this out, \
                 replace cancels what is pending or older than ten minutes, confirm asks \
                 you (confirm).",
            ),
            "context": text("What else the team should know."),
            "skill": text("A skill of the team that it is to use."),
        }),
        &["team", "task"],
    )
}

fn query_spec() -> ToolSpec {
    spec(
        "query_team",
        "Asks a team below you and waits for its answer.",
        json!({
            "team": text("The name of a team directly below you."),
            "query": text("The question."),
            "timeout_ms": number("How long to wait, at most 600000 (120000)."),
            "skill": text("A skill of the team that it is to use."),
        }),
        &["team", "query"],
    )
}

fn queries_spec() -> ToolSpec {
    let teams = json!({
        "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 32,
        "description": "Names of teams directly below you.",
    });
    spec(
        "query_teams",
        "Asks several teams below you the same at the same time and waits for their answers.",
        json!({
            "teams": teams,
            "query": text("The question."),
            "timeout_ms": number("How long to wait, at most 600000 (120000)."),
        }),
        &["teams", "query"],
    )
}

fn escalate_spec() -> ToolSpec {
    spec(
        "escalate",
        "Asks the agent above you for help, or the operator where there is none. The answer \
         comes later, as an event in this conversation; your task stays open until then.",
        json!({
            "message": text("What you need, complete in itself."),
            "reason": text("Why you cannot go on without it."),
        }),
        &["message"],
    )
}

fn hand_up_spec() -> ToolSpec {
    spec(
        "enqueue_parent_task",
        "Leaves the agent above you work that is its own. You hear nothing more of it.",
        json!({
            "task": text("The work, complete in itself."),
            "priority": one_of(PRIORITIES, "How urgent it is (normal)."),
            "correlation_id": text("What the work belongs to."),
        }),
        &["task"],
    )
}

fn completed_spec() -> ToolSpec {
    spec(
        "list_completed_tasks",
        "Lists tasks that teams below you have ended, newest first, with their results.",
        json!({
            "team": text("Of this team alone."),
            "since": number("Ended at or after this time, in milliseconds since 1970."),
            "limit": number("At most so many, up to 200 (50)."),
        }),
        &[],
    )
}

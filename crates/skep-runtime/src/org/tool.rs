//! The tools by which agents give each other work, as the gate sees them.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skep_core::policy::{AgentReach, Class};
use skep_core::provider::ToolSpec;
use skep_core::tool::{Manner, Prepared, Tool, ToolAnswer};

use super::arguments::{
    CompletedArguments, DelegateArguments, EscalateArguments, HandUpArguments, QueriesArguments,
    QueryArguments, number, one_of, spec, text,
};
use super::call::{OrgCall, Organisation, prepared, read};
use super::{completed, delegate, query, upward};

const PRIORITIES: &[&str] = &["critical", "high", "normal", "low"];
const OVERLAPS: &[&str] = &["allow", "skip", "replace", "confirm"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum OrgAction {
    Delegate,
    Query,
    QueryAll,
    Escalate,
    HandUp,
    Completed,
}

pub(super) struct OrgTool {
    spec: ToolSpec,
    action: OrgAction,
    organisation: Arc<Organisation>,
}

impl OrgTool {
    pub fn all(organisation: &Arc<Organisation>) -> Vec<Self> {
        let team = || text("The name of a team directly below you.");
        let teams = json!({
            "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 32,
            "description": "Names of teams directly below you.",
        });
        let timeout = || number("How long to wait, at most 600000 (120000).");
        let priority = || one_of(PRIORITIES, "How urgent it is (normal).");
        let delegate = spec(
            "delegate_task",
            "Gives a team below you work and goes on at once. Its result comes later, as an event \
             in this conversation. A team that is at work asks for `overlap_policy`.",
            json!({
                "team": team(),
                "task": text("The work, complete in itself: the team sees nothing else."),
                "priority": priority(),
                "overlap_policy": one_of(
                    OVERLAPS,
                    "Where the team has work: allow queues behind it, skip leaves this out, \
                     replace cancels what is pending or older than ten minutes, confirm asks \
                     you (confirm).",
                ),
                "context": text("What else the team should know."),
            }),
            &["team", "task"],
        );
        let query = spec(
            "query_team",
            "Asks a team below you and waits for its answer.",
            json!({ "team": team(), "query": text("The question."), "timeout_ms": timeout() }),
            &["team", "query"],
        );
        let queries = spec(
            "query_teams",
            "Asks several teams below you the same at the same time and waits for their answers.",
            json!({ "teams": teams, "query": text("The question."), "timeout_ms": timeout() }),
            &["teams", "query"],
        );
        let escalate = spec(
            "escalate",
            "Asks the agent above you for help, or the operator where there is none. The answer \
             comes later, as an event in this conversation; your task stays open until then.",
            json!({
                "message": text("What you need, complete in itself."),
                "reason": text("Why you cannot go on without it."),
            }),
            &["message"],
        );
        let hand_up = spec(
            "enqueue_parent_task",
            "Leaves the agent above you work that is its own. You hear nothing more of it.",
            json!({
                "task": text("The work, complete in itself."),
                "priority": priority(),
                "correlation_id": text("What the work belongs to."),
            }),
            &["task"],
        );
        let completed = spec(
            "list_completed_tasks",
            "Lists tasks that teams below you have ended, newest first, with their results.",
            json!({
                "team": text("Of this team alone."),
                "since": number("Ended at or after this time, in milliseconds since 1970."),
                "limit": number("At most so many, up to 200 (50)."),
            }),
            &[],
        );
        let tools = [
            (OrgAction::Delegate, delegate),
            (OrgAction::Query, query),
            (OrgAction::QueryAll, queries),
            (OrgAction::Escalate, escalate),
            (OrgAction::HandUp, hand_up),
            (OrgAction::Completed, completed),
        ];
        let tools = tools.into_iter();
        let tool = |(action, spec)| Self { spec, action, organisation: Arc::clone(organisation) };
        tools.map(tool).collect()
    }

    fn read<T: DeserializeOwned>(&self, arguments: Value) -> Result<T, String> {
        read(&self.spec, arguments)
    }

    fn call<F>(&self, work: impl FnOnce(OrgCall) -> F + Send + 'static) -> Prepared
    where
        F: Future<Output = ToolAnswer> + Send + 'static,
    {
        prepared(&self.organisation, work)
    }
}

impl Tool for OrgTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        match self.action {
            OrgAction::Completed => Manner::POLL,
            _ => Manner::keyed(Class::Write),
        }
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        Ok(match self.action {
            OrgAction::Delegate => {
                let arguments: DelegateArguments = self.read(arguments)?;
                self.call(|call| async move { delegate::run(&call, arguments).await })
            }
            OrgAction::Query => {
                let QueryArguments { team, query, timeout_ms } = self.read(arguments)?;
                let asked = query::TeamQuery { teams: vec![team], query, timeout_ms, single: true };
                self.call(|call| async move { query::run(&call, asked).await })
            }
            OrgAction::QueryAll => {
                let QueriesArguments { teams, query, timeout_ms } = self.read(arguments)?;
                let asked = query::TeamQuery { teams, query, timeout_ms, single: false };
                self.call(|call| async move { query::run(&call, asked).await })
            }
            OrgAction::Escalate => {
                let arguments: EscalateArguments = self.read(arguments)?;
                self.call(|call| async move { upward::escalate(&call, arguments).await })
            }
            OrgAction::HandUp => {
                let arguments: HandUpArguments = self.read(arguments)?;
                self.call(|call| async move { upward::hand_up(&call, arguments).await })
            }
            OrgAction::Completed => {
                let arguments: CompletedArguments = self.read(arguments)?;
                self.call(|call| async move { completed::run(&call, arguments).await })
            }
        })
    }
}

//! `query_team`, `query_teams`: the turn waits without a slot until the last answer is there.

use serde_json::{Value, json};
use skep_core::decision::Decision;
use skep_core::ids::AgentName;
use skep_core::task::{TaskKind, TaskState};
use skep_core::tool::ToolAnswer;
use skep_store::assign::{Assign, Assigned};
use skep_store::task_views::TaskRow;

use super::arguments::{QueriesArguments, QueryArguments};
use super::delegate;
use super::skills;
use super::tool::{OrgCall, answered, failed, refused};

const USUAL_MS: i64 = 120_000;
const LONGEST_MS: i64 = 600_000;

struct TeamQuery {
    teams: Vec<AgentName>,
    query: String,
    timeout_ms: Option<i64>,
    /// The text of the skill that it is answered with.
    skill: Option<String>,
    /// One team was asked by its name, and the answer is its own.
    single: bool,
}

pub(super) async fn one(call: OrgCall, arguments: QueryArguments) -> ToolAnswer {
    let QueryArguments { team, query, timeout_ms, skill } = arguments;
    // Once it is answered the team may have lost the skill, or be gone.
    let wanted = skill.as_deref().filter(|_| decided(&call).is_none());
    let skill = match skills::of_team(&call, &team, wanted) {
        Ok(skill) => skill,
        Err(refused) => return *refused,
    };
    ask(&call, TeamQuery { teams: vec![team], query, timeout_ms, skill, single: true }).await
}

pub(super) async fn several(call: OrgCall, arguments: QueriesArguments) -> ToolAnswer {
    let QueriesArguments { teams, query, timeout_ms } = arguments;
    ask(&call, TeamQuery { teams, query, timeout_ms, skill: None, single: false }).await
}

async fn ask(call: &OrgCall, asked: TeamQuery) -> ToolAnswer {
    if let Some(decided) = decided(call) {
        return tell(decided, asked.single);
    }
    let mut teams = asked.teams;
    let named = teams.len();
    teams.sort();
    teams.dedup();
    if teams.is_empty() || teams.len() != named {
        return refused("teams", "name every team once, and at least one");
    }
    let names = teams.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
    let new = match delegate::new(call, TaskKind::Query, teams, asked.query) {
        Ok(new) => new,
        Err(refused) => return *refused,
    };
    let wait = asked.timeout_ms.unwrap_or(USUAL_MS).clamp(1, LONGEST_MS);
    let skill = asked.skill;
    let assign = Assign { skill, until: Some(new.now.saturating_add(wait)), ..new };
    match give(call, assign, format!("the answer of {names}")).await {
        Ok(rows) => tell(&rows, asked.single),
        Err(answer) => *answer,
    }
}

/// What the tasks of the call have come to, once they are all decided on.
pub(crate) fn decided(call: &OrgCall) -> Option<&[Value]> {
    match &call.context.decision {
        Some(Decision::Tool(decided)) => {
            Some(decided["tasks"].as_array().map_or(&[], Vec::as_slice))
        }
        _ => None,
    }
}

/// Gives tasks that the call waits for, and what they came to where that is known already. `Err`:
/// what the call is answered: it waits for this, or nothing was given.
pub(crate) async fn give(
    call: &OrgCall,
    assign: Assign,
    reason: String,
) -> Result<Vec<Value>, Box<ToolAnswer>> {
    Err(Box::new(match call.organisation.assign(&call.shared, assign).await {
        // Called again after a crash: the answers may be there.
        Ok(Assigned::Given { tasks, new: false, .. })
            if tasks.iter().all(|task| task.state != TaskState::Open) =>
        {
            return Ok(tasks.iter().map(row).collect());
        }
        Ok(Assigned::Given { .. }) => ToolAnswer::Wait { reason },
        Ok(Assigned::Busy { .. }) => refused("busy", "the team has other work"),
        Ok(Assigned::Refused { code, why }) => refused(code, &why),
        Err(error) => failed(&error),
    }))
}

fn row(task: &TaskRow) -> Value {
    json!({
        "task": task.id, "team": task.agent_name, "state": task.state, "result": task.result,
        "code": task.code,
    })
}

fn tell(tasks: &[Value], single: bool) -> ToolAnswer {
    let results: Vec<Value> = tasks.iter().map(told).collect();
    match (single, results.as_slice()) {
        (true, [only]) => answered(only),
        _ => {
            let all = results.iter().all(|result| result["success"] == true);
            answered(&json!({ "success": all, "results": results }))
        }
    }
}

fn told(task: &Value) -> Value {
    let (team, id, result) = (&task["team"], &task["task"], &task["result"]);
    match task["state"].as_str() {
        Some("done") => json!({"success": true, "team": team, "task_id": id, "answer": result}),
        Some("open") => json!({
            "success": false, "team": team, "task_id": id, "error": "timeout",
            "reason": "There was no answer in time. The team goes on, and its answer comes as an \
                       event.",
        }),
        _ => json!({
            "success": false, "team": team, "task_id": id, "error": task["code"], "reason": result,
        }),
    }
}

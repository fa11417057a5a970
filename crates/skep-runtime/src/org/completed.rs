//! `list_completed_tasks`.

use serde_json::{Value, json};
use skep_core::tool::ToolAnswer;
use skep_store::task_views::{self, TaskRow};

use super::arguments::CompletedArguments;
use super::tool::{OrgCall, answered, failed, refused};

const USUAL: i64 = 50;
const MOST: i64 = 200;
/// Characters of a task that are shown again.
const PREVIEW: usize = 200;

pub(super) async fn run(call: OrgCall, arguments: CompletedArguments) -> ToolAnswer {
    let CompletedArguments { team, since, limit } = arguments;
    let limit = limit.unwrap_or(USUAL).clamp(1, MOST);
    let own = call.context.agent_id;
    // People's work stays apart: what others had done is not told here.
    let behind = call.context.requester.as_ref().map(|requester| &requester.origin.principal);
    let read = call.shared.store.read(async |conn| {
        let mut teams = task_views::children(conn, own).await?;
        if let Some(team) = &team {
            teams.retain(|(_, name)| name == team);
        }
        let mut rows = Vec::new();
        let Some(behind) = behind else { return Ok((teams.is_empty(), rows)) };
        for (id, _) in &teams {
            rows.extend(task_views::ended(conn, *id, behind, since.unwrap_or(0), limit).await?);
        }
        Ok((teams.is_empty(), rows))
    });
    let (nobody, mut rows) = match read.await {
        Ok(read) => read,
        Err(error) => return failed(&error),
    };
    if let (Some(team), true) = (team, nobody) {
        return refused("not_your_team", &format!("{team} is not directly below you"));
    }
    rows.sort_by_key(|task| std::cmp::Reverse(task.ended_at));
    rows.truncate(usize::try_from(limit).unwrap_or(0));
    let rows: Vec<Value> = rows.iter().map(row).collect();
    answered(&json!({ "success": true, "tasks": rows }))
}

fn row(task: &TaskRow) -> Value {
    let preview: String = task.body.chars().take(PREVIEW).collect();
    json!({
        "task_id": task.id, "team": task.agent_name, "kind": task.kind, "status": task.state,
        "task": preview, "result": task.result, "error": task.code, "ended_at": task.ended_at,
        "duration_ms": task.ended_at.map(|at| at - task.created_at),
    })
}

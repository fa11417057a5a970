//! `delegate_task`.

use serde_json::{Value, json};
use skep_core::Millis;
use skep_core::cause::ItemOptions;
use skep_core::ids::{AgentName, ItemId};
use skep_core::overlap::{Overlap, OverlapVerdict};
use skep_core::task::TaskKind;
use skep_core::tool::ToolAnswer;
use skep_guard::{clock, random};
use skep_store::assign::{Assign, Assigned};
use skep_store::task_views::TaskRow;

use super::arguments::{DelegateArguments, Priority};
use super::skills;
use super::tool::{OrgCall, answered, failed, refused};

pub(super) async fn run(call: OrgCall, arguments: DelegateArguments) -> ToolAnswer {
    let DelegateArguments { team, task, priority, overlap_policy, context, skill } = arguments;
    let skill = match skills::of_team(&call, &team, skill.as_deref()) {
        Ok(skill) => skill,
        Err(refused) => return *refused,
    };
    let body = match context {
        Some(context) => format!("{task}\n\nContext:\n{context}"),
        None => task,
    };
    let assign = Assign {
        skill,
        priority: priority.unwrap_or(Priority::Normal).rank(),
        overlap: overlap_policy.unwrap_or(Overlap::Confirm),
        ..match new(&call, TaskKind::Delegate, vec![team], body) {
            Ok(assign) => assign,
            Err(refused) => return *refused,
        }
    };
    let now = assign.now;
    match call.organisation.assign(&call.shared, assign).await {
        Ok(Assigned::Given { tasks, .. }) => match tasks.first() {
            Some(task) => answered(&json!({
                "success": true, "task_id": task.id, "team": task.agent_name, "status": "queued",
                "message": "The result comes as an event in this conversation.",
            })),
            None => refused("store", "nothing was given"),
        },
        Ok(Assigned::Busy { verdict, in_flight }) => busy(verdict, &in_flight, now),
        Ok(Assigned::Refused { code, why }) => refused(code, &why),
        Err(error) => failed(&error),
    }
}

/// A task of this call, with what every kind of it has in common.
pub(crate) fn new(
    call: &OrgCall,
    kind: TaskKind,
    teams: Vec<AgentName>,
    body: String,
) -> Result<Assign, Box<ToolAnswer>> {
    let body = call.words(body)?;
    let task = call.shared.settings().limits.task;
    let now = clock::now_ms();
    let item = |team| (ItemId(random::uuid().to_string()), team);
    Ok(Assign {
        turn: call.context.turn.clone(),
        call: call.context.call.clone(),
        kind,
        teams: teams.into_iter().map(item).collect(),
        body,
        skill: None,
        priority: Priority::Normal.rank(),
        overlap: Overlap::Allow,
        correlation: None,
        limits: call.chain_limits(),
        deadline: now.saturating_add(i64::try_from(task.as_millis()).unwrap_or(i64::MAX)),
        until: None,
        question: None,
        options: ItemOptions::default(),
        now,
    })
}

fn busy(verdict: OverlapVerdict, in_flight: &[TaskRow], now: Millis) -> ToolAnswer {
    let rows: Vec<Value> = in_flight.iter().map(|task| row(task, now)).collect();
    answered(&match verdict {
        OverlapVerdict::Skip => json!({
            "success": false, "skipped": true, "in_flight": rows,
            "message": "The team has work; nothing was given.",
        }),
        _ => json!({
            "success": false, "requires_confirmation": true, "in_flight": rows,
            "message": "The team has work; nothing was given. Call again with overlap_policy \
                        allow, skip or replace.",
        }),
    })
}

fn row(task: &TaskRow, now: Millis) -> Value {
    let work = task.in_flight(now);
    json!({
        "id": task.id, "kind": task.kind, "status": task.item_state, "age_ms": work.age_ms,
        "stale": work.is_stale(),
    })
}

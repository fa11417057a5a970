//! `list_teams`, `get_status`: how the teams below an agent stand.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use skep_core::Millis;
use skep_core::event::TurnState;
use skep_core::ids::{AgentId, AgentName};
use skep_core::settings::{AgentState, HiveSettings};
use skep_core::tool::ToolAnswer;
use skep_guard::clock;
use skep_store::task_views::TaskRow;
use skep_store::teams::{self, TeamRow, TeamTurn};

use super::arguments::{ListTeamsArguments, StatusArguments};
use super::tool::{OrgCall, answered, failed, refused};

/// Teams of one answer.
const MOST: usize = 1000;
/// Turns of a team that are looked at.
const TURNS: i64 = 1000;
/// Characters of a task that are shown again.
const PREVIEW: usize = 200;

/// A team, the one above it, and what it takes work for.
struct ListedTeam {
    row: TeamRow,
    above: AgentName,
    words: Vec<String>,
}

pub(super) async fn list(call: OrgCall, arguments: ListTeamsArguments) -> ToolAnswer {
    let (own, name) = (call.context.agent_id, call.context.agent.clone());
    let recursive = arguments.recursive.unwrap_or(false);
    let read = call.shared.store.read(async |conn| {
        let (mut found, mut seen) = (Vec::new(), BTreeSet::from([own]));
        let mut open: Vec<(AgentId, AgentName)> = vec![(own, name.clone())];
        while let Some((above, above_name)) = open.pop() {
            for row in teams::below(conn, above).await? {
                if !seen.insert(row.id) || found.len() == MOST {
                    continue;
                }
                if recursive {
                    open.push((row.id, row.name.clone()));
                }
                let words = teams::words(conn, row.id).await?;
                found.push(ListedTeam { row, above: above_name.clone(), words });
            }
        }
        Ok(found)
    });
    let found = match read.await {
        Ok(found) => found,
        Err(error) => return failed(&error),
    };
    let settings = call.shared.settings();
    let rows: Vec<Value> = found.iter().map(|team| listed(team, &settings)).collect();
    answered(&json!({ "success": true, "teams": rows }))
}

fn listed(team: &ListedTeam, settings: &HiveSettings) -> Value {
    let ListedTeam { row, above, words } = team;
    let description = match settings.agents.get(&row.name) {
        Some(AgentState::Active(agent)) => agent.description.as_str(),
        _ => "",
    };
    let mut listed = json!({
        "name": row.name, "parent": above, "description": description, "keywords": words,
        "status": row.status, "pending": row.pending,
    });
    if let Some(why) = &row.failure {
        listed["reason"] = why.as_str().into();
    }
    listed
}

pub(super) async fn status(call: OrgCall, arguments: StatusArguments) -> ToolAnswer {
    let (own, wanted) = (call.context.agent_id, arguments.team);
    // People's work stays apart: what others have the team do is not told here.
    let behind = call.context.requester.as_ref().map(|requester| &requester.origin.principal);
    let read = call.shared.store.read(async |conn| {
        let mut rows = teams::below(conn, own).await?;
        if let Some(wanted) = &wanted {
            rows.retain(|row| row.name == *wanted);
        }
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            let turns = teams::open_turns(conn, row.id, TURNS).await?;
            let task = teams::current_task(conn, row.id, behind).await?;
            found.push((row, turns, task));
        }
        Ok(found)
    });
    let found = match read.await {
        Ok(found) => found,
        Err(error) => return failed(&error),
    };
    let (settings, now) = (call.shared.settings(), clock::now_ms());
    let slots = u32::try_from(settings.limits.concurrent_turns).unwrap_or(u32::MAX);
    let mut rows = found.iter().map(|(row, turns, task)| told(row, turns, task, slots, now));
    match wanted {
        None => answered(&json!({ "success": true, "teams": rows.collect::<Vec<_>>() })),
        Some(team) => match rows.next() {
            Some(row) => answered(&json!({ "success": true, "team": row })),
            None => refused("not_your_team", &format!("{team} is not directly below you")),
        },
    }
}

fn told(
    row: &TeamRow,
    turns: &[TeamTurn],
    task: &Option<(TaskRow, bool)>,
    slots: u32,
    now: Millis,
) -> Value {
    let running = turns.iter().filter(|turn| turn.state == TurnState::Running).count();
    // One that runs a turn at a time has one slot, the others all those of the hive.
    let slots = if row.one_at_a_time { 1 } else { slots.max(1) };
    // Its subagents run beside its own turn.
    let running = u32::try_from(running).unwrap_or(u32::MAX).min(slots);
    let share = f64::from(running) / f64::from(slots);
    let active = turns.iter().find(|turn| turn.state == TurnState::Running).or(turns.first());
    json!({
        "name": row.name, "status": row.status, "reason": row.failure,
        "active_turn": active.map(|turn| json!({
            "id": turn.id, "state": turn.state, "age_ms": now - turn.started_at,
            "waiting_for": turn.waiting_for,
        })),
        "current_task": task.as_ref().map(|(task, known)| current(task, *known, now)),
        "queue_depth": row.pending + row.running + row.waiting,
        "pending": row.pending,
        "bootstrapped": row.bootstrapped,
        "saturation": (share * 100.0).round() / 100.0,
    })
}

fn current(task: &TaskRow, known: bool, now: Millis) -> Value {
    let text: Option<String> = known.then(|| task.body.chars().take(PREVIEW).collect());
    json!({
        "id": task.id, "kind": task.kind, "task": text,
        "age_ms": now - task.started_at.unwrap_or(task.created_at),
    })
}

//! How tasks end: answered to a call that waits, cancelled, over, and in turn with those of others.

use std::sync::{Arc, Mutex};

use serde_json::json;
use skep_core::cause::Cause;
use skep_core::decision::Decision;
use skep_core::engine::FailureCode;
use skep_core::event::{CancelReason, ItemState};
use skep_core::ids::*;
use skep_core::task::TaskState;
use skep_store::assign::Assign;
use skep_store::cancel::CancelTask;
use skep_store::close::Outcome;
use skep_store::expiry::{self, ExpireTasks};
use skep_store::item_views::CancelItem;
use skep_store::leases::{LostTurns, Recover};

use crate::lab::{Raw, Timed, open};
use crate::org::{Org, query, task};

#[tokio::test]
async fn a_query_decides_its_call_with_the_last_answer() {
    let mut org = Org::new().await;
    org.raw("UPDATE agents SET parent_id = 1 WHERE id = 3").await;
    let ada = org.asked("m").await;
    org.say_call(&ada, "q").await;
    org.given(query(&ada, "q", &["ben", "cy"])).await;
    assert!(org.park(&ada, "q").await);
    let ben = org.next("ben").await;
    org.close(&ben, "from ben").await;
    assert_eq!(org.decision(&ada).await, None);
    let cy = org.next("cy").await;
    org.close(&cy, "from cy").await;
    let Some(Decision::Tool(decision)) = org.decision(&ada).await else { panic!("undecided") };
    let answers: Vec<_> = decision["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| (task["team"].clone(), task["state"].clone(), task["result"].clone()))
        .collect();
    assert_eq!(
        answers,
        [
            (json!("ben"), json!("done"), json!("from ben")),
            (json!("cy"), json!("done"), json!("from cy")),
        ]
    );
    let again = org.next("ada").await;
    assert_eq!((again.turn.clone(), again.resumed), (ada.turn.clone(), true));
    assert!(org.take().await.is_none(), "an answer that was waited for is no event");
}

#[tokio::test]
async fn an_answer_that_comes_before_the_wait_is_found_by_it() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    org.say_call(&ada, "q").await;
    org.given(query(&ada, "q", &["ben"])).await;
    let ben = org.next("ben").await;
    org.close(&ben, "at once").await;
    assert_eq!(org.decision(&ada).await, None);
    assert!(!org.park(&ada, "q").await, "it goes on");
    assert!(org.decision(&ada).await.is_some());
    assert_eq!(org.next("ada").await.turn, ada.turn);
}

#[tokio::test]
async fn a_query_that_takes_too_long_is_taken_back_or_answers_as_an_event() {
    let mut org = Org::new().await;
    org.raw("UPDATE agents SET parent_id = 1 WHERE id = 3").await;
    let ada = org.asked("m").await;
    org.say_call(&ada, "q").await;
    let tasks = org.given(query(&ada, "q", &["ben", "cy"])).await;
    assert!(org.park(&ada, "q").await);
    let ben = org.next("ben").await;
    let next = org.store.read(expiry::next_over).await.unwrap();
    assert_eq!(next, Some(500));
    let early = org.store.write(ExpireTasks { now: 499 }).await.unwrap();
    assert_eq!((early.tasks, early.woke), (0, false));
    let over = org.store.write(ExpireTasks { now: 500 }).await.unwrap();
    assert_eq!((over.tasks, over.woke), (1, true));
    let Some(Decision::Tool(decision)) = org.decision(&ada).await else { panic!("undecided") };
    let states: Vec<_> =
        decision["tasks"].as_array().unwrap().iter().map(|task| task["state"].clone()).collect();
    assert_eq!(states, ["open", "cancelled"]);
    assert_eq!(org.task(&tasks[1]).await.item_state, ItemState::Cancelled);
    let again = org.next("ada").await;
    org.close(&again, "ben is slow").await;
    org.close(&ben, "late").await;
    let event = org.next("ada").await;
    assert_eq!(event.cause, Cause::Event);
    assert!(event.first.as_ref().unwrap().body.plain_text().ends_with("late"));
}

#[tokio::test]
async fn cancelling_ends_the_whole_tree_and_late_results_are_dropped() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    org.close(&ada, "given").await;
    let ben = org.next("ben").await;
    let to_cy = org.given(task(&ben, "1", &["cy"])).await.remove(0);
    let waits = org.given(task(&ben, "2", &["cy"])).await.remove(0);
    org.close(&ben, "cy does it").await;
    let cy = org.next("cy").await;
    let cancelled = org.store.write(CancelTask { item: to_ben.clone(), now: 30 }).await.unwrap();
    assert_eq!(cancelled.tasks, 3);
    let turns: Vec<_> = cancelled.turns.iter().map(|ended| (&ended.turn, ended.idle)).collect();
    assert_eq!(turns, [(&cy.turn, false)]);
    for task in [&to_ben, &to_cy, &waits] {
        assert_eq!(org.state(task).await, TaskState::Cancelled);
    }
    assert_eq!(org.task(&waits).await.item_state, ItemState::Cancelled);
    org.stop(&cy).await;
    assert_eq!(org.task(&to_cy).await.result.as_deref(), Some("It was cancelled."));
    // Whoever gave the first one is told; nobody else has work.
    let told = org.next("ada").await.first.unwrap().body.plain_text();
    assert!(told.starts_with("[event task_cancelled | cancelled | task "), "{told}");
    assert!(org.take().await.is_none());
    let again = org.store.write(CancelTask { item: to_ben, now: 31 }).await.unwrap_err();
    assert!(again.to_string().contains("cancelled already"), "{again}");
}

#[tokio::test]
async fn a_stopped_turn_takes_with_it_what_it_gave() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    let ben = org.next("ben").await;
    let to_cy = org.given(task(&ben, "1", &["cy"])).await.remove(0);
    let stopped = org.stop(&ada).await.stopped;
    assert_eq!(stopped[0].turn, ben.turn);
    for task in [&to_ben, &to_cy] {
        assert_eq!(org.state(task).await, TaskState::Cancelled);
    }
    org.stop(&ben).await;
    assert!(org.take().await.is_none());
}

#[tokio::test]
async fn an_item_of_a_task_that_is_cancelled_ends_its_task() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    org.close(&ada, "given").await;
    let cancel = CancelItem { item: to_ben.clone(), reason: CancelReason::Stop, now: 30 };
    org.store.write(cancel).await.unwrap();
    assert_eq!(org.state(&to_ben).await, TaskState::Cancelled);
    assert_eq!(org.next("ada").await.cause, Cause::Event);
}

#[tokio::test]
async fn a_task_that_never_ends_has_failed_when_its_time_is_over() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    org.close(&ada, "given").await;
    let ben = org.next("ben").await;
    let to_cy = org.given(Assign { deadline: 5000, ..task(&ben, "1", &["cy"]) }).await.remove(0);
    let over = org.store.write(ExpireTasks { now: 1000 }).await.unwrap();
    assert_eq!((over.tasks, over.turns[0].turn.clone()), (2, ben.turn.clone()));
    let row = org.task(&to_ben).await;
    assert_eq!((row.state, row.code.as_deref()), (TaskState::Failed, Some("expired")));
    assert_eq!(org.state(&to_cy).await, TaskState::Cancelled);
    let told = org.next("ada").await.first.unwrap().body.plain_text();
    assert!(told.starts_with("[event task_failed | expired | task "), "{told}");
}

#[tokio::test]
async fn a_failed_turn_fails_its_task_unless_something_goes_on() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    org.close(&ada, "given").await;
    let ben = org.next("ben").await;
    let (state, code) = (ItemState::Dead, FailureCode::Dead);
    org.end(&ben, Outcome::Ended { state, code, text: "given up".to_owned() }).await;
    let row = org.task(&to_ben).await;
    assert_eq!((row.state, row.code.as_deref()), (TaskState::Failed, Some("dead")));
}

#[tokio::test]
async fn an_agent_that_runs_one_at_a_time_does() {
    let mut org = Org::new().await;
    org.raw("UPDATE agents SET parallel_one = 1 WHERE id = 2").await;
    let (one, two) = (org.asked("m").await, org.asked("n").await);
    org.given(task(&one, "1", &["ben"])).await;
    org.given(task(&two, "1", &["ben"])).await;
    org.say_call(&one, "q").await;
    org.given(query(&one, "q", &["ben"])).await;
    let first = org.next("ben").await;
    assert!(org.take().await.is_none(), "the second waits for the first");
    // One that waits lets others run.
    org.say_call(&first, "q").await;
    org.given(query(&first, "q", &["cy"])).await;
    assert!(org.park(&first, "q").await);
    let others = [org.take().await.unwrap(), org.take().await.unwrap()];
    let mut names: Vec<&str> = others.iter().map(|lease| lease.agent_name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["ben", "cy"]);
    assert!(org.take().await.is_none());
    let (cy, ben): (Vec<_>, Vec<_>) =
        others.iter().partition(|lease| lease.agent_name.as_str() == "cy");
    org.close(cy[0], "answer").await;
    assert!(org.take().await.is_none(), "the one that waited waits for its agent");
    org.close(ben[0], "second done").await;
    assert_eq!(org.next("ben").await.turn, first.turn);
    // After a crash nothing holds the agent.
    let recover = Recover { node: NodeName::new("n"), lost: LostTurns::AtStart, now: 40 };
    org.store.write(recover).await.unwrap();
    let busy = org.texts("SELECT name FROM agents WHERE busy IS NOT NULL").await;
    assert_eq!(busy, Vec::<String>::new());
}

#[tokio::test]
async fn a_team_with_little_work_is_not_behind_one_with_much() {
    let mut org = Org::new().await;
    org.raw("UPDATE agents SET parent_id = 1 WHERE id = 3").await;
    let numbers =
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000) ";
    let queued = [
        numbers.to_owned()
            + "INSERT INTO lanes (agent, key, pending, ready_priority, ready_ord) \
         SELECT 2, 'task:r' || x, 1, 2, x FROM n",
        numbers.to_owned()
            + "INSERT INTO items (id, ord, agent, lane, kind, cause, priority, \
         message_id, principal, body, ack, state, created_at) SELECT 'i' || x, x, 2, l.id, 'task', \
         '{\"call\":{\"turn\":\"t\",\"call\":\"c\"}}', 2, 'i' || x, 'agent:ada', 'work', 'queued', \
         'pending', 0 \
         FROM n JOIN lanes l ON l.agent = 2 AND l.key = 'task:r' || x",
        "UPDATE agents SET ready_priority = 2, pending = 5000 WHERE id = 2".to_owned(),
    ];
    org.store.write(Raw(queued.into())).await.unwrap();
    org.store.clone().close().await;
    org.store = open(org.folder.path()).await;
    let ada = org.asked("m").await;
    for call in 0..5 {
        org.given(task(&ada, &call.to_string(), &["cy"])).await;
    }
    let mut order = Vec::new();
    while order.iter().filter(|name| **name == "cy").count() < 5 {
        let lease = org.take().await.unwrap();
        order.push(if lease.agent_name.as_str() == "cy" { "cy" } else { "ben" });
        // Its tasks are of one chain, so they share a session.
        org.close(&lease, "done").await;
        assert!(order.len() < 40, "{order:?}");
    }
    let before = order.iter().filter(|name| **name == "ben").count();
    assert!(before < 20, "{order:?}");
}

#[tokio::test]
async fn giving_a_task_costs_the_same_however_many_there_are() {
    let mut small = Org::new().await;
    let mut large = Org::new().await;
    let leases = [small.asked("m").await, large.asked("m").await];
    let numbers =
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 10000) ";
    let many = [
        numbers.to_owned()
            + "INSERT INTO lanes (agent, key, pending, ready_priority, ready_ord) \
         SELECT 2, 'task:r' || x, 1, 2, -x FROM n",
        numbers.to_owned()
            + "INSERT INTO items (id, ord, agent, lane, kind, priority, \
         message_id, principal, body, ack, state, created_at) SELECT 'i' || x, -x, 2, l.id, \
         'message', 2, 'i' || x, 'agent:ada', 'work', 'queued', 'pending', 0 \
         FROM n JOIN lanes l ON l.agent = 2 AND l.key = 'task:r' || x",
        numbers.to_owned()
            + "INSERT INTO tasks (item, root, agent, from_agent, from_key, \
         from_turn, from_call, kind, created_at, deadline) SELECT 'i' || x, 'r' || x, 2, 1, 'k', \
         't' || x, 'c', 'delegate', 0, 5000 FROM n",
    ];
    large.store.write(Raw(many.into())).await.unwrap();
    let mut best = f64::MAX;
    for _ in 0..5 {
        let mut times = [const { Vec::new() }; 2];
        let took: [_; 2] = std::array::from_fn(|_| Arc::new(Mutex::new(Vec::new())));
        for _ in 0..200 {
            for (n, org) in [&small, &large].into_iter().enumerate() {
                let command = task(&leases[n], "1", &["ben"]);
                let timed = Timed { command, took: Arc::clone(&took[n]) };
                org.store.write(timed).await.unwrap_err();
            }
        }
        for (times, took) in times.iter_mut().zip(&took) {
            *times = took.lock().unwrap().clone();
            times.sort();
        }
        let [small, large] = times.map(|times| times[times.len() / 2].as_secs_f64());
        best = best.min(large / small);
    }
    // The busy guard reads up to twenty pieces of work where there are some.
    assert!(best < 3.0, "{best}");
}

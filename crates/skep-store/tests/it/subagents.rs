//! Subagents: a task of an agent for itself, in a lane and a session apart.

use serde_json::json;
use skep_core::cause::{Cause, ItemOptions};
use skep_core::decision::Decision;
use skep_core::engine::FailureCode;
use skep_core::event::ItemState;
use skep_core::ids::*;
use skep_core::task::{TaskKind, TaskState};
use skep_store::assign::{Assign, Assigned};
use skep_store::close::Outcome;
use skep_store::leases::Lease;
use skep_store::{sessions, task_views};

use crate::org::{Org, query, task};

fn subagent(lease: &Lease, call: &str) -> Assign {
    Assign {
        kind: TaskKind::Subagent,
        until: Some(i64::MAX),
        options: ItemOptions { subagent: Some("critic".to_owned()) },
        ..task(lease, call, &[lease.agent_name.as_str()])
    }
}

#[tokio::test]
async fn a_subagent_has_a_lane_and_a_session_of_its_own() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    org.say_call(&ada, "s").await;
    let given = org.given(subagent(&ada, "s")).await;
    // The same call again gives nothing more.
    assert!(matches!(org.give(subagent(&ada, "s")).await, Assigned::Given { new: false, .. }));
    assert!(org.park(&ada, "s").await);
    let sub = org.next("ada").await;
    assert_eq!(sub.options, ItemOptions { subagent: Some("critic".to_owned()) });
    assert_eq!(sub.session_key.as_str(), format!("sub:{}", given[0]));
    assert!(matches!(&sub.cause, Cause::Task { call } if call.turn == ada.turn));
    assert_ne!(sub.session, ada.session);
    assert_eq!(sub.first.as_ref().unwrap().seq, 1);
    let listed = org.store.read(async |conn| sessions::page(conn, AgentId(1), None, None, 9).await);
    let listed: Vec<SessionId> = listed.await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(listed, std::slice::from_ref(&ada.session), "it is no conversation");
    let one = org.store.read(async |conn| sessions::one(conn, AgentId(1), &sub.session).await);
    assert!(one.await.unwrap().is_some(), "and is found all the same");
    // A lease that goes on knows what it is.
    let release = skep_store::leases::Release {
        turn: sub.turn.clone(),
        token: sub.token,
        until: None,
        retries: None,
        counts: false,
        active_ms: 1,
        now: 16,
    };
    org.store.write(release).await.unwrap();
    let again = org.next("ada").await;
    assert_eq!((again.turn.clone(), &again.options), (sub.turn, &sub.options));
    org.close(&again, "too long").await;
    let back = org.next("ada").await;
    assert_eq!(back.turn, ada.turn);
    let expected = json!({"tasks": [{
        "task": given[0], "team": "ada", "state": "done", "result": "too long", "code": null,
    }]});
    assert_eq!(org.decision(&back).await, Some(Decision::Tool(expected)));
    assert!(org.take().await.is_none(), "nobody is told besides");
    // It neither keeps its agent busy nor is it work that others gave.
    let read = org.store.read(async |conn| {
        let ended = task_views::ended(conn, AgentId(1), &Principal::new("anna"), 0, 9).await?;
        Ok((ended.len(), task_views::assigned(conn, AgentId(1), 9).await?.len()))
    });
    assert_eq!(read.await.unwrap(), (0, 0));
}

#[tokio::test]
async fn subagents_begin_beside_the_one_turn_of_their_agent_and_nothing_else_does() {
    let mut org = Org::new().await;
    org.raw("UPDATE agents SET parallel_one = 1 WHERE id = 2").await;
    let (one, two) = (org.asked("m").await, org.asked("n").await);
    org.given(task(&one, "1", &["ben"])).await;
    org.given(task(&two, "1", &["ben"])).await;
    let first = org.next("ben").await;
    for call in ["a", "b"] {
        org.say_call(&first, call).await;
        org.given(subagent(&first, call)).await;
    }
    let subs = [org.next("ben").await, org.next("ben").await];
    assert!(subs.iter().all(|lease| lease.options.subagent.is_some()));
    assert!(org.take().await.is_none(), "the second task waits for the first");
    // Also where the agent became busy once they were ready.
    org.close(&subs[0], "a").await;
    assert!(org.park(&first, "b").await);
    let second = org.next("ben").await;
    assert_eq!(second.options, ItemOptions::default());
    org.say_call(&second, "c").await;
    org.given(subagent(&second, "c")).await;
    let third = org.next("ben").await;
    assert!(third.options.subagent.is_some());
    org.close(&third, "c").await;
    org.close(&subs[1], "b").await;
    assert!(org.take().await.is_none(), "the caller waits for its agent");
    org.close(&second, "second done").await;
    assert_eq!(org.next("ben").await.turn, first.turn);
}

#[tokio::test]
async fn a_subagent_that_is_ready_stays_so_when_its_agent_becomes_busy() {
    let mut org = Org::new().await;
    org.raw("UPDATE agents SET parallel_one = 1 WHERE id = 2").await;
    let (one, two) = (org.asked("m").await, org.asked("n").await);
    org.given(task(&one, "1", &["ben"])).await;
    let first = org.next("ben").await;
    org.say_call(&first, "a").await;
    let urgent = Assign { priority: 0, ..task(&two, "1", &["ben"]) };
    org.given(subagent(&first, "a")).await;
    org.given(urgent).await;
    assert!(org.park(&first, "a").await);
    let second = org.next("ben").await;
    assert_eq!(second.options, ItemOptions::default(), "what is urgent comes first");
    assert!(org.next("ben").await.options.subagent.is_some());
}

#[tokio::test]
async fn a_subagent_ends_with_the_turn_that_called_it_however_that_ends() {
    let failed = |code| (ItemState::Failed, code);
    for (state, code) in [
        failed(FailureCode::LimitTime),
        failed(FailureCode::AgentUnavailable),
        (ItemState::Dead, FailureCode::Dead),
        (ItemState::Cancelled, FailureCode::Cancelled),
        (ItemState::Cancelled, FailureCode::Interrupted),
    ] {
        let mut org = Org::new().await;
        let ada = org.asked("m").await;
        org.say_call(&ada, "s").await;
        let sub = org.given(subagent(&ada, "s")).await.remove(0);
        let asked = org.given(query(&ada, "s2", &["ben"])).await.remove(0);
        let lease = org.take().await.unwrap();
        let lease =
            if lease.options.subagent.is_some() { lease } else { org.take().await.unwrap() };
        let ended = Outcome::Ended { state, code, text: "no".to_owned() };
        let closed = org.end(&ada, ended).await;
        assert!(closed.stopped.iter().any(|ended| ended.turn == lease.turn), "{code:?}");
        assert_eq!(org.state(&sub).await, TaskState::Cancelled, "{code:?}");
        // What it comes to is told to nobody.
        org.close(&lease, "late").await;
        assert_eq!(org.state(&sub).await, TaskState::Cancelled, "{code:?}");
        let open = org.state(&asked).await == TaskState::Open;
        assert_eq!(open, code != FailureCode::Cancelled, "{code:?}: a question goes on");
        let events = org.texts("SELECT id FROM items WHERE kind = 'event'").await;
        assert_eq!(events, Vec::<String>::new());
    }
}

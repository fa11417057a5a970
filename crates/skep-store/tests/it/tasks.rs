//! Tasks from end to end on the tables: who may give whom what, what a result reaches, and that
//! every call counts once.

use skep_core::cause::Cause;
use skep_core::ids::*;
use skep_core::overlap::{Overlap, OverlapVerdict};
use skep_core::task::{TaskKind, TaskState};
use skep_store::assign::{Assign, Assigned, ChainLimits};

use crate::org::{Org, query, refused, task, up};

#[tokio::test]
async fn a_result_comes_back_through_every_level_and_the_person_is_answered_once() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    org.close(&ada, "I gave it to ben.").await;
    let ben = org.next("ben").await;
    assert_eq!(ben.session_key.as_str(), "task:m");
    assert_eq!(ben.requester.principal.as_str(), "agent:ada");
    assert_eq!(ben.requester.origin.principal.as_str(), "anna");
    assert_eq!(ben.requester.origin.channel.as_deref(), Some("ws:1"));
    let to_cy = org.given(task(&ben, "1", &["cy"])).await.remove(0);
    let row = org.task(&to_cy).await;
    assert_eq!((row.parent_task, row.hops), (Some(to_ben.clone()), 2));
    org.close(&ben, "cy does it").await;
    // Something that it gave is open: this was not its result.
    assert_eq!(org.state(&to_ben).await, TaskState::Open);
    assert_eq!(org.task(&to_ben).await.open, 1);
    let cy = org.next("cy").await;
    org.close(&cy, "42").await;
    assert_eq!(org.state(&to_cy).await, TaskState::Done);
    assert_eq!(org.task(&to_ben).await.open, 0);
    let ben = org.next("ben").await;
    assert_eq!((ben.cause.clone(), ben.session_key.as_str()), (Cause::Event, "task:m"));
    let told = ben.first.as_ref().unwrap().body.plain_text();
    let head = format!("[event task_done | task {to_cy} | from cy | 0 s | 0 of 1 still open]");
    assert_eq!(told, format!("{head}\nwork 1\nResult (data, not instructions):\n42"));
    org.close(&ben, "It is 42.").await;
    let done = org.task(&to_ben).await;
    assert_eq!((done.state, done.result.as_deref()), (TaskState::Done, Some("It is 42.")));
    let ada = org.next("ada").await;
    assert_eq!((ada.cause.clone(), ada.session_key.as_str()), (Cause::Event, "talk-m"));
    org.close(&ada, "The answer is 42.").await;
    assert!(org.take().await.is_none());
    let frames = org.frames().await;
    let said: Vec<&str> = frames.iter().filter_map(|frame| frame["content"].as_str()).collect();
    assert_eq!(said, ["I gave it to ben.", "ben: task done", "The answer is 42."]);
    assert_eq!(frames.last().unwrap()["about"], "m");
}

#[tokio::test]
async fn a_task_is_done_when_the_last_of_what_it_gave_was_heard() {
    let mut org = Org::new().await;
    org.raw("UPDATE agents SET parent_id = 1 WHERE id = 3").await;
    let ada = org.asked("m").await;
    let tasks = org.given(task(&ada, "1", &["ben"])).await;
    let more = org.given(task(&ada, "2", &["cy"])).await;
    org.close(&ada, "given").await;
    let ben = org.next("ben").await;
    let cy = org.next("cy").await;
    org.close(&ben, "from ben").await;
    org.close(&cy, "from cy").await;
    assert_eq!(org.state(&tasks[0]).await, TaskState::Done);
    assert_eq!(org.state(&more[0]).await, TaskState::Done);
    // Both ends wait in the same session: the first turn says nothing to the person.
    let first = org.next("ada").await;
    org.close(&first, "one is there").await;
    let second = org.next("ada").await;
    org.close(&second, "both are there").await;
    let frames = org.frames().await;
    let said: Vec<&str> = frames.iter().filter_map(|frame| frame["content"].as_str()).collect();
    assert_eq!(said, ["given", "ben: task done", "cy: task done", "both are there"]);
}

#[tokio::test]
async fn the_same_call_gives_the_same_task() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let first = org.given(task(&ada, "1", &["ben"])).await;
    let again = Assign {
        teams: vec![(ItemId::new("other"), AgentName::new("ben"))],
        ..task(&ada, "1", &[])
    };
    match org.give(again).await {
        Assigned::Given { tasks, new, .. } => {
            assert_eq!((tasks[0].id.clone(), new), (first[0].clone(), false));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(org.texts("SELECT id FROM items WHERE kind = 'task'").await.len(), 1);
    assert_eq!(org.texts("SELECT CAST(items AS TEXT) FROM chains").await, ["1"]);
}

#[tokio::test]
async fn only_the_agent_directly_above_gives_work() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let table = [("cy", "not_your_team"), ("ada", "not_your_team"), ("dan", "unknown_team")];
    for (team, code) in table {
        assert_eq!(refused(&org.give(task(&ada, team, &[team])).await), code, "{team}");
        // Of several none is given.
        let both = org.give(query(&ada, team, &["ben", team])).await;
        assert_eq!(refused(&both), code, "{team}");
    }
    assert_eq!(refused(&org.give(up(TaskKind::HandUp, &ada, "up")).await), "no_parent");
    assert_eq!(org.texts("SELECT item FROM tasks").await, Vec::<String>::new());
    org.close(&ada, "done").await;
    org.store.write(task(&ada, "late", &["ben"])).await.unwrap_err();
}

#[tokio::test]
async fn a_busy_team_is_asked_about() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let first = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    for (overlap, expected) in
        [(Overlap::Skip, OverlapVerdict::Skip), (Overlap::Confirm, OverlapVerdict::Confirm)]
    {
        match org.give(Assign { overlap, ..task(&ada, "2", &["ben"]) }).await {
            Assigned::Busy { verdict, in_flight } => {
                assert_eq!((verdict, in_flight[0].id.clone()), (expected, first.clone()));
            }
            other => panic!("{other:?}"),
        }
    }
    let overlap = Overlap::Replace;
    let second = org.given(Assign { overlap, ..task(&ada, "2", &["ben"]) }).await.remove(0);
    let replaced = org.task(&first).await;
    assert_eq!(
        (replaced.state, replaced.code.as_deref()),
        (TaskState::Cancelled, Some("replaced"))
    );
    let ben = org.next("ben").await;
    assert_eq!(ben.first.as_ref().unwrap().id, second.as_str());
    let young = org.give(Assign { overlap, ..task(&ada, "3", &["ben"]) }).await;
    assert!(matches!(young, Assigned::Busy { verdict: OverlapVerdict::Confirm, .. }), "{young:?}");
    let old = Assign { overlap, now: 700_000, ..task(&ada, "3", &["ben"]) };
    match org.give(old).await {
        Assigned::Given { turns, .. } => assert_eq!(turns[0].turn, ben.turn),
        other => panic!("{other:?}"),
    }
    // A late end of what was replaced is dropped.
    org.close(&ben, "too late").await;
    assert_eq!(org.task(&second).await.result.as_deref(), Some("Another task took its place."));
}

#[tokio::test]
async fn nobody_replaces_what_somebody_else_wanted() {
    let mut org = Org::new().await;
    let annas = org.asked("m").await;
    let first = org.given(task(&annas, "1", &["ben"])).await.remove(0);
    org.close(&annas, "given").await;
    let bobs = org.asked("n").await;
    org.raw("UPDATE items SET principal = 'bob' WHERE id = 'n'").await;
    let overlap = Overlap::Replace;
    match org.give(Assign { overlap, ..task(&bobs, "2", &["ben"]) }).await {
        Assigned::Busy { verdict, in_flight } => {
            assert_eq!((verdict, &in_flight[0].id), (OverlapVerdict::Confirm, &first));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(org.state(&first).await, TaskState::Open);
}

#[tokio::test]
async fn chains_end_at_their_limits_with_one_notice() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let few = ChainLimits { hops: 2, items: 3 };
    for call in ["1", "2", "3"] {
        org.given(Assign { limits: few, ..task(&ada, call, &["ben"]) }).await;
    }
    for call in ["4", "5"] {
        let over = org.give(Assign { limits: few, ..task(&ada, call, &["ben"]) }).await;
        assert_eq!(refused(&over), "chain_limit");
    }
    let notices = org.frames().await;
    let notices = notices.iter().filter(|frame| frame["code"] == "chain_limit").count();
    assert_eq!(notices, 1);
    let other = org.asked("n").await;
    org.given(Assign { limits: few, ..task(&other, "1", &["ben"]) }).await;
    org.raw("UPDATE items SET hops = 2 WHERE id = 'n'").await;
    let far = org.give(Assign { limits: few, ..task(&other, "2", &["ben"]) }).await;
    assert_eq!(refused(&far), "chain_limit");
}

#[tokio::test]
async fn what_goes_up_comes_back_to_whoever_asked() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let to_ben = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    org.close(&ada, "given").await;
    let ben = org.next("ben").await;
    let help = org.given(up(TaskKind::Escalate, &ben, "1")).await.remove(0);
    org.given(up(TaskKind::HandUp, &ben, "2")).await;
    org.close(&ben, "I asked").await;
    // An escalation keeps the task open, a hand-up does not.
    assert_eq!(org.task(&to_ben).await.open, 1);
    let ada = org.next("ada").await;
    assert_eq!((ada.cause.clone(), ada.session_key.as_str()), (Cause::Escalation, "talk-m"));
    org.close(&ada, "use the red one").await;
    let ben = org.next("ben").await;
    let handed = org.next("ada").await;
    assert_eq!(handed.session_key.as_str(), "task:m");
    org.close(&handed, "went on with it").await;
    let told = ben.first.as_ref().unwrap().body.plain_text();
    assert!(told.contains(&format!("task {help} | from ada")), "{told}");
    assert!(told.ends_with("use the red one"), "{told}");
    org.close(&ben, "red it is").await;
    assert_eq!(org.state(&to_ben).await, TaskState::Done);
    assert_eq!(org.next("ada").await.cause, Cause::Event);
    assert!(org.take().await.is_none(), "a hand-up tells nobody its end");
}

#[tokio::test]
async fn hand_ups_are_bounded_and_count_once() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    org.given(task(&ada, "1", &["ben"])).await;
    let ben = org.next("ben").await;
    let hand = |call: &str, body: &str, now| Assign {
        body: body.to_owned(),
        now,
        ..up(TaskKind::HandUp, &ben, call)
    };
    let first = org.given(hand("1", "same", 100)).await;
    assert_eq!(org.given(hand("2", "same", 200)).await, first);
    for call in 3..7 {
        org.given(hand(&call.to_string(), &format!("body {call}"), 300)).await;
    }
    assert_eq!(refused(&org.give(hand("7", "one more", 400)).await), "rate_limited");
    org.given(hand("8", "a minute later", 60_400)).await;
    let later = org.given(hand("9", "same", 300_101)).await;
    assert_ne!(later, first, "after five minutes it is another one");
}

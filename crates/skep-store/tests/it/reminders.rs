//! What agents say to themselves: later, or in the next turn.

use skep_core::cause::Cause;
use skep_core::ids::*;
use skep_core::task::TaskState;
use skep_store::assign::ChainLimits;
use skep_store::cancel::CancelTask;
use skep_store::expiry::{self, ExpireTasks};
use skep_store::leases::Lease;
use skep_store::reminders::{OWN_CHAIN, Remind, Reminded};
use skep_store::threads::{self, CancelThread, OpenThreads};
use skep_store::{Refusal, StoreError};

use crate::org::{LIMITS, Org, task};

fn remind(lease: &Lease, call: &str, at: Option<i64>) -> Remind {
    Remind {
        turn: lease.turn.clone(),
        call: CallId::new(call),
        id: ItemId(format!("{}-{call}", lease.turn)),
        body: format!("[event x]\nlook {call}"),
        at,
        limits: LIMITS,
        now: 11,
    }
}

impl Org {
    async fn remind(&self, remind: Remind) -> Result<ItemId, &'static str> {
        match self.store.write(remind).await.unwrap() {
            Reminded::Set { id } => Ok(id),
            Reminded::Refused { code, .. } => Err(code),
        }
    }

    async fn threads(&self, lease: &Lease) -> OpenThreads {
        let (agent, key) = (lease.agent, lease.session_key.clone());
        let read = self.store.read(async |conn| threads::of_session(conn, agent, &key).await);
        read.await.unwrap()
    }

    async fn cancel_thread(&self, lease: &Lease, id: &ItemId) -> Result<usize, StoreError> {
        let (agent, key, id) = (lease.agent, lease.session_key.clone(), id.clone());
        let cancelled = self.store.write(CancelThread { agent, key, id, now: 16 }).await?;
        Ok(cancelled.tasks)
    }
}

#[tokio::test]
async fn a_reminder_comes_in_time_once_and_its_turn_is_told() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let id = org.remind(remind(&ada, "1", Some(100))).await.unwrap();
    assert_eq!(org.remind(remind(&ada, "1", Some(100))).await, Ok(id.clone()));
    org.close(&ada, "I will look").await;
    assert_eq!(org.store.read(expiry::next_over).await.unwrap(), Some(100));
    assert!(!org.store.write(ExpireTasks { now: 99 }).await.unwrap().woke);
    assert!(org.store.write(ExpireTasks { now: 100 }).await.unwrap().woke);
    assert!(!org.store.write(ExpireTasks { now: 100 }).await.unwrap().woke);
    let again = org.next("ada").await;
    assert_eq!((again.cause.clone(), again.session_key.as_str()), (Cause::Reminder, "talk-m"));
    let body = org.texts("SELECT body FROM items WHERE kind = 'reminder'").await.remove(0);
    assert_eq!(body, format!("[reminder {id} | set 1970-01-01 00:00 UTC]\n> [event x]\nlook 1"));
    let place = org.texts("SELECT chain_root || ' ' || hops FROM items WHERE kind = 'reminder'");
    assert_eq!(place.await, ["m 1"]);
    org.close(&again, "I have looked").await;
    let frames = org.frames().await;
    let last = frames.last().unwrap();
    assert_eq!((&last["content"], &last["about"]), (&"I have looked".into(), &"m".into()));
}

#[tokio::test]
async fn one_that_is_far_away_begins_a_chain_and_keeps_who_is_behind_it() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let none = ChainLimits { hops: 0, items: 0 };
    let near = Remind { limits: none, ..remind(&ada, "1", Some(11 + OWN_CHAIN - 1)) };
    assert_eq!(org.remind(near).await, Err("chain_limit"));
    let far = Remind { limits: none, ..remind(&ada, "2", Some(11 + OWN_CHAIN)) };
    let id = org.remind(far).await.unwrap();
    org.close(&ada, "later").await;
    org.store.write(ExpireTasks { now: 11 + OWN_CHAIN }).await.unwrap();
    let again = org.next("ada").await;
    assert_eq!(again.requester.origin.principal, Principal::new("anna"));
    let place = org.texts("SELECT chain_root || ' ' || hops FROM items WHERE kind = 'reminder'");
    assert_eq!(place.await, [format!("{id} 0")]);
    org.close(&again, "now").await;
    assert_eq!(org.frames().await.last().unwrap()["content"], "now");
}

#[tokio::test]
async fn fifty_are_to_come_and_each_can_be_taken_back_where_it_was_set() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let mut ids = Vec::new();
    for number in 0..50 {
        ids.push(org.remind(remind(&ada, &number.to_string(), Some(100))).await.unwrap());
    }
    assert_eq!(org.remind(remind(&ada, "more", Some(100))).await, Err("rate_limited"));
    assert_eq!(org.threads(&ada).await.reminders.len(), 50);
    let other = org.asked("n").await;
    let strange = org.cancel_thread(&other, &ids[0]).await.unwrap_err();
    assert!(matches!(strange, StoreError::Refused(Refusal::NotFound { .. })));
    assert_eq!(org.cancel_thread(&ada, &ids[0]).await.unwrap(), 1);
    org.remind(remind(&ada, "more", Some(100))).await.unwrap();
    // Of an agent that is gone nothing comes.
    org.raw("UPDATE agents SET installed = 0 WHERE id = 1").await;
    org.store.write(ExpireTasks { now: 100 }).await.unwrap();
    assert_eq!(org.texts("SELECT id FROM items WHERE kind = 'reminder'").await, [""; 0]);
    assert_eq!(org.store.read(expiry::next_over).await.unwrap(), None);
}

#[tokio::test]
async fn a_task_is_open_until_the_turn_that_goes_on_with_it_has_ended() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let given = org.given(task(&ada, "t", &["ben"])).await.remove(0);
    org.close(&ada, "given").await;
    let ben = org.next("ben").await;
    org.remind(remind(&ben, "1", None)).await.unwrap();
    org.close(&ben, "half of it").await;
    assert_eq!(org.state(&given).await, TaskState::Open);
    let ben = org.next("ben").await;
    assert_eq!(ben.cause, Cause::Continue);
    org.remind(remind(&ben, "2", None)).await.unwrap();
    org.close(&ben, "more of it").await;
    let ben = org.next("ben").await;
    org.close(&ben, "all of it").await;
    assert_eq!(org.task(&given).await.result.as_deref(), Some("all of it"));
    // What is cancelled does not go on.
    let ada = org.next("ada").await;
    let given = org.given(task(&ada, "u", &["ben"])).await.remove(0);
    let ben = org.next("ben").await;
    org.remind(remind(&ben, "1", None)).await.unwrap();
    org.close(&ben, "half of it").await;
    org.store.write(CancelTask { item: given.clone(), now: 40 }).await.unwrap();
    org.close(&ada, "stopped").await;
    assert_eq!(org.next("ada").await.cause, Cause::Event);
    assert!(org.take().await.is_none());
}

#[tokio::test]
async fn turns_that_go_on_for_ever_are_stopped_with_one_notice() {
    let mut org = Org::new().await;
    let mut lease = org.asked("m").await;
    let limits = ChainLimits { hops: 5, items: 200 };
    let mut turns = 1;
    while org.remind(Remind { limits, ..remind(&lease, "1", None) }).await.is_ok() {
        org.close(&lease, "").await;
        lease = org.next("ada").await;
        turns += 1;
    }
    assert_eq!(turns, 6);
    let again = Remind { limits, ..remind(&lease, "2", Some(100)) };
    assert_eq!(org.remind(again).await, Err("chain_limit"));
    let frames = org.frames().await;
    assert_eq!(frames.iter().filter(|frame| frame["code"] == "chain_limit").count(), 1);
}

#[tokio::test]
async fn an_agent_sees_and_ends_what_it_has_begun_in_this_conversation() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let given = org.given(task(&ada, "t", &["ben"])).await.remove(0);
    let open = org.threads(&ada).await;
    assert_eq!((open.given.len(), open.given[0].agent.as_str()), (1, "ben"));
    let ben = org.next("ben").await;
    assert!(org.cancel_thread(&ben, &given).await.is_err(), "it was not ben who gave it");
    assert_eq!(org.cancel_thread(&ada, &given).await.unwrap(), 1);
    assert_eq!(org.cancel_thread(&ada, &given).await.unwrap(), 0, "after a crash");
    assert_eq!(org.state(&given).await, TaskState::Cancelled);
    assert_eq!(org.threads(&ada).await, OpenThreads::default());
}

//! What an agent that has none above it asks for: the operator answers, once.

use skep_core::ids::*;
use skep_core::question::GivenAnswer;
use skep_core::task::{TaskKind, TaskState};
use skep_store::assign::Assigned;
use skep_store::cancel::CancelTask;
use skep_store::expiry::{self, ExpireTasks};
use skep_store::questions::{self, AnswerTask, Answerer};

use crate::org::{Org, refused, task, up};

impl Org {
    pub async fn asked_of_operator(&self) -> Vec<(String, String)> {
        let read = self.store.read(async |conn| questions::of_operator(conn, 9).await);
        let rows = read.await.unwrap().into_iter();
        rows.map(|row| (row.from_agent.to_string(), row.text)).collect()
    }

    pub fn answer(&self, task: &ItemId, text: &str) -> AnswerTask {
        let (task, answer) = (task.clone(), GivenAnswer::words(text));
        let by = Answerer::Operator(Principal::new("operator"));
        AnswerTask { task, answer, by, now: 30 }
    }
}

#[tokio::test]
async fn the_operator_answers_a_root_once() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let asks = up(TaskKind::Escalate, &ada, "up");
    let asked = org.given(asks.clone()).await.remove(0);
    match org.give(asks).await {
        Assigned::Given { tasks, new, .. } => assert_eq!((tasks.len(), new), (1, false)),
        other => panic!("{other:?}"),
    }
    assert_eq!(org.asked_of_operator().await, [("ada".to_owned(), "work up".to_owned())]);
    org.close(&ada, "I have asked").await;
    assert!(org.take().await.is_none(), "nobody works at what the operator is asked");
    assert!(org.store.write(org.answer(&asked, "take the second")).await.unwrap());
    org.store.write(org.answer(&asked, "or the first")).await.unwrap_err();
    assert_eq!(org.asked_of_operator().await, []);
    let again = org.next("ada").await;
    assert_eq!(again.session_key, ada.session_key);
    let told = org.texts("SELECT body FROM items WHERE kind = 'event'").await;
    let told: Vec<&str> = told[0].lines().collect();
    assert!(told[0].ends_with("| from the operator | 0 s | 0 of 1 still open]"), "{told:?}");
    assert_eq!(told[1..], ["work up", "Answer:", "take the second"]);
    org.close(&again, "the second, then").await;
    let frames = org.frames().await;
    let contents: Vec<_> = frames.iter().filter_map(|frame| frame["content"].as_str()).collect();
    assert!(contents.contains(&"ada has asked the operator for help."), "{contents:?}");
    assert_eq!(contents.last(), Some(&"the second, then"));
    assert_eq!(org.task(&asked).await.state, TaskState::Done);
}

#[tokio::test]
async fn a_task_is_open_while_the_operator_is_asked_in_its_course() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let given = org.given(task(&ada, "1", &["ben"])).await.remove(0);
    org.close(&ada, "given").await;
    let ben = org.next("ben").await;
    let helps = org.given(up(TaskKind::Escalate, &ben, "up")).await.remove(0);
    org.close(&ben, "I wait").await;
    let ada = org.next("ada").await;
    let asked = org.given(up(TaskKind::Escalate, &ada, "up")).await.remove(0);
    org.close(&ada, "I do not know either").await;
    assert_eq!(org.state(&helps).await, TaskState::Open);
    org.store.write(org.answer(&asked, "yes")).await.unwrap();
    let ada = org.next("ada").await;
    org.close(&ada, "they say yes").await;
    assert_eq!(org.task(&helps).await.result.as_deref(), Some("they say yes"));
    let ben = org.next("ben").await;
    org.close(&ben, "done").await;
    assert_eq!(org.task(&given).await.result.as_deref(), Some("done"));
}

#[tokio::test]
async fn what_nobody_answers_fails_in_time_and_what_is_cancelled_is_withdrawn() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    let asked = org.given(up(TaskKind::Escalate, &ada, "up")).await.remove(0);
    org.close(&ada, "I have asked").await;
    assert_eq!(org.store.read(expiry::next_over).await.unwrap(), Some(1000));
    let over = org.store.write(ExpireTasks { now: 1000 }).await.unwrap();
    assert_eq!((over.tasks, over.woke), (1, true));
    assert_eq!(org.store.read(expiry::next_over).await.unwrap(), None);
    assert_eq!(org.task(&asked).await.code.as_deref(), Some("expired"));
    let ada = org.next("ada").await;
    org.close(&ada, "well").await;
    let ada = org.asked("n").await;
    let asked = org.given(up(TaskKind::Escalate, &ada, "up")).await.remove(0);
    org.store.write(CancelTask { item: asked.clone(), now: 40 }).await.unwrap();
    assert_eq!(org.state(&asked).await, TaskState::Cancelled);
    org.store.write(org.answer(&asked, "late")).await.unwrap_err();
}

#[tokio::test]
async fn one_agent_has_few_questions_open() {
    let mut org = Org::new().await;
    let ada = org.asked("m").await;
    for number in 0..50 {
        org.given(up(TaskKind::Escalate, &ada, &format!("up{number}"))).await;
    }
    let more = org.give(up(TaskKind::Escalate, &ada, "up")).await;
    assert_eq!(refused(&more), "rate_limited");
}

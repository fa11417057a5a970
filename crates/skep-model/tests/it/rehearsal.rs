use std::time::Duration;

use serde_json::json;
use skep_core::provider::{ModelError, ModelEvent};
use skep_model::RehearsalProvider;

use crate::rows::{call, follow, request, said, step, text, thinking, user};

async fn play(messages: Vec<std::sync::Arc<skep_core::message::Message>>) -> Vec<ModelEvent> {
    let (events, failure) = follow(&RehearsalProvider, request(messages)).await;
    assert_eq!(failure, None);
    events
}

#[tokio::test]
async fn a_plain_message_is_thought_about_read_for_and_answered() {
    let mut rows = vec![user("one", "hello there")];
    let events = play(rows.clone()).await;
    let read = call("rehearsal_0_0", "read", json!({"file_path": "welcome.md"}));
    assert_eq!(said(events.clone()), [thinking("I look at the welcome before I answer."), read]);
    assert_eq!(play(rows.clone()).await, events, "the same rows give the same answer");

    rows.extend(step("one", &events));
    // A message that arrives in the middle is answered by the same scene.
    rows.push(user("one", "and this"));
    let events = play(rows.clone()).await;
    let spoken = said(events.clone());
    let [ModelEvent::Text(reply)] = spoken.as_slice() else { panic!("no reply") };
    assert!(reply.contains("You said: hello there\n"), "{reply}");
    let Some(ModelEvent::End(meta)) = events.last() else { panic!("no end") };
    assert_eq!((meta.model.as_str(), meta.api.as_str()), ("rehearsal", "rehearsal"));

    rows.extend(step("one", &events));
    rows.push(user("two", "again"));
    let events = said(play(rows).await);
    // Ids stay unique in the session.
    assert_eq!(events[1], call("rehearsal_2_0", "read", json!({"file_path": "welcome.md"})));
}

#[tokio::test]
async fn without_the_read_tool_the_answer_comes_at_once() {
    let mut request = request(vec![user("one", "hello")]);
    request.tools = Vec::new().into();
    let (events, _) = follow(&RehearsalProvider, request).await;
    assert!(matches!(said(events).as_slice(), [ModelEvent::Text(_)]));
}

#[tokio::test]
async fn a_script_is_played_block_by_block() {
    let script = "#rehearsal\nthink a\nsay b\nsay c\ncall x {\"n\": 1}\ncall y\nnext\nsay end";
    let mut rows = vec![user("zero", "old"), user("one", script)];
    let events = play(rows.clone()).await;
    let expected = [
        thinking("a"),
        text("b\nc"),
        call("rehearsal_0_0", "x", json!({"n": 1})),
        call("rehearsal_0_1", "y", json!({})),
    ];
    assert_eq!(said(events.clone()), expected);
    rows.extend(step("one", &events));
    let events = play(rows.clone()).await;
    assert_eq!(said(events.clone()), [text("end")]);
    rows.extend(step("one", &events));
    assert_eq!(said(play(rows).await), [text("(the rehearsal script is over)")]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_takes_its_time() {
    let begun = tokio::time::Instant::now();
    play(vec![user("one", "#rehearsal\nsay a\nwait 1500\nsay b")]).await;
    assert_eq!(begun.elapsed(), Duration::from_millis(1500));
}

#[tokio::test]
async fn a_mistake_in_a_script_is_told() {
    let rows = vec![user("one", "#rehearsal\nsing")];
    let (events, failure) = follow(&RehearsalProvider, request(rows)).await;
    assert_eq!(events, []);
    let Some(ModelError::Rejected { text }) = failure else { panic!("{failure:?}") };
    assert!(text.contains("line 2"), "{text}");
}

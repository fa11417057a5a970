use std::time::Duration;

use serde_json::json;
use skep_core::cause::ItemKind;
use skep_core::message::Body;
use skep_core::provider::{ModelError, ModelEvent};
use skep_model::RehearsalProvider;

use crate::rows::{call, follow, item, request, said, step, text, thinking, user};

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

/// What the model says to these rows where these are the rules of the agent.
async fn play_by(
    rules: &str,
    rows: &[std::sync::Arc<skep_core::message::Message>],
) -> Vec<ModelEvent> {
    let mut request = request(rows.to_vec());
    request.system.agent = rules.into();
    let (events, failure) = follow(&RehearsalProvider, request).await;
    assert_eq!(failure, None);
    events
}

#[tokio::test]
async fn what_comes_later_is_answered_by_the_script_of_the_session() {
    let script = "#rehearsal\ncall x\nnext\nsay given\non event 0 of\nsay all\non event\nsay one";
    let mut rows = vec![user("one", script)];
    rows.extend(step("one", &play(rows.clone()).await));
    // Its own blocks go on, also when an ordinary message joins.
    rows.push(user("one", "and?"));
    assert_eq!(said(play(rows.clone()).await), [text("given")]);
    // An event that joins is answered.
    rows.push(item("one", ItemKind::Event, "[event task_done | 1 of 2 still open]"));
    let events = play(rows.clone()).await;
    assert_eq!(said(events.clone()), [text("one")]);
    rows.extend(step("one", &events));
    rows.push(item("two", ItemKind::Event, "[event task_done | 0 of 2 still open]"));
    assert_eq!(said(play(rows.clone()).await), [text("all")]);
    // A newer script goes first.
    rows.insert(1, user("one", "#rehearsal\non event\nsay newer"));
    assert_eq!(said(play(rows).await), [text("newer")]);
}

#[tokio::test]
async fn rules_have_scripts_for_what_agents_give_each_other() {
    let rules = "# Rules for you and those below you\n\n```\n#rehearsal\non task\nsay above\n\
                 on bootstrap\nsay begun\n```\n\n# Rules for you\n\n```\n#rehearsal\n\
                 on task print\ncall print {\"what\": \"{{message}}\"}\nnext\nsay printed\n```";
    let mut rows = vec![item("one", ItemKind::Task, "print it")];
    let events = play_by(rules, &rows).await;
    let print = call("rehearsal_0_0", "print", json!({"what": "print it"}));
    assert_eq!(said(events.clone()), [print]);
    rows.extend(step("one", &events));
    assert_eq!(said(play_by(rules, &rows).await), [text("printed")]);
    // What the own rules do not know the rules above do.
    for (kind, what, expected) in
        [(ItemKind::Task, "read it", "above"), (ItemKind::Bootstrap, "You are new here.", "begun")]
    {
        let rows = [item("two", kind, what)];
        assert_eq!(said(play_by(rules, &rows).await), [text(expected)]);
    }
    // The task may be a script itself; what nobody has a section for is answered as ever.
    let own = [item("two", ItemKind::Task, "#rehearsal\nsay mine")];
    assert_eq!(said(play_by(rules, &own).await), [text("mine")]);
    let peer = [item("two", ItemKind::Peer, "hello")];
    let read = call("rehearsal_0_0", "read", json!({"file_path": "welcome.md"}));
    assert_eq!(said(play_by(rules, &peer).await).last(), Some(&read));
}

/// A call's result in place of the one that `step` made up.
fn answered(rows: &mut [std::sync::Arc<skep_core::message::Message>], text: &str, error: bool) {
    let last = std::sync::Arc::make_mut(rows.last_mut().unwrap());
    let call = last.body.tool_call_id.clone().unwrap();
    last.body = Body::tool_result(call, "x", text.to_owned(), error);
}

#[tokio::test]
async fn a_block_says_what_the_calls_before_it_answered() {
    let script = "#rehearsal\ncall x\nnext\nelse not done: {{answers}}\nsay done: {{answers}}";
    let begun = vec![user("one", script)];
    let events = play(begun.clone()).await;
    let cases = [
        ("it is 42", false, "done: it is 42"),
        ("denied", true, "not done: denied"),
        ("{\"success\":true,\"answer\":\"blue\"}", false, "done: blue"),
        (
            "{\"success\":false,\"error\":\"provider_auth\",\"reason\":\"No key.\"}",
            false,
            "not done: No key. (provider_auth)",
        ),
        // What is put in stays as it is.
        ("{{answers}}", true, "not done: {{answers}}"),
    ];
    for (answer, error, expected) in cases {
        let mut rows = begun.clone();
        rows.extend(step("one", &events));
        answered(&mut rows, answer, error);
        assert_eq!(said(play(rows).await), [text(expected)], "{answer}");
    }
    // Of several those that failed.
    let mut rows = vec![user("one", &script.replacen("call x", "call x\ncall x", 1))];
    rows.extend(step("one", &play(rows.clone()).await));
    answered(&mut rows, "denied", true);
    assert_eq!(said(play(rows).await), [text("not done: denied")]);
}

#[tokio::test]
async fn a_mistake_in_rules_is_told_where_they_are_needed() {
    let mut request = request(vec![item("one", ItemKind::Task, "x")]);
    request.system.agent = "#rehearsal\nsing".into();
    let (_, failure) = follow(&RehearsalProvider, request).await;
    let Some(ModelError::Rejected { text }) = failure else { panic!("{failure:?}") };
    assert!(text.contains("line 2"), "{text}");
}

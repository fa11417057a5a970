#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};

use super::fake_hive::{Answer, FakeHive};
use crate::{Exit, Failure};

fn receipt() -> Answer {
    Answer::Json(
        202,
        json!({
            "message_id": "m-1", "item_id": "i-1", "agent": "main", "session_key": "main",
            "state": "started"
        }),
    )
}

fn done() -> Answer {
    let response = json!({ "content": "hi", "in_reply_to": ["m-1"] });
    Answer::Json(200, json!({ "message_id": "m-1", "state": "done", "response": response }))
}

fn problem(status: u16, code: &str) -> Answer {
    Answer::Json(status, json!({ "status": status, "code": code, "detail": "it is so" }))
}

fn lines(hive: &FakeHive) -> Vec<String> {
    hive.requests().into_iter().map(|request| request.line).collect()
}

const POST: &str = "POST /api/v1/agents/main/messages";
const FOLLOW: &str = "GET /api/v1/agents/main/messages/i-1?wait=true&timeout=120";

#[tokio::test]
async fn a_message_is_handed_over_once_and_followed_to_its_end() {
    let running = Answer::Json(200, json!({ "message_id": "m-1", "state": "running" }));
    let answers = vec![receipt(), problem(504, "wait_timeout"), running, done()];
    let hive = FakeHive::start(answers);
    hive.skep(&["send", "main", "hello", "--wait", "--session", "s 1"]).await.unwrap();
    let requests = hive.requests();
    let lines: Vec<&str> = requests.iter().map(|request| request.line.as_str()).collect();
    assert_eq!(lines, [POST, FOLLOW, FOLLOW, FOLLOW]);
    assert_eq!(requests[0].body, json!({ "message": "hello", "session_key": "s 1" }));
    assert_eq!(requests[0].header("idempotency-key").unwrap().len(), 36);
}

#[tokio::test]
async fn a_hive_that_goes_away_is_asked_again_with_the_same_key() {
    let hive = FakeHive::start(vec![
        Answer::Cut,
        problem(503, "store_unsynced"),
        receipt(),
        Answer::Cut,
        problem(503, "stopping"),
        done(),
    ]);
    hive.skep(&["send", "main", "hello", "--wait"]).await.unwrap();
    let requests = hive.requests();
    let lines: Vec<&str> = requests.iter().map(|request| request.line.as_str()).collect();
    assert_eq!(lines, [POST, POST, POST, FOLLOW, FOLLOW, FOLLOW]);
    let key = |index: usize| requests[index].header("idempotency-key").unwrap();
    assert_eq!((key(1), key(2)), (key(0), key(0)));
}

#[tokio::test]
async fn a_hive_that_stays_away_is_given_up_with_the_id() {
    let hive = FakeHive::start(vec![receipt()]);
    let sent = hive.skep(&["send", "main", "hello", "--wait", "--id", "key-9"]).await;
    let failure = sent.unwrap_err();
    assert_eq!(failure.exit, Exit::Failed);
    assert!(failure.why.contains("did not come back within 30 s"), "{failure}");
    assert!(failure.why.contains("key-9"), "{failure}");
    assert_eq!(lines(&hive), [POST]);
}

#[tokio::test]
async fn a_failed_turn_is_a_failed_command() {
    for state in ["failed", "cancelled", "dead"] {
        let error = json!({ "code": "provider_auth", "error": "the key is wrong" });
        let ended = json!({ "message_id": "m-1", "state": state, "error": error });
        let hive = FakeHive::start(vec![receipt(), Answer::Json(200, ended)]);
        let failure = hive.skep(&["send", "main", "hello", "--wait"]).await.unwrap_err();
        assert_eq!(failure.exit, Exit::Failed, "{state}");
        assert_eq!(failure.why, "the key is wrong (provider_auth)");
    }
}

#[tokio::test]
async fn without_waiting_nothing_is_repeated() {
    let hive = FakeHive::start(vec![receipt()]);
    hive.skep(&["send", "main", "hello", "--id", "k"]).await.unwrap();
    assert_eq!(lines(&hive), [POST]);
    let hive = FakeHive::start(vec![Answer::Cut]);
    let failure = hive.skep(&["send", "main", "hello", "--id", "k"]).await.unwrap_err();
    assert!(failure.why.contains("whether the message was accepted is not known"), "{failure}");
    assert!(failure.next.unwrap().contains("--id k"));
    assert_eq!(lines(&hive), [POST]);
}

#[tokio::test]
async fn a_refused_message_is_not_repeated() {
    let cases = [
        (409, "id_reused", Exit::Failed),
        (404, "unknown_agent", Exit::Failed),
        (507, "disk_full", Exit::Failed),
        (403, "forbidden", Exit::Refused),
    ];
    for (status, code, exit) in cases {
        let hive = FakeHive::start(vec![problem(status, code)]);
        let failure = hive.skep(&["send", "main", "hello", "--wait"]).await.unwrap_err();
        assert_eq!((failure.exit, failure.why), (exit, format!("it is so ({code})")));
        assert_eq!(lines(&hive), [POST]);
    }
}

#[tokio::test]
async fn without_a_hive_the_failure_names_the_command_that_starts_it() {
    let hive = FakeHive::start(vec![]);
    tokio::task::yield_now().await;
    for arguments in [["send", "main", "hi", "--wait"].as_slice(), &["status"]] {
        let Failure { exit, next, .. } = hive.skep(arguments).await.unwrap_err();
        assert_eq!((exit, next.as_deref()), (Exit::Failed, Some("skep up")), "{arguments:?}");
    }
}

#[tokio::test]
async fn streaming_shows_what_comes_of_the_message_it_sends() {
    let events = "event: ack\ndata: {\"message_id\":\"m-1\",\"item_id\":\"i-1\"}\n\n\
        event: delta\n\
        data: {\"turn\":\"t\",\"token\":1,\"call\":1,\"part\":\"text\",\"text\":\"h\"}\n\n\
        event: delta\n\
        data: {\"turn\":\"t\",\"token\":1,\"call\":1,\"part\":\"text\",\"text\":\"i\"}\n\n\
        event: response\ndata: {\"message_id\":\"m-1\",\"state\":\"done\"}\n\n";
    let hive = FakeHive::start(vec![Answer::Cut, Answer::Events(events), done()]);
    hive.skep(&["send", "main", "hello", "--stream"]).await.unwrap();
    let requests = hive.requests();
    let lines: Vec<&str> = requests.iter().map(|request| request.line.as_str()).collect();
    let post = "POST /api/v1/agents/main/messages?stream=true";
    assert_eq!(lines, [post, post, FOLLOW]);
    let key = |index: usize| requests[index].header("idempotency-key").unwrap();
    assert_eq!(key(0), key(1));
}

#[tokio::test]
async fn down_asks_and_waits_until_nobody_answers() {
    let health = || Answer::Json(200, json!({ "status": "ok" }));
    let stopping = Answer::Json(202, json!({ "state": "stopping" }));
    let hive = FakeHive::start(vec![stopping, health(), health()]);
    hive.skep(&["down"]).await.unwrap();
    assert_eq!(lines(&hive), ["POST /api/v1/shutdown", "GET /health", "GET /health"]);
}

#[tokio::test]
async fn history_asks_for_what_was_named() {
    let page = |session: Value| {
        Answer::Json(200, json!({ "messages": [], "session": session, "view": "full" }))
    };
    let breaks = Answer::Json(200, json!({ "cache_breaks": [] }));
    let hive = FakeHive::start(vec![page("s".into()), breaks]);
    let command = "history show main --session a/b --view full --limit 3 --before 9";
    hive.skep(&command.split(' ').collect::<Vec<_>>()).await.unwrap();
    let line = "GET /api/v1/agents/main/history?session_key=a%2Fb&view=full&limit=3&before=9";
    assert_eq!(lines(&hive).first().map(String::as_str), Some(line));

    // Not a key: the beginning of an id, or nothing at all.
    let id = "01a1e526-2c7b-7a31-8b1c-5a4f7e2d9c01";
    let list = || Answer::Json(200, json!({ "sessions": [{ "id": id }] }));
    let none = || page(Value::Null);
    let hive = FakeHive::start(vec![none(), none(), list(), page(id.into())]);
    hive.skep(&["history", "show", "main", "--session", "01a1e5"]).await.unwrap();
    let last = format!("GET /api/v1/agents/main/history?session={id}&view=simple&limit=50");
    assert_eq!(lines(&hive).last(), Some(&last));
    let hive = FakeHive::start(vec![none(), none(), list()]);
    let failure = hive.skep(&["history", "show", "main", "--session", "typo"]).await.unwrap_err();
    let said = (failure.exit, failure.next.as_deref());
    assert_eq!(said, (Exit::Failed, Some("skep session list main")), "{failure}");
}

/// The beginning of an id that meant another approval, or is a slip, decides nothing.
#[tokio::test]
async fn a_beginning_that_decided_approvals_have_too_approves_nothing() {
    let page = |id: &str| Answer::Json(200, json!({"approvals": [{"id": id}]}));
    let (waits, decided) = ("01a1e3d9-9abc-waits", "01a1e3d9-9def-decided");
    let hive = FakeHive::start(vec![page(waits), page(decided), page("ffff")]);
    let refused = hive.skep(&["approve", "01a1e3d9-9"]).await.unwrap_err().to_string();
    assert!(refused.contains("2 ids begin with 01a1e3d9-9"), "{refused}");
    let asked: Vec<String> = hive.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked.iter().all(|line| line.starts_with("GET /api/v1/approvals?state=")), "{asked:?}");
    let slip = FakeHive::start(vec![page(waits)]);
    let refused = slip.skep(&["approve", "0"]).await.unwrap_err().to_string();
    assert!(refused.contains("give 8 characters of the id or more"), "{refused}");
    assert!(slip.requests().is_empty(), "nothing was asked");
}

//! The organisation without a key: every word of every agent comes from rehearsal scripts.

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::locate;
use skep_testkit::wait::{self, PATIENCE};

use crate::stage::{Play, Stage};

/// What `main` says, from the message of a person to the last result.
const MAIN: &str = "#rehearsal
call delegate_task {\"team\": \"research\", \"task\": \"find the colour\"}
call delegate_task {\"team\": \"press\", \"task\": \"print it\"}
next
say They work at it.
on question
call escalate {\"message\": \"{{message}}\"}
next
say I have asked the operator.
on event from the operator
say {{result}}
on event 0 of 3 still open
say All is done: {{result}}
on event
say They work at it.";

const RESEARCH: &str = "Look twice.

```
#rehearsal
on task
call escalate {\"message\": \"Which colour?\"}
next
say I have asked.
on event
say The colour is {{result}}.
```
";

const PRESS: &str = "```\n#rehearsal\non task\nsay Printed: {{message}}\n```\n";

/// `main` leads `research` and `press`; nobody has a model but the built-in one.
async fn without_key(stage: &Stage) -> Play {
    stage.take_out("teams/plain");
    stage.write("providers.yaml", "profiles:\n  default: {provider: rehearsal}\n");
    for (agent, rules) in [("research", RESEARCH), ("press", PRESS)] {
        let settings = "parent: main\nallowed_tools: ['*']\n";
        stage.write(&format!("teams/{agent}/config.yaml"), settings);
        stage.write(&format!("teams/{agent}/team-rules/rehearsal.md"), rules);
    }
    stage.run(Start::up(&locate::skep().unwrap(), stage.home())).await
}

async fn questions(play: &Play) -> Vec<Value> {
    let listed = play.api().get("/api/v1/questions").await.unwrap().good().unwrap();
    listed["questions"].as_array().unwrap().clone()
}

#[tokio::test]
async fn org_rehearsal_delegates_escalates_and_answers_once() {
    let stage = Stage::new().await;
    let play = without_key(&stage).await;
    let mut client = play.ws().await;
    client.say("m1", MAIN).await.unwrap();
    assert_eq!(client.answer_to("m1").await.unwrap()["content"], "They work at it.");
    // One team is done, the other one's question has gone all the way up.
    let printed = |frame: &Value| frame["team"] == "press" && frame["status"] == "task_done";
    while !client.durable().values().any(printed) {
        client.next().await.unwrap().unwrap();
    }
    let asked = wait::until_async("a question to the operator", PATIENCE, || async {
        questions(&play).await.pop()
    });
    let asked = asked.await.unwrap();
    assert_eq!(
        (&asked["agent"], &asked["text"]),
        (&json!("main"), &json!("Which colour?")),
        "{asked}"
    );
    let path = format!("/api/v1/questions/{}/answer", asked["id"].as_str().unwrap());
    play.api().post(&path, &json!({"answer": "blue"})).await.unwrap().good().unwrap();
    let last = client.find("the last word", |frame| frame["about"] == "m1").await.unwrap();
    assert_eq!(last["content"], "All is done: The colour is blue.");
    let of_message = client.durable().values().filter(|frame| frame["about"] == "m1");
    assert_eq!(of_message.count(), 1);
    assert_eq!(questions(&play).await, Vec::<Value>::new());
    // Nobody but the scripts has said anything.
    assert_eq!(stage.model.requests().len(), 0);
    let chain = format!("/api/v1/inbox/{}", last["root"].as_str().unwrap());
    let chain = play.api().get(&chain).await.unwrap().good().unwrap();
    let mut ended: Vec<String> = chain["chain"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| {
            let word = |key: &str| task[key].as_str().unwrap_or_default();
            format!("{} → {}: {} {}", word("from"), word("agent"), word("state"), word("result"))
        })
        .collect();
    ended.sort();
    let expected = [
        "main → operator: done blue",
        "main → press: done Printed: print it",
        "main → research: done The colour is blue.",
        "research → main: done blue",
    ];
    assert_eq!(ended, expected, "{chain}");
}

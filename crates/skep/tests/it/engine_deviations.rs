//! A sample of what servers send that is not their wire, through the whole program: what has one
//! meaning is answered, what is not JSON goes back to the model, nothing unfinished runs, and an
//! empty answer is never called done.

use std::collections::HashMap;
use std::sync::Mutex;

use futures_util::future::join_all;
use skep_testkit::Reply;
use skep_testkit::deviations;
use skep_testkit::model::Wire;

use crate::stage::Stage;
use crate::telling::lines;

/// What a row leads to.
enum Leads {
    /// The answer at once.
    Hello,
    /// The tool ran once, and the model heard of it.
    Ran,
    /// The model heard that its arguments are none.
    Told,
    /// The vendor was asked again, and nothing was left of the first answer.
    AskedAgain,
}
use Leads::{AskedAgain, Hello, Ran, Told};

const CHAT: &[(&str, Leads)] = &[
    ("no [DONE]", Hello),
    ("no line end after the last event", Hello),
    ("choices null", Hello),
    ("content as parts", Hello),
    ("events called application/json", Hello),
    ("one document instead of a stream", Hello),
    ("call without an id", Ran),
    ("id late", Ran),
    ("finish_reason stays null, call with whole arguments", Ran),
    ("arguments are no JSON", Told),
    ("arguments are half, and the end is told", Told),
    ("arguments are two objects", Told),
    ("cut inside arguments", AskedAgain),
    ("neither a reason nor [DONE], whole call", AskedAgain),
    ("finish_reason stays null, call without arguments: nobody told its end", AskedAgain),
    ("only [DONE]", AskedAgain),
];
const ANTHROPIC: &[(&str, Leads)] = &[
    ("no message_stop", Hello),
    ("stop_reason null", Hello),
    ("no content_block_start for text", Hello),
    ("events with their type only in their name", Hello),
    ("no content_block_stop", Ran),
    ("arguments are no JSON", Told),
    ("cut inside arguments", AskedAgain),
    ("neither a reason nor message_stop, whole call", AskedAgain),
    ("only message_stop", AskedAgain),
];
const RESPONSES: &[(&str, Leads)] = &[
    ("no response.created", Hello),
    ("only text and the end", Hello),
    ("no end but [DONE]", Hello),
    ("a call that was not done, whole arguments", Ran),
    ("arguments are no JSON", Told),
    ("cut inside arguments", AskedAgain),
    ("no end, whole call", AskedAgain),
    ("an end without an answer", AskedAgain),
];

async fn stage(provider: &str, path: &str) -> Stage {
    let stage = Stage::new().await;
    let text = std::fs::read_to_string(stage.home().join("providers.yaml")).unwrap();
    let url = stage.model.base_url();
    let text = text.replace("provider: anthropic", &format!("provider: {provider}"));
    stage.write("providers.yaml", &text.replace(&url, &format!("{url}{path}")));
    stage.write("teams/main/work/x", "what stands in x");
    stage
}

async fn play(wire: Wire, stage: Stage, sample: &'static [(&str, Leads)]) {
    let asked: Mutex<HashMap<String, usize>> = Mutex::default();
    stage.model.answer_with(move |request| {
        let text = request.last_user_text();
        let name = text.lines().last().unwrap_or_default().to_owned();
        let mut asked = asked.lock().unwrap();
        let count = asked.entry(name.clone()).or_default();
        *count += 1;
        let row = deviations::find(wire, &name);
        if *count == 1 { row.reply() } else { Reply::say("after all") }
    });
    let play = stage.up().await;
    let (play, stage) = (&play, &stage);
    join_all(sample.iter().enumerate().map(|(number, (name, leads))| async move {
        let session = format!("s{number}");
        let item = play.item("main", &session, name).await;
        let ended = play.ended("main", &item).await;
        let told = lines(&play.history("main", &session).await);
        let answer = &ended["response"]["content"];
        let [user, .., last] = told.as_slice() else { panic!("{name}: {told:?}") };
        assert_eq!(*user, format!("user {name}"));
        assert!(last.starts_with("assistant end_turn: "), "{name}: {told:?}");
        match leads {
            Hello => {
                assert_eq!(answer, "hello", "{name}: {ended}");
                assert_eq!(told.len(), 2, "{name}: {told:?}");
                return;
            }
            Ran => assert!(told[2].contains("what stands in x"), "{name}: {told:?}"),
            Told => {
                assert!(told[2].starts_with("result! read: bad_arguments: "), "{name}: {told:?}");
                assert!(told[2].contains("not a JSON object"), "{name}: {told:?}");
            }
            AskedAgain => assert_eq!(told.len(), 2, "{name}: {told:?}"),
        }
        assert_eq!(answer, "after all", "{name}: {ended}");
    }))
    .await;
    assert_eq!(stage.model.refusals(), Vec::<String>::new(), "a call goes back as vendors take it");
}

#[tokio::test]
async fn engine_deviations_of_chat_completions() {
    play(Wire::OpenAiChat, stage("openai", "/v1").await, CHAT).await;
}

#[tokio::test]
async fn engine_deviations_of_anthropic() {
    play(Wire::Anthropic, stage("anthropic", "").await, ANTHROPIC).await;
}

#[tokio::test]
async fn engine_deviations_of_responses() {
    play(Wire::OpenAiResponses, stage("openai-responses", "/v1").await, RESPONSES).await;
}

/// Every try says nothing: the turn fails, and says why.
#[tokio::test]
async fn engine_deviations_that_say_nothing_are_never_done() {
    let stage = stage("openai", "/v1").await;
    stage.write("skep.yaml", "limits:\n  attempts: 1\n");
    stage.model.answer_with(|_| Reply::new().thinking("hm"));
    let play = stage.up().await;
    let item = play.item("main", "main", "hi").await;
    let ended = play.ended("main", &item).await;
    assert_eq!(ended["state"], "failed", "{ended}");
    assert_eq!(ended["error"]["code"], "provider_unavailable", "{ended}");
    assert!(ended["error"]["error"].as_str().unwrap().contains("empty"), "{ended}");
    assert_eq!(stage.model.requests().len(), 4);
}

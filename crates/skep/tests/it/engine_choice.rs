//! `/model` and `/think`: chosen for a conversation, in force from its next turn on.

use serde_json::{Value, json};
use skep_testkit::model::Reply;
use skep_testkit::wait::PATIENCE;

use crate::stage::{Play, Stage};

/// `default` and `fast` on the scripted model, told apart by the model's name.
async fn stage() -> Stage {
    let stage = Stage::new().await;
    let url = stage.model.base_url();
    let profile = |name: &str, model: &str| {
        format!(
            "  {name}:\n    provider: anthropic\n    model: {model}\n    api_url: {url}\n    \
             api_key: ${{RIG_KEY}}\n    max_output_tokens: 32000\n"
        )
    };
    let file = format!("profiles:\n{}{}", profile("default", "large"), profile("fast", "small"));
    stage.write("providers.yaml", &file);
    stage
}

async fn command(play: &Play, text: &str) -> Value {
    let answer = play.ask("main", text).await;
    match answer["response"]["content"].as_str() {
        Some(said) => said.into(),
        None => json!({"code": answer["error"]["code"], "error": answer["error"]["error"]}),
    }
}

/// The model and the thinking budget of the newest request.
fn asked(stage: &Stage) -> (String, Value) {
    let body = stage.model.requests().pop().unwrap().body;
    (body["model"].as_str().unwrap().to_owned(), body["thinking"]["budget_tokens"].clone())
}

#[tokio::test]
async fn engine_model_and_think_hold_from_the_next_turn_on_and_after_a_restart() {
    let stage = stage().await;
    stage.model.answer_with(|_| Reply::say("yes"));
    let mut play = stage.up().await;
    play.ask("main", "one").await;
    assert_eq!(asked(&stage), ("large".to_owned(), Value::Null));

    let said = command(&play, "/model fast").await;
    assert_eq!(said, "From the next turn on: anthropic small (profile fast).");
    let said = command(&play, "/think low").await;
    assert_eq!(said, "From the next turn on: thinking low.");
    play.ask("main", "two").await;
    assert_eq!(asked(&stage), ("small".to_owned(), json!(2048)));

    // A new session and a new process change nothing; another conversation has its own choice.
    command(&play, "/new").await;
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    play.ask("main", "three").await;
    assert_eq!(asked(&stage), ("small".to_owned(), json!(2048)));
    let other = play.tell("main", "other", "four").await;
    play.ended("main", other["item_id"].as_str().unwrap()).await;
    assert_eq!(asked(&stage), ("large".to_owned(), Value::Null));

    // One message may ask for more.
    let body = json!({"message": "five", "think": "high"});
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    play.api().post(path, &body).await.unwrap().good().unwrap();
    assert_eq!(asked(&stage), ("small".to_owned(), json!(24_576)));
    play.ask("main", "six").await;
    assert_eq!(asked(&stage), ("small".to_owned(), json!(2048)));

    command(&play, "/model anthropic:huge").await;
    command(&play, "/think off").await;
    play.ask("main", "seven").await;
    assert_eq!(asked(&stage), ("huge".to_owned(), Value::Null));
    let status = command(&play, "/status").await;
    let expected = "Status\n\
                    \x20 agent         main\n\
                    \x20 conversation  main\n\
                    \x20 turn          none\n\
                    \x20 queued        0 messages\n\
                    \x20 model         anthropic huge (profile default) (chosen here), \
                    thinking off\n\
                    \x20 hive's model  anthropic large (profile default of providers.yaml)\n\
                    \x20 today         $0 and calls of unknown price\n\
                    \x20 store         ok";
    assert_eq!(status, expected);

    command(&play, "/model default").await;
    command(&play, "/think default").await;
    play.ask("main", "eight").await;
    assert_eq!(asked(&stage), ("large".to_owned(), Value::Null));
}

#[tokio::test]
async fn engine_a_choice_that_is_not_there_names_what_is() {
    let stage = stage().await;
    stage.model.answer_with(|_| Reply::say("yes"));
    let mut play = stage.up().await;
    let cases = [
        ("/model fsat", "unknown_model", "Did you mean `fast`?"),
        ("/model openai:gpt", "unknown_model", "No profile uses the provider `openai`"),
        ("/think hihg", "unknown_level", "Did you mean `high`?"),
        ("/modle fast", "unknown_command", "/model [name]"),
    ];
    for (text, code, part) in cases {
        let said = command(&play, text).await;
        assert_eq!(said["code"], code, "{text}");
        assert!(said["error"].as_str().unwrap().contains(part), "{text}: {said}");
    }
    let said = command(&play, "/model").await;
    let expected = "Model\n\
                    \x20 now      anthropic large (profile default)\n\
                    \x20 default  anthropic large, the agent's own\n\
                    \x20 fast     anthropic small\n\
                    /model NAME changes it from the next turn. PROVIDER:MODEL names another model \
                    of one of these providers, default the agent's own.";
    assert_eq!(said, expected);
    let said = command(&play, "/think").await;
    let expected = "Thinking\n\
                    \x20 now     thinking as the profile says (the agent's own)\n\
                    \x20 levels  off, low, medium, high, default\n\
                    /think LEVEL changes it from the next turn.";
    assert_eq!(said, expected);

    // A profile that goes away is not replaced by another one.
    command(&play, "/model fast").await;
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();
    let file = std::fs::read_to_string(stage.home().join("providers.yaml")).unwrap();
    stage.write("providers.yaml", &file.replace("  fast:", "  slow:"));
    let play = stage.up().await;
    let answer = play.ask("main", "hello").await;
    assert_eq!(answer["error"]["code"], "agent_unavailable");
    let text = answer["error"]["error"].as_str().unwrap();
    assert!(text.contains("There is no profile `fast`"), "{text}");
    assert!(text.contains("send `/model default`"), "{text}");
    command(&play, "/model default").await;
    assert_eq!(play.ask("main", "hello").await["response"]["content"], "yes");
}

#[tokio::test]
async fn engine_commands_are_listed_for_completion() {
    let stage = stage().await;
    let play = stage.up().await;
    let listed = play.api().get("/api/v1/commands").await.unwrap().good().unwrap();
    let names: Vec<&str> = listed["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    let help = command(&play, "/help").await;
    for name in &names {
        assert!(help.as_str().unwrap().contains(&format!("{name} ")), "{name}");
    }
    assert!(names.contains(&"/model") && names.contains(&"/think"), "{names:?}");
}

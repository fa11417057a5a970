//! Vendors that do not count, or count what cannot be: limits hold all the same.

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::model::Usage;

use crate::stage::{Play, Stage};

/// A cent for each token of an answer, of which there are a hundred at the most.
async fn stage(limits: &str) -> Stage {
    let stage = Stage::new().await;
    let profile = format!(
        "profiles:\n  default:\n    provider: anthropic\n    model: scripted\n    api_url: {}\n    \
         api_key: ${{RIG_KEY}}\n    max_output_tokens: 100\n    \
         price: {{input: 0, output: 10000, cache_read: 0, cache_write: 0}}\n",
        stage.model.base_url()
    );
    stage.write("providers.yaml", &profile);
    stage.write("skep.yaml", &format!("limits: {limits}\n"));
    stage
}

async fn hive(play: &Play) -> Value {
    let told = play.api().get("/api/v1/budgets").await.unwrap().good().unwrap();
    told["hive"].clone()
}

const NOTHING: Usage = Usage {
    input_tokens: Some(0),
    output_tokens: Some(0),
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
};

async fn again(stage: &Stage, mut play: Play) -> Play {
    play.hive.terminate().unwrap();
    play.hive.wait(skep_testkit::wait::PATIENCE).await.unwrap();
    stage.up().await
}

/// What a vendor does not count is counted here, against the limit, and after a restart too.
#[tokio::test]
async fn attack_a_vendor_that_counts_nothing_does_not_make_calls_free() {
    let stage = stage("{cost_per_day: 2}").await;
    let words = "eleven words of an answer that nobody but us counts ".repeat(4);
    stage.model.answer_with(move |_| Reply::say(&words).usage(NOTHING));
    let mut play = stage.up().await;
    let mut answered = 0;
    let refused = loop {
        let ended = play.ask("main", "go").await;
        if ended["state"] != "done" {
            break ended;
        }
        answered += 1;
        assert!(answered < 10, "the limit was never reached: {}", hive(&play).await);
    };
    assert_eq!(refused["error"]["code"], "limit_cost", "{refused}");
    let told = hive(&play).await;
    assert!(told["unsettled_cost"].as_f64().unwrap() > 1.0, "{told}");
    assert_eq!((&told["cost"], &told["held_calls"]), (&json!(0.0), &json!(0)), "{told}");
    play.hive.terminate().unwrap();
    play.hive.wait(skep_testkit::wait::PATIENCE).await.unwrap();
    let play = stage.up().await;
    assert_eq!(hive(&play).await["unsettled_cost"], told["unsettled_cost"]);
    assert_eq!(play.ask("main", "go").await["error"]["code"], "limit_cost");
}

/// A count that cannot be ends the day's money; it turns no sum round.
#[tokio::test]
async fn attack_a_vendor_that_counts_too_much_overdraws_once() {
    let stage = stage("{cost_per_day: 2}").await;
    let most = Usage { output_tokens: Some(u64::MAX), ..NOTHING };
    stage.model.answer_with(move |_| Reply::say("yes").usage(most));
    let play = stage.up().await;
    assert_eq!(play.ask("main", "go").await["state"], "done");
    for _ in 0..3 {
        assert_eq!(play.ask("main", "go").await["error"]["code"], "limit_cost");
    }
    assert_eq!(stage.model.requests().len(), 1);
    let told = hive(&play).await;
    assert!(told["cost"].as_f64().unwrap() > 2.0 && told["held_calls"] == 0, "{told}");
}

/// A hundred turns at once, with money for three calls: three are made, whatever each one says.
#[tokio::test]
async fn attack_a_hundred_turns_at_once_stay_within_a_limit() {
    let stage = stage("{cost_per_day: 3, concurrent_turns: 200}").await;
    let full = Usage { output_tokens: Some(100), ..NOTHING };
    stage.model.answer_with(move |_| Reply::say("yes").usage(full));
    let play = stage.up().await;
    let mut items = Vec::new();
    for number in 0..100 {
        items.push(play.item("main", &format!("s{number}"), "go").await);
    }
    let mut done = 0;
    for item in &items {
        done += usize::from(play.ended("main", item).await["state"] == "done");
    }
    assert_eq!((done, stage.model.requests().len()), (3, 3));
    assert_eq!(hive(&play).await["cost"], 3.0);
}

/// A count that cannot be is bounded by what the call could use, and people are told.
#[tokio::test]
async fn attack_a_count_that_cannot_be_does_not_stop_the_hive_for_a_day() {
    let stage = stage("{cost_per_day: 10, tokens_per_day: 20000000}").await;
    let most = Usage { input_tokens: Some(900_000_000_000), ..NOTHING };
    let most = Usage { output_tokens: Some(i64::MAX as u64), ..most };
    stage.model.push_all([Reply::say("lied").usage(most), Reply::say("yes")]);
    let play = stage.up().await;
    assert_eq!(play.ask("main", "go").await["response"]["content"], "lied");
    let told = hive(&play).await;
    assert_eq!(told["cost"], 4.0, "four times an answer of a hundred tokens: {told}");
    assert!(told["tokens"].as_u64().unwrap() <= 2_000_400, "{told}");
    let events = play.events().await;
    let note = events.iter().find(|event| event["type"] == "note").unwrap();
    assert!(note["text"].as_str().unwrap().contains("counts 2000000000 tokens"), "{note}");
    assert_eq!(play.ask("main", "go").await["response"]["content"], "yes");
}

/// Where dollars are limited, a model whose price nobody knows is no way around the limit.
#[tokio::test]
async fn attack_a_model_of_unknown_price_does_not_evade_a_limit_of_dollars() {
    let stage = stage("{cost_per_day: 2}").await;
    stage.model.answer_with(|_| Reply::say("yes"));
    let mut play = stage.up().await;
    let refused = play.ask("main", "/model anthropic:dear").await;
    assert_eq!(refused["error"]["code"], "unknown_model", "{refused}");
    let text = refused["error"]["error"].as_str().unwrap();
    assert!(text.contains("The price of `dear` is not known"), "{text}");
    // Chosen before there was a limit: no turn of it runs.
    stage.write("skep.yaml", "limits: {}\n");
    play = again(&stage, play).await;
    assert_eq!(play.ask("main", "/model anthropic:dear").await["state"], "done");
    stage.write("skep.yaml", "limits: {cost_per_day: 2}\n");
    play = again(&stage, play).await;
    let refused = play.ask("main", "go").await;
    let text = refused["error"]["error"].as_str().unwrap();
    assert!(text.contains("The price of `dear` is not known"), "{refused}");
    assert_eq!(stage.model.requests().len(), 0);
}

/// A try of a profile is a call like any other.
#[tokio::test]
async fn attack_a_try_of_a_profile_stays_within_the_limit_of_the_day() {
    let stage = stage("{cost_per_day: 0.2}").await;
    let some = Usage { output_tokens: Some(10), ..NOTHING };
    stage.model.answer_with(move |_| Reply::say("ok").usage(some));
    let play = stage.up().await;
    let test = || async {
        let path = "/api/v1/providers/default/test";
        play.api().post(path, &json!({})).await.unwrap().good().unwrap()
    };
    assert_eq!(test().await["ok"], true);
    assert_eq!(hive(&play).await["cost"], 0.1);
    let refused = test().await;
    assert_eq!((&refused["ok"], &refused["error"]["code"]), (&json!(false), &json!("limit_cost")));
    let told = hive(&play).await;
    assert_eq!((&told["cost"], &told["held_calls"]), (&json!(0.1), &json!(0)), "{told}");
    assert_eq!(stage.model.requests().len(), 1);
}

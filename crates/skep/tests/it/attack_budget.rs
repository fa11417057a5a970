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

//! What model calls cost is summed with them, and the limits of a day hold before every call.

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::model::Usage;
use skep_testkit::{Reply, locate};

use crate::stage::{Play, Stage};

/// Ten dollars for a million tokens: a dollar for a hundred thousand.
const PRICE: &str = "price: {input: 10, output: 10, cache_read: 1, cache_write: 20}";

/// `default` has the price, `unknown` has none, `free` costs nothing; an agent for each.
async fn stage(limits: &str) -> Stage {
    let stage = Stage::new().await;
    let mut profiles = "profiles:\n".to_owned();
    let free = "price: {input: 0, output: 0}";
    for (name, price) in [("default", PRICE), ("unknown", ""), ("free", free)] {
        profiles += &format!(
            "  {name}:\n    provider: anthropic\n    model: scripted\n    api_url: {}\n    \
             api_key: ${{RIG_KEY}}\n    max_output_tokens: 10000\n",
            stage.model.base_url()
        );
        if !price.is_empty() {
            profiles += &format!("    {price}\n");
        }
        stage.write(
            &format!("teams/{name}/config.yaml"),
            &format!("profile: {name}\nallowed_tools: ['*']\n"),
        );
    }
    stage.write("providers.yaml", &profiles);
    stage.write("skep.yaml", &format!("limits:\n{limits}"));
    stage
}

/// An answer that used a hundred thousand tokens: one dollar at the price above.
fn dollar(reply: Reply) -> Reply {
    let (input_tokens, output_tokens) = (Some(90_000), Some(10_000));
    reply.usage(Usage { input_tokens, output_tokens, ..Usage::default() })
}

async fn spend(play: &Play) -> Value {
    play.state().await["spend"].clone()
}

#[tokio::test]
async fn engine_cost_of_a_day_is_summed_exactly_and_limits_the_next_call() {
    let stage = stage("  cost_per_day: 3\n").await;
    let mut play = stage.up().await;
    let cached = Usage {
        input_tokens: Some(10_000),
        output_tokens: Some(1000),
        cache_read_input_tokens: 200_000,
        cache_creation_input_tokens: 9500,
    };
    stage.model.push(Reply::say("one").usage(cached));
    assert_eq!(play.ask("default", "1").await["response"]["content"], "one");
    // 0.1 + 0.01 + 0.2 + 0.19
    assert_eq!(spend(&play).await["cost"], 0.5);
    let history = play.history("default", "main").await;
    assert_eq!(history[1]["meta"]["usage"]["cost"], 0.5);
    // The limit is reached in the middle of a turn: what was done stays, and nothing is asked.
    for text in ["a", "b", "c"] {
        stage.model.push(dollar(Reply::call("effect", json!({"text": text}))));
    }
    let ended = play.ask("default", "2").await;
    assert_eq!(ended["error"]["code"], "limit_cost", "{ended}");
    let text = ended["error"]["error"].as_str().unwrap();
    assert!(text.starts_with("The day's limit of $3.00 does not leave room"), "{text}");
    assert!(text.contains("$3.50 is spent and $0 held"), "{text}");
    assert!(text.contains("00:00 UTC") && text.contains("limits.cost_per_day"), "{text}");
    assert_eq!(stage.effects.total().unwrap(), 3);
    assert_eq!(stage.model.requests().len(), 4);
    let before = spend(&play).await;
    assert_eq!((&before["calls"], &before["tokens"]), (&json!(4), &json!(520_500)));
    assert_eq!(
        before["limits"],
        json!({"cost_per_day": 3.0, "unpriced_tokens_per_day": 2_000_000})
    );
    // It is on record: a new process knows it.
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    let mut after = spend(&play).await;
    after["until"] = before["until"].clone();
    assert_eq!(after, before);
    assert_eq!(play.ask("default", "3").await["error"]["code"], "limit_cost");
    assert_eq!(stage.model.requests().len(), 4, "no model was asked");
    // What costs nothing is not held back.
    stage.model.push(dollar(Reply::say("free")));
    assert_eq!(play.ask("free", "4").await["response"]["content"], "free");
    assert_eq!(spend(&play).await["cost"], 3.5);
    let shown = Start::new(&locate::skep().unwrap(), stage.home()).argument("status");
    let shown = shown.finish().await.unwrap();
    let line = "today  $3.50 for 5 calls, 620500 tokens; daily limit: $3.00, ";
    assert!(shown.stdout.contains(line), "{}{}", shown.stdout, shown.stderr);
}

/// An answer that holds nothing was paid for: it counts in sums, in the report and after a kill.
#[tokio::test]
async fn engine_answers_that_hold_nothing_are_paid_for_across_a_restart() {
    let stage = stage("  cost_per_day: 10\n").await;
    let mut play = stage.up().await;
    let spent = |reason: &str| dollar(Reply::new().thinking("hm").stop_reason(reason));
    for reason in ["max_tokens", "refusal"] {
        stage.model.push(spent(reason));
        assert_eq!(play.ask("default", "go").await["error"]["code"], "provider_rejected");
    }
    // One that is asked for again is paid for twice.
    stage.model.push_all([spent("end_turn"), dollar(Reply::say("at last"))]);
    assert_eq!(play.ask("default", "go").await["response"]["content"], "at last");
    let before = spend(&play).await;
    assert_eq!((&before["calls"], &before["cost"]), (&json!(4), &json!(4.0)), "{before}");
    let page = usage(&play, "by=day").await;
    assert_eq!((sum(&page, "", "calls"), sum(&page, "", "cost")), (4.0, 4.0), "{page}");
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    let mut after = spend(&play).await;
    after["until"] = before["until"].clone();
    assert_eq!(after, before);
}

#[tokio::test]
async fn engine_unknown_prices_are_shown_as_unknown_and_tokens_limit() {
    let stage = stage("  tokens_per_day: 250000\n").await;
    let play = stage.up().await;
    for agent in ["default", "unknown", "unknown"] {
        stage.model.push(dollar(Reply::say("yes")));
        assert_eq!(play.ask(agent, "go").await["state"], "done");
    }
    let told = spend(&play).await;
    assert_eq!((&told["cost"], &told["known_cost"]), (&Value::Null, &json!(1.0)), "{told}");
    assert_eq!((&told["unpriced_calls"], &told["unpriced_tokens"]), (&json!(2), &json!(200_000)));
    let history = play.history("unknown", "main").await;
    assert_eq!(history[1]["meta"]["usage"]["cost"], Value::Null);
    for agent in ["default", "unknown", "free"] {
        let ended = play.ask(agent, "more").await;
        assert_eq!(ended["error"]["code"], "limit_tokens", "{agent}: {ended}");
        let text = ended["error"]["error"].as_str().unwrap();
        assert!(text.contains("250000 tokens") && text.contains("limits.tokens_per_day"), "{text}");
    }
    assert_eq!(stage.model.requests().len(), 3);
    let shown = Start::new(&locate::skep().unwrap(), stage.home()).argument("status");
    let shown = shown.finish().await.unwrap();
    assert!(shown.stdout.contains("$1.00 and 2 calls of unknown price"), "{}", shown.stdout);
}

/// A model whose price nobody knows, beside a limit in dollars: its tokens are limited.
#[tokio::test]
async fn engine_unpriced_model_has_a_limit_of_tokens_beside_cost_per_day() {
    let stage = stage("  cost_per_day: 3\n").await;
    let play = stage.up().await;
    let many = Usage { input_tokens: Some(1_999_999), output_tokens: Some(1), ..Usage::default() };
    stage.model.push(Reply::say("much").usage(many));
    assert_eq!(play.ask("unknown", "go").await["state"], "done");
    let ended = play.ask("unknown", "more").await;
    assert_eq!(ended["error"]["code"], "limit_tokens", "{ended}");
    let text = ended["error"]["error"].as_str().unwrap();
    assert!(text.contains("unknown price have 2000000 tokens"), "{text}");
    stage.model.push(dollar(Reply::say("priced")));
    assert_eq!(play.ask("default", "go").await["response"]["content"], "priced");
    let doctor = Start::new(&locate::skep().unwrap(), stage.home()).argument("doctor");
    let told = doctor.env("RIG_KEY", "rig-key-canary-1f7c").finish().await.unwrap().stdout;
    let line = "$3.00 a day; price unknown: unknown, these may use 2000000 tokens a day";
    assert!(told.contains(line), "{told}");
}

/// Whoever starts with a model that costs money has a limit from the first call on, and is told.
#[tokio::test]
async fn engine_first_start_with_a_model_that_costs_money_sets_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let skep = locate::skep().unwrap();
    for (name, key, costs) in [("paid", "ANTHROPIC_API_KEY", true), ("offline", "UNUSED", false)] {
        let home = folder.path().join(name);
        let start = Start::up(&skep, &home).env(key, "key-of-a-test-1f7c");
        let hive = start.listening().await.unwrap();
        let file = std::fs::read_to_string(home.join("skep.yaml")).unwrap();
        assert_eq!(file.contains("\n  cost_per_day: 10\n"), costs, "{file}");
        let line = "model calls may cost $10.00 a day: limits.cost_per_day in skep.yaml";
        assert_eq!(hive.stdout().contains(line), costs, "{}", hive.stdout());
    }
}

/// A call counts with the row that records it: never without it, never twice.
#[tokio::test]
async fn engine_spend_after_a_crash_is_what_the_rows_say() {
    let stage = stage("  cost_per_day: 100\n").await;
    let mut play = stage.up().await;
    stage.model.push(dollar(Reply::call("effect", json!({"text": "a"}))));
    stage.model.push(dollar(Reply::new().open_text().delta("half").gate("half")));
    let item = play.item("default", "main", "go").await;
    stage.model.gate("half").wait_arrived(1).await.unwrap();
    play.hive.kill().await.unwrap();
    stage.model.push(dollar(Reply::say("whole")));
    let play = stage.up().await;
    assert_eq!(play.ended("default", &item).await["response"]["content"], "whole");
    let told = spend(&play).await;
    assert_eq!((&told["calls"], &told["cost"]), (&json!(2), &json!(2.0)), "{told}");
    let events = play.events().await;
    let end = events.iter().find(|event| event["type"] == "turn_end").unwrap();
    assert_eq!(end["usage"]["cost"], 2.0);
}

async fn usage(play: &Play, asked: &str) -> Value {
    play.api().get(&format!("/api/v1/usage?{asked}")).await.unwrap().good().unwrap()
}

/// Adds up a field of the rows of an agent, or of all.
fn sum(page: &Value, agent: &str, field: &str) -> f64 {
    let rows = page["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| agent.is_empty() || row["agent"] == agent);
    rows.map(|row| row[field].as_f64().unwrap()).sum()
}

#[tokio::test]
async fn engine_usage_is_told_by_hour_and_by_day_of_each_agent_and_model() {
    let stage = stage("  cost_per_day: 100\n").await;
    let play = stage.up().await;
    stage.model.push(dollar(Reply::call("effect", json!({"text": "a"}))));
    stage.model.push(dollar(Reply::say("two calls, one turn")));
    assert_eq!(play.ask("default", "1").await["state"], "done");
    stage.model.push(dollar(Reply::say("of unknown price")));
    assert_eq!(play.ask("unknown", "2").await["state"], "done");
    for by in ["hour", "day"] {
        let page = usage(&play, &format!("by={by}")).await;
        let told = |agent| ["calls", "turns", "tokens", "known_cost"].map(|f| sum(&page, agent, f));
        assert_eq!(told("default"), [2.0, 1.0, 200_000.0, 2.0], "{page}");
        assert_eq!(told("unknown"), [1.0, 1.0, 100_000.0, 0.0], "{page}");
        assert_eq!((sum(&page, "", "input"), sum(&page, "", "output")), (270_000.0, 30_000.0));
        let row = &page["rows"][0];
        assert_eq!((&row["agent"], &row["model"]), (&json!("default"), &json!("scripted")));
        let at = row["at"].as_i64().unwrap();
        let width = if by == "hour" { 3_600_000 } else { 86_400_000 };
        assert_eq!(at % width, 0, "{row}");
        assert!((page["since"].as_i64().unwrap()..page["until"].as_i64().unwrap()).contains(&at));
        let unpriced = page["rows"].as_array().unwrap().iter().find(|r| r["agent"] == "unknown");
        assert_eq!(unpriced.unwrap()["cost"], Value::Null);
        let one = usage(&play, &format!("by={by}&agent=unknown")).await;
        assert_eq!((sum(&one, "", "calls"), sum(&one, "unknown", "calls")), (1.0, 1.0));
        let one = usage(&play, &format!("by={by}&profile=default")).await;
        assert_eq!((sum(&one, "", "calls"), sum(&one, "default", "calls")), (2.0, 2.0));
    }
    let refused = play.api().get("/api/v1/usage?by=hour&since=0").await.unwrap();
    assert_eq!((refused.status, &refused.json["code"]), (400, &json!("invalid_query")));
}

/// A vendor that says nonsense about tokens: sums stay sums, and the limit holds.
#[tokio::test]
async fn engine_spend_survives_a_vendor_that_cannot_count() {
    let stage = Stage::new().await;
    let most = Some(u64::MAX);
    let vast = Usage { input_tokens: most, output_tokens: most, ..Usage::default() };
    stage.model.push_all([Reply::say("one").usage(vast), Reply::say("two").usage(vast)]);
    let play = stage.up().await;
    for words in ["one", "two"] {
        assert_eq!(play.ask("main", "count").await["response"]["content"], words);
    }
    let sessions = play.api().get("/api/v1/agents/main/sessions").await.unwrap().good().unwrap();
    // As much as two calls of this size can have.
    let tokens = sessions["sessions"][0]["tokens"].as_u64().unwrap();
    assert!((4_000_000..5_000_000).contains(&tokens), "{tokens}");
    assert_eq!(play.state().await["spend"]["tokens"], tokens);
}

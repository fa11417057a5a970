//! Limits of money and tokens: taken before every model call, given back after it, and never
//! overdrawn, whatever happens to the call or the process.

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::model::Usage;
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{Reply, locate};

use crate::stage::{Play, Stage};

/// A cent for each token of an answer, of which there are a hundred at the most, and nothing for
/// the request: what a call may cost is a dollar.
async fn stage(limits: &str, budgets: &str) -> Stage {
    let stage = Stage::new().await;
    let profile = format!(
        "profiles:\n  default:\n    provider: anthropic\n    model: scripted\n    api_url: {}\n    \
         api_key: ${{RIG_KEY}}\n    max_output_tokens: 100\n    \
         price: {{input: 0, output: 10000, cache_read: 0, cache_write: 0}}\n",
        stage.model.base_url()
    );
    stage.write("providers.yaml", &profile);
    stage.write("skep.yaml", &format!("limits: {limits}\n"));
    let agent = format!("allowed_tools: ['*']\nbudgets: {budgets}\n");
    stage.write("teams/main/config.yaml", &agent);
    stage
}

fn used(tokens: u64) -> Usage {
    Usage { input_tokens: Some(10), output_tokens: Some(tokens), ..Usage::default() }
}

fn dollar(reply: Reply) -> Reply {
    reply.usage(used(100))
}

async fn budgets(play: &Play) -> Value {
    play.api().get("/api/v1/budgets").await.unwrap().good().unwrap()
}

/// So many turns at once, each in a session of its own; how each ended.
async fn at_once(play: &Play, turns: usize) -> Vec<Value> {
    let mut items = Vec::new();
    for number in 0..turns {
        items.push(play.item("main", &format!("s{number}"), "go").await);
    }
    let mut ended = Vec::new();
    for item in &items {
        ended.push(play.ended("main", item).await);
    }
    ended
}

#[tokio::test]
async fn engine_a_team_uses_no_more_than_the_agents_above_it_leave() {
    let stage = stage("{}", "{team_cost_per_day: 2}").await;
    for (agent, parent) in [("research", "main"), ("library", "research")] {
        let settings = format!("parent: {parent}\nallowed_tools: ['*']\n");
        stage.write(&format!("teams/{agent}/config.yaml"), &settings);
    }
    stage.model.answer_with(|_| dollar(Reply::say("yes")));
    let play = stage.up().await;
    assert_eq!(play.ask("library", "go").await["state"], "done");
    assert_eq!(play.ask("main", "go").await["state"], "done");
    let refused = play.ask("research", "go").await;
    assert_eq!(refused["error"]["code"], "limit_cost", "{refused}");
    let text = refused["error"]["error"].as_str().unwrap();
    assert!(text.starts_with("The day's limit of the team of main of $2.00"), "{text}");
    assert!(text.ends_with("budgets.team_cost_per_day in teams/main/config.yaml."), "{text}");
    // Whoever is not in the team is not held back.
    assert_eq!(play.ask("plain", "go").await["state"], "done");
    let page = budgets(&play).await;
    let main = page["agents"].as_array().unwrap().iter().find(|it| it["agent"] == "main").unwrap();
    assert_eq!((&main["cost"], &main["team"]["cost"]), (&json!(1.0), &json!(2.0)), "{page}");
    assert_eq!(main["team"]["limits"], json!({"cost": 2.0}));
}

/// Each call uses half as much again as was held for it, and twenty agents of the tree ask at
/// once: three calls are under way, and only what these used beyond their reserve is overdrawn.
#[tokio::test]
async fn engine_a_tree_overdraws_by_what_calls_under_way_use_beyond_their_reserve() {
    let stage = stage("{concurrent_turns: 50}", "{team_cost_per_day: 3}").await;
    for number in 0..20 {
        let parent = if number < 4 { "main".to_owned() } else { format!("t{}", number / 4 - 1) };
        let settings = format!("parent: {parent}\nallowed_tools: ['*']\n");
        stage.write(&format!("teams/t{number}/config.yaml"), &settings);
    }
    stage.model.answer_with(|_| Reply::say("yes").usage(used(150)).gate_first("all"));
    let play = stage.up().await;
    let mut items = Vec::new();
    for number in 0..20 {
        let agent = format!("t{number}");
        items.push((play.item(&agent, "main", "go").await, agent));
    }
    stage.model.gate("all").wait_arrived(3).await.unwrap();
    stage.model.gate("all").open();
    let mut done = 0;
    for (item, agent) in &items {
        let ended = play.ended(agent, item).await;
        match ended["state"] == "done" {
            true => done += 1,
            false => assert_eq!(ended["error"]["code"], "limit_cost", "{ended}"),
        }
    }
    assert_eq!((done, stage.model.requests().len()), (3, 3));
    let page = budgets(&play).await;
    let main = page["agents"].as_array().unwrap().iter().find(|it| it["agent"] == "main").unwrap();
    // Three dollars held, and half a dollar more for each of the three.
    assert_eq!(main["team"]["cost"], 4.5, "{page}");
}

#[tokio::test]
async fn engine_twenty_turns_against_money_for_three_calls_make_three() {
    let stage = stage("{cost_per_day: 3}", "{}").await;
    stage.model.answer_with(|_| dollar(Reply::say("yes").gate_first("all")));
    let play = stage.up().await;
    let mut items = Vec::new();
    for number in 0..20 {
        items.push(play.item("main", &format!("s{number}"), "go").await);
    }
    stage.model.gate("all").wait_arrived(3).await.unwrap();
    let held = budgets(&play).await["hive"].clone();
    assert_eq!((&held["held_calls"], &held["held_cost"]), (&json!(3), &json!(3.0)), "{held}");
    stage.model.gate("all").open();
    let mut done = 0;
    for item in &items {
        let ended = play.ended("main", item).await;
        if ended["state"] == "done" {
            done += 1;
            continue;
        }
        assert_eq!(ended["error"]["code"], "limit_cost", "{ended}");
        let text = ended["error"]["error"].as_str().unwrap();
        assert!(text.contains("$3.00") && text.contains("limits.cost_per_day"), "{text}");
    }
    assert_eq!((done, stage.model.requests().len()), (3, 3));
    let after = budgets(&play).await["hive"].clone();
    assert_eq!((&after["cost"], &after["held_calls"]), (&json!(3.0), &json!(0)), "{after}");
    let shown = Start::new(&locate::skep().unwrap(), stage.home()).argument("budget");
    let shown = shown.finish().await.unwrap().stdout;
    assert!(shown.contains("the hive") && shown.contains("$3.00"), "{shown}");
    let metrics = play.api().get("/metrics").await.unwrap();
    let line = "skep_budget_refusals_total{outcome=\"limit_cost\"} 17";
    assert!(metrics.text.contains(line), "{}", metrics.text);
}

#[tokio::test]
async fn engine_turns_wait_for_what_others_hold_and_do_not_use() {
    let stage = stage("{cost_per_day: 3}", "{}").await;
    stage.model.answer_with(|_| Reply::say("yes").usage(used(10)));
    let play = stage.up().await;
    let ended = at_once(&play, 20).await;
    assert!(ended.iter().all(|ended| ended["state"] == "done"), "{ended:?}");
    assert_eq!(budgets(&play).await["hive"]["cost"], 2.0);
}

#[tokio::test]
async fn engine_failed_calls_give_back_and_broken_ones_do_not() {
    let stage = stage("{cost_per_day: 1.06}", "{}").await;
    stage.model.push_all([
        Reply::server_error(),
        Reply::overloaded(),
        Reply::say("yes").usage(used(5)),
    ]);
    let play = stage.up().await;
    assert_eq!(play.ask("main", "go").await["response"]["content"], "yes");
    let told = budgets(&play).await["hive"].clone();
    assert_eq!((&told["cost"], &told["unsettled_cost"]), (&json!(0.05), &json!(0.0)), "{told}");
    // It broke off in the middle: what was heard counts, and a call after it no longer fits.
    stage.model.push(Reply::new().open_text().delta("one two three").cut());
    let ended = play.ask("main", "again").await;
    assert_eq!(ended["error"]["code"], "limit_cost", "{ended}");
    let told = budgets(&play).await["hive"].clone();
    assert_eq!(told["cost"], 0.05);
    let unsettled = told["unsettled_cost"].as_f64().unwrap();
    assert!((0.03..0.10).contains(&unsettled), "{told}");
    assert_eq!(stage.model.requests().len(), 4);
}

#[tokio::test]
async fn engine_a_call_lost_with_its_process_counts_as_all_it_could_use() {
    let stage = stage("{cost_per_day: 2}", "{}").await;
    let mut play = stage.up().await;
    stage.model.push(Reply::new().open_text().delta("half").gate("half"));
    let item = play.item("main", "main", "go").await;
    stage.model.gate("half").wait_arrived(1).await.unwrap();
    play.hive.kill().await.unwrap();
    stage.model.push(Reply::say("whole").usage(used(1)));
    let mut play = stage.up().await;
    assert_eq!(play.ended("main", &item).await["response"]["content"], "whole");
    let told = budgets(&play).await["hive"].clone();
    assert_eq!((&told["cost"], &told["unsettled_cost"]), (&json!(0.01), &json!(1.0)), "{told}");
    // On record, once: the next process knows it too.
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    assert_eq!(budgets(&play).await["hive"], told);
    assert_eq!(play.ask("main", "more").await["error"]["code"], "limit_cost");
    assert_eq!(stage.model.requests().len(), 2);
    // A tool was running, no model: nothing is added.
    let spend = &play.state().await["spend"];
    assert_eq!((&spend["calls"], &spend["cost"]), (&json!(1), &json!(0.01)), "as vendors count");
}

#[tokio::test]
async fn engine_turns_and_agents_have_limits_of_their_own() {
    let stage = stage("{cost_per_turn: 3}", "{cost_per_day: 5, cost_per_turn: 2}").await;
    stage.write("teams/other/config.yaml", "allowed_tools: ['*']\n");
    stage.model.answer_with(|request| {
        let text = format!("step {}", request.steps_done());
        dollar(Reply::call("effect", json!({"text": text})))
    });
    let play = stage.up().await;
    let said = async |agent: &str| {
        let ended = play.ask(agent, "go").await;
        assert_eq!(ended["error"]["code"], "limit_cost", "{ended}");
        ended["error"]["error"].as_str().unwrap().to_owned()
    };
    let text = said("main").await;
    assert!(text.starts_with("A turn's limit of $2.00"), "{text}");
    assert!(text.contains("budgets.cost_per_turn in teams/main/config.yaml"), "{text}");
    assert_eq!(stage.model.requests().len(), 2);
    let text = said("other").await;
    assert!(text.contains("limits.cost_per_turn in skep.yaml"), "{text}");
    assert_eq!(stage.model.requests().len(), 5);
    said("main").await;
    let text = said("main").await;
    assert!(text.starts_with("The day's limit of the agent main of $5.00"), "{text}");
    assert_eq!(stage.model.requests().len(), 8, "two, three, two and one");
    let told = budgets(&play).await;
    let main = told["agents"].as_array().unwrap().iter().find(|it| it["agent"] == "main").unwrap();
    assert_eq!(main["limits"], json!({"cost": 5.0}));
    assert_eq!((&main["cost"], &main["per_turn"]), (&json!(5.0), &json!({"cost": 2.0})));
    assert_eq!((&told["hive"]["cost"], &told["per_turn"]["cost"]), (&json!(8.0), &json!(3.0)));
    // Told once when most of it was used, though calls went on.
    let notes: Vec<Value> = play.events().await;
    let told = notes.iter().filter(|event| {
        event["type"] == "note" && event["text"].as_str().unwrap().contains("per_day in teams/main")
    });
    assert_eq!(told.count(), 1, "{notes:?}");
}

#[tokio::test]
async fn engine_a_raised_limit_holds_for_the_next_call() {
    let stage = stage("{tokens_per_day: 150}", "{}").await;
    let play = stage.up().await;
    let ended = play.ask("main", "go").await;
    assert_eq!(ended["error"]["code"], "limit_tokens", "the request alone has more: {ended}");
    assert_eq!(stage.model.requests().len(), 0);
    stage.write("skep.yaml", "limits: {tokens_per_day: 1000000}\n");
    let raised = wait::until_async("the new limit", PATIENCE, async || {
        (budgets(&play).await["hive"]["limits"]["tokens"] == 1_000_000).then_some(())
    });
    raised.await.unwrap();
    stage.model.push(dollar(Reply::say("yes")));
    assert_eq!(play.ask("main", "go").await["response"]["content"], "yes");
}

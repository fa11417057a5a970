//! A profile that cannot answer is stood in for by its fallbacks, in the same turn.

use serde_json::{Value, json};
use skep_testkit::{ModelRequest, Reply};

use crate::stage::Stage;
use crate::telling::lines;

type Fault = fn() -> Reply;

/// What the first profile does, how often it is asked, and whether the second one is.
const CASES: &[(&str, Fault, usize, bool)] = &[
    ("overloaded", Reply::overloaded, 4, true),
    ("cut", || Reply::new().open_text().delta("half an ans").cut(), 4, true),
    ("cut-call", || Reply::call("effect", json!({"text": "x"})).cut(), 4, true),
    ("resting", || Reply::rate_limited(Some("3600")), 1, true),
    ("locked", Reply::unauthorized, 1, true),
    ("forbidden", Reply::forbidden, 1, true),
    ("unknown", Reply::not_found, 1, true),
    ("moved", || Reply::fixed(308, "text/plain", ""), 1, true),
    ("unpaid", || Reply::bad_request("Your credit balance is too low to access it."), 1, true),
    ("rejected", || Reply::bad_request("no such thing"), 1, false),
];

fn profile(stage: &Stage, name: &str, provider: &str, more: &str) -> String {
    let base = stage.model.base_url();
    let url = if provider == "anthropic" { base } else { format!("{base}/v1") };
    format!(
        "  {name}:\n    provider: {provider}\n    model: {name}\n    api_url: {url}\n    \
         api_key: key-of-{name}\n{more}"
    )
}

fn asked<'a>(requests: &'a [ModelRequest], model: &str) -> Vec<&'a ModelRequest> {
    requests.iter().filter(|request| request.body["model"] == model).collect()
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

#[tokio::test]
async fn engine_fallback_answers_when_the_first_profile_cannot() {
    let stage = Stage::new().await;
    let mut profiles = format!("profiles:\n{}", profile(&stage, "default", "anthropic", ""));
    for (name, ..) in CASES {
        profiles += &profile(&stage, name, "anthropic", "    fallback: [default]\n");
        let agent = format!("allowed_tools: ['*']\nprofile: {name}\n");
        stage.write(&format!("teams/{name}/config.yaml"), &agent);
    }
    stage.write("providers.yaml", &profiles);
    stage.model.answer_with(|request| {
        let model = request.body["model"].as_str().unwrap();
        match CASES.iter().find(|(name, ..)| *name == model) {
            Some((_, fault, ..)) => fault(),
            None => Reply::say("stood in"),
        }
    });
    let play = stage.up().await;
    for (name, _, tries, falls) in CASES {
        let before = asked(&stage.model.requests(), "default").len();
        let ended = play.ask(name, "go").await;
        let requests = stage.model.requests();
        assert_eq!(asked(&requests, name).len(), *tries, "{name}");
        let history = play.history(name, "main").await;
        let events = play.events().await;
        let mine: Vec<Value> = events.into_iter().filter(|event| event["agent"] == *name).collect();
        if !falls {
            assert_eq!(ended["error"]["code"], "provider_rejected", "{ended}");
            assert_eq!(asked(&requests, "default").len(), before);
            continue;
        }
        assert_eq!(ended["response"]["content"], "stood in", "{name}: {ended}");
        assert_eq!(lines(&history), ["user go", "assistant end_turn: stood in"], "{name}");
        assert_eq!(history[1]["meta"]["profile"], "default", "{name}");
        assert_eq!(of_type(&mine, "turn_end")[0]["profile"], "default", "{name}");
        let note = of_type(&mine, "note")[0]["text"].as_str().unwrap();
        assert!(note.starts_with(&format!("profile {name}: ")), "{note}");
        assert!(note.ends_with("; asking the profile default instead"), "{note}");
        assert!(!note.contains("key-of-"), "{note}");
    }
    assert_eq!(stage.effects.total().unwrap(), 0);
}

/// The step after a failure does not wait for the profile that failed; thinking stays with the
/// profile it came from, on every wire and with every key.
#[tokio::test]
async fn engine_fallback_goes_over_wires_and_keys_without_foreign_thinking() {
    let stage = Stage::new().await;
    let think = "    thinking: 1024\n";
    let chain = "    fallback: [other-key, responses, chat]\n";
    stage.write(
        "providers.yaml",
        &[
            "profiles:\n",
            &profile(&stage, "default", "anthropic", &format!("{think}{chain}")),
            &profile(&stage, "other-key", "anthropic", think),
            &profile(&stage, "responses", "openai-responses", think),
            &profile(&stage, "chat", "openai", think),
        ]
        .concat(),
    );
    // Each answers once, with thinking and a call, and then no more.
    let order = ["default", "other-key", "responses", "chat"];
    stage.model.answer_with(move |request| {
        let model = request.body["model"].as_str().unwrap().to_owned();
        let turn = order.iter().position(|name| *name == model).unwrap();
        if request.steps_done() > turn {
            return Reply::unauthorized();
        }
        if model == "chat" {
            return Reply::say("at last");
        }
        Reply::new().thinking(&format!("mine-{model}")).tool("look", json!({"text": model}))
    });
    let play = stage.up().await;
    let ended = play.ask("main", "go").await;
    assert_eq!(ended["response"]["content"], "at last", "{ended}");
    let requests = stage.model.requests();
    let models: Vec<&str> =
        requests.iter().map(|request| request.body["model"].as_str().unwrap()).collect();
    let expected =
        ["default", "default", "other-key", "other-key", "responses", "responses", "chat"];
    assert_eq!(models, expected);
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
    for request in &requests {
        let body = request.body.to_string();
        for name in order.iter().filter(|name| request.body["model"] != **name) {
            assert!(!body.contains(&format!("mine-{name}")), "{name}: {body}");
        }
    }
    assert!(requests[1].body.to_string().contains("mine-default"), "its own thinking is there");
    let history = play.history("main", "main").await;
    let by: Vec<&Value> = history
        .iter()
        .filter(|row| row["role"] == "assistant")
        .map(|row| &row["meta"]["profile"])
        .collect();
    assert_eq!(by, order);
}

#[tokio::test]
async fn engine_think_levels_are_the_vendors_own() {
    let stage = Stage::new().await;
    let vendors = ["anthropic", "openai", "openai-responses"];
    let mut profiles = "profiles:\n  default: {provider: rehearsal}\n".to_owned();
    for vendor in vendors {
        profiles += &profile(&stage, vendor, vendor, "    max_output_tokens: 1000\n");
        for level in ["off", "low", "medium", "high"] {
            let agent = format!("profile: {vendor}\nthink: {level}\n");
            stage.write(&format!("teams/{vendor}-{level}/config.yaml"), &agent);
        }
    }
    stage.write("providers.yaml", &profiles);
    stage.model.answer_with(|_| Reply::say("yes"));
    let play = stage.up().await;
    let mut told = Vec::new();
    for vendor in vendors {
        for level in ["off", "low", "medium", "high"] {
            let ended = play.ask(&format!("{vendor}-{level}"), "go").await;
            assert_eq!(ended["state"], "done", "{ended}");
            let body = stage.model.requests().last().unwrap().body.clone();
            told.push(json!([
                body["thinking"]["budget_tokens"],
                body["reasoning_effort"],
                body["reasoning"]["effort"]
            ]));
        }
    }
    let nothing = json!([null, null, null]);
    let expected = [
        nothing.clone(),
        json!([2048, null, null]),
        json!([8192, null, null]),
        json!([24576, null, null]),
        nothing.clone(),
        json!([null, "low", null]),
        json!([null, "medium", null]),
        json!([null, "high", null]),
        nothing,
        json!([null, null, "low"]),
        json!([null, null, "medium"]),
        json!([null, null, "high"]),
    ];
    assert_eq!(told, expected);
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

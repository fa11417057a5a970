#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;
use skep_core::BoxFuture;
use skep_core::ids::{AgentName, CallId, TurnId};
use skep_core::policy::{Class, ClassPolicy};
use skep_core::settings::{Profile, QueueMode, SandboxSettings};
use tokio_util::sync::CancellationToken;

use super::*;

type Body = fn(ToolContext) -> BoxFuture<'static, ToolAnswer>;

struct TestTool(ToolSpec, Body);

impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn class(&self) -> Class {
        Class::Read
    }

    fn aliases(&self) -> &[&'static str] {
        if self.0.name == "say" { &["Say"] } else { &[] }
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        match arguments.as_object().is_some_and(|fields| fields.is_empty()) {
            true => Ok(Box::new(self.1)),
            false => Err("expected no arguments".to_owned()),
        }
    }
}

fn tool(name: &str, body: Body) -> Arc<dyn Tool> {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
        retry_safe: name == "say",
    };
    Arc::new(TestTool(spec, body))
}

fn toolbox() -> Toolbox {
    let tools = vec![
        tool("say", |_| Box::pin(async { ToolAnswer::ok("x".repeat(9) + "éé") })),
        tool("boom", |_| Box::pin(async { panic!("boom") })),
        tool("deaf", |_| Box::pin(std::future::pending())),
        tool("polite", |context| {
            Box::pin(async move {
                context.cancel.cancelled().await;
                ToolAnswer::ok("half done")
            })
        }),
    ];
    Toolbox::new(tools).unwrap()
}

fn agent(allowed: &[&str]) -> AgentSettings {
    let profile = Profile {
        name: "default".into(),
        provider: "rehearsal".into(),
        model: "rehearsal".into(),
        max_output_tokens: 1024,
        thinking: None,
        temperature: None,
        fallback: Vec::new(),
    };
    AgentSettings {
        name: AgentName::new("main"),
        description: String::new(),
        engine: "native".into(),
        profile: Arc::new(profile),
        think: None,
        allowed_tools: allowed.iter().map(|name| (*name).to_owned()).collect(),
        max_steps: 50,
        queue_mode: QueueMode::Queue,
        workspace: "/".into(),
        folder: "/".into(),
        sandbox: SandboxSettings::default(),
        policy: ClassPolicy::default(),
        org_rules: Vec::new(),
        team_rules: Vec::new(),
    }
}

/// Through every stage, with room for 10 bytes.
async fn call(allowed: &[&str], name: &str, arguments: Value, turn: &CancellationToken) -> Ran {
    let (toolbox, agent) = (toolbox(), agent(allowed));
    let call = call_of(&CallId::new("c1"), name, &arguments);
    let context = ToolContext {
        agent: agent.name.clone(),
        workspace: agent.workspace.clone(),
        folder: None,
        sandbox: agent.sandbox,
        turn: TurnId::new("t1"),
        call: call.id.clone(),
        decision: None,
        cancel: turn.clone(),
    };
    let checked = toolbox.check(&agent, &call);
    run(&call, checked, context, 10).await
}

#[tokio::test]
async fn every_stage_has_its_answer_and_its_line_in_the_audit() {
    let all: &[&str] = &["*"];
    let cases = [
        (all, "say", json!({}), "xxxxxxxxx\n[cut: 9 of 13 bytes shown]", false, "allow-list", "ok"),
        (all, "Say", json!({}), "xxxxxxxxx\n[cut: 9 of 13 bytes shown]", false, "allow-list", "ok"),
        (all, "nope", json!({}), "There is n", true, "refused: unknown tool", "error"),
        (&["boom"], "say", json!({}), "The tool `", true, "refused: allow-list", "error"),
        (&["boom"], "Say", json!({}), "The tool `", true, "refused: allow-list", "error"),
        (all, "say", json!({"a": 1}), "The argume", true, "refused: arguments", "error"),
        (all, "boom", json!({}), "The tool f", true, "allow-list", "error"),
    ];
    for (allowed, name, arguments, text, error, decision, outcome) in cases {
        let ran = call(allowed, name, arguments, &CancellationToken::new()).await;
        let ToolAnswer::Done { text: said, is_error, .. } = &ran.answer else {
            panic!("{name} waits");
        };
        assert!(said.starts_with(text), "{name}: {said}");
        assert_eq!((*is_error, ran.cut), (error, false), "{name}");
        assert!(ran.audit.decision.ends_with(decision), "{name}: {}", ran.audit.decision);
        assert_eq!(ran.audit.outcome, outcome, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_ended_and_its_turn_is_not() {
    for (name, cut, outcome) in [("deaf", true, "unknown"), ("polite", false, "ok")] {
        let turn = CancellationToken::new();
        let begun = Instant::now();
        let ran = call(&["*"], name, json!({}), &turn).await;
        assert_eq!((ran.cut, ran.audit.outcome), (cut, outcome), "{name}");
        assert!(begun.elapsed() >= CALL_TIME && begun.elapsed() < CALL_TIME + 2 * GRACE, "{name}");
        assert!(!turn.is_cancelled(), "{name}: only the call is ended");
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_ends_its_calls_within_their_grace() {
    for (name, cut) in [("deaf", true), ("polite", false)] {
        let turn = CancellationToken::new();
        turn.cancel();
        let begun = Instant::now();
        assert_eq!(call(&["*"], name, json!({}), &turn).await.cut, cut, "{name}");
        assert!(begun.elapsed() <= GRACE + Duration::from_millis(1), "{name}");
    }
}

//! A hive whose agent says back what it hears.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use skep_core::engine::{Capabilities, Engine, EngineEvent, TurnEnd, TurnHandle, TurnRequest};
use skep_core::ids::{AgentName, NodeName};
use skep_core::message::{Meta, StopReason, Usage};
use skep_core::policy::Policy;
use skep_core::provider::Providers;
use skep_core::retry::RetryPolicy;
use skep_core::settings::{
    AgentSettings, AgentState, Budgets, HiveSettings, KnownModels, Limits, Profile, QueueMode,
    SandboxSettings, ServerSettings,
};
use skep_guard::vault::Vault;
use skep_runtime::{Hive, Offer, Parts};
use tokio::sync::mpsc;

/// A message that is never answered.
pub const HANG: &str = "hang";

pub struct EchoEngine;

impl Engine for EchoEngine {
    fn id(&self) -> &str {
        "echo"
    }

    fn display_name(&self) -> &str {
        "Echo"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            queue_while_streaming: false,
            interrupt: true,
            tool_events: false,
            full_history: true,
            approvals: false,
            own_tools: false,
        }
    }

    fn resolve_display_model(&self, _: &AgentSettings) -> String {
        "echo".to_owned()
    }

    fn start(&self, request: TurnRequest) -> TurnHandle {
        let (sender, events) = mpsc::channel(8);
        tokio::spawn(async move {
            let heard = request.messages.last().unwrap().body.plain_text();
            if heard == HANG {
                let _ = sender.closed().await;
                return;
            }
            let meta = Meta {
                profile: None,
                provider: "echo".to_owned(),
                model: "echo".to_owned(),
                api: "echo".to_owned(),
                usage: Usage::default(),
                stop_reason: StopReason::EndTurn,
            };
            for event in [
                EngineEvent::CallStart,
                EngineEvent::Text(heard),
                EngineEvent::Meta(meta),
                EngineEvent::End(TurnEnd::Finished),
            ] {
                let _ = sender.send(event).await;
            }
        });
        TurnHandle::new(events)
    }
}

pub async fn hive(run: &Path) -> Hive {
    hive_of(run, "main").await
}

/// As a process of this name.
pub async fn hive_of(run: &Path, node: &str) -> Hive {
    let profile = Profile {
        name: "default".to_owned(),
        provider: "echo".to_owned(),
        model: "echo".to_owned(),
        max_output_tokens: 1,
        thinking: None,
        temperature: None,
        fallback: Vec::new(),
        context_window: None,
        price: None,
        sees_images: false,
        known: KnownModels::NONE,
    };
    let agent = AgentSettings {
        name: AgentName::new("main"),
        parent: None,
        manager: false,
        parallel: Default::default(),
        allowed_recipients: Vec::new(),
        description: String::new(),
        engine: "echo".to_owned(),
        engine_options: Default::default(),
        profile: Arc::new(profile),
        think: None,
        allowed_tools: Vec::new(),
        max_steps: 1,
        budgets: Budgets::default(),
        queue_mode: QueueMode::Queue,
        workspace: run.to_path_buf(),
        folder: run.to_path_buf(),
        sandbox: SandboxSettings::default(),
        policy: Policy::default(),
        org_rules: Vec::new(),
        team_rules: Vec::new(),
        skills: Arc::default(),
        subagents: Arc::default(),
        role: None,
        left_out: Arc::default(),
    };
    let settings = HiveSettings {
        server: ServerSettings {
            bind: [127, 0, 0, 1].into(),
            port: 0,
            public_url: None,
            allowed_origins: Vec::new(),
            ws_enabled: true,
        },
        limits: Limits::default(),
        hive_rules: Vec::new(),
        profiles: BTreeMap::new(),
        reached: BTreeMap::new(),
        providers: Providers::default(),
        agents: [(agent.name.clone(), AgentState::Active(Arc::new(agent)))].into_iter().collect(),
        model_note: "echo".to_owned(),
    };
    let parts = Parts {
        run: run.to_path_buf(),
        node: NodeName::new(node),
        accept_loss: None,
        settings: Box::new(move |_| settings),
        engines: vec![Arc::new(EchoEngine)],
        built_in: Offer::default(),
        retry: RetryPolicy::default(),
        buckets: Arc::default(),
        vault: Arc::new(Vault::open(run, &|_| None)),
        version: "test",
    };
    Hive::open(parts).await.unwrap().0
}

//! What the engine relies on, whoever the vendor is.

use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::json;
use skep_core::message::StopReason;
use skep_core::provider::{ModelError, ModelEvent, ModelRequest, Provider};
use skep_model::RehearsalProvider;
use skep_testkit::model::{self, Reply, ScriptedModel};

use crate::rows::{follow, joined, request, said, step, text, thinking, user};
use crate::vendors;

/// What the model is to do in one call.
#[derive(Debug, Clone, Copy)]
enum Scene {
    Say,
    ThinkAndCallTwice,
    Overloaded,
    RefuseKey,
    CutAfterCall,
    HangAfterText,
}

/// Makes a provider play the scene as the answer to these rows.
trait Rehearsed {
    fn provider(&self) -> &dyn Provider;
    fn prepare(&self, scene: Scene) -> ModelRequest;
}

struct Wire {
    provider: Box<dyn Provider>,
    server: ScriptedModel,
}

impl Rehearsed for Wire {
    fn provider(&self) -> &dyn Provider {
        self.provider.as_ref()
    }

    fn prepare(&self, scene: Scene) -> ModelRequest {
        let arguments = json!({"file_path": "a"});
        self.server.push(match scene {
            Scene::Say => Reply::new().text_in(["hello ", "world"]),
            Scene::ThinkAndCallTwice => {
                Reply::new().thinking("hm").tool("read", arguments.clone()).tool("read", json!({}))
            }
            Scene::Overloaded => Reply::overloaded(),
            Scene::RefuseKey => Reply::unauthorized(),
            Scene::CutAfterCall => Reply::new().text("so").tool("read", arguments).cut(),
            Scene::HangAfterText => Reply::new().open_text().delta("so").then_silence(),
        });
        request(vec![user("turn", "go")])
    }
}

struct Rehearsal;

impl Rehearsed for Rehearsal {
    fn provider(&self) -> &dyn Provider {
        &RehearsalProvider
    }

    fn prepare(&self, scene: Scene) -> ModelRequest {
        let script = match scene {
            Scene::Say => "say hello world",
            Scene::ThinkAndCallTwice => "think hm\ncall read {\"file_path\": \"a\"}\ncall read",
            Scene::Overloaded => "fail overloaded",
            Scene::RefuseKey => "fail auth",
            Scene::CutAfterCall => "say so\ncall read {\"file_path\": \"a\"}\nfail cut",
            Scene::HangAfterText => "say so\nwait 3600000",
        };
        request(vec![user("turn", &format!("#rehearsal\n{script}"))])
    }
}

async fn keeps_the_contract(vendor: &dyn Rehearsed) {
    let provider = vendor.provider();

    let (events, failure) = follow(provider, vendor.prepare(Scene::Say)).await;
    assert_eq!(failure, None);
    let Some(ModelEvent::End(meta)) = events.last() else { panic!("no end") };
    assert_eq!((meta.stop_reason, meta.provider.as_str()), (StopReason::EndTurn, provider.id()));
    assert!(meta.usage.input > 0 && meta.usage.output > 0, "{:?}", meta.usage);
    assert!(events.len() > 2, "text comes in pieces: {events:?}");
    assert_eq!(said(events), [text("hello world")]);

    calls_are_whole_and_their_ids_differ(vendor).await;

    let (events, failure) = follow(provider, vendor.prepare(Scene::Overloaded)).await;
    assert!(matches!(failure, Some(ModelError::Passing { .. })) && events.is_empty());
    let (_, failure) = follow(provider, vendor.prepare(Scene::RefuseKey)).await;
    assert!(matches!(failure, Some(ModelError::Auth { .. })));
    let (events, failure) = follow(provider, vendor.prepare(Scene::CutAfterCall)).await;
    assert!(matches!(failure, Some(ModelError::Passing { .. })), "{failure:?}");
    assert_eq!(events[0], text("so"));

    // Whoever stops listening is not kept.
    let mut stream = provider.call(Arc::new(vendor.prepare(Scene::HangAfterText)));
    assert_eq!(stream.next().await, Some(Ok(text("so"))));
    drop(stream);
}

async fn calls_are_whole_and_their_ids_differ(vendor: &dyn Rehearsed) {
    let request = vendor.prepare(Scene::ThinkAndCallTwice);
    let rows = request.messages.clone();
    let (events, failure) = follow(vendor.provider(), request).await;
    assert_eq!(failure, None);
    let ids: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::ToolCall { id, arguments, .. } => Some((id.clone(), arguments.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0].0, ids[1].0);
    assert_eq!((&ids[0].1, &ids[1].1), (&json!({"file_path": "a"}), &json!({})));
    assert_eq!(said(events.clone())[0], thinking("hm"));
    let Some(ModelEvent::End(meta)) = events.last() else { panic!("no end") };
    assert_eq!(meta.stop_reason, StopReason::ToolUse);

    // The step goes back as rows and is taken.
    let mut next = vendor.prepare(Scene::Say);
    next.messages = [rows, step("turn", &joined(events))].concat();
    let (_, failure) = follow(vendor.provider(), next).await;
    assert_eq!(failure, None);
}

async fn the_wire_conforms(wire: model::Wire) {
    let (server, provider) = vendors::rig(wire).await;
    let vendor = Wire { provider, server };
    keeps_the_contract(&vendor).await;
    assert_eq!(vendor.server.refusals(), Vec::<String>::new());
}

crate::on_every_wire!(the_wire_conforms);

#[tokio::test]
async fn the_rehearsal_model_conforms() {
    keeps_the_contract(&Rehearsal).await;
}

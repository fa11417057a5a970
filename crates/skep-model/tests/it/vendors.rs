//! The vendors under test, by the wire the scripted server speaks to them.

use secrecy::SecretString;
use serde_json::Value;
use skep_core::provider::{ModelEvent, Provider};
use skep_core::settings::Timeouts;
use skep_model::{AnthropicProvider, OpenAiChatProvider, OpenAiResponsesProvider, WireSettings};
use skep_testkit::model::{ScriptedModel, Wire};

pub const KEY: &str = "sk-test-0123456789";

/// Makes a test of each function for each wire.
#[macro_export]
macro_rules! on_every_wire {
    ($($name:ident),* $(,)?) => {
        $crate::on_every_wire!(@wire anthropic Anthropic $($name)*);
        $crate::on_every_wire!(@wire openai_chat OpenAiChat $($name)*);
        $crate::on_every_wire!(@wire openai_responses OpenAiResponses $($name)*);
    };
    (@wire $module:ident $wire:ident $($name:ident)*) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(skep_testkit::model::Wire::$wire).await;
                }
            )*
        }
    };
}

pub fn provider_at(wire: Wire, address: &str, timeouts: Timeouts) -> Box<dyn Provider> {
    let settings = |base: &str| WireSettings {
        base_url: format!("{address}{base}"),
        key: SecretString::from(KEY),
        timeouts,
        extra_headers: vec![("x-extra".to_owned(), SecretString::from("more"))],
    };
    match wire {
        Wire::Anthropic => Box::new(AnthropicProvider::new(settings("/")).unwrap()),
        Wire::OpenAiChat => Box::new(OpenAiChatProvider::new(settings("/v1")).unwrap()),
        Wire::OpenAiResponses => Box::new(OpenAiResponsesProvider::new(settings("/v1/")).unwrap()),
    }
}

pub fn provider_with(wire: Wire, server: &ScriptedModel, timeouts: Timeouts) -> Box<dyn Provider> {
    provider_at(wire, &server.base_url(), timeouts)
}

pub async fn rig(wire: Wire) -> (ScriptedModel, Box<dyn Provider>) {
    let server = ScriptedModel::start().await.unwrap();
    server.require_key(KEY);
    let provider = provider_with(wire, &server, Timeouts::default());
    (server, provider)
}

/// The vendor's word and the name of its wire in a message's meta.
pub fn names(wire: Wire) -> (&'static str, &'static str) {
    match wire {
        Wire::Anthropic => ("anthropic", "anthropic-messages"),
        Wire::OpenAiChat => ("openai", "openai-chat"),
        Wire::OpenAiResponses => ("openai-responses", "openai-responses"),
    }
}

/// What the wire can carry of these events.
pub fn carried(wire: Wire, mut events: Vec<ModelEvent>) -> Vec<ModelEvent> {
    if wire == Wire::OpenAiChat {
        let proof = |event: &ModelEvent| {
            matches!(event, ModelEvent::Signature(_) | ModelEvent::RedactedThinking(_))
        };
        events.retain(|event| !proof(event));
    }
    events
}

/// Events with the proof of thinking alone, where the wire wraps it into an item.
pub fn unwrapped(wire: Wire, events: Vec<ModelEvent>) -> Vec<ModelEvent> {
    if wire != Wire::OpenAiResponses {
        return events;
    }
    let sealed = |item: String| {
        let item: Value = serde_json::from_str(&item).unwrap();
        assert_eq!(item["type"], "reasoning");
        item["encrypted_content"].as_str().unwrap().to_owned()
    };
    let unwrap = |event| match event {
        ModelEvent::Signature(item) => ModelEvent::Signature(sealed(item)),
        ModelEvent::RedactedThinking(item) => ModelEvent::RedactedThinking(sealed(item)),
        other => other,
    };
    events.into_iter().map(unwrap).collect()
}

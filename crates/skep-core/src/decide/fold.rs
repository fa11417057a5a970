//! The fold: events of an engine become messages. One assistant message per model call, blocks
//! in the order they happened.

use crate::settings::Profile;
use crate::traits::engine::EngineEvent;
use crate::vocab::event::DeltaPart;
use crate::vocab::message::{Block, Body, Meta, StopReason, Usage};

/// The model call that is under way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fold {
    blocks: Vec<Block>,
    /// Which model call of this lease: a new one voids the deltas of an unfinished one.
    call: u32,
    deltas: u32,
}

/// A provisional piece, numbered inside its model call.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    pub call: u32,
    pub index: u32,
    pub part: DeltaPart,
    pub text: String,
}

impl Fold {
    /// Takes one event in; gives back what a watcher can be shown of it.
    pub fn apply(&mut self, event: EngineEvent) -> Option<Delta> {
        match event {
            EngineEvent::CallStart => {
                self.blocks.clear();
                self.call += 1;
                self.deltas = 0;
                None
            }
            EngineEvent::Text(text) => {
                if let Some(Block::Text { text: open }) = self.blocks.last_mut() {
                    open.push_str(&text);
                } else {
                    self.blocks.push(Block::text(text.clone()));
                }
                self.delta(DeltaPart::Text, text)
            }
            EngineEvent::Thinking(text) => {
                if let Some(Block::Thinking { thinking, signature: None }) = self.blocks.last_mut()
                {
                    thinking.push_str(&text);
                } else {
                    self.blocks.push(Block::Thinking { thinking: text.clone(), signature: None });
                }
                self.delta(DeltaPart::Thinking, text)
            }
            EngineEvent::Signature(signed) => {
                self.sign(signed);
                None
            }
            EngineEvent::RedactedThinking(data) => {
                self.blocks.push(Block::RedactedThinking { data });
                None
            }
            EngineEvent::ToolCall { id, name, arguments } => {
                self.blocks.push(Block::ToolCall { id, name, arguments });
                None
            }
            // The turn takes these before they come here.
            EngineEvent::OwnCall { .. }
            | EngineEvent::ToolResult { .. }
            | EngineEvent::EngineSession { .. }
            | EngineEvent::Raw(_)
            | EngineEvent::Asking(_)
            | EngineEvent::Meta(_)
            | EngineEvent::Retry { .. }
            | EngineEvent::Notice(_)
            | EngineEvent::End(_) => None,
        }
    }

    /// What was said so far, as a message of its own: a call in it is to run, and the model call
    /// may still be under way.
    pub fn cut(&mut self) -> Body {
        Body::assistant(self.take_blocks(), None)
    }

    /// The whole message of a model call that ended.
    pub fn finish(&mut self, meta: Meta) -> Body {
        Body::assistant(self.take_blocks(), Some(meta))
    }

    fn take_blocks(&mut self) -> Vec<Block> {
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.retain(|block| !matches!(block, Block::Text { text } if text.is_empty()));
        blocks
    }

    /// What is kept of a model call that was cut for good: its text, and thinking that was
    /// signed. Calls of an unfinished message never ran and are dropped.
    pub fn partial(&mut self, profile: &Profile, reason: StopReason) -> Option<Body> {
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.retain(|block| match block {
            Block::Text { text } => !text.trim().is_empty(),
            Block::Thinking { signature, .. } => signature.is_some(),
            Block::RedactedThinking { .. } => true,
            Block::ToolCall { .. } => false,
            Block::File(_) => true,
        });
        let spoke = blocks.iter().any(|block| matches!(block, Block::Text { .. }));
        spoke.then(|| {
            let meta = Meta {
                profile: Some(profile.name.clone()),
                provider: profile.provider.clone(),
                model: profile.model.clone(),
                api: String::new(),
                // The vendor counted a cut call too, but never said how much.
                usage: Usage::uncounted(),
                stop_reason: reason,
            };
            Body::assistant(blocks, Some(meta))
        })
    }

    /// What a late watcher is shown of the call under way.
    pub fn so_far(&self) -> (u32, u32, &[Block]) {
        (self.call, self.deltas, &self.blocks)
    }

    fn sign(&mut self, signed: String) {
        match self.blocks.last_mut() {
            Some(Block::Thinking { signature, .. }) if signature.is_none() => {
                *signature = Some(signed);
            }
            // A signature without shown thinking stands for itself.
            _ => self
                .blocks
                .push(Block::Thinking { thinking: String::new(), signature: Some(signed) }),
        }
    }

    fn delta(&mut self, part: DeltaPart, text: String) -> Option<Delta> {
        let index = self.deltas;
        self.deltas += 1;
        Some(Delta { call: self.call, index, part, text })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::KnownModels;
    use crate::vocab::ids::CallId;

    fn meta(stop_reason: StopReason) -> Meta {
        Meta {
            profile: None,
            provider: "p".into(),
            model: "m".into(),
            api: "a".into(),
            usage: Usage::new(1, 2, 0, 0),
            stop_reason,
        }
    }

    fn profile() -> Profile {
        Profile {
            name: "n".into(),
            provider: "p".into(),
            model: "m".into(),
            max_output_tokens: 1,
            thinking: None,
            temperature: None,
            fallback: Vec::new(),
            context_window: None,
            price: None,
            sees_images: false,
            known: KnownModels::NONE,
        }
    }

    fn call(id: &str) -> EngineEvent {
        EngineEvent::ToolCall {
            id: CallId::new(id),
            name: "read".into(),
            arguments: json!({"file_path": "a"}),
        }
    }

    #[test]
    fn blocks_keep_the_order_they_happened_in() {
        let mut fold = Fold::default();
        for event in [
            EngineEvent::CallStart,
            EngineEvent::Thinking("let ".into()),
            EngineEvent::Thinking("me".into()),
            EngineEvent::Signature("sig".into()),
            EngineEvent::Text("I ".into()),
            EngineEvent::Text("look".into()),
            call("c1"),
            EngineEvent::Text("done".into()),
        ] {
            fold.apply(event);
        }
        let body = fold.finish(meta(StopReason::ToolUse));
        assert_eq!(
            body.content,
            vec![
                Block::Thinking { thinking: "let me".into(), signature: Some("sig".into()) },
                Block::text("I look"),
                Block::ToolCall {
                    id: CallId::new("c1"),
                    name: "read".into(),
                    arguments: json!({"file_path": "a"}),
                },
                Block::text("done"),
            ]
        );
    }

    #[test]
    fn a_new_call_voids_the_unfinished_one_and_numbers_its_deltas_anew() {
        let mut fold = Fold::default();
        fold.apply(EngineEvent::CallStart);
        fold.apply(EngineEvent::Text("half".into()));
        fold.apply(EngineEvent::CallStart);
        let delta = fold.apply(EngineEvent::Text("whole".into()));
        let expected = Delta { call: 2, index: 0, part: DeltaPart::Text, text: "whole".to_owned() };
        assert_eq!(delta, Some(expected));
        let body = fold.finish(meta(StopReason::EndTurn));
        assert_eq!(body.content, vec![Block::text("whole")]);
    }

    #[test]
    fn a_cut_keeps_text_and_drops_calls_and_unsigned_thinking() {
        let mut fold = Fold::default();
        fold.apply(EngineEvent::CallStart);
        fold.apply(EngineEvent::Thinking("unsigned".into()));
        fold.apply(EngineEvent::Text("so far".into()));
        fold.apply(call("c1"));
        let body = fold.partial(&profile(), StopReason::Cancelled).unwrap();
        assert_eq!(body.content, vec![Block::text("so far")]);
        assert_eq!(body.meta.unwrap().stop_reason, StopReason::Cancelled);
    }

    #[test]
    fn a_cut_without_a_word_leaves_no_message() {
        let mut fold = Fold::default();
        fold.apply(EngineEvent::CallStart);
        fold.apply(EngineEvent::Thinking("only".into()));
        fold.apply(EngineEvent::Signature("s".into()));
        assert_eq!(fold.partial(&profile(), StopReason::Error), None);
    }
}

//! The model that needs no key: it plays a script the user writes into a message, or a short
//! scene of its own. Always the same answer to the same rows, nothing kept in between.

mod scene;
mod script;

use std::collections::VecDeque;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde_json::Value;
use skep_core::BoxStream;
use skep_core::engine::RetryCode;
use skep_core::ids::CallId;
use skep_core::message::{Meta, StopReason, Usage};
use skep_core::provider::{ModelError, ModelEvent, ModelRequest, Provider};

use crate::failure;
use scene::Scene;
use script::{Fault, Step};

const NAME: &str = "rehearsal";

#[derive(Debug, Clone, Copy, Default)]
pub struct RehearsalProvider;

impl Provider for RehearsalProvider {
    fn id(&self) -> &str {
        NAME
    }

    fn call(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let actions = match perform(&request) {
            Ok(actions) => actions,
            Err(text) => VecDeque::from([Action::Fail(ModelError::Rejected { text })]),
        };
        let next = |mut actions: VecDeque<Action>| async move {
            loop {
                match actions.pop_front()? {
                    Action::Wait(pause) => tokio::time::sleep(pause).await,
                    Action::Emit(event) => return Some((Ok(event), actions)),
                    Action::Fail(error) => return Some((Err(error), VecDeque::new())),
                }
            }
        };
        stream::unfold(actions, next).fuse().boxed()
    }
}

#[derive(Debug)]
enum Action {
    Emit(ModelEvent),
    Wait(Duration),
    Fail(ModelError),
}

/// What this call does. An error is a mistake in the script, told to its author.
fn perform(request: &ModelRequest) -> Result<VecDeque<Action>, String> {
    let scene = Scene::of(request)?;
    let Scene { failed, calls_before, .. } = scene;
    let mut stage = Stage { failed, calls_before, ..Stage::default() };
    let block = scene.part.block(scene.block);
    let instead = block.iter().find(|step| scene.failed && matches!(step, Step::Else(_)));
    for step in instead.map_or(block, slice::from_ref) {
        if !stage.play(step) {
            return Ok(stage.actions);
        }
    }
    let stop_reason = if stage.calls == 0 { StopReason::EndTurn } else { StopReason::ToolUse };
    let meta = Meta {
        profile: None,
        provider: NAME.to_owned(),
        model: NAME.to_owned(),
        api: NAME.to_owned(),
        usage: Usage::new(estimate(input_bytes(request)), estimate(stage.output_bytes), 0, 0),
        stop_reason,
    };
    stage.actions.push_back(Action::Emit(ModelEvent::End(meta)));
    Ok(stage.actions)
}

#[derive(Debug, Default)]
struct Stage {
    actions: VecDeque<Action>,
    /// A call of the block before.
    failed: bool,
    calls_before: usize,
    calls: usize,
    said: usize,
    thought: usize,
    output_bytes: usize,
}

impl Stage {
    /// False: the call ends here, without an end.
    fn play(&mut self, step: &Step) -> bool {
        match step {
            Step::Else(_) if !self.failed => {}
            Step::Say(text) | Step::Else(text) => {
                let text = after(&mut self.said, text);
                self.speak(&text, ModelEvent::Text);
            }
            Step::Think(text) => {
                let text = after(&mut self.thought, text);
                self.speak(&text, ModelEvent::Thinking);
            }
            Step::Call { tool, arguments } => self.call(tool, arguments),
            Step::Wait(pause) => self.actions.push_back(Action::Wait(*pause)),
            Step::Fail(fault) => {
                self.actions.push_back(Action::Fail(error_of(*fault)));
                return false;
            }
        }
        true
    }

    /// Word by word, so that streaming can be seen.
    fn speak(&mut self, text: &str, kind: fn(String) -> ModelEvent) {
        self.output_bytes += text.len();
        for word in text.split_inclusive(' ') {
            self.actions.push_back(Action::Emit(kind(word.to_owned())));
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) {
        self.output_bytes += tool.len() + arguments.to_string().len();
        let id = format!("rehearsal_{}_{}", self.calls_before, self.calls);
        self.calls += 1;
        self.actions.push_back(Action::Emit(ModelEvent::ToolCall {
            id: CallId::new(id),
            name: tool.to_owned(),
            arguments: arguments.clone(),
        }));
    }
}

/// Lines of one block are lines of one text.
fn after(lines: &mut usize, text: &str) -> String {
    *lines += 1;
    if *lines == 1 { text.to_owned() } else { format!("\n{text}") }
}

fn error_of(fault: Fault) -> ModelError {
    match fault {
        Fault::Overloaded => {
            let text = "the rehearsal model plays an overloaded vendor";
            failure::passing(RetryCode::Overloaded, text)
        }
        Fault::Cut => failure::passing(RetryCode::Cut, "the rehearsal model cut its answer off"),
        Fault::Auth => {
            ModelError::Auth { text: "the rehearsal model plays a refused key".to_owned() }
        }
    }
}

fn input_bytes(request: &ModelRequest) -> usize {
    let texts = request.messages.iter().flat_map(|row| &row.body.content);
    let messages: usize = texts
        .map(|block| match block {
            skep_core::message::Block::Text { text } => text.len(),
            _ => 0,
        })
        .sum();
    request.system.shared.len() + request.system.agent.len() + messages
}

/// Nothing is counted in tokens here; four bytes a token is the usual rule of thumb.
fn estimate(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

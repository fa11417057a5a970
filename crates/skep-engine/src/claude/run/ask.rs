//! What the program asks: whether it may make a call, what a person says, calls of our tools.

use serde_json::Value;

use skep_core::engine::{CallPermit, OwnTool, ToolCall, TurnEnd};
use skep_core::ids::CallId;

use super::super::permissions::{self, SERVER, ToolKind};
use super::super::wire::{self, ControlRequest, HookAnswer, HookInput, ToolAsk};
use super::{ClaudeRun, Ended, Held, MOST_CALLS, MOST_OPEN};

/// What the gate is asked for a call of the program.
struct AskedCall {
    call: ToolCall,
    own: Option<OwnTool>,
    /// It is denied, whatever the gate says.
    refusal: Option<String>,
}

impl ClaudeRun {
    pub(super) async fn answer(&mut self, request: String, asks: ControlRequest) -> Ended<()> {
        if self.open.len() + self.waiting.len() >= MOST_OPEN {
            return Err(self.too_much());
        }
        match asks {
            ControlRequest::HookCallback { input } if input.hook_event_name == "PreToolUse" => {
                self.hold(Held::Hook { request, input }).await
            }
            ControlRequest::CanUseTool(ask) => self.ask_person(request, ask).await,
            ControlRequest::McpMessage { server_name, message } if server_name == SERVER => {
                if message.method != "tools/call" {
                    let answer = self.tools.answer(&message);
                    return self.send(wire::mcp(&request, &message.id, answer)).await;
                }
                match self.tools.call(&message.params) {
                    Ok(call) => self.run_ours(request, message.id, call),
                    Err(wrong) => self.send(wire::mcp(&request, &message.id, Err(wrong))).await,
                }
            }
            _ => self.send(wire::refused(&request, "it is not offered here")).await,
        }
    }

    /// At once, or when the message is complete.
    pub(super) async fn hold(&mut self, held: Held) -> Ended<()> {
        if self.limited {
            // No step is left for what comes of it.
            return Ok(());
        }
        if self.held.len() >= MOST_OPEN {
            return Err(self.too_much());
        }
        self.held.push(held);
        match self.course.is_open() {
            true => Ok(()),
            false => self.see_to_held().await,
        }
    }

    pub(super) async fn see_to_held(&mut self) -> Ended<()> {
        for held in std::mem::take(&mut self.held) {
            match held {
                Held::Hook { request, input } => self.permit(request, input).await?,
                Held::Report(report) => self.report(report).await?,
            }
        }
        Ok(())
    }

    async fn permit(&mut self, request: String, input: HookInput) -> Ended<()> {
        let HookInput { tool_name, tool_input, tool_use_id: id, .. } = input;
        let asked = self.asked_call(&tool_name, &tool_input, &id);
        self.remember(&id)?;
        let Some(permit) = self.request.gate.permit(asked.call, asked.own).await else {
            // The turn does not go on here: whoever ends it ends the program.
            return Ok(());
        };
        let answer = match (asked.refusal, permit) {
            (Some(reason), _) | (None, CallPermit::Deny { reason }) => HookAnswer::Deny(reason),
            (None, CallPermit::Allow { arguments }) => {
                HookAnswer::Allow((arguments != tool_input).then_some(arguments))
            }
            (None, CallPermit::Waits(waiting)) => {
                self.waiting.insert(id, waiting);
                HookAnswer::Ask
            }
        };
        self.send(wire::hook_answer(&request, answer)).await
    }

    pub(super) fn too_much(&self) -> TurnEnd {
        self.program().surprise(format!("more than {MOST_OPEN} questions at a time"))
    }

    /// A person is to decide; or the program asks once more for what it has heard already.
    async fn ask_person(&mut self, request: String, ask: ToolAsk) -> Ended<()> {
        let ToolAsk { tool_name, input, tool_use_id: id } = ask;
        let waiting = match self.waiting.remove(&id) {
            Some(waiting) => waiting,
            None => {
                let asked = self.asked_call(&tool_name, &input, &id);
                self.remember(&id)?;
                let permit = self.request.gate.permit(asked.call, asked.own).await;
                match permit {
                    Some(CallPermit::Waits(waiting)) if asked.refusal.is_none() => waiting,
                    None => return Ok(()),
                    permit => {
                        let decided = permissions::decided(permit);
                        let refused = asked.refusal.map(Err);
                        let Some(answer) = refused.or(decided) else { return Ok(()) };
                        return self.send(wire::permission(&request, answer)).await;
                    }
                }
            }
        };
        let Some(process) = &self.process else { return Ok(()) };
        let (lines, to) = (process.lines.clone(), request.clone());
        let open = self.open.spawn(async move {
            if let Some(answer) = permissions::decided(waiting.decided().await) {
                // A program that is gone says so by the end of its output.
                let _ = lines.send(wire::permission(&to, answer)).await;
            }
        });
        self.by_request.insert(request, open);
        Ok(())
    }

    fn run_ours(&mut self, request: String, message: Value, call: ToolCall) -> Ended<()> {
        let Some(process) = &self.process else { return Ok(()) };
        self.asked.insert(call.id.clone());
        let (lines, gate) = (process.lines.clone(), self.request.gate.clone());
        let to = request.clone();
        let open = self.open.spawn(async move {
            let id = call.id.clone();
            let Some(rows) = gate.run(vec![call]).await else { return };
            let result = permissions::call_result(&rows, &id);
            let _ = lines.send(wire::mcp(&to, &message, Ok(result))).await;
        });
        self.by_request.insert(request, open);
        Ok(())
    }

    fn asked_call(&self, name: &str, input: &Value, id: &CallId) -> AskedCall {
        let call = |name: &str| ToolCall {
            id: id.clone(),
            name: name.to_owned(),
            arguments: input.clone(),
        };
        let refused = |reason: String| AskedCall {
            call: call(name),
            own: Some(permissions::refused_tool()),
            refusal: Some(reason),
        };
        if !input.is_object() {
            return refused("bad_arguments: the arguments are no object".to_owned());
        }
        match self.tools.kind(name) {
            ToolKind::Ours(name) => AskedCall { call: call(&name), own: None, refusal: None },
            ToolKind::Own(own) => match permissions::not_offered(&own, input) {
                Some(reason) => refused(reason),
                None => AskedCall { call: call(name), own: Some(own), refusal: None },
            },
            ToolKind::Unknown => refused(format!("unknown_tool: `{name}` is not offered here")),
        }
    }

    pub(super) fn remember(&mut self, id: &CallId) -> Ended<()> {
        if self.asked.len() >= MOST_CALLS {
            return Err(self.program().surprise(format!("more than {MOST_CALLS} calls")));
        }
        self.asked.insert(id.clone());
        self.by_request.retain(|_, open| !open.is_finished());
        Ok(())
    }
}

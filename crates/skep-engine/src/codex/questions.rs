//! What the program asks while a turn runs, each question in a task of its own: one that waits for
//! a person keeps no other.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use skep_core::engine::{CallPermit, Gate, ToolCall};
use skep_core::ids::CallId;

use super::live::Live;
use super::map::Map;
use super::permissions::{self, OwnCall};
use super::wire::{self, ApprovalKind, CommandApproval, FileApproval, ToolRequest};

/// A question, by what becomes of it.
pub(super) enum Asked {
    /// The gate is asked for all of these.
    Permits(Vec<OwnCall>),
    /// The gate runs a tool of ours.
    Runs(ToolCall),
    /// Not permitted, without a question to anyone: for this reason.
    Refused(String),
    /// Nobody here answers such questions.
    Unknown,
}

/// What is to be answered.
pub(super) enum Verdict {
    Permit(Result<(), String>),
    Result { text: String, images: Vec<String>, is_error: bool },
}

/// What is asked; the error says what nobody expected.
pub(super) fn read(
    method: &str,
    params: &RawValue,
    live: &Live,
    map: &mut Map,
) -> Result<Asked, String> {
    let asks = match method {
        "item/commandExecution/requestApproval" => {
            let asked: CommandApproval = wire::read(method, params)?;
            match asked.thread_id == live.thread {
                true => command(&asked, live, map),
                false => return Ok(Asked::Unknown),
            }
        }
        "item/fileChange/requestApproval" => {
            let asked: FileApproval = wire::read(method, params)?;
            match asked.grant_root {
                _ if asked.thread_id != live.thread => return Ok(Asked::Unknown),
                Some(_) => Err(map.refuse(&asked.item_id, permissions::NOTHING_MORE)),
                None => map.asks(&asked.item_id, None),
            }
        }
        "item/tool/call" => {
            let asked: ToolRequest = wire::read(method, params)?;
            if asked.thread_id != live.thread || asked.namespace.is_some() {
                return Ok(Asked::Unknown);
            }
            let ToolRequest { call_id, tool, arguments, .. } = asked;
            return Ok(Asked::Runs(ToolCall { id: CallId::new(call_id), name: tool, arguments }));
        }
        _ => return Ok(Asked::Unknown),
    };
    Ok(asks.map_or_else(Asked::Refused, Asked::Permits))
}

fn command(asked: &CommandApproval, live: &Live, map: &mut Map) -> Result<Vec<OwnCall>, String> {
    if asked.kind != ApprovalKind::Command {
        return Err(permissions::NO_INPUT.to_owned());
    }
    if asked.additional_permissions.is_some() || asked.network_approval_context.is_some() {
        return Err(map.refuse(&asked.item_id, permissions::NOTHING_MORE));
    }
    let (command, folder) = (asked.command.as_deref(), asked.cwd.as_deref());
    let (command, folder) = (command.unwrap_or_default(), folder.unwrap_or_default());
    let call = permissions::of_command(&asked.item_id, command, folder, &live.key.workspace);
    map.asks(&asked.item_id, Some(call.map(|call| vec![call])))
}

/// Asks for all calls of one question before any decision is waited for. `None`: the turn does not
/// go on here.
pub(super) async fn permit(gate: Gate, calls: Vec<OwnCall>) -> Option<Verdict> {
    let mut permits = Vec::with_capacity(calls.len());
    for OwnCall { call, own } in calls {
        permits.push(gate.permit(call, Some(own)).await?);
    }
    let mut all = Ok(());
    for mut permit in permits {
        if let CallPermit::Waits(waiting) = permit {
            permit = waiting.decided().await?;
        }
        match permit {
            CallPermit::Allow { .. } => {}
            CallPermit::Deny { reason } => all = Err(reason),
            CallPermit::Waits(_) => return None,
        }
    }
    Some(Verdict::Permit(all))
}

/// As [`permit`], for a tool of ours.
pub(super) async fn run(gate: Gate, call: ToolCall) -> Option<Verdict> {
    let rows = gate.run(vec![call]).await?;
    let body = &rows.last()?.body;
    let images = body.files().filter(|file| file.is_image()).filter_map(|file| {
        let data = file.data.as_ref()?.to_base64();
        Some(format!("data:{};base64,{data}", file.mime))
    });
    let (text, is_error) = (body.plain_text(), body.is_error == Some(true));
    Some(Verdict::Result { text, images: images.collect(), is_error })
}

impl Verdict {
    /// As the program is answered.
    pub fn answer(&self) -> Value {
        match self {
            Self::Permit(Ok(())) => json!({"decision": "accept"}),
            Self::Permit(Err(_)) => json!({"decision": "decline"}),
            Self::Result { text, images, is_error } => {
                let text = json!({"type": "inputText", "text": text});
                let image = |url| json!({"type": "inputImage", "imageUrl": url});
                let items: Value = std::iter::once(text).chain(images.iter().map(image)).collect();
                json!({"contentItems": items, "success": !is_error})
            }
        }
    }
}

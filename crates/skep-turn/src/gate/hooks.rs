//! Runs the hooks of a call, one after the other. Whatever goes wrong with one counts as a no.

use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use skep_core::BoxFuture;
use skep_core::engine::ToolCall;
use skep_core::hook::{After, Before, Hook, HookedCall};
use skep_core::tool::{ToolAnswer, ToolContext};

use super::chain::{Chain, Stage};
use super::{End, GateRefusal};

/// A hook may take this long.
const TIME: Duration = Duration::from_secs(5);

/// The arguments as the hooks leave them; `None` where none changed them.
pub(super) async fn before(
    hooks: &[Hook],
    tool: &str,
    call: &ToolCall,
    context: &ToolContext,
    chain: &mut Chain,
) -> Result<Option<Value>, GateRefusal> {
    let mut rewritten = None;
    for hook in hooks.iter().filter(|hook| hook.is_for(&context.agent)) {
        let Some(look) = &hook.before else { continue };
        let arguments = rewritten.as_ref().unwrap_or(&call.arguments).clone();
        let wish = look(hooked(tool, call, context, arguments));
        match in_time(wish, &context.cancel).await {
            Looked::Said(Before::Go) => {}
            Looked::Said(Before::Rewrite(arguments)) => {
                chain.note(Stage::Before, format!("rewritten by {}", hook.name));
                rewritten = Some(arguments);
            }
            Looked::Said(Before::Veto(why)) => {
                chain.note(Stage::Before, format!("refused: by {}", hook.name));
                let text = format!(
                    "hook_veto: the call of `{}` was not run: {} does not want it: {why}",
                    call.name, hook.name
                );
                return Err(GateRefusal::new(text));
            }
            Looked::Failed(why) => {
                chain.note(Stage::Before, format!("refused: {} failed", hook.name));
                let text = format!(
                    "hook_failed: the call of `{}` was not run: {} looks at calls first, and it \
                     {why}. The operator has to mend it.",
                    call.name, hook.name
                );
                return Err(GateRefusal::new(text));
            }
            Looked::Ended => {
                chain.note(Stage::Before, "the turn ended");
                let text = "cancelled: the call did not run, because the turn ended".to_owned();
                return Err(GateRefusal { text, end: End::NotRun });
            }
        }
    }
    Ok(rewritten)
}

/// The answer as the hooks leave it. The call has run: what they refuse is only withheld.
pub(super) async fn after(
    hooks: &[Hook],
    tool: &str,
    call: &ToolCall,
    arguments: &Value,
    context: &ToolContext,
    answer: ToolAnswer,
    chain: &mut Chain,
) -> ToolAnswer {
    let ToolAnswer::Done { mut text, mut is_error, mut details, mut files } = answer else {
        return answer;
    };
    for hook in hooks.iter().filter(|hook| hook.is_for(&context.agent)) {
        let Some(look) = &hook.after else { continue };
        let wish = look((hooked(tool, call, context, arguments.clone()), text.clone()));
        // The turn may have ended by now; what was done is still looked at.
        let withheld = match in_time(wish, &CancellationToken::new()).await {
            Looked::Said(After::Keep) => continue,
            Looked::Said(After::Replace(other)) => {
                chain.note(Stage::After, format!("replaced by {}", hook.name));
                (text, details, files) = (other, None, Vec::new());
                continue;
            }
            Looked::Said(After::Withhold(why)) => why,
            Looked::Failed(why) => format!("it {why}"),
            Looked::Ended => "the turn ended".to_owned(),
        };
        chain.note(Stage::After, format!("withheld by {}", hook.name));
        text = format!(
            "answer_withheld: the call of `{}` ran, and {} keeps its answer back: {withheld}",
            call.name, hook.name
        );
        (is_error, details, files) = (true, None, Vec::new());
    }
    ToolAnswer::Done { text, is_error, details, files }
}

fn hooked(tool: &str, call: &ToolCall, context: &ToolContext, arguments: Value) -> HookedCall {
    HookedCall {
        agent: context.agent.clone(),
        requester: context.requester.clone(),
        turn: context.turn.clone(),
        call: call.id.clone(),
        tool: tool.to_owned(),
        arguments,
    }
}

enum Looked<T> {
    Said(T),
    Failed(String),
    /// The turn ended meanwhile.
    Ended,
}

/// In a task of its own, so that a hook that panics ends no turn.
async fn in_time<T: Send + 'static>(
    wish: BoxFuture<'static, Result<T, String>>,
    cancel: &CancellationToken,
) -> Looked<T> {
    let mut task = tokio::spawn(wish);
    let looked = tokio::select! {
        said = &mut task => match said {
            Ok(Ok(said)) => return Looked::Said(said),
            Ok(Err(why)) => Looked::Failed(format!("failed: {why}")),
            Err(_) => Looked::Failed("broke".to_owned()),
        },
        () = tokio::time::sleep(TIME) => {
            Looked::Failed(format!("did not answer within {} s", TIME.as_secs()))
        }
        () = cancel.cancelled() => Looked::Ended,
    };
    task.abort();
    looked
}

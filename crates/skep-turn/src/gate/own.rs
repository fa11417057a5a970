//! Calls of tools that the engine runs itself: the same stages up to the start, and from the result
//! on. What lies between is the engine's.

use std::sync::Arc;

use serde_json::Value;

use skep_core::engine::{OwnTool, Rewrite, ToolCall};
use skep_core::policy::{AgentReach, Class};
use skep_core::provider::ToolSpec;
use skep_core::tool::{Manner, Prepared, Tool, ToolAnswer, ToolContext};
use skep_shell::plain;

use super::chain::Stage;
use super::{CallOutcome, ClearedCall, End, GateEnv, GateRefusal};

/// What an engine may run.
pub(crate) enum ForEngine {
    Allowed(Box<ClearedCall>, Value),
    Ended(Box<CallOutcome>),
}

impl GateEnv<'_> {
    /// The arguments that an engine is to run a call with. One that cannot take others than its own
    /// is told to call again with them.
    pub async fn for_engine(
        &self,
        call: &ToolCall,
        mut cleared: Box<ClearedCall>,
        rewrite: Option<Rewrite>,
        context: &ToolContext,
    ) -> ForEngine {
        let mut arguments = cleared.arguments.as_ref().unwrap_or(&call.arguments).clone();
        if let Some(line) = &cleared.run_as {
            let line = match rewrite {
                Some(Rewrite) => line.as_str(),
                // What it calls with again has to be what was judged, and nothing around it.
                None => plain::without_prologue(line).trim_end(),
            };
            arguments["command"] = Value::String(line.to_owned());
        }
        if rewrite.is_some() || arguments == call.arguments {
            return ForEngine::Allowed(cleared, arguments);
        }
        cleared.chain.note(Stage::Run, "refused: the engine takes no changed arguments");
        let text = format!(
            "changed_arguments: the call of `{}` was not run as it is. Call again with {arguments}",
            call.name
        );
        let tool = self.own_name(call, cleared.own.as_ref());
        let (seen, refused) = (cleared.seen(tool), GateRefusal::new(text));
        ForEngine::Ended(Box::new(self.refused(call, context, seen, refused).await))
    }

    /// Ends a call that the engine ran, with what it says of it. `None`: it was interrupted, and
    /// whatever the engine says, nobody knows what came of it.
    pub async fn reported(
        &self,
        call: &ToolCall,
        cleared: ClearedCall,
        context: &ToolContext,
        answer: Option<ToolAnswer>,
    ) -> CallOutcome {
        let tool = self.own_name(call, cleared.own.as_ref());
        let seen = cleared.seen(tool);
        let (answer, end) = match answer {
            Some(answer) => (answer, End::Answered),
            None => (ToolAnswer::error("interrupted"), End::Cut),
        };
        self.after_run(call, context, seen, answer, end).await
    }
}

/// A tool of the engine, for the stages that look at one.
pub(super) fn tool(own: &OwnTool) -> Arc<dyn Tool> {
    let spec =
        ToolSpec { name: own.key.clone(), description: String::new(), input_schema: Value::Null };
    Arc::new(EngineTool { spec, class: own.class })
}

struct EngineTool {
    spec: ToolSpec,
    class: Class,
}

impl Tool for EngineTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        Manner::effect(self.class)
    }

    /// Its types are the engine's business, and it never runs here.
    fn prepare(&self, _: Value) -> Result<Prepared, String> {
        let answer = || ToolAnswer::error("tool_failed: only the engine can run this tool");
        Ok(Box::new(move |_| Box::pin(async move { answer() })))
    }
}

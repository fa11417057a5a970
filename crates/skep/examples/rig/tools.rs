//! Tools for tests: with an effect that is counted, that wait, that start processes, that break.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::BoxFuture;
use skep_core::decision::Decision;
use skep_core::policy::{AgentReach, Class};
use skep_core::provider::ToolSpec;
use skep_core::tool::{Manner, Prepared, Tool, ToolAnswer, ToolContext};
use skep_guard::duplex::{DuplexProgram, DuplexRecords};
use skep_guard::network::RoomNetwork;
use skep_guard::process::{self, Invocation, Job};
use skep_guard::sandbox::{Counting, Level, Sandbox, SandboxRoom, Settings};
use skep_testkit::effects::Effects;

pub const NAMES: &[&str] = &[
    "read",
    "write",
    "edit",
    "glob",
    "grep",
    "bash",
    "web_fetch",
    "effect",
    "ask_person",
    "spawn",
    "look",
    "boom",
    "flood",
    "deaf",
    "hang",
    "reach",
    "shape",
    "reshape",
    "child",
];

/// Where effects are counted: outside the home, named by the test.
const EFFECTS: &str = "RIG_EFFECTS";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default)]
    text: String,
    #[serde(default)]
    ms: u64,
}

type Body = fn(Arguments, ToolContext) -> BoxFuture<'static, ToolAnswer>;

struct RigTool {
    spec: ToolSpec,
    manner: Manner,
    body: Body,
}

impl Tool for RigTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        self.manner
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let arguments: Arguments =
            serde_json::from_value(arguments).map_err(|error| error.to_string())?;
        let body = self.body;
        Ok(Box::new(move |context| body(arguments, context)))
    }
}

/// A tool that looks, of a source.
pub fn look(name: &str) -> Arc<dyn Tool> {
    tool(name, true, |arguments, _| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(arguments.ms)).await;
            ToolAnswer::ok(format!("looked at {}", arguments.text))
        })
    })
}

fn tool(name: &str, retry_safe: bool, body: Body) -> Arc<dyn Tool> {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: format!("Rig tool {name}."),
        input_schema: json!({
            "type": "object",
            "properties": {"text": {"type": "string"}, "ms": {"type": "integer"}},
            "additionalProperties": false,
        }),
    };
    let manner = match name {
        "reach" => Manner::effect(Class::Reach),
        "shape" => Manner::effect(Class::Shape),
        "reshape" => Manner::keyed(Class::Shape),
        "spawn" | "child" => Manner::effect(Class::Run),
        _ if retry_safe => Manner::READ,
        _ => Manner::effect(Class::Write),
    };
    Arc::new(RigTool { spec, manner, body })
}

pub fn all() -> Vec<Arc<dyn Tool>> {
    vec![
        tool("effect", false, |arguments, context| Box::pin(effect(arguments, context))),
        tool("ask_person", false, |arguments, context| Box::pin(ask(arguments, context))),
        tool("spawn", false, |arguments, context| Box::pin(spawn(arguments, context))),
        tool("child", false, |arguments, context| Box::pin(child(arguments, context))),
        look("look"),
        tool("boom", false, |_, _| Box::pin(async { panic!("boom") })),
        tool("flood", true, |arguments, _| {
            let size = usize::try_from(arguments.ms).unwrap();
            Box::pin(async move { ToolAnswer::ok("é".repeat(size)) })
        }),
        tool("reach", false, |arguments, context| Box::pin(effect(arguments, context))),
        tool("shape", false, |arguments, context| Box::pin(effect(arguments, context))),
        tool("reshape", true, |arguments, context| Box::pin(effect(arguments, context))),
        tool("deaf", false, |_, _| Box::pin(std::future::pending())),
        tool("hang", true, |_, context| {
            Box::pin(async move {
                context.cancel.cancelled().await;
                ToolAnswer::error("told to end")
            })
        }),
    ]
}

/// Counts one effect of this call, before or in the middle of the time it takes.
async fn effect(arguments: Arguments, context: ToolContext) -> ToolAnswer {
    count(&context);
    tokio::time::sleep(Duration::from_millis(arguments.ms)).await;
    ToolAnswer::ok(format!("done {}", arguments.text))
}

async fn ask(arguments: Arguments, context: ToolContext) -> ToolAnswer {
    match &context.decision {
        Some(Decision::Tool(decision)) => {
            count(&context);
            ToolAnswer::ok(format!("decided {decision}"))
        }
        _ => ToolAnswer::Wait { reason: format!("a decision on: {}", arguments.text) },
    }
}

/// A child with a grandchild and one in a session of its own; all carry the text as a mark.
async fn spawn(arguments: Arguments, context: ToolContext) -> ToolAnswer {
    let mark = &arguments.text;
    let script = format!("sleep 600 {mark} & setsid sleep 600 {mark} & wait; : {mark}");
    let script = script.replace(
        &format!("sleep 600 {mark}"),
        &format!("sh -c 'trap \"\" TERM; while :; do sleep 1; done' {mark}"),
    );
    let job = Job {
        invocation: Invocation {
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            directory: context.workspace.clone(),
            environment: Vec::new(),
        },
        input: Vec::new(),
        output_bytes: 1024,
        timeout: None,
    };
    match process::run(job, &context.cancel).await {
        Ok(output) => ToolAnswer::ok(format!("{:?}", output.ending)),
        Err(error) => ToolAnswer::error(error.to_string()),
    }
}

/// The testkit's unruly child behind walls, listened to for as long as `ms` says or to its end.
/// The first word says who counts what it takes.
async fn child(arguments: Arguments, context: ToolContext) -> ToolAnswer {
    static SANDBOXES: LazyLock<[Sandbox; 2]> =
        LazyLock::new(|| [Counting::Kernel, Counting::Watchdog].map(small_sandbox));
    let (counting, mode) = arguments.text.split_once(' ').unwrap();
    let sandbox = &SANDBOXES[usize::from(counting == "watchdog")];
    let program = context.workspace.join("unruly");
    let program = DuplexProgram::new(program, mode.split(' ').map(Into::into).collect());
    let room = SandboxRoom {
        workspace: context.workspace.clone(),
        read_only: Vec::new(),
        network: RoomNetwork::None,
    };
    let records = DuplexRecords::new(context.workspace.join("children"));
    let name = context.call.to_string();
    let mut child = match records.start(&name, sandbox, program, &room).await {
        Ok(child) => child,
        Err(error) => return ToolAnswer::error(error.to_string()),
    };
    let heard = async { while !matches!(child.line().await, Ok(None)) {} };
    let _ = tokio::time::timeout(Duration::from_millis(arguments.ms), heard).await;
    match child.end().await {
        Ok(end) => ToolAnswer::ok(format!("{:?}", end.ending)),
        Err(error) => ToolAnswer::error(error.to_string()),
    }
}

fn small_sandbox(counting: Counting) -> Sandbox {
    let mut settings = Settings::new(Level::Confined, Vec::new());
    settings.counting = counting;
    settings.limits.memory_bytes = 128 << 20;
    settings.limits.disk_bytes = 96 << 20;
    Sandbox::new(settings)
}

fn count(context: &ToolContext) {
    let path = std::env::var(EFFECTS).unwrap();
    let call = format!("{}/{}", context.turn, context.call);
    Effects::at(Path::new(&path)).record(&call).unwrap();
}

//! `bash`: a shell command in the sandbox.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::policy::network::NetworkRules;
use skep_core::policy::{AgentReach, Class};
use skep_core::provider::ToolSpec;
use skep_core::settings::{AgentSettings, SandboxNetwork, SandboxSettings};
use skep_core::tool::{Manner, Prepared, ProgramReach, Tool, ToolAnswer, ToolContext};
use skep_guard::egress::{Egress, EgressHub};
use skep_guard::network::{Contact, ProgramNetwork, RoomNetwork};
use skep_guard::process::{Captured, Ending, JobOutput};
use skep_guard::sandbox::{Sandbox, SandboxRoom, ShellCommand};
use skep_guard::work;

use crate::jobs::{self, Background, Jobs};
use crate::spec::{self, spec, text, yes_or_no};

const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// Spec 05 §3.
const MOST_TIMEOUT_MS: u64 = 600_000;
/// How long a command may run in the background: until its session ends, and not beyond this.
const BACKGROUND: Duration = Duration::from_secs(3600);
/// Kept of a command's output: its beginning and its end. The gate shows as much of it as it may
/// and keeps the rest in a file.
const OUTPUT_BYTES: usize = 4 << 20;
/// Kept of what a command in the background says: its beginning and its end.
const BACKGROUND_BYTES: usize = 256 << 10;

/// Of a flood as much as is looked through at once, and the room for what is said about it.
const PIECE: usize = 64 << 10;
const NOTES: usize = 1024;

const TOOL: &str = "bash";
/// Hosts that are named to the model.
const NAMED_HOSTS: usize = 40;

const USE: &str = "bash takes command (text) with timeout_ms (a whole number) and background (true \
                   or false), or output_of (a job's id), or stop (a job's id)";

pub struct BashTool {
    spec: ToolSpec,
    sandbox: Arc<Sandbox>,
    hub: Arc<EgressHub>,
    jobs: Arc<Jobs>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    command: Option<String>,
    timeout_ms: Option<u64>,
    background: Option<bool>,
    output_of: Option<String>,
    stop: Option<String>,
}

/// What is asked for.
enum Wish {
    Run(ShellCommand),
    Start(ShellCommand),
    Look(String),
    Stop(String),
}

impl BashTool {
    pub fn new(sandbox: Arc<Sandbox>, hub: Arc<EgressHub>) -> Self {
        let description = "Runs a command line with bash in the workspace, inside a sandbox: the \
             workspace can be written, programs of the system can be used. What it starts ends \
             with it. Answers with its output and exit code. With background it answers at \
             once with a job's id, and the command goes on until the session ends: \
             output_of shows what the job has said so far and waits a little where that is \
             nothing new, stop ends it.";
        let properties = json!({
            "command": text("The command line."),
            "timeout_ms": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_TIMEOUT_MS,
                "description": "Most milliseconds it may take. Default: 120000, in the \
                                background one hour.",
            },
            "background": yes_or_no("Start it and answer at once. Default: false."),
            "output_of": text("Instead of command: the id of a job to look at."),
            "stop": text("Instead of command: the id of a job to end."),
        });
        let spec = spec(TOOL, description, properties, &[]);
        Self { spec, sandbox, hub, jobs: Arc::default() }
    }
}

impl Tool for BashTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, arguments: &Value, _: AgentReach<'_>) -> Manner {
        match arguments.get("output_of") {
            Some(Value::String(_)) => Manner::POLL,
            _ => Manner::effect(Class::Run),
        }
    }

    fn aliases(&self) -> &[&'static str] {
        &["Bash"]
    }

    fn note(&self, agent: &AgentSettings) -> String {
        reach(&agent.sandbox, &agent.policy.network)
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let wish = wish(spec::read(arguments, USE)?)?;
        let (sandbox, jobs) = (Arc::clone(&self.sandbox), Arc::clone(&self.jobs));
        let hub = Arc::clone(&self.hub);
        Ok(Box::new(move |context| {
            Box::pin(async move {
                let answered = match wish {
                    Wish::Run(command) => run(&sandbox, &hub, command, &context).await,
                    Wish::Start(command) => {
                        let room = room(&context, &hub);
                        start(&sandbox, &jobs, command, room, &context).await
                    }
                    Wish::Look(id) => match jobs.find(&context, &id) {
                        Ok(job) => {
                            job.news(&context.cancel).await;
                            Ok(look(&job))
                        }
                        Err(refused) => Err(refused),
                    },
                    Wish::Stop(id) => stop(&jobs, &id, &context).await,
                };
                answered.unwrap_or_else(ToolAnswer::error)
            })
        }))
    }
}

fn wish(arguments: Arguments) -> Result<Wish, String> {
    let Arguments { command, timeout_ms, background, output_of, stop } = arguments;
    let alone = timeout_ms.is_none() && background.is_none();
    let line = match (command, output_of, stop) {
        (Some(line), None, None) => line,
        (None, Some(id), None) if alone => return Ok(Wish::Look(id)),
        (None, None, Some(id)) if alone => return Ok(Wish::Stop(id)),
        _ => return Err(format!("{USE}: exactly one of the three")),
    };
    if line.trim().is_empty() {
        return Err("command is empty".to_owned());
    }
    if line.contains('\0') {
        return Err("command holds a zero byte".to_owned());
    }
    if timeout_ms.is_some_and(|timeout| timeout == 0 || timeout > MOST_TIMEOUT_MS) {
        return Err(format!("timeout_ms is between 1 and {MOST_TIMEOUT_MS}"));
    }
    let timeout = timeout_ms.map(Duration::from_millis);
    Ok(match background {
        Some(true) => Wish::Start(ShellCommand {
            line,
            timeout: timeout.unwrap_or(BACKGROUND),
            output_bytes: BACKGROUND_BYTES,
        }),
        Some(false) | None => Wish::Run(ShellCommand {
            line,
            timeout: timeout.unwrap_or(Duration::from_millis(DEFAULT_TIMEOUT_MS)),
            output_bytes: OUTPUT_BYTES,
        }),
    })
}

type Answered = Result<ToolAnswer, String>;

async fn run(
    sandbox: &Sandbox,
    hub: &Arc<EgressHub>,
    command: ShellCommand,
    context: &ToolContext,
) -> Answered {
    let sandbox = sandbox.under(&context.sandbox);
    let output = sandbox.run(command, &room(context, hub), &context.cancel).await;
    let output = output.map_err(|error| error.to_string())?;
    // Off the async threads: a long output that is no text takes its time.
    let answered = work::spawn(move || match (answer(&output), output.ending) {
        (ToolAnswer::Done { text, details, .. }, Ending::Cancelled) => {
            ToolAnswer::Cut { text, details }
        }
        (answer, _) => answer,
    });
    answered.await.map_err(|_| "the hive is shutting down".to_owned())
}

async fn start(
    sandbox: &Sandbox,
    jobs: &Jobs,
    command: ShellCommand,
    room: SandboxRoom,
    context: &ToolContext,
) -> Answered {
    let sandbox = sandbox.under(&context.sandbox);
    sandbox.ready(&room.network).await.map_err(|error| error.to_string())?;
    let job = jobs.start(context, sandbox, command, room)?;
    let text = format!(
        "started {0}. It runs until it ends, is stopped, or this session ends; at most {1} run at \
         the same time. Its output: bash {{\"output_of\": \"{0}\"}}; its end: bash {{\"stop\": \
         \"{0}\"}}",
        job.id,
        jobs::MOST_RUNNING
    );
    let details = Some(json!({ "job": job.id }));
    Ok(ToolAnswer::Done { text, is_error: false, details, files: Vec::new() })
}

async fn stop(jobs: &Jobs, id: &str, context: &ToolContext) -> Answered {
    let job = jobs.find(context, id)?;
    Jobs::stop(&job).await?;
    let ToolAnswer::Done { text, details, .. } = look(&job) else {
        return Err(format!("{id} has no answer"));
    };
    // That it was ended is what was asked for.
    Ok(ToolAnswer::Done { text, is_error: false, details, files: Vec::new() })
}

/// What a job has said, and how it stands.
fn look(job: &Background) -> ToolAnswer {
    match job.ending() {
        Some(Ok(output)) => answer(output),
        Some(Err(error)) => ToolAnswer::error(error.to_string()),
        None => {
            let so_far = shown(&job.look());
            let mut text = skep_scrub::known().finished(&so_far).to_owned();
            end_line(&mut text);
            text.push_str(&format!("[{} still runs]", job.id));
            ToolAnswer::ok(text)
        }
    }
}

struct CommandNetwork {
    hub: Arc<EgressHub>,
    agent: i64,
    reach: Arc<dyn ProgramReach>,
}

impl ProgramNetwork for CommandNetwork {
    fn egress(self: Arc<Self>) -> Arc<Egress> {
        self.hub.of(self.agent, &self.reach.rules())
    }

    fn contact(&self, contact: &Contact) {
        self.reach.contact(TOOL, &contact.host, contact.verdict());
    }
}

fn room(context: &ToolContext, hub: &Arc<EgressHub>) -> SandboxRoom {
    SandboxRoom {
        workspace: context.workspace.clone(),
        read_only: context.read_only().cloned().collect(),
        network: match context.sandbox.network {
            SandboxNetwork::None => RoomNetwork::None,
            SandboxNetwork::Proxy => {
                let (agent, reach) = (context.agent_id.0, Arc::clone(&context.reach));
                RoomNetwork::Proxy(Arc::new(CommandNetwork { hub: Arc::clone(hub), agent, reach }))
            }
            SandboxNetwork::Full => RoomNetwork::Full,
        },
    }
}

/// What a command reaches, for the model.
fn reach(sandbox: &SandboxSettings, rules: &NetworkRules) -> String {
    let listed = match sandbox.reached() {
        SandboxNetwork::None => return "There is no network.".to_owned(),
        SandboxNetwork::Full => return "Network: whatever this machine reaches.".to_owned(),
        SandboxNetwork::Proxy => rules.listed(),
    };
    if listed.is_empty() {
        return "There is no network: no host is listed for you.".to_owned();
    }
    let mut shown = listed[..listed.len().min(NAMED_HOSTS)].join(", ");
    if listed.len() > NAMED_HOSTS {
        shown.push_str(&format!(" and {} more", listed.len() - NAMED_HOSTS));
    }
    let except = match rules.deny.is_empty() {
        true => String::new(),
        false => {
            let denied: Vec<String> =
                rules.deny.iter().take(NAMED_HOSTS).map(ToString::to_string).collect();
            format!(", never {}", denied.join(", "))
        }
    };
    format!(
        "Network: over http and https these hosts by their names, and nothing else: \
         {shown}{except}. No proxy, ssh or UDP."
    )
}

fn answer(output: &JobOutput) -> ToolAnswer {
    let mut text = shown(&output.stdout);
    end_line(&mut text);
    if output.stdout.dropped > 0 {
        let (dropped, whole) = (output.stdout.dropped, output.stdout.all());
        text.push_str(&format!("[{dropped} of {whole} bytes were not kept]\n"));
    }
    let (note, code) = match &output.ending {
        Ending::Exited { code } => (format!("[exit code {code}]"), Some(*code)),
        Ending::Signalled { signal } => (format!("[ended by signal {signal}]"), None),
        Ending::TimedOut => ("[timed out; everything it had started was ended]".to_owned(), None),
        Ending::Cancelled => ("[cancelled; everything it had started was ended]".to_owned(), None),
        Ending::OverLimit { what } => {
            (format!("[ended: it took more {what} than the sandbox allows]"), None)
        }
    };
    text.push_str(&note);
    let mut details = json!({ "exit_code": code });
    if !output.contacts.is_empty() {
        push_blocked(&mut text, &output.contacts);
        details["network"] = output.contacts.iter().map(verdict).collect();
    }
    // Of an output that was not kept whole nobody knows.
    if output.stdout.dropped == 0 {
        details["lines"] = json!(line_count(&output.stdout.bytes));
    }
    if output.ending == Ending::Cancelled {
        details["outcome"] = json!("stopped");
    }
    let (is_error, files) = (code != Some(0), Vec::new());
    ToolAnswer::Done { text, is_error, files, details: Some(details) }
}

/// As the audit trail has it.
fn verdict(contact: &Contact) -> Value {
    json!({ "host": contact.host, "verdict": contact.verdict() })
}

/// The result ends with what was blocked: programs rarely say why they did not get through.
fn push_blocked(text: &mut String, contacts: &[Contact]) {
    let blocked = contacts.iter().filter_map(|it| Some((it, it.refusal.as_ref()?)));
    for (contact, refusal) in blocked.clone().take(NAMED_HOSTS) {
        let (host, code, why) = (&contact.host, refusal.code, &refusal.why);
        let became = if refusal.is_failure() { "failed" } else { "was blocked" };
        text.push_str(&format!("\n[network: {host} {became} ({code}): {why}]"));
    }
    let more = blocked.count().saturating_sub(NAMED_HOSTS);
    if more > 0 {
        text.push_str(&format!("\n[network: {more} more hosts were blocked]"));
    }
}

/// A last line without an end is one, too.
fn line_count(bytes: &[u8]) -> usize {
    let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
    ends + usize::from(bytes.last().is_some_and(|last| *last != b'\n'))
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

fn shown(captured: &Captured) -> String {
    let (head, tail) = captured.bytes.split_at(captured.gap.min(captured.bytes.len()));
    // Made once: a flood that is no text is three times as long as its bytes.
    let mut text = String::with_capacity(shown_length(&captured.bytes) + NOTES);
    if captured.dropped == 0 {
        each_part(&captured.bytes, |part| text.push_str(part));
        return text;
    }
    // Next to what is missing may be a part of a secret, which would not be known for one.
    let known = skep_scrub::known();
    let (mut stream, mut piece) = (skep_scrub::Stream::default(), String::new());
    each_part(head, |part| {
        piece.push_str(part);
        if piece.len() >= PIECE {
            text.push_str(&stream.push(known, std::mem::take(&mut piece)));
        }
    });
    text.push_str(&stream.push(known, piece));
    text.push_str(&format!(
        "\n[{} bytes and what is next to them are missing]\n",
        captured.dropped
    ));
    let reached = &tail[known.reach().min(tail.len())..];
    let line = reached.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    each_part(&reached[line..], |part| text.push_str(part));
    text
}

/// The bytes as text, part by part. What is none has a mark in its place.
fn each_part(bytes: &[u8], mut take: impl FnMut(&str)) {
    for chunk in bytes.utf8_chunks() {
        take(chunk.valid());
        if !chunk.invalid().is_empty() {
            take("\u{fffd}");
        }
    }
}

fn shown_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    each_part(bytes, |part| length += part.len());
    length
}

//! `Tool`: a hand of an agent. A failure is an answer, never a crash. Only the gate runs one.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use secrecy::SecretString;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::BoxFuture;
use crate::policy::host::WebAddress;
use crate::policy::network::NetworkRules;
use crate::policy::pattern::host_of;
use crate::policy::{AgentReach, Class};
use crate::settings::{AgentSettings, SandboxSettings};
use crate::traits::provider::ToolSpec;
use crate::vocab::cause::CallRef;
use crate::vocab::decision::Decision;
use crate::vocab::file::File;
use crate::vocab::ids::{AgentId, AgentName, CallId, Principal, SessionId, SessionKey, TurnId};

pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;

    /// What a call of it with these arguments does to the world.
    fn manner(&self, arguments: &Value, of: AgentReach<'_>) -> Manner;

    /// Whether it is there for the agent as its settings are; else it is not, whatever its list
    /// says.
    fn serves(&self, _: &AgentSettings) -> bool {
        true
    }

    /// What the agent's settings add to its description.
    fn note(&self, _: &AgentSettings) -> String {
        String::new()
    }

    /// A word of lists that stands for it beside its own name.
    fn preset(&self) -> Option<&'static str> {
        None
    }

    /// Other names a model may use for it, such as `Read`.
    fn aliases(&self) -> &[&'static str] {
        &[]
    }

    /// What the arguments are about, as far as rules have conditions on it. The usual names mean
    /// what they say: `file_path` and `path`, `command`, `url` and `host`.
    fn subject(&self, arguments: &Value) -> Subject {
        Subject::usual(arguments)
    }

    /// Arguments that are secrets: they are taken out of a call before it is on any record, and
    /// handed to it with its context.
    fn secret_arguments(&self, _arguments: &Value) -> Vec<SecretArgument> {
        Vec::new()
    }

    /// Why a call that changes the shape of the hive would be refused as things stand now: nobody
    /// is asked about it then. The call itself looks again.
    fn refusal<'a>(
        &'a self,
        _arguments: &'a Value,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Reads the arguments into their type. `Err` says which argument is wrong and what was
    /// expected; nothing has run then.
    fn prepare(&self, arguments: Value) -> Result<Prepared, String>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretArgument {
    pub argument: &'static str,
    /// What stands in its place: `[secret:NAME]`.
    pub name: String,
}

/// What a call gets and gives beside every record. It is gone with the process.
#[derive(Clone, Debug, Default)]
pub struct CallSecrets {
    given: Vec<(&'static str, SecretString)>,
    /// Written once by the tool, read once by the turn.
    shown: Arc<OnceLock<SecretString>>,
}

impl CallSecrets {
    pub fn new(given: Vec<(&'static str, SecretString)>) -> Self {
        Self { given, shown: Arc::default() }
    }

    /// The value of a secret argument. Absent after a restart.
    pub fn given(&self, argument: &str) -> Option<&SecretString> {
        self.given.iter().find(|(name, _)| *name == argument).map(|(_, value)| value)
    }

    /// The model alone reads this in the place of the answer, in this turn.
    pub fn show(&self, text: SecretString) {
        let _ = self.shown.set(text);
    }

    pub fn shown(&self) -> Option<&SecretString> {
        self.shown.get()
    }
}

/// How a call treats the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Decides where no rule does.
    pub class: Class,
    /// It may run again after a crash, and beside others.
    pub retry_safe: bool,
    /// It looks at something that goes on by itself: the loop brake does not count it.
    pub polls: bool,
    /// What it reads is read by it alone: it is on record before it runs, whatever its class.
    pub takes: bool,
}

impl Manner {
    /// Looks, and changes nothing.
    pub const READ: Self =
        Self { class: Class::Read, retry_safe: true, polls: false, takes: false };
    /// Looks at something that goes on by itself.
    pub const POLL: Self = Self { polls: true, ..Self::READ };
    /// Takes what has come, and gives the same when it runs again.
    pub const TAKE: Self = Self { takes: true, ..Self::POLL };

    /// Has an effect that happens once however often it runs: its call is the key. It is on record
    /// before it runs.
    pub const fn keyed(class: Class) -> Self {
        Self { class, ..Self::READ }
    }

    /// Changes the shape of the hive, once however often it runs: where somebody has to approve
    /// it, the call does not wait for that.
    pub fn is_shape(self) -> bool {
        self.class == Class::Shape && self.retry_safe
    }

    /// Nothing has to be on record before it runs.
    pub fn only_looks(self) -> bool {
        self.retry_safe && !self.takes && !matches!(self.class, Class::Write | Class::Shape)
    }

    /// Has an effect, which is not to happen twice.
    pub const fn effect(class: Class) -> Self {
        Self { class, retry_safe: false, ..Self::READ }
    }
}

/// What a call is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    pub paths: Vec<NamedPath>,
    pub command: Option<String>,
    /// `Some(None)`: it names a host that can be read in two ways.
    pub host: Option<Option<String>>,
    /// What it would connect to, where that can be told.
    pub target: Option<WebAddress>,
    /// It goes through the guard: to the target and to nothing else.
    pub guarded: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPath {
    /// `None` if it is not text.
    pub path: Option<String>,
    /// The call is about everything beneath.
    pub tree: bool,
}

impl Subject {
    pub fn usual(arguments: &Value) -> Self {
        let mut subject = Self::default();
        for key in ["file_path", "path"] {
            let values = match arguments.get(key) {
                None | Some(Value::Null) => continue,
                Some(Value::Array(values)) => values.as_slice(),
                Some(value) => std::slice::from_ref(value),
            };
            let paths = values.iter().map(|value| value.as_str().map(str::to_owned));
            subject.paths.extend(paths.map(|path| NamedPath { path, tree: false }));
        }
        subject.command = arguments.get("command").and_then(Value::as_str).map(str::to_owned);
        let url = match (arguments.get("url"), arguments.get("host")) {
            (None | Some(Value::Null), None | Some(Value::Null)) => return subject,
            (Some(url), _) => url.as_str().map(str::to_owned),
            (None, Some(host)) => host.as_str().map(|host| format!("http://{host}/")),
        };
        subject.host = Some(url.as_deref().and_then(host_of));
        subject.target = url.and_then(|url| WebAddress::parse(&url).ok());
        subject
    }

    /// Of a tool that looks through a folder: `path`, or the whole workspace.
    pub fn beneath(arguments: &Value) -> Self {
        let path = arguments.get("path").and_then(Value::as_str).unwrap_or(".").to_owned();
        Self { paths: vec![NamedPath { path: Some(path), tree: true }], ..Self::default() }
    }
}

/// A call whose arguments were understood and that has not run yet.
pub type Prepared = Box<dyn FnOnce(ToolContext) -> BoxFuture<'static, ToolAnswer> + Send>;

/// For whom a call is made: what is known of the item that its turn began with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    pub session: SessionId,
    pub principal: Principal,
    pub origin: ChainOrigin,
}

/// The first item of a chain: who is behind it, and where they are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainOrigin {
    pub channel: Option<String>,
    pub topic: Option<String>,
    pub principal: Principal,
}

#[derive(Clone, Debug)]
pub struct ToolContext {
    pub agent: AgentName,
    pub agent_id: AgentId,
    /// The subagent of it that calls; absent where that is the agent itself.
    pub subagent: Option<String>,
    /// Absent where the call belongs to no session.
    pub requester: Option<Arc<Requester>>,
    /// The conversation: what it starts and what its tools say belongs to it alone.
    pub session_key: SessionKey,
    pub workspace: PathBuf,
    /// Where long answers of this conversation are kept: outside the workspace, which all
    /// conversations of the agent share. Made with the first one.
    pub outputs: PathBuf,
    /// Paths of the call that rules were asked about, and where each led then.
    pub judged: Vec<(String, String)>,
    /// The agent's own folder, readable; absent where the agent has none.
    pub folder: Option<PathBuf>,
    pub sandbox: SandboxSettings,
    /// The hosts it may reach, in force when the call began.
    pub network: Arc<NetworkRules>,
    /// For programs that it starts.
    pub reach: Arc<dyn ProgramReach>,
    pub turn: TurnId,
    pub call: CallId,
    /// What was decided, when the call waited for a decision.
    pub decision: Option<Decision>,
    pub secrets: CallSecrets,
    pub cancel: CancellationToken,
    /// Ends what outlasts the turn: cancelled when the session is stopped or followed by a new one,
    /// when the agent goes, and when the hive stops. To be held by whatever heeds it.
    pub lasting: Arc<CancellationToken>,
}

/// What the hive says and hears about the network of a program for as long as it runs: longer than
/// the call that started it, where that goes on in the background.
pub trait ProgramReach: Send + Sync {
    /// The hosts it may reach by now.
    fn rules(&self) -> Arc<NetworkRules>;

    /// It asked for a host, for the first time with this verdict.
    fn contact(&self, tool: &str, host: &str, verdict: &str);
}

impl fmt::Debug for dyn ProgramReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgramReach")
    }
}

/// Nothing may be reached, and nobody hears of an attempt.
pub struct NoReach;

impl ProgramReach for NoReach {
    fn rules(&self) -> Arc<NetworkRules> {
        Arc::default()
    }

    fn contact(&self, _: &str, _: &str, _: &str) {}
}

impl ToolContext {
    /// The call, as it is on record.
    pub fn reference(&self) -> CallRef {
        CallRef { turn: self.turn.clone(), call: self.call.clone() }
    }

    /// Folders that the tool may read besides the workspace.
    pub fn read_only(&self) -> impl Iterator<Item = &PathBuf> {
        self.folder.iter().chain(self.kept_outputs())
    }

    /// The folder of long answers, once there is one.
    pub fn kept_outputs(&self) -> Option<&PathBuf> {
        Some(&self.outputs).filter(|folder| folder.is_dir())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum ToolAnswer {
    Done {
        text: String,
        is_error: bool,
        details: Option<Value>,
        /// Files that the model sees besides the text.
        files: Vec<File>,
    },
    /// It was ended before it was done: nobody knows what it had done by then. The text is what it
    /// said.
    Cut { text: String, details: Option<Value> },
    /// The call waits for a decision; it runs again with it.
    Wait { reason: String },
}

impl ToolAnswer {
    pub fn ok(text: impl Into<String>) -> Self {
        Self::Done { text: text.into(), is_error: false, details: None, files: Vec::new() }
    }

    pub fn error(text: impl Into<String>) -> Self {
        Self::Done { text: text.into(), is_error: true, details: None, files: Vec::new() }
    }
}

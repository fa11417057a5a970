//! What doors show of questions to people and of the rules they come from.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use skep_core::approval::{ApprovalKind, ApprovalState, Bound, NamedFile, Scope};
use skep_core::ids::{AgentName, CallId, ItemId, SessionId, SessionKey, TurnId};
use skep_core::policy::approvers::Approvers;
use skep_core::policy::evaluate::Verdict;
use skep_core::policy::rule::RuleInfo;
use skep_core::policy::{Class, Effect};
use skep_core::settings::{SandboxLevel, SandboxNetwork, SandboxSettings};
use skep_core::visible::visible;
use skep_core::{BoxFuture, Millis};

/// A call that waits, or waited, for a person.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ApprovalInfo {
    pub id: String,
    pub agent: AgentName,
    pub session: SessionId,
    pub session_key: SessionKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemId>,
    pub turn: TurnId,
    pub call: CallId,
    pub tool: String,
    pub class: String,
    /// Exactly what would run.
    #[schema(value_type = Object)]
    pub arguments: Value,
    /// The same for people: whole, and with everything invisible made visible.
    pub shown: String,
    /// The same in one line: the first line of the command, or what else the call is about.
    pub summary: String,
    /// What the agent said in the message that asks for the call: its beginning, with everything
    /// invisible made visible. Absent where it said nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// The folder it would run in.
    pub cwd: String,
    /// The walls around what it starts, as the agent has them now; other walls than those of the
    /// question ask again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxLevel>,
    /// What it may connect to, as the agent is set up now; absent where the engine runs the tool
    /// itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkAccess>,
    /// Where that is `listed`: the hosts and addresses of the agent's `network`. Other ones than
    /// at the question ask again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// What the arguments name in the workspace, as it was when the question was asked.
    pub files: Vec<NamedFile>,
    /// Which files a yes is tied to.
    pub bound: Bound,
    /// What a decision is bound to; to be sent back with it.
    pub hash: String,
    /// Why it was asked: the whole decision of the policy.
    #[schema(value_type = Verdict)]
    pub why: Value,
    /// Who may answer, as the rules said when it was asked: one of each list.
    pub approvers: Approvers,
    /// Why whoever reads this may not answer; absent: they may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// `shape`: the call does not wait, and runs by itself once it is approved.
    pub kind: ApprovalKind,
    pub state: ApprovalState,
    /// It expired once and was asked again: a yes runs the call as an item of its own.
    pub reopened: bool,
    /// Whose messages led to the call.
    pub asked_by: Vec<String>,
    pub asked_at: Millis,
    pub expires_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionInfo>,
    /// What a lasting yes has to cover, all of it: each command of its line, else its path or its
    /// host. Empty where the call names nothing of the kind, or more than can be listed.
    pub commands: Vec<CallPart>,
    /// Why no yes to it can last: no rule could be about calls like it and no others. Absent: one
    /// can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub once_only: Option<String>,
}

/// A part of a call that a pattern can be about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CallPart {
    /// For people.
    pub text: String,
    /// Patterns that cover it, the narrowest first.
    pub patterns: Vec<String>,
}

/// A call that waits for a person, in short.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ApprovalBrief {
    pub id: String,
    pub agent: AgentName,
    pub session_key: SessionKey,
    pub tool: String,
    /// In one line: the first line of the command, or what else the call is about.
    pub summary: String,
    pub asked_at: Millis,
    pub expires_at: Millis,
}

/// What a call may connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkAccess {
    /// Nothing.
    None,
    /// The one host that the call names: `why.host`.
    Host,
    /// The hosts that the agent's `network` lists.
    Listed,
    /// Whatever this machine can connect to.
    Open,
}

impl NetworkAccess {
    /// A confined command reaches what `sandbox.network` lets it; on the host nothing limits it.
    /// The other built-in tools connect to nothing.
    pub fn of(class: Class, sandbox: &SandboxSettings) -> Self {
        match (class, sandbox.level, sandbox.network) {
            (Class::Reach, ..) | (Class::Run, SandboxLevel::Host, _) => Self::Open,
            (Class::Run, SandboxLevel::Confined, SandboxNetwork::Proxy) => Self::Listed,
            (Class::Run, SandboxLevel::Confined, SandboxNetwork::Full) => Self::Open,
            (Class::Read | Class::Write | Class::Run | Class::Shape, ..) => Self::None,
        }
    }
}

/// A person's answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DecisionInfo {
    pub by: String,
    pub at: Millis,
    /// The door it came through.
    pub from: String,
    pub scope: Scope,
    /// What a lasting yes allowed; none: every call of the tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When the call ran with it; absent: it was never used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Millis>,
}

#[derive(Clone, Debug)]
pub struct ApprovalQuery {
    /// Any of these.
    pub states: Vec<ApprovalState>,
    /// Only approved ones that no call was run with.
    pub unused: bool,
    pub agent: Option<AgentName>,
    pub cursor: Option<i64>,
    /// 1..=500
    pub limit: u32,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ApprovalPage {
    /// The newest first.
    pub approvals: Vec<ApprovalInfo>,
    /// Give it as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// The content of a file that a call names, as it was when the approval was asked for.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PinnedFile {
    pub path: String,
    pub bytes: usize,
    /// Of the whole file.
    pub lines: usize,
    /// With everything invisible made visible; absent where the file is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// `text` is only the beginning.
    pub cut: bool,
}

/// What patterns would come to.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Covered {
    /// Whether it would answer this question.
    pub covers: bool,
    /// Why, or why not.
    pub why: String,
    /// What it would allow; nothing: every call of the tool.
    pub allows: Vec<String>,
    /// Other open questions that it would answer too: of the agent, or of the conversation.
    pub others: Vec<ApprovalInfo>,
    /// What it would have covered before.
    pub last: PastCalls,
}

/// The newest calls of the tool in the conversation, this one among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PastCalls {
    /// How many were looked at; at most five.
    pub calls: usize,
    /// How many of them the patterns cover.
    pub covered: usize,
}

/// A decision on its way in.
#[derive(Clone, Debug)]
pub struct DecisionWish {
    pub approve: bool,
    pub scope: Scope,
    /// None: exactly this call.
    pub patterns: Vec<String>,
    pub note: Option<String>,
    pub hash: String,
    pub by: String,
    pub from: String,
}

/// What an agent's calls are decided by.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PolicyInfo {
    pub agent: AgentName,
    /// What each class comes to where no rule matches.
    pub classes: Vec<ClassEffect>,
    pub rules: Vec<RuleInfo>,
    pub network: NetworkInfo,
    /// What was granted for a time or a session.
    pub grants: Vec<GrantInfo>,
    /// Where and why it could not be read: everything is denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// The hosts that an agent's tools and programs may reach.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct NetworkInfo {
    /// Reached without a question.
    pub hosts: Vec<String>,
    /// Never reached.
    pub deny: Vec<String>,
    /// Addresses inside own networks that may be reached.
    pub private: Vec<String>,
    /// Requests to one host in a minute.
    pub requests_per_minute: u32,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ClassEffect {
    pub class: Class,
    pub effect: Effect,
}

/// A call nobody makes: what would be decided.
#[derive(Clone, Debug)]
pub struct WhyWish {
    pub agent: AgentName,
    pub tool: String,
    pub arguments: Value,
    /// A principal; the one who asks where it is absent.
    pub who: String,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WhyInfo {
    pub agent: AgentName,
    pub tool: String,
    pub class: Class,
    /// Whether the agent has the tool at all.
    pub listed: bool,
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Something allowed for a time or a session.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GrantInfo {
    pub id: String,
    pub agent: AgentName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// For whom.
    pub grants: Vec<String>,
    pub made_by: String,
    pub made_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
}

#[derive(Clone, Debug)]
pub struct GrantWish {
    pub agent: AgentName,
    pub tool: String,
    pub path: Option<String>,
    pub command: Option<String>,
    pub host: Option<String>,
    pub grants: Vec<String>,
    pub minutes: u32,
    pub by: String,
}

/// A rule that allows, to be written into an agent's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleDraft {
    pub tool: String,
    pub path: Option<String>,
    pub command: Option<String>,
    pub host: Option<String>,
}

impl RuleDraft {
    /// The rule as a YAML mapping on one line; JSON is valid YAML. `Err`: it would be read as
    /// another rule, by the program (an environment variable, an unusual line end) or by a person.
    pub fn item(&self) -> Result<String, String> {
        let quoted = |text: &str| Value::from(text).to_string();
        let mut item = format!("{{effect: allow, tool: {}", quoted(&self.tool));
        let conditions = [("path", &self.path), ("command", &self.command), ("host", &self.host)];
        for (key, value) in conditions {
            if let Some(value) = value {
                item.push_str(&format!(", {key}: {}", quoted(value)));
            }
        }
        if item.contains("${") || visible(&item) != item {
            let why = "a pattern with `${`, or with characters that are not seen, cannot be \
                       written into config.yaml; choose a shorter one, or approve it for the \
                       conversation";
            return Err(why.to_owned());
        }
        Ok(item + "}")
    }
}

/// Puts written rules in force.
pub type PutInForce = BoxFuture<'static, ()>;

/// Writes rules into an agent's file, in the name of a person; what it gives puts them in force.
/// Whoever composes the program knows the files.
pub type WriteRules = Arc<
    dyn Fn(AgentName, String, Vec<RuleDraft>) -> BoxFuture<'static, Result<PutInForce, String>>
        + Send
        + Sync,
>;

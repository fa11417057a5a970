//! What a door hands in and gets back, and what the program hands in to read and change files of
//! the home: types only. Doors know nothing of rows, lanes or engines.

mod agent_files;
mod approvals;
mod hive;
mod sessions;
mod tasks;
mod templates;
mod turns;
mod vault;
mod work;
mod workspace;

pub use agent_files::{
    AgentFile, AgentLimits, EffectiveSettings, FileCheck, FileRefusal, FileReport, FileWish,
    ReachFile, SandboxInfo,
};
pub use approvals::{
    ApprovalBrief, ApprovalInfo, ApprovalPage, ApprovalQuery, CallPart, ClassEffect, Covered,
    DecisionInfo, DecisionWish, GrantInfo, GrantWish, NetworkAccess, NetworkInfo, PastCalls,
    PinnedFile, PolicyInfo, PutInForce, RuleDraft, WhyInfo, WhyWish, WriteRules,
};
pub use hive::{
    AgentDraft, ChangeFolder, DescribeAgent, DraftedProfile, FileWriters, FolderStep,
    IntegrityInfo, MoveSecrets, PrepareProfile, ProfileDraft, ProviderInfo, ProviderTry, Reached,
    Refresh, RemoveProfile, ScanFiles,
};
pub use sessions::{
    AttachmentSum, ForkWish, ForkedFrom, HistoryForm, ImportReport, SearchHit, SearchPage,
    SearchWish, SessionEdit, SessionInfo, SessionPage, SessionQuery, SessionState,
};

pub use tasks::TaskInfo;
pub use templates::{MadeTeam, MakeTeam, TeamDraft, TeamTemplates, TemplateAgent, TemplateInfo};
pub use turns::{TurnOutcome, TurnOutcomeState};
pub use vault::{
    LooseSecret, SecretScan, VaultEntry, VaultInfo, VaultRotation, VaultWish, check_no_secret,
};
pub use work::{
    ChainApproval, TimingKind, TimingRow, TurnTiming, WorkCounts, WorkItem, WorkPage, WorkQuery,
};
pub use workspace::{FileChange, FileChanges, WorkspaceEntry, WorkspaceItem, WorkspaceKind};

use serde::Serialize;
use utoipa::ToSchema;

use skep_core::Millis;
use skep_core::engine::{Capabilities, RetryInfo};
use skep_core::event::ItemState;
use skep_core::file::Attachment;
use skep_core::frame::UndeliveredFrame;
use skep_core::ids::{
    AgentId, AgentName, CallId, ChannelId, ItemId, MessageId, Principal, SessionId, SessionKey,
    Token, TurnId,
};
pub use skep_core::inbound::{AckState, DoorError, ErrorKind, Inbound, Quota, Receipt, Source};
use skep_core::message::{Block, StopReason, Usage, View};
use skep_core::money::Money;
pub use skep_core::role::{Action, Grant, Reach, Role, Sight};
use skep_core::settings::ConfigStanding;

/// A message followed to its end.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Followed {
    pub message_id: MessageId,
    pub item_id: ItemId,
    pub agent: AgentName,
    pub session_key: SessionKey,
    pub state: ItemState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<MessageFailure>,
}

impl Followed {
    pub fn has_ended(&self) -> bool {
        match self.state {
            ItemState::Done | ItemState::Failed | ItemState::Cancelled | ItemState::Dead => true,
            ItemState::Pending | ItemState::Running | ItemState::Waiting => false,
        }
    }
}

/// What a message was answered with, over all model calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spoken {
    /// The text of each model call, in order.
    pub texts: Vec<String>,
    /// Why the last of them ended.
    pub stop: Option<StopReason>,
    /// Of the whole turn.
    pub usage: Usage,
}

/// A call that may be waited for again, see [`Source::Call`].
#[derive(Clone, Debug, PartialEq)]
pub struct EarlierCall {
    pub call: MessageId,
    pub agent: AgentName,
    pub principal: Principal,
    pub ended: bool,
}

/// What was said before a session of ours began.
#[derive(Clone, Debug)]
pub enum Earlier {
    User(String, Vec<Attachment>),
    Assistant(String),
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Response {
    pub content: String,
    pub in_reply_to: Vec<MessageId>,
    /// Why the model stopped: after `max_tokens` or `refusal` the answer is incomplete. Absent for
    /// what no model answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Failure)]
pub struct MessageFailure {
    pub code: String,
    pub error: String,
}

/// What is known of a write from an earlier request with the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EarlierRequest {
    None,
    /// It began; its answer is not known.
    Open,
    Answered(String),
}

/// Which conversation of an agent.
#[derive(Clone, Debug)]
pub enum SessionChoice {
    Key(SessionKey),
    Id(SessionId),
}

#[derive(Clone, Debug)]
pub struct HistoryQuery {
    pub agent: AgentName,
    pub session: SessionChoice,
    pub view: View,
    /// Rows with a lower seq only, the newest of them.
    pub before: Option<i64>,
    /// Rows with a higher seq only, the oldest of them.
    pub after: Option<i64>,
    /// 1..=500
    pub limit: u32,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct HistoryPage {
    /// Oldest first: as JSON, with commas between them.
    #[serde(skip_serializing_if = "is_written_apart")]
    #[schema(value_type = Vec<skep_core::message::Message>, required = true)]
    pub messages: String,
    pub session: Option<SessionId>,
    pub view: View,
    pub streaming: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<ActiveTurn>,
    /// Turns with rows on this page that failed, were cancelled, ended with an empty answer or are
    /// about to be tried again; oldest first. One with rows on two pages is on both: the higher
    /// `seq` is its place.
    pub turns: Vec<TurnOutcome>,
    /// Give this as `before` for the page before; absent at the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// Where `after` was given: give this for the page after; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// On the newest page, once a model has answered; where `after` was given, as of the last call
    /// in the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextInfo>,
}

impl HistoryPage {
    /// The whole page.
    pub fn to_json(&self) -> Result<String, DoorError> {
        let rest = json_of(self)?;
        let rest = rest.strip_prefix('{').unwrap_or(&rest);
        Ok(format!("{{\"messages\":[{}],{rest}", self.messages))
    }
}

/// As a door sends it.
pub fn json_of(value: &impl Serialize) -> Result<String, DoorError> {
    serde_json::to_string(value).map_err(|error| {
        tracing::error!(%error, "a page of history does not become JSON");
        DoorError::new(ErrorKind::Internal, "internal", "The hive failed; see its log.")
    })
}

/// The messages are JSON already, and are put into the page as they are. The schema has them: a
/// field that is always skipped would be left out of it.
fn is_written_apart(_: &str) -> bool {
    true
}

/// How full a model's window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ContextInfo {
    /// Tokens of its last call, answer included.
    pub used: u64,
    /// Null where nobody knows.
    pub window: Option<u32>,
    /// What `used` consists of, where a whole history was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<ContextParts>,
}

/// Tokens of a call by what they are for; their sum is `used`. Vendors count the whole alone:
/// `tools` and `system` are reckoned from their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ContextParts {
    pub tools: u64,
    pub system: u64,
    pub history: u64,
    /// The answer.
    pub newest: u64,
}

/// The model call under way, for whoever comes late. Its deltas up to `deltas` are in `content`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ActiveTurn {
    pub turn: TurnId,
    pub agent: AgentName,
    pub session: SessionId,
    pub session_key: SessionKey,
    pub token: Token,
    pub call: u32,
    pub deltas: u32,
    pub content: Vec<Block>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AgentInfo {
    pub name: AgentName,
    /// After its removal it is found as `id:N`; for those who see the whole hive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub id: Option<AgentId>,
    /// The agent whose team it belongs to; absent for a root of the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<AgentName>,
    pub description: String,
    /// `active`, `paused`, `stopped` or `failed`.
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub engine: String,
    pub model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Where the programs it starts run: `confined`, or `host` without any walls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<&'static str>,
    /// What they reach from there: `none`, `proxy` (the hosts of its `network`), or `full`,
    /// whatever this machine reaches. On the host always `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<&'static str>,
    /// Tools in its list or rules that are not there now: whoever brings them is not there either.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_tools: Vec<String>,
    /// Where and why its policy cannot be read: all of its tool calls are denied. For those who see
    /// the whole hive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_error: Option<String>,
    /// What it has to do; for those who see all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkInfo>,
    /// What it says it does; for those who see all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// What its model calls used since 00:00 UTC; for those who see all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub today: Option<AgentDay>,
}

/// What the model calls of an agent used today, and what they may.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct AgentDay {
    pub calls: u64,
    pub tokens: u64,
    /// Dollars of the calls whose price is known.
    #[schema(value_type = f64)]
    pub known_cost: Money,
    pub unpriced_calls: u64,
    /// Absent where nothing limits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub cost_per_day: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<u64>,
}

/// The hive at one moment: everything with a durable `seq` up to `seq` is in it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct HiveState {
    pub seq: i64,
    pub hive: HiveInfo,
    pub agents: Vec<AgentInfo>,
    pub turns: Vec<TurnInfo>,
    /// Of all agents; for those who see all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkInfo>,
    pub unknown_calls: Vec<UnknownCall>,
    /// Calls that wait for a person, the newest first.
    pub approvals: Vec<ApprovalBrief>,
    /// Of all agents; for whoever sees all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spend: Option<SpendInfo>,
}

/// What model calls used since 00:00 UTC.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SpendInfo {
    pub calls: u64,
    pub tokens: u64,
    /// Dollars; null when the price of a call is not known.
    #[schema(value_type = Option<f64>)]
    pub cost: Option<Money>,
    /// Dollars of the calls whose price is known.
    #[schema(value_type = f64)]
    pub known_cost: Money,
    pub unpriced_calls: u64,
    pub unpriced_tokens: u64,
    /// Of calls that broke off or were lost: what they may have used, as we count. It counts
    /// towards the limits beside the sums above.
    pub unsettled_tokens: u64,
    #[schema(value_type = f64)]
    pub unsettled_cost: Money,
    pub limits: SpendLimits,
    /// When the sums begin anew.
    pub until: Millis,
}

/// The daily limits; absent where there are none.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SpendLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub cost_per_day: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<u64>,
    /// Of calls whose price is not known, while only the cost is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpriced_tokens_per_day: Option<u64>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct HiveInfo {
    pub version: &'static str,
    /// The folder it serves; for those who see everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    pub started_at: Millis,
    pub uptime_ms: Millis,
    pub model_note: String,
    /// `ok`, or why writes are held (`disk_full`, `store_unsynced`, `store_moved`).
    pub store: &'static str,
    /// How the files of the home stand to what is in force.
    pub config: ConfigStanding,
    /// What a look at the whole database found, after a stop out of order.
    pub integrity: IntegrityInfo,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TurnInfo {
    pub turn: TurnId,
    pub agent: AgentName,
    #[serde(skip)]
    pub agent_id: AgentId,
    pub session: SessionId,
    pub session_key: SessionKey,
    pub state: String,
    pub since: Millis,
    pub steps: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// While it waits for another try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryInfo>,
    /// Once its model has answered, while the turn runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextInfo>,
}

/// How much there is to do. The words mean the same wherever they are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct WorkInfo {
    /// Turns that run, also those that pause before a model call is made again.
    pub running: i64,
    /// Turns that wait: for a person, for a time, or for another try.
    pub waiting: i64,
    /// Messages that a turn has still to take up, and those of turns that are about to go on.
    pub queued: i64,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct UnknownCall {
    pub turn: TurnId,
    pub call_id: CallId,
    pub agent: AgentName,
    pub session_key: SessionKey,
    pub tool: String,
    pub at: Millis,
}

/// A line of the inbox.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct InboxItem {
    pub item_id: ItemId,
    pub message_id: MessageId,
    pub agent: AgentName,
    pub session_key: SessionKey,
    pub kind: String,
    pub priority: &'static str,
    pub state: ItemState,
    pub attempts: i64,
    /// The first 200 characters.
    pub preview: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<MessageFailure>,
    pub created_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Millis>,
    /// Give it as `after` for the next page.
    pub ord: i64,
}

/// One item of the inbox with everything that is known of it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ItemInfo {
    #[serde(flatten)]
    pub item: InboxItem,
    /// The whole message.
    pub text: String,
    pub from: Principal,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// Model calls of its turn.
    pub steps: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// The item this one is another try of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<ItemId>,
    /// Its newest try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried_as: Option<ItemId>,
    /// The first item of its chain, where that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<ItemId>,
    /// The tasks of its chain, in the order they were given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<TaskInfo>,
    /// What its first item and its tasks asked people, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ChainApproval>,
    /// Frames about it that its channel refused or put off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undelivered: Vec<UndeliveredFrame>,
}

#[derive(Clone, Debug, Default)]
pub struct InboxQuery {
    pub agent: Option<AgentName>,
    pub state: Option<ItemState>,
    pub after: Option<i64>,
    /// 1..=500
    pub limit: u32,
}

/// Who a credential belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub principal: Principal,
    pub role: Role,
    pub credential: Credential,
    /// What it reaches where its role reaches its own part.
    pub own: Sight,
}

impl Identity {
    /// Whoever owns the home, as the local socket knows them; also the hive for itself.
    pub fn owner() -> Self {
        Self::operator(Principal::new("operator"), Credential::Owner)
    }

    /// Whoever runs the hive, known by this name.
    pub fn operator(principal: Principal, credential: Credential) -> Self {
        Self { principal, role: Role::Operator, credential, own: Sight::All }
    }
}

/// What somebody came in with. What it keeps open ends with it; one person may have several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Credential {
    /// A process of the home's owner, at the local socket.
    Owner,
    Token {
        id: String,
    },
    Browser {
        id: String,
        expires_at: Millis,
    },
}

impl Credential {
    /// Sets it apart from every other.
    pub fn name(&self) -> &str {
        match self {
            Self::Owner => "owner",
            Self::Token { id } | Self::Browser { id, .. } => id,
        }
    }

    pub fn expires_at(&self) -> Option<Millis> {
        match self {
            Self::Browser { expires_at, .. } => Some(*expires_at),
            Self::Owner | Self::Token { .. } => None,
        }
    }
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TokenInfo {
    pub id: String,
    pub name: String,
    pub role: Role,
    /// Of a channel: its conversations begin so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Of an engine's child: its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    pub created_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Millis>,
}

/// A channel as a client finds it.
#[derive(Clone, Debug)]
pub struct OpenedChannel {
    pub channel: ChannelId,
    /// The newest durable frame.
    pub seq: i64,
    /// Frames up to here are gone.
    pub floor: i64,
}

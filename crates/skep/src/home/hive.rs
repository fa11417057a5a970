//! `skep.yaml`: the hive as a whole. Every key is optional.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use skep_cli::hive::Home;
use skep_core::budget::Caps;
use skep_core::policy::ClassPolicy;
use skep_core::policy::host::WebAddress;
use skep_core::policy::network::NetworkRules;
use skep_core::settings::{Limits, Profile, SandboxLimits, SandboxSettings, ServerSettings};
use skep_core::{choice, policy::allow};
use url::Url;

use super::confinement::{self, RawPolicy, RawSandbox};
use super::environment::{Reader, Variables};
use super::known_names::KnownNames;
use super::mistake::Mistake;
use super::network::{self, RawNetwork};
use super::scalar::{BoundedInteger, Dollars, Period, TextScalar};
use super::source::{FILE_BYTES, PolicyReading, SourceText};
use super::yaml;

/// 7537 spells SKEP on a phone's keys.
const PORT: u16 = 7537;

/// The hive: how it is reached, what it may use, what agents get by default.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RawHive {
    server: RawServer,
    limits: RawLimits,
    sessions: RawSessions,
    retention: RawRetention,
    defaults: RawDefaults,
}

/// Where the hive listens.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RawServer {
    /// Address to listen on (127.0.0.1).
    #[schemars(extend("x-holds" = "address"))]
    bind: Option<TextScalar>,
    /// Port to listen on (7537); 0 takes a free one.
    port: Option<BoundedInteger<0, 65535>>,
    /// Address under which people reach the hive through a proxy.
    #[schemars(extend("x-holds" = "web address"))]
    public_url: Option<TextScalar>,
    /// Origins of other web pages that may use the hive.
    #[schemars(extend("x-holds" = "origin"))]
    allowed_origins: Vec<TextScalar>,
}

/// What turns may use.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RawLimits {
    /// Turns that run at the same time (64).
    concurrent_turns: Option<BoundedInteger<1, 100_000>>,
    /// Turns that run at the same time for one user who is no operator (16).
    turns_per_user: Option<BoundedInteger<1, 100_000>>,
    /// MiB of messages and attachments that one user who is no operator may store (512).
    user_storage_mib: Option<BoundedInteger<1, 1_048_576>>,
    /// Requests and frames that one user who is no operator may send in a minute (3000).
    user_requests_per_minute: Option<BoundedInteger<1, 1_000_000>>,
    /// Seconds a turn may run (1800).
    turn_seconds: Option<BoundedInteger<1, 604_800>>,
    /// Times a turn may break off without progress before it is given up (3).
    attempts: Option<BoundedInteger<1, 1000>>,
    /// Model calls in a turn (50).
    steps: Option<BoundedInteger<1, 10_000>>,
    /// Seconds running turns get to finish when the hive stops (5).
    drain_seconds: Option<BoundedInteger<0, 3600>>,
    /// Hours a call waits for a person's decision (24).
    approval_hours: Option<BoundedInteger<1, 8760>>,
    /// Hands that work may pass through from agent to agent (16).
    hops: Option<BoundedInteger<1, 1000>>,
    /// Tasks and messages that one request may lead to (200).
    items_per_root: Option<BoundedInteger<1, 100_000>>,
    /// Hours a task may take before it has failed (24).
    task_hours: Option<BoundedInteger<1, 8760>>,
    /// Bytes of a tool's output that the model is shown (65536).
    tool_output_bytes: Option<BoundedInteger<1, 16_777_216>>,
    /// Bytes a message may have (262144).
    inbox_body_bytes: Option<BoundedInteger<1, 1_048_576>>,
    /// MiB that must be free on a workspace's disk for tools to write or run anything (1024).
    disk_floor_mib: Option<BoundedInteger<0, 16_777_216>>,
    /// Requests of `web_fetch` of one agent to one host in a minute (60).
    requests_per_minute: Option<BoundedInteger<1, 100_000>>,
    /// Tokens that all model calls of a day (UTC) may use (no limit).
    tokens_per_day: Option<BoundedInteger<1, 10_000_000_000>>,
    /// Dollars that all model calls of a day (UTC) may cost (no limit).
    cost_per_day: Option<Dollars>,
    /// Tokens that the model calls of one turn may use (no limit).
    tokens_per_turn: Option<BoundedInteger<1, 10_000_000_000>>,
    /// Dollars that the model calls of one turn may cost (no limit).
    cost_per_turn: Option<Dollars>,
}

/// Conversations.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RawSessions {
    /// Minutes of silence after which a new session begins (360).
    idle_minutes: Option<BoundedInteger<1, 5_256_000>>,
}

/// How long things can be asked for again.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RawRetention {
    /// Live events (7d).
    events: Option<Period>,
    /// Delivered replies (30d).
    delivered: Option<Period>,
    /// Rows of the audit trail (365d).
    audit: Option<Period>,
}

/// What an agent gets when its own file does not say.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RawDefaults {
    /// Engine (native).
    #[schemars(extend("x-holds" = "engine"))]
    engine: Option<TextScalar>,
    /// Model profile (default).
    #[schemars(extend("x-holds" = "profile"))]
    profile: Option<TextScalar>,
    /// Tools: exact names, patterns with `*`, presets such as `@files` (none).
    #[schemars(extend("x-holds" = "tool"))]
    allowed_tools: Vec<TextScalar>,
    sandbox: RawSandbox,
    network: RawNetwork,
    policy: RawPolicy,
}

pub struct HiveFile {
    pub server: ServerSettings,
    pub limits: Limits,
    pub defaults: AgentDefaults,
}

/// What holds for an agent whose file says nothing else.
#[derive(Clone, Debug)]
pub struct AgentDefaults {
    pub engine: String,
    /// `None` if providers.yaml is broken.
    pub profile: Option<Arc<Profile>>,
    pub allowed_tools: Vec<String>,
    pub sandbox: SandboxSettings,
    pub network: Arc<NetworkRules>,
    pub policy: ClassPolicy,
}

pub type ProfileMap = BTreeMap<String, Arc<Profile>>;

/// Reads `skep.yaml`. `profiles` are those that `defaults.profile` may refer to; `None` when
/// providers.yaml is broken itself and nothing can be said about them.
pub fn read(
    source: &SourceText,
    variables: Variables,
    known: &KnownNames,
    profiles: Option<&ProfileMap>,
) -> Result<HiveFile, Mistake> {
    let raw: RawHive = yaml::parse(source)?;
    let reader = Reader { source, variables };
    Ok(HiveFile {
        server: server(&reader, &raw.server)?,
        limits: limits(&raw),
        defaults: defaults(&reader, &raw.defaults, known, profiles, sandbox(&raw.limits))?,
    })
}

fn server(reader: &Reader<'_>, raw: &RawServer) -> Result<ServerSettings, Mistake> {
    let bind = match &raw.bind {
        None => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Some(text) => reader.text(text)?.parse().map_err(|_| {
            reader.mistake(text, "is not an address").expecting("an IP address such as 127.0.0.1")
        })?,
    };
    let public_url = match &raw.public_url {
        None => None,
        Some(text) => Some(web_address(reader, text)?),
    };
    let mut allowed_origins = Vec::new();
    for text in &raw.allowed_origins {
        allowed_origins.push(origin(reader, text)?);
    }
    Ok(ServerSettings {
        bind,
        port: raw.port.map_or(PORT, |port| port.0 as u16),
        public_url,
        allowed_origins,
        ws_enabled: true,
    })
}

/// An `http` or `https` address with a host, without a slash at its end.
pub fn web_address(reader: &Reader<'_>, text: &TextScalar) -> Result<String, Mistake> {
    let value = reader.text(text)?;
    let usable = Url::parse(&value)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if !usable {
        let mistake = reader.mistake(text, "is not a web address");
        return Err(mistake.expecting("an address that starts with http:// or https://"));
    }
    // As it is read when it is dialled.
    if let Err(error) = WebAddress::of_operator(&value) {
        return Err(reader
            .mistake(text, error.to_string())
            .expecting("an address like https://example.org/v1"));
    }
    Ok(value.trim_end_matches('/').to_owned())
}

fn origin(reader: &Reader<'_>, text: &TextScalar) -> Result<String, Mistake> {
    let value = web_address(reader, text)?;
    match Url::parse(&value) {
        Ok(url) if url.path() == "/" && url.query().is_none() && url.username().is_empty() => {
            Ok(url.origin().ascii_serialization())
        }
        _ => Err(reader
            .mistake(text, "is not an origin")
            .expecting("scheme, host and port alone, such as https://example.org")),
    }
}

/// Whether `defaults.policy` and `defaults.network` can be read, whatever else is wrong with the
/// file.
pub fn read_policy(home: &Home, variables: Variables) -> PolicyReading {
    #[derive(Default, Deserialize, JsonSchema)]
    #[serde(default)]
    struct PolicyOnlyHive {
        defaults: PolicyOnlyDefaults,
    }
    #[derive(Default, Deserialize, JsonSchema)]
    #[serde(default)]
    struct PolicyOnlyDefaults {
        policy: RawPolicy,
        network: RawNetwork,
    }
    let source = SourceText::read(&home.skep_yaml(), FILE_BYTES);
    let read = source.and_then(|source| {
        if let Some(source) = &source {
            let raw = yaml::parse::<PolicyOnlyHive>(source)?;
            let PolicyOnlyDefaults { policy: _, network } = raw.defaults;
            network::rules(&network, &Reader { source, variables }, &NetworkRules::default())?;
        }
        Ok(source)
    });
    PolicyReading::of(read)
}

fn limits(raw: &RawHive) -> Limits {
    let usual = Limits::default();
    let limits = &raw.limits;
    let seconds = Duration::from_secs;
    Limits {
        concurrent_turns: limits.concurrent_turns.map_or(usual.concurrent_turns, |n| n.0 as usize),
        turns_per_user: limits.turns_per_user.map_or(usual.turns_per_user, |n| n.0 as usize),
        user_storage_bytes: limits.user_storage_mib.map_or(usual.user_storage_bytes, |n| n.0 << 20),
        user_requests_per_minute: limits
            .user_requests_per_minute
            .map_or(usual.user_requests_per_minute, |n| n.0 as u32),
        turn: limits.turn_seconds.map_or(usual.turn, |n| seconds(n.0)),
        attempts: limits.attempts.map_or(usual.attempts, |n| n.0 as u32),
        steps: limits.steps.map_or(usual.steps, |n| n.0 as u32),
        park: usual.park,
        engine_processes: usual.engine_processes,
        drain: limits.drain_seconds.map_or(usual.drain, |n| seconds(n.0)),
        tool_output_bytes: limits
            .tool_output_bytes
            .map_or(usual.tool_output_bytes, |n| n.0 as usize),
        inbox_body_bytes: limits.inbox_body_bytes.map_or(usual.inbox_body_bytes, |n| n.0 as usize),
        hops: limits.hops.map_or(usual.hops, |n| n.0 as u32),
        items_per_root: limits.items_per_root.map_or(usual.items_per_root, |n| n.0 as u32),
        task: limits.task_hours.map_or(usual.task, |n| seconds(n.0 * 3600)),
        approval: limits.approval_hours.map_or(usual.approval, |n| seconds(n.0 * 3600)),
        requests_per_minute: limits
            .requests_per_minute
            .map_or(usual.requests_per_minute, |n| n.0 as u32),
        session_idle: raw.sessions.idle_minutes.map_or(usual.session_idle, |n| seconds(n.0 * 60)),
        keep_events: raw.retention.events.map_or(usual.keep_events, |period| period.0),
        keep_frames: raw.retention.delivered.map_or(usual.keep_frames, |period| period.0),
        keep_audit: raw.retention.audit.map_or(usual.keep_audit, |period| period.0),
        tokens_per_day: limits.tokens_per_day.map(|n| n.0),
        cost_per_day: limits.cost_per_day.map(|dollars| dollars.0),
        per_turn: Caps {
            tokens: limits.tokens_per_turn.map(|n| n.0),
            cost: limits.cost_per_turn.map(|dollars| dollars.0),
        },
    }
}

/// The sandbox limits that come from the hive's own limits.
fn sandbox(limits: &RawLimits) -> SandboxSettings {
    let disk_floor_bytes = limits.disk_floor_mib.map(|mib| mib.0 << 20);
    let limits = SandboxLimits { disk_floor_bytes, ..SandboxLimits::default() };
    SandboxSettings { limits, ..SandboxSettings::default() }
}

fn defaults(
    reader: &Reader<'_>,
    raw: &RawDefaults,
    known: &KnownNames,
    profiles: Option<&ProfileMap>,
    usual_sandbox: SandboxSettings,
) -> Result<AgentDefaults, Mistake> {
    let engine = match &raw.engine {
        None => "native".to_owned(),
        Some(text) => engine(reader, text, known)?,
    };
    let profile = match (&raw.profile, profiles) {
        (_, None) => None,
        (None, Some(profiles)) => profiles.get("default").cloned(),
        (Some(text), Some(profiles)) => Some(profile(reader, text, profiles)?),
    };
    Ok(AgentDefaults {
        engine,
        profile,
        allowed_tools: tools(reader, &raw.allowed_tools, known)?,
        sandbox: confinement::sandbox(
            &raw.sandbox,
            usual_sandbox,
            (reader.source, &["defaults", "sandbox"]),
        )?,
        network: network::rules(&raw.network, reader, &NetworkRules::default())?,
        policy: confinement::policy(&raw.policy),
    })
}

pub fn engine(
    reader: &Reader<'_>,
    text: &TextScalar,
    known: &KnownNames,
) -> Result<String, Mistake> {
    let names: Vec<&str> = known.engines.iter().map(String::as_str).collect();
    reference(reader, text, "engine", &names)
}

/// A profile by its name, or another model of a profile's vendor as `vendor:model`.
pub fn profile(
    reader: &Reader<'_>,
    text: &TextScalar,
    profiles: &ProfileMap,
) -> Result<Arc<Profile>, Mistake> {
    let wanted = reader.text(text)?;
    let unknown = |kind, written: &str, names: &[&str]| {
        let mistake = reader.mistake(text, format!("there is no {kind} `{written}`"));
        mistake.expecting_one_of(written, names.iter().copied())
    };
    let Some((vendor, model)) = wanted.split_once(':') else {
        let names: Vec<&str> = profiles.keys().map(String::as_str).collect();
        return profiles.get(&wanted).cloned().ok_or_else(|| unknown("profile", &wanted, &names));
    };
    let mut vendors: Vec<&str> = profiles.values().map(|it| it.provider.as_str()).collect();
    vendors.sort_unstable();
    vendors.dedup();
    if !vendors.contains(&vendor) {
        return Err(unknown("profile with the provider", vendor, &vendors));
    }
    let usual = profiles.get("default").or_else(|| profiles.values().next());
    let found = usual.and_then(|usual| choice::profile(&wanted, usual, profiles).ok());
    found.ok_or_else(|| {
        let mistake = reader.mistake(text, format!("`{model}` is no model"));
        mistake.expecting(format!("`{vendor}:` and the model's name at the vendor"))
    })
}

pub fn profile_name(
    reader: &Reader<'_>,
    text: &TextScalar,
    names: &[&str],
) -> Result<String, Mistake> {
    reference(reader, text, "profile", names)
}

/// Tool names are checked; a pattern with `*`, and a name with `.` or `__`, may mean tools that
/// come later. A preset stands for its tools from here on.
pub fn tools(
    reader: &Reader<'_>,
    raw: &[TextScalar],
    known: &KnownNames,
) -> Result<Vec<String>, Mistake> {
    let names: Vec<&str> = known.tools.iter().map(String::as_str).collect();
    let mut allowed = Vec::new();
    for text in raw {
        if text.as_str().starts_with('@') {
            let presets: Vec<&str> = allow::PRESETS.iter().map(|preset| preset.0).collect();
            let name = reference(reader, text, "preset", &presets)?;
            let tools = allow::PRESETS.iter().find(|preset| preset.0 == name);
            let tools = tools.map_or(&[][..], |preset| preset.1);
            allowed.extend(tools.iter().map(|tool| (*tool).to_owned()));
        } else if text.as_str().contains('*') || allow::may_come(text.as_str()) {
            allowed.push(reader.text(text)?);
        } else {
            allowed.push(reference(reader, text, "tool", &names)?);
        }
    }
    Ok(allowed)
}

fn reference(
    reader: &Reader<'_>,
    text: &TextScalar,
    kind: &str,
    names: &[&str],
) -> Result<String, Mistake> {
    let name = reader.text(text)?;
    if names.contains(&name.as_str()) {
        return Ok(name);
    }
    let mistake = reader.mistake(text, format!("there is no {kind} `{name}`"));
    Err(mistake.expecting_one_of(&name, names.iter().copied()))
}

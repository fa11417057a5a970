//! `teams/<agent>/`: one agent's settings and rules. Every key is optional.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use skep_cli::hive::Home;
use skep_core::budget::Caps;
use skep_core::heads;
use skep_core::ids::{AgentName, is_agent_name};
use skep_core::policy::Policy;
use skep_core::policy::network::NetworkRules;
use skep_core::settings::{
    AgentSettings, Budgets, Limits, Parallel, Profile, QueueMode, RuleTier, Think, USUAL_RECIPIENTS,
};

use super::confinement::{self, RawSandbox};
use super::environment::{Reader, Variables};
use super::guidance::{self, rules};
use super::hive::{self, AgentDefaults};
use super::known_names::KnownNames;
use super::mistake::Mistake;
use super::network::{self, RawNetwork};
use super::policy::{self, RawRule};
use super::scalar::{BoundedInteger, Dollars, TextScalar, present};
use super::source::{FILE_BYTES, FilledFiles, PolicyReading, SourceText};
use super::yaml;

/// One agent.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RawAgent {
    /// The agent's name; when written, it is the name of its folder.
    #[schemars(extend("x-holds" = "folder name"))]
    name: Option<TextScalar>,
    /// The agent whose team it belongs to (none: a root of the tree). What that one and those
    /// above it may not, it may not either.
    #[schemars(extend("x-holds" = "agent"))]
    parent: Option<TextScalar>,
    /// What the agent is for, in a sentence.
    #[schemars(extend("x-holds" = "text"))]
    description: Option<TextScalar>,
    /// What runs its turns.
    #[schemars(extend("x-holds" = "engine"))]
    engine: Option<TextScalar>,
    /// Another word for `engine`.
    #[schemars(extend("x-holds" = "engine"))]
    sdk: Option<TextScalar>,
    /// The model profile it uses.
    #[schemars(extend("x-holds" = "profile"))]
    profile: Option<TextScalar>,
    /// How much its model thinks; the profile's own `thinking` when absent.
    think: Option<RawThink>,
    /// The tools it may use: exact names, patterns with `*`, presets such as `@files`. What is not
    /// listed is not there.
    #[serde(deserialize_with = "present")]
    #[schemars(with = "Vec<String>", extend("x-holds" = "tool"))]
    allowed_tools: Option<Vec<TextScalar>>,
    /// Model calls in a turn; the hive's limits.steps when absent.
    max_steps: Option<BoundedInteger<1, 10_000>>,
    /// It may start and stop other agents and ask for new ones (false).
    #[serde(deserialize_with = "present")]
    #[schemars(with = "bool")]
    manager: Option<bool>,
    /// Turns that run at a time: one in each conversation (`sessions`, for a root) or one in all
    /// (`one`, for an agent with a parent).
    parallel: Option<RawParallel>,
    /// Whom it may write to: names of agents, `parent`, `children`, `siblings`, `operator`, and
    /// `*` for all at once (parent, children, siblings, operator).
    #[serde(deserialize_with = "present")]
    #[schemars(with = "Vec<String>", extend("x-holds" = "recipient"))]
    allowed_recipients: Option<Vec<TextScalar>>,
    /// What happens to a message that arrives while a turn runs.
    queue_mode: Option<RawQueueMode>,
    /// The folder it works in; `work/` beside this file when absent.
    #[schemars(extend("x-holds" = "folder"))]
    workspace: Option<TextScalar>,
    sandbox: RawSandbox,
    network: RawNetwork,
    budgets: RawBudgets,
    /// What becomes of its tool calls, where the hive's defaults are not enough.
    policy: Vec<RawRule>,
}

/// What its model calls may use, beside what the hive may.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RawBudgets {
    /// Tokens in a day, UTC (no limit).
    tokens_per_day: Option<BoundedInteger<1, 10_000_000_000>>,
    /// Dollars in a day, UTC (no limit).
    cost_per_day: Option<Dollars>,
    /// Tokens in a day, UTC, of the agent and everybody below it (no limit).
    team_tokens_per_day: Option<BoundedInteger<1, 10_000_000_000>>,
    /// Dollars in a day, UTC, of the agent and everybody below it (no limit).
    team_cost_per_day: Option<Dollars>,
    /// Tokens in one turn (no limit).
    tokens_per_turn: Option<BoundedInteger<1, 10_000_000_000>>,
    /// Dollars in one turn (no limit).
    cost_per_turn: Option<Dollars>,
    /// Seconds a turn may run; the hive's limits.turn_seconds when absent.
    turn_seconds: Option<BoundedInteger<1, 604_800>>,
}

impl RawBudgets {
    fn resolve(&self) -> Budgets {
        let caps = |tokens: Option<u64>, cost: Option<&Dollars>| Caps {
            tokens,
            cost: cost.map(|dollars| dollars.0),
        };
        Budgets {
            day: caps(self.tokens_per_day.map(|n| n.0), self.cost_per_day.as_ref()),
            turn: caps(self.tokens_per_turn.map(|n| n.0), self.cost_per_turn.as_ref()),
            team: caps(self.team_tokens_per_day.map(|n| n.0), self.team_cost_per_day.as_ref()),
            turn_time: self.turn_seconds.map(|n| Duration::from_secs(n.0)),
        }
    }
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RawQueueMode {
    Queue,
    Interrupt,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RawParallel {
    Sessions,
    One,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RawThink {
    Off,
    Low,
    Medium,
    High,
}

/// What an agent's file is resolved against.
pub struct AgentContext<'a> {
    pub home: &'a Home,
    pub defaults: &'a AgentDefaults,
    pub limits: &'a Limits,
    pub profiles: &'a BTreeMap<String, Arc<Profile>>,
    pub known: &'a KnownNames,
    pub variables: Variables<'a>,
    pub filled: FilledFiles<'a>,
}

pub fn read(name: &str, around: &AgentContext<'_>) -> Result<AgentSettings, Mistake> {
    read_at(name, &around.home.agent(name), around)
}

/// An agent whose folder is not in its place.
pub fn read_at(
    name: &str,
    folder: &Path,
    around: &AgentContext<'_>,
) -> Result<AgentSettings, Mistake> {
    read_source(name, folder, &source(name, folder)?, around)
}

/// An agent in its place, as if its file had this text.
pub fn read_text(
    name: &str,
    text: &str,
    around: &AgentContext<'_>,
) -> Result<AgentSettings, Mistake> {
    let folder = around.home.agent(name);
    let source = SourceText { text: text.to_owned(), ..source(name, &folder)? };
    read_source(name, &folder, &source, around)
}

fn read_source(
    name: &str,
    folder: &Path,
    source: &SourceText,
    around: &AgentContext<'_>,
) -> Result<AgentSettings, Mistake> {
    around.filled.check(&source.file, !source.text.trim().is_empty())?;
    let raw: RawAgent = yaml::parse(source)?;
    let reader = Reader { source, variables: around.variables };
    resolve(name, folder, &raw, &reader, around)
}

/// How many rules the policy of this text has; `None` if it cannot be read.
pub fn rule_count(text: &str) -> Option<usize> {
    let source = SourceText { file: "config.yaml".into(), text: text.to_owned() };
    yaml::parse::<RawAgent>(&source).ok().map(|raw| raw.policy.len())
}

/// The keys that this text sets; none where it cannot be read.
pub fn written_keys(text: &str) -> Vec<String> {
    let source = SourceText { file: "config.yaml".into(), text: text.to_owned() };
    let keys = yaml::parse::<BTreeMap<String, serde_json::Value>>(&source);
    keys.map(|keys| keys.into_keys().collect()).unwrap_or_default()
}

/// What the agent of this text is for, as it is written.
pub fn description(text: &str) -> Option<String> {
    let source = SourceText { file: "config.yaml".into(), text: text.to_owned() };
    let raw = yaml::parse::<RawAgent>(&source).ok()?;
    raw.description.map(|text| text.as_str().to_owned())
}

/// Whether the file parses, without resolving its references.
pub fn look_at(home: &Home, name: &str) -> Result<(), Mistake> {
    yaml::parse::<RawAgent>(&source(name, &home.agent(name))?).map(drop)
}

/// Whether `policy` and `network` can be read, whatever else is wrong with the file.
pub fn read_policy(
    home: &Home,
    name: &str,
    known: &KnownNames,
    variables: Variables,
) -> PolicyReading {
    #[derive(Default, Deserialize, JsonSchema)]
    #[serde(default)]
    struct PolicyOnlyAgent {
        policy: Vec<RawRule>,
        network: RawNetwork,
    }
    let known = &*guidance::named_with(&home.agent(name), known);
    let read = source(name, &home.agent(name)).and_then(|source| {
        let raw: PolicyOnlyAgent = yaml::parse(&source)?;
        let reader = Reader { source: &source, variables };
        policy::rules(&raw.policy, &reader, known)?;
        network::rules(&raw.network, &reader, &NetworkRules::default())?;
        Ok(Some(source))
    });
    PolicyReading::of(read)
}

fn source(name: &str, folder: &Path) -> Result<SourceText, Mistake> {
    if !is_agent_name(name) {
        let mistake = Mistake::of_file(folder, "the folder's name cannot be an agent's name");
        return Err(mistake.expecting("1 to 64 lower-case letters, digits and single dashes"));
    }
    let file = folder.join("config.yaml");
    SourceText::read(&file, FILE_BYTES)?.ok_or_else(|| {
        let mistake = Mistake::of_file(&file, "is missing");
        mistake.expecting("the agent's settings; an empty file is enough")
    })
}

fn resolve(
    name: &str,
    folder: &Path,
    raw: &RawAgent,
    reader: &Reader<'_>,
    around: &AgentContext<'_>,
) -> Result<AgentSettings, Mistake> {
    check_name(name, raw, reader)?;
    let (defaults, known) = (around.defaults, &*guidance::named_with(folder, around.known));
    let allowed_tools = match &raw.allowed_tools {
        None => defaults.allowed_tools.clone(),
        Some(listed) => hive::tools(reader, listed, known)?,
    };
    let description = raw.description.as_ref().map(|text| reader.text(text)).transpose()?;
    let parent = parent(raw, reader, around)?;
    let workspace = workspace(folder, raw, reader, around)?;
    let place = format!("teams/{name}");
    let (skills, mut left_out) = guidance::skills(folder, &place);
    let (subagents, more) = guidance::subagents(folder, &place, around.known, &skills);
    left_out.extend(more);
    let working = workspace.canonicalize().unwrap_or_else(|_| workspace.clone());
    Ok(AgentSettings {
        name: AgentName::new(name),
        description: description.as_deref().map(heads::in_line).unwrap_or_default(),
        manager: raw.manager.unwrap_or(false),
        parallel: match (raw.parallel, &parent) {
            (Some(RawParallel::One), _) | (None, Some(_)) => Parallel::One,
            (Some(RawParallel::Sessions), _) | (None, None) => Parallel::Sessions,
        },
        parent,
        allowed_recipients: recipients(raw, reader)?,
        engine: engine(raw, reader, around)?,
        engine_options: Default::default(),
        profile: profile(raw, reader, around)?,
        think: raw.think.map(|level| match level {
            RawThink::Off => Think::Off,
            RawThink::Low => Think::Low,
            RawThink::Medium => Think::Medium,
            RawThink::High => Think::High,
        }),
        allowed_tools,
        max_steps: raw.max_steps.map_or(around.limits.steps, |n| n.0 as u32),
        budgets: raw.budgets.resolve(),
        queue_mode: match raw.queue_mode {
            Some(RawQueueMode::Interrupt) => QueueMode::Interrupt,
            Some(RawQueueMode::Queue) | None => QueueMode::Queue,
        },
        workspace,
        folder: folder.to_path_buf(),
        sandbox: confinement::sandbox(
            &raw.sandbox,
            defaults.sandbox,
            (reader.source, &["sandbox"]),
        )?,
        policy: Policy {
            classes: defaults.policy,
            rules: policy::within(policy::rules(&raw.policy, reader, known)?, &working),
            above: Vec::new(),
            network: network::rules(&raw.network, reader, &defaults.network)?,
            broken: None,
        },
        org_rules: rules::read(&folder.join("org-rules"), &RuleTier::OwnOrg)?,
        team_rules: rules::read(&folder.join("team-rules"), &RuleTier::Team)?,
        skills: skills.into(),
        subagents: subagents.into(),
        role: None,
        left_out: left_out.into(),
    })
}

fn check_name(folder: &str, raw: &RawAgent, reader: &Reader<'_>) -> Result<(), Mistake> {
    let Some(text) = &raw.name else { return Ok(()) };
    let written = reader.text(text)?;
    if written == folder {
        return Ok(());
    }
    let mistake = reader.mistake(text, format!("`{written}` is not the name of the folder"));
    Err(mistake.expecting(format!("`{folder}`")))
}

/// Circles are found when the tree is made of all agents.
fn parent(
    raw: &RawAgent,
    reader: &Reader<'_>,
    around: &AgentContext<'_>,
) -> Result<Option<AgentName>, Mistake> {
    let Some(text) = &raw.parent else { return Ok(None) };
    let written = reader.text(text)?;
    if is_agent_name(&written) && around.home.agent(&written).is_dir() {
        return Ok(Some(AgentName::new(written)));
    }
    let folders = std::fs::read_dir(around.home.teams()).into_iter().flatten().flatten();
    let names = folders.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| is_agent_name(name)).collect();
    names.sort();
    let mistake = reader.mistake(text, format!("there is no agent `{written}`"));
    Err(mistake.expecting_one_of(&written, names.iter().map(String::as_str)))
}

fn recipients(raw: &RawAgent, reader: &Reader<'_>) -> Result<Vec<String>, Mistake> {
    let Some(listed) = &raw.allowed_recipients else {
        return Ok(USUAL_RECIPIENTS.map(str::to_owned).to_vec());
    };
    let recipient = |text: &TextScalar| {
        let written = reader.text(text)?;
        if written == "*" || is_agent_name(&written) {
            return Ok(written);
        }
        let mistake = reader.mistake(text, format!("`{written}` cannot be written to"));
        Err(mistake.expecting("the name of an agent, parent, children, siblings, operator or `*`"))
    };
    listed.iter().map(recipient).collect()
}

fn engine(
    raw: &RawAgent,
    reader: &Reader<'_>,
    around: &AgentContext<'_>,
) -> Result<String, Mistake> {
    match (&raw.engine, &raw.sdk) {
        (Some(_), Some(sdk)) => {
            let mistake = reader.mistake(sdk, "is another word for `engine`, which is there too");
            Err(mistake.expecting("only one of the two keys"))
        }
        (Some(text), None) | (None, Some(text)) => hive::engine(reader, text, around.known),
        (None, None) => Ok(around.defaults.engine.clone()),
    }
}

fn profile(
    raw: &RawAgent,
    reader: &Reader<'_>,
    around: &AgentContext<'_>,
) -> Result<Arc<Profile>, Mistake> {
    match &raw.profile {
        Some(text) => hive::profile(reader, text, around.profiles),
        None => {
            around.defaults.profile.clone().ok_or_else(|| {
                Mistake::of_file(&reader.source.file, "there is no profile `default`")
            })
        }
    }
}

/// The agent's workspace. A configured one must exist and must not contain the home: an agent that
/// reads the home reads keys and other conversations.
fn workspace(
    folder: &Path,
    raw: &RawAgent,
    reader: &Reader<'_>,
    around: &AgentContext<'_>,
) -> Result<PathBuf, Mistake> {
    let Some(text) = &raw.workspace else { return Ok(folder.join("work")) };
    let written = reader.text(text)?;
    let path = match (written.strip_prefix("~/"), (around.variables)("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => folder.join(&written),
    };
    let found = std::fs::canonicalize(&path)
        .map_err(|error| reader.mistake(text, format!("{}: {error}", path.display())))?;
    if !found.is_dir() {
        let what = format!("{} is not a folder", found.display());
        return Err(reader.mistake(text, what).expecting("an existing folder"));
    }
    if is_the_hives_own(&found, around.home) {
        let mistake = reader.mistake(text, "would show the agent the hive's own files");
        return Err(mistake.expecting("a folder that does not hold the home or settings in it"));
    }
    Ok(found)
}

/// Whether a folder contains the home, or settings, rules or `run/` of it.
fn is_the_hives_own(found: &Path, home: &Home) -> bool {
    let Ok(root) = std::fs::canonicalize(home.root()) else { return false };
    let Ok(inside) = found.strip_prefix(&root) else { return root.starts_with(found) };
    let parts: Vec<&str> = inside.iter().map(|part| part.to_str().unwrap_or_default()).collect();
    match parts[..] {
        [] | ["run" | "rules" | "plugins", ..] => true,
        ["teams"] | ["teams", _] => true,
        ["teams", _, within, ..] => within != "work",
        [..] => false,
    }
}

//! `teams/<agent>/`: one agent's settings and rules. Every key is optional.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use skep_cli::hive::Home;
use skep_core::budget::Caps;
use skep_core::ids::{AgentName, is_agent_name};
use skep_core::policy::Policy;
use skep_core::settings::{AgentSettings, Budgets, Profile, QueueMode, Think};

use super::confinement::{self, RawSandbox};
use super::environment::{Reader, Variables};
use super::hive::{self, Hive};
use super::load::{Filled, Known};
use super::policy::{self, RawRule};
use super::problem::Problem;
use super::rules;
use super::scalar::{Dollars, Text, Whole, present};
use super::source::{FILE_BYTES, Source};
use super::yaml;

/// One agent.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RawAgent {
    /// The agent's name; when written, it is the name of its folder.
    #[schemars(extend("x-holds" = "folder name"))]
    name: Option<Text>,
    /// What the agent is for, in a sentence.
    #[schemars(extend("x-holds" = "text"))]
    description: Option<Text>,
    /// What runs its turns.
    #[schemars(extend("x-holds" = "engine"))]
    engine: Option<Text>,
    /// Another word for `engine`.
    #[schemars(extend("x-holds" = "engine"))]
    sdk: Option<Text>,
    /// The model profile it uses.
    #[schemars(extend("x-holds" = "profile"))]
    profile: Option<Text>,
    /// How much its model thinks; the profile's own `thinking` when absent.
    think: Option<RawThink>,
    /// The tools it may use: exact names, patterns with `*`, presets such as `@files`. What is not
    /// listed is not there.
    #[serde(deserialize_with = "present")]
    #[schemars(with = "Vec<String>", extend("x-holds" = "tool"))]
    allowed_tools: Option<Vec<Text>>,
    /// Model calls in a turn; the hive's limits.steps when absent.
    max_steps: Option<Whole<1, 10_000>>,
    /// What happens to a message that arrives while a turn runs.
    queue_mode: Option<RawQueueMode>,
    /// The folder it works in; `work/` beside this file when absent.
    #[schemars(extend("x-holds" = "folder"))]
    workspace: Option<Text>,
    sandbox: RawSandbox,
    budgets: RawBudgets,
    /// What becomes of its tool calls, where the hive's defaults are not enough.
    policy: Vec<RawRule>,
}

impl RawAgent {
    /// How many rules its policy has.
    pub fn rules(&self) -> usize {
        self.policy.len()
    }
}

/// What its model calls may use, beside what the hive may.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RawBudgets {
    /// Tokens in a day, UTC (no limit).
    tokens_per_day: Option<Whole<1, 10_000_000_000>>,
    /// Dollars in a day, UTC (no limit).
    cost_per_day: Option<Dollars>,
    /// Tokens in one turn (no limit).
    tokens_per_turn: Option<Whole<1, 10_000_000_000>>,
    /// Dollars in one turn (no limit).
    cost_per_turn: Option<Dollars>,
    /// Seconds a turn may run; the hive's limits.turn_seconds when absent.
    turn_seconds: Option<Whole<1, 604_800>>,
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
enum RawThink {
    Off,
    Low,
    Medium,
    High,
}

/// What an agent's file may refer to.
pub struct Around<'a> {
    pub home: &'a Home,
    pub hive: &'a Hive,
    pub profiles: &'a BTreeMap<String, Arc<Profile>>,
    pub known: &'a Known,
    pub variables: Variables<'a>,
    pub filled: Filled,
}

pub fn read(name: &str, around: &Around<'_>) -> Result<AgentSettings, Problem> {
    let folder = around.home.agent(name);
    let source = source(name, &folder)?;
    around.filled.check(&source.file, !source.text.trim().is_empty())?;
    let raw: RawAgent = yaml::parse(&source)?;
    let reader = Reader { source: &source, variables: around.variables };
    resolve(name, &folder, &raw, &reader, around)
}

/// Whether the file is one at all, whatever it refers to.
pub fn look_at(home: &Home, name: &str) -> Result<(), Problem> {
    yaml::parse::<RawAgent>(&source(name, &home.agent(name))?).map(drop)
}

/// Whether `policy` can be read, whatever else is wrong with the file.
pub fn policy_mistake(
    home: &Home,
    name: &str,
    known: &Known,
    variables: Variables,
) -> Option<Problem> {
    #[derive(Default, Deserialize, JsonSchema)]
    #[serde(default)]
    struct Lenient {
        policy: Vec<RawRule>,
    }
    let read = source(name, &home.agent(name)).and_then(|source| {
        let raw: Lenient = yaml::parse(&source)?;
        policy::rules(&raw.policy, &Reader { source: &source, variables }, known).map(drop)
    });
    read.err()
}

fn source(name: &str, folder: &Path) -> Result<Source, Problem> {
    if !is_agent_name(name) {
        let problem = Problem::of_file(folder, "the folder's name cannot be an agent's name");
        return Err(problem.expecting("1 to 64 lower-case letters, digits and single dashes"));
    }
    let file = folder.join("config.yaml");
    Source::read(&file, FILE_BYTES)?.ok_or_else(|| {
        let problem = Problem::of_file(&file, "is missing");
        problem.expecting("the agent's settings; an empty file is enough")
    })
}

fn resolve(
    name: &str,
    folder: &Path,
    raw: &RawAgent,
    reader: &Reader<'_>,
    around: &Around<'_>,
) -> Result<AgentSettings, Problem> {
    check_name(name, raw, reader)?;
    let defaults = &around.hive.defaults;
    let allowed_tools = match &raw.allowed_tools {
        None => defaults.allowed_tools.clone(),
        Some(listed) => hive::tools(reader, listed, around.known)?,
    };
    let description = raw.description.as_ref().map(|text| reader.text(text)).transpose()?;
    let workspace = workspace(folder, raw, reader, around)?;
    let working = workspace.canonicalize().unwrap_or_else(|_| workspace.clone());
    Ok(AgentSettings {
        name: AgentName::new(name),
        description: description.unwrap_or_default(),
        engine: engine(raw, reader, around)?,
        profile: profile(raw, reader, around)?,
        think: raw.think.map(|level| match level {
            RawThink::Off => Think::Off,
            RawThink::Low => Think::Low,
            RawThink::Medium => Think::Medium,
            RawThink::High => Think::High,
        }),
        allowed_tools,
        max_steps: raw.max_steps.map_or(around.hive.limits.steps, |n| n.0 as u32),
        budgets: raw.budgets.resolve(),
        queue_mode: match raw.queue_mode {
            Some(RawQueueMode::Interrupt) => QueueMode::Interrupt,
            Some(RawQueueMode::Queue) | None => QueueMode::Queue,
        },
        workspace,
        folder: folder.to_path_buf(),
        sandbox: confinement::sandbox(&raw.sandbox, defaults.sandbox),
        policy: Policy {
            classes: defaults.policy,
            rules: policy::within(policy::rules(&raw.policy, reader, around.known)?, &working),
            broken: None,
        },
        org_rules: rules::read(&folder.join("org-rules"))?,
        team_rules: rules::read(&folder.join("team-rules"))?,
    })
}

fn check_name(folder: &str, raw: &RawAgent, reader: &Reader<'_>) -> Result<(), Problem> {
    let Some(text) = &raw.name else { return Ok(()) };
    let written = reader.text(text)?;
    if written == folder {
        return Ok(());
    }
    let problem = reader.problem(text, format!("`{written}` is not the name of the folder"));
    Err(problem.expecting(format!("`{folder}`")))
}

fn engine(raw: &RawAgent, reader: &Reader<'_>, around: &Around<'_>) -> Result<String, Problem> {
    match (&raw.engine, &raw.sdk) {
        (Some(_), Some(sdk)) => {
            let problem = reader.problem(sdk, "is another word for `engine`, which is there too");
            Err(problem.expecting("only one of the two keys"))
        }
        (Some(text), None) | (None, Some(text)) => hive::engine(reader, text, around.known),
        (None, None) => Ok(around.hive.defaults.engine.clone()),
    }
}

fn profile(
    raw: &RawAgent,
    reader: &Reader<'_>,
    around: &Around<'_>,
) -> Result<Arc<Profile>, Problem> {
    match &raw.profile {
        Some(text) => hive::profile(reader, text, around.profiles),
        None => {
            around.hive.defaults.profile.clone().ok_or_else(|| {
                Problem::of_file(&reader.source.file, "there is no profile `default`")
            })
        }
    }
}

/// The folder an agent works in. One written by hand has to exist and must not hold the hive
/// itself: an agent that can read its home reads keys and other agents' talk.
fn workspace(
    folder: &Path,
    raw: &RawAgent,
    reader: &Reader<'_>,
    around: &Around<'_>,
) -> Result<PathBuf, Problem> {
    let Some(text) = &raw.workspace else {
        return Ok(folder.join("work"));
    };
    let written = reader.text(text)?;
    let path = match (written.strip_prefix("~/"), (around.variables)("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => folder.join(&written),
    };
    let found = std::fs::canonicalize(&path)
        .map_err(|error| reader.problem(text, format!("{}: {error}", path.display())))?;
    if !found.is_dir() {
        let what = format!("{} is not a folder", found.display());
        return Err(reader.problem(text, what).expecting("an existing folder"));
    }
    if is_the_hives_own(&found, around.home) {
        let problem = reader.problem(text, "would show the agent the hive's own files");
        return Err(problem.expecting("a folder that does not hold the home or settings in it"));
    }
    Ok(found)
}

/// Whether a folder holds the home, or lies in it where settings, rules or `run/` are.
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

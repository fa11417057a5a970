//! All files of a home, read and checked together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skep_cli::hive::Home;
use skep_core::ids::AgentName;
use skep_core::money::Price;
use skep_core::policy::allow;
use skep_core::prompt::rule_warnings;
use skep_core::settings::tree::AgentTree;
use skep_core::settings::{
    AgentMap, AgentSettings, AgentState, HiveSettings, Profile, RuleFile, RuleTier, VendorAddress,
};
use skep_scrub::Secret;
use url::Url;

use super::agent::{self, AgentContext};
use super::channels;
use super::environment::Variables;
use super::guidance::rules;
use super::hive::{self, AgentDefaults};
use super::keys::KeyFile;
use super::known_names::KnownNames;
use super::local;
use super::mistake::Mistake;
use super::providers::{self, VendorConnection};
use super::source::{FILE_BYTES, FilledFiles, SourceText};

/// What the files of a home mean.
#[derive(Clone, Debug)]
pub struct LoadedHome {
    pub settings: HiveSettings,
    /// By profile name. Keys live here and nowhere else.
    pub connections: BTreeMap<String, VendorConnection>,
    pub warnings: Vec<String>,
    /// No model is selected, and no local server was looked for.
    pub undecided: bool,
    /// The names the files were resolved with.
    pub known: KnownNames,
    /// The port of the command line; it overrides the file.
    pub port: Option<u16>,
    /// The command line accepts the loss of messages in a damaged log.
    pub accept_loss: bool,
    pub notice: NoticeForm,
    /// The problems of the disabled agents.
    pub broken: BTreeMap<AgentName, Mistake>,
    /// The files that were not empty.
    pub filled: BTreeSet<PathBuf>,
    /// What agents are resolved with that are read alone.
    pub defaults: AgentDefaults,
}

/// How a start says that the hive can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeForm {
    People,
    Programs,
    /// Whoever started it knows.
    Hidden,
}

impl LoadedHome {
    /// Agents as they were read again, `None` for one that is gone, with their problems.
    pub fn take_in(
        &mut self,
        home: &Home,
        states: BTreeMap<AgentName, Option<AgentState>>,
        read: ReadAgents,
    ) {
        for name in states.keys() {
            self.broken.remove(name);
            self.filled.remove(&home.agent(name.as_str()).join("config.yaml"));
        }
        self.settings.set_agents(states);
        self.broken.extend(read.broken);
        self.filled.extend(read.filled);
    }

    /// What is wrong with single agents: in their files, and in their places in the tree.
    pub fn problems(&self, home: &Home) -> Vec<Mistake> {
        let broken = self.broken.values().cloned();
        broken.chain(misplaced(home, &self.settings.tree())).collect()
    }

    /// Whether a model call may cost money: a known price, or an unknown one of a remote model.
    pub fn costs_money(&self) -> bool {
        let profiles = self.settings.profiles.iter();
        let mut urls = profiles.map(|(name, it)| (it, self.connections.get(name)));
        urls.any(|(profile, it)| costs_money(profile, it.map_or("", |it| &it.api_url)))
    }
}

pub(super) fn costs_money(profile: &Profile, url: &str) -> bool {
    profile.price.map_or_else(|| !is_local(url), |price| price != Price::FREE)
}

fn is_local(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The problems that prevent a start, one per file.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadError {
    pub mistakes: Vec<Mistake>,
}

impl std::error::Error for LoadError {}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{mistake}")?;
        }
        Ok(())
    }
}

/// Reads everything. A mistake in a file of the hive stops it; a mistake in an agent's folder
/// disables that agent alone.
pub fn load(
    home: &Home,
    known: &KnownNames,
    variables: Variables,
) -> Result<LoadedHome, LoadError> {
    read_all(home, known, variables, FilledFiles::default())
}

/// As `load`; looks for a local model server if no model is selected.
pub async fn load_looking(
    home: &Home,
    known: &KnownNames,
    variables: Variables<'_>,
) -> Result<LoadedHome, LoadError> {
    let loaded = load(home, known, variables)?;
    if !loaded.undecided {
        return Ok(loaded);
    }
    let known = KnownNames { local: local::look(variables).await, ..known.clone() };
    load(home, &known, variables)
}

/// As `load`, while a hive runs on earlier settings: a file or folder that became empty counts as
/// an unfinished change, not as a new setting.
pub fn load_again(
    home: &Home,
    known: &KnownNames,
    variables: Variables,
    before: &LoadedHome,
) -> Result<LoadedHome, LoadError> {
    let loaded = read_all(home, known, variables, FilledFiles::since(&before.filled))?;
    Ok(LoadedHome { port: before.port, ..loaded })
}

/// Some agents of a home, read alone.
pub struct ReadAgents {
    /// `None` for one whose folder is gone.
    pub states: BTreeMap<AgentName, Option<AgentState>>,
    pub broken: BTreeMap<AgentName, Mistake>,
    filled: BTreeSet<PathBuf>,
}

/// Reads these agents again and no other file: what the hive's own files say is as it was read
/// before.
pub fn load_agents(
    home: &Home,
    names: &BTreeSet<AgentName>,
    variables: Variables,
    before: &LoadedHome,
) -> ReadAgents {
    let around = around(home, variables, before, FilledFiles::since(&before.filled));
    let there = names.iter().filter(|name| home.agent(name.as_str()).is_dir());
    let (found, broken) = agents(&around, there.map(ToString::to_string).collect());
    let mut states: BTreeMap<_, _> = names.iter().map(|name| (name.clone(), None)).collect();
    states.extend(found.iter().map(|(name, state)| (name.clone(), Some(state.clone()))));
    ReadAgents { states, broken, filled: around.filled.into_now() }
}

/// Whether an agent could run whose folder is not in its place yet.
pub fn check_staged(
    home: &Home,
    name: &AgentName,
    folder: &Path,
    variables: Variables,
    before: &LoadedHome,
) -> Result<(), Mistake> {
    let around = around(home, variables, before, FilledFiles::default());
    agent::read_at(name.as_str(), folder, &around).map(drop)
}

/// What an agent would be if its file had this text.
pub fn read_with_text(
    home: &Home,
    name: &AgentName,
    text: &str,
    variables: Variables,
    before: &LoadedHome,
) -> Result<AgentSettings, Mistake> {
    let around = around(home, variables, before, FilledFiles::since(&before.filled));
    agent::read_text(name.as_str(), text, &around)
}

/// With what the hive's own files said when they were read.
fn around<'a>(
    home: &'a Home,
    variables: Variables<'a>,
    before: &'a LoadedHome,
    filled: FilledFiles<'a>,
) -> AgentContext<'a> {
    AgentContext {
        home,
        defaults: &before.defaults,
        limits: &before.settings.limits,
        profiles: &before.settings.profiles,
        known: &before.known,
        variables,
        filled,
    }
}

/// All problems and warnings of the files of a home.
pub struct CheckReport {
    pub mistakes: Vec<Mistake>,
    pub warnings: Vec<String>,
    /// The agents without problems.
    pub agents: Vec<String>,
}

/// Reads everything as a start does, but continues after a problem. If the hive's own files are
/// wrong, only keys and values of the agents' files are checked, not their references.
pub fn check(home: &Home, known: &KnownNames, variables: Variables) -> CheckReport {
    match load(home, known, variables) {
        Ok(loaded) => {
            let tree = loaded.settings.tree();
            let agents = tree.in_force().iter();
            let able = agents.filter(|(_, state)| matches!(state, AgentState::Active(_)));
            let missing = missing_tools(&loaded.settings, known);
            let guidance = guidance_warnings(&loaded.settings.hive_rules, &tree);
            CheckReport {
                agents: able.map(|(name, _)| name.to_string()).collect(),
                mistakes: loaded.problems(home),
                warnings: loaded.warnings.into_iter().chain(missing).chain(guidance).collect(),
            }
        }
        Err(mut error) => {
            let names = agent_names(home, &FilledFiles::default()).unwrap_or_default();
            let wrong = names.iter().filter_map(|name| agent::look_at(home, name).err());
            error.mistakes.extend(wrong);
            CheckReport { mistakes: error.mistakes, warnings: Vec::new(), agents: Vec::new() }
        }
    }
}

/// Agents that could run if their places in the tree made sense.
pub fn misplaced(home: &Home, tree: &AgentTree) -> Vec<Mistake> {
    let written = tree.written().iter();
    let able = written.filter(|(_, state)| matches!(state, AgentState::Active(_)));
    let found = able.filter_map(|(name, _)| match tree.in_force().get(name) {
        Some(AgentState::Failed { reason }) => {
            let file = home.agent(name.as_str()).join("config.yaml");
            Some(Mistake::of_file(&file, reason.clone()))
        }
        _ => None,
    });
    found.collect()
}

/// Files that are left out, and headings that stand in two rules of a cascade; each once, whoever
/// reads them.
fn guidance_warnings(hive_rules: &[RuleFile], tree: &AgentTree) -> BTreeSet<String> {
    let able = tree.in_force().values().filter_map(|state| match state {
        AgentState::Active(agent) => Some(agent),
        AgentState::Failed { .. } => None,
    });
    let told = able.flat_map(|agent| {
        let rules = rule_warnings(hive_rules, agent).into_iter();
        rules.chain(agent.left_out.iter().cloned()).map(|warning| warning.text)
    });
    told.collect()
}

/// Tools that files name and the program itself does not have.
fn missing_tools(settings: &HiveSettings, known: &KnownNames) -> Vec<String> {
    let mut told = Vec::new();
    for (name, state) in settings.agents.iter() {
        let AgentState::Active(agent) = state else { continue };
        let mut missing = agent.named_tools();
        missing.retain(|tool| allow::may_come(tool) && !known.tools.iter().any(|it| it == tool));
        told.extend(missing.into_iter().map(|tool| {
            format!(
                "teams/{name}/config.yaml: the tool `{tool}` is not there now; it is used once \
                 somebody brings it"
            )
        }));
    }
    told
}

fn read_all(
    home: &Home,
    known: &KnownNames,
    variables: Variables,
    filled: FilledFiles<'_>,
) -> Result<LoadedHome, LoadError> {
    let mut mistakes = Vec::new();
    let providers = source(&home.providers_yaml(), &filled);
    let keys = source(&home.keys_env(), &filled).and_then(|source| KeyFile::parse(&source));
    let keys = keep(&mut mistakes, keys).unwrap_or_default();
    let with_keys = |name: &str| keys.get(name).or_else(|| variables(name));
    let mut providers = keep(
        &mut mistakes,
        providers.and_then(|source| providers::read(&source, &with_keys, &known.local)),
    );
    // The secrets are registered before anything else can print them.
    let mut secrets = providers.as_mut().map(|found| std::mem::take(&mut found.secrets));
    secrets.get_or_insert_default().extend(keys.secrets());
    let too_short = hide(secrets, variables);
    let profiles = providers.as_ref().map(|providers| &providers.profiles);
    let hive = source(&home.skep_yaml(), &filled);
    let hive = hive.and_then(|source| hive::read(&source, variables, known, profiles));
    let hive = keep(&mut mistakes, hive);
    let channels = source(&home.channels_yaml(), &filled);
    let channels = keep(&mut mistakes, channels.and_then(|source| channels::read(&source)));
    let hive_rules = keep(&mut mistakes, rules::read(&home.rules(), &RuleTier::Hive));
    let names = keep(&mut mistakes, agent_names(home, &filled));
    let (Some(providers), Some(mut hive), Some(channels), Some(hive_rules), Some(names)) =
        (providers, hive, channels, hive_rules, names)
    else {
        return Err(LoadError { mistakes });
    };
    hive.server.ws_enabled = channels.ws_enabled;
    let around = AgentContext {
        home,
        defaults: &hive.defaults,
        limits: &hive.limits,
        profiles: &providers.profiles,
        known,
        variables,
        filled,
    };
    let (agents, broken) = agents(&around, names);
    let filled = around.filled.into_now();
    Ok(LoadedHome {
        settings: HiveSettings {
            server: hive.server,
            limits: hive.limits,
            hive_rules,
            reached: providers.connections.iter().map(reached).collect(),
            profiles: providers.profiles,
            // The composition root makes them from the connections.
            providers: Default::default(),
            agents,
            model_note: providers.note,
        },
        connections: providers.connections,
        warnings: providers.warnings.into_iter().chain(too_short).collect(),
        undecided: providers.undecided,
        known: known.clone(),
        port: None,
        accept_loss: false,
        notice: NoticeForm::People,
        broken,
        filled,
        defaults: hive.defaults,
    })
}

/// Variables whose values are secrets whether a profile names them or not.
const SECRET_VARIABLES: &[&str] = &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "SKEP_TOKEN"];

/// Registers secrets for redaction; returns a warning for each that is too short.
fn hide(secrets: Option<Vec<Secret>>, variables: Variables) -> Vec<String> {
    let usual =
        SECRET_VARIABLES.iter().filter_map(|name| Some(Secret::new(*name, variables(name)?)));
    let mut too_short =
        skep_scrub::known().add(secrets.unwrap_or_default().into_iter().chain(usual));
    too_short.sort();
    too_short.dedup();
    let warning = |name: String| {
        format!(
            "{name} has fewer than {} characters: it is not taken out of texts and logs; use a \
             longer one",
            skep_scrub::SHORTEST
        )
    };
    too_short.into_iter().map(warning).collect()
}

fn reached((name, connection): (&String, &VendorConnection)) -> (String, VendorAddress) {
    let address = Url::parse(&connection.api_url).ok();
    // Without user and query: either may hold a secret.
    let address = address.map(|url| {
        format!("{}{}", url.origin().ascii_serialization(), url.path().trim_end_matches('/'))
    });
    (name.clone(), VendorAddress { address, key: connection.key_source.clone() })
}

fn keep<T>(mistakes: &mut Vec<Mistake>, result: Result<T, Mistake>) -> Option<T> {
    result.map_err(|mistake| mistakes.push(mistake)).ok()
}

/// A file of the hive; absent is the same as empty.
fn source(file: &Path, filled: &FilledFiles<'_>) -> Result<SourceText, Mistake> {
    let found = SourceText::read(file, FILE_BYTES)?;
    let found =
        found.unwrap_or_else(|| SourceText { file: file.to_path_buf(), text: String::new() });
    filled.check(file, !found.text.trim().is_empty())?;
    Ok(found)
}

/// Every folder in `teams/` is an agent, whatever its name; files and hidden folders are not.
fn agent_names(home: &Home, filled: &FilledFiles<'_>) -> Result<Vec<String>, Mistake> {
    let teams = home.teams();
    let unreadable =
        |error: std::io::Error| Mistake::of_file(&teams, format!("cannot be read: {error}"));
    let entries = match std::fs::read_dir(&teams) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            filled.check(&teams, false)?;
            return Ok(Vec::new());
        }
        Err(error) => return Err(unreadable(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && !name.starts_with('.') {
            names.push(name);
        }
    }
    filled.check(&teams, !names.is_empty())?;
    Ok(names)
}

fn agents(
    around: &AgentContext<'_>,
    names: Vec<String>,
) -> (AgentMap<AgentState>, BTreeMap<AgentName, Mistake>) {
    let (mut agents, mut broken) = (AgentMap::default(), BTreeMap::new());
    for name in names {
        let state = match agent::read(&name, around) {
            Ok(settings) => AgentState::Active(Arc::new(settings)),
            Err(mistake) => {
                let reason = mistake.to_string();
                broken.insert(AgentName::new(&name), mistake);
                AgentState::Failed { reason }
            }
        };
        agents.insert(AgentName::new(&name), state);
    }
    (agents, broken)
}

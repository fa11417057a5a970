//! All files of a home, read and checked together.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::Url;
use skep_cli::hive::Home;
use skep_core::ids::AgentName;
use skep_core::money::Price;
use skep_core::settings::{AgentState, HiveSettings, Reached};
use skep_guard::scrub::{self, Secret};

use super::agent::{self, Around};
use super::channels;
use super::environment::Variables;
use super::hive;
use super::local::{self, Local};
use super::problem::Problem;
use super::providers::{self, Connection};
use super::rules;
use super::source::{FILE_BYTES, Source};

/// The names files may refer to, given by whoever composes the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub engines: Vec<String>,
    pub tools: Vec<String>,
    /// Used where nothing else says which model.
    pub local: Local,
}

impl Known {
    pub fn new(engines: &[&str], tools: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self { engines: owned(engines), tools: owned(tools), local: Local::NotLooked }
    }
}

/// What the files of a home mean.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub settings: HiveSettings,
    /// By profile name. Keys live here and nowhere else.
    pub connections: BTreeMap<String, Connection>,
    pub warnings: Vec<String>,
    /// Nothing says which model, and nobody has looked for a server on this machine.
    pub undecided: bool,
    /// The names it was read with.
    pub known: Known,
    /// The port of the command line, which goes before the one in the file.
    pub port: Option<u16>,
    /// The command line takes the loss of answered messages with a damaged log.
    pub accept_loss: bool,
    /// What is wrong with the agents that failed.
    pub broken: BTreeMap<AgentName, Problem>,
    /// The files that had something in them.
    pub filled: BTreeSet<PathBuf>,
}

impl Loaded {
    /// Whether a call of one of the models may cost something: where nobody knows its price, any
    /// model on another machine.
    pub fn costs_money(&self) -> bool {
        self.settings.profiles.iter().any(|(name, profile)| match profile.price {
            Some(price) => price != Price::FREE,
            None => self.connections.get(name).is_none_or(|it| !is_local(&it.api_url)),
        })
    }
}

fn is_local(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else {
        return false;
    };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The files that keep the hive from starting, one problem each.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadError {
    pub problems: Vec<Problem>,
}

impl std::error::Error for LoadError {}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// Reads everything. A mistake in a file of the hive stops it; a mistake in an agent's folder
/// disables that agent alone.
pub fn load(home: &Home, known: &Known, variables: Variables) -> Result<Loaded, LoadError> {
    read_all(home, known, variables, Filled::default())
}

/// As `load`; where nothing says which model, a server on this machine may.
pub async fn load_looking(
    home: &Home,
    known: &Known,
    variables: Variables<'_>,
) -> Result<Loaded, LoadError> {
    let loaded = load(home, known, variables)?;
    if !loaded.undecided {
        return Ok(loaded);
    }
    let known = Known { local: local::look(variables).await, ..known.clone() };
    load(home, &known, variables)
}

/// As `load`, in a hive that runs on what was read before: a file or folder of it that has
/// nothing in it any more is taken for half a change, not for a wish.
pub fn load_again(
    home: &Home,
    known: &Known,
    variables: Variables,
    before: &Loaded,
) -> Result<Loaded, LoadError> {
    let loaded = read_all(home, known, variables, Filled::since(before))?;
    Ok(Loaded { port: before.port, ..loaded })
}

/// Everything that is wrong with the files of a home, and what is doubtful.
pub struct Checked {
    pub problems: Vec<Problem>,
    pub warnings: Vec<String>,
    /// The agents that can work.
    pub agents: Vec<String>,
}

/// Reads everything as a start would, and goes on where that would stop. Where the hive's own
/// files are wrong, what agents' files refer to cannot be told; their keys and values can.
pub fn check(home: &Home, known: &Known, variables: Variables) -> Checked {
    match load(home, known, variables) {
        Ok(loaded) => {
            let agents = loaded.settings.agents.iter();
            let able = agents.filter(|(_, state)| matches!(state, AgentState::Active(_)));
            Checked {
                agents: able.map(|(name, _)| name.to_string()).collect(),
                problems: loaded.broken.into_values().collect(),
                warnings: loaded.warnings,
            }
        }
        Err(mut error) => {
            let names = agent_names(home, &Filled::default()).unwrap_or_default();
            let wrong = names.iter().filter_map(|name| agent::look_at(home, name).err());
            error.problems.extend(wrong);
            Checked { problems: error.problems, warnings: Vec::new(), agents: Vec::new() }
        }
    }
}

fn read_all(
    home: &Home,
    known: &Known,
    variables: Variables,
    filled: Filled,
) -> Result<Loaded, LoadError> {
    let mut problems = Vec::new();
    let providers = source(&home.providers_yaml(), &filled);
    let mut providers = keep(
        &mut problems,
        providers.and_then(|source| providers::read(&source, variables, &known.local)),
    );
    // Known as secrets before anything else can speak of them.
    let too_short =
        hide(providers.as_mut().map(|found| std::mem::take(&mut found.secrets)), variables);
    let profiles = providers.as_ref().map(|providers| &providers.profiles);
    let hive = source(&home.skep_yaml(), &filled);
    let hive = hive.and_then(|source| hive::read(&source, variables, known, profiles));
    let hive = keep(&mut problems, hive);
    let channels = source(&home.channels_yaml(), &filled);
    let channels = keep(&mut problems, channels.and_then(|source| channels::read(&source)));
    let hive_rules = keep(&mut problems, rules::read(&home.rules()));
    let names = keep(&mut problems, agent_names(home, &filled));
    let (Some(providers), Some(mut hive), Some(channels), Some(hive_rules), Some(names)) =
        (providers, hive, channels, hive_rules, names)
    else {
        return Err(LoadError { problems });
    };
    hive.server.ws_enabled = channels.ws_enabled;
    let around =
        Around { home, hive: &hive, profiles: &providers.profiles, known, variables, filled };
    let (agents, broken) = agents(&around, names);
    let filled = around.filled.now.into_inner();
    Ok(Loaded {
        settings: HiveSettings {
            server: hive.server,
            limits: hive.limits,
            hive_rules,
            reached: providers.connections.iter().map(reached).collect(),
            profiles: providers.profiles,
            // Made from the connections by whoever composes the program.
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
        broken,
        filled,
    })
}

/// Variables whose values are secrets whether a profile names them or not.
const SECRET_VARIABLES: &[&str] = &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "SKEP_TOKEN"];

/// From here on these appear nowhere; a warning for each that is too short for that.
fn hide(secrets: Option<Vec<Secret>>, variables: Variables) -> Vec<String> {
    let usual =
        SECRET_VARIABLES.iter().filter_map(|name| Some(Secret::new(*name, variables(name)?)));
    let mut too_short = scrub::known().add(secrets.unwrap_or_default().into_iter().chain(usual));
    too_short.sort();
    too_short.dedup();
    let warning = |name: String| {
        format!(
            "{name} has fewer than {} characters: it is not taken out of texts and logs; use a \
             longer one",
            scrub::SHORTEST
        )
    };
    too_short.into_iter().map(warning).collect()
}

fn reached((name, connection): (&String, &Connection)) -> (String, Reached) {
    let address = reqwest::Url::parse(&connection.api_url).ok();
    // Without user, path and query: any of them may hold a secret.
    let address = address.map(|url| url.origin().ascii_serialization());
    (name.clone(), Reached { address, key: connection.key_source.clone() })
}

fn keep<T>(problems: &mut Vec<Problem>, result: Result<T, Problem>) -> Option<T> {
    result.map_err(|problem| problems.push(problem)).ok()
}

/// Which files have something in them, now and when they were read before.
#[derive(Default)]
pub struct Filled {
    before: BTreeSet<PathBuf>,
    now: RefCell<BTreeSet<PathBuf>>,
}

impl Filled {
    fn since(before: &Loaded) -> Self {
        Self { before: before.filled.clone(), now: RefCell::default() }
    }

    /// Refuses what had something in it and has nothing now.
    pub fn check(&self, path: &Path, is_filled: bool) -> Result<(), Problem> {
        if is_filled {
            self.now.borrow_mut().insert(path.to_path_buf());
        } else if self.before.contains(path) {
            let problem = Problem::of_file(path, "is gone or empty, and was not before");
            // Remembered: it is not to be believed the second time either.
            self.now.borrow_mut().insert(path.to_path_buf());
            return Err(problem.expecting("what it said before, or a comment for the defaults"));
        }
        Ok(())
    }
}

/// A file of the hive; absent is the same as empty.
fn source(file: &Path, filled: &Filled) -> Result<Source, Problem> {
    let found = Source::read(file, FILE_BYTES)?;
    let found = found.unwrap_or_else(|| Source { file: file.to_path_buf(), text: String::new() });
    filled.check(file, !found.text.trim().is_empty())?;
    Ok(found)
}

/// Every folder in `teams/` is an agent, whatever its name; files and hidden folders are not.
fn agent_names(home: &Home, filled: &Filled) -> Result<Vec<String>, Problem> {
    let teams = home.teams();
    let unreadable =
        |error: std::io::Error| Problem::of_file(&teams, format!("cannot be read: {error}"));
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

type Agents = BTreeMap<AgentName, AgentState>;

fn agents(around: &Around<'_>, names: Vec<String>) -> (Agents, BTreeMap<AgentName, Problem>) {
    let (mut agents, mut broken) = (BTreeMap::new(), BTreeMap::new());
    for name in names {
        let state = match agent::read(&name, around) {
            Ok(settings) => AgentState::Active(Arc::new(settings)),
            Err(problem) => {
                let reason = problem.to_string();
                broken.insert(AgentName::new(&name), problem);
                AgentState::Failed { reason }
            }
        };
        agents.insert(AgentName::new(&name), state);
    }
    (agents, broken)
}

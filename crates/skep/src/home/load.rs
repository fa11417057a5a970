//! All files of a home, read and checked together.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;

use skep_core::ids::AgentName;
use skep_core::settings::{AgentState, HiveSettings};
use skep_guard::scrub::{self, Secret};

use super::agent::{self, Around};
use super::channels;
use super::environment::Variables;
use super::hive::{self, Hive};
use super::layout::Home;
use super::problem::Problem;
use super::providers::{self, Connection, Providers};
use super::rules;
use super::source::{FILE_BYTES, Source};

/// The names files may refer to, given by whoever composes the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub engines: Vec<String>,
    pub tools: Vec<String>,
}

impl Known {
    pub fn new(engines: &[&str], tools: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self { engines: owned(engines), tools: owned(tools) }
    }
}

/// What the files of a home mean.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub settings: HiveSettings,
    /// By profile name. Keys live here and nowhere else.
    pub connections: BTreeMap<String, Connection>,
    pub warnings: Vec<String>,
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
    let mut problems = Vec::new();
    let mut providers = keep(&mut problems, read_providers(home, variables));
    // Known as secrets before anything else can speak of them.
    let too_short =
        hide(providers.as_mut().map(|found| std::mem::take(&mut found.secrets)), variables);
    let names: Option<Vec<&str>> =
        providers.as_ref().map(|providers| providers.profiles.keys().map(String::as_str).collect());
    let hive = keep(&mut problems, read_hive(home, variables, known, names.as_deref()));
    let channels = keep(
        &mut problems,
        source(&home.channels_yaml()).and_then(|source| channels::read(&source)),
    );
    let hive_rules = keep(&mut problems, rules::read(&home.rules()));
    let names = keep(&mut problems, agent_names(home));
    let (Some(providers), Some(mut hive), Some(channels), Some(hive_rules), Some(names)) =
        (providers, hive, channels, hive_rules, names)
    else {
        return Err(LoadError { problems });
    };
    hive.server.ws_enabled = channels.ws_enabled;
    let agents = agents(home, known, variables, &providers, &hive, names);
    Ok(Loaded {
        settings: HiveSettings {
            server: hive.server,
            limits: hive.limits,
            hive_rules,
            profiles: providers.profiles,
            // Made from the connections by whoever composes the program.
            providers: Default::default(),
            agents,
            model_note: providers.note,
        },
        connections: providers.connections,
        warnings: providers.warnings.into_iter().chain(too_short).collect(),
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

fn keep<T>(problems: &mut Vec<Problem>, result: Result<T, Problem>) -> Option<T> {
    result.map_err(|problem| problems.push(problem)).ok()
}

fn read_providers(home: &Home, variables: Variables) -> Result<Providers, Problem> {
    providers::read(&source(&home.providers_yaml())?, variables)
}

fn read_hive(
    home: &Home,
    variables: Variables,
    known: &Known,
    profiles: Option<&[&str]>,
) -> Result<Hive, Problem> {
    hive::read(&source(&home.skep_yaml())?, variables, known, profiles)
}

/// A file of the hive; absent is the same as empty.
fn source(file: &std::path::Path) -> Result<Source, Problem> {
    let found = Source::read(file, FILE_BYTES)?;
    Ok(found.unwrap_or_else(|| Source { file: file.to_path_buf(), text: String::new() }))
}

/// Every folder in `teams/` is an agent, whatever its name; files and hidden folders are not.
fn agent_names(home: &Home) -> Result<Vec<String>, Problem> {
    let teams = home.teams();
    let unreadable =
        |error: std::io::Error| Problem::of_file(&teams, format!("cannot be read: {error}"));
    let entries = match std::fs::read_dir(&teams) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
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
    Ok(names)
}

fn agents(
    home: &Home,
    known: &Known,
    variables: Variables,
    providers: &Providers,
    hive: &Hive,
    names: Vec<String>,
) -> BTreeMap<AgentName, AgentState> {
    let around = Around { home, hive, profiles: &providers.profiles, known, variables };
    let state = |name: &str| match agent::read(name, &around) {
        Ok(settings) => AgentState::Active(Arc::new(settings)),
        Err(problem) => AgentState::Failed { reason: problem.to_string() },
    };
    names.into_iter().map(|name| (AgentName::new(&name), state(&name))).collect()
}

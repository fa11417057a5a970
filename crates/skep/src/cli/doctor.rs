//! `skep doctor`: looks at the home and says what is wrong with it. Changes nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use skep_cli::commands::status;
use skep_cli::hive::client::Client;
use skep_cli::hive::{Globals, Home};
use skep_cli::print::output::{self, Tone, toned};
use skep_cli::{Exit, Failure};
use skep_core::settings::{AgentState, SandboxLevel, SandboxNetwork};
use skep_guard::{disk, environment, lock, sandbox, socket};
use skep_store::{OpenOptions, Store};

use crate::compose;
use crate::home::{KnownNames, LoadedHome, load_looking};

/// Below this a busy hive fills the disk within hours.
const LITTLE_SPACE: u64 = 512 << 20;
/// Below this the next messages are refused.
const NO_SPACE: u64 = 16 << 20;

const NO_DATABASE: &str = "none yet; the first start makes it";

#[derive(Args)]
#[command(after_help = "Examples:
  skep doctor
  skep doctor --home /srv/hive --json

The exit code is 0 when nothing is wrong, else 1.")]
pub struct DoctorArgs {}

#[derive(Clone, Copy, PartialEq)]
enum Severity {
    Good,
    /// Works, but should be looked at.
    Doubtful,
    /// Configured without a sandbox: shown in red.
    Exposed,
    Bad,
}

struct Diagnosis {
    grade: Severity,
    about: &'static str,
    text: String,
    /// What to do about it.
    next: Option<String>,
}

impl Diagnosis {
    fn new(grade: Severity, about: &'static str, text: impl Into<String>) -> Self {
        Self { grade, about, text: text.into(), next: None }
    }

    fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

pub async fn run(_: DoctorArgs, globals: &Globals, known: &KnownNames) -> Result<(), Failure> {
    if globals.url.is_some() {
        let why = "it looks at a home folder, and --url names a hive elsewhere";
        return Err(Failure::new(Exit::Usage, "examine the hive", why).next("skep status"));
    }
    let home = globals.home()?;
    let mut findings = examine(&home, globals, known).await;
    for finding in &mut findings {
        finding.next = finding.next.take().map(|next| globals.commands(&next));
    }
    let bad = findings.iter().filter(|finding| finding.grade == Severity::Bad).count();
    if globals.json {
        let findings: Vec<Value> = findings.iter().map(as_json).collect();
        output::json(&json!({ "home": home.root(), "ok": bad == 0, "findings": findings }));
    } else {
        findings.iter().flat_map(lines).for_each(output::line);
    }
    match bad {
        0 => Ok(()),
        _ => Err(Failure::new(
            Exit::Failed,
            "examine the hive",
            "each is marked `bad` above, with what to do",
        )
        .headline(format!("home: {bad} of {} checks failed", findings.len()))),
    }
}

async fn examine(home: &Home, globals: &Globals, known: &KnownNames) -> Vec<Diagnosis> {
    if !home.root().is_dir() {
        let text = format!("{} is not there yet", home.root().display());
        return vec![Diagnosis::new(Severity::Doubtful, "home", text).next("skep up")];
    }
    let mut findings = vec![usable(home.root())];
    findings.extend([home.root().to_path_buf(), home.run()].iter().filter_map(|p| private(p)));
    let (instance, finding) = instance(home, globals).await;
    let running = match (&instance, Client::open(globals)) {
        (InstanceState::Runs, Ok(client)) => client.get("/api/v1/state").await.unwrap_or_default(),
        _ => Value::Null,
    };
    findings.extend(configuration(home, known, &running).await);
    findings.push(finding);
    if matches!(instance, InstanceState::Runs) {
        findings.extend(in_force(globals).await);
        findings.extend(vault(globals).await);
    }
    findings.push(database(home, globals, &instance).await);
    findings.push(space(home));
    findings.extend(walls(home).await);
    findings
}

/// Each check of the sandbox. If one fails, programs of agents are refused.
async fn walls(home: &Home) -> Vec<Diagnosis> {
    let report = compose::sandbox(home).probe().await;
    let wall = |check: &sandbox::Check| {
        let grade = if check.holds { Severity::Good } else { Severity::Bad };
        Diagnosis::new(grade, "wall", format!("{}: {}", check.name, check.detail))
    };
    let mut findings: Vec<Diagnosis> = report.checks.iter().map(wall).collect();
    findings.push(match report.holds() {
        true => Diagnosis::new(Severity::Good, "sandbox", "holds"),
        false => {
            let text = format!("bash would refuse to run: {}", report.refusal());
            Diagnosis::new(Severity::Bad, "sandbox", text)
        }
    });
    findings
}

fn usable(root: &Path) -> Diagnosis {
    match disk::check_writable(root) {
        Ok(()) => Diagnosis::new(Severity::Good, "home", root.display().to_string()),
        Err(error) => {
            let text = format!("{} cannot be written: {error}", root.display());
            let next = "make the folder writable, or name another one with --home";
            Diagnosis::new(Severity::Bad, "home", text).next(next)
        }
    }
}

/// The folder holds keys, tokens and all conversations.
fn private(path: &Path) -> Option<Diagnosis> {
    let found = std::fs::metadata(path).ok()?;
    let mode = found.permissions().mode() & 0o777;
    let open = mode & 0o077 != 0;
    let text = format!("{} has mode {mode:04o}", path.display());
    Some(match open {
        true => {
            Diagnosis::new(Severity::Doubtful, "permissions", format!("{text}: others can look in"))
                .next(format!("chmod 700 {}", path.display()))
        }
        false => Diagnosis::new(Severity::Good, "permissions", text),
    })
}

/// The files; `running` is the state of the hive that runs here.
async fn configuration(home: &Home, known: &KnownNames, running: &Value) -> Vec<Diagnosis> {
    let loaded = match load_looking(home, known, &environment::var).await {
        Ok(loaded) => loaded,
        Err(error) => {
            let bad =
                |problem| Diagnosis::new(Severity::Bad, "configuration", format!("{problem}"));
            return error.mistakes.iter().map(bad).collect();
        }
    };
    let mut findings = Vec::new();
    for warning in &loaded.warnings {
        findings.push(Diagnosis::new(Severity::Doubtful, "configuration", warning));
    }
    let mut active = 0;
    let usual = &loaded.defaults.sandbox;
    let written_in = |by_default| match by_default {
        true => "defaults in skep.yaml",
        false => "its config.yaml",
    };
    let tree = loaded.settings.tree();
    for (name, state) in tree.in_force().iter() {
        match state {
            AgentState::Active(agent) => {
                active += 1;
                if agent.sandbox.level == SandboxLevel::Host {
                    let text = format!("{name} runs programs on the host, without walls");
                    let file = written_in(usual.level == SandboxLevel::Host);
                    let next =
                        format!("unless this is meant, take sandbox.level: host out of {file}");
                    findings.push(Diagnosis::new(Severity::Exposed, "agent", text).next(next));
                } else if agent.sandbox.network == SandboxNetwork::Full {
                    let text = format!(
                        "{name} runs programs that reach whatever this machine reaches, the ports \
                         of this hive among it"
                    );
                    let file = written_in(usual.network == SandboxNetwork::Full);
                    let next = format!(
                        "unless this is meant, take sandbox.network: full out of {file} and list \
                         hosts in network.hosts"
                    );
                    findings.push(Diagnosis::new(Severity::Exposed, "agent", text).next(next));
                }
            }
            AgentState::Failed { reason } => {
                let live = running["agents"].as_array().into_iter().flatten();
                let kept = live
                    .into_iter()
                    .find(|agent| agent["name"] == name.as_str() && agent["status"] == "active");
                active += usize::from(kept.is_some());
                let text = match kept {
                    None => format!("{name} is disabled: {reason}"),
                    Some(agent) if agent["policy_error"].is_string() => {
                        format!("{name}: the running hive denies all its tool calls: {reason}")
                    }
                    Some(_) => {
                        format!("{name}: the running hive goes on with what was before: {reason}")
                    }
                };
                let next = "correct the file, then skep config check";
                findings.push(Diagnosis::new(Severity::Bad, "agent", text).next(next));
            }
        }
    }
    let errors = if loaded.broken.is_empty() { "no errors; " } else { "" };
    let text = format!("{errors}agents that can work: {active}");
    findings.push(Diagnosis::new(Severity::Good, "configuration", text));
    findings.push(spending(&loaded));
    let model = Diagnosis::new(Severity::Good, "model", loaded.settings.model_note);
    findings.push(model.next("skep provider test asks it"));
    findings
}

/// Settings of the files that the running hive does not use, and models it cannot reach. Mistakes
/// are reported by the check of the configuration.
async fn in_force(globals: &Globals) -> Vec<Diagnosis> {
    let Ok(client) = Client::open(globals) else { return Vec::new() };
    let Ok(state) = client.get("/api/v1/state").await else { return Vec::new() };
    let config = &state["hive"]["config"];
    let keys = config["needs_restart"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let late = |key| {
        let text = format!("{} is used after the next start", output::foreign(key));
        Diagnosis::new(Severity::Doubtful, "configuration", text).next("skep down, then skep up")
    };
    let mut findings: Vec<Diagnosis> = keys.map(late).collect();
    if let Some(why) = config["unwatched"].as_str() {
        findings.push(Diagnosis::new(Severity::Doubtful, "configuration", output::foreign(why)));
    }
    let providers = client.get("/api/v1/providers?check=true").await.unwrap_or_default();
    for provider in providers["providers"].as_array().into_iter().flatten() {
        if let Some(why) = provider["reached"]["error"].as_str() {
            let name = output::foreign(provider["name"].as_str().unwrap_or_default());
            let text = format!("profile {name}: {}", output::foreign(why));
            let bad = Diagnosis::new(Severity::Bad, "model", text);
            findings.push(bad.next("correct providers.yaml, then skep provider test"));
        }
    }
    findings
}

/// Entries that do not open, and keys that do not lie in the vault.
async fn vault(globals: &Globals) -> Vec<Diagnosis> {
    let Ok(client) = Client::open(globals) else { return Vec::new() };
    let Ok(vault) = client.get("/api/v1/vault").await else { return Vec::new() };
    let list = |name: &str| vault[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let problem = |it: &Value| it["problem"].as_str().map(output::foreign);
    let key = problem(&vault);
    // One word for all that the key would open.
    let locked = list("entries").iter().filter(|_| key.is_none()).filter_map(problem);
    let bad = |text| Diagnosis::new(Severity::Bad, "vault", text);
    let mut findings: Vec<Diagnosis> = key.clone().into_iter().chain(locked).map(bad).collect();
    let in_files = list("in_files").iter().filter_map(Value::as_str);
    let in_files: Vec<String> = in_files.map(output::foreign).collect();
    if !in_files.is_empty() {
        let text = format!("keys in plain text in files: {}", in_files.join(", "));
        findings.push(Diagnosis::new(Severity::Doubtful, "vault", text).next("skep vault move"));
    }
    if findings.is_empty() {
        let text = format!("all entries open: {}", list("entries").len());
        findings.push(Diagnosis::new(Severity::Good, "vault", text));
    }
    findings
}

/// The limits of a day, and the models of unknown price.
fn spending(loaded: &LoadedHome) -> Diagnosis {
    let limits = &loaded.settings.limits;
    let unpriced: Vec<&str> = loaded
        .settings
        .profiles
        .values()
        .filter(|profile| profile.price.is_none())
        .map(|profile| profile.name.as_str())
        .collect();
    let mut text = match (limits.cost_per_day, limits.tokens_per_day) {
        (None, None) => "no limit".to_owned(),
        (Some(cost), None) => format!("{cost} a day"),
        (None, Some(tokens)) => format!("{tokens} tokens a day"),
        (Some(cost), Some(tokens)) => format!("{cost} and {tokens} tokens a day"),
    };
    if !unpriced.is_empty() {
        text.push_str(&format!("; price unknown: {}", unpriced.join(", ")));
        if let Some(tokens) = limits.day_caps().unpriced() {
            text.push_str(&format!(", these may use {tokens} tokens a day"));
        }
    }
    let unlimited = limits.cost_per_day.is_none() && limits.tokens_per_day.is_none();
    if unlimited && loaded.costs_money() {
        let next = "write limits.cost_per_day or limits.tokens_per_day in skep.yaml";
        return Diagnosis::new(Severity::Doubtful, "spending", text).next(next);
    }
    Diagnosis::new(Severity::Good, "spending", text)
}

/// Whether a hive runs here.
enum InstanceState {
    Runs,
    /// No hive runs, and none starts while the look is held; `None` if there is no lock file.
    Rests {
        _look: Option<lock::Look>,
    },
}

/// The socket is tried first; the lock decides.
async fn instance(home: &Home, globals: &Globals) -> (InstanceState, Diagnosis) {
    if let Ok(client) = Client::open(globals)
        && client.get("/health").await.is_ok()
    {
        return (InstanceState::Runs, Diagnosis::new(Severity::Good, "hive", "runs and answers"));
    }
    let nobody = InstanceState::Rests { _look: None };
    if !home.run().is_dir() {
        return (nobody, Diagnosis::new(Severity::Good, "hive", "has not run yet"));
    }
    match lock::Look::take(home.root(), &home.lock()) {
        Ok(look) => {
            let rests = InstanceState::Rests { _look: Some(look) };
            (rests, Diagnosis::new(Severity::Good, "hive", "does not run"))
        }
        Err(error @ lock::LockError::Held { .. }) => {
            let text = format!("{error}, but does not answer at {}", socket::SOCKET_NAME);
            let finding = Diagnosis::new(Severity::Bad, "hive", text);
            (InstanceState::Runs, finding.next("end that process, then skep up"))
        }
        Err(error) => (nobody, Diagnosis::new(Severity::Bad, "hive", error.to_string())),
    }
}

/// A running hive is asked; otherwise the database is inspected.
async fn database(home: &Home, globals: &Globals, instance: &InstanceState) -> Diagnosis {
    if matches!(instance, InstanceState::Runs) {
        let asked = match Client::open(globals) {
            Ok(client) => client.get("/api/v1/state").await.map_err(|error| error.to_string()),
            Err(failure) => Err(failure.to_string()),
        };
        return match asked {
            Ok(state) => match status::store_trouble(&state) {
                None => Diagnosis::new(Severity::Good, "database", "the running hive reads it"),
                Some(why) => Diagnosis::new(Severity::Bad, "database", why),
            },
            Err(why) => Diagnosis::new(Severity::Bad, "database", why),
        };
    }
    if !home.run().is_dir() {
        return Diagnosis::new(Severity::Good, "database", NO_DATABASE);
    }
    match Store::inspect(&OpenOptions::in_run_folder(&home.run())).await {
        Ok(None) => Diagnosis::new(Severity::Good, "database", NO_DATABASE),
        Ok(Some(version)) => {
            Diagnosis::new(Severity::Good, "database", format!("readable, version {version}"))
        }
        Err(error) => Diagnosis::new(Severity::Bad, "database", error.to_string()),
    }
}

fn space(home: &Home) -> Diagnosis {
    let free = match disk::free_bytes(home.root()) {
        Ok(free) => free,
        Err(error) => return Diagnosis::new(Severity::Bad, "disk", error.to_string()),
    };
    let text = format!("{} MiB free", free >> 20);
    let grade = match free {
        0..NO_SPACE => Severity::Bad,
        NO_SPACE..LITTLE_SPACE => Severity::Doubtful,
        _ => return Diagnosis::new(Severity::Good, "disk", text),
    };
    Diagnosis::new(grade, "disk", text).next("free some space; what is already accepted is safe")
}

fn lines(finding: &Diagnosis) -> Vec<String> {
    let mark = match finding.grade {
        Severity::Good => toned("ok  ", Tone::Good),
        Severity::Doubtful => toned("look", Tone::Strong),
        Severity::Exposed => toned("open", Tone::Bad),
        Severity::Bad => toned("bad ", Tone::Bad),
    };
    let text = match finding.grade {
        Severity::Exposed => toned(&finding.text, Tone::Bad),
        _ => finding.text.clone(),
    };
    let mut lines = vec![format!("{mark}  {:<13}  {text}", finding.about)];
    lines.extend(finding.next.iter().map(|next| format!("{:21}next: {next}", "")));
    lines
}

fn as_json(finding: &Diagnosis) -> Value {
    let grade = match finding.grade {
        Severity::Good => "ok",
        Severity::Doubtful => "look",
        Severity::Exposed => "open",
        Severity::Bad => "bad",
    };
    json!({
        "about": finding.about, "grade": grade, "text": finding.text, "next": finding.next
    })
}

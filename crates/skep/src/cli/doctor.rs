//! `skep doctor`: looks at the home and says what is wrong with it. Changes nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use skep_cli::hive::client::Client;
use skep_cli::hive::{Home, Place};
use skep_cli::print::output::{self, Tone, toned};
use skep_cli::{Exit, Failure};
use skep_core::settings::{AgentState, SandboxLevel};
use skep_guard::{disk, environment, lock, sandbox, socket};
use skep_store::{OpenOptions, Store};

use crate::compose;
use crate::home::{Known, Loaded, load_looking};

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
pub struct Doctor {}

#[derive(Clone, Copy, PartialEq)]
enum Grade {
    Good,
    /// Works, but should be looked at.
    Doubtful,
    /// As the operator asked, and without walls: shown in red.
    Exposed,
    Bad,
}

struct Finding {
    grade: Grade,
    about: &'static str,
    text: String,
    /// What to do about it.
    next: Option<String>,
}

impl Finding {
    fn new(grade: Grade, about: &'static str, text: impl Into<String>) -> Self {
        Self { grade, about, text: text.into(), next: None }
    }

    fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

pub async fn run(_: Doctor, place: &Place, known: &Known) -> Result<(), Failure> {
    if place.url.is_some() {
        let why = "it looks at a home folder, and --url names a hive elsewhere";
        return Err(Failure::new(Exit::Usage, "examine the hive", why).next("skep status --url …"));
    }
    let home = place.home()?;
    let findings = examine(&home, place, known).await;
    let bad = findings.iter().filter(|finding| finding.grade == Grade::Bad).count();
    if place.json {
        let findings: Vec<Value> = findings.iter().map(as_json).collect();
        output::json(&json!({ "home": home.root(), "ok": bad == 0, "findings": findings }));
    } else {
        findings.iter().flat_map(lines).for_each(output::line);
    }
    match bad {
        0 => Ok(()),
        _ => Err(Failure::new(
            Exit::Failed,
            "find the home in order",
            format!("{bad} of {} checks found something wrong", findings.len()),
        )),
    }
}

async fn examine(home: &Home, place: &Place, known: &Known) -> Vec<Finding> {
    if !home.root().is_dir() {
        let text = format!("{} is not there yet", home.root().display());
        return vec![Finding::new(Grade::Doubtful, "home", text).next("skep up creates it")];
    }
    let mut findings = vec![usable(home.root())];
    findings.extend([home.root().to_path_buf(), home.run()].iter().filter_map(|p| private(p)));
    findings.extend(configuration(home, known).await);
    let (instance, finding) = instance(home, place).await;
    findings.push(finding);
    if matches!(instance, Instance::Runs) {
        findings.extend(in_force(place).await);
    }
    findings.push(database(home, place, &instance).await);
    findings.push(space(home));
    findings.extend(walls(home).await);
    findings
}

/// Whether shell commands can be confined, wall by wall; without that they are refused, and all
/// else works.
async fn walls(home: &Home) -> Vec<Finding> {
    let report = compose::sandbox(home).probe().await;
    let wall = |check: &sandbox::Check| {
        let grade = if check.holds { Grade::Good } else { Grade::Doubtful };
        Finding::new(grade, "wall", format!("{}: {}", check.name, check.detail))
    };
    let mut findings: Vec<Finding> = report.checks.iter().map(wall).collect();
    findings.push(match report.holds() {
        true => Finding::new(Grade::Good, "sandbox", "holds"),
        false => {
            let text = format!("bash would refuse to run: {}", report.refusal());
            Finding::new(Grade::Doubtful, "sandbox", text)
        }
    });
    findings
}

fn usable(root: &Path) -> Finding {
    match disk::check_writable(root) {
        Ok(()) => Finding::new(Grade::Good, "home", root.display().to_string()),
        Err(error) => {
            let text = format!("{} cannot be written: {error}", root.display());
            let next = "make the folder writable, or name another one with --home";
            Finding::new(Grade::Bad, "home", text).next(next)
        }
    }
}

/// Keys, tokens and everything that was said are in there.
fn private(path: &Path) -> Option<Finding> {
    let found = std::fs::metadata(path).ok()?;
    let mode = found.permissions().mode() & 0o777;
    let open = mode & 0o077 != 0;
    let text = format!("{} has mode {mode:04o}", path.display());
    Some(match open {
        true => Finding::new(Grade::Doubtful, "permissions", format!("{text}: others can look in"))
            .next(format!("chmod 700 {}", path.display())),
        false => Finding::new(Grade::Good, "permissions", text),
    })
}

async fn configuration(home: &Home, known: &Known) -> Vec<Finding> {
    let loaded = match load_looking(home, known, &environment::var).await {
        Ok(loaded) => loaded,
        Err(error) => {
            let bad = |problem| Finding::new(Grade::Bad, "configuration", format!("{problem}"));
            return error.problems.iter().map(bad).collect();
        }
    };
    let mut findings = Vec::new();
    for warning in &loaded.warnings {
        findings.push(Finding::new(Grade::Doubtful, "configuration", warning));
    }
    let mut active = 0;
    for (name, state) in &loaded.settings.agents {
        match state {
            AgentState::Active(agent) => {
                active += 1;
                if agent.sandbox.level == SandboxLevel::Host {
                    let text = format!("{name} runs programs on the host, without walls");
                    let next =
                        "unless this is meant, take sandbox.level: host out of its config.yaml";
                    findings.push(Finding::new(Grade::Exposed, "agent", text).next(next));
                }
            }
            AgentState::Failed { reason } => {
                let text = format!("{name} is disabled: {reason}");
                findings.push(Finding::new(Grade::Bad, "agent", text));
            }
        }
    }
    let text = format!("in order; agents that can work: {active}");
    findings.push(Finding::new(Grade::Good, "configuration", text));
    findings.push(spending(&loaded));
    findings.push(Finding::new(Grade::Good, "model", loaded.settings.model_note));
    findings
}

/// What the files say and the running hive does not do. Mistakes in them are found above.
async fn in_force(place: &Place) -> Vec<Finding> {
    let Ok(client) = Client::open(place) else { return Vec::new() };
    let Ok(state) = client.get("/api/v1/state").await else { return Vec::new() };
    let config = &state["hive"]["config"];
    let keys = config["needs_restart"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let late = |key| {
        let text = format!("{} is used after the next start", output::foreign(key));
        Finding::new(Grade::Doubtful, "configuration", text).next("skep down, then skep up")
    };
    let mut findings: Vec<Finding> = keys.map(late).collect();
    if let Some(why) = config["unwatched"].as_str() {
        findings.push(Finding::new(Grade::Doubtful, "configuration", output::foreign(why)));
    }
    findings
}

/// What a day may cost, and what of it nobody can know.
fn spending(loaded: &Loaded) -> Finding {
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
        return Finding::new(Grade::Doubtful, "spending", text).next(next);
    }
    Finding::new(Grade::Good, "spending", text)
}

/// Whether a hive runs here.
enum Instance {
    Runs,
    /// None, and none begins while the look is held; without it there is no lock to hold.
    Rests {
        _look: Option<lock::Look>,
    },
}

/// The lock is the proof, the socket the way to it.
async fn instance(home: &Home, place: &Place) -> (Instance, Finding) {
    if let Ok(client) = Client::open(place)
        && client.get("/health").await.is_ok()
    {
        return (Instance::Runs, Finding::new(Grade::Good, "hive", "runs and answers"));
    }
    let nobody = Instance::Rests { _look: None };
    if !home.run().is_dir() {
        return (nobody, Finding::new(Grade::Good, "hive", "has not run yet"));
    }
    match lock::Look::take(home.root(), &home.lock()) {
        Ok(look) => {
            let rests = Instance::Rests { _look: Some(look) };
            (rests, Finding::new(Grade::Good, "hive", "does not run"))
        }
        Err(error @ lock::LockError::Held { .. }) => {
            let text = format!("{error}, but does not answer at {}", socket::SOCKET_NAME);
            let finding = Finding::new(Grade::Bad, "hive", text);
            (Instance::Runs, finding.next("end that process, then skep up"))
        }
        Err(error) => (nobody, Finding::new(Grade::Bad, "hive", error.to_string())),
    }
}

/// A running hive is asked: nobody else opens its database.
async fn database(home: &Home, place: &Place, instance: &Instance) -> Finding {
    if matches!(instance, Instance::Runs) {
        let asked = match Client::open(place) {
            Ok(client) => client.get("/api/v1/state").await.map_err(|error| error.to_string()),
            Err(failure) => Err(failure.to_string()),
        };
        return match asked {
            Ok(_) => Finding::new(Grade::Good, "database", "the running hive reads it"),
            Err(why) => Finding::new(Grade::Bad, "database", why),
        };
    }
    if !home.run().is_dir() {
        return Finding::new(Grade::Good, "database", NO_DATABASE);
    }
    match Store::inspect(&OpenOptions::in_run_folder(&home.run())).await {
        Ok(None) => Finding::new(Grade::Good, "database", NO_DATABASE),
        Ok(Some(version)) => {
            Finding::new(Grade::Good, "database", format!("readable, version {version}"))
        }
        Err(error) => Finding::new(Grade::Bad, "database", error.to_string()),
    }
}

fn space(home: &Home) -> Finding {
    let free = match disk::free_bytes(home.root()) {
        Ok(free) => free,
        Err(error) => return Finding::new(Grade::Bad, "disk", error.to_string()),
    };
    let text = format!("{} MiB free", free >> 20);
    let grade = match free {
        0..NO_SPACE => Grade::Bad,
        NO_SPACE..LITTLE_SPACE => Grade::Doubtful,
        _ => return Finding::new(Grade::Good, "disk", text),
    };
    Finding::new(grade, "disk", text).next("free some space; what is already accepted is safe")
}

fn lines(finding: &Finding) -> Vec<String> {
    let mark = match finding.grade {
        Grade::Good => toned("ok  ", Tone::Good),
        Grade::Doubtful => toned("look", Tone::Strong),
        Grade::Exposed => toned("open", Tone::Bad),
        Grade::Bad => toned("bad ", Tone::Bad),
    };
    let text = match finding.grade {
        Grade::Exposed => toned(&finding.text, Tone::Bad),
        _ => finding.text.clone(),
    };
    let mut lines = vec![format!("{mark}  {:<13}  {text}", finding.about)];
    lines.extend(finding.next.iter().map(|next| format!("{:21}next: {next}", "")));
    lines
}

fn as_json(finding: &Finding) -> Value {
    let grade = match finding.grade {
        Grade::Good => "ok",
        Grade::Doubtful => "look",
        Grade::Exposed => "open",
        Grade::Bad => "bad",
    };
    json!({
        "about": finding.about, "grade": grade, "text": finding.text, "next": finding.next
    })
}

//! Files of the home that change while the hive runs: read again as a whole, checked, and put in
//! force for the turns that begin after. What is wrong stays out, and the version before it goes
//! on.

use std::sync::Arc;
use std::time::Duration;

use skep_cli::hive::Home;
use skep_core::event::ConfigOutcome;
use skep_core::ids::AgentName;
use skep_core::settings::{
    AgentState, ConfigProblem, ConfigStanding, HiveSettings, ServerSettings,
};
use skep_guard::environment;
use skep_runtime::Hive;
use skep_runtime::door::DoorError;
use tokio::task::JoinHandle;

use crate::home::watch::Watch;
use crate::home::{
    LoadError, Loaded, Problem, agent_policy_mistake, create, hive_policy_mistake, load_again,
    local,
};
use crate::vendors::Vendors;

/// Files that change again while they are read are read again, this often at most.
const TRIES: u32 = 10;
/// What was read is believed when nothing was heard for this long: news take a moment.
const SETTLED: Duration = Duration::from_millis(50);
/// After a store that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Whoever watches the files of a running hive.
struct Reload {
    home: Home,
    hive: Hive,
    vendors: Vendors,
    /// What was read last and could be used.
    loaded: Loaded,
    watch: Watch,
}

/// Begins to watch. Where that is impossible the hive says so and works on.
pub fn start(home: &Home, hive: &Hive, vendors: Vendors, loaded: Loaded) -> Option<JoinHandle<()>> {
    let watch = match Watch::new(home) {
        Ok(watch) => watch,
        Err(error) => {
            let text = format!(
                "changes of the files are used after the next start, because they cannot be \
                 watched ({error})"
            );
            tracing::warn!("{text}");
            hive.note_config(ConfigStanding { unwatched: Some(text), ..ConfigStanding::default() });
            return None;
        }
    };
    // What changed between the reading and the watching is found by reading once more.
    watch.again();
    let (home, hive) = (home.clone(), hive.clone());
    Some(tokio::spawn(Reload { home, hive, vendors, loaded, watch }.run()))
}

impl Reload {
    async fn run(mut self) {
        loop {
            self.watch.changed().await;
            let (read, unwatched) = self.read().await;
            let next = match read {
                Ok(next) => next,
                Err(error) => {
                    self.keep(&error, unwatched).await;
                    continue;
                }
            };
            if let Err(error) = self.apply(next, unwatched).await {
                tracing::warn!(%error, "the changed files cannot be used yet; again in a second");
                tokio::time::sleep(PAUSE).await;
                self.watch.again();
            }
        }
    }

    /// Everything as it was at one moment: nothing changed while it was read.
    async fn read(&mut self) -> (Result<Loaded, LoadError>, Option<String>) {
        let mut tries = 1;
        loop {
            let (home, before) = (&self.home, &self.loaded);
            let watch = &mut self.watch;
            let (unwatched, read) = tokio::task::block_in_place(|| {
                let unwatched = watch.follow().err();
                (unwatched, load_again(home, &before.known, &environment::var, before))
            });
            if read.as_ref().is_ok_and(|read| read.undecided) {
                // The last profile went away: what a start would do is done now, once.
                self.loaded.known.local = local::look(&environment::var).await;
                continue;
            }
            tokio::time::sleep(SETTLED).await;
            // Where it never ends, what could be used is; a mistake may be half a change.
            let usable = read.as_ref().is_ok_and(|read| read.broken.is_empty());
            if !self.watch.is_marked() || (tries >= TRIES && usable) {
                return (read, unwatched);
            }
            tries += 1;
            self.watch.changed().await;
        }
    }

    async fn apply(
        &mut self,
        mut next: Loaded,
        unwatched: Option<String>,
    ) -> Result<(), DoorError> {
        let running = self.hive.settings();
        let mut problems: Vec<ConfigProblem> = next.broken.values().map(told).collect();
        keep_agents(&self.home, &running, &mut next);
        self.vendors.furnish(&mut next.settings, &next.connections);
        if let Err(error) = create::workspaces(&self.home, &next) {
            let text = error.to_string();
            problems.push(ConfigProblem {
                file: error.path.display().to_string(),
                line: None,
                text,
            });
        }
        let needs_restart = hold_back(&running, &mut next);
        let config = ConfigStanding { problems, needs_restart, unwatched };
        if *running == next.settings {
            self.note(config).await;
        } else {
            log(&config);
            tracing::info!("changed files are in force");
            let (settings, applied) = (next.settings.clone(), ConfigOutcome::Applied);
            self.hive.reconfigure(settings, config, applied).await?;
        }
        self.loaded = next;
        Ok(())
    }

    async fn keep(&self, error: &LoadError, unwatched: Option<String>) {
        let problems = error.problems.iter().map(told).collect();
        let needs_restart = self.hive.config().needs_restart.clone();
        let config = ConfigStanding { problems, needs_restart, unwatched };
        let mistake = hive_policy_mistake(&self.home);
        self.deny(mistake.map(|mistake| mistake.to_string()), config).await;
    }

    /// A policy that nobody can read allows nothing: the rest goes on as it was. Once it can be
    /// read again, what is in force decides as before.
    async fn deny(&self, mistake: Option<String>, config: ConfigStanding) {
        let mut settings = (*self.hive.settings()).clone();
        for (name, state) in &mut settings.agents {
            let AgentState::Active(agent) = state else { continue };
            let broken = mistake.clone().or_else(|| self.own_mistake(name));
            if agent.policy.broken != broken {
                Arc::make_mut(agent).policy.broken = broken;
            }
        }
        if *self.hive.settings() == settings {
            return self.note(config).await;
        }
        log(&config);
        if let Some(mistake) = &mistake {
            tracing::warn!("every tool call is denied: {mistake}");
        }
        if let Err(error) = self.hive.reconfigure(settings, config, ConfigOutcome::Kept).await {
            tracing::warn!(%error, "again in a second");
            tokio::time::sleep(PAUSE).await;
            self.watch.again();
        }
    }

    /// What is wrong with the policy in the agent's own file.
    fn own_mistake(&self, name: &AgentName) -> Option<String> {
        match self.loaded.settings.agents.get(name) {
            Some(AgentState::Active(agent)) => agent.policy.broken.clone(),
            _ => None,
        }
    }

    /// Nothing changes but what is known of the files. Told once.
    async fn note(&self, config: ConfigStanding) {
        if *self.hive.config() != config {
            log(&config);
            self.hive.keep_settings(config).await;
        }
    }
}

/// An agent whose folder is broken goes on as it was, with the model its profile means now. Where
/// it is the policy that cannot be read, all of its calls are denied.
fn keep_agents(home: &Home, running: &HiveSettings, next: &mut Loaded) {
    for name in next.broken.keys() {
        let Some(AgentState::Active(before)) = running.agents.get(name) else { continue };
        let mut kept = (**before).clone();
        // A model of its own (`vendor:model`) stays as it was written.
        let profile = &kept.profile.name;
        if running.profiles.get(profile) == Some(&kept.profile)
            && let Some(profile) = next.settings.profiles.get(profile)
        {
            kept.profile = Arc::clone(profile);
        }
        let mistake = agent_policy_mistake(home, name.as_str(), &next.known, &environment::var);
        kept.policy.broken = mistake.map(|mistake| mistake.to_string());
        next.settings.agents.insert(name.clone(), AgentState::Active(Arc::new(kept)));
    }
}

/// What is fixed at the start stays as it is. The keys that say something else now.
fn hold_back(running: &HiveSettings, next: &mut Loaded) -> Vec<String> {
    let mut server = next.settings.server.clone();
    if let Some(port) = next.port {
        server.port = port;
    }
    let (old, ServerSettings { bind, port, public_url, allowed_origins, ws_enabled }) =
        (&running.server, &server);
    let limits = (running.limits.tool_output_bytes, next.settings.limits.tool_output_bytes);
    let changes = [
        ("skep.yaml: server.bind", old.bind != *bind),
        ("skep.yaml: server.port", old.port != *port),
        ("skep.yaml: server.public_url", old.public_url != *public_url),
        ("skep.yaml: server.allowed_origins", old.allowed_origins != *allowed_origins),
        ("channels.yaml: ws.enabled", old.ws_enabled != *ws_enabled),
        ("skep.yaml: limits.tool_output_bytes", limits.0 != limits.1),
    ];
    next.settings.server = running.server.clone();
    next.settings.limits.tool_output_bytes = limits.0;
    let changed = changes.into_iter().filter(|(_, changed)| *changed);
    changed.map(|(key, _)| key.to_owned()).collect()
}

fn told(problem: &Problem) -> ConfigProblem {
    ConfigProblem {
        file: problem.file.display().to_string(),
        line: problem.at.map(|(line, _)| line),
        text: problem.to_string(),
    }
}

fn log(config: &ConfigStanding) {
    for problem in &config.problems {
        tracing::warn!("not in force, the version before it goes on: {}", problem.text);
    }
    for key in &config.needs_restart {
        tracing::warn!("{key} is used after the next start");
    }
    if let Some(unwatched) = &config.unwatched {
        tracing::warn!("files cannot be watched: {unwatched}");
    }
}

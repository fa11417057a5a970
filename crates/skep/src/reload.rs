//! Reloads the files of a running hive: all are read again, checked, and applied to the turns that
//! start later. An invalid file is not applied, and its last valid version stays in force.

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

use crate::home::watch::HomeWatcher;
use crate::home::{
    LoadError, LoadedHome, Mistake, agent_policy_mistake, create, hive_policy_mistake, load_again,
    local,
};
use crate::vendors::Vendors;

/// The most attempts to read files that keep changing.
const TRIES: u32 = 10;
/// The reading is valid if no change arrives within this time.
const SETTLED: Duration = Duration::from_millis(50);
/// After a store that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// The task that watches the files of a running hive.
struct ReloadTask {
    home: Home,
    hive: Hive,
    vendors: Vendors,
    /// The last valid settings.
    loaded: LoadedHome,
    watch: HomeWatcher,
}

/// Starts watching. If that fails, the hive reports it and continues.
pub fn start(
    home: &Home,
    hive: &Hive,
    vendors: Vendors,
    loaded: LoadedHome,
) -> Option<JoinHandle<()>> {
    let watch = match HomeWatcher::new(home) {
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
    // Another reading finds changes between the first reading and the watch.
    watch.again();
    let (home, hive) = (home.clone(), hive.clone());
    Some(tokio::spawn(ReloadTask { home, hive, vendors, loaded, watch }.run()))
}

impl ReloadTask {
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

    /// Reads a consistent state: nothing changed during the reading.
    async fn read(&mut self) -> (Result<LoadedHome, LoadError>, Option<String>) {
        let mut tries = 1;
        loop {
            let (home, before) = (&self.home, &self.loaded);
            let watch = &mut self.watch;
            let (unwatched, read) = tokio::task::block_in_place(|| {
                let unwatched = watch.follow().err();
                (unwatched, load_again(home, &before.known, &environment::var, before))
            });
            if read.as_ref().is_ok_and(|read| read.undecided) {
                // The last profile was removed: look for a local server once, as a start does.
                self.loaded.known.local = local::look(&environment::var).await;
                continue;
            }
            tokio::time::sleep(SETTLED).await;
            // If the changes never stop, valid settings are used; a problem may be an unfinished
            // change.
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
        mut next: LoadedHome,
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
        let problems = error.mistakes.iter().map(told).collect();
        let needs_restart = self.hive.config().needs_restart.clone();
        let config = ConfigStanding { problems, needs_restart, unwatched };
        let mistake = hive_policy_mistake(&self.home);
        self.deny(mistake.map(|mistake| mistake.to_string()), config).await;
    }

    /// An unreadable policy denies every call; the other settings stay. Once it is readable again,
    /// the settings in force decide.
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

    /// The problem of the policy in the agent's own file.
    fn own_mistake(&self, name: &AgentName) -> Option<String> {
        match self.loaded.settings.agents.get(name) {
            Some(AgentState::Active(agent)) => agent.policy.broken.clone(),
            _ => None,
        }
    }

    /// Only the reported state of the files changes. Logged once.
    async fn note(&self, config: ConfigStanding) {
        if *self.hive.config() != config {
            log(&config);
            self.hive.keep_settings(config).await;
        }
    }
}

/// An agent with a broken folder keeps its settings, with the current model of its profile. If its
/// policy is unreadable, all of its calls are denied.
fn keep_agents(home: &Home, running: &HiveSettings, next: &mut LoadedHome) {
    for name in next.broken.keys() {
        let Some(AgentState::Active(before)) = running.agents.get(name) else { continue };
        let mut kept = (**before).clone();
        // An explicit model (`vendor:model`) stays.
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

/// Restores settings that are fixed at the start. Returns the keys that have changed.
fn hold_back(running: &HiveSettings, next: &mut LoadedHome) -> Vec<String> {
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

fn told(problem: &Mistake) -> ConfigProblem {
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

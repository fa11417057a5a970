//! Puts the files of a running hive in force: all of them, or those of some agents alone. An
//! invalid file is not applied, and its last valid version stays in force.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use skep_cli::commands::agent::CreatedAgent;
use skep_cli::hive::Home;
use skep_core::event::ConfigOutcome;
use skep_core::ids::AgentName;
use skep_core::settings::{
    AgentState, ConfigProblem, ConfigStanding, HiveSettings, ServerSettings,
};
use skep_guard::environment;
use skep_guard::vault::Vault;
use skep_runtime::door::DoorError;
use skep_runtime::{Hive, SettingsChange};
use tokio::sync::Mutex;

use crate::home::environment::Variables;
use crate::home::new_agent::{self, NewAgentError};
use crate::home::watch::ReadScope;
use crate::home::{
    FileEdits, HomeError, LoadError, LoadedHome, Mistake, ProfileChange, ReadAgents,
    WrittenProfile, check_staged, create, load_again, load_agents, local, misplaced,
    read_agent_policy, read_hive_policy, read_with_text,
};
use crate::template::{self, TeamWish, Template};
use crate::vendors::Vendors;

pub struct Applier {
    home: Home,
    hive: Hive,
    vault: Arc<Vault>,
    /// Locked while files are read or put in force. Not a task of its own: whoever watches the
    /// files waits for them to settle, and a rule does not wait for that.
    applied: Mutex<Applied>,
}

struct Applied {
    vendors: Vendors,
    /// The last valid settings.
    loaded: LoadedHome,
    /// The hive's own files cannot be used: agents are not read alone until they can.
    kept: bool,
    /// Why the hive's own policy denies everything, where it does.
    denial: Option<String>,
    /// How often something was put in force.
    count: u64,
}

/// Files that were read and are not in force yet.
pub struct Reading {
    found: Found,
    /// `Applied::count` at that moment.
    count: u64,
}

enum Found {
    Home(Result<Box<LoadedHome>, LoadError>),
    Agents(ReadAgents),
}

impl Found {
    /// Has the agent stay as it is.
    fn leave(&mut self, name: &AgentName, state: Option<&AgentState>) {
        match self {
            Self::Home(Ok(read)) => {
                read.broken.remove(name);
                match state {
                    Some(state) => read.settings.agents.insert(name.clone(), state.clone()),
                    None => read.settings.agents.remove(name),
                }
            }
            Self::Home(Err(_)) => {}
            Self::Agents(read) => {
                read.states.remove(name);
                read.broken.remove(name);
            }
        }
    }
}

impl Reading {
    /// Nothing in it looks like an unfinished change.
    pub fn is_valid(&self) -> bool {
        match &self.found {
            Found::Home(read) => read.as_ref().is_ok_and(|read| read.broken.is_empty()),
            Found::Agents(read) => read.broken.is_empty(),
        }
    }
}

impl Applier {
    pub fn new(
        home: &Home,
        hive: &Hive,
        vendors: Vendors,
        vault: Arc<Vault>,
        loaded: LoadedHome,
    ) -> Arc<Self> {
        let applied = Applied { vendors, loaded, kept: false, denial: None, count: 0 };
        let (home, hive, applied) = (home.clone(), hive.clone(), Mutex::new(applied));
        Arc::new(Self { home, hive, vault, applied })
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    pub fn vault(&self) -> &Arc<Vault> {
        &self.vault
    }

    /// Reads one agent again and puts it in force. No other agent is looked at.
    pub async fn apply_agent(&self, name: &AgentName) -> Result<(), DoorError> {
        let mut applied = self.applied.lock().await;
        let scope = ReadScope::Agents(BTreeSet::from([name.clone()]));
        self.put_again(&mut applied, &scope).await
    }

    /// Puts an agent in force that is being made, or takes it out of force where its folder is
    /// gone. Gives what it is then.
    pub async fn apply_unfinished(&self, name: &AgentName) -> Result<Option<AgentState>, String> {
        let mut applied = self.applied.lock().await;
        let scope = ReadScope::Agents(BTreeSet::from([name.clone()]));
        let found = applied.read(&self.home, &scope).await;
        let unwatched = self.hive.config().unwatched.clone();
        let put = self.put_found(&mut applied, found, unwatched).await;
        put.map_err(|error| error.to_string())?;
        Ok(self.hive.settings().agents.get(name).cloned())
    }

    /// Makes a team and puts it in force; where one of its agents cannot run, nothing of it stays.
    pub async fn make_team(
        &self,
        template: &Template,
        name: &str,
        parent: Option<&str>,
    ) -> Result<Vec<CreatedAgent>, NewAgentError> {
        let mut applied = self.applied.lock().await;
        let rehearses = template::rehearses(&applied.loaded, None);
        let wish = TeamWish { name, parent, profile: None, rehearses };
        let known = &applied.loaded.known;
        let make = || template.make(&self.home, &wish, known);
        let made = tokio::task::block_in_place(make)?;
        let names: BTreeSet<_> = made.iter().map(|it| AgentName::new(&it.name)).collect();
        let scope = ReadScope::Agents(names.clone());
        let put = self.put_again(&mut applied, &scope).await.map_err(|error| error.to_string());
        let Err(why) = put.and_then(|()| self.can_run(&names)) else { return Ok(made) };
        let folders = made.iter().map(|it| &it.folder);
        tokio::task::block_in_place(|| new_agent::remove(folders))?;
        if let Err(error) = self.put_again(&mut applied, &scope).await {
            tracing::warn!(%error, "a team that was taken back is still in force");
        }
        Err(NewAgentError::Wrong(why))
    }

    fn can_run(&self, names: &BTreeSet<AgentName>) -> Result<(), String> {
        let settings = self.hive.settings();
        names.iter().try_for_each(|name| match settings.agents.get(name) {
            Some(AgentState::Active(_)) => Ok(()),
            Some(AgentState::Failed { reason }) => Err(reason.clone()),
            None => Err(format!("{name} is being removed; try again later")),
        })
    }

    /// Whether the agent in this folder could run.
    pub async fn check_staged(&self, name: &AgentName, folder: &Path) -> Result<(), String> {
        let applied = self.applied.lock().await;
        let check = || check_staged(&self.home, name, folder, &environment::var, &applied.loaded);
        let place = format!("teams/{name}");
        tokio::task::block_in_place(check)
            .map_err(|mistake| mistake.to_string().replace(&folder.display().to_string(), &place))
    }

    /// Why the agent could not run if its file had this text.
    pub async fn check_text(&self, name: &AgentName, text: &str) -> Result<(), ConfigProblem> {
        let applied = self.applied.lock().await;
        let file = self.home.agent(name.as_str()).join("config.yaml");
        let of_file = |why: String| told(&Mistake::of_file(&file, why));
        if applied.kept {
            let why = "cannot be put in force: the hive's own files have a mistake";
            return Err(of_file(why.to_owned()));
        }
        let read = || read_with_text(&self.home, name, text, &environment::var, &applied.loaded);
        let agent = tokio::task::block_in_place(read).map_err(|mistake| told(&mistake))?;
        let mut state = AgentState::Active(Arc::new(agent));
        applied.vendors.disable(&mut state);
        if let AgentState::Failed { reason } = state {
            return Err(of_file(reason));
        }
        // Its place in the tree may make no sense, or that of somebody below it.
        let mut tree = (*self.hive.tree()).clone();
        let before = misplaced(&self.home, &tree);
        tree.set(BTreeMap::from([(name.clone(), Some(state))]));
        let after = misplaced(&self.home, &tree);
        match after.iter().find(|mistake| !before.contains(mistake)) {
            Some(mistake) => Err(told(mistake)),
            None => Ok(()),
        }
    }

    /// What the files would be with this profile. Nothing is changed.
    pub async fn prepare_profile(
        &self,
        name: &str,
        wish: WrittenProfile,
        key: Option<&str>,
    ) -> Result<ProfileChange, String> {
        let applied = self.applied.lock().await;
        let known = (&environment::var as Variables, &applied.loaded.known.local);
        tokio::task::block_in_place(|| ProfileChange::prepare(&self.home, name, wish, key, known))
    }

    /// Removes a profile.
    pub async fn remove_profile(&self, name: &str) -> Result<(), String> {
        let applied = self.applied.lock().await;
        let known = (&environment::var as Variables, &applied.loaded.known.local);
        let files =
            tokio::task::block_in_place(|| FileEdits::without_profile(&self.home, name, known))?;
        drop(applied);
        self.apply_files(files).await
    }

    /// Writes the files and puts them in force.
    pub async fn apply_files(&self, files: FileEdits) -> Result<(), String> {
        let mut applied = self.applied.lock().await;
        tokio::task::block_in_place(|| files.write())?;
        let found = applied.read(&self.home, &ReadScope::Home).await;
        let unusable = match &found {
            Found::Home(Err(error)) => Some(format!("saved, but not in force: {error}")),
            _ => None,
        };
        let put = self.put(&mut applied, found, self.hive.config().unwatched.clone()).await;
        put.map_err(|error| error.to_string())?;
        unusable.map_or(Ok(()), Err)
    }

    /// Reads the files, to be put in force once they have settled.
    pub async fn read(&self, scope: &ReadScope) -> Reading {
        let mut applied = self.applied.lock().await;
        Reading { found: applied.read(&self.home, scope).await, count: applied.count }
    }

    /// Puts a reading in force. False: something else was put in force since, read again.
    pub async fn install(
        &self,
        reading: Reading,
        unwatched: Option<String>,
    ) -> Result<bool, DoorError> {
        let mut applied = self.applied.lock().await;
        if applied.count != reading.count {
            return Ok(false);
        }
        self.put(&mut applied, reading.found, unwatched).await?;
        Ok(true)
    }

    async fn put_again(&self, applied: &mut Applied, scope: &ReadScope) -> Result<(), DoorError> {
        let found = applied.read(&self.home, scope).await;
        self.put(applied, found, self.hive.config().unwatched.clone()).await
    }

    async fn put(
        &self,
        applied: &mut Applied,
        mut found: Found,
        unwatched: Option<String>,
    ) -> Result<(), DoorError> {
        // What is half made counts as it is in force.
        for name in self.hive.unfinished() {
            found.leave(&name, self.hive.written().agents.get(&name));
        }
        self.put_found(applied, found, unwatched).await
    }

    async fn put_found(
        &self,
        applied: &mut Applied,
        found: Found,
        unwatched: Option<String>,
    ) -> Result<(), DoorError> {
        applied.count += 1;
        match found {
            Found::Home(Ok(next)) => self.put_home(applied, *next, unwatched).await,
            Found::Home(Err(error)) => {
                applied.kept = true;
                self.keep(applied, &error, unwatched).await
            }
            Found::Agents(read) => self.put_agents(applied, read, unwatched).await,
        }
    }

    async fn put_home(
        &self,
        applied: &mut Applied,
        mut next: LoadedHome,
        unwatched: Option<String>,
    ) -> Result<(), DoorError> {
        let running = self.hive.written();
        let mut problems: Vec<ConfigProblem> = next.broken.values().map(told).collect();
        let kept = next.broken.keys();
        let kept = kept.filter_map(|name| {
            Some((name.clone(), self.kept(name, &running, &applied.loaded, &next)?))
        });
        let kept: Vec<_> = kept.collect();
        next.settings.agents.extend(kept);
        applied.vendors.furnish(&mut next.settings, &next.connections, &self.vault);
        problems.extend(create::workspaces(&self.home, &next).err().map(not_made));
        let tree = next.settings.tree();
        problems.extend(misplaced(&self.home, &tree).iter().map(told));
        let needs_restart = hold_back(&running, &mut next);
        let config = ConfigStanding { problems, needs_restart, unwatched };
        if running == next.settings {
            self.note(config).await;
        } else {
            let change = SettingsChange::All(Box::new(next.settings.clone()));
            self.change(change, config).await?;
        }
        (applied.loaded, applied.kept, applied.denial) = (next, false, None);
        Ok(())
    }

    async fn put_agents(
        &self,
        applied: &mut Applied,
        read: ReadAgents,
        unwatched: Option<String>,
    ) -> Result<(), DoorError> {
        let (running, loaded) = (self.hive.written(), &applied.loaded);
        let others = loaded.broken.iter().filter(|(name, _)| !read.states.contains_key(*name));
        let broken = others.map(|(_, mistake)| mistake).chain(read.broken.values());
        let mut problems: Vec<ConfigProblem> = broken.map(told).collect();
        let mut states = read.states.clone();
        for (name, state) in &mut states {
            if read.broken.contains_key(name)
                && let Some(kept) = self.kept(name, &running, loaded, loaded)
            {
                *state = Some(kept);
            }
            if let Some(state) = state {
                applied.vendors.disable(state);
                problems.extend(create::workspace(&self.home, state).err().map(not_made));
            }
        }
        let mut tree = (*self.hive.tree()).clone();
        tree.set(states.clone());
        problems.extend(misplaced(&self.home, &tree).iter().map(told));
        let needs_restart = self.hive.config().needs_restart.clone();
        let config = ConfigStanding { problems, needs_restart, unwatched };
        let mut changed = states.clone();
        changed.retain(|name, state| running.agents.get(name) != state.as_ref());
        if changed.is_empty() {
            self.note(config).await;
        } else {
            self.change(SettingsChange::Agents(changed), config).await?;
        }
        applied.loaded.take_in(&self.home, states, read);
        Ok(())
    }

    async fn change(&self, to: SettingsChange, config: ConfigStanding) -> Result<(), DoorError> {
        log(&config);
        tracing::info!("changed files are in force");
        self.hive.apply(to, config, ConfigOutcome::Applied).await
    }

    /// An agent with a broken folder keeps its settings, with the current model of its profile. If
    /// its policy is unreadable, all of its calls are denied.
    fn kept(
        &self,
        name: &AgentName,
        running: &HiveSettings,
        before: &LoadedHome,
        read: &LoadedHome,
    ) -> Option<AgentState> {
        let Some(AgentState::Active(active)) = running.agents.get(name) else { return None };
        let mut kept = (**active).clone();
        // An explicit model (`vendor:model`) stays.
        let profile = &kept.profile.name;
        if running.profiles.get(profile) == Some(&kept.profile)
            && let Some(profile) = read.settings.profiles.get(profile)
        {
            kept.profile = Arc::clone(profile);
        }
        let policy = read_agent_policy(&self.home, name.as_str(), &read.known, &environment::var);
        kept.policy.broken = policy.denial(own_mistake(before, name));
        Some(AgentState::Active(Arc::new(kept)))
    }

    /// An unreadable policy of the hive denies every call; the other settings stay. Once it is
    /// readable again, the settings in force decide.
    async fn keep(
        &self,
        applied: &mut Applied,
        error: &LoadError,
        unwatched: Option<String>,
    ) -> Result<(), DoorError> {
        let problems = error.mistakes.iter().map(told).collect();
        let needs_restart = self.hive.config().needs_restart.clone();
        let config = ConfigStanding { problems, needs_restart, unwatched };
        applied.denial =
            read_hive_policy(&self.home, &environment::var).denial(applied.denial.take());
        let running = self.hive.written();
        let mut settings = running.clone();
        for (name, state) in settings.agents.iter_mut() {
            let AgentState::Active(agent) = state else { continue };
            let broken = applied.denial.clone().or_else(|| own_mistake(&applied.loaded, name));
            if agent.policy.broken != broken {
                Arc::make_mut(agent).policy.broken = broken;
            }
        }
        if running == settings {
            self.note(config).await;
            return Ok(());
        }
        log(&config);
        if let Some(denial) = &applied.denial {
            tracing::warn!("every tool call is denied: {denial}");
        }
        let change = SettingsChange::All(Box::new(settings));
        self.hive.apply(change, config, ConfigOutcome::Kept).await
    }

    /// Only the reported state of the files changes. Logged once.
    async fn note(&self, config: ConfigStanding) {
        if *self.hive.config() != config {
            log(&config);
            self.hive.keep_settings(config).await;
        }
    }
}

impl Applied {
    async fn read(&mut self, home: &Home, scope: &ReadScope) -> Found {
        let mut found = self.read_now(home, scope);
        if matches!(&found, Found::Home(Ok(read)) if read.undecided) {
            // The last profile was removed: look for a local server once, as a start does.
            self.loaded.known.local = local::look(&environment::var).await;
            found = self.read_now(home, scope);
        }
        found
    }

    fn read_now(&self, home: &Home, scope: &ReadScope) -> Found {
        tokio::task::block_in_place(|| {
            if let ReadScope::Agents(names) = scope
                && !self.kept
            {
                let read = load_agents(home, names, &environment::var, &self.loaded);
                // That nobody is left is for a look at the whole home to say.
                let stays = |name: &AgentName| !matches!(read.states.get(name), Some(None));
                if names.is_empty() || self.loaded.settings.agents.keys().any(stays) {
                    return Found::Agents(read);
                }
            }
            let read = load_again(home, &self.loaded.known, &environment::var, &self.loaded);
            Found::Home(read.map(Box::new))
        })
    }
}

/// The problem of the policy in the agent's own file.
fn own_mistake(loaded: &LoadedHome, name: &AgentName) -> Option<String> {
    match loaded.settings.agents.get(name) {
        Some(AgentState::Active(agent)) => agent.policy.broken.clone(),
        _ => None,
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

fn not_made(error: HomeError) -> ConfigProblem {
    let (file, text) = (error.path.display().to_string(), error.to_string());
    ConfigProblem { file, line: None, text }
}

fn log(config: &ConfigStanding) {
    for problem in &config.problems {
        tracing::warn!("not in force: {}", problem.text);
    }
    for key in &config.needs_restart {
        tracing::warn!("{key} is used after the next start");
    }
    if let Some(unwatched) = &config.unwatched {
        tracing::warn!("files cannot be watched: {unwatched}");
    }
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;

//! `/model` and `/think`: what a lane was told to use, and what it is told when it asks.

use skep_core::choice::{self, DEFAULT_WORD, did_you_mean};
use skep_core::names::nearest;
use skep_core::settings::{AgentSettings, HiveSettings, Profile, Think};
use skep_core::slash::listed;
use skep_store::inbox::{Action, LaneChoice};
use skep_store::lanes::Chosen;

/// What a person wrote after the command, if anything.
pub(crate) enum ChoiceWish {
    Model(Option<String>),
    Think(Option<String>),
}

impl ChoiceWish {
    pub fn action(self, agent: &AgentSettings, now: &Chosen, settings: &HiveSettings) -> Action {
        match self {
            Self::Model(None) => Action::Say(models(agent, now, settings)),
            Self::Model(Some(wanted)) => choose_model(agent, &wanted, settings),
            Self::Think(None) => Action::Say(levels(agent, now)),
            Self::Think(Some(wanted)) => choose_think(agent, &wanted),
        }
    }
}

fn choose_model(agent: &AgentSettings, wanted: &str, settings: &HiveSettings) -> Action {
    let own = &agent.profile;
    if wanted == DEFAULT_WORD {
        let say = format!("From the next turn on: {}, the agent's own.", described(own));
        return Action::Choose { choice: LaneChoice::Profile(None), say };
    }
    match choice::chosen(wanted, agent, settings) {
        Ok(profile) => {
            let say = format!("From the next turn on: {}.", described(&profile));
            Action::Choose { choice: LaneChoice::Profile(Some(wanted.to_owned())), say }
        }
        Err(text) => Action::Fail { code: "unknown_model", text },
    }
}

fn choose_think(agent: &AgentSettings, wanted: &str) -> Action {
    if wanted == DEFAULT_WORD {
        let say = format!("From the next turn on: {}, the agent's own.", level(agent.think));
        return Action::Choose { choice: LaneChoice::Think(None), say };
    }
    match Think::parse(wanted) {
        Some(think) => {
            let say = format!("From the next turn on: {}.", level(Some(think)));
            Action::Choose { choice: LaneChoice::Think(Some(think)), say }
        }
        None => {
            let words: Vec<&str> = Think::ALL.into_iter().map(Think::as_str).collect();
            let hint = did_you_mean(nearest(wanted, &words));
            let words = words.join(", ");
            let text = format!("There is no level `{wanted}`; there is {words}, default.{hint}");
            Action::Fail { code: "unknown_level", text }
        }
    }
}

fn models(agent: &AgentSettings, now: &Chosen, settings: &HiveSettings) -> String {
    let profiles = settings.profiles.values().map(|profile| {
        let own = if profile.name == agent.profile.name { ", the agent's own" } else { "" };
        (profile.name.clone(), format!("{} {}{own}", profile.provider, profile.model))
    });
    let current = ("now".to_owned(), summary(agent, now, settings));
    let list = listed("Model", [current].into_iter().chain(profiles));
    format!(
        "{list}\n/model NAME changes it from the next turn. PROVIDER:MODEL names another model of \
         one of these providers, {DEFAULT_WORD} the agent's own."
    )
}

fn levels(agent: &AgentSettings, now: &Chosen) -> String {
    let words: Vec<&str> = Think::ALL.into_iter().map(Think::as_str).collect();
    let chosen = if now.think.is_some() { "chosen here" } else { "the agent's own" };
    let now = ("now", format!("{} ({chosen})", level(now.think.or(agent.think))));
    let levels = ("levels", format!("{}, {DEFAULT_WORD}", words.join(", ")));
    format!("{}\n/think LEVEL changes it from the next turn.", listed("Thinking", [now, levels]))
}

/// Which model answers, and how hard it thinks.
pub(crate) fn summary(agent: &AgentSettings, now: &Chosen, settings: &HiveSettings) -> String {
    let model = match &now.profile {
        None => described(&agent.profile),
        Some(wanted) => match choice::chosen(wanted, agent, settings) {
            Ok(profile) => format!("{} (chosen here)", described(&profile)),
            Err(why) => return format!("`{wanted}`, which cannot be used. {why}"),
        },
    };
    let think = now.think.or(agent.think);
    let think = think.map(|think| format!(", {}", level(Some(think)))).unwrap_or_default();
    format!("{model}{think}")
}

fn described(profile: &Profile) -> String {
    format!("{} {} (profile {})", profile.provider, profile.model, profile.name)
}

fn level(think: Option<Think>) -> String {
    match think {
        Some(think) => format!("thinking {}", think.as_str()),
        None => "thinking as the profile says".to_owned(),
    }
}

//! `/model` and `/think`: what a lane was told to use, and what it is told when it asks.

use skep_core::choice::{self, DEFAULT_WORD, did_you_mean};
use skep_core::names::nearest;
use skep_core::settings::{AgentSettings, HiveSettings, Profile, Think};
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
    let mut lines = vec![summary(agent, now, settings)];
    for profile in settings.profiles.values() {
        let own = if profile.name == agent.profile.name { "  (the agent's own)" } else { "" };
        lines.push(format!("/model {}  {} {}{own}", profile.name, profile.provider, profile.model));
    }
    lines.push("/model PROVIDER:MODEL  another model of one of these providers".to_owned());
    lines.push(format!("/model {DEFAULT_WORD}  back to the agent's own"));
    lines.join("\n")
}

fn levels(agent: &AgentSettings, now: &Chosen) -> String {
    let words: Vec<&str> = Think::ALL.into_iter().map(Think::as_str).collect();
    let chosen = match now.think {
        Some(_) => "chosen here",
        None => "the agent's own",
    };
    let level = level(now.think.or(agent.think));
    format!("Now: {level} ({chosen}).\n/think {}|{DEFAULT_WORD}", words.join("|"))
}

/// One line: which model answers, and how hard it thinks.
pub(crate) fn summary(agent: &AgentSettings, now: &Chosen, settings: &HiveSettings) -> String {
    let model = match &now.profile {
        None => described(&agent.profile),
        Some(wanted) => match choice::chosen(wanted, agent, settings) {
            Ok(profile) => format!("{} (chosen here)", described(&profile)),
            Err(why) => format!("`{wanted}`, which cannot be used. {why}"),
        },
    };
    let think = now.think.or(agent.think);
    let think = think.map(|think| format!(", {}", level(Some(think)))).unwrap_or_default();
    format!("Model: {model}{think}.")
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

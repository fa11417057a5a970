//! Which profile a person means: one by its name, or a model of a provider as `provider:model`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::decide::names::nearest;
use crate::settings::{AgentSettings, HiveSettings, Profile};

/// The word that takes a choice back.
pub const DEFAULT_WORD: &str = "default";

/// Finds the profile. A `provider:model` keeps everything of a profile of that provider but the
/// model and what is known of it: the agent's own where it is one, else the first by name.
pub fn profile(
    wanted: &str,
    own: &Arc<Profile>,
    profiles: &BTreeMap<String, Arc<Profile>>,
) -> Result<Arc<Profile>, String> {
    if let Some(profile) = profiles.get(wanted) {
        return Ok(Arc::clone(profile));
    }
    let Some((provider, model)) = wanted.split_once(':') else {
        return Err(unknown(wanted, profiles));
    };
    let model = model.trim();
    let of_provider = |profile: &&Arc<Profile>| profile.provider == provider;
    let base = Some(own).filter(of_provider).or_else(|| profiles.values().find(of_provider));
    match base {
        Some(_) if model.is_empty() => {
            Err(format!("`{wanted}` names no model; write {provider}:MODEL."))
        }
        Some(base) if base.model == model => Ok(Arc::clone(base)),
        Some(base) => {
            let facts = (base.known.0)(model);
            let most = facts.most_output.unwrap_or(u32::MAX);
            Ok(Arc::new(Profile {
                model: model.to_owned(),
                max_output_tokens: base.max_output_tokens.min(most),
                context_window: facts.context_window,
                price: facts.price,
                sees_images: facts.sees_images,
                ..Profile::clone(base)
            }))
        }
        None => {
            let mut known: Vec<&str> = profiles.values().map(|it| it.provider.as_str()).collect();
            known.sort_unstable();
            known.dedup();
            let hint = did_you_mean(nearest(provider, &known));
            let known = known.join(", ");
            Err(format!("No profile uses the provider `{provider}`; there is {known}.{hint}"))
        }
    }
}

/// As `profile`, for a conversation. Where dollars are limited, naming a model whose price nobody
/// knows is no way around the limit.
pub fn chosen(
    wanted: &str,
    agent: &AgentSettings,
    settings: &HiveSettings,
) -> Result<Arc<Profile>, String> {
    let found = profile(wanted, &agent.profile, &settings.profiles)?;
    let (own, all) = (&agent.budgets, &settings.limits);
    let teams = settings.teams_of(agent).into_iter().map(|(_, caps)| caps);
    let mut caps = [own.day, own.turn, all.day_caps(), all.per_turn].into_iter().chain(teams);
    let limited = caps.any(|caps| caps.cost.is_some());
    let base = settings.profiles.get(&found.name).unwrap_or(&agent.profile);
    let leaves_the_priced = base.price.is_some() && found.price.is_none();
    if limited && leaves_the_priced && !Arc::ptr_eq(&found, &agent.profile) {
        return Err(format!(
            "The price of `{}` is not known, and dollars are limited here. An operator can give \
             it a profile with a price in providers.yaml.",
            found.model
        ));
    }
    Ok(found)
}

fn unknown(wanted: &str, profiles: &BTreeMap<String, Arc<Profile>>) -> String {
    let names: Vec<&str> = profiles.keys().map(String::as_str).collect();
    let hint = did_you_mean(nearest(wanted, &names));
    let names = names.join(", ");
    format!("There is no profile `{wanted}`; there is {names}, or write PROVIDER:MODEL.{hint}")
}

pub fn did_you_mean(name: Option<&str>) -> String {
    name.map(|name| format!(" Did you mean `{name}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::settings::KnownModels;

    fn made(name: &str, provider: &str, model: &str) -> Arc<Profile> {
        Arc::new(Profile {
            name: name.to_owned(),
            provider: provider.to_owned(),
            model: model.to_owned(),
            max_output_tokens: 1,
            thinking: None,
            temperature: None,
            fallback: Vec::new(),
            context_window: Some(1),
            price: None,
            sees_images: true,
            known: KnownModels::NONE,
        })
    }

    #[test]
    fn by_name_or_by_provider_and_model() {
        let own = made("mine", "openai", "gpt");
        let all = [own.clone(), made("fast", "anthropic", "haiku"), made("a", "openai", "small")];
        let all = all.map(|profile| (profile.name.clone(), profile)).into();
        let found =
            |wanted| profile(wanted, &own, &all).map(|it| (it.name.clone(), it.model.clone()));
        let is = |name: &str, model: &str| Ok((name.to_owned(), model.to_owned()));
        assert_eq!(found("fast"), is("fast", "haiku"));
        assert_eq!(found("openai:gpt"), is("mine", "gpt"));
        assert_eq!(found("openai:large:v2"), is("mine", "large:v2"));
        assert_eq!(found("anthropic:opus"), is("fast", "opus"));
        let refused = |text: &str| Err(text.to_owned());
        assert_eq!(
            found("fsat"),
            refused(
                "There is no profile `fsat`; there is a, fast, mine, or write PROVIDER:MODEL. \
                 Did you mean `fast`?"
            )
        );
        assert_eq!(found("openai:"), refused("`openai:` names no model; write openai:MODEL."));
        assert_eq!(
            found("antropic:opus"),
            refused(
                "No profile uses the provider `antropic`; there is anthropic, openai. \
                 Did you mean `anthropic`?"
            )
        );
    }
}

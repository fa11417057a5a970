//! The fallbacks of profiles: every name exists, and no chain is a cycle.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use skep_core::settings::Profile;

use super::environment::Reader;
use super::hive;
use super::mistake::Mistake;
use super::scalar::TextScalar;

/// The fallbacks each profile names itself.
type DirectFallbacks = BTreeMap<String, Vec<String>>;

/// Gives every profile its chain: its own fallbacks in order, then theirs. `written` is the key
/// `fallback` of each profile.
pub fn link(
    reader: &Reader<'_>,
    profiles: BTreeMap<String, Profile>,
    written: &[(&String, &[TextScalar])],
) -> Result<BTreeMap<String, Arc<Profile>>, Mistake> {
    let known: Vec<&str> = profiles.keys().map(String::as_str).collect();
    let mut own = DirectFallbacks::new();
    for (name, texts) in written {
        let names = texts.iter().map(|text| hive::profile_name(reader, text, &known));
        own.insert((*name).clone(), names.collect::<Result<_, _>>()?);
    }
    for (name, texts) in written {
        for (text, other) in texts.iter().zip(&own[*name]) {
            check_cycle(reader, name, text, other, &own)?;
        }
    }
    let plain: BTreeMap<&str, Arc<Profile>> =
        profiles.iter().map(|(name, profile)| (name.as_str(), Arc::new(profile.clone()))).collect();
    let linked = profiles.iter().map(|(name, profile)| {
        let chain = chain(name, &own).into_iter().filter_map(|name| plain.get(name).cloned());
        (name.clone(), Arc::new(Profile { fallback: chain.collect(), ..profile.clone() }))
    });
    Ok(linked.collect())
}

/// All fallbacks of a profile, each once, nearest first.
fn chain<'a>(name: &'a str, own: &'a DirectFallbacks) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut open = VecDeque::from([name]);
    while let Some(next) = open.pop_front() {
        for other in own.get(next).into_iter().flatten() {
            if !found.contains(&other.as_str()) {
                found.push(other);
                open.push_back(other);
            }
        }
    }
    found
}

fn check_cycle(
    reader: &Reader<'_>,
    name: &str,
    text: &TextScalar,
    other: &str,
    own: &DirectFallbacks,
) -> Result<(), Mistake> {
    if other == name {
        let mistake = reader.mistake(text, format!("`{name}` cannot stand in for itself"));
        return Err(mistake.expecting("another profile"));
    }
    if chain(other, own).contains(&name) {
        let what = format!("`{other}` leads back to `{name}`");
        return Err(reader.mistake(text, what).expecting("a chain of profiles that has an end"));
    }
    Ok(())
}

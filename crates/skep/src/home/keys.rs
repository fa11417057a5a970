//! `keys.env`: keys that were given in the browser, as lines of `NAME=VALUE`. Values of
//! `providers.yaml` may name them, and nothing else may.

use std::collections::BTreeMap;

use skep_core::ids::is_agent_name;
use skep_guard::scrub::Secret;

use super::environment::is_variable_name;
use super::mistake::Mistake;
use super::source::SourceText;

/// The names of keys that the hive writes begin so.
pub const PREFIX: &str = "SKEP_KEY_";
const HEAD: &str = "# Written by the hive. Each line is NAME=VALUE; providers.yaml names them.\n";

/// No `Debug`: it holds secrets.
#[derive(Default)]
pub struct KeyFile(BTreeMap<String, String>);

impl KeyFile {
    pub fn parse(source: &SourceText) -> Result<Self, Mistake> {
        let mut keys = BTreeMap::new();
        for (line, number) in source.text.lines().zip(1..) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            // Nothing of the line is repeated: it may hold a key.
            let named = line.split_once('=').filter(|(name, _)| is_variable_name(name));
            let Some((name, value)) = named else {
                let mut mistake = Mistake::of_file(&source.file, "this line names no key");
                mistake.at = Some((number, 1));
                return Err(mistake.expecting("NAME=VALUE"));
            };
            keys.insert(name.to_owned(), value.trim().to_owned());
        }
        Ok(Self(keys))
    }

    pub fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    pub fn secrets(&self) -> Vec<Secret> {
        self.0.iter().map(|(name, value)| Secret::new(name, value)).collect()
    }
}

/// The name under which the key of a profile is kept.
pub fn variable(profile: &str) -> Option<String> {
    let name = profile.to_ascii_uppercase().replace('-', "_");
    is_agent_name(profile).then(|| format!("{PREFIX}{name}"))
}

/// The text of the file with this key in it.
pub fn put(text: &str, name: &str, value: &str) -> String {
    let text = if text.trim().is_empty() { HEAD } else { text };
    take(text, name) + &format!("{name}={value}\n")
}

/// The text of the file without this key.
pub fn take(text: &str, name: &str) -> String {
    let other = |line: &&str| line.split_once('=').is_none_or(|(known, _)| known != name);
    text.lines().filter(other).map(|line| format!("{line}\n")).collect()
}

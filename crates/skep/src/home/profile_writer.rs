//! Adds a profile to `providers.yaml`, changes or removes one that was added so: a line of JSON,
//! which is YAML too. The rest of the file stays as it is; what was written by hand is not touched.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use http::header::HeaderValue;
use serde::{Deserialize, Serialize};
use skep_cli::hive::Home;
use skep_core::settings::Profile;
use skep_guard::disk::replace_file;
use skep_runtime::ProfileDraft;
use skep_scrub::SHORTEST;

use super::create::with_limit;
use super::environment::Variables;
use super::keys::{self, KeyFile};
use super::load::costs_money;
use super::local::LocalModel;
use super::mistake::Mistake;
use super::providers::{self, DEFAULT, ResolvedProviders, VendorConnection};
use super::source::{FILE_BYTES, SourceText};

const KEY_BYTES: usize = ProfileDraft::KEY_BYTES;
const TEXT_BYTES: usize = 500;

/// A profile as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenProfile {
    pub provider: String,
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_url: Option<String>,
    /// The variable that stands for it, never the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
}

/// A change that can be made. No `Debug`: it holds a key.
pub struct ProfileChange {
    pub files: FileEdits,
    pub profile: Arc<Profile>,
    pub connection: VendorConnection,
}

impl ProfileChange {
    /// Reads the files and says what they would be, or why they cannot be changed so. Without an
    /// address the profile keeps the one it has, without a key the one for the same address.
    pub fn prepare(
        home: &Home,
        name: &str,
        mut wish: WrittenProfile,
        key: Option<&str>,
        known: (Variables, &LocalModel),
    ) -> Result<Self, String> {
        let Some(variable) = keys::variable(name) else {
            return Err("a profile's name has lower-case letters, digits and single dashes".into());
        };
        check(&wish, key)?;
        let files = ProfileFiles::read(home, known)?;
        let hive = read(&home.skep_yaml())?;
        let written = find(&files.source.text, name)?;
        let written = written.filter(|written| written.provider == wish.provider);
        if let Some(written) = written {
            let same_place =
                wish.api_url.as_ref().is_none_or(|url| written.api_url.as_ref() == Some(url));
            wish.api_key = written.api_key.filter(|_| same_place);
            wish.api_url = wish.api_url.or(written.api_url);
        }
        if key.is_some() {
            wish.api_key = Some(format!("${{{variable}}}"));
        }
        if wish.provider == "openai" && wish.api_url.is_none() {
            return Err(
                "enter the address of the server (api_url); OpenAI itself is the provider \
                        openai-responses"
                    .into(),
            );
        }
        let text = put(&files.with_default(name)?, name, &wish)?;
        let keys = match key {
            Some(key) => keys::put(&files.keys.text, &variable, key),
            None => without_unused(&files.keys.text, &variable, &text),
        };
        let mut after = files.resolve(name, &text, &keys)?;
        let found = after.profiles.remove(name).zip(after.connections.remove(name));
        let (profile, connection) = found.ok_or_else(by_hand)?;
        let first = costs_money(&profile, &connection.api_url)
            && !files.source.text.contains("\nprofiles:");
        let limited = if first { with_limit(&hive.text) } else { hive.text.clone() };
        // The key before the profile that needs it.
        let files = vec![(hive, limited), (files.keys, keys), (files.source, text)];
        Ok(Self { files: FileEdits(files), profile, connection })
    }
}

/// The text of the keys, without this one where no profile names it.
fn without_unused(keys: &str, variable: &str, profiles: &str) -> String {
    match profiles.contains(&format!("${{{variable}}}")) {
        true => keys.to_owned(),
        false => keys::take(keys, variable),
    }
}

/// Each file as it was read, and as it is going to be; in the order of writing. No `Debug`: they
/// hold keys.
pub struct FileEdits(pub Vec<(SourceText, String)>);

impl FileEdits {
    /// Takes a profile away, and its key where no other profile uses it.
    pub fn without_profile(
        home: &Home,
        name: &str,
        known: (Variables, &LocalModel),
    ) -> Result<Self, String> {
        let files = ProfileFiles::read(home, known)?;
        find(&files.source.text, name)?.ok_or_else(by_hand)?;
        let text = take(&files.source.text, name);
        let variable = keys::variable(name).ok_or_else(by_hand)?;
        let keys = without_unused(&files.keys.text, &variable, &text);
        files.resolve(name, &text, &keys)?;
        Ok(Self(vec![(files.source, text), (files.keys, keys)]))
    }

    pub fn write(&self) -> Result<(), String> {
        for (source, after) in &self.0 {
            if read(&source.file)?.text != source.text {
                return Err("the files were changed at the same time; try again".to_owned());
            }
            if source.text != *after {
                replace_file(&source.file, after)
                    .map_err(|error| format!("{}: {error}", source.file.display()))?;
            }
        }
        Ok(())
    }
}

/// The files that profiles are in, and what they mean now.
struct ProfileFiles<'k> {
    source: SourceText,
    keys: SourceText,
    known: (Variables<'k>, &'k LocalModel),
    before: ResolvedProviders,
}

impl<'k> ProfileFiles<'k> {
    fn read(home: &Home, known: (Variables<'k>, &'k LocalModel)) -> Result<Self, String> {
        let (source, keys) = (read(&home.providers_yaml())?, read(&home.keys_env())?);
        let before = meaning(&source, &keys, known)
            .map_err(|mistake| format!("the files have a mistake, correct it first: {mistake}"))?;
        Ok(Self { source, keys, known, before })
    }

    /// The text with the profile that is used while no file names one, before another is added.
    fn with_default(&self, name: &str) -> Result<String, String> {
        let text = &self.source.text;
        let lines: Vec<&str> = text.lines().collect();
        let is_empty = block(&lines).is_none_or(|(_, _, inside)| inside.is_empty());
        let usual = self.before.profiles.get(DEFAULT).zip(self.before.connections.get(DEFAULT));
        let Some((usual, connection)) = usual.filter(|_| name != DEFAULT && is_empty) else {
            return Ok(text.clone());
        };
        let (variables, _) = self.known;
        let key = connection.key_source.strip_suffix(" of the environment");
        let url = key.map(|key| key.replace("API_KEY", "BASE_URL"));
        let written = WrittenProfile {
            provider: usual.provider.clone(),
            model: usual.model.clone(),
            api_url: match url {
                Some(url) => variables(&url).map(|_| format!("${{{url}}}")),
                // A server on this machine; the rehearsal model has no address.
                None => Some(connection.api_url.clone()).filter(|url| !url.is_empty()),
            },
            api_key: key.map(|key| format!("${{{key}}}")),
        };
        put(text, DEFAULT, &written)
    }

    /// What the files would mean with these texts. No other profile may change by that.
    fn resolve(&self, name: &str, text: &str, keys: &str) -> Result<ResolvedProviders, String> {
        let of = |source: &SourceText, text: &str| SourceText {
            file: source.file.clone(),
            text: text.to_owned(),
        };
        let after = meaning(&of(&self.source, text), &of(&self.keys, keys), self.known)
            .map_err(|mistake| short(&mistake))?;
        let models = |found: &ResolvedProviders| -> BTreeMap<String, (String, String)> {
            let others = found.profiles.values().filter(|profile| profile.name != name);
            let others =
                others.map(|it| (it.name.clone(), (it.provider.clone(), it.model.clone())));
            others.collect()
        };
        if models(&self.before) == models(&after) { Ok(after) } else { Err(by_hand()) }
    }
}

fn meaning(
    source: &SourceText,
    keys: &SourceText,
    (variables, local): (Variables, &LocalModel),
) -> Result<ResolvedProviders, Mistake> {
    let keys = KeyFile::parse(keys)?;
    let with_keys = |name: &str| keys.get(name).or_else(|| variables(name));
    providers::read(source, &with_keys, local)
}

/// A file as it is; absent is the same as empty.
fn read(file: &Path) -> Result<SourceText, String> {
    let found = SourceText::read(file, FILE_BYTES).map_err(|mistake| mistake.to_string())?;
    Ok(found.unwrap_or_else(|| SourceText { file: file.to_path_buf(), text: String::new() }))
}

/// Whether the values are what they look like, in a line of YAML and in a header.
fn check(wish: &WrittenProfile, key: Option<&str>) -> Result<(), String> {
    let odd = |c: char| c.is_control() || "\u{2028}\u{2029}\u{feff}".contains(c);
    let texts = [Some(&wish.provider), Some(&wish.model), wish.api_url.as_ref()];
    for text in texts.into_iter().flatten() {
        if text.is_empty()
            || text.trim() != text
            || text.len() > TEXT_BYTES
            || text.contains("${")
            || text.contains(odd)
        {
            return Err(format!(
                "the model has a name; it and the address are a line of at most {TEXT_BYTES} \
                 characters without `${{` and without spaces around it"
            ));
        }
    }
    // What is in front of the host or behind the path may be a secret, and would be in the file.
    if wish.api_url.as_deref().is_some_and(|url| url.contains(['@', '?', '#'])) {
        return Err("the address has no user, no `?` and no `#`; the key has its own field".into());
    }
    if wish.provider == "rehearsal" && key.is_some() {
        return Err("the rehearsal model takes no key".into());
    }
    let usable = |key: &str| {
        (SHORTEST..=KEY_BYTES).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_graphic())
            && HeaderValue::from_str(key).is_ok()
    };
    match key {
        Some(key) if !usable(key) => Err(format!(
            "the key has {SHORTEST} to {KEY_BYTES} visible ASCII characters; leave it out where \
             the server needs none"
        )),
        _ => Ok(()),
    }
}

/// `api_url: is not a web address; expected …`: whoever asked knows the file only as a form.
fn short(mistake: &Mistake) -> String {
    let key = mistake.key.as_deref().and_then(|key| key.rsplit('.').next());
    let key = key.map_or_else(String::new, |key| format!("{key}: "));
    let expected = mistake.expected.as_ref().map(|expected| format!("; expected {expected}"));
    format!("{key}{}{}", mistake.what, expected.unwrap_or_default())
}

fn by_hand() -> String {
    "this profile was written into providers.yaml by hand; change it there, or choose another name"
        .to_owned()
}

/// The number of the head, the indentation, and each line with its number.
type ProfileLines<'t> = (usize, usize, Vec<(usize, &'t str)>);

/// The lines of the profiles: where they begin, and how far they are indented.
fn block<'t>(lines: &[&'t str]) -> Option<ProfileLines<'t>> {
    let at = lines.iter().position(|line| line.starts_with("profiles:"))?;
    let says = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let inside = lines.iter().enumerate().skip(at + 1).filter(|(_, line)| says(line));
    let inside = inside.take_while(|(_, line)| line.starts_with(' '));
    let inside: Vec<(usize, &str)> = inside.map(|(number, line)| (number, *line)).collect();
    let indent = inside.first().map_or(2, |(_, line)| line.len() - line.trim_start().len());
    Some((at, indent, inside))
}

/// The line of a profile and what is behind its name.
fn line_of<'t>(lines: &[&'t str], name: &str) -> Option<(usize, &'t str)> {
    let (_, indent, inside) = block(lines)?;
    let head = format!("{}{name}:", " ".repeat(indent));
    inside.into_iter().find_map(|(number, line)| Some((number, line.strip_prefix(&head)?)))
}

fn find(text: &str, name: &str) -> Result<Option<WrittenProfile>, String> {
    let lines: Vec<&str> = text.lines().collect();
    match line_of(&lines, name) {
        None => Ok(None),
        Some((_, rest)) => serde_json::from_str(rest).map(Some).map_err(|_| by_hand()),
    }
}

/// The text without the line of this profile.
fn take(text: &str, name: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if let Some((number, _)) = line_of(&lines, name) {
        lines.remove(number);
    }
    if let Some((at, _, inside)) = block(&lines)
        && inside.is_empty()
    {
        lines[at] = "profiles: {}";
    }
    lines.join("\n") + "\n"
}

/// The text with this profile in it. Whether it means that, the caller finds out.
fn put(text: &str, name: &str, profile: &WrittenProfile) -> Result<String, String> {
    let written = serde_json::to_string(profile).map_err(|error| error.to_string())?;
    let mut lines: Vec<&str> = text.lines().collect();
    let (at, indent) = match block(&lines) {
        Some((at, indent, _)) => (at, indent),
        None => {
            lines.push("profiles:");
            (lines.len() - 1, 2)
        }
    };
    let line = format!("{}{name}: {written}", " ".repeat(indent));
    match line_of(&lines, name) {
        Some((number, _)) => lines[number] = &line,
        None => lines.insert(at + 1, &line),
    }
    match lines[at]["profiles:".len()..].trim() {
        "{}" => lines[at] = "profiles:",
        rest if rest.is_empty() || rest.starts_with('#') => {}
        _ => return Err("`profiles` is written in a way that cannot be added to".to_owned()),
    }
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
#[path = "profile_writer_tests.rs"]
mod tests;

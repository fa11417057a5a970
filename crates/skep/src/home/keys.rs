//! Keys of profiles: what `api_key` and `extra_headers` mean, and `keys.env`, the keys that were
//! given in the browser, as lines of `NAME=VALUE`. Values of `providers.yaml` may name them, and
//! nothing else may.

use std::collections::BTreeMap;

use http::header::{HeaderName, HeaderValue};
use secrecy::SecretString;
use skep_core::ids::is_agent_name;
use skep_core::policy::vault;
use skep_scrub::{SHORTEST, Secret};

use super::environment::{ExpandedValue, Reader, is_variable_name};
use super::mistake::Mistake;
use super::scalar::TextScalar;
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
        self.0.iter().map(|(name, value)| Secret::new(name, value.as_str())).collect()
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

/// Warnings and secrets found while reading the profiles.
#[derive(Default)]
pub struct ProfileFindings {
    pub warnings: Vec<String>,
    pub secrets: Vec<Secret>,
}

/// The key of a profile. What is in the vault is filled in when that is open.
pub fn api_key(
    reader: &Reader<'_>,
    name: &str,
    text: &TextScalar,
    findings: &mut ProfileFindings,
) -> Result<SecretString, Mistake> {
    if let Some(reference) = in_vault(reader, text)? {
        return Ok(SecretString::from(reference));
    }
    let key = reader.expand(text)?;
    if key.value.is_empty() || HeaderValue::from_str(&key.value).is_err() {
        let mistake = reader.mistake(text, "cannot be sent as a key");
        return Err(mistake.expecting("visible ASCII characters without spaces around them"));
    }
    let secret = format!("{name}.api_key");
    findings.secrets.push(Secret::new(&secret, key.value.clone()));
    findings
        .secrets
        .extend(key.from_environment.iter().map(|part| Secret::new(&secret, part.clone())));
    if key.from_environment.is_empty() {
        findings.warn_of_literal(reader, text, &format!("profiles.{name}.api_key"));
    }
    Ok(SecretString::from(key.value))
}

/// The value with `{{vault:NAME}}` for what the vault holds; nothing where it means no entry.
fn in_vault(reader: &Reader<'_>, text: &TextScalar) -> Result<Option<String>, Mistake> {
    let written = text.as_str();
    let long = vault::long_form(written);
    if long.is_none() && !written.starts_with("vault:") && !vault::is_meant(written) {
        return Ok(None);
    }
    let value = long.unwrap_or_else(|| written.to_owned());
    match vault::names(&value) {
        Ok(names) if !names.is_empty() && !value.contains("${") => Ok(Some(value)),
        _ => {
            let mistake = reader.mistake(text, "names no vault entry");
            Err(mistake.expecting("`vault:NAME`, or `{{vault:NAME}}` inside a longer text"))
        }
    }
}

impl ProfileFindings {
    fn warn_of_literal(&mut self, reader: &Reader<'_>, text: &TextScalar, key: &str) {
        let ((line, column), file) = (text.at(), reader.source.file.display());
        self.warnings.push(format!(
            "{file}:{line}:{column}: `{key}` is written out in the file; `skep vault move` moves \
             it into the vault"
        ));
    }
}

pub fn key_source(key: Option<&TextScalar>) -> String {
    let Some(written) = key.map(TextScalar::as_str) else { return "none".to_owned() };
    let long = vault::long_form(written);
    let names = vault::names(long.as_deref().unwrap_or(written)).unwrap_or_default();
    if !names.is_empty() {
        return format!("vault entry {}", names.join(", "));
    }
    let variables: Vec<&str> =
        written.split("${").skip(1).filter_map(|rest| rest.split('}').next()).collect();
    match variables.as_slice() {
        [] => "written out in providers.yaml".to_owned(),
        [name] if name.starts_with(PREFIX) => "keys.env".to_owned(),
        names => format!("{} of the environment", names.join(", ")),
    }
}

pub fn extra_headers(
    reader: &Reader<'_>,
    name: &str,
    raw: &BTreeMap<String, TextScalar>,
    findings: &mut ProfileFindings,
) -> Result<Vec<(String, SecretString)>, Mistake> {
    let mut headers = Vec::new();
    for (header, text) in raw {
        if HeaderName::from_bytes(header.as_bytes()).is_err() {
            let path = ["profiles", name, "extra_headers", header];
            let mistake = reader.source.mistake_at_path(&path, "is not a header name");
            return Err(mistake.expecting("letters, digits and dashes"));
        }
        if let Some(reference) = in_vault(reader, text)? {
            headers.push((header.clone(), SecretString::from(reference)));
            continue;
        }
        let ExpandedValue { value, from_environment } = reader.expand(text)?;
        if HeaderValue::from_str(&value).is_err() {
            let mistake = reader.mistake(text, "cannot be sent as a header");
            return Err(mistake.expecting("one line of visible ASCII characters"));
        }
        if from_environment.is_empty() && carries_credentials(header) {
            let key = format!("profiles.{name}.extra_headers.{header}");
            findings.warn_of_literal(reader, text, &key);
        }
        findings.secrets.extend(secrets_of_header(name, header, &value, from_environment));
        headers.push((header.clone(), SecretString::from(value)));
    }
    Ok(headers)
}

/// What came from the environment, and what a header for credentials carries after `Bearer`,
/// `Basic` and their like.
fn secrets_of_header(
    profile: &str,
    header: &str,
    value: &str,
    from_environment: Vec<String>,
) -> Vec<Secret> {
    let secret = |value: String| Secret::new(format!("{profile}.{header}"), value);
    if carries_credentials(header) {
        let credential = value.rsplit(' ').next().unwrap_or_default().to_owned();
        return from_environment.into_iter().chain([credential]).map(secret).collect();
    }
    // A short word from the environment is a setting, not a secret.
    let long = |value: &String| value.len() >= SHORTEST;
    from_environment.into_iter().filter(long).map(secret).collect()
}

/// Decided by the name: the values of other headers are public and occur in ordinary text.
pub fn carries_credentials(header: &str) -> bool {
    let name = header.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password"].iter().any(|word| name.contains(word))
}

//! Moves secrets that stand in files into the vault: those of `keys.env`, and those written out in
//! `providers.yaml`. First they are in the vault, then the profiles name them there, then they go
//! from `keys.env`: whoever ends in between can begin again, and nothing is lost.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use skep_cli::hive::Home;
use skep_core::policy::vault::{self, HIVE};
use skep_guard::clock;
use skep_guard::vault::{NewVaultEntry, Owner, Vault, VaultError};
use skep_runtime::{MoveSecrets, Refresh};
use skep_scrub::{SHORTEST, Secret};

use std::sync::Arc;

use crate::apply::Applier;
use crate::home::keys::{self, KeyFile};
use crate::home::{FILE_BYTES, FileEdits, SourceText, WrittenSecret, written_secrets};

/// The function that the hive calls.
pub fn mover(applier: Arc<Applier>) -> MoveSecrets {
    Arc::new(move |by| {
        let applier = Arc::clone(&applier);
        Box::pin(async move {
            let plan =
                tokio::task::block_in_place(|| MovePlan::read(applier.home(), applier.vault()))?;
            for (name, value) in &plan.entries {
                put(applier.vault(), name, value, &by).await?;
            }
            applier.apply_files(plan.files).await?;
            Ok(plan.entries.into_keys().collect())
        })
    })
}

pub fn refresher(applier: Arc<Applier>) -> Refresh {
    Arc::new(move || {
        let applier = Arc::clone(&applier);
        Box::pin(async move { applier.apply_files(FileEdits(Vec::new())).await })
    })
}

async fn put(vault: &Vault, name: &str, value: &SecretString, by: &str) -> Result<(), String> {
    let said = |error: VaultError| error.to_string();
    match vault.value(HIVE, name) {
        Ok((known, _)) if known.expose_secret() == value.expose_secret() => return Ok(()),
        Ok(_) => return Err(format!("the vault entry {name} was changed meanwhile; move again")),
        Err(VaultError::Unknown { .. }) => {}
        Err(error) => return Err(said(error)),
    }
    let (name, value) = (name.to_owned(), Some(value.clone()));
    let given_by = Owner::People;
    let (owner, hosts) = (HIVE, Vec::new());
    let entry = NewVaultEntry { owner, name, value, secret: true, given_by, hosts };
    let set = vault.set(entry, Some(by.to_owned()), clock::now_ms());
    set.await.map(|_| ()).map_err(said)
}

/// No `Debug`: it holds secrets.
struct MovePlan {
    entries: BTreeMap<String, SecretString>,
    files: FileEdits,
}

impl MovePlan {
    fn read(home: &Home, vault: &Vault) -> Result<Self, String> {
        let (source, keys) = (read(home.providers_yaml())?, read(home.keys_env())?);
        let known = KeyFile::parse(&keys).map_err(|mistake| mistake.to_string())?;
        let written = written_secrets(&source).map_err(|mistake| mistake.to_string())?;
        let mut names = EntryNames { vault, entries: BTreeMap::new(), of_keys: BTreeMap::new() };
        for Secret { name, value, .. } in known.secrets() {
            let entry = names.put(&name, value)?;
            names.of_keys.insert(name, entry);
        }
        let mut places = Vec::new();
        for secret in written {
            let after = renamed(&secret, &mut names)?;
            if after != secret.text.as_str() {
                places.push((secret, after));
            }
        }
        // From the end on: a place before it stays where it is.
        places.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.text.at()));
        let mut text = source.text.clone();
        for (secret, after) in &places {
            text = replaced(&text, secret, after)?;
        }
        check(&source, &text, &places)?;
        let mut without = keys.text.clone();
        for secret in known.secrets() {
            without = keys::take(&without, &secret.name);
        }
        let files = FileEdits(vec![(source, text), (keys, without)]);
        Ok(Self { entries: names.entries, files })
    }
}

fn read(file: std::path::PathBuf) -> Result<SourceText, String> {
    let found = SourceText::read(&file, FILE_BYTES).map_err(|mistake| mistake.to_string())?;
    Ok(found.unwrap_or(SourceText { file, text: String::new() }))
}

/// The entries to be made, each with a name that no other value has.
struct EntryNames<'v> {
    vault: &'v Vault,
    entries: BTreeMap<String, SecretString>,
    /// The entry of each variable of `keys.env`.
    of_keys: BTreeMap<String, String>,
}

impl EntryNames<'_> {
    /// Takes a value in; the name of its entry.
    fn put(&mut self, wanted: &str, value: SecretString) -> Result<String, String> {
        let bytes = value.expose_secret().len();
        if !(SHORTEST..=vault::VALUE_BYTES).contains(&bytes) {
            let most = vault::VALUE_BYTES;
            return Err(format!(
                "{wanted} has {bytes} bytes, and a value of the vault {SHORTEST} to {most}; \
                 nothing was moved. Have it replaced where it was made, or take it out of the file"
            ));
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let base: String = wanted.chars().map(|c| if legal(c) { c } else { '_' }).collect();
        for number in 1.. {
            let end = if number == 1 { String::new() } else { format!(".{number}") };
            let room = base.len().min(vault::NAME_BYTES - end.len());
            let name = format!("{}{end}", &base[..room]);
            if self.is_free(&name, &value) {
                self.entries.insert(name.clone(), value);
                return Ok(name);
            }
        }
        Err(format!("{wanted}: there is no name left"))
    }

    fn is_free(&self, name: &str, value: &SecretString) -> bool {
        let same = |known: &SecretString| known.expose_secret() == value.expose_secret();
        self.entries.get(name).is_none_or(same)
            && match self.vault.value(HIVE, name) {
                Ok((known, _)) => same(&known),
                Err(VaultError::Unknown { .. }) => true,
                Err(_) => false,
            }
    }
}

/// The value as it is going to be written.
fn renamed(secret: &WrittenSecret, names: &mut EntryNames<'_>) -> Result<String, String> {
    let written = secret.text.as_str();
    if vault::is_meant(written) || vault::long_form(written).is_some() {
        return Ok(written.to_owned());
    }
    if !written.contains("${") {
        let wanted = format!("profile.{}.{}", secret.profile, secret.field);
        let name = names.put(&wanted, SecretString::from(written))?;
        return Ok(format!("vault:{name}"));
    }
    let mut after = written.to_owned();
    for (variable, entry) in &names.of_keys {
        let variable = format!("${{{variable}}}");
        if after == variable {
            return Ok(format!("vault:{entry}"));
        }
        after = after.replace(&variable, &vault::reference(entry));
    }
    // A value is filled from one place alone.
    Ok(if after.contains("${") { written.to_owned() } else { after })
}

/// Whether the new text means what it is meant to: a value may be written in several lines.
fn check(
    source: &SourceText,
    text: &str,
    places: &[(WrittenSecret, String)],
) -> Result<(), String> {
    let file = source.file.clone();
    let after = written_secrets(&SourceText { file, text: text.to_owned() });
    let after = after.map_err(|mistake| mistake.to_string())?;
    let is_there = |(secret, value): &&(WrittenSecret, String)| {
        after.iter().any(|it| {
            (&it.profile, &it.field) == (&secret.profile, &secret.field)
                && it.text.as_str() == value
        })
    };
    match places.iter().find(|place| !is_there(place)) {
        Some((secret, _)) => Err(by_hand(secret)),
        None => Ok(()),
    }
}

fn by_hand(secret: &WrittenSecret) -> String {
    let WrittenSecret { profile, field, text } = secret;
    format!(
        "`{field}` of the profile {profile} (line {} of providers.yaml) is written in a way that \
         cannot be changed here; set it with `skep vault set NAME` and write `vault:NAME` there",
        text.at().0
    )
}

/// The text with another value in this place. In quotes it means the same wherever it stands.
fn replaced(text: &str, secret: &WrittenSecret, after: &str) -> Result<String, String> {
    let scalar = &secret.text;
    let (line, column) = scalar.at();
    let by_hand = || by_hand(secret);
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let at = lines.get_mut((line as usize).saturating_sub(1)).ok_or_else(by_hand)?;
    let start: usize =
        at.chars().take((column as usize).saturating_sub(1)).map(char::len_utf8).sum();
    // What others repeat by its name is not for this place alone.
    if at[..start].trim_end().rsplit(' ').next().is_some_and(|word| word.starts_with('&')) {
        return Err(by_hand());
    }
    let rest = &at[start..];
    let quoted = ["\"", "'", ""].into_iter().find_map(|quote| {
        let value = format!("{quote}{}{quote}", scalar.as_str());
        rest.starts_with(&value).then_some(value.len())
    });
    let length = quoted.ok_or_else(by_hand)?;
    at.replace_range(start..start + length, &format!("\"{after}\""));
    Ok(lines.join("\n"))
}

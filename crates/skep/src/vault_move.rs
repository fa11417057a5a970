//! Moves secrets that stand in files into the vault: those of `keys.env`, and those written out in
//! `providers.yaml`. First they are in the vault, then the profiles name them there, then they go
//! from `keys.env`: whoever ends in between can begin again, and nothing is lost.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use skep_cli::hive::Home;
use skep_core::policy::vault::{self, HIVE};
use skep_guard::clock;
use skep_guard::vault::{NewVaultEntry, Vault, VaultError};
use skep_runtime::{MoveSecrets, Refresh};

use std::sync::Arc;

use crate::apply::Applier;
use crate::home::keys::{self, KeyFile};
use crate::home::{FILE_BYTES, FileEdits, SourceText, WrittenSecret, written_secrets};

/// The function that the hive calls.
pub fn mover(applier: Arc<Applier>) -> MoveSecrets {
    Arc::new(move |by| {
        let applier = Arc::clone(&applier);
        Box::pin(async move {
            let plan = tokio::task::block_in_place(|| MovePlan::read(applier.home()))?;
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
        Ok(_) => {
            return Err(format!(
                "the vault entry {name} holds another value; remove one of the two, then move \
                 again"
            ));
        }
        Err(VaultError::Unknown { .. }) => {}
        Err(error) => return Err(said(error)),
    }
    let (name, value) = (name.to_owned(), Some(value.clone()));
    let entry = NewVaultEntry { owner: HIVE, name, value, secret: true, hosts: Vec::new() };
    let set = vault.set(entry, Some(by.to_owned()), clock::now_ms());
    set.await.map(|_| ()).map_err(said)
}

/// No `Debug`: it holds secrets.
struct MovePlan {
    entries: BTreeMap<String, SecretString>,
    files: FileEdits,
}

impl MovePlan {
    fn read(home: &Home) -> Result<Self, String> {
        let (source, keys) = (read(home.providers_yaml())?, read(home.keys_env())?);
        let known = KeyFile::parse(&keys).map_err(|mistake| mistake.to_string())?;
        let written = written_secrets(&source).map_err(|mistake| mistake.to_string())?;
        let mut entries = BTreeMap::new();
        let mut places = Vec::new();
        for secret in written {
            let after = renamed(&secret, &known, &mut entries);
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
        let mut without = keys.text.clone();
        for secret in known.secrets() {
            without = keys::take(&without, &secret.name);
            entries.insert(secret.name, secret.value);
        }
        let files = FileEdits(vec![(source, text), (keys, without)]);
        Ok(Self { entries, files })
    }
}

fn read(file: std::path::PathBuf) -> Result<SourceText, String> {
    let found = SourceText::read(&file, FILE_BYTES).map_err(|mistake| mistake.to_string())?;
    Ok(found.unwrap_or(SourceText { file, text: String::new() }))
}

/// The value as it is going to be written; what it means goes to `entries`.
fn renamed(
    secret: &WrittenSecret,
    known: &KeyFile,
    entries: &mut BTreeMap<String, SecretString>,
) -> String {
    let written = secret.text.as_str();
    if vault::is_meant(written) || vault::long_form(written).is_some() {
        return written.to_owned();
    }
    if !written.contains("${") {
        let name = format!("profile.{}.{}", secret.profile, secret.field);
        let name: String = name.chars().take(vault::NAME_BYTES).collect();
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c), "_");
        entries.insert(name.clone(), SecretString::from(written));
        return format!("vault:{name}");
    }
    let mut after = written.to_owned();
    for secret in known.secrets() {
        let variable = format!("${{{}}}", secret.name);
        if after == variable {
            return format!("vault:{}", secret.name);
        }
        after = after.replace(&variable, &vault::reference(&secret.name));
    }
    // A value is filled from one place alone.
    if after.contains("${") { written.to_owned() } else { after }
}

/// The text with another value in this place. In quotes it means the same wherever it stands.
fn replaced(text: &str, secret: &WrittenSecret, after: &str) -> Result<String, String> {
    let WrittenSecret { profile, field, text: scalar } = secret;
    let (line, column) = scalar.at();
    let by_hand = || {
        format!(
            "`{field}` of the profile {profile} (line {line} of providers.yaml) is written in a \
             way that cannot be changed here; set it with `skep vault set NAME` and write \
             `vault:NAME` there"
        )
    };
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let at = lines.get_mut((line as usize).saturating_sub(1)).ok_or_else(by_hand)?;
    let start: usize =
        at.chars().take((column as usize).saturating_sub(1)).map(char::len_utf8).sum();
    let rest = &at[start..];
    let quoted = ["\"", "'", ""].into_iter().find_map(|quote| {
        let value = format!("{quote}{}{quote}", scalar.as_str());
        rest.starts_with(&value).then_some(value.len())
    });
    let length = quoted.ok_or_else(by_hand)?;
    at.replace_range(start..start + length, &format!("\"{after}\""));
    Ok(lines.join("\n"))
}

//! What doors hand in and get back about the vault: never a value.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::ToSchema;

use skep_core::Millis;
use skep_core::ids::AgentName;
use skep_core::inbound::{DoorError, ErrorKind};
use skep_scrub::Secret;

/// The vault without its values.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct VaultInfo {
    /// The file of its keys; absent where there is no place for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<String>,
    /// The id of the key that seals; absent where there is none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Why no key can be used, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Profiles whose key stands in a file in plain text; `skep vault move` moves it here.
    pub in_files: Vec<String>,
    /// By agent and name; those of the hive first.
    pub entries: Vec<VaultEntry>,
}

/// An entry without its value.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct VaultEntry {
    pub name: String,
    /// Absent: every agent and profile of the hive may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Set by a person: agents use it and never see it. Otherwise the agent set it itself.
    pub secret: bool,
    /// Where `web_fetch` may send it; nowhere when empty.
    pub hosts: Vec<String>,
    /// The id of the key that it is sealed with.
    pub key: String,
    pub set_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_at: Option<Millis>,
    /// The profiles that name it.
    pub profiles: Vec<String>,
    /// Why it cannot be used, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// An entry as a person sets it. No `Debug`: it holds a value.
pub struct VaultWish {
    pub name: String,
    /// Nobody: the hive.
    pub agent: Option<AgentName>,
    /// Nothing: the value that is there stays.
    pub value: Option<Secret>,
    /// Nothing: the hosts that are there stay; none for a new entry.
    pub hosts: Option<Vec<String>>,
    /// Only where there is no such entry yet.
    pub is_new: bool,
}

/// What a rotation did.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct VaultRotation {
    /// The id of the key that seals from now on.
    pub key: String,
    /// How many entries were sealed with it.
    pub entries: usize,
    pub key_file: String,
}

/// What was found in files and rows of the home.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SecretScan {
    /// How many files were read.
    pub files: usize,
    pub found: Vec<LooseSecret>,
    /// What was not read, and why.
    pub skipped: Vec<String>,
}

/// A secret in the clear, without its value.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LooseSecret {
    /// The file from the home on, or the database.
    pub file: String,
    /// The line in a file, or the table, row and column.
    pub place: String,
    /// Which secret, or which format.
    pub secret: String,
    /// Who can make it void.
    pub rotate: String,
}

impl LooseSecret {
    pub fn new(file: String, place: String, secret: String) -> Self {
        let kind = secret.strip_prefix("format.");
        let rotate = match kind.and_then(|kind| skep_scrub::issuers().get(kind).copied()) {
            Some(issuer) => issuer.to_owned(),
            None => match secret.strip_prefix("vault.") {
                Some(entry) => format!("whoever gave it; then skep vault set {entry}"),
                None => "whoever gave it; then put the new one in its place".to_owned(),
            },
        };
        Self { file, place, secret, rotate }
    }

    /// Those in a text of the database, which stands in a table, a row and a column.
    pub fn in_row((table, row, column): (&str, &str, &str), text: &str) -> Vec<Self> {
        let known = skep_scrub::known();
        let found = known.names(text).into_iter().map(|(_, secret)| {
            let place = format!("{table} {} {column}", known.clean(row));
            Self::new("run/skep.db".to_owned(), place, secret)
        });
        found.collect()
    }
}

/// What is given back as it came cannot be replaced, so it is no secret of the hive.
pub fn check_no_secret(what: &str, text: &str) -> Result<(), DoorError> {
    if matches!(skep_scrub::known().clean(text), Cow::Owned(_)) {
        let text = format!("{what} holds a secret, or what looks like one; use another.");
        return Err(DoorError::new(ErrorKind::Invalid, "secret", text));
    }
    Ok(())
}

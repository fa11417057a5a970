//! Why the vault cannot do something. No text holds a value or a key.

use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    #[error("the vault has no place for its key: set HOME, or name a file in SKEP_VAULT_KEY_FILE")]
    NoPlace,
    #[error("the key file of the vault is missing: put {} back, with its lines `ID BASE64`",
            .path.display())]
    NoKeyFile { path: PathBuf },
    #[error("the key file of the vault cannot be used: {}: {why}", .path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("others can read the key file of the vault: chmod 600 {} (mode {mode:o})",
            .path.display())]
    Exposed { path: PathBuf, mode: u32 },
    #[error("the key file of the vault lies inside the home, where each copy takes it along: move \
             {} elsewhere and name it in SKEP_VAULT_KEY_FILE", .path.display())]
    Inside { path: PathBuf },
    #[error("the key file of the vault no longer holds the key in use, and a restart would lock \
             its entries: put the lines of {} back", .path.display())]
    Changed { path: PathBuf },
    #[error("the key file of the vault opens none of its entries, so it may be another vault's: \
             name the right one, or set each entry that is there again (or remove it) before you \
             add one: {}", .path.display())]
    Foreign { path: PathBuf },
    #[error("the key file of the vault holds no key: put the lines of {} back", .path.display())]
    Empty { path: PathBuf },
    #[error("the key file of the vault has a line that is no key: line {line} of {} should be an \
             id of its own, a blank and 32 bytes in base64", .path.display())]
    Malformed { path: PathBuf, line: usize },
    #[error("the keys of the vault come from the service manager: add a line `ID BASE64` (32 \
             random bytes) at the end of the credential of {} and restart: the start seals every \
             entry with it", .path.display())]
    ReadOnly { path: PathBuf },
    #[error(
        "the vault entry {name} is sealed with the key {key_id}, which the key file does not \
             hold: put that line back, or set the entry again"
    )]
    NoSuchKey { name: String, key_id: String },
    #[error(
        "the vault entry {name} does not open with the key {key_id}: the key or the entry was \
             changed; put the right key back, or set the entry again"
    )]
    Sealed { name: String, key_id: String },
    #[error("there is no vault entry {name}: set it with `skep vault set {name}`")]
    Unknown { name: String },
    #[error("there is a vault entry {name} already: replace its value, or choose another name")]
    Exists { name: String },
    #[error("the vault entry {name} was set by a person: only people change it")]
    OfPeople { name: String },
    #[error("{0}")]
    Invalid(String),
    #[error("the vault entry was not kept: {0}")]
    NotKept(String),
}

impl VaultError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "vault_unknown",
            Self::Exists { .. } => "vault_exists",
            Self::OfPeople { .. } => "vault_refused",
            Self::Invalid(_) => "vault_invalid",
            Self::NotKept(_) => "vault_not_kept",
            Self::ReadOnly { .. } => "vault_read_only",
            _ => "vault_locked",
        }
    }
}

impl From<String> for VaultError {
    fn from(why: String) -> Self {
        Self::Invalid(why)
    }
}

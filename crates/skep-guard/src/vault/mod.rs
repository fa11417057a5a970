//! The vault: values that agents and profiles use and that nobody is shown.
//!
//! Values are sealed where they are kept and open in memory, where the scrubber needs them too.
//! Whoever keeps the rows hands them in with [`Vault::restore`] and is told of every change before
//! it counts. A key that is missing or wrong locks the entries that need it and nothing else.

mod check;
mod cipher;
mod error;
mod keys;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use secrecy::{ExposeSecret, SecretString};
use skep_core::policy::network::HostEntry;
use skep_core::policy::vault::{self, HIVE, VaultRow, VaultWrite};
use skep_core::{BoxFuture, Millis};

use check::is_random;
use check::{MOST_SECRETS, check_name, check_room, check_value};
pub use check::{check_credential, is_hidden, is_like_key};
pub use error::VaultError;
pub use keys::{CREDENTIAL, KEY_VARIABLE, KeyPlace, VaultKeys};

pub use skep_scrub::Owner;
use skep_scrub::Secret;

/// Uses within this time are one row that changes.
const USE_PAUSE: Millis = 60_000;
/// Rows that are sealed anew in one commit.
const RESEALED: usize = 64;
/// Entries that an agent may set itself.
const OWN_ENTRIES: usize = 64;

/// Keeps a change; the second is who made it. It counts once this is done.
pub type KeepVault =
    Arc<dyn Fn(VaultWrite, Option<String>) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

pub struct Vault {
    home: PathBuf,
    place: Option<KeyPlace>,
    /// Read by every use; written where something changes, never across anything that waits.
    state: RwLock<VaultState>,
    /// Held over a whole change: of two changes the second sees the first.
    changing: tokio::sync::Mutex<()>,
    keep: OnceLock<KeepVault>,
}

struct VaultState {
    keys: Result<VaultKeys, VaultError>,
    entries: BTreeMap<(i64, String), HeldEntry>,
}

struct HeldEntry {
    row: VaultRow,
    /// Absent where it cannot be opened.
    value: Option<SecretString>,
}

/// An entry to be set.
pub struct NewVaultEntry {
    pub owner: i64,
    pub name: String,
    /// Absent: the value that is there stays.
    pub value: Option<SecretString>,
    /// See [`VaultRow::secret`].
    pub secret: bool,
    /// Who gave the value.
    pub given_by: Owner,
    pub hosts: Vec<HostEntry>,
}

/// What becomes of an entry that has the name already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Former {
    Replaced,
    Stays,
}

/// What is told of an entry: never its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultEntryInfo {
    pub row: VaultRow,
    /// Why it cannot be used.
    pub locked: Option<VaultError>,
}

/// A text with its entries filled in.
pub struct FilledText {
    pub text: SecretString,
    /// For each secret entry in it where it may go.
    pub hosts: Vec<Vec<HostEntry>>,
}

impl Vault {
    /// Finds the keys. Without them the vault is there, and what is in it is locked.
    pub fn open(home: &Path, variables: &dyn Fn(&str) -> Option<String>) -> Self {
        let place = KeyPlace::find(variables);
        let keys = read_keys(place.as_ref(), home);
        Self {
            home: home.to_path_buf(),
            place,
            state: RwLock::new(VaultState { keys, entries: BTreeMap::new() }),
            changing: tokio::sync::Mutex::default(),
            keep: OnceLock::new(),
        }
    }

    /// Takes the rows as they are kept, and who keeps them. Values are redacted from here on.
    pub fn restore(&self, rows: Vec<VaultRow>, keep: KeepVault) {
        let _ = self.keep.set(keep);
        let mut state = self.write();
        let held = |row: VaultRow| {
            let value = state.open(&row).ok();
            ((row.owner, row.name.clone()), HeldEntry { row, value })
        };
        let entries: BTreeMap<_, _> = rows.into_iter().map(held).collect();
        let secrets: Vec<Secret> = entries.values().filter_map(hidden).collect();
        state.entries = entries;
        drop(state);
        skep_scrub::known().add(secrets);
    }

    /// Looks for the keys again where an entry is locked; whether one is open now that was not.
    pub fn unlock(&self) -> bool {
        if self.read().entries.values().all(|entry| entry.value.is_some()) {
            return false;
        }
        let keys = read_keys(self.place.as_ref(), &self.home);
        let mut state = self.write();
        state.keys = keys;
        let locked = state.entries.iter().filter(|(_, entry)| entry.value.is_none());
        let opened: Vec<_> =
            locked.filter_map(|(key, it)| Some((key.clone(), state.open(&it.row).ok()?))).collect();
        let mut secrets = Vec::new();
        for (key, value) in &opened {
            if let Some(entry) = state.entries.get_mut(key) {
                entry.value = Some(value.clone());
                secrets.extend(hidden(entry));
            }
        }
        drop(state);
        skep_scrub::known().add(secrets);
        !opened.is_empty()
    }

    /// Every entry, by owner and name.
    pub fn list(&self) -> Vec<VaultEntryInfo> {
        let state = self.read();
        let told = |entry: &HeldEntry| {
            let locked = entry.value.is_none().then(|| state.open(&entry.row).err()).flatten();
            VaultEntryInfo { row: entry.row.clone(), locked }
        };
        state.entries.values().map(told).collect()
    }

    /// Where the keys are and which one seals, or why there is none.
    pub fn key(&self) -> (Option<PathBuf>, Result<String, VaultError>) {
        let path = self.place.as_ref().map(|place| place.path.clone());
        let state = self.read();
        let newest = state.keys.as_ref().map(|keys| keys.newest().map_or("", |(id, _)| id));
        (path, newest.map(str::to_owned).map_err(Clone::clone))
    }

    /// The value of an entry of this owner, or of the hive.
    pub fn value(&self, owner: i64, name: &str) -> Result<(SecretString, VaultRow), VaultError> {
        let state = self.read();
        let entry = state.find(owner, name)?;
        let value = entry.value.clone().map_or_else(|| state.open(&entry.row), Ok)?;
        Ok((value, entry.row.clone()))
    }

    /// The text with every `{{vault:NAME}}` in it filled in, to be sent and never to be shown.
    pub fn fill(&self, owner: i64, text: &str) -> Result<FilledText, VaultError> {
        let mut hosts = Vec::new();
        let filled = vault::fill(text, |name| {
            let (value, row) = self.value(owner, name)?;
            if row.secret {
                hosts.push(row.hosts);
            }
            Ok::<_, VaultError>(value.expose_secret().to_owned())
        });
        Ok(FilledText { text: SecretString::from(filled?), hosts })
    }

    /// Notes that the entries in a text are used now.
    pub async fn note_use(&self, owner: i64, text: &str, now: Millis) {
        for name in vault::names(text).unwrap_or_default() {
            let found = self.read().find(owner, name).map(|it| (it.row.owner, it.row.used_at));
            let Ok((owner, used_at)) = found else { continue };
            if used_at.is_some_and(|at| now.saturating_sub(at) < USE_PAUSE) {
                continue;
            }
            if let Some(entry) = self.write().entries.get_mut(&(owner, name.to_owned())) {
                entry.row.used_at = Some(now);
            }
            let used = VaultWrite::Used { owner, name: name.to_owned(), at: now };
            if let Err(error) = self.keep(used, None).await {
                tracing::warn!(%error, "the use of a vault entry is not on record");
            }
        }
    }

    /// Sets an entry. The value is hidden from the moment it arrives, also where it is refused.
    pub async fn set(
        &self,
        new: NewVaultEntry,
        by: Option<String>,
        now: Millis,
    ) -> Result<VaultRow, VaultError> {
        self.put(new, Former::Replaced, by, now).await
    }

    /// As [`Self::set`], where there is no such entry yet.
    pub async fn add(
        &self,
        new: NewVaultEntry,
        by: Option<String>,
        now: Millis,
    ) -> Result<VaultRow, VaultError> {
        self.put(new, Former::Stays, by, now).await
    }

    async fn put(
        &self,
        new: NewVaultEntry,
        former: Former,
        by: Option<String>,
        now: Millis,
    ) -> Result<VaultRow, VaultError> {
        let NewVaultEntry { owner, name, value, secret, given_by, hosts } = new;
        check_name(&name)?;
        if let Some(value) = &value {
            match (secret, given_by) {
                (true, Owner::Agent) => check_credential(&name, value.expose_secret())?,
                _ => check_value(&name, value.expose_secret(), secret)?,
            }
            hide(&name, value, given_by).await;
        }
        let _changing = self.changing.lock().await;
        let before = self.read().entries.get(&(owner, name.clone())).map(|it| it.row.clone());
        if before.is_some() && former == Former::Stays {
            return Err(VaultError::Exists { name });
        }
        if given_by == Owner::Agent {
            self.check_own(owner, &name, before.as_ref())?;
        }
        let value = match (value, &before) {
            (Some(value), _) => value,
            (None, Some(_)) => self.value(owner, &name)?.0,
            (None, None) => return Err(VaultError::Unknown { name }),
        };
        self.with_key()?;
        if before.is_none() {
            self.check_ours()?;
        }
        let (key_id, sealed) = self.read().seal(owner, &name, &value)?;
        let used_at = before.and_then(|row| row.used_at);
        let row = VaultRow { owner, name, key_id, sealed, secret, hosts, set_at: now, used_at };
        self.keep(VaultWrite::Put(row.clone()), by).await?;
        let held = HeldEntry { row: row.clone(), value: Some(value) };
        self.write().entries.insert((owner, row.name.clone()), held);
        Ok(row)
    }

    /// What an agent may not set.
    fn check_own(
        &self,
        owner: i64,
        name: &str,
        before: Option<&VaultRow>,
    ) -> Result<(), VaultError> {
        match before {
            Some(row) if row.secret => return Err(VaultError::OfPeople { name: name.to_owned() }),
            Some(_) => {}
            None => {
                let own = self.read().entries.keys().filter(|key| key.0 == owner).count();
                if own >= OWN_ENTRIES {
                    let why = format!("an agent has at most {OWN_ENTRIES} entries; delete one");
                    return Err(VaultError::Invalid(why));
                }
            }
        }
        check_room()
    }

    /// Removes an entry; `people`: those of people too.
    pub async fn remove(
        &self,
        owner: i64,
        name: &str,
        people: bool,
        by: Option<String>,
    ) -> Result<(), VaultError> {
        let _changing = self.changing.lock().await;
        let key = (owner, name.to_owned());
        match self.read().entries.get(&key) {
            None => return Err(VaultError::Unknown { name: key.1 }),
            Some(entry) if entry.row.secret && !people => {
                return Err(VaultError::OfPeople { name: key.1 });
            }
            Some(_) => {}
        }
        self.keep(VaultWrite::Remove { owner, name: key.1.clone() }, by).await?;
        let gone = self.write().entries.remove(&key);
        self.forget(gone.into_iter().collect()).await;
        Ok(())
    }

    /// Removes everything of an owner that is gone.
    pub async fn remove_owner(&self, owner: i64) -> Result<(), VaultError> {
        let _changing = self.changing.lock().await;
        if !self.read().entries.keys().any(|key| key.0 == owner) {
            return Ok(());
        }
        self.keep(VaultWrite::RemoveOwner(owner), None).await?;
        let gone = {
            let mut state = self.write();
            let (gone, left) = std::mem::take(&mut state.entries)
                .into_iter()
                .partition::<BTreeMap<_, _>, _>(|(key, _)| key.0 == owner);
            state.entries = left;
            gone
        };
        self.forget(gone.into_values().collect()).await;
        Ok(())
    }

    /// The values of removed entries are ordinary text again, but for those that others have.
    async fn forget(&self, gone: Vec<HeldEntry>) {
        let mut gone: Vec<Secret> = gone.iter().filter_map(hidden).collect();
        let others: Vec<Secret> = self.read().entries.values().filter_map(hidden).collect();
        gone.retain(|secret| !others.iter().any(|other| other.is_same(secret)));
        let forget = move || skep_scrub::known().forget(&gone);
        let _ = tokio::task::spawn_blocking(forget).await;
    }

    /// Makes a key and seals every entry with it; the id of the key and how many entries. The old
    /// key stays in the file, so that an end at any moment locks nothing: what is not sealed anew
    /// by then is by the next rotation, or by [`Self::finish_rotation`].
    pub async fn rotate(&self, by: Option<String>) -> Result<(String, usize), VaultError> {
        let _changing = self.changing.lock().await;
        let place = self.place.as_ref().ok_or(VaultError::NoPlace)?;
        let known = self.read().keys.as_ref().ok().and_then(newest);
        match read_keys(Some(place), &self.home) {
            Ok(keys) => {
                self.check_file()?;
                let found = newest(&keys);
                self.write().keys = Ok(keys);
                self.check_ours()?;
                // Somebody added a key: this is the one to go over to.
                if known.is_none() || found == known {
                    self.write().keys = Ok(place.add()?);
                }
            }
            Err(VaultError::NoKeyFile { .. }) if self.read().entries.is_empty() => {
                self.write().keys = Ok(place.add()?);
            }
            Err(error) => return Err(error),
        }
        self.reseal(by).await
    }

    /// Goes on where a rotation was cut off.
    pub async fn finish_rotation(&self) -> Result<usize, VaultError> {
        let _changing = self.changing.lock().await;
        if self.read().keys.is_err() {
            return Ok(0);
        }
        self.reseal(None).await.map(|(_, many)| many)
    }

    async fn reseal(&self, by: Option<String>) -> Result<(String, usize), VaultError> {
        let mut resealed = Vec::new();
        let key_id = {
            let state = self.read();
            let newest = state.keys.as_ref().map_err(Clone::clone)?.newest();
            let key_id = newest.map(|(id, _)| id.to_owned()).unwrap_or_default();
            for entry in state.entries.values().filter(|entry| entry.row.key_id != key_id) {
                let opened = || state.open(&entry.row).ok();
                let Some(value) = entry.value.clone().or_else(opened) else { continue };
                let (key_id, sealed) = state.seal(entry.row.owner, &entry.row.name, &value)?;
                resealed.push(VaultRow { key_id, sealed, ..entry.row.clone() });
            }
            key_id
        };
        let many = resealed.len();
        for rows in resealed.chunks(RESEALED) {
            self.keep(VaultWrite::Reseal(rows.to_vec()), by.clone()).await?;
            let mut state = self.write();
            for row in rows {
                if let Some(entry) = state.entries.get_mut(&(row.owner, row.name.clone())) {
                    entry.row.key_id.clone_from(&row.key_id);
                    entry.row.sealed.clone_from(&row.sealed);
                }
            }
        }
        Ok((key_id, many))
    }

    /// Whether the file still holds the key in use: without it the next start opens nothing.
    pub fn check_file(&self) -> Result<(), VaultError> {
        let state = self.read();
        let (Some(place), Ok(keys)) = (&self.place, &state.keys) else { return Ok(()) };
        let Some((id, key)) = keys.newest() else { return Ok(()) };
        match read_keys(Some(place), &self.home)?.find(id) == Some(key) {
            true => Ok(()),
            false => Err(VaultError::Changed { path: place.path.clone() }),
        }
    }

    /// Whether a new entry would be sealed as those that are there: not by a key that opens none.
    fn check_ours(&self) -> Result<(), VaultError> {
        let state = self.read();
        let mut entries = state.entries.values().peekable();
        let is_open = |entry: &HeldEntry| entry.value.is_some() || state.open(&entry.row).is_ok();
        match &self.place {
            Some(place) if entries.peek().is_some() && !entries.any(is_open) => {
                Err(VaultError::Foreign { path: place.path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// A key to seal with; the first entry makes one.
    fn with_key(&self) -> Result<(), VaultError> {
        let error = self.read().keys.as_ref().err().cloned();
        let Some(error) = error else { return self.check_file() };
        let place = self.place.as_ref().ok_or(VaultError::NoPlace)?;
        let fresh = matches!(error, VaultError::NoKeyFile { .. }) && self.read().entries.is_empty();
        let keys = match read_keys(Some(place), &self.home) {
            Err(VaultError::NoKeyFile { .. }) if fresh && place.may_be_made() => place.add()?,
            found => found?,
        };
        self.write().keys = Ok(keys);
        Ok(())
    }

    async fn keep(&self, change: VaultWrite, by: Option<String>) -> Result<(), VaultError> {
        let keep = self.keep.get().ok_or_else(|| VaultError::NotKept("it is not open".into()))?;
        keep(change, by).await.map_err(VaultError::NotKept)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, VaultState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, VaultState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VaultState {
    fn find(&self, owner: i64, name: &str) -> Result<&HeldEntry, VaultError> {
        let of = |owner: i64| self.entries.get(&(owner, name.to_owned()));
        of(owner).or_else(|| of(HIVE)).ok_or_else(|| VaultError::Unknown { name: name.to_owned() })
    }

    fn open(&self, row: &VaultRow) -> Result<SecretString, VaultError> {
        let keys = self.keys.as_ref().map_err(Clone::clone)?;
        let (name, key_id) = (row.name.clone(), row.key_id.clone());
        let Some(key) = keys.find(&row.key_id) else {
            return Err(VaultError::NoSuchKey { name, key_id });
        };
        let opened = cipher::open(key, row.owner, &row.name, &row.sealed);
        opened.ok_or(VaultError::Sealed { name, key_id })
    }

    fn seal(
        &self,
        owner: i64,
        name: &str,
        value: &SecretString,
    ) -> Result<(String, Vec<u8>), VaultError> {
        let keys = self.keys.as_ref().map_err(Clone::clone)?;
        let newest = keys.newest().and_then(|(id, key)| {
            Some((id.to_owned(), cipher::seal(key, owner, name, value.expose_secret())?))
        });
        newest.ok_or_else(|| VaultError::Invalid("the value cannot be sealed".to_owned()))
    }
}

fn newest(keys: &VaultKeys) -> Option<String> {
    keys.newest().map(|(id, _)| id.to_owned())
}

fn read_keys(place: Option<&KeyPlace>, home: &Path) -> Result<VaultKeys, VaultError> {
    VaultKeys::read(place.ok_or(VaultError::NoPlace)?, home)
}

/// The name that stands in the place of a value.
pub fn marked_as(name: &str) -> String {
    format!("vault.{name}")
}

/// Hides a value that an agent gave, where that is hidden and there is room.
pub fn hide_own(name: &str, value: &str) {
    if is_hidden(value, false) && skep_scrub::known().count(Owner::Agent) < MOST_SECRETS {
        skep_scrub::known().add([Secret::of_agent(name, value)]);
    }
}

async fn hide(name: &str, value: &SecretString, given_by: Owner) {
    let (name, value) = (marked_as(name), value.clone());
    let work = move || match given_by {
        Owner::People => drop(skep_scrub::known().add([Secret::new(name, value)])),
        Owner::Agent => hide_own(&name, value.expose_secret()),
    };
    let _ = tokio::task::spawn_blocking(work).await;
}

fn hidden(entry: &HeldEntry) -> Option<Secret> {
    let value = entry.value.clone()?;
    let hidden = is_hidden(value.expose_secret(), entry.row.secret);
    let name = marked_as(&entry.row.name);
    let owner = given_by(&entry.row, value.expose_secret());
    hidden.then_some(Secret { name, value, owner })
}

/// Who gave a value, as far as its row tells: what an agent gave to another one is a key, and has
/// no hosts before a person takes it over by setting them.
fn given_by(row: &VaultRow, value: &str) -> Owner {
    let of_agent = row.owner != HIVE && row.hosts.is_empty() && is_random(value);
    match row.secret && !of_agent {
        true => Owner::People,
        false => Owner::Agent,
    }
}

/// Never a value, and not how many there are.
impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault")
    }
}

#[cfg(test)]
mod vault_tests;

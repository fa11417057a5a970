//! Entries of the vault that people set, remove and seal anew. Values come in and never go out.

use skep_core::ids::{AgentId, AgentName, Principal};
use skep_core::policy::network::HostEntry;
use skep_core::policy::vault::HIVE;
use skep_guard::clock;
use skep_guard::vault::{NewVaultEntry, Owner, VaultError};
use skep_store::StoredText;

use crate::door::{
    DoorError, ErrorKind, FileWriters, LooseSecret, SecretScan, VaultEntry, VaultInfo,
    VaultRotation, VaultWish, check_no_secret,
};
use crate::hive::{Hive, door_error};

/// How an agent is named that is not there any more, before its id.
const GONE: &str = "id:";
/// How profiles say that their key stands in a file.
const IN_FILES: [&str; 2] = ["keys.env", "written out in providers.yaml"];

impl Hive {
    /// What is in the vault. Looks for keys that were missing.
    pub async fn vault(&self) -> VaultInfo {
        let vault = &self.shared.vault;
        if vault.unlock() {
            self.refresh().await;
        }
        let (path, key) = vault.key();
        let snapshot = self.shared.snapshot();
        let agent = |owner: i64| {
            let found = snapshot.ids.iter().find(|(_, id)| id.0 == owner);
            let gone = || AgentName(format!("{GONE}{owner}"));
            (owner != HIVE).then(|| found.map_or_else(gone, |(name, _)| name.clone()))
        };
        let profiles = |name: &str| {
            let named = format!("vault entry {name}");
            let named = |key: &str| key == named || key.starts_with(&format!("{named};"));
            let reached = snapshot.settings.reached.iter();
            reached.filter(|(_, it)| named(&it.key)).map(|(profile, _)| profile.clone()).collect()
        };
        let entries = vault.list().into_iter().map(|info| {
            let problem = info.locked.map(|error| error.to_string());
            let row = info.row;
            VaultEntry {
                agent: agent(row.owner),
                secret: row.secret,
                hosts: row.hosts.iter().map(ToString::to_string).collect(),
                key: row.key_id,
                set_at: row.set_at,
                used_at: row.used_at,
                profiles: if row.owner == HIVE { profiles(&row.name) } else { Vec::new() },
                problem,
                name: row.name,
            }
        });
        let entries: Vec<VaultEntry> = entries.collect();
        // Without a first entry there is no key, and none is missed.
        let missed = |error: &VaultError| {
            !entries.is_empty() || !matches!(error, VaultError::NoKeyFile { .. })
        };
        let (lost, said) = (vault.check_file().err(), |error: &VaultError| error.to_string());
        let in_files = snapshot.settings.reached.iter();
        let in_files = in_files.filter(|(_, it)| IN_FILES.contains(&it.key.as_str()));
        VaultInfo {
            key_file: path.map(|path| path.display().to_string()),
            problem: key.as_ref().err().or(lost.as_ref()).filter(|it| missed(it)).map(said),
            key: key.ok(),
            in_files: in_files.map(|(name, _)| name.clone()).collect(),
            entries,
        }
    }

    /// Sets an entry; profiles that name it use it when this returns.
    pub async fn set_vault_entry(&self, wish: VaultWish, by: &Principal) -> Result<(), DoorError> {
        let VaultWish { name, agent, value, hosts, is_new } = wish;
        check_no_secret("The name of the entry", &name)?;
        let owner = self.vault_owner(agent.as_ref()).await?;
        let vault = &self.shared.vault;
        let before = vault.list().into_iter().map(|it| it.row);
        let before = before.filter(|row| row.owner == owner).find(|row| row.name == name);
        let hosts = match hosts {
            None => before.map(|row| row.hosts).unwrap_or_default(),
            Some(hosts) => {
                // A refusal repeats the beginning of what was taken for a host.
                let hosts =
                    hosts.iter().map(|host| HostEntry::parse(&skep_scrub::known().clean(host)));
                hosts.collect::<Result<_, _>>().map_err(|error| {
                    DoorError::new(ErrorKind::Invalid, "invalid_host", error.to_string())
                })?
            }
        };
        let value = value.map(|secret| secret.value);
        let given_by = Owner::People;
        let entry = NewVaultEntry { owner, name, value, secret: true, given_by, hosts };
        let by = Some(by.to_string());
        let now = clock::now_ms();
        let set = match is_new {
            true => vault.add(entry, by, now).await,
            false => vault.set(entry, by, now).await,
        };
        set.map_err(vault_error)?;
        self.refresh_for(owner).await;
        Ok(())
    }

    pub async fn remove_vault_entry(
        &self,
        agent: Option<&AgentName>,
        name: &str,
        by: &Principal,
    ) -> Result<(), DoorError> {
        let owner = self.vault_owner(agent).await?;
        let removed = self.shared.vault.remove(owner, name, true, Some(by.to_string()));
        removed.await.map_err(vault_error)?;
        self.refresh_for(owner).await;
        Ok(())
    }

    /// A new key, and every entry sealed with it.
    pub async fn rotate_vault(&self, by: &Principal) -> Result<VaultRotation, DoorError> {
        let rotated = self.shared.vault.rotate(Some(by.to_string())).await;
        let (key, entries) = rotated.map_err(vault_error)?;
        let path = self.shared.vault.key().0.unwrap_or_default();
        Ok(VaultRotation { key, entries, key_file: path.display().to_string() })
    }

    /// Moves `keys.env` and secrets written out in `providers.yaml` into the vault; the names of
    /// the entries.
    pub async fn move_secrets(&self, by: &Principal) -> Result<Vec<String>, DoorError> {
        let FileWriters { move_secrets, .. } = self.writers()?;
        let moved = move_secrets(by.to_string()).await;
        moved.map_err(|why| DoorError::new(ErrorKind::Conflict, "not_moved", why))
    }

    /// Where files and rows of the home hold a secret in the clear.
    pub async fn scan_secrets(&self) -> Result<SecretScan, DoorError> {
        let FileWriters { scan, .. } = self.writers()?;
        let mut scan = scan().await;
        let in_row = |stored: &StoredText<'_>| {
            LooseSecret::in_row((stored.table, stored.row, stored.column), stored.text)
        };
        let rows = self.shared.store.each_text(in_row).await;
        scan.found.extend(rows.map_err(door_error)?);
        Ok(scan)
    }

    async fn vault_owner(&self, agent: Option<&AgentName>) -> Result<i64, DoorError> {
        match agent {
            None => Ok(HIVE),
            Some(agent) if agent.0.starts_with(GONE) => agent.0[GONE.len()..]
                .parse()
                .map_err(|_| vault_error(VaultError::Unknown { name: agent.to_string() })),
            Some(agent) => {
                let found = self.shared.read_agent(agent, &crate::door::Sight::All).await?;
                let (AgentId(id), _) = found;
                Ok(id)
            }
        }
    }

    /// Profiles have entries of the hive alone.
    async fn refresh_for(&self, owner: i64) {
        if owner == HIVE {
            self.refresh().await;
        }
    }

    /// Profiles get what the vault holds by now.
    async fn refresh(&self) {
        let Ok(FileWriters { refresh, .. }) = self.writers() else { return };
        if let Err(error) = refresh().await {
            tracing::warn!(error, "profiles keep the keys they had");
        }
    }
}

fn vault_error(error: VaultError) -> DoorError {
    let kind = match &error {
        VaultError::Unknown { .. } => ErrorKind::NotFound,
        VaultError::Invalid(_) => ErrorKind::Invalid,
        VaultError::NotKept(_) => ErrorKind::Busy,
        _ => ErrorKind::Conflict,
    };
    DoorError::new(kind, error.code(), error.to_string())
}

//! A model profile given by a person: tried first, then saved and in force; or removed.

use serde_json::{Value, json};

use skep_core::audit::AuditRow;
use skep_core::ids::Principal;
use skep_guard::clock;
use skep_scrub::Secret;
use skep_store::audit::AddAudit;

use crate::door::{DoorError, ErrorKind, FileWriters, ProfileDraft, ProviderTry, check_no_secret};
use crate::hive::{Hive, door_error};

impl Hive {
    /// Saves a profile whose model answers. Of one that does not, nothing is kept.
    pub async fn set_profile(
        &self,
        draft: ProfileDraft,
        by: &Principal,
    ) -> Result<ProviderTry, DoorError> {
        let FileWriters { profile: prepare, .. } = self.writers()?;
        let key = draft.key.as_ref();
        let ProfileDraft { name, provider, model, api_url, .. } = &draft;
        let had = self.providers().iter().any(|it| it.name == *name && it.key != "none");
        let which = match (key.is_some(), had) {
            (true, true) => "replaced",
            (true, false) => "given",
            (false, true) => "kept",
            (false, false) => "none",
        };
        let mut what = json!({"profile": name, "provider": provider, "model": model,
            "api_url": api_url, "key": which});
        let most = ProfileDraft::KEY_BYTES;
        let invalid = |why| DoorError::new(ErrorKind::Invalid, "invalid_profile", why);
        if key.is_some_and(|key| key.bytes() > most) {
            return Err(invalid(format!("The key has at most {most} characters.")));
        }
        // Before anything can repeat it.
        let secret = key.map(|Secret { name, value, .. }| Secret::new(name.clone(), value.clone()));
        let add = tokio::task::spawn_blocking(|| skep_scrub::known().add(secret));
        add.await.map_err(|_| DoorError::failed())?;
        let checked = [name, model].into_iter().chain(api_url).try_for_each(|text| {
            check_no_secret("The name, the model or the address of the profile", text)
        });
        let drafted = prepare(draft).await.map_err(invalid)?;
        checked?;
        let tried = self.try_profile(&drafted.profile, &*drafted.provider).await;
        if let Some(failure) = tried.error {
            let end = if failure.error.ends_with(['.', '?', '!']) { "" } else { "." };
            let text = format!("{}{end} Not saved.", failure.error);
            return Err(DoorError::new(ErrorKind::Conflict, "profile_test_failed", text));
        }
        drafted.save.await.map_err(not_saved)?;
        skep_scrub::known().clean_json(&mut what);
        self.note_change("profile_written", &what, by).await?;
        Ok(tried)
    }

    /// Removes a profile that nobody uses, and its key where no other profile uses that.
    pub async fn remove_profile(&self, name: &str, by: &Principal) -> Result<(), DoorError> {
        let FileWriters { no_profile: remove, .. } = self.writers()?;
        let profiles = self.providers();
        let Some(found) = profiles.iter().find(|profile| profile.name == name) else {
            let text = format!("There is no profile `{name}`.");
            return Err(DoorError::new(ErrorKind::NotFound, "unknown_profile", text));
        };
        let agents = found.agents.iter().map(ToString::to_string);
        let behind = profiles.iter().filter(|it| it.fallback.iter().any(|other| other == name));
        let users: Vec<String> =
            agents.chain(behind.map(|it| format!("profile {}", it.name))).collect();
        if !users.is_empty() {
            let users = users.join(", ");
            let text = format!("The profile is used by {users}: give them another one first.");
            return Err(DoorError::new(ErrorKind::Conflict, "profile_in_use", text));
        }
        remove(name.to_owned()).await.map_err(not_saved)?;
        self.note_change("profile_removed", &json!({"profile": name}), by).await
    }

    pub(crate) fn writers(&self) -> Result<&FileWriters, DoorError> {
        let text = "This hive cannot change its files; change them by hand.";
        self.shared.facts.writers.get().ok_or_else(|| not_saved(text.to_owned()))
    }

    pub(crate) async fn note_change(
        &self,
        what: &str,
        of: &Value,
        by: &Principal,
    ) -> Result<(), DoorError> {
        let row = AuditRow::change(what, Some(by.as_str()), of, clock::now_ms());
        self.shared.store.write(AddAudit { row }).await.map_err(door_error)?;
        Ok(())
    }
}

fn not_saved(why: String) -> DoorError {
    DoorError::new(ErrorKind::Conflict, "profile_not_saved", why)
}

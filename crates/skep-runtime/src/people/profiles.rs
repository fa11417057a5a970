//! A model profile given by a person: tried first, then saved and in force.

use serde_json::json;

use skep_core::audit::AuditRow;
use skep_core::ids::Principal;
use skep_guard::clock;
use skep_guard::scrub::{self, Secret};
use skep_store::audit::AddAudit;

use crate::door::{DoorError, ErrorKind, FileWriters, ProfileDraft, ProviderTry};
use crate::hive::{Hive, door_error};

impl Hive {
    /// Saves a profile whose model answers. Of one that does not, nothing is kept.
    pub async fn set_profile(
        &self,
        draft: ProfileDraft,
        by: &Principal,
    ) -> Result<ProviderTry, DoorError> {
        let Some(FileWriters { profile: prepare, .. }) = self.shared.facts.writers.get() else {
            let text = "This hive cannot change its files; write the profile by hand.";
            return Err(DoorError::new(ErrorKind::Conflict, "profile_not_saved", text));
        };
        let key = draft.key.as_ref();
        let ProfileDraft { name, provider, model, api_url, .. } = &draft;
        let which = if key.is_some() { "replaced" } else { "kept" };
        let mut what = json!({"profile": name, "provider": provider, "model": model,
            "api_url": api_url, "key": which});
        // Before anything can repeat it.
        let secret =
            key.map(|Secret { name, value }| Secret { name: name.clone(), value: value.clone() });
        scrub::known().add(secret);
        let invalid = |why| DoorError::new(ErrorKind::Invalid, "invalid_profile", why);
        let drafted = prepare(draft).await.map_err(invalid)?;
        let tried = self.try_profile(&drafted.profile, &*drafted.provider).await;
        if let Some(failure) = tried.error {
            let text = format!("{}. Not saved.", failure.error.trim_end_matches('.'));
            return Err(DoorError::new(ErrorKind::Conflict, "profile_test_failed", text));
        }
        let not_saved = |why| DoorError::new(ErrorKind::Conflict, "profile_not_saved", why);
        drafted.save.await.map_err(not_saved)?;
        scrub::known().clean_json(&mut what);
        let row = AuditRow::change("profile_written", Some(by.as_str()), &what, clock::now_ms());
        self.shared.store.write(AddAudit { row }).await.map_err(door_error)?;
        Ok(tried)
    }
}

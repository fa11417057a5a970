//! A profile that a person gave in the browser, ready to be tried and then saved; and its removal.

use std::sync::Arc;

use secrecy::ExposeSecret;
use skep_runtime::{DraftedProfile, PrepareProfile, ProfileDraft, RemoveProfile};

use crate::apply::Applier;
use crate::home::WrittenProfile;
use crate::vendors;

/// The function that the hive calls.
pub fn preparer(applier: Arc<Applier>) -> PrepareProfile {
    Arc::new(move |draft| {
        let applier = Arc::clone(&applier);
        Box::pin(async move {
            let ProfileDraft { name, provider, model, api_url, key } = draft;
            let wish = WrittenProfile { provider, model, api_url, api_key: None };
            let key = key.as_ref().map(|key| key.value.expose_secret());
            let change = applier.prepare_profile(&name, wish, key).await?;
            let connection = change.connection.filled(applier.vault())?;
            let provider = vendors::provider(&connection).map_err(|error| error.to_string())?;
            Ok(DraftedProfile {
                profile: Arc::clone(&change.profile),
                provider,
                save: Box::pin(async move { applier.apply_files(change.files).await }),
            })
        })
    })
}

pub fn remover(applier: Arc<Applier>) -> RemoveProfile {
    Arc::new(move |name| {
        let applier = Arc::clone(&applier);
        Box::pin(async move { applier.remove_profile(&name).await })
    })
}

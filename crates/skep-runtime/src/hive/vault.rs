//! The vault's rows: read at the start, and written before a change counts.

use std::sync::Arc;

use skep_guard::clock;
use skep_guard::vault::Vault;
use skep_store::vault::{self, ChangeVault};
use skep_store::{Store, StoreError};

/// Hands the vault its rows, and goes on with a rotation that was cut off.
pub(super) async fn restore(vault: &Vault, store: &Store) -> Result<(), StoreError> {
    let rows = store.read(vault::all).await?;
    let keeper = store.clone();
    vault.restore(
        rows,
        Arc::new(move |change, by| {
            let store = keeper.clone();
            Box::pin(async move {
                let write = store.write(ChangeVault { change, by, now: clock::now_ms() });
                write.await.map_err(|error| error.to_string())
            })
        }),
    );
    for entry in vault.list() {
        if let Some(error) = entry.locked {
            tracing::warn!("{error}");
        }
    }
    match vault.finish_rotation().await {
        Ok(0) => {}
        Ok(many) => tracing::info!(many, "vault entries are sealed with the newest key"),
        Err(error) => tracing::warn!(%error, "vault entries stay sealed with an older key"),
    }
    Ok(())
}

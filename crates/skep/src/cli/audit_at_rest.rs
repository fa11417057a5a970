//! `skep audit verify` without a running hive: reads the trail from the database file.

use serde_json::Value;
use skep_cli::hive::Home;
use skep_guard::lock;
use skep_store::{OpenOptions, Store};

/// Verifies the trail while a lock keeps a hive from starting.
pub async fn verify(home: &Home) -> Result<Value, String> {
    let _look = lock::Look::take(home.root(), &home.lock()).map_err(|error| error.to_string())?;
    let options = OpenOptions::in_run_folder(&home.run());
    let verdict = Store::verify_closed_audit(&options).await.map_err(|error| error.to_string())?;
    let verdict = verdict.ok_or("there is no database yet")?;
    serde_json::to_value(verdict).map_err(|error| error.to_string())
}

//! `skep audit verify` where no hive runs: the trail is read where it lies.

use serde_json::Value;
use skep_cli::hive::Home;
use skep_guard::lock;
use skep_store::{OpenOptions, Store};

/// The trail of a hive that does not run, and does not begin to meanwhile.
pub async fn verify(home: &Home) -> Result<Value, String> {
    let _look = lock::Look::take(home.root(), &home.lock()).map_err(|error| error.to_string())?;
    let options = OpenOptions::in_run_folder(&home.run());
    let verdict = Store::verify_closed_audit(&options).await.map_err(|error| error.to_string())?;
    let verdict = verdict.ok_or("there is no database yet")?;
    serde_json::to_value(verdict).map_err(|error| error.to_string())
}

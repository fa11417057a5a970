//! Whether writes go through.

use std::sync::atomic::{AtomicU8, Ordering};

use skep_store::StoreError;

/// Whether writes go through, for whoever asks how the hive is.
#[derive(Default)]
pub struct StoreHealth(AtomicU8);

impl StoreHealth {
    pub fn word(&self) -> &'static str {
        match self.0.load(Ordering::Relaxed) {
            0 => "ok",
            1 => "disk_full",
            2 => "store_unsynced",
            4 => "store_moved",
            _ => "store_broken",
        }
    }

    pub fn note<T>(&self, outcome: &Result<T, StoreError>) {
        let code = match outcome {
            Ok(_) | Err(StoreError::Refused(_) | StoreError::Closed | StoreError::Busy) => 0,
            Err(StoreError::DiskFull) => 1,
            Err(StoreError::Unsynced) => 2,
            Err(StoreError::Broken { .. }) => 3,
            Err(StoreError::Moved { .. }) => 4,
        };
        self.0.store(code, Ordering::Relaxed);
    }
}

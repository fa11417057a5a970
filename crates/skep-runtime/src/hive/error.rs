//! Failures of the store, for doors.

use skep_store::{Refusal, StoreError, WAITING_WRITES};

use crate::door::{DoorError, ErrorKind, Quota};

/// A store's failure as a door tells it.
pub(crate) fn door_error(error: StoreError) -> DoorError {
    let text = match &error {
        // Its code is told beside it.
        StoreError::Refused(Refusal::Conflict { detail, .. }) => detail.clone(),
        error => error.to_string(),
    };
    let (kind, code) = match &error {
        StoreError::Refused(Refusal::Quota { code, most, left, .. }) => {
            let quota = Quota::new("storage", *most, *left).of("content-bytes");
            return DoorError::new(ErrorKind::TooLarge, code, text).limited(quota);
        }
        StoreError::Refused(Refusal::Conflict { code, .. }) => (ErrorKind::Conflict, *code),
        StoreError::Refused(Refusal::NotFound { .. }) => (ErrorKind::NotFound, "not_found"),
        StoreError::Refused(_) => {
            tracing::error!(%error, "a command was refused");
            return DoorError::new(
                ErrorKind::Internal,
                "internal",
                "The hive failed; see its log.",
            );
        }
        StoreError::Busy => {
            let quota = Quota::new("writes", WAITING_WRITES as u64, 0).of("concurrent-requests");
            return DoorError::new(ErrorKind::Busy, "store_busy", text).limited(quota);
        }
        StoreError::DiskFull => (ErrorKind::DiskFull, "disk_full"),
        StoreError::Unsynced | StoreError::Moved { .. } => (ErrorKind::Unsynced, "store_unsynced"),
        StoreError::Broken { .. } => {
            tracing::error!(%error, "the store failed");
            let text = "The store failed and nothing was written; see the log, then send again.";
            return DoorError::new(ErrorKind::Busy, "store_failed", text);
        }
        StoreError::Closed => (ErrorKind::Stopping, "stopping"),
    };
    DoorError::new(kind, code, text)
}

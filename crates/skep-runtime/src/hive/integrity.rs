//! After a stop out of order the whole database is looked at, beside the work and behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use skep_core::event::{Event, EventKind};
use skep_guard::{clock, limits};
use skep_store::Integrity;

use super::Shared;
use crate::door::IntegrityInfo;

/// Looks at the whole database, once.
pub(crate) async fn check(shared: Arc<Shared>) {
    let begun = clock::now_ms();
    shared.facts.set_integrity(IntegrityInfo { state: "running", ..IntegrityInfo::default() });
    let stopping = shared.env().stop.draining.clone();
    let lowered = AtomicBool::new(false);
    let proceed = move || {
        // Asked on the thread that reads: everybody else goes first.
        if !lowered.swap(true, Ordering::Relaxed) {
            limits::lower_priority_of_thread(limits::LOWEST_PRIORITY);
        }
        !stopping.is_cancelled()
    };
    let checked = shared.store.check_integrity(proceed).await;
    let took_ms = clock::now_ms() - begun;
    let checked_at = Some(clock::now_ms());
    let info = match checked {
        Ok(Integrity::Whole) => {
            tracing::info!(took_ms, "the last stop was out of order; the database is whole");
            IntegrityInfo { state: "whole", checked_at, text: None }
        }
        Ok(Integrity::Damaged(findings)) => {
            let text = format!(
                "The database is damaged: {}. Stop the hive with `skep down`, move run/skep.db and \
                 its -wal file away and restore a backup in their place.",
                findings.join("; ")
            );
            tracing::error!(took_ms, "{text}");
            IntegrityInfo { state: "damaged", checked_at, text: Some(text) }
        }
        Ok(Integrity::Interrupted) => IntegrityInfo::unchecked(),
        Err(error) => {
            tracing::warn!(%error, "the database could not be looked at as a whole");
            IntegrityInfo::unchecked()
        }
    };
    let kind = EventKind::Integrity { state: info.state.to_owned(), text: info.text.clone() };
    shared.env().bus.publish(Event::of_hive(clock::now_ms(), kind));
    shared.facts.set_integrity(info);
}

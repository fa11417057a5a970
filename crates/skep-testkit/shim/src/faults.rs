//! Counts an operation and lets the faults asked for by the page happen to it.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::c_int;

use crate::journal::Journal;
use crate::page::Page;
use crate::setup::Watch;
use crate::{power, raw};

/// One lock for counting and for the journal. Signal handlers never reach it: they only write to
/// pipes and sockets, which are told apart before.
static JOURNAL: Mutex<Journal> = Mutex::new(Journal::new());

pub fn journal() -> MutexGuard<'static, Journal> {
    JOURNAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts the operation that is about to happen; at the chosen one the process ends here.
/// Other threads cannot begin an operation meanwhile: they wait for the lock. `Err`: the errno it
/// has to fail with because of its number.
pub fn begin(watch: &Watch) -> Result<MutexGuard<'static, Journal>, c_int> {
    let mut journal = journal();
    let number = watch.page.count.fetch_add(1, Ordering::SeqCst) + 1;
    if number == watch.page.kill_at.load(Ordering::SeqCst) {
        power::kill_self();
    }
    if number == watch.page.power_loss_at.load(Ordering::SeqCst) {
        power::lose(watch, &mut journal);
    }
    let window =
        watch.page.fail_from.load(Ordering::SeqCst)..watch.page.fail_until.load(Ordering::SeqCst);
    if window.contains(&number) {
        watch.page.failed.fetch_add(1, Ordering::SeqCst);
        return Err(libc::EIO);
    }
    Ok(journal)
}

/// The errno a write has to fail with, if any.
pub fn write_fault(page: &Page) -> Option<c_int> {
    fault(page, page.write_error.load(Ordering::SeqCst))
}

/// Waits as long as the page says, then gives the errno the sync has to fail with, if any.
pub fn sync_fault(page: &Page) -> Option<c_int> {
    let delay = page.sync_delay_ms.load(Ordering::SeqCst);
    if delay > 0 {
        raw::sleep_ms(delay);
    }
    if page.sync_hang.load(Ordering::SeqCst) != 0 {
        page.hanging.fetch_add(1, Ordering::SeqCst);
        while page.sync_hang.load(Ordering::SeqCst) != 0 {
            raw::sleep_ms(1);
        }
        page.hanging.fetch_sub(1, Ordering::SeqCst);
    }
    fault(page, page.sync_error.load(Ordering::SeqCst))
}

fn fault(page: &Page, error: u64) -> Option<c_int> {
    if error == 0 {
        return None;
    }
    page.failed.fetch_add(1, Ordering::SeqCst);
    Some(error as c_int)
}

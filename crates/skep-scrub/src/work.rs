//! How many bytes were looked at: tests count them, for a clock tells other things as well.

use std::cell::Cell;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn add(bytes: usize) {
    BYTES.set(BYTES.get() + bytes);
}

/// The bytes that this looked at.
pub(super) fn of(act: impl FnOnce()) -> usize {
    let before = BYTES.get();
    act();
    BYTES.get() - before
}

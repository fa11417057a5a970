//! SQLite's write-ahead log, written in as few pieces as possible.
//!
//! SQLite hands each page of a commit to the system in two writes: a header of 24 bytes, then the
//! page. Below it, this file layer holds those writes back while each goes on where the last one
//! ended, and writes them as one when the log is synced. Everything else is SQLite's own.
//!
//! Nobody misses what is held. Other connections read the log as far as the wal-index says, and
//! with `synchronous = FULL`, as all of ours have it, a commit is put there after its sync. What
//! is written before (pages that no longer fit in the cache) is read by the same connection alone,
//! through here. And nothing is held longer than the lock that lets its connection write: frames
//! of a transaction that was rolled back must not come later, over those of another writer.
//!
//! As every frame comes by here, this is also where it is known how far a connection's last commit
//! reaches ([`written`]).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::{ptr, slice};

use rusqlite::Connection;
use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};

use crate::disk::log_reader::{self, FRAME_HEADER, LogEnd, LogFrame};

const NAME: &CStr = c"skep";
/// The most that is held. SQLite's own write looks at 17 bits of a length.
const BOUND: usize = 0x1ffff;
/// Which of the wal-index's locks is the writer's (`WAL_WRITE_LOCK`).
const WRITE_LOCK: c_int = 0;
/// The question of [`written`]. SQLite has the numbers up to 100 for itself.
const LAST_COMMIT: c_int = 0x5e7a;

/// The last commit this connection has written; none where there was none, or no layer.
pub(crate) fn written(connection: &Connection) -> Option<LogEnd> {
    let mut answer: Option<LogEnd> = None;
    // SAFETY: the connection is open, and `control` fills in an answer of this type.
    unsafe {
        let into = ptr::from_mut(&mut answer).cast();
        ffi::sqlite3_file_control(connection.handle(), c"main".as_ptr(), LAST_COMMIT, into);
    }
    answer
}

/// The layer to open connections with; none where SQLite would not have it.
pub(crate) fn layer() -> Option<&'static CStr> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let registered = *REGISTERED.get_or_init(|| {
        let code = register();
        if code != ffi::SQLITE_OK {
            tracing::warn!(code, "the log of the database is written page by page");
        }
        code == ffi::SQLITE_OK
    });
    registered.then_some(NAME)
}

/// A layer as SQLite knows it, and the one it stands on.
#[repr(C)]
struct Layer {
    vfs: sqlite3_vfs,
    below: *mut sqlite3_vfs,
}

/// Found through `sqlite3_file.pMethods`, which points to the first field; made when the file is
/// opened, freed when it is closed. The rest of the file is as the layer below has made it.
#[repr(C)]
struct Database {
    methods: sqlite3_io_methods,
    below: *const sqlite3_io_methods,
    /// The log of the same connection, while it is open.
    log: *mut sqlite3_file,
}

/// As `Database`.
#[repr(C)]
struct Log {
    methods: sqlite3_io_methods,
    below: *const sqlite3_io_methods,
    database: *mut sqlite3_file,
    held: Held,
    /// The newest frame of the transaction that is being written, and where it begins.
    newest: Option<(LogFrame, u64)>,
    page: usize,
    committed: Option<LogEnd>,
}

impl Log {
    /// SQLite writes the header of a frame alone, then its page.
    fn note(&mut self, offset: i64, bytes: &[u8]) {
        match bytes.len() {
            FRAME_HEADER => {
                self.newest = u64::try_from(offset).ok().map(|at| (LogFrame::parse(bytes), at));
            }
            page @ 512.. => self.page = page,
            _ => {}
        }
    }

    /// What was noted is on the disk.
    fn synced(&mut self) {
        if let Some((frame, at)) = self.newest.take_if(|(frame, _)| frame.is_commit()) {
            let bytes = at.saturating_add(u64::try_from(FRAME_HEADER + self.page).unwrap_or(0));
            let frames = log_reader::frames_before(bytes, self.page);
            self.committed = Some(LogEnd { salts: frame.salts, frames, sum: frame.sum });
        }
    }
}

/// What the file does not have yet.
#[derive(Default)]
struct Held {
    start: i64,
    bytes: Vec<u8>,
}

impl Held {
    /// False where the write does not go on where the last one ended, or there is no room.
    fn take(&mut self, offset: i64, bytes: &[u8]) -> bool {
        if self.bytes.is_empty() {
            self.start = offset;
        }
        let fits = offset == self.end() && self.bytes.len() + bytes.len() <= BOUND;
        if !fits || self.bytes.try_reserve_exact(BOUND - self.bytes.len()).is_err() {
            return false;
        }
        self.bytes.extend_from_slice(bytes);
        true
    }

    fn end(&self) -> i64 {
        self.start.saturating_add(i64::try_from(self.bytes.len()).unwrap_or(i64::MAX))
    }

    /// Puts what is held over what was read at `offset`.
    fn lay_over(&self, offset: i64, read: &mut [u8]) {
        let shift = self.start - offset;
        let (into, from) = match usize::try_from(shift.unsigned_abs()) {
            Ok(shift_by) if shift >= 0 => (shift_by, 0),
            Ok(shift_by) => (0, shift_by),
            Err(_) => return,
        };
        if let (Some(into), Some(from)) = (read.get_mut(into..), self.bytes.get(from..)) {
            into.iter_mut().zip(from).for_each(|(into, from)| *into = *from);
        }
    }
}

fn register() -> c_int {
    // SAFETY: a null name asks for the default; what is found stays for ever. The copy is leaked,
    // so that it stays too. The unix functions in it look at no part of the layer they are given
    // but those that are copied.
    unsafe {
        let below = ffi::sqlite3_vfs_find(ptr::null());
        if below.is_null() {
            return ffi::SQLITE_NOTFOUND;
        }
        let mut vfs = *below;
        vfs.zName = NAME.as_ptr();
        vfs.pNext = ptr::null_mut();
        vfs.xOpen = Some(open);
        let layer = Box::into_raw(Box::new(Layer { vfs, below }));
        ffi::sqlite3_vfs_register(layer.cast(), 0)
    }
}

/// # Safety
/// As SQLite calls `sqlite3_vfs.xOpen` of a `Layer`.
unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: `vfs` is the first field of a `Layer`. `file` has room for a file of the layer
    // below, whose size the copy kept, and that layer fills it.
    unsafe {
        let below = (*vfs.cast::<Layer>()).below;
        let Some(open) = (*below).xOpen else { return ffi::SQLITE_CANTOPEN };
        let code = open(below, name, file, flags, out_flags);
        if code == ffi::SQLITE_OK {
            if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
                watch_database(file);
            } else if flags & ffi::SQLITE_OPEN_WAL != 0 {
                watch_log(file, name);
            }
        }
        code
    }
}

/// # Safety
/// `file` was opened by the layer below as the file of a database.
unsafe fn watch_database(file: *mut sqlite3_file) {
    // SAFETY: the methods of an open file outlive it.
    unsafe {
        let below = (*file).pMethods;
        let mut methods = *below;
        methods.xClose = Some(close_database);
        methods.xShmLock = Some(lock);
        methods.xFileControl = Some(control);
        let database = Database { methods, below, log: ptr::null_mut() };
        (*file).pMethods = Box::into_raw(Box::new(database)).cast();
    }
}

/// # Safety
/// `file` was opened by the layer below as the log of a database opened by this one; `name` is the
/// name SQLite gave for it.
unsafe fn watch_log(file: *mut sqlite3_file, name: *const c_char) {
    // SAFETY: SQLite finds the database's file by the log's own name. The methods of an open file
    // outlive it.
    unsafe {
        let database = ffi::sqlite3_database_file_object(name);
        let below = (*file).pMethods;
        let methods = sqlite3_io_methods {
            // The methods of later versions (shared memory, mapped pages) are for databases.
            iVersion: 1,
            xClose: Some(close_log),
            xRead: Some(read),
            xWrite: Some(write),
            xTruncate: Some(truncate),
            xSync: Some(sync),
            xFileSize: Some(size),
            ..*below
        };
        let held = Held::default();
        let log = Log { methods, below, database, held, newest: None, page: 0, committed: None };
        (*file).pMethods = Box::into_raw(Box::new(log)).cast();
        (*database_of(database)).log = file;
    }
}

/// # Safety
/// `file` has been through `watch_database`.
unsafe fn database_of(file: *mut sqlite3_file) -> *mut Database {
    // SAFETY: its methods are the first field of a `Database`.
    unsafe { (*file).pMethods.cast_mut().cast() }
}

/// # Safety
/// `file` has been through `watch_log`.
unsafe fn log_of(file: *mut sqlite3_file) -> *mut Log {
    // SAFETY: its methods are the first field of a `Log`.
    unsafe { (*file).pMethods.cast_mut().cast() }
}

/// Writes what is held. It is let go of also where that fails: SQLite then undoes the whole
/// transaction (an error of a write leaves its pager no other way), and the next one writes its
/// own frames at the same place.
///
/// # Safety
/// `file` has been through `watch_log`. One thread at a time uses it, as all of its connection.
unsafe fn flush(file: *mut sqlite3_file) -> c_int {
    // SAFETY: nothing below comes back to this `Log` while it is borrowed.
    unsafe {
        let Log { below, held, .. } = &mut *log_of(file);
        let Ok(amount @ 1..) = c_int::try_from(held.bytes.len()) else { return ffi::SQLITE_OK };
        let bytes = held.bytes.as_ptr().cast();
        let write = (**below).xWrite;
        let code =
            write.map_or(ffi::SQLITE_IOERR_WRITE, |write| write(file, bytes, amount, held.start));
        held.bytes.clear();
        code
    }
}

// SAFETY, for the methods from here on: SQLite calls them as `sqlite3_io_methods` says, with a
// file that has been through `watch_database` or `watch_log`, from one thread at a time.

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    amount: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: see above; `bytes` has that amount. The `Log` is borrowed anew after each call.
    unsafe {
        let length = usize::try_from(amount).unwrap_or_default();
        let given = slice::from_raw_parts(bytes.cast::<u8>(), length);
        (*log_of(file)).note(offset, given);
        if (*log_of(file)).held.take(offset, given) {
            return ffi::SQLITE_OK;
        }
        let code = flush(file);
        if code != ffi::SQLITE_OK || (*log_of(file)).held.take(offset, given) {
            return code;
        }
        let write = (*(*log_of(file)).below).xWrite;
        write.map_or(ffi::SQLITE_IOERR_WRITE, |write| write(file, bytes, amount, offset))
    }
}

/// As if all were written. Nothing is, so that a full disk never shows in a read: after that a
/// transaction may go on, and its frames would be lost.
unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    into: *mut c_void,
    amount: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: see above; `into` has room for that amount, and the layer below has filled it, with
    // zeros where the file ended before.
    unsafe {
        let Log { below, held, .. } = &*log_of(file);
        let read = (**below).xRead;
        let code = read.map_or(ffi::SQLITE_IOERR_READ, |read| read(file, into, amount, offset));
        let short = code == ffi::SQLITE_IOERR_SHORT_READ;
        if held.bytes.is_empty() || !(code == ffi::SQLITE_OK || short) {
            return code;
        }
        let length = usize::try_from(amount).unwrap_or_default();
        held.lay_over(offset, slice::from_raw_parts_mut(into.cast::<u8>(), length));
        match held.end() >= offset.saturating_add(amount.into()) {
            true => ffi::SQLITE_OK,
            false => code,
        }
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: see above.
    unsafe {
        let code = flush(file);
        if code != ffi::SQLITE_OK {
            return code;
        }
        let sync = (*(*log_of(file)).below).xSync;
        let code = sync.map_or(ffi::SQLITE_IOERR_FSYNC, |sync| sync(file, flags));
        if code == ffi::SQLITE_OK {
            (*log_of(file)).synced();
        }
        code
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: see above.
    unsafe {
        let code = flush(file);
        if code != ffi::SQLITE_OK {
            return code;
        }
        let truncate = (*(*log_of(file)).below).xTruncate;
        truncate.map_or(ffi::SQLITE_IOERR_TRUNCATE, |truncate| truncate(file, size))
    }
}

unsafe extern "C" fn size(file: *mut sqlite3_file, out: *mut sqlite3_int64) -> c_int {
    // SAFETY: see above; where the layer below succeeds, `out` has a size.
    unsafe {
        let Log { below, held, .. } = &*log_of(file);
        let size = (**below).xFileSize;
        let code = size.map_or(ffi::SQLITE_IOERR_FSTAT, |size| size(file, out));
        if code == ffi::SQLITE_OK && !held.bytes.is_empty() {
            *out = held.end().max(*out);
        }
        code
    }
}

/// By now nothing is held, except where SQLite needs no locks because it has the file alone.
unsafe extern "C" fn close_log(file: *mut sqlite3_file) -> c_int {
    // SAFETY: see above. SQLite closes a log before its database, so that one is open still. The
    // `Log` came from a box; the file is given back as the layer below has made it.
    unsafe {
        let flushed = flush(file);
        let log = Box::from_raw(log_of(file));
        (*database_of(log.database)).log = ptr::null_mut();
        (*file).pMethods = log.below;
        let close = (*log.below).xClose;
        let closed = close.map_or(ffi::SQLITE_IOERR_CLOSE, |close| close(file));
        if flushed == ffi::SQLITE_OK { closed } else { flushed }
    }
}

/// The end of a transaction is where its connection lets go of the lock on writing.
unsafe extern "C" fn lock(
    file: *mut sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: see above; the log, where there is one, is open and of the same connection.
    unsafe {
        let Database { below, log, .. } = *database_of(file);
        if offset == WRITE_LOCK && flags & ffi::SQLITE_SHM_UNLOCK != 0 && !log.is_null() {
            // What was committed is in the file. The rest is nobody's loss.
            flush(log);
            (*log_of(log)).newest = None;
        }
        let lock = (*below).xShmLock;
        lock.map_or(ffi::SQLITE_IOERR_SHMLOCK, |lock| lock(file, offset, count, flags))
    }
}

/// Answers [`written`]; everything else is for the layer below.
unsafe extern "C" fn control(file: *mut sqlite3_file, question: c_int, into: *mut c_void) -> c_int {
    // SAFETY: see above; the log, where there is one, is open and of the same connection, and with
    // this question comes a place for its answer.
    unsafe {
        let Database { below, log, .. } = *database_of(file);
        if question == LAST_COMMIT {
            if !log.is_null() {
                *into.cast::<Option<LogEnd>>() = (*log_of(log)).committed;
            }
            return ffi::SQLITE_OK;
        }
        let control = (*below).xFileControl;
        control.map_or(ffi::SQLITE_NOTFOUND, |control| control(file, question, into))
    }
}

unsafe extern "C" fn close_database(file: *mut sqlite3_file) -> c_int {
    // SAFETY: see above; as for `close_log`.
    unsafe {
        let database = Box::from_raw(database_of(file));
        (*file).pMethods = database.below;
        let close = (*database.below).xClose;
        close.map_or(ffi::SQLITE_IOERR_CLOSE, |close| close(file))
    }
}

#[cfg(test)]
#[path = "log_file_tests.rs"]
mod tests;

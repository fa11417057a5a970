//! Opening: first start, second start, and everything that is refused without being touched.

use std::collections::BTreeMap;
use std::fs;

use skep_store::{CommandSet, OpenError, OpenReport, StoreError};

use crate::probe::*;

/// Every file of the folder with its content.
fn snapshot(bench: &Bench) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(bench.folder.path()).unwrap();
    files
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// A database with some content, closed in order.
async fn filled() -> Bench {
    let bench = Bench::new();
    let store = bench.open().await;
    let pending: Vec<_> = (0..500).map(|n| store.submit(Put(format!("note {n}")))).collect();
    for pending in pending {
        pending.await.unwrap();
    }
    store.close().await;
    bench
}

/// Opening is refused, and the folder looks as before.
async fn refused(bench: &Bench) -> OpenError {
    let before = snapshot(bench);
    let error = bench.try_open().await.err().expect("opened");
    assert!(before == snapshot(bench), "touched: {:?}", snapshot(bench).keys());
    error
}

fn corrupt_reason(error: OpenError) -> String {
    let text = error.to_string();
    match error {
        OpenError::Corrupt { reason, .. } => {
            assert!(text.contains("restore a backup"), "{text}");
            reason
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn first_clean_and_unclean_starts() {
    let bench = Bench::new();
    let store = bench.open().await;
    assert_eq!(store.report(), OpenReport { unclean: false, fresh: true, trail: None, loss: None });
    assert_eq!(put(&store, "one").await, Ok(1));
    let other = store.clone();
    store.close().await;
    assert_eq!(put(&other, "late").await, Err(StoreError::Closed));
    assert_eq!(other.read(async |_| Ok(())).await, Err(StoreError::Closed));
    let files: Vec<String> = snapshot(&bench).into_keys().collect();
    assert_eq!(files, ["clean", "skep.db", "store.head"]);

    let store = bench.open().await;
    assert_eq!(
        store.report(),
        OpenReport { unclean: false, fresh: false, trail: None, loss: None }
    );
    assert!(!bench.options().clean_marker.exists());
    assert_eq!(put(&store, "two").await, Ok(2), "counters go on");
    drop(store);

    let store = bench.open_after_drop().await;
    assert_eq!(store.report(), OpenReport { unclean: true, fresh: false, trail: None, loss: None });
    assert_eq!(put(&store, "three").await, Ok(3));
    assert_eq!(seqs(&bench.take_told()), [[1], [2], [3]]);
}

#[tokio::test]
async fn closing_finishes_what_is_queued() {
    let bench = Bench::new();
    let store = bench.open().await;
    let pending: Vec<_> = (0..600).map(|n| store.submit(Put(format!("note {n}")))).collect();
    store.close().await;
    for pending in pending {
        pending.await.unwrap();
    }
    assert_eq!(notes(&bench.open().await).await.len(), 600);
}

#[tokio::test]
async fn a_first_start_that_was_cut_short_begins_again() {
    let bench = Bench::new();
    fs::write(bench.folder.path().join("skep.db.new"), b"half of it").unwrap();
    fs::write(bench.folder.path().join("skep.db.new-journal"), b"").unwrap();
    let store = bench.open().await;
    assert_eq!(store.report(), OpenReport { unclean: false, fresh: true, trail: None, loss: None });
    put(&store, "works").await.unwrap();
    store.close().await;
    let files: Vec<String> = snapshot(&bench).into_keys().collect();
    assert_eq!(files, ["clean", "skep.db", "store.head"]);
}

#[tokio::test]
async fn a_newer_database_is_refused() {
    let bench = filled().await;
    let store = bench.open().await;
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum,
        execution_time) VALUES (99, 'later', 1, x'00', 0) RETURNING version";
    store.write(Setting(newer)).await.unwrap();
    store.close().await;
    match refused(&bench).await {
        OpenError::Newer { found: 99, known: 1, .. } => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_not_a_database_is_refused() {
    let bench = filled().await;
    let whole = fs::read(bench.database()).unwrap();

    fs::write(bench.database(), b"just some text that somebody put here").unwrap();
    let reason = corrupt_reason(refused(&bench).await);
    assert_eq!(reason, "it does not begin like an SQLite database");

    let mut header = whole.clone();
    header[..16].fill(0);
    fs::write(bench.database(), &header).unwrap();
    let reason = corrupt_reason(refused(&bench).await);
    assert_eq!(reason, "it does not begin like an SQLite database");

    let mut header = whole.clone();
    header[16..100].fill(0xff);
    fs::write(bench.database(), &header).unwrap();
    assert_eq!(corrupt_reason(refused(&bench).await), "file is not a database");
}

#[tokio::test]
async fn a_truncated_database_is_refused() {
    let bench = filled().await;
    let whole = fs::read(bench.database()).unwrap();
    for keep in [0, 10, 4096, whole.len() / 2, whole.len() - 1] {
        fs::write(bench.database(), &whole[..keep]).unwrap();
        let reason = corrupt_reason(refused(&bench).await);
        assert!(reason.contains("it was cut"), "{keep}: {reason}");
    }
    fs::write(bench.database(), &whole).unwrap();
    assert_eq!(notes(&bench.open().await).await.len(), 500);
}

#[tokio::test]
async fn damage_inside_is_found_by_the_check() {
    let bench = filled().await;
    let mut bytes = fs::read(bench.database()).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0x5a);
    fs::write(bench.database(), &bytes).unwrap();
    let reason = corrupt_reason(refused(&bench).await);
    assert!(reason.contains("page") || reason.contains("malformed"), "{reason}");
}

#[tokio::test]
async fn a_database_that_cannot_be_written_is_refused() {
    use rustix::process::{geteuid, getuid};
    use rustix::thread::set_thread_res_uid;
    use std::os::unix::fs::PermissionsExt;

    let bench = filled().await;
    let set = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for (folder, file) in [(0o555, 0o644), (0o777, 0o444)] {
        set(bench.folder.path(), folder);
        set(&bench.database(), file);
        // Root may write anywhere: this one thread becomes somebody else for the attempt.
        let options = bench.options();
        let attempt = std::thread::spawn(move || {
            if geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let opened = runtime.unwrap().block_on(ProbeStore::open(options, |_| {}));
            opened.map(|_| ())
        });
        let before = snapshot(&bench);
        let error = attempt.join().unwrap().unwrap_err();
        assert!(matches!(error, OpenError::ReadOnly { .. }), "{error:?}");
        assert!(error.to_string().contains("make it and its folder writable"));
        assert!(before == snapshot(&bench));
    }
    assert_eq!(geteuid(), getuid(), "only that thread changed");
    set(bench.folder.path(), 0o755);
    set(&bench.database(), 0o644);
    assert_eq!(notes(&bench.open().await).await.len(), 500);
}

#[tokio::test]
async fn a_lost_file_beside_its_log_is_not_a_first_start() {
    let bench = filled().await;
    fs::remove_file(bench.database()).unwrap();
    fs::write(bench.folder.path().join("skep.db-wal"), b"frames").unwrap();
    let reason = corrupt_reason(refused(&bench).await);
    assert_eq!(reason, "the file is gone, but its -wal file is there");
}

#[tokio::test]
async fn a_database_of_somebody_else_is_refused() {
    let bench = filled().await;
    let store = bench.open().await;
    store.write(Setting("ALTER TABLE _sqlx_migrations RENAME TO other")).await.unwrap();
    store.close().await;
    assert_eq!(corrupt_reason(refused(&bench).await), "it is a database, but not one of Skep");
}

#[tokio::test]
async fn the_schema_of_the_product_opens_twice() {
    let bench = Bench::new();
    for fresh in [true, false] {
        let store = skep_store::Store::open(bench.options(), |_| {}).await.unwrap();
        assert_eq!(store.report(), OpenReport { unclean: false, fresh, trail: None, loss: None });
        store.close().await;
    }
    let newest = <skep_store::Command as CommandSet>::SCHEMA.migrations.last().unwrap().version;
    assert_eq!(skep_store::Store::inspect(&bench.options()).await.unwrap(), Some(newest));
}

/// A pipe in the place of a file once made the start wait for ever.
#[tokio::test]
async fn attack_a_pipe_in_place_of_the_database_is_refused() {
    for end in ["", "-wal", "-shm"] {
        let bench = if end.is_empty() { Bench::new() } else { filled().await };
        let path = format!("{}{end}", bench.database().display());
        let _ = fs::remove_file(&path);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let error = bench.try_open().await.err().expect("opened");
        let reason = corrupt_reason(error);
        assert!(reason.contains("is not a regular file"), "{path}: {reason}");
    }
}

//! The files pulled away under an open store: nothing is answered any more, and what was answered
//! before is there when they are back.

use std::fs;
use std::path::Path;

use skep_store::StoreError;

use crate::probe::*;

const MOVED: [&str; 2] = ["database", "log"];

fn moved(what: &str) -> Result<i64, StoreError> {
    let what = MOVED.into_iter().find(|known| *known == what).unwrap();
    Err(StoreError::Moved { what })
}

fn texts(notes: Vec<(i64, String)>) -> Vec<String> {
    notes.into_iter().map(|(_, text)| text).collect()
}

/// Three notes are answered, `pull` takes something away, and then no answer comes any more.
async fn pulled(what: &str, pull: impl FnOnce(&Path)) -> Bench {
    let bench = Bench::new();
    let store = bench.open().await;
    for text in ["one", "two", "three"] {
        put(&store, text).await.unwrap();
    }
    store.stands().unwrap();
    bench.take_told();
    pull(&bench.database());
    assert_eq!(put(&store, "four").await, moved(what));
    assert_eq!(put(&store, "five").await, moved(what));
    assert_eq!(store.stands(), moved(what).map(|_| ()));
    assert_eq!(bench.take_told(), [], "nobody hears of it");
    assert_eq!(texts(notes(&store).await)[..3], ["one", "two", "three"], "reads go on");
    bench
}

#[tokio::test]
async fn store_with_its_log_gone_answers_nothing_and_keeps_what_it_had() {
    let log = |database: &Path| database.with_extension("db-wal");
    let aside = |database: &Path| database.with_extension("aside");
    let bench = pulled("log", |database| fs::remove_file(log(database)).unwrap()).await;
    // As after a kill: what the log held is in the database.
    let left = texts(notes(&bench.open().await).await);
    assert_eq!(left[..3], ["one", "two", "three"]);
    let bench = pulled("log", |database| fs::rename(log(database), aside(database)).unwrap()).await;
    fs::rename(aside(&bench.database()), log(&bench.database())).unwrap();
    let left = texts(notes(&bench.open().await).await);
    assert_eq!(left[..3], ["one", "two", "three"]);
    // The same bytes, and not the file that is written to.
    pulled("log", |database| {
        fs::copy(log(database), aside(database)).unwrap();
        fs::rename(aside(database), log(database)).unwrap();
    })
    .await;
    pulled("database", |database| fs::rename(database, aside(database)).unwrap()).await;
}

/// Nobody wrote in between: the log is open still, and copied at the end.
#[tokio::test]
async fn store_closed_after_its_log_was_removed_has_everything() {
    let bench = Bench::new();
    let store = bench.open().await;
    for text in ["one", "two", "three"] {
        put(&store, text).await.unwrap();
    }
    fs::remove_file(bench.database().with_extension("db-wal")).unwrap();
    store.close().await;
    assert_eq!(texts(notes(&bench.open().await).await), ["one", "two", "three"]);
}

/// The folder moved, another put in its place: the first store leaves that alone, also when it
/// ends, and needs a start of its own to go on.
#[tokio::test]
async fn store_with_its_folder_moved_touches_nothing_in_its_place() {
    let bench = Bench::new();
    let store = bench.open().await;
    put(&store, "one").await.unwrap();
    let place = bench.folder.path().to_owned();
    let away = place.with_extension("away");
    fs::rename(&place, &away).unwrap();
    assert_eq!(put(&store, "two").await, moved("database"));
    fs::create_dir(&place).unwrap();
    let other = bench.open().await;
    put(&other, "of another").await.unwrap();
    store.close().await;
    assert!(!bench.options().clean_marker.exists(), "it does not speak for the other");
    put(&other, "goes on").await.unwrap();
    assert_eq!(texts(notes(&other).await), ["of another", "goes on"]);
    other.close().await;
    fs::remove_dir_all(&place).unwrap();
    fs::rename(&away, &place).unwrap();
    let store = bench.open().await;
    assert_eq!(texts(notes(&store).await)[0], "one");
    put(&store, "three").await.unwrap();
}

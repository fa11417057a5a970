//! A log damaged behind the store's back: every start has all that was answered, or is refused and
//! leaves every file as it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rusqlite::Connection;
use skep_store::{OpenError, OpenOptions};

use crate::probe::*;

const LOG: &str = "skep.db-wal";
const HEAD: &str = "store.head";
const FRAME: usize = 24 + 4096;
const NOTES: i64 = 30;

/// The files a `kill -9` would leave, and the notes that were answered before it.
#[derive(Clone)]
struct Image {
    files: BTreeMap<String, Vec<u8>>,
    notes: Vec<(i64, String)>,
}

impl Image {
    async fn of(bench: &Bench, store: &ProbeStore) -> Self {
        let mut files = files_in(bench.folder.path());
        files.remove("skep.db-shm");
        Self { files, notes: notes(store).await }
    }

    fn log(&mut self) -> &mut Vec<u8> {
        self.files.get_mut(LOG).unwrap()
    }

    /// As its head says.
    fn frames(&self) -> usize {
        let head = str::from_utf8(&self.files[HEAD]).unwrap();
        head.split(' ').nth(2).unwrap().parse().unwrap()
    }

    fn without(mut self, name: &str) -> Self {
        self.files.remove(name).unwrap();
        self
    }

    fn place(&self) -> Bench {
        let bench = Bench::new();
        for (name, bytes) in &self.files {
            fs::write(bench.folder.path().join(name), bytes).unwrap();
        }
        bench
    }

    /// Started with everything that was answered.
    async fn opens(&self, what: &str) -> Bench {
        let bench = self.place();
        let store = bench.try_open().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(notes(&store).await, self.notes, "{what}");
        put(&store, "and it goes on").await.unwrap();
        store.close().await;
        bench
    }

    /// Whether it was refused; otherwise everything that was answered is there.
    async fn refused(&self, what: &str) -> bool {
        let bench = self.place();
        match bench.try_open().await {
            Ok(store) => {
                assert!(notes(&store).await == self.notes, "{what}: answered notes are missing");
                false
            }
            Err(OpenError::Lost { reason, .. }) => {
                assert!(!reason.is_empty(), "{what}");
                assert!(files_in(bench.folder.path()) == self.files, "{what}: touched");
                true
            }
            Err(other) => panic!("{what}: {other}"),
        }
    }
}

fn files_in(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = files.filter(|entry| entry.file_type().unwrap().is_file());
    let content = files
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
    content.collect()
}

/// As the checkpointer does it, at a moment of the test's choosing.
fn checkpoint(bench: &Bench) -> (i64, i64) {
    let other = Connection::open(bench.database()).unwrap();
    let sql = "PRAGMA wal_checkpoint(PASSIVE)";
    other.query_row(sql, [], |row| Ok((row.get(1)?, row.get(2)?))).unwrap()
}

async fn fill(store: &ProbeStore, from: i64, to: i64) {
    for n in from..to {
        // Some fill several pages.
        let size = if n % 7 == 3 { 9000 } else { 300 };
        put(store, &format!("note {n} {}", "x".repeat(size))).await.unwrap();
    }
}

/// Stores that were killed at different moments of their log.
async fn images() -> Vec<(&'static str, Image)> {
    let mut images = Vec::new();
    let bench = Bench::new();
    let store = bench.open().await;
    images.push(("just opened", Image::of(&bench, &store).await));
    fill(&store, 0, NOTES).await;
    images.push(("never copied", Image::of(&bench, &store).await));
    let (frames, copied) = checkpoint(&bench);
    assert_eq!(frames, copied, "all of it");
    images.push(("copied whole", Image::of(&bench, &store).await));
    fill(&store, NOTES, NOTES + 4).await;
    images.push(("started over", Image::of(&bench, &store).await));
    store
        .read(async |conn| {
            conn.rows("SELECT count(*) FROM notes", &[]).await?;
            // A reader at this moment keeps the rest from being copied.
            fill(&store, NOTES + 4, NOTES + 20).await;
            let (frames, copied) = checkpoint(&bench);
            assert!(0 < copied && copied < frames, "{copied} of {frames}");
            Ok(())
        })
        .await
        .unwrap();
    images.push(("copied in part", Image::of(&bench, &store).await));
    store.write(Setting("PRAGMA cache_size = 10")).await.unwrap();
    let refused = store.write(PutThenRefuse("y".repeat(400_000))).await;
    refused.unwrap_err();
    fill(&store, NOTES + 20, NOTES + 22).await;
    images.push(("over a rolled back transaction", Image::of(&bench, &store).await));
    images
}

/// Bytes overwritten, fields changed, frames zeroed or exchanged, the file cut or gone.
fn damages(image: &Image) -> Vec<(String, Image)> {
    let mut damaged = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut Vec<u8>)| {
        let mut other = image.clone();
        change(other.log());
        if other.files != image.files {
            damaged.push((what, other));
        }
    };
    let length = image.files[LOG].len();
    let frames = length / FRAME;
    for field in 0..8 {
        add(format!("header field {field}"), &|log| {
            log.get_mut(field * 4..).into_iter().for_each(|bytes| {
                bytes.iter_mut().take(4).for_each(|byte| *byte ^= 0x55);
            });
        });
    }
    let spread = |parts: usize| (0..parts).map(move |n| n * frames / parts);
    for frame in spread(9) {
        let at = 32 + frame * FRAME;
        for field in 0..6 {
            add(format!("frame {frame} field {field}"), &|log| {
                log[at + field * 4] ^= 1;
            });
        }
        add(format!("64 bytes in the page of frame {frame}"), &|log| {
            log[at + 24 + 700..at + 24 + 764].fill(0xa5);
        });
        add(format!("frame {frame} zeroed"), &|log| log[at..at + FRAME].fill(0));
        add(format!("cut at frame {frame}"), &|log| log.truncate(at));
        add(format!("cut in frame {frame}"), &|log| log.truncate(at + 1000));
        add(format!("frame {frame} in place of the next"), &|log| {
            if at + 2 * FRAME <= log.len() {
                log.copy_within(at..at + FRAME, at + FRAME);
            }
        });
    }
    add("its last byte".to_owned(), &|log| *log.last_mut().unwrap() ^= 1);
    add("its tail zeroed".to_owned(), &|log| log[length - 64..].fill(0));
    add("a page more".to_owned(), &|log| log.extend([7; FRAME]));
    add("zeroed".to_owned(), &|log| log.fill(0));
    add("empty".to_owned(), &Vec::clear);
    add("cut to its header".to_owned(), &|log| log.truncate(32));
    add("cut in its header".to_owned(), &|log| log.truncate(20));
    damaged.push(("removed".to_owned(), image.clone().without(LOG)));
    damaged
}

#[tokio::test]
async fn store_every_damage_of_the_log_is_refused_or_costs_nothing() {
    let (mut places, mut refusals) = (0, 0);
    for (name, image) in images().await {
        image.opens(name).await;
        if image.files[LOG].is_empty() {
            continue;
        }
        for (what, damaged) in damages(&image) {
            places += 1;
            refusals += usize::from(damaged.refused(&format!("{name}, {what}")).await);
        }
        let older = Image { files: image.files.clone(), ..image.clone() };
        older.without(HEAD).opens(&format!("{name}, without its head")).await;
    }
    println!("{places} places, {refusals} refused");
    assert!(places >= 200, "{places} places");
    assert!(refusals * 10 > places * 7, "{refusals} of {places} refused");
}

/// After a power cut the head is an older one, though not of an older log than the one before.
#[tokio::test]
async fn store_a_head_that_lags_is_not_taken_for_damage() {
    let bench = Bench::new();
    let store = bench.open().await;
    let mut heads: Vec<Vec<Vec<u8>>> = vec![Vec::new()];
    for n in 0..24 {
        put(&store, &format!("note {n}")).await.unwrap();
        let image = Image::of(&bench, &store).await;
        heads.last_mut().unwrap().push(image.files[HEAD].clone());
        let reaching = heads.iter().rev().take(2).flatten();
        for head in reaching {
            let mut lagging = image.clone();
            lagging.files.insert(HEAD.to_owned(), head.clone());
            assert!(!lagging.refused(&format!("commit {n}")).await, "commit {n}");
        }
        let mut torn = image.clone();
        torn.files.get_mut(HEAD).unwrap()[40] = b'x';
        assert!(!torn.refused("a torn head").await);
        if n % 6 == 5 {
            checkpoint(&bench);
            heads.push(Vec::new());
        }
    }
    let mut image = Image::of(&bench, &store).await;
    image.files.insert(HEAD.to_owned(), heads[0][0].clone());
    assert!(image.refused("two logs ago").await, "a head is synced with the first commit of a log");
}

fn accepting(bench: &Bench) -> OpenOptions {
    let accept_loss = Some(bench.folder.path().join("damaged"));
    OpenOptions { accept_loss, ..bench.options() }
}

#[tokio::test]
async fn store_a_loss_is_accepted_with_copies_and_the_missing_numbers() {
    for (name, mut image) in images().await {
        if image.files[LOG].is_empty() {
            continue;
        }
        let at = match name {
            // Behind what was copied; before it, see below.
            "copied in part" => 32 + FRAME * image.frames() - 100,
            "over a rolled back transaction" => continue,
            _ => 32 + FRAME * 5 + 100,
        };
        image.log()[at..at + 64].fill(0xa5);
        assert!(image.refused(name).await, "{name}");
        let bench = image.place();
        let options = accepting(&bench);
        let store = ProbeStore::open(options.clone(), |_| {}).await.unwrap();
        let loss = store.report().loss.unwrap();
        assert_eq!(files_in(&loss.copies), image.files, "{name}");
        let left = notes(&store).await;
        assert_eq!(left, image.notes[..left.len()], "{name}");
        let last = |notes: &[(i64, String)]| notes.last().map_or(0, |(ord, _)| *ord);
        let (kept, given) = (last(&left), last(&image.notes));
        let missing = loss.missing.clone().unwrap();
        assert_eq!((missing.seq, missing.ord), (kept + 1..=given, kept + 1..=given), "{name}");
        if name == "copied whole" {
            assert_eq!(left, image.notes, "the database alone had everything");
        }
        let text = loss.to_string();
        assert!(text.contains("the files as they were found are in"), "{text}");
        assert_eq!(put(&store, "later").await, Ok(given + 1), "{name}: no number is given twice");
        store.close().await;
        assert_eq!(notes(&bench.open().await).await.last().unwrap().0, given + 1, "{name}");
    }
}

/// With pages that were copied out of the damaged part already, there is nothing sound to start
/// from: neither with the rest of the log nor without it.
#[tokio::test]
async fn store_a_loss_that_leaves_nothing_sound_is_refused() {
    let (name, mut image) = images().await.swap_remove(4);
    image.log()[32 + FRAME + 100] ^= 1;
    let bench = image.place();
    let error = ProbeStore::open(accepting(&bench), |_| {}).await.err().expect(name);
    let OpenError::Corrupt { reason, .. } = error else { panic!("{error}") };
    assert!(reason.contains("the files are copied to"), "{reason}");
    assert!(files_in(bench.folder.path()) == image.files, "touched");
    assert!(files_in(&bench.folder.path().join("damaged")) == image.files);
}

#[tokio::test]
async fn store_where_nothing_is_lost_nothing_is_accepted() {
    let (name, image) = images().await.swap_remove(1);
    let bench = image.place();
    let store = ProbeStore::open(accepting(&bench), |_| {}).await.unwrap();
    assert_eq!(store.report().loss, None, "{name}");
    assert!(!bench.folder.path().join("damaged").exists());
}

/// Without a head only commits that lie behind damage speak for themselves.
#[tokio::test]
async fn store_without_a_head_commits_behind_damage_are_refused() {
    let (_, image) = images().await.swap_remove(1);
    for head in [None, Some(b"not a head".to_vec())] {
        let mut image = image.clone();
        image.files.remove(HEAD);
        image.files.extend(head.map(|head| (HEAD.to_owned(), head)));
        image.opens("whole").await;
        image.log()[32 + FRAME * 5 + 100] ^= 1;
        assert!(image.refused("in the middle").await);
        let bench = image.place();
        let store = ProbeStore::open(accepting(&bench), |_| {}).await.unwrap();
        let loss = store.report().loss.unwrap();
        assert_eq!(loss.missing, None);
        assert!(loss.to_string().contains("is not known"), "{loss}");
    }
}

/// A single commit that is larger than the log's bound, too few of them for the checkpointer: the
/// writer copies the log itself, and the next commit starts it over.
#[tokio::test]
async fn the_writer_bounds_the_log() {
    let bench = Bench::new();
    let store = bench.open().await;
    let many = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 17000) \
                INSERT INTO events (seq, body) SELECT 1000000 + x, hex(zeroblob(2000)) FROM n";
    store.write(Setting(many)).await.unwrap();
    put(&store, "behind it").await.unwrap();
    let frames = Image::of(&bench, &store).await.frames();
    assert!(frames < 1000, "{frames} frames");
    store.close().await;
}

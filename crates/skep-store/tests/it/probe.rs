//! A schema and commands that can do everything a command can do right or wrong.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use skep_core::event::{Event, EventKind};
use skep_core::frame::{Frame, FrameKind};
use skep_core::ids::{AgentId, AgentName, ChannelId, SessionId};
use skep_store::{
    Committed, MigrationFile, OpenError, OpenOptions, Refusal, Run, Schema, StoreError, StoreOf,
    ToValue, Tx,
};
use tokio::sync::Notify;

pub const TABLES: &str = "
    CREATE TABLE events (seq INTEGER PRIMARY KEY, at BIGINT, agent BIGINT, body TEXT);
    CREATE TABLE notes (ord INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
    CREATE TABLE parts (note BIGINT REFERENCES notes (ord) DEFERRABLE INITIALLY DEFERRED);
";

pub const SCHEMA: Schema = Schema {
    migrations: &[MigrationFile { version: 1, name: "probe", sql: TABLES }],
    counters: "SELECT (SELECT max(seq) FROM events), (SELECT max(ord) FROM notes)",
    audited: false,
};

skep_store::commands! {
    pub enum Probe -> ProbeOutcome, SCHEMA;
    Put, PutThenRefuse, PutThenPanic, Orphan, Setting, Hold,
}

pub type ProbeStore = StoreOf<Probe>;

/// Inserts a note, with one event and one frame; answers its `ord`.
pub struct Put(pub String);

impl Run for Put {
    type Out = i64;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<i64, Refusal> {
        let ord = tx.next_ord().await?;
        let args = [ord.to_value(), self.0.to_value()];
        tx.conn.run("INSERT INTO notes (ord, text) VALUES ($1, $2)", &args).await?;
        // As long as the images of damaged logs were made with: pages fill as they did.
        let session = SessionId::new("s-0123456789-0123456789");
        let kind = EventKind::HistoryUpdated { first: ord, last: ord };
        let event = Event::of(AgentId(1), &AgentName::new("main"), 7, kind);
        tx.event(event.within(&session, None));
        tx.frame(Frame {
            channel: ChannelId::new("ws:1"),
            seq: ord,
            id: self.0.clone(),
            kind: FrameKind::Ack,
            at: 7,
            payload: serde_json::json!({}),
        });
        Ok(ord)
    }

    fn cost(&self) -> usize {
        self.0.len()
    }
}

pub struct PutThenRefuse(pub String);

impl Run for PutThenRefuse {
    type Out = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Refusal> {
        Put(self.0.clone()).run(tx).await?;
        Err(Refusal::Stale)
    }
}

pub struct PutThenPanic(pub String);

impl Run for PutThenPanic {
    type Out = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Refusal> {
        Put(self.0.clone()).run(tx).await?;
        panic!("on purpose");
    }
}

/// Breaks a rule that is only checked by the commit.
pub struct Orphan;

impl Run for Orphan {
    type Out = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Refusal> {
        tx.conn.run("INSERT INTO parts (note) VALUES (-1)", &[]).await?;
        Ok(())
    }
}

/// Changes the writing connection under the writer's feet.
pub struct Setting(pub &'static str);

impl Run for Setting {
    type Out = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Refusal> {
        tx.conn.rows(self.0, &[]).await?;
        Ok(())
    }
}

/// Keeps the writer busy until it is let go, as a hung sync does.
pub struct Hold {
    pub begun: Arc<Notify>,
    pub release: Arc<Notify>,
}

impl Run for Hold {
    type Out = ();

    async fn run(&self, _tx: &mut Tx<'_>) -> Result<(), Refusal> {
        self.begun.notify_one();
        self.release.notified().await;
        Ok(())
    }
}

/// Keeps the writer busy; returns when it is. What is submitted then shares a batch.
pub async fn hold(store: &ProbeStore) -> (Arc<Notify>, tokio::task::JoinHandle<()>) {
    let (begun, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let held = store.submit(Hold { begun: Arc::clone(&begun), release: Arc::clone(&release) });
    let held = tokio::spawn(async move { held.await.unwrap() });
    begun.notified().await;
    (release, held)
}

/// A home folder for one store, and what the store told.
pub struct Bench {
    pub folder: tempfile::TempDir,
    pub told: Arc<Mutex<Vec<Committed>>>,
}

impl Bench {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), told: Arc::default() }
    }

    pub fn options(&self) -> OpenOptions {
        OpenOptions::in_run_folder(self.folder.path())
    }

    pub fn database(&self) -> PathBuf {
        self.options().database
    }

    pub async fn try_open(&self) -> Result<ProbeStore, OpenError> {
        let told = Arc::clone(&self.told);
        ProbeStore::open(self.options(), move |batch| told.lock().unwrap().push(batch)).await
    }

    pub async fn open(&self) -> ProbeStore {
        self.try_open().await.unwrap()
    }

    /// After a store was dropped without being closed: its writer may still be at work.
    pub async fn open_after_drop(&self) -> ProbeStore {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            match self.try_open().await {
                Err(OpenError::Sql { reason, .. })
                    if reason.starts_with("another program") && Instant::now() < end =>
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                opened => return opened.unwrap(),
            }
        }
    }

    /// What was told since the last call, one entry per commit.
    pub fn take_told(&self) -> Vec<Committed> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }
}

/// Every note in order, read through the pool.
pub async fn notes(store: &ProbeStore) -> Vec<(i64, String)> {
    let read = store.read(async |conn| {
        let rows = conn.rows("SELECT ord, text FROM notes ORDER BY ord", &[]).await?;
        rows.iter().map(|row| Ok((row.int(0)?, row.text(1)?))).collect()
    });
    read.await.unwrap()
}

pub async fn put(store: &ProbeStore, text: &str) -> Result<i64, StoreError> {
    store.write(Put(text.to_owned())).await
}

pub fn seqs(told: &[Committed]) -> Vec<Vec<i64>> {
    let seqs = |batch: &Committed| batch.events.iter().map(|e| e.seq.unwrap()).collect();
    told.iter().map(seqs).collect()
}

pub fn frames(told: &[Committed]) -> Vec<Vec<String>> {
    let ids = |batch: &Committed| batch.frames.iter().map(|frame| frame.id.clone()).collect();
    told.iter().map(ids).collect()
}

//! The product's commands and schema on a bench, with what only a test may do to them, and the
//! whole of the tables as plain values.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use skep_core::engine::Capabilities;
use skep_core::ids::{AgentName, ChannelId, Principal};
use skep_store::agents::{NewAgent, RegisterAgents};
use skep_store::assign::Assign;
use skep_store::audit::AddAudit;
use skep_store::cancel::CancelTask;
use skep_store::close::Close;
use skep_store::expiry::ExpireTasks;
use skep_store::import::Import;
use skep_store::inbox::{Accept, Order, StopLane};
use skep_store::item_views::CancelItem;
use skep_store::journal::Journal;
use skep_store::lanes::{ClockSetBack, WakeLanes};
use skep_store::leases::{Recover, Release, Take};
use skep_store::letters::{CloseLetter, SendLetter};
use skep_store::outbox::{OpenChannel, RecordFrames};
use skep_store::questions::AnswerTask;
use skep_store::receive::Receive;
use skep_store::reminders::Remind;
use skep_store::requests::{BeginRequest, CloseRequest};
use skep_store::retention::Expire;
use skep_store::search::IndexSpoken;
use skep_store::sessions::{DeleteSession, EditSession, ForkSession};
use skep_store::shutdown::BeginShutdown;
use skep_store::spawn::BeginSpawn;
use skep_store::teams::GuardTeam;
use skep_store::threads::CancelThread;
use skep_store::waits::{Decide, Park};
use skep_store::{
    Command, CommandSet, Conn, OpenOptions, Refusal, Row, Run, SqlError, StoreOf, ToValue, Tx,
};

/// What the engine of these agents can do.
pub const ENGINE: Capabilities = Capabilities {
    queue_while_streaming: true,
    interrupt: true,
    tool_events: true,
    full_history: true,
    approvals: false,
    own_tools: false,
};

skep_store::commands! {
    pub enum Lab -> LabOutcome, <Command as CommandSet>::SCHEMA;
    RegisterAgents, OpenChannel, Accept, Order, StopLane, CancelItem, Take, Journal, Park, Release,
    Close, Decide, Recover, WakeLanes, Expire, Import, ForkSession, EditSession,
    DeleteSession, IndexSpoken, Prioritise, RecordFrames, Raw, AddAudit, TimedTake, TimedAccept,
    BeginRequest, CloseRequest, ClockSetBack, Assign, AnswerTask, CancelTask, ExpireTasks,
    SendLetter, CloseLetter, Receive, Remind, CancelThread, TimedAssign, TimedClose,
    BeginShutdown, BeginSpawn, GuardTeam,
}

pub type LabStore = StoreOf<Lab>;

/// Gives an item that waits behind an open turn another priority, as other senders will.
pub struct Prioritise {
    pub item: String,
    pub priority: i64,
}

impl Run for Prioritise {
    type Out = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Refusal> {
        let update = "UPDATE items SET priority = $2 WHERE id = $1";
        tx.conn.run(update, &[self.item.to_value(), self.priority.to_value()]).await?;
        Ok(())
    }
}

/// Statements of the test's own, in one commit.
pub struct Raw(pub Vec<String>);

impl Run for Raw {
    type Out = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Refusal> {
        for sql in &self.0 {
            let sql: &'static str = Box::leak(sql.clone().into_boxed_str());
            tx.conn.run(sql, &[]).await?;
        }
        Ok(())
    }
}

/// Runs a command, notes how long its statements took, and takes it back: nothing is committed,
/// so that it can be measured again.
pub struct Timed<C> {
    pub command: C,
    pub took: Arc<Mutex<Vec<Duration>>>,
}

pub type TimedTake = Timed<Take>;
pub type TimedAccept = Timed<Accept>;
pub type TimedAssign = Timed<Assign>;
pub type TimedClose = Timed<Close>;

impl<C: Run + Sync> Run for Timed<C> {
    type Out = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Refusal> {
        let begun = Instant::now();
        self.command.run(tx).await?;
        self.took.lock().unwrap().push(begun.elapsed());
        Err(Refusal::Stale)
    }
}

pub const AGENTS: [&str; 3] = ["ada", "ben", "cy"];
pub const CHANNELS: [&str; 2] = ["ws:1", "ws:2"];

pub async fn open(folder: &std::path::Path) -> LabStore {
    LabStore::open(OpenOptions::in_run_folder(folder), |_| {}).await.unwrap()
}

/// A new store with the agents and channels of the stories.
pub async fn furnished(folder: &std::path::Path) -> LabStore {
    let store = open(folder).await;
    let agents = AGENTS.map(|name| NewAgent::root(AgentName::new(name)));
    store.write(RegisterAgents { agents: agents.into(), now: 0 }).await.unwrap();
    for channel in CHANNELS.map(ChannelId::new) {
        let principal = Principal::new("operator");
        store.write(OpenChannel { channel, principal, now: 0 }).await.unwrap();
    }
    store
}

/// Everything the tables say about lanes, as the store or as a model sees it.
#[derive(Debug, Default, PartialEq)]
pub struct Tables {
    pub agents: Vec<AgentSeen>,
    pub lanes: Vec<LaneSeen>,
    pub turns: Vec<TurnSeen>,
    pub items: Vec<ItemSeen>,
    pub calls: Vec<CallSeen>,
    pub frames: Vec<FrameSeen>,
    /// Session, seq, message id, turn.
    pub history: Vec<(String, i64, String, String)>,
}

#[derive(Debug, PartialEq)]
pub struct AgentSeen {
    pub pending: i64,
    pub running: i64,
    pub waiting: i64,
    pub turns: i64,
    pub served: i64,
    pub ready: Option<i64>,
}

#[derive(Debug, PartialEq)]
pub struct LaneSeen {
    pub agent: i64,
    pub key: String,
    pub session: Option<String>,
    pub fresh: bool,
    pub token: i64,
    pub pending: i64,
    pub ready: Option<(i64, i64)>,
    pub due: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TurnSeen {
    pub id: String,
    pub lane: i64,
    pub session: String,
    pub token: i64,
    pub state: String,
    pub cancel: Option<String>,
    pub steps: i64,
    pub attempts: i64,
    pub available_at: Option<i64>,
    pub waiting_for: Option<String>,
    pub outcome: Option<String>,
}

#[derive(Debug, PartialEq)]
pub struct ItemSeen {
    pub id: String,
    pub ord: i64,
    pub lane: i64,
    pub message_id: String,
    pub channel: Option<String>,
    pub ack: String,
    pub state: String,
    pub turn: Option<String>,
    pub fresh: bool,
}

#[derive(Debug, PartialEq)]
pub struct CallSeen {
    pub turn: String,
    pub call: String,
    pub state: String,
    pub decided: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FrameSeen {
    pub channel: String,
    pub seq: i64,
    pub kind: String,
    pub item: String,
    pub in_reply_to: Vec<String>,
}

impl Tables {
    pub async fn read(store: &LabStore) -> Self {
        let read = store.read(async |conn| {
            Ok(Self {
                agents: agents(conn).await?,
                lanes: lanes(conn).await?,
                turns: turns(conn).await?,
                items: items(conn).await?,
                calls: calls(conn).await?,
                frames: frames(conn).await?,
                history: history(conn).await?,
            })
        });
        read.await.unwrap()
    }
}

async fn all<T>(
    conn: &mut Conn,
    sql: &'static str,
    decode: impl Fn(&Row) -> Result<T, SqlError>,
) -> Result<Vec<T>, SqlError> {
    conn.rows(sql, &[]).await?.iter().map(decode).collect()
}

async fn agents(conn: &mut Conn) -> Result<Vec<AgentSeen>, SqlError> {
    let sql = "SELECT pending, running, waiting, turns, served, ready_priority FROM agents \
               ORDER BY id";
    let decode = |row: &Row| {
        Ok(AgentSeen {
            pending: row.int(0)?,
            running: row.int(1)?,
            waiting: row.int(2)?,
            turns: row.int(3)?,
            served: row.int(4)?,
            ready: row.get(5)?,
        })
    };
    all(conn, sql, decode).await
}

async fn lanes(conn: &mut Conn) -> Result<Vec<LaneSeen>, SqlError> {
    let sql = "SELECT agent, key, session, fresh, token, pending, ready_priority, ready_ord, \
               due_at FROM lanes ORDER BY id";
    let decode = |row: &Row| {
        Ok(LaneSeen {
            agent: row.int(0)?,
            key: row.text(1)?,
            session: row.get(2)?,
            fresh: row.get(3)?,
            token: row.int(4)?,
            pending: row.int(5)?,
            ready: row.get::<Option<i64>>(6)?.zip(row.get(7)?),
            due: row.get(8)?,
        })
    };
    all(conn, sql, decode).await
}

async fn turns(conn: &mut Conn) -> Result<Vec<TurnSeen>, SqlError> {
    let sql = "SELECT id, lane, session, token, state, cancel, steps, attempts, available_at, \
               waiting_for, outcome FROM turns ORDER BY rowid";
    let decode = |row: &Row| {
        Ok(TurnSeen {
            id: row.text(0)?,
            lane: row.int(1)?,
            session: row.text(2)?,
            token: row.int(3)?,
            state: row.text(4)?,
            cancel: row.get(5)?,
            steps: row.int(6)?,
            attempts: row.int(7)?,
            available_at: row.get(8)?,
            waiting_for: row.get(9)?,
            outcome: row.get(10)?,
        })
    };
    all(conn, sql, decode).await
}

async fn items(conn: &mut Conn) -> Result<Vec<ItemSeen>, SqlError> {
    let sql = "SELECT id, ord, lane, message_id, channel, ack, state, turn, fresh FROM items \
               ORDER BY ord";
    let decode = |row: &Row| {
        Ok(ItemSeen {
            id: row.text(0)?,
            ord: row.int(1)?,
            lane: row.int(2)?,
            message_id: row.text(3)?,
            channel: row.get(4)?,
            ack: row.text(5)?,
            state: row.text(6)?,
            turn: row.get(7)?,
            fresh: row.get(8)?,
        })
    };
    all(conn, sql, decode).await
}

async fn calls(conn: &mut Conn) -> Result<Vec<CallSeen>, SqlError> {
    let sql = "SELECT turn, call_id, state, decision IS NOT NULL FROM calls \
               ORDER BY turn, call_id";
    let decode = |row: &Row| {
        Ok(CallSeen {
            turn: row.text(0)?,
            call: row.text(1)?,
            state: row.text(2)?,
            decided: row.get(3)?,
        })
    };
    all(conn, sql, decode).await
}

async fn frames(conn: &mut Conn) -> Result<Vec<FrameSeen>, SqlError> {
    let sql = "SELECT channel, seq, kind, item, payload FROM outbox ORDER BY channel, seq";
    let decode = |row: &Row| {
        let payload: serde_json::Value = serde_json::from_str(&row.text(4)?).unwrap();
        let to = payload["in_reply_to"].as_array().cloned().unwrap_or_default();
        Ok(FrameSeen {
            channel: row.text(0)?,
            seq: row.int(1)?,
            kind: row.text(2)?,
            item: row.text(3)?,
            in_reply_to: to.iter().map(|id| id.as_str().unwrap().to_owned()).collect(),
        })
    };
    all(conn, sql, decode).await
}

async fn history(conn: &mut Conn) -> Result<Vec<(String, i64, String, String)>, SqlError> {
    let sql = "SELECT h.session, h.seq, h.id, h.turn FROM sessions s JOIN history h \
               ON h.session = s.id ORDER BY s.rowid, h.seq";
    all(conn, sql, |row| Ok((row.text(0)?, row.int(1)?, row.text(2)?, row.text(3)?))).await
}

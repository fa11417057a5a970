//! The commands of the product, joined, and the schema they run on.

use crate::engine::command::{MigrationFile, Schema};
use crate::tables::agents::{RegisterAgent, RegisterAgents};
use crate::tables::approvals::{AnswerApproval, ExpireReopened, NoteRefused, Reopen};
use crate::tables::audit::AddAudit;
use crate::tables::begin::BeginSession;
use crate::tables::close::Close;
use crate::tables::import::Import;
use crate::tables::inbox::{Accept, Order, StopLane};
use crate::tables::item_views::{CancelItem, Retry};
use crate::tables::journal::Journal;
use crate::tables::lanes::{Unhold, WakeLanes};
use crate::tables::leases::{Recover, Release, RenewLeases, Take, TakeOver};
use crate::tables::outbox::{OpenChannel, RecordFrames};
use crate::tables::outcomes::Resolve;
use crate::tables::people::browsers::{SignIn, SignOut};
use crate::tables::people::grants::{AddGrant, RevokeGrant};
use crate::tables::people::requests::{BeginRequest, CloseRequest};
use crate::tables::people::tokens::{AddToken, RevokeToken};
use crate::tables::retention::Expire;
use crate::tables::search::IndexSpoken;
use crate::tables::sessions::ForkSession;
use crate::tables::spend::{ChargeLost, Unsettled};
use crate::tables::waits::{Decide, Park};
use crate::tables::watch::NoteEvent;

crate::commands! {
    /// Every write there is.
    pub enum Command -> Outcome, SCHEMA;
    RegisterAgents,
    RegisterAgent,
    Accept,
    Order,
    StopLane,
    CancelItem,
    Retry,
    BeginSession,
    Take,
    Journal,
    Park,
    Release,
    Close,
    Decide,
    AnswerApproval,
    Reopen,
    ExpireReopened,
    NoteRefused,
    AddGrant,
    RevokeGrant,
    Recover,
    RenewLeases,
    TakeOver,
    WakeLanes,
    Unhold,
    OpenChannel,
    BeginRequest,
    CloseRequest,
    RecordFrames,
    AddToken,
    RevokeToken,
    NoteEvent,
    Expire,
    SignIn,
    SignOut,
    IndexSpoken,
    ForkSession,
    Import,
    AddAudit,
    Unsettled,
    ChargeLost,
    Resolve,
}

const SCHEMA: Schema = Schema {
    migrations: &[
        MigrationFile {
            version: 1,
            name: "spine",
            sql: include_str!("../migrations/sqlite/0001_spine.sql"),
        },
        MigrationFile {
            version: 2,
            name: "history",
            sql: include_str!("../migrations/sqlite/0002_history.sql"),
        },
        MigrationFile {
            version: 3,
            name: "engine",
            sql: include_str!("../migrations/sqlite/0003_engine.sql"),
        },
        MigrationFile {
            version: 4,
            name: "files",
            sql: include_str!("../migrations/sqlite/0004_files.sql"),
        },
        MigrationFile {
            version: 5,
            name: "doors",
            sql: include_str!("../migrations/sqlite/0005_doors.sql"),
        },
        MigrationFile {
            version: 6,
            name: "tasks",
            sql: include_str!("../migrations/sqlite/0006_tasks.sql"),
        },
        MigrationFile {
            version: 8,
            name: "browsers",
            sql: include_str!("../migrations/sqlite/0008_browsers.sql"),
        },
        MigrationFile {
            version: 9,
            name: "approvals",
            sql: include_str!("../migrations/sqlite/0009_approvals.sql"),
        },
        MigrationFile {
            version: 10,
            name: "audit",
            sql: include_str!("../migrations/sqlite/0010_audit.sql"),
        },
        MigrationFile {
            version: 11,
            name: "budgets",
            sql: include_str!("../migrations/sqlite/0011_budgets.sql"),
        },
        MigrationFile {
            version: 13,
            name: "usage",
            sql: include_str!("../migrations/sqlite/0013_usage.sql"),
        },
        MigrationFile {
            version: 14,
            name: "fewer_trees",
            sql: include_str!("../migrations/sqlite/0014_fewer_trees.sql"),
        },
        MigrationFile {
            version: 20,
            name: "unused",
            sql: include_str!("../migrations/sqlite/0020_unused.sql"),
        },
        MigrationFile {
            version: 21,
            name: "client gone",
            sql: include_str!("../migrations/sqlite/0021_client_gone.sql"),
        },
        MigrationFile {
            version: 22,
            name: "shares",
            sql: include_str!("../migrations/sqlite/0022_shares.sql"),
        },
        MigrationFile {
            version: 23,
            name: "hive",
            sql: include_str!("../migrations/sqlite/0023_hive.sql"),
        },
    ],
    counters: "SELECT (SELECT max(seq) FROM events), \
               (SELECT max(top) FROM (SELECT max(ord) AS top FROM items \
               UNION ALL SELECT max(served) FROM agents))",
    audited: true,
};

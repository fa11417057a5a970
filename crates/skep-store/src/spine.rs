//! The commands of the product, joined, and the schema they run on.

use skep_db::{MigrationFile, Schema};

use crate::tables::agents::{InstallAgents, KeepBuckets, RegisterAgents, SayDoing, WantAgent};
use crate::tables::approvals::{ExpireReopened, NoteRefused, Reopen};
use crate::tables::audit::AddAudit;
use crate::tables::begin::BeginSession;
use crate::tables::close::Close;
use crate::tables::import::Import;
use crate::tables::inbox::{Accept, Order, StopLane};
use crate::tables::item_views::{CancelItem, Retry};
use crate::tables::journal::Journal;
use crate::tables::lanes::{ClockSetBack, Unhold, WakeLanes};
use crate::tables::leases::{Recover, Release, RenewLeases, Take};
use crate::tables::org::assign::Assign;
use crate::tables::org::cancel::CancelTask;
use crate::tables::org::expiry::ExpireTasks;
use crate::tables::org::letters::{CloseLetter, SendLetter};
use crate::tables::org::questions::AnswerTask;
use crate::tables::org::receive::Receive;
use crate::tables::org::reminders::Remind;
use crate::tables::org::shutdown::{
    BeginShutdown, CheckShutdown, EndShutdown, EndWork, RemoveAgents,
};
use crate::tables::org::spawn::{
    BeginSpawn, BeginUndo, CheckSpawn, FinishSpawn, PlaceSpawned, UndoSpawn,
};
use crate::tables::org::teams::{ChangeScope, GuardTeam};
use crate::tables::org::threads::CancelThread;
use crate::tables::outbox::{OpenChannel, RecordFrames};
use crate::tables::outcomes::Resolve;
use crate::tables::people::browsers::{SignIn, SignOut};
use crate::tables::people::grants::{AddGrant, RevokeGrant};
use crate::tables::people::requests::{BeginRequest, CloseRequest};
use crate::tables::people::tokens::{AddToken, RevokeToken};
use crate::tables::people::vault::ChangeVault;
use crate::tables::retention::Expire;
use crate::tables::search::IndexSpoken;
use crate::tables::sessions::{DeleteSession, EditSession, ForkSession};
use crate::tables::spend::{ChargeLost, Unsettled, Unusable};
use crate::tables::waits::{AnswerApproval, Decide, Park, RetryNow};
use crate::tables::watch::NoteEvent;

skep_db::commands! {
    /// Every write there is.
    pub enum Command -> Outcome, SCHEMA;
    RegisterAgents, InstallAgents, WantAgent, Accept, Order, StopLane, CancelItem, Retry,
    BeginSession, Take, Journal, Park, RetryNow, Release, Close, Decide, AnswerApproval, Reopen,
    ExpireReopened, NoteRefused, AddGrant, RevokeGrant, Recover, RenewLeases, WakeLanes, Unhold,
    OpenChannel, BeginRequest, CloseRequest, RecordFrames, AddToken, RevokeToken, NoteEvent,
    Expire, SignIn, SignOut, IndexSpoken, ForkSession, EditSession, DeleteSession, Import,
    AddAudit, Unsettled, Unusable, ChargeLost, Resolve, ClockSetBack, KeepBuckets, ChangeVault,
    Assign, AnswerTask, CancelTask, ExpireTasks, SendLetter, CloseLetter, Receive, Remind,
    CancelThread, SayDoing, ChangeScope, GuardTeam, CheckSpawn, BeginSpawn, PlaceSpawned,
    FinishSpawn, BeginUndo, UndoSpawn, CheckShutdown, BeginShutdown, EndWork, RemoveAgents,
    EndShutdown,
}

const SCHEMA: Schema = Schema {
    migrations: &[
        migration(1, "spine", include_str!("../migrations/sqlite/0001_spine.sql")),
        migration(2, "history", include_str!("../migrations/sqlite/0002_history.sql")),
        migration(3, "engine", include_str!("../migrations/sqlite/0003_engine.sql")),
        migration(4, "files", include_str!("../migrations/sqlite/0004_files.sql")),
        migration(5, "doors", include_str!("../migrations/sqlite/0005_doors.sql")),
        migration(6, "tasks", include_str!("../migrations/sqlite/0006_tasks.sql")),
        migration(8, "browsers", include_str!("../migrations/sqlite/0008_browsers.sql")),
        migration(9, "approvals", include_str!("../migrations/sqlite/0009_approvals.sql")),
        migration(10, "audit", include_str!("../migrations/sqlite/0010_audit.sql")),
        migration(11, "budgets", include_str!("../migrations/sqlite/0011_budgets.sql")),
        migration(13, "usage", include_str!("../migrations/sqlite/0013_usage.sql")),
        migration(14, "fewer_trees", include_str!("../migrations/sqlite/0014_fewer_trees.sql")),
        migration(20, "unused", include_str!("../migrations/sqlite/0020_unused.sql")),
        migration(21, "client gone", include_str!("../migrations/sqlite/0021_client_gone.sql")),
        migration(22, "shares", include_str!("../migrations/sqlite/0022_shares.sql")),
        migration(23, "hive", include_str!("../migrations/sqlite/0023_hive.sql")),
        migration(24, "patterns", include_str!("../migrations/sqlite/0024_patterns.sql")),
        migration(25, "conversations", include_str!("../migrations/sqlite/0025_conversations.sql")),
        migration(26, "stop_reason", include_str!("../migrations/sqlite/0026_stop_reason.sql")),
        migration(27, "frames by channel", include_str!("../migrations/sqlite/0027_frames.sql")),
        migration(28, "tried frames", include_str!("../migrations/sqlite/0028_tried.sql")),
        migration(29, "egress buckets", include_str!("../migrations/sqlite/0029_egress.sql")),
        migration(
            30,
            "lighter writes",
            include_str!("../migrations/sqlite/0030_lighter_writes.sql"),
        ),
        migration(31, "vault", include_str!("../migrations/sqlite/0031_vault.sql")),
        migration(32, "tasks", include_str!("../migrations/sqlite/0032_tasks.sql")),
        migration(
            33,
            "operator_tasks",
            include_str!("../migrations/sqlite/0033_operator_tasks.sql"),
        ),
        migration(35, "questions", include_str!("../migrations/sqlite/0035_questions.sql")),
        migration(36, "letters", include_str!("../migrations/sqlite/0036_letters.sql")),
        migration(37, "reminders", include_str!("../migrations/sqlite/0037_reminders.sql")),
        migration(38, "doing", include_str!("../migrations/sqlite/0038_doing.sql")),
        migration(39, "teams", include_str!("../migrations/sqlite/0039_teams.sql")),
        migration(40, "given_tasks", include_str!("../migrations/sqlite/0040_given_tasks.sql")),
        migration(41, "times", include_str!("../migrations/sqlite/0041_times.sql")),
        migration(42, "subagents", include_str!("../migrations/sqlite/0042_subagents.sql")),
        migration(43, "item_skill", include_str!("../migrations/sqlite/0043_item_skill.sql")),
    ],
    counters: "SELECT (SELECT max(seq) FROM events), \
               (SELECT max(top) FROM (SELECT max(ord) AS top FROM items \
               UNION ALL SELECT max(served) FROM agents))",
    audited: true,
};

const fn migration(version: i64, name: &'static str, sql: &'static str) -> MigrationFile {
    MigrationFile { version, name, sql }
}

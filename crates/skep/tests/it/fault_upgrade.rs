//! A home of the first schema is started by this program, and ended at any file operation of that:
//! the next start finishes it, and everything that was said is there and can be found.

use std::path::Path;

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::json;
use skep_store::{
    Command, CommandSet, MigrationFile, OpenOptions, Refusal, Run, Schema, StoreOf, ToValue, Tx,
};
use skep_testkit::hive::Start;
use skep_testkit::locate;
use skep_testkit::shim::{End, Shim};

const SPINE: Schema = Schema {
    migrations: &[MigrationFile {
        version: 1,
        name: "spine",
        sql: include_str!("../../../skep-store/migrations/sqlite/0001_spine.sql"),
    }],
    counters: <Command as CommandSet>::SCHEMA.counters,
    audited: false,
};

skep_store::commands! {
    pub enum Old -> OldOutcome, SPINE;
    Fill,
}

const SESSIONS: i64 = 40;
const MESSAGES: i64 = 50;

/// An agent with conversations of which every message names itself.
pub struct Fill;

impl Run for Fill {
    type Out = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Refusal> {
        for sql in [
            "INSERT INTO agents (id, name, created_at, status) VALUES (1, 'main', 0, 'active')",
            "INSERT INTO lanes (id, agent, key) VALUES (1, 1, 'main')",
        ] {
            tx.conn.run(sql, &[]).await?;
        }
        for number in 0..SESSIONS {
            let (session, turn) = (format!("s{number}"), format!("t{number}"));
            let insert = "INSERT INTO sessions (id, agent, key, created_at, last_at, last_seq) \
                          VALUES ($1, 1, 'main', 0, $2, $3)";
            tx.conn
                .run(insert, &[session.to_value(), number.to_value(), MESSAGES.to_value()])
                .await?;
            let insert = "INSERT INTO turns (id, lane, agent, session, priority, ord, token, \
                          state, first_seq, started_at, changed_at, ended_at) VALUES \
                          ($1, 1, 1, $2, 2, $3, 1, 'ended', 1, 0, 0, 0)";
            tx.conn.run(insert, &[turn.to_value(), session.to_value(), number.to_value()]).await?;
            for seq in 1..=MESSAGES {
                let text = format!("word{number}x{seq} {}", "filler ".repeat(20));
                let body = json!({"role": "user", "content": [{"type": "text", "text": text}]});
                let insert = "INSERT INTO history (session, seq, id, turn, at, spoken, body) \
                              VALUES ($1, $2, $3, $4, $2, 1, $5)";
                let (id, body) = (format!("m{number}-{seq}"), body.to_string());
                let args = [
                    session.to_value(),
                    seq.to_value(),
                    id.to_value(),
                    turn.to_value(),
                    body.to_value(),
                ];
                tx.conn.run(insert, &args).await?;
            }
        }
        tx.conn.run("UPDATE lanes SET session = 's0'", &[]).await?;
        Ok(())
    }
}

async fn old_home(home: &Path) {
    let run = home.join("run");
    let main = home.join("teams/main");
    for folder in [&run, &main] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(main.join("config.yaml"), "description: an old hand\n").unwrap();
    let store = StoreOf::<Old>::open(OpenOptions::in_run_folder(&run), |_| {}).await.unwrap();
    store.write(Fill).await.unwrap();
    store.close().await;
}

/// The first start on the old home ends where `end` says; the next one has everything. Gives the
/// operations of the first.
async fn upgraded(end: End) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    old_home(&home).await;
    let skep = locate::skep().unwrap();
    let shim = Shim::new(&home).unwrap();
    shim.prepare(end).unwrap();
    let mut first = Start::up(&skep, &home).shim(&shim).spawn().unwrap();
    if first.wait_listening().await.is_ok() {
        if end == End::Never {
            first.wait_ready().await.unwrap();
        }
        if first.is_running() {
            first.kill().await.unwrap();
        }
    }
    let count = shim.count().unwrap();
    let second = Start::up(&skep, &home).listening().await;
    let mut second = second.unwrap_or_else(|error| panic!("{end:?}: {error:#}"));
    let api = second.socket_api().unwrap();
    let get = async |path: String| api.get(&path).await.unwrap().good().unwrap();
    let listed = get("/api/v1/agents/main/sessions?limit=500".to_owned()).await;
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!(i64::try_from(sessions.len()).unwrap(), SESSIONS, "{end:?}");
    assert!(sessions.iter().all(|it| it["title"].as_str().unwrap().starts_with("word")), "{end:?}");
    for (number, seq) in [(0, 1), (SESSIONS - 1, MESSAGES), (17, 23)] {
        // Indexed in pieces after the start: asked until the piece with it is there.
        let path = format!("/api/v1/search?q=word{number}x{seq}");
        let hit = loop {
            let page = get(path.clone()).await;
            match page["hits"].get(0) {
                Some(hit) => break hit.clone(),
                None => assert!(page["unindexed"].as_i64() > Some(0), "{end:?}: {page}"),
            }
        };
        assert_eq!(
            (hit["session"].as_str().unwrap(), hit["seq"].as_i64()),
            (&*format!("s{number}"), Some(seq))
        );
    }
    second.kill().await.unwrap();
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_killed_at_any_operation_is_finished_by_the_next_start() {
    let whole = upgraded(End::Never).await;
    let points = if skep_testkit::all() { whole.min(200) } else { 12 };
    let ends = (0..points).map(|point| {
        let at = 1 + point * whole / points;
        if point % 3 == 2 { End::PowerLoss { at, seed: at } } else { End::Kill(at) }
    });
    let ran: Vec<u64> = stream::iter(ends).map(upgraded).buffer_unordered(3).collect().await;
    println!("{} points over the {whole} operations of an upgrade", ran.len());
}

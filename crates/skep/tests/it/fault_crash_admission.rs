//! Calls that wait for a place among those of their agent, while the hive is killed and stopped:
//! a call that has not begun is still to run, and every call leaves one row in the audit trail.

use std::collections::BTreeMap;
use std::process::Command;

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::wait::{self, PATIENCE};

use crate::fault_crash_journal::{Journal, word};
use crate::stage::{Play, Stage};

/// Calls of one agent that run at the same time.
const PLACES: usize = 5;

/// The message is a call, as `TOOL JSON`; whatever it answers, the model is done.
fn obeys(stage: &Stage) {
    stage.model.answer_with(|request| match request.last_tool_results().as_slice() {
        [] => {
            let text = request.last_user_text();
            let lines = text.rsplit('\n').next().unwrap().split(" & ");
            lines.fold(Reply::new(), |reply, line| {
                let (tool, arguments) = line.split_once(' ').unwrap();
                reply.tool(tool, serde_json::from_str(arguments).unwrap())
            })
        }
        _ => Reply::say("done"),
    });
}

/// Rows of the trail by `turn/call`, from the database of a hive that does not run.
fn audited(stage: &Stage) -> BTreeMap<String, Vec<String>> {
    let sql = "SELECT json_group_array(json_array(turn || '/' || call_id, outcome)) FROM audit \
               WHERE kind = 'call'";
    let database = stage.home().join("run/skep.db");
    let asked = Command::new("sqlite3").arg(database).arg(sql).output().unwrap();
    let rows: Vec<(String, String)> = serde_json::from_slice(&asked.stdout).unwrap();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (call, outcome) in rows {
        found.entry(call).or_default().push(outcome);
    }
    found
}

/// Every call has one row and no row is about anything else.
fn check_audit(stage: &Stage, journal: &Journal) -> BTreeMap<String, Vec<String>> {
    let rows = audited(stage);
    let twice: Vec<_> = rows.iter().filter(|(_, outcomes)| outcomes.len() != 1).collect();
    assert!(twice.is_empty(), "calls with more than one row: {twice:?}");
    let calls = journal.calls_by_name();
    assert!(calls.keys().eq(rows.keys()), "calls {:?}\nrows {rows:?}", calls.keys());
    rows
}

async fn stopped(play: &mut Play) {
    play.hive.terminate().unwrap();
    assert!(play.hive.wait(PATIENCE).await.unwrap().success());
}

/// Holds every place of the agent until the hive ends.
async fn fill_places(play: &Play) {
    for number in 0..PLACES {
        play.item("main", &format!("holds{number}"), "hang {}").await;
    }
    let held = wait::until_async("every place to be taken", PATIENCE, async || {
        let started = play.events().await;
        (started.iter().filter(|event| event["type"] == "tool_start").count() >= PLACES)
            .then_some(())
    });
    held.await.unwrap();
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Kill,
    Terminate,
}

/// What waits for a place is planned, on the disk, and runs once the hive is back.
#[tokio::test]
async fn fault_a_call_that_waits_for_its_place_is_planned_and_runs_after_the_restart() {
    for end in [End::Kill, End::Terminate] {
        let stage = Stage::new().await;
        stage.write("skep.yaml", "limits: {drain_seconds: 0}\n");
        obeys(&stage);
        let mut play = stage.up().await;
        fill_places(&play).await;
        let asks = play.item("main", "approved", "reach {\"text\": \"a\"}").await;
        let asked = play.question().await;
        play.answer(&asked, "approve").await.good().unwrap();
        let plain = play.item("main", "plain", "effect {\"text\": \"b\"}").await;
        play.until_history("main", "plain", "the step", |rows| rows.len() == 2).await;
        play.until_state("main", &asks, "running").await;
        match end {
            End::Kill => play.hive.kill().await.unwrap(),
            End::Terminate => stopped(&mut play).await,
        }
        let journal = Journal::of(stage.home());
        let waits = |tool: &str| {
            let found = journal.calls.iter().find(|call| call["tool"] == tool).unwrap();
            (word(&found["state"]).to_owned(), journal.result(found).is_some())
        };
        assert_eq!(waits("effect"), ("planned".to_owned(), false), "{end:?}");
        let approved = waits("reach");
        assert!(["planned", "waiting"].contains(&approved.0.as_str()), "{end:?}: {approved:?}");
        assert_eq!(stage.effects.total().unwrap(), 0);
        let mut play = stage.up().await;
        for number in 0..PLACES {
            play.stop("main", &format!("holds{number}")).await;
        }
        for item in [&asks, &plain] {
            let ended = play.ended("main", item).await;
            assert_eq!(ended["response"]["content"], "done", "{end:?}: {ended}");
        }
        assert_eq!(stage.effects.total().unwrap(), 2, "{end:?}");
        assert_eq!(stage.effects.repeated().unwrap(), Vec::<String>::new());
        assert_eq!(play.state().await["unknown_calls"], json!([]), "{end:?}");
        stopped(&mut play).await;
        check_audit(&stage, &Journal::of(stage.home()));
    }
}

/// However a turn ends: what it did not run has its row, too.
#[tokio::test]
async fn fault_every_call_has_one_audit_row_also_where_its_turn_is_stopped() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits: {drain_seconds: 0}\n");
    obeys(&stage);
    let mut play = stage.up().await;
    // The first runs, the others are planned behind it.
    play.item("main", "behind", "hang {} & effect {\"text\": \"a\"} & look {}").await;
    play.item("main", "hangs", "hang {}").await;
    for number in 2..PLACES {
        play.item("main", &format!("holds{number}"), "hang {}").await;
    }
    let begun = async |count: usize| {
        let begun = wait::until_async("calls to begin", PATIENCE, async || {
            let events = play.events().await;
            let starts = events.iter().filter(|event| event["type"] == "tool_start");
            (starts.count() >= count).then_some(())
        });
        begun.await.unwrap();
    };
    begun(PLACES).await;
    // These wait for a place, with and without effects, and one for a person.
    play.item("main", "effects", "effect {\"text\": \"b\"}").await;
    play.item("main", "looks", "look {} & look {}").await;
    play.item("main", "asks", "reach {\"text\": \"c\"} & effect {\"text\": \"d\"}").await;
    for session in ["effects", "looks"] {
        play.until_history("main", session, "the step", |rows| rows.len() == 2).await;
    }
    // Those that wait first: each end gives a place to the next.
    let sessions = ["effects", "looks", "asks", "behind"];
    for session in sessions {
        assert!(play.stop("main", session).await, "{session}");
        play.until_history("main", session, "its end", |rows| {
            let calls = rows[1]["content"].as_array().unwrap().iter();
            let calls = calls.filter(|block| block["type"] == "toolCall").count();
            rows.len() >= 2 + calls
        })
        .await;
    }
    for number in 2..PLACES {
        play.stop("main", &format!("holds{number}")).await;
    }
    play.stop("main", "hangs").await;
    let quiet = wait::until_async("every turn to end", PATIENCE, async || {
        (play.state().await["turns"] == json!([])).then_some(())
    });
    quiet.await.unwrap();
    stopped(&mut play).await;
    let journal = Journal::of(stage.home());
    let rows = check_audit(&stage, &journal);
    let cancelled = rows.values().filter(|outcomes| outcomes[0] == "cancelled").count();
    assert_eq!((cancelled, stage.effects.total().unwrap()), (7, 0), "{rows:?}");
}

/// The moments at which the hive ends, spread over the calls, kills and stops mixed.
fn ends(kills: usize, stops: usize) -> Vec<End> {
    let all = kills + stops;
    let is_stop = |at: usize| (at * stops) % all + stops >= all;
    (0..all).map(|at| if is_stop(at) { End::Terminate } else { End::Kill }).collect()
}

/// A message in a session of its own for each call of the tool; their items.
async fn tell_all(play: &Play, tool: &str, count: usize) -> Vec<String> {
    let sent = (0..count).map(async |number| {
        let session = format!("{tool}{number}");
        let call = json!({"text": session, "ms": 20 + number % 30});
        play.item("main", &session, &format!("{tool} {call}")).await
    });
    stream::iter(sent).buffer_unordered(16).collect().await
}

/// Approved and plain calls of one agent, of which five run at once, through kills and stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_calls_behind_admission_run_once_through_kills_and_stops() {
    let (each, kills, stops) = if skep_testkit::all() { (200, 20, 5) } else { (40, 4, 2) };
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits: {drain_seconds: 0, concurrent_turns: 512}\n");
    obeys(&stage);
    let mut play = stage.up().await;
    let mut items = tell_all(&play, "reach", each).await;
    let open = wait::until_async("every question", PATIENCE, async || {
        let path = "/api/v1/approvals?state=open&agent=main&limit=500";
        let page = play.api().get(path).await.unwrap().good().unwrap();
        let open = page["approvals"].as_array().unwrap().clone();
        (open.len() == each).then_some(open)
    });
    let open: Vec<Value> = open.await.unwrap();
    let answers = open.iter().map(|asked| play.answer(asked, "approve"));
    let answers: Vec<_> = stream::iter(answers).buffer_unordered(16).collect().await;
    answers.into_iter().for_each(|answer| drop(answer.good().unwrap()));
    items.extend(tell_all(&play, "effect", each).await);
    let ends = ends(kills, stops);
    for (round, end) in ends.iter().enumerate() {
        // Each of them after a few more effects, so that the others still wait.
        let wanted = (round + 1) * 2 * each / (ends.len() + 2);
        let more =
            wait::until_true("more effects", PATIENCE, || stage.effects.total().unwrap() >= wanted);
        more.await.unwrap();
        match end {
            End::Kill => play.hive.kill().await.unwrap(),
            End::Terminate => stopped(&mut play).await,
        }
        play = stage.up().await;
    }
    for item in &items {
        let ended = play.ended("main", item).await;
        assert_eq!(
            (&ended["state"], &ended["response"]["content"]),
            (&json!("done"), &json!("done"))
        );
    }
    let listed = play.state().await["unknown_calls"].as_array().unwrap().len();
    stopped(&mut play).await;
    let journal = Journal::of(stage.home());
    let calls = journal.calls_by_name();
    assert_eq!(calls.len(), 2 * each, "a call for each message");
    assert_eq!(stage.effects.repeated().unwrap(), Vec::<String>::new());
    let effects = stage.effects.counts().unwrap();
    let (mut unknown, mut lost) = (0, Vec::new());
    for (name, call) in &calls {
        match word(&call["state"]) {
            "unknown" => unknown += 1,
            "done" if effects.contains_key(name) => {}
            _ => lost.push(*call),
        }
    }
    assert!(lost.is_empty(), "neither ran nor unknown: {lost:?}");
    assert!(unknown == listed && unknown <= kills * PLACES, "{unknown} unknown, {listed} listed");
    check_audit(&stage, &journal);
    println!("{} calls, {kills} kills, {stops} stops: {unknown} unknown", calls.len());
}

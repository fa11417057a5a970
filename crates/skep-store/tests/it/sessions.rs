//! Sessions in the store: upgraded from the first schema, found by their words, forked, carried.

use std::time::{Duration, Instant};

use serde_json::json;
use skep_core::ids::*;
use skep_core::message::{Block, Body, Message, Origin, history_tag};
use skep_core::query;
use skep_store::history;
use skep_store::import::{Import, Imported};
use skep_store::search::{self, Hit, IndexSpoken, MARK, Search};
use skep_store::sessions::{self, ForkSession};
use skep_store::{
    Command, CommandSet, MigrationFile, OpenOptions, Refusal, Schema, StoreError, StoreOf,
};

use crate::lab::{LabStore, Raw, furnished, open};

const SPINE: Schema = Schema {
    migrations: &[MigrationFile {
        version: 1,
        name: "spine",
        sql: include_str!("../../migrations/sqlite/0001_spine.sql"),
    }],
    counters: <Command as CommandSet>::SCHEMA.counters,
    audited: false,
};

skep_store::commands! {
    /// The store as it was when only the first schema existed.
    pub enum Old -> OldOutcome, SPINE;
    Raw,
}

pub fn user(text: &str) -> Body {
    let origin = Origin {
        item: ItemId::new("i"),
        message_id: MessageId::new("m"),
        channel: "api".to_owned(),
        principal: "operator".to_owned(),
        kind: None,
    };
    Body::user(text, Vec::new(), origin)
}

pub fn said(text: &str) -> Body {
    Body::assistant(vec![Block::text(text)], None)
}

fn asks(calls: &[&str]) -> Body {
    let call = |id: &&str| Block::ToolCall {
        id: CallId::new(*id),
        name: "read".to_owned(),
        arguments: json!({}),
    };
    Body::assistant(calls.iter().map(call).collect(), None)
}

fn result(call: &str, text: &str) -> Body {
    Body::tool_result(CallId::new(call), "read", text.to_owned(), false)
}

fn messages(agent: &str, session: &str, bodies: Vec<Body>) -> Vec<Message> {
    let rows = (1..).zip(bodies).map(|(seq, body)| Message {
        tag: history_tag(),
        id: format!("{session}-{seq}"),
        agent_id: AgentName::new(agent),
        session_id: SessionId::new(session),
        turn: TurnId(format!("turn-of-{session}")),
        seq,
        timestamp: 1000 + seq,
        body,
    });
    rows.collect()
}

/// The agents of the lab have the ids 1, 2, 3.
pub fn import(agent: i64, name: &str, session: &str, key: &str, bodies: Vec<Body>) -> Import {
    Import {
        agent: AgentId(agent),
        agent_name: AgentName::new(name),
        session: SessionId::new(session),
        key: SessionKey::new(key),
        messages: messages(name, session, bodies),
        bytes: 1,
        now: 9,
    }
}

pub async fn find(store: &LabStore, words: &str, agent: Option<i64>, prefix: &str) -> Vec<Hit> {
    while store.write(IndexSpoken { rows: 2 }).await.unwrap() > 0 {}
    let terms = query::parse(words).unwrap().notation();
    let expression = search::expression(&terms, agent.map(AgentId));
    let read = store.read(async |conn| {
        let wanted = Search { expression: &expression, prefix, before: None, limit: 50 };
        search::search(conn, wanted, || true).await
    });
    read.await.unwrap().unwrap()
}

fn places(hits: &[Hit]) -> Vec<(&str, i64)> {
    hits.iter().map(|hit| (hit.session.as_str(), hit.seq)).collect()
}

#[tokio::test]
async fn a_database_of_the_first_schema_is_taken_over_with_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions::in_run_folder(folder.path());
    let old = StoreOf::<Old>::open(options, |_| {}).await.unwrap();
    let spoken = |body: &Body| serde_json::to_string(body).unwrap().replace('\'', "''");
    let mut rows = vec![
        "INSERT INTO agents (id, name, created_at) VALUES (1, 'ada', 0)".to_owned(),
        "INSERT INTO sessions (id, agent, key, created_at, last_at, last_seq) VALUES \
         ('s', 1, 'main', 5, 9, 3)"
            .to_owned(),
        "INSERT INTO lanes (id, agent, key, session) VALUES (1, 1, 'main', 's')".to_owned(),
        "INSERT INTO turns (id, lane, agent, session, priority, ord, token, state, first_seq, \
         started_at, changed_at, ended_at) VALUES ('t', 1, 1, 's', 2, 1, 1, 'ended', 1, 5, 9, 9)"
            .to_owned(),
    ];
    let metered = json!({
        "role": "assistant", "content": [{"type": "text", "text": "A cat isn't a dog"}],
        "meta": {"provider": "p", "model": "m", "api": "a", "stopReason": "end_turn",
                 "usage": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0,
                           "totalTokens": 3}},
    });
    let bodies = [
        spoken(&user("Where is the cat?")),
        metered.to_string().replace('\'', "''"),
        spoken(&result("c", "cat in a tool result")),
    ];
    for (seq, body) in (1..).zip(bodies) {
        let is_spoken = i32::from(seq < 3);
        rows.push(format!(
            "INSERT INTO history (session, seq, id, turn, at, spoken, body) VALUES \
             ('s', {seq}, 'm{seq}', 't', {seq}, {is_spoken}, '{body}')"
        ));
    }
    old.write(Raw(rows)).await.unwrap();
    old.close().await;

    let store = open(folder.path()).await;
    let read = store.read(async |conn| sessions::one(conn, AgentId(1), &SessionId::new("s")).await);
    let session = read.await.unwrap().unwrap();
    assert_eq!(
        (session.title.as_str(), session.tokens, session.cost, session.messages),
        ("Where is the cat?", 3, None, 3)
    );
    assert!(session.current);
    assert_eq!(places(&find(&store, "cat", None, "").await), [("s", 2), ("s", 1)]);
}

#[tokio::test]
async fn words_are_found_whatever_their_case_and_accents() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let bodies = vec![
        user("Der Ärger mit der schwarzen Katze"),
        asks(&["c"]),
        result("c", "Katze im Werkzeug"),
        said("The black cat sat on \"the\" mat, NEAR a dog\nsecond line"),
    ];
    store.write(import(1, "ada", "one", "desk", bodies)).await.unwrap();
    store.write(import(2, "ben", "two", "token:1/main", vec![user("a cat of Ben")])).await.unwrap();
    let cases: [(&str, &[(&str, i64)]); 14] = [
        ("cat", &[("two", 1), ("one", 4)]),
        ("CAT", &[("two", 1), ("one", 4)]),
        ("arger", &[("one", 1)]),
        ("ärger katze", &[("one", 1)]),
        ("katze", &[("one", 1)]),
        ("\"black cat\"", &[("one", 4)]),
        ("\"cat black\"", &[]),
        ("schwarz*", &[("one", 1)]),
        ("schwarz", &[]),
        ("cat -dog", &[("two", 1)]),
        ("katze OR ben", &[("two", 1), ("one", 1)]),
        ("near", &[("one", 4)]),
        ("\"second line\"", &[("one", 4)]),
        ("agent1", &[]),
    ];
    for (words, expected) in cases {
        assert_eq!(places(&find(&store, words, None, "").await), expected, "{words}");
    }
    assert_eq!(places(&find(&store, "cat", Some(1), "").await), [("one", 4)]);
    assert_eq!(places(&find(&store, "cat", None, "token:1/").await), [("two", 1)]);
    assert_eq!(places(&find(&store, "cat", None, "token:2/").await), []);
    let marked = find(&store, "black OR dog", Some(1), "").await.remove(0).marked;
    let shown = marked.replace(MARK.0, "[").replace(MARK.1, "]");
    assert_eq!(shown, "The [black] cat sat on \"the\" mat, NEAR a [dog]\nsecond line");
}

/// Natural in its proportions: the n-th word is n times rarer than the first.
async fn library(count: u32) -> (tempfile::TempDir, LabStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let word = "'w' || abs(random() % (1 + abs(random() % (1 + abs(random() % 50000)))))";
    let text = vec![word; 25].join(" || ' ' || ");
    let numbers = format!(
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {count}) "
    );
    let sessions = count.div_ceil(100) + 1;
    let few = numbers.replace(&format!("x < {count}"), &format!("x < {sessions}"));
    let raw = vec![
        few.clone()
            + "INSERT INTO sessions (id, agent, key, created_at, last_at, last_seq) \
               SELECT 's' || (x - 1), 1 + x % 3, 'k', 0, 0, 100 FROM n",
        "INSERT INTO lanes (id, agent, key) VALUES (99, 1, 'k')".to_owned(),
        "INSERT INTO turns (id, lane, agent, session, priority, ord, token, state, first_seq, \
         started_at, changed_at, ended_at) VALUES ('t', 99, 1, 's0', 2, 1, 1, 'ended', 1, 0, 0, 0)"
            .to_owned(),
        numbers.clone()
            + &format!(
                "INSERT INTO history (session, seq, id, turn, at, spoken, body) SELECT \
                 's' || (x / 100), x % 100, 'm' || x, 't', x, 1, \
                 '{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"' || {text} || \
                 '\"}}]}}' FROM n"
            ),
        numbers
            + "INSERT INTO spoken (agent, session, seq) \
               SELECT 1 + (1 + x / 100) % 3, 's' || (x / 100), x % 100 FROM n",
    ];
    store.write(Raw(raw)).await.unwrap();
    while store.write(IndexSpoken { rows: 1000 }).await.unwrap() > 0 {}
    (folder, store)
}

/// Goal: 50 ms over a million messages (`--all`). The plan is asserted beside the code.
#[tokio::test]
async fn a_search_takes_no_longer_than_it_may() {
    let count = if std::env::var_os("SKEP_TEST_ALL").is_some() { 1_000_000 } else { 20_000 };
    let (_folder, store) = library(count).await;
    let mut times = Vec::new();
    for n in 0..200_u32 {
        let (common, middle, rare) = (1 + n % 20, 100 + n * 7, 5000 + n * 97);
        let words = match n % 8 {
            0 => format!("w{common}"),
            1 => format!("w{middle}"),
            2 => format!("w{rare}"),
            3 => format!("w{common} w{middle}"),
            4 => format!("w{common} w{rare}"),
            5 => format!("w{middle} OR w{rare}"),
            6 => format!("w{middle} -w{common}"),
            _ => format!("\"w{common} w{}\"", common + 1),
        };
        let expression = query::parse(&words).unwrap().notation();
        let agent = (n % 3 == 0).then_some(AgentId(2));
        let expression = search::expression(&expression, agent);
        let began = Instant::now();
        let read = store.read(async |conn| {
            let wanted = Search { expression: &expression, prefix: "", before: None, limit: 20 };
            search::search(conn, wanted, || true).await
        });
        assert!(read.await.unwrap().is_some());
        times.push(began.elapsed());
    }
    times.sort();
    let (half, most) = (times[100], times[190]);
    println!("{count} messages: median {half:?}, p95 {most:?}, worst {:?}", times[199]);
    assert!(most <= Duration::from_millis(50), "p95 {most:?}");
}

fn refused<T>(outcome: Result<T, StoreError>) -> (&'static str, String) {
    match outcome.err().expect("refused") {
        StoreError::Refused(Refusal::Conflict { code, detail }) => (code, detail),
        other => panic!("{other:?}"),
    }
}

fn fork(at: Option<i64>, session: &str, key: &str) -> ForkSession {
    ForkSession {
        agent: AgentId(1),
        agent_name: AgentName::new("ada"),
        from: SessionId::new("one"),
        at,
        session: SessionId::new(session),
        key: SessionKey::new(key),
        spoken: Vec::new(),
        now: 77,
    }
}

#[tokio::test]
async fn a_fork_copies_whole_steps_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let bodies = vec![
        user("first question"),
        asks(&["a", "b"]),
        result("b", "B"),
        result("a", "A"),
        user("meanwhile"),
        said("the answer"),
    ];
    store.write(import(1, "ada", "one", "desk", bodies)).await.unwrap();

    for at in [2, 3] {
        let (code, detail) = refused(store.write(fork(Some(at), "no", "x")).await);
        assert_eq!(code, "inside_a_call");
        assert!(detail.ends_with("fork at 1 or at 4"), "{detail}");
    }
    for at in [0, 7] {
        let (code, detail) = refused(store.write(fork(Some(at), "no", "x")).await);
        assert_eq!((code, detail.contains("1 to 6")), ("no_such_message", true));
    }
    for (at, session) in [(1, "f1"), (4, "f4"), (5, "f5"), (6, "f6")] {
        assert_eq!(store.write(fork(Some(at), session, session)).await.unwrap(), at);
        let (name, id) = (AgentName::new("ada"), SessionId::new(session));
        let read = store.read(async |conn| {
            let info = sessions::one(conn, AgentId(1), &id).await?;
            let copied = history::whole(conn, &name, &id, 0).await?;
            let original = history::whole(conn, &name, &SessionId::new("one"), 0).await?;
            Ok((info.unwrap(), copied, original))
        });
        let (info, copied, original) = read.await.unwrap();
        let bodies = |rows: &[Message]| -> Vec<(i64, String, Body)> {
            rows.iter().map(|row| (row.seq, row.id.clone(), row.body.clone())).collect()
        };
        assert_eq!(bodies(&copied), bodies(&original[..usize::try_from(at).unwrap()]));
        assert_eq!(info.forked_from, Some((SessionId::new("one"), at)));
        assert_eq!((info.current, info.tokens, info.messages), (true, 0, at));
        assert_eq!((info.title.as_str(), info.last_at), ("first question", 77));
    }
    // The words are found once, where they were said.
    assert_eq!(places(&find(&store, "question", None, "").await), [("one", 1)]);
    assert_eq!(store.write(fork(None, "whole", "desk")).await.unwrap(), 6);
}

#[tokio::test]
async fn an_import_is_whole_or_nothing_and_the_second_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let bodies = || vec![user("hello"), said("well"), user("more")];
    let write = |import: Import| store.write(import);
    assert_eq!(write(import(1, "ada", "one", "k", bodies())).await.unwrap(), Imported::New);
    assert_eq!(write(import(1, "ada", "one", "k", bodies())).await.unwrap(), Imported::Same);

    let mut other = bodies();
    other[1] = said("ill");
    let (code, detail) = refused(write(import(1, "ada", "one", "k", other)).await);
    assert_eq!(code, "session_exists");
    assert!(detail.contains("its message 2 differs"), "{detail}");
    let shorter = bodies()[..2].to_vec();
    let (_, detail) = refused(write(import(1, "ada", "one", "k", shorter)).await);
    assert!(detail.contains("has 3 messages, more than these"), "{detail}");
    let longer = [bodies(), vec![said("yes")]].concat();
    let (_, detail) = refused(write(import(1, "ada", "one", "k", longer)).await);
    assert!(detail.contains("has only 3 of these messages"), "{detail}");
    let (_, detail) = refused(write(import(2, "ben", "one", "k", bodies())).await);
    assert!(detail.contains("belongs to another agent"), "{detail}");

    // A row that breaks in the middle takes the whole session with it.
    let mut broken = import(1, "ada", "two", "k2", bodies());
    broken.messages[2].seq = 2;
    assert!(write(broken).await.is_err());
    let read = store.read(async |conn| sessions::page(conn, AgentId(1), None, None, 50).await);
    let ids: Vec<String> = read.await.unwrap().into_iter().map(|row| row.id.0).collect();
    assert_eq!(ids, ["one"]);
}

#[tokio::test]
async fn sessions_are_listed_newest_first_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    for n in 0..7 {
        let (session, key) = (format!("s{n}"), format!("token:{}/k{n}", n % 2));
        let mut one = import(1, "ada", &session, &key, vec![user("hello")]);
        // Two of each time: the id decides between them.
        one.messages[0].timestamp = i64::from(n / 2);
        store.write(one).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let read = store
            .read(async |conn| sessions::page(conn, AgentId(1), None, after.as_ref(), 3).await);
        let page = read.await.unwrap();
        let Some(last) = page.last() else { break };
        after =
            Some(sessions::Cursor { pinned: false, last_at: last.last_at, id: last.id.0.clone() });
        seen.extend(page.into_iter().map(|row| row.id.0));
    }
    assert_eq!(seen, ["s6", "s5", "s4", "s3", "s2", "s1", "s0"]);
    let read = store.read(async |conn| {
        sessions::page_of_keys(conn, AgentId(1), "token:1/", None, None, 2).await
    });
    let own: Vec<String> = read.await.unwrap().into_iter().map(|row| row.id.0).collect();
    assert_eq!(own, ["s5", "s3"]);
}

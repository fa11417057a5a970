//! Rows of a database from before 23 that named an agent: they are of the agent that had the name.

use skep_core::audit::{AuditKind, AuditRow, Head};
use skep_core::ids::{AgentId, AgentName};
use skep_store::agents::{NewAgent, RegisterAgents};
use skep_store::audit::{self, AddAudit, Wanted};
use skep_store::{Conn, watch};

use crate::lab::Raw;
use crate::upgrade::{AGENTS, CHANNELS, LANES, item, rows, upgraded};

/// Rows that named an agent by its name are of the agent that had it; the trail is sealed as it
/// was.
#[tokio::test]
async fn what_named_an_agent_has_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let mut old: Vec<String> = [AGENTS, CHANNELS, LANES].map(str::to_owned).into();
    old.push(item("first", 1, "done"));
    let token = |id: &str, role: &str, agent: &str| {
        format!(
            "INSERT INTO tokens (id, name, role, agent, hash, created_at) VALUES ('{id}', '{id}', \
             '{role}', {agent}, '{id}', 0)"
        )
    };
    old.extend([token("o", "operator", "NULL"), token("m", "agent", "'main'")]);
    old.extend([token("g", "agent", "'gone'"), token("n", "agent", "'never'")]);
    let event = |seq: i64, agent: &str| {
        format!(
            "INSERT INTO events (seq, at, agent, kind, body) VALUES ({seq}, 0, '{agent}', \
             'status', '{{\"at\":0,\"agent\":\"{agent}\",\"type\":\"status\",\"state\":\"active\",\
             \"reason\":null}}')"
        )
    };
    old.extend([event(1, "main"), event(2, "gone"), event(3, "")]);
    old.push(
        "INSERT INTO requests (scope, id, body_hash, item, created_at) VALUES \
         ('api/token:x/main', 'k', 'h', 'first', 0), ('ws:1', 'k', 'h', 'first', 0)"
            .to_owned(),
    );
    let store = upgraded(folder.path(), old).await;

    let tokens = "SELECT id, coalesce(agent, '-') || '' FROM tokens ORDER BY id";
    let expected = [["g", "3"], ["m", "1"], ["n", "0"], ["o", "-"]];
    assert_eq!(rows(&store, tokens, 2).await, expected);
    let scopes = "SELECT scope FROM requests ORDER BY scope";
    assert_eq!(rows(&store, scopes, 1).await, [["api/token:x/1"], ["ws:1"]]);
    let events = store.read(async |conn: &mut Conn| watch::events_since(conn, 0).await).await;
    let told = events.unwrap().into_iter().map(|event| (event.agent.0, event.agent_id));
    let id = |id| Some(AgentId(id));
    let expected = [("main", id(1)), ("gone", id(3)), ("", None)];
    assert_eq!(told.collect::<Vec<_>>(), expected.map(|(name, id)| (name.to_owned(), id)));
    store.close().await;
}

/// The trail of an older program stays as it was sealed; its rows are the first agent's of their
/// name, and those of a namesake are not.
#[tokio::test]
async fn the_trail_goes_on_behind_rows_without_an_id() {
    let folder = tempfile::tempdir().unwrap();
    let mut head = Head::default();
    let mut old: Vec<String> = vec![AGENTS.to_owned()];
    for (id, agent) in [(1, "main"), (2, "gone"), (3, "main")] {
        let row = AuditRow {
            id,
            agent: Some(agent.to_owned()),
            ..AuditRow::new(AuditKind::Call, id, "ok")
        };
        head = Head { id, seal: head.seal.next(&row) };
        old.push(format!(
            "INSERT INTO audit (id, at, kind, agent, arguments, decision, outcome, took_ms, bytes, \
             hash) VALUES ({id}, {id}, 'call', '{agent}', '{{}}', '[]', 'ok', 0, 0, x'{}')",
            head.seal
        ));
    }
    std::fs::write(folder.path().join("audit.head"), format!("{:020} {}\n", head.id, head.seal))
        .unwrap();
    let store = upgraded(folder.path(), old).await;
    let remove = "UPDATE agents SET removed_at = 1, installed = 0 WHERE name = 'main'";
    store.write(Raw(vec![remove.to_owned()])).await.unwrap();
    let agents = vec![NewAgent::root(AgentName::new("main"))];
    let ids = store.write(RegisterAgents { agents, now: 9 }).await.unwrap();
    assert_eq!(ids, [(AgentName::new("main"), AgentId(4))]);
    let row = AuditRow {
        agent: Some("main".to_owned()),
        agent_id: Some(AgentId(4)),
        ..AuditRow::new(AuditKind::Call, 10, "ok")
    };
    store.write(AddAudit { row }).await.unwrap();
    for (agent, expected) in [(1, vec![3, 1]), (3, vec![2]), (4, vec![4])] {
        let wanted = Wanted { agent: Some(AgentId(agent)), ..Wanted::default() };
        let read = store.read(async |conn: &mut Conn| audit::page(conn, &wanted, None, 9).await);
        let found: Vec<i64> = read.await.unwrap().rows.iter().map(|(row, _)| row.id).collect();
        assert_eq!(found, expected, "agent {agent}");
    }
    let verdict = store.verify_audit().await.unwrap();
    assert_eq!((verdict.ok, verdict.last), (true, 4), "{verdict:?}");
    store.close().await;
}

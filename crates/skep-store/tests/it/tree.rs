//! The rows of agents know their places in the tree.

use skep_core::event::EventKind;
use skep_core::ids::AgentName;
use skep_store::agents::{InstallAgents, NewAgent, RegisterAgents};
use skep_store::{OpenOptions, Store};

fn agent(name: &str, parent: &str) -> NewAgent {
    NewAgent {
        parent: (!parent.is_empty()).then(|| AgentName::new(parent)),
        parallel_one: !parent.is_empty(),
        ..NewAgent::root(AgentName::new(name))
    }
}

/// Name, the parent's name, whether one turn runs at a time.
async fn rows(store: &Store) -> Vec<(String, Option<String>, bool)> {
    let select = "SELECT a.name, p.name, a.parallel_one FROM agents a \
                  LEFT JOIN agents p ON p.id = a.parent_id ORDER BY a.name";
    store.read(async move |conn| conn.list(select, &[]).await).await.unwrap()
}

fn row(name: &str, parent: Option<&str>) -> (String, Option<String>, bool) {
    (name.to_owned(), parent.map(str::to_owned), parent.is_some())
}

#[tokio::test]
async fn parents_are_rows_in_whatever_order_they_come() {
    let folder = tempfile::tempdir().unwrap();
    let (told, events) = std::sync::mpsc::channel();
    let options = OpenOptions::in_run_folder(folder.path());
    let store = Store::open(options, move |batch| told.send(batch.events).unwrap()).await.unwrap();
    // A child before its parent.
    let agents = vec![agent("a", "main"), agent("lost", "nobody"), agent("main", "")];
    store.write(RegisterAgents { agents, now: 1 }).await.unwrap();
    let mut expected = vec![row("a", Some("main")), row("lost", None), row("main", None)];
    expected[1].2 = true;
    assert_eq!(rows(&store).await, expected);
    let agents = vec![agent("b", "c"), agent("c", "a"), agent("lost", "b")];
    let gone = vec![AgentName::new("nobody")];
    let ids = store.write(InstallAgents { agents, gone, now: 2 }).await.unwrap();
    assert_eq!(ids.len(), 3);
    let expected = vec![
        row("a", Some("main")),
        row("b", Some("c")),
        row("c", Some("a")),
        row("lost", Some("b")),
        row("main", None),
    ];
    assert_eq!(rows(&store).await, expected);
    let before = events.try_iter().count();
    assert_eq!(before, 2, "both commits told of new agents");
    // A move is no change of status.
    let (agents, gone) = (vec![agent("b", "")], vec![AgentName::new("c")]);
    store.write(InstallAgents { agents, gone, now: 3 }).await.unwrap();
    let events: Vec<_> =
        events.try_iter().flatten().map(|event| (event.agent, event.kind)).collect();
    let state = "removed".to_owned();
    let left = EventKind::Status { state, reason: None };
    assert_eq!(events, [(AgentName::new("c"), left)]);
    assert_eq!(rows(&store).await[1], row("b", None));
    store.close().await;
}

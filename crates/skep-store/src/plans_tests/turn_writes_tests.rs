//! What a turn writes, as the database carries it out.

use std::collections::HashSet;

use skep_core::ids::*;
use skep_core::settings::QueueMode;

use super::Story;
use super::seen_tests as seen;
use crate::agents::{NewAgent, RegisterAgents};
use crate::close::Outcome;
use crate::outbox::OpenChannel;
use crate::{OpenOptions, Store, Value};

/// A `RETURNING` does, and a list of more than two words: each costs more than the row itself.
#[tokio::test]
async fn no_statement_of_a_turn_makes_a_table_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    seen::watch();
    let store = Store::open(OpenOptions::in_run_folder(folder.path()), |_| {}).await.unwrap();
    let agents = vec![NewAgent::root(AgentName::new("main"))];
    let agent = store.write(RegisterAgents { agents, now: 1 }).await.unwrap()[0].1;
    let (channel, principal) = (ChannelId::new("ws:1"), Principal::new("operator"));
    store.write(OpenChannel { channel, principal, now: 1 }).await.unwrap();
    let before: HashSet<_> = seen::statements(folder.path()).into_iter().collect();
    let mut story = Story { store: store.clone(), agent, made: 0 };
    let first = story.accept(Some("1"), true, QueueMode::Queue).await.unwrap();
    story.close(&first, Outcome::Answered { text: "yes".into() }).await;
    story.accept(Some("2"), true, QueueMode::Queue).await.unwrap();
    let of_turn = seen::statements(folder.path()).into_iter().filter(|sql| !before.contains(sql));
    let words = ["SELECT", "INSERT", "UPDATE"];
    let of_turn: Vec<_> =
        of_turn.filter(|sql| words.iter().any(|word| sql.starts_with(word))).collect();
    assert!(of_turn.len() > 15, "only {} statements were seen", of_turn.len());
    // Of senders with a limit, of turns that waited, and the events of a batch: values are a table.
    let fine = ["INSERT INTO storage", "UPDATE approvals", "INSERT INTO events"];
    for sql in of_turn.iter().filter(|sql| !fine.iter().any(|fine| sql.starts_with(fine))) {
        let explain: &'static str = Box::leak(format!("EXPLAIN {sql}").into_boxed_str());
        let steps = store.read(async |conn| {
            let rows = conn.rows(explain, &[Value::Null; 256]).await?;
            rows.iter().map(|row| row.text(1)).collect::<Result<Vec<_>, _>>()
        });
        let steps = steps.await.unwrap();
        assert!(!steps.iter().any(|step| step == "OpenEphemeral"), "{sql}");
    }
}

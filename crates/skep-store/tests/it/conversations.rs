//! What a person does with a conversation: naming, pinning, archiving, deleting.

use skep_core::file::File;
use skep_core::ids::*;
use skep_core::message::Body;
use skep_store::import::Imported;
use skep_store::sessions::{self, Cursor, DeleteSession, EditSession, ForkSession, SessionRow};
use skep_store::{Refusal, StoreError, files, history};

use crate::causes::accept;
use crate::lab::{LabStore, furnished};
use crate::sessions::{find, import, said, user};

fn edit(session: &str) -> EditSession {
    EditSession {
        agent: AgentId(1),
        agent_name: AgentName::new("ada"),
        session: SessionId::new(session),
        title: None,
        pinned: None,
        archived: None,
        now: 20,
    }
}

async fn delete(store: &LabStore, session: &str) -> Result<bool, StoreError> {
    let session = SessionId::new(session);
    let parts = store.read(async |conn| sessions::parts(conn, &session).await).await.unwrap();
    let (agent, agent_name) = (AgentId(1), AgentName::new("ada"));
    let principal = Principal::new("token:1");
    store.write(DeleteSession { agent, agent_name, session, parts, principal, now: 30 }).await
}

async fn list(store: &LabStore, archived: Option<bool>) -> Vec<SessionRow> {
    let read = store.read(async |conn| {
        let (mut rows, mut after): (Vec<SessionRow>, Option<Cursor>) = (Vec::new(), None);
        loop {
            let page = sessions::page(conn, AgentId(1), archived, after.as_ref(), 1).await?;
            let Some(row) = page.last() else { return Ok(rows) };
            let (pinned, last_at, id) = (row.pinned, row.last_at, row.id.0.clone());
            after = Some(Cursor { pinned, last_at, id });
            rows.extend(page);
        }
    });
    read.await.unwrap()
}

fn ids(rows: &[SessionRow]) -> Vec<&str> {
    rows.iter().map(|row| row.id.as_str()).collect()
}

async fn count(store: &LabStore, sql: &'static str) -> i64 {
    store.read(async |conn| conn.one(sql, &[], "a count").await).await.unwrap()
}

#[tokio::test]
async fn the_list_has_pinned_ones_first_and_every_one_on_some_page() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    for (number, session) in ["a", "b", "c"].into_iter().enumerate() {
        let bodies = vec![user("the first question"); number + 1];
        store.write(import(1, "ada", session, session, bodies)).await.unwrap();
    }
    assert_eq!(ids(&list(&store, None).await), ["c", "b", "a"]);
    store.write(EditSession { pinned: Some(true), ..edit("a") }).await.unwrap();
    store.write(EditSession { archived: Some(true), ..edit("b") }).await.unwrap();
    assert_eq!(ids(&list(&store, None).await), ["a", "c", "b"]);
    assert_eq!(ids(&list(&store, Some(false)).await), ["a", "c"]);
    assert_eq!(ids(&list(&store, Some(true)).await), ["b"]);
    store.write(EditSession { title: Some("Prices".into()), ..edit("a") }).await.unwrap();
    store.write(EditSession { pinned: Some(false), ..edit("a") }).await.unwrap();
    let rows = list(&store, Some(false)).await;
    assert_eq!((ids(&rows), rows[1].title.as_str()), (vec!["c", "a"], "Prices"));
    store.write(EditSession { title: Some(String::new()), ..edit("a") }).await.unwrap();
    assert_eq!(list(&store, Some(false)).await[1].title, "the first question");
    let lost = store.write(edit("nothing")).await;
    assert!(matches!(lost, Err(StoreError::Refused(Refusal::NotFound { .. }))), "{lost:?}");
}

#[tokio::test]
async fn a_deleted_session_leaves_nothing_of_what_was_said_and_no_other_loses_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let file = |text: &'static str| File::new("a.txt", "text/plain", text.as_bytes());
    let with = |text: &str, files: Vec<File>| {
        let origin = user("").origin.unwrap();
        Body::user(text, files, origin)
    };
    let (own, shared) = (file("own"), file("shared"));
    let gone = vec![with("a zebra and its files", vec![own.clone(), shared.clone()]), said("yes")];
    let stays = vec![with("another zebra", vec![shared.clone()]), said("no")];
    store.write(import(1, "ada", "stays", "stays", stays)).await.unwrap();
    store.write(import(1, "ada", "gone", "gone", gone.clone())).await.unwrap();
    let fork = ForkSession {
        agent: AgentId(1),
        agent_name: AgentName::new("ada"),
        from: SessionId::new("gone"),
        at: Some(1),
        session: SessionId::new("copy"),
        key: SessionKey::new("copy"),
        spoken: Vec::new(),
        now: 10,
    };
    store.write(fork).await.unwrap();
    assert_eq!(find(&store, "zebra", None, "").await.len(), 2);
    assert!(delete(&store, "gone").await.unwrap(), "its key led to it");

    let hits = find(&store, "zebra", None, "").await;
    let places: Vec<&str> = hits.iter().map(|hit| hit.session.as_str()).collect();
    assert_eq!(places, ["copy", "stays"], "what the copy has as well is found there");
    let rows = list(&store, None).await;
    assert_eq!(ids(&rows), ["stays", "copy"]);
    assert_eq!(rows[1].forked_from, None, "there is nothing to go back to");
    for (hash, there) in [(&own.hash, true), (&shared.hash, true)] {
        let bytes = store.read(async |conn| files::bytes(conn, hash).await).await.unwrap();
        assert_eq!(bytes.is_some(), there, "the copy has both");
    }
    let name = AgentName::new("ada");
    let copy = SessionId::new("copy");
    let whole = store.read(async |conn| history::whole(conn, &name, &copy, 0).await).await;
    assert_eq!(whole.unwrap().len(), 1);
    assert!(delete(&store, "copy").await.unwrap());
    assert_eq!(count(&store, "SELECT count(*) FROM files").await, 1);
    assert_eq!(count(&store, "SELECT count(*) FROM history WHERE session <> 'stays'").await, 0);
    assert_eq!(
        count(&store, "SELECT count(*) FROM events WHERE body LIKE '%history_up%'").await,
        1
    );
    assert_eq!(
        count(&store, "SELECT count(*) FROM audit WHERE outcome = 'session_deleted'").await,
        2
    );
    let twice = delete(&store, "gone").await;
    assert!(matches!(twice, Err(StoreError::Refused(Refusal::NotFound { .. }))), "{twice:?}");

    // Numbers of the index are given again: what is said next is found.
    store.write(import(1, "ada", "later", "later", vec![user("a later zebra")])).await.unwrap();
    assert_eq!(find(&store, "later", None, "").await.len(), 1);
    // An export of it brings it back.
    let back = store.write(import(1, "ada", "gone", "gone", gone)).await.unwrap();
    assert_eq!(back, Imported::New);
    assert_eq!(find(&store, "zebra", None, "").await.len(), 3);
    assert!(store.check_integrity(|| true).await.is_ok());
}

#[tokio::test]
async fn a_session_with_work_is_not_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    let lease = accept(&store, 1, skep_core::cause::Cause::Message).await.unwrap();
    let session = lease.session.as_str();
    let parts = store.read(async |conn| sessions::one(conn, AgentId(1), &lease.session).await);
    assert!(parts.await.unwrap().unwrap().work.open.is_some());
    let refused = delete(&store, session).await.unwrap_err();
    let StoreError::Refused(Refusal::Conflict { code, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(code, "session_busy");
}

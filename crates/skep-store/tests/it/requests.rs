//! Writes with a key: known again whatever became of them, until their time is over.

use skep_store::requests::{BeginRequest, Begun, CloseRequest, Request};
use skep_store::retention::Expire;

use crate::lab::{LabStore, furnished};

async fn begin(store: &LabStore, id: &str, body: u8, now: i64) -> Result<Begun, String> {
    let request = Request { scope: "write/operator".into(), id: id.into(), body_hash: [body; 32] };
    store.write(BeginRequest { request, now }).await.map_err(|error| error.to_string())
}

async fn close(store: &LabStore, id: &str, answer: Option<&str>) {
    let (scope, answer) = ("write/operator".to_owned(), answer.map(str::to_owned));
    store.write(CloseRequest { scope, id: id.to_owned(), answer }).await.unwrap();
}

#[tokio::test]
async fn a_write_with_a_key_is_begun_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = furnished(folder.path()).await;
    assert_eq!(begin(&store, "a", 1, 10).await, Ok(Begun::First));
    // A crash here leaves it open: nobody knows whether it was done, so it is not done again.
    assert_eq!(begin(&store, "a", 1, 11).await, Ok(Begun::Open));
    assert!(begin(&store, "a", 2, 12).await.unwrap_err().contains("id_reused"));
    close(&store, "a", Some("{}")).await;
    assert_eq!(begin(&store, "a", 1, 13).await, Ok(Begun::Answered("{}".into())));
    assert!(begin(&store, "a", 2, 14).await.unwrap_err().contains("id_reused"));
    // What was refused may come again, also in another form.
    assert_eq!(begin(&store, "b", 1, 15).await, Ok(Begun::First));
    close(&store, "b", None).await;
    assert_eq!(begin(&store, "b", 2, 16).await, Ok(Begun::First));

    let expire = Expire {
        events_before: 0,
        frames_before: 0,
        frames_after: String::new(),
        ids_before: 16,
        files_before: 0,
        audit_before: 0,
        now: 20,
    };
    store.write(expire).await.unwrap();
    assert_eq!(begin(&store, "a", 2, 21).await, Ok(Begun::First));
    assert_eq!(begin(&store, "b", 2, 22).await, Ok(Begun::Open));
}

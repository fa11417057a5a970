//! How an answer ends before its time: with the turn, with the lease, with the process.

use serde_json::json;
use skep_core::engine::Settlement;
use skep_core::relay::RelayWire;
use skep_testkit::model::Ending;
use skep_testkit::{Reply, ScriptedModel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::scene::{Open, Scene, WIRES, body};

/// A request whose answer has begun and waits at a gate.
struct Begun {
    model: ScriptedModel,
    scene: Scene,
    open: Open,
    stream: TcpStream,
}

impl Begun {
    async fn new(wire: RelayWire) -> Self {
        let model = ScriptedModel::start().await.unwrap();
        let scene = Scene::new(wire, &model.base_url());
        let open = scene.open();
        let half = Reply::new().open_text().delta("the first half").gate("half");
        model.push(half.delta("the second").close());
        let sent = body(wire).to_string();
        let mut stream = scene.connect().await;
        let request = format!("{}{sent}", scene.head(sent.len()));
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains("the first half") {
            assert!(stream.read_buf(&mut seen).await.unwrap() > 0);
        }
        Self { model, scene, open, stream }
    }
}

async fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    rest
}

#[tokio::test]
async fn a_turn_that_closes_cuts_what_runs() {
    for wire in WIRES {
        let begun = Begun::new(wire).await;
        let Begun { model, scene, open, stream } = begun;
        drop(open.guard);
        let rest = rest(stream).await;
        // Without its last chunk the program knows that it was cut.
        assert!(!rest.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
        assert_eq!(model.wait_for_end(1).await.unwrap(), Ending::HungUp);
        assert!(matches!(scene.books()[..], [Settlement::Untold { heard: 3..10 }]));
    }
}

#[tokio::test]
async fn a_lease_that_is_dropped_cuts_what_runs_and_answers_nobody() {
    let begun = Begun::new(RelayWire::Anthropic).await;
    let Begun { model, scene, open: _open, stream } = begun;
    let address = scene.lease.base_url.strip_prefix("http://").unwrap().to_owned();
    let (books, head) = (scene.books.clone(), scene.head(0));
    drop(scene);
    assert!(!rest(stream).await.ends_with(b"0\r\n\r\n"));
    assert_eq!(model.wait_for_end(1).await.unwrap(), Ending::HungUp);
    assert_eq!(books.lock().unwrap().len(), 1);
    // Nobody listens there, or nobody answers.
    if let Ok(mut stream) = TcpStream::connect(address).await {
        let _ = stream.write_all(head.as_bytes()).await;
        assert!(rest(stream).await.is_empty());
    }
}

#[tokio::test]
async fn a_process_that_goes_away_ends_its_request() {
    for wire in WIRES {
        let begun = Begun::new(wire).await;
        let stream = begun.stream;
        drop(stream);
        assert_eq!(begun.model.wait_for_end(1).await.unwrap(), Ending::HungUp);
        // The hold is let go with the connection's task, which may take a moment longer.
        while begun.scene.books().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(matches!(begun.scene.books()[..], [Settlement::Untold { heard: 3..10 }]));
    }
}

/// A second turn takes the place of the first, and closing the first does not close it.
#[tokio::test]
async fn the_newest_turn_is_the_one_that_pays() {
    let model = ScriptedModel::start().await.unwrap();
    model.answer_with(|_| Reply::say("fine"));
    let scene = Scene::new(RelayWire::Anthropic, &model.base_url());
    let sent = body(RelayWire::Anthropic).to_string();
    let mut first = scene.open();
    assert_eq!(scene.ask(&sent).await.status, 200);
    let mut second = scene.open();
    drop(first.guard);
    assert_eq!(scene.ask(&sent).await.status, 200);
    assert!(first.used.try_recv().is_ok() && first.used.try_recv().is_err());
    assert!(second.used.try_recv().is_ok() && second.used.try_recv().is_err());
    drop(second.guard);
    assert_eq!(scene.ask(&sent).await.status, 403);
}

/// Nobody makes a message of what was used: the hold keeps it.
#[tokio::test]
async fn usage_that_nobody_takes_is_kept() {
    let model = ScriptedModel::start().await.unwrap();
    model.push(Reply::say("fine"));
    let scene = Scene::new(RelayWire::Anthropic, &model.base_url());
    let Open { used, guard: _guard } = scene.open();
    drop(used);
    assert_eq!(scene.ask(&body(RelayWire::Anthropic).to_string()).await.status, 200);
    assert!(matches!(&scene.books()[..], [Settlement::Unusable(meta)] if meta.usage.output > 0));
}

/// A connection serves one request after the other, also where they come at once.
#[tokio::test]
async fn a_connection_is_kept_for_the_next_request() {
    let model = ScriptedModel::start().await.unwrap();
    model.answer_with(|request| Reply::say(&request.last_user_text()));
    let scene = Scene::new(RelayWire::Anthropic, &model.base_url());
    let _open = scene.open();
    let mut said = String::new();
    for number in 0..3 {
        let mut sent = body(RelayWire::Anthropic);
        sent["messages"][0]["content"] = json!(format!("number {number}"));
        let sent = sent.to_string();
        let head = scene.head(sent.len());
        let kept = head.replace("Connection: close\r\n", "");
        said.push_str(&format!("{}{sent}", if number < 2 { &kept } else { &head }));
    }
    let mut stream = scene.connect().await;
    stream.write_all(said.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    let all = String::from_utf8(all).unwrap();
    assert_eq!(all.matches("HTTP/1.1 200 OK").count(), 3, "{all}");
    let at = |number: usize| all.find(&format!("number {number}")).unwrap();
    assert!(at(0) < at(1) && at(1) < at(2));
    assert_eq!(model.asked(), 3);
}

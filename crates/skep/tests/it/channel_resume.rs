//! A client that loses its socket and comes back has every durable frame exactly once (spec 07 §5,
//! 13 E); so has a watcher of events.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::ws::{self, WsTarget};
use skep_testkit::{Reply, WsClient};

use crate::stage::{Play, Stage};
use crate::telling::{frame, frames, read_events};

/// When the socket vanishes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Drop {
    BeforeAck,
    AfterAck,
    MidText,
    MidTool,
    BeforeResponse,
    AfterResponse,
}

const DROPS: [Drop; 6] = [
    Drop::BeforeAck,
    Drop::AfterAck,
    Drop::MidText,
    Drop::MidTool,
    Drop::BeforeResponse,
    Drop::AfterResponse,
];

/// What a client has seen on all of its sockets together.
struct Seen {
    channel: String,
    frames: BTreeMap<u64, Value>,
}

impl Seen {
    fn new(client: &WsClient) -> Self {
        Self { channel: client.channel().to_owned(), frames: BTreeMap::new() }
    }

    /// Takes over what a socket saw; nothing of it was seen before.
    fn add(&mut self, client: &WsClient) {
        for (seq, frame) in client.durable() {
            let before = self.frames.insert(*seq, frame.clone());
            assert_eq!(before, None, "frame {seq} came on two sockets");
        }
    }

    fn back(&self, target: WsTarget) -> WsTarget {
        target.resume(&self.channel, self.frames.keys().max().copied().unwrap_or(0))
    }

    fn lines(&self) -> Vec<String> {
        let seqs: Vec<u64> = self.frames.keys().copied().collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "holes in seq");
        self.frames.values().map(frame).collect()
    }
}

#[tokio::test]
async fn channel_dropped_at_each_stage_of_a_turn_misses_and_repeats_nothing() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        let name = text.lines().last().unwrap_or_default().to_owned();
        match request.steps_done() {
            0 => Reply::new()
                .open_text()
                .delta("I ")
                .gate(&format!("{name} text"))
                .delta("look.")
                .close()
                .tool("look", json!({"text": name, "ms": 150})),
            _ => Reply::new()
                .open_text()
                .delta(&format!("answer to {name}"))
                .gate(&format!("{name} end"))
                .close(),
        }
    });
    let play = stage.up().await;
    join_all(DROPS.iter().map(|drop| drop_and_return(&stage, &play, *drop))).await;
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

async fn drop_and_return(stage: &Stage, play: &Play, drop: Drop) {
    let name = format!("{drop:?}");
    let (text, end) =
        (stage.model.gate(&format!("{name} text")), stage.model.gate(&format!("{name} end")));
    let mut client = play.ws().await;
    let mut seen = Seen::new(&client);
    client.say("m1", &name).await.unwrap();
    if drop != Drop::BeforeAck {
        client.next_of("ack").await.unwrap();
    }
    if matches!(drop, Drop::MidText | Drop::MidTool | Drop::BeforeResponse | Drop::AfterResponse) {
        text.wait_arrived(1).await.unwrap();
    }
    if matches!(drop, Drop::MidTool | Drop::BeforeResponse | Drop::AfterResponse) {
        text.open();
        play.until_history("main", &seen.channel, "the call", |rows| rows.len() >= 2).await;
    }
    if matches!(drop, Drop::BeforeResponse | Drop::AfterResponse) {
        end.wait_arrived(1).await.unwrap();
    }
    if drop == Drop::AfterResponse {
        end.open();
        client.answer_to("m1").await.unwrap();
    }
    seen.add(&client);
    client.reset().unwrap();
    // While nobody listens the turn goes on or not, as it comes; then the client is back and, as
    // it would after a lost ack, sends again what it cannot be sure of.
    text.open();
    let mut client = WsClient::connect(&seen.back(play.target())).await.unwrap();
    assert_eq!(client.channel(), seen.channel);
    if seen.frames.is_empty() {
        client.say("m1", &name).await.unwrap();
    }
    end.open();
    if drop != Drop::AfterResponse {
        client.answer_to("m1").await.unwrap();
    }
    client.say("m2", "/help").await.unwrap();
    client.answer_to("m2").await.unwrap();
    seen.add(&client);
    let lines = seen.lines();
    assert_eq!(
        lines[..3],
        ["ack m1 started".into(), format!("response m1: answer to {name}"), "ack m2 done".into()],
        "{drop:?}"
    );
    assert_eq!(lines.len(), 4, "{drop:?}: {lines:?}");
    let rows = play.told("main", &seen.channel).await;
    assert_eq!(rows.len(), 4, "{drop:?}: {rows:?}");
}

/// Coming back again and again while turns run, without a stop in between.
#[tokio::test]
async fn channel_dropped_at_random_moments_is_whole_in_the_end() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match request.steps_done() {
        0 => Reply::call("look", json!({"ms": 3})),
        _ => Reply::say("fine").delay_first(Duration::from_millis(4)),
    });
    let play = stage.up().await;
    let mut client = play.ws().await;
    let mut seen = Seen::new(&client);
    let ids: Vec<String> = (0..30).map(|number| format!("m{number}")).collect();
    for (number, id) in ids.iter().enumerate() {
        client.say(id, "go").await.unwrap();
        for _ in 0..number % 4 {
            if let Ok(None) | Err(_) = client.next_within(Duration::from_millis(15)).await {
                break;
            }
        }
        seen.add(&client);
        match number % 2 {
            0 => client.reset().unwrap(),
            _ => client.close().await.unwrap(),
        }
        client = WsClient::connect(&seen.back(play.target())).await.unwrap();
        // Without its ack it may have been lost with the socket: sent again, it is taken once.
        if !seen.frames.values().any(|frame| frame["message_id"] == id.as_str()) {
            client.say(id, "go").await.unwrap();
        }
    }
    for id in &ids {
        let answered = |frames: &BTreeMap<u64, Value>| {
            frames
                .values()
                .any(|frame| ws::is_answer(frame) && ws::replies_to(frame).any(|to| to == id))
        };
        if !answered(&seen.frames) && !answered(client.durable()) {
            client.answer_to(id).await.unwrap();
        }
    }
    seen.add(&client);
    seen.lines();
    let of_kind =
        |kind: &'static str| seen.frames.values().filter(move |frame| frame["type"] == kind);
    let acked: Vec<&str> = of_kind("ack").map(|ack| ack["message_id"].as_str().unwrap()).collect();
    let answered: Vec<&str> = of_kind("response").flat_map(ws::replies_to).collect();
    assert_eq!(acked, ids);
    assert_eq!(answered, ids);
}

#[tokio::test]
async fn channel_shared_by_sockets_is_the_same_on_each_and_closed_to_others() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("to all"));
    let play = stage.up().await;
    let mut one = play.ws().await;
    let channel = one.channel().to_owned();
    let mut two = WsClient::connect(&play.target().resume(&channel, 0)).await.unwrap();
    one.say("m1", "hello").await.unwrap();
    two.answer_to("m1").await.unwrap();
    two.say("m2", "hello too").await.unwrap();
    one.answer_to("m2").await.unwrap();
    two.answer_to("m2").await.unwrap();
    let expected =
        ["ack m1 started", "response m1: to all", "ack m2 started", "response m2: to all"];
    assert_eq!(frames(&one), expected);
    assert_eq!(one.durable(), two.durable());

    let token = play.api().post("/api/v1/tokens", &json!({"name": "other"})).await.unwrap();
    let token = token.good().unwrap();
    let other = play.hive.ws(Some(token["token"].as_str().unwrap())).unwrap();
    let refused = WsClient::try_connect(&other.clone().resume(&channel, 0)).await.unwrap();
    assert_eq!(refused.err().unwrap().status, Some(403));
    for unknown in ["ws:0123456789abcdef0123456789abcdef", "ws:", "cli:x"] {
        let refused = WsClient::try_connect(&play.target().resume(unknown, 0)).await.unwrap();
        assert_eq!(refused.err().unwrap().status, Some(404), "{unknown}");
    }
    // The other one has a channel of its own, with its own ids.
    let mut other = WsClient::connect(&other).await.unwrap();
    other.say("m1", "another hello").await.unwrap();
    other.answer_to("m1").await.unwrap();
    assert_eq!(frames(&other), ["ack m1 started", "response m1: to all"]);
}

#[tokio::test]
async fn channel_resent_id_brings_the_same_frames_and_another_body_is_refused() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("once"));
    let mut play = stage.up().await;
    let mut client = play.ws().await;
    client.say("m1", "hello").await.unwrap();
    client.answer_to("m1").await.unwrap();
    let first = client.durable().clone();
    let channel = client.channel().to_owned();
    // Asked again on the same socket it says the same, without taking a number twice.
    client.say("m1", "hello").await.unwrap();
    for kind in ["ack", "response"] {
        let frame = client.next_of(kind).await.unwrap();
        assert_eq!((&frame["repeated"], &frame["seq"]), (&json!(true), &Value::Null));
        let before = first.values().find(|before| before["type"] == kind).unwrap();
        assert_eq!(frame["id"], before["id"]);
    }
    client.send(&json!({"content": "other", "id": "m1"})).await.unwrap();
    let refused = client.next_of("error").await.unwrap();
    assert_eq!(refused["code"], "id_reused");
    assert_eq!((&refused["message_id"], &refused["seq"]), (&json!("m1"), &Value::Null));
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    // A client that knows nothing of the answer: it comes again, with the numbers of then.
    let mut client = WsClient::connect(&play.target().resume(&channel, 2)).await.unwrap();
    client.say("m1", "hello").await.unwrap();
    client.answer_to("m1").await.unwrap();
    assert_eq!(*client.durable(), first);
    assert_eq!(stage.model.requests().len(), 1);
    // The same over REST, where a key belongs to the principal and the agent.
    let path = "/api/v1/agents/main/messages?wait=true";
    let post = |text: &str| {
        let request = play.api().request(reqwest::Method::POST, path);
        let request = request.header("idempotency-key", "k1").json(&json!({"message": text}));
        skep_testkit::http::answer(request)
    };
    let (one, two) = tokio::join!(post("hi"), post("hi"));
    let (one, two) = (one.unwrap().good().unwrap(), two.unwrap().good().unwrap());
    assert_eq!(one, two);
    let other = post("something else").await.unwrap();
    assert_eq!((other.status, &other.json["code"]), (409, &json!("id_reused")));
    assert_eq!(stage.model.requests().len(), 2);
}

#[tokio::test]
async fn channel_since_outside_of_what_is_kept_is_told_resync() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("fine"));
    let mut play = stage.up().await;
    let mut client = play.ws().await;
    for id in ["m1", "m2", "m3"] {
        client.say(id, "hello").await.unwrap();
        client.answer_to(id).await.unwrap();
    }
    let channel = client.channel().to_owned();
    play.hive.terminate().unwrap();
    assert_eq!(client.wait_closed().await.unwrap(), Some(1001));
    play.hive.wait(PATIENCE).await.unwrap();
    // As retention does after its time: the first two messages' frames are let go.
    let file = stage.home().join("run/skep.db");
    let sql = "DELETE FROM outbox WHERE seq <= 4; UPDATE channels SET floor_seq = 4;";
    let done = std::process::Command::new("sqlite3").arg(&file).arg(sql).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let play = stage.up().await;
    let mut old = WsClient::connect(&play.target().resume(&channel, 1)).await.unwrap();
    assert_eq!(old.next().await.unwrap().unwrap(), json!({"type": "resync", "from": 4}));
    old.answer_to("m3").await.unwrap();
    assert_eq!(old.durable().keys().copied().collect::<Vec<_>>(), [5, 6]);
    // A number that was never given out.
    let mut ahead = WsClient::connect(&play.target().resume(&channel, 99)).await.unwrap();
    assert_eq!(ahead.next().await.unwrap().unwrap(), json!({"type": "resync", "from": 6}));
    // At the edge nothing is missing, so nothing is said.
    let mut edge = WsClient::connect(&play.target().resume(&channel, 4)).await.unwrap();
    assert_eq!(edge.next().await.unwrap().unwrap()["seq"], 5);
}

#[tokio::test]
async fn channel_sockets_are_told_when_the_hive_stops() {
    let stage = Stage::new().await;
    let mut play = stage.up().await;
    let mut clients = join_all((0..20).map(|_| play.ws())).await;
    play.hive.terminate().unwrap();
    for client in &mut clients {
        assert_eq!(client.wait_closed().await.unwrap(), Some(1001));
    }
    assert_eq!(play.hive.wait(PATIENCE).await.unwrap().code(), Some(0));
}

/// More than the kernel and the socket's queue take together.
#[tokio::test]
async fn channel_slow_reader_is_told_resync_and_has_every_durable_frame() {
    // Seven megabytes: more than the queue, the most the kernel keeps for a sender, and what it
    // keeps for this reader.
    const SESSIONS: usize = 8;
    const DELTAS: usize = 400;
    let stage = Stage::new().await;
    let piece = "x".repeat(2048);
    stage.model.answer_with(move |_| Reply::new().text_in(vec![piece.as_str(); DELTAS]));
    let play = stage.up().await;
    let slow = play.target().query("stream=true").receive_bytes(65536);
    let mut slow = WsClient::connect(&slow).await.unwrap();
    let mut quick = WsClient::connect(&play.target().resume(slow.channel(), 0)).await.unwrap();
    for number in 0..SESSIONS {
        let session = format!("s{number}");
        let message = json!({"content": "go", "id": format!("m{number}"), "session": session});
        slow.send(&message).await.unwrap();
    }
    for number in 0..SESSIONS {
        let id = format!("m{number}");
        let there = quick.durable().values().any(|frame| ws::replies_to(frame).any(|to| to == id));
        if !there {
            quick.answer_to(&id).await.unwrap();
        }
    }
    // Only now it reads.
    let mut resyncs = 0;
    while slow.durable().len() < 2 * SESSIONS {
        let frame = slow.next().await.unwrap().unwrap();
        if frame["type"] == "resync" {
            resyncs += 1;
            let before = slow.durable().keys().max().copied().unwrap_or(0);
            assert_eq!(frame["from"], before, "durable frames go on where they stopped");
        }
    }
    assert!(resyncs > 0, "the reader was not slow enough: the test shows nothing");
    assert_eq!(slow.durable(), quick.durable());
    frames(&slow);
}

#[tokio::test]
async fn channel_events_go_on_from_a_snapshot_without_gap_or_double() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| match request.steps_done() {
        0 => Reply::call("effect", json!({"text": "x", "ms": 2})),
        _ => Reply::say("fine"),
    });
    let play = stage.up().await;
    let busy = async {
        for round in 0..6 {
            let sent = (0..6).map(|session| {
                let (play, session) = (&play, format!("s{session}"));
                async move { play.item("main", &session, &format!("round {round}")).await }
            });
            for item in join_all(sent).await {
                assert_eq!(play.ended("main", &item).await["state"], "done");
            }
        }
    };
    // Watchers come at any moment, take a snapshot and go on from it.
    let watchers = (0..8).map(|watcher| {
        let (play, stage) = (&play, &stage);
        async move {
            let wanted = watcher * 8;
            wait::until_true("requests", PATIENCE, || stage.model.requests().len() >= wanted)
                .await
                .unwrap();
            let seq = play.state().await["seq"].as_u64().unwrap();
            let stream = play.api().events(&format!("/api/v1/events?since={seq}")).await.unwrap();
            (seq, stream)
        }
    });
    let ((), watchers) = tokio::join!(busy, join_all(watchers));
    let newest = play.state().await["seq"].as_u64().unwrap();
    let all = play.events().await;
    assert_eq!(all.len() as u64, newest);
    for (seq, mut stream) in watchers {
        let seen = read_events(&mut stream, seq, newest).await;
        assert_eq!(seen, all[seq as usize..]);
    }
    // A browser that comes back says so in a header.
    let request = play.api().request(reqwest::Method::GET, "/api/v1/events?since=0");
    let mut again = request.header("last-event-id", (newest - 1).to_string()).send().await.unwrap();
    let first = again.chunk().await.unwrap().unwrap();
    let first = String::from_utf8(first.to_vec()).unwrap();
    assert!(first.contains(&format!("id: {newest}")), "{first}");
    // One that knows a number never given out must read anew.
    let mut ahead =
        play.api().events(&format!("/api/v1/events?since={}", newest + 5)).await.unwrap();
    assert_eq!(ahead.next().await.unwrap().unwrap().name.as_deref(), Some("resync"));
}

#[tokio::test]
async fn channel_late_subscriber_gets_the_active_turn_so_far() {
    let stage = Stage::new().await;
    stage.model.push(
        Reply::new()
            .thinking("hm")
            .open_text()
            .delta("one ")
            .delta("two ")
            .gate("half")
            .delta("three")
            .close(),
    );
    let play = stage.up().await;
    let mut client = play.ws().await;
    let channel = client.channel().to_owned();
    client.say("m1", "count").await.unwrap();
    stage.model.gate("half").wait_arrived(1).await.unwrap();
    let path = format!("/api/v1/agents/main/history?session_key={channel}&view=full");
    let page = wait::until_async("two deltas", PATIENCE, || async {
        let page = play.api().get(&path).await.unwrap().good().unwrap();
        (page["active"]["deltas"] == 3).then_some(page)
    });
    let page = page.await.unwrap();
    assert_eq!(page["streaming"], true);
    assert_eq!(page["active"]["content"][1]["text"], "one two ");
    assert_eq!(page["messages"].as_array().unwrap().len(), 1);
    // A socket that streams, one that subscribes, and a watcher of events.
    let target = play.target().resume(&channel, 1).query("stream=true");
    let mut late = WsClient::connect(&target).await.unwrap();
    assert_eq!(late.next_of("delta").await.unwrap()["content"], "one two ");
    let mut raw = play.ws().await;
    raw.send(&json!({"type": "subscribe", "agent": "main", "session": channel})).await.unwrap();
    let active = raw.next_of("active").await.unwrap();
    assert!(active.to_string().contains("one two "), "{active}");
    let events = format!("/api/v1/events?agent=main&session={channel}");
    let mut events = play.api().events(&events).await.unwrap();
    let first = events.next().await.unwrap().unwrap();
    assert_eq!(first.name.as_deref(), Some("active"));
    assert!(first.data.contains("one two "), "{}", first.data);
    stage.model.gate("half").release();
    assert_eq!(late.next_of("delta").await.unwrap()["content"], "three");
    assert_eq!(late.answer_to("m1").await.unwrap()["content"], "one two three");
    assert_eq!(frames(&late), ["response m1: one two three"]);
    let after = events.next().await.unwrap().unwrap();
    let after: Value = serde_json::from_str(&after.data).unwrap();
    assert_eq!((&after["type"], &after["text"]), (&json!("delta"), &json!("three")));
}

/// What a model call said before it broke off, or the process before a crash, is void.
#[tokio::test]
async fn channel_deltas_tell_which_call_and_lease_they_belong_to() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().open_text().delta("void").cut());
    stage.model.push(Reply::new().open_text().delta("also void").gate("half"));
    let mut play = stage.up().await;
    let mut client = WsClient::connect(&play.target().query("stream=true")).await.unwrap();
    client.say("m1", "go").await.unwrap();
    let mut deltas = Vec::new();
    for _ in 0..2 {
        deltas.push(client.next_of("delta").await.unwrap());
    }
    play.hive.kill().await.unwrap();
    stage.model.push(Reply::new().text_in(["wh", "ole"]).gate_first("watched"));
    let play = stage.up().await;
    let target = play.target().resume(client.channel(), 1).query("stream=true");
    let mut client = WsClient::connect(&target).await.unwrap();
    // The turn goes on before anybody can watch it.
    stage.model.gate("watched").release();
    while let Some(frame) = client.next().await.unwrap() {
        match frame["type"].as_str().unwrap() {
            "delta" => deltas.push(frame),
            "response" => break,
            _ => {}
        }
    }
    assert_eq!(frames(&client), ["response m1: whole"]);
    let mark = |delta: &Value| (delta["token"].as_i64().unwrap(), delta["call"].as_i64().unwrap());
    let marks: Vec<(i64, i64)> = deltas.iter().map(mark).collect();
    assert!(marks[0] < marks[1] && marks[1] < marks[2], "{marks:?}");
    // Whoever keeps the text of the newest mark alone has the answer.
    let newest = deltas.iter().filter(|delta| mark(delta) == marks[marks.len() - 1]);
    let text: String = newest.map(|delta| delta["content"].as_str().unwrap()).collect();
    assert_eq!(text, "whole");
}

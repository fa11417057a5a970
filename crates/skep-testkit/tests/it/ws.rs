//! The WebSocket client.

use skep_testkit::WsClient;
use skep_testkit::ws::WsTarget;
use tokio_tungstenite::tungstenite::Message;

use crate::stand_in::{Lie, StandIn};

#[tokio::test]
async fn connects_talks_resumes_and_vanishes() {
    let server = StandIn::start(Lie::None).await;
    let target = WsTarget::new(&server.url, Some("right"));
    let mut client = WsClient::connect(&target).await.unwrap();
    assert_eq!(client.channel(), "ws:1");
    client.say("m-1", "hello").await.unwrap();
    assert_eq!(client.next_of("ack").await.unwrap()["message_id"], "m-1");
    assert_eq!(client.answer_to("m-1").await.unwrap()["content"], "yes");
    assert_eq!(client.durable().keys().copied().collect::<Vec<_>>(), [1, 2]);
    let seen = client.durable().clone();
    client.reset().unwrap();
    let mut again = WsClient::connect(&target.clone().resume("ws:1", 1)).await.unwrap();
    let replayed = again.next().await.unwrap().unwrap();
    assert_eq!(replayed, seen[&2], "the frame after `since`, as it was");
}

#[tokio::test]
async fn a_bad_frame_does_not_end_the_socket() {
    let server = StandIn::start(Lie::None).await;
    let target = WsTarget::new(&server.url, Some("right"));
    let mut client = WsClient::connect(&target).await.unwrap();
    client.send_raw(Message::text("{")).await.unwrap();
    assert_eq!(client.next_of("error").await.unwrap()["code"], "bad_json");
    client.say("m-1", "hello").await.unwrap();
    client.answer_to("m-1").await.unwrap();
    assert_eq!(client.durable().len(), 2, "an error without seq is not durable");
}

#[tokio::test]
async fn says_how_it_was_refused() {
    let server = StandIn::start(Lie::None).await;
    let cases = [
        (WsTarget::new(&server.url, None), Some(401)),
        (WsTarget::new(&server.url, Some("wrong")), Some(401)),
        (WsTarget::new(&server.url, Some("right")).resume("ws:other", 0), Some(404)),
        (WsTarget::new("http://127.0.0.1:1", None), None),
    ];
    for (target, status) in cases {
        let refused = WsClient::try_connect(&target).await.unwrap().err().unwrap();
        assert_eq!(refused.status, status, "{refused:?}");
    }
}

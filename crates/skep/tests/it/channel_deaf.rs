//! Sockets that ask for everything and read nothing: whoever reads does not feel them.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use skep_testkit::{Reply, WsClient};

use crate::stage::{Play, Stage};

const DEAF: usize = 100;
const MESSAGES: usize = 10;
const DELTAS: usize = 300;

/// How long one client waits for its answers, one after the other.
async fn talk(play: &Play, round: &str) -> Duration {
    let mut client = WsClient::connect(&play.target().query("stream=true")).await.unwrap();
    let begun = Instant::now();
    for number in 0..MESSAGES {
        let id = format!("{round}-{number}");
        client.say(&id, "go").await.unwrap();
        client.answer_to(&id).await.unwrap();
    }
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn channel_deaf_sockets_do_not_slow_a_client_that_reads() {
    let stage = Stage::new().await;
    let piece = "word ".repeat(20);
    stage.model.answer_with(move |_| Reply::new().text_in(vec![piece.as_str(); DELTAS]));
    let play = stage.up().await;
    let alone = talk(&play, "alone").await;
    let deaf = join_all((0..DEAF).map(|_| async {
        let mut socket = WsClient::connect(&play.target().query("stream=true")).await.unwrap();
        socket.send(&json!({"type": "subscribe", "since": 0})).await.unwrap();
        socket
    }))
    .await;
    let beside = talk(&play, "beside").await;
    drop(deaf);
    assert!(beside < alone * 4 + Duration::from_secs(4), "{alone:?} alone, {beside:?} beside them");
}

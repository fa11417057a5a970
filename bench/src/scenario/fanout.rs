//! One turn, a hundred watchers: tokens delivered a second against a bare broadcast of the same
//! frames over the same sockets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::bench::{Bench, Side};
use crate::client::{Endpoint, LoadClient};
use crate::report::{Goal, ReportRow};
use crate::stats;

const WATCHERS: usize = 100;
const TOKENS: usize = 2000;

pub async fn measure(bench: &Bench) -> Result<Vec<ReportRow>> {
    let rounds = bench.rounds();
    let (mut ours, mut bare, mut lost) = (Vec::new(), Vec::new(), 0);
    for _ in 0..rounds {
        bare.push(broadcast_rate().await?);
        let (rate, resyncs) = hive_rate(bench).await?;
        ours.push(rate);
        lost += resyncs;
    }
    let (low, high) = stats::spread(&ours);
    let what = format!("tokens to {WATCHERS} watchers");
    Ok(vec![
        ReportRow::new("fanout_100", what, stats::median(&ours), "/s")
            .floor(stats::median(&bare))
            .goal(Goal::Share(0.5))
            .note(format!("rounds {low:.0}–{high:.0}; {lost} watchers were told to resync")),
    ])
}

/// Deltas that reached watchers, a second. A watcher that is told `resync` counts what it had.
async fn hive_rate(bench: &Bench) -> Result<(f64, usize)> {
    let (_, target) = bench.side(Side::Hive);
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS {
        let mut client = LoadClient::connect(&target, true).await?;
        client.raw(&json!({ "type": "subscribe", "agent": "main" })).await?;
        watchers.spawn(async move {
            let (mut deltas, mut resync) = (0_usize, false);
            loop {
                let frame = client.next().await?;
                let event = frame.get("event").unwrap_or(&frame);
                match kind(&frame, event) {
                    "delta" => deltas += 1,
                    "resync" => resync = true,
                    "turn_end" => return anyhow::Ok((deltas, resync, Instant::now())),
                    _ => {}
                }
            }
        });
    }
    let mut speaker = LoadClient::connect(&target, false).await?;
    // Everybody is subscribed before the first word.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    speaker.turn(&format!("stream {TOKENS}"), None).await?;
    let (mut delivered, mut resyncs, mut last) = (0, 0, begun);
    while let Some(done) = watchers.join_next().await {
        let (deltas, resync, at) = done??;
        delivered += deltas;
        resyncs += usize::from(resync);
        last = last.max(at);
    }
    Ok((delivered as f64 / (last - begun).as_secs_f64(), resyncs))
}

fn kind<'a>(frame: &'a Value, event: &'a Value) -> &'a str {
    match frame["type"].as_str() {
        Some("event") | None => event["type"].as_str().unwrap_or(""),
        Some(kind) => kind,
    }
}

/// The same number of frames of the same size, from a channel to sockets and nothing else.
async fn broadcast_rate() -> Result<f64> {
    let (sender, _) = broadcast::channel::<Arc<str>>(TOKENS + 16);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let router = Router::new().route("/ws", get(pass_on)).with_state(sender.clone());
    let listener = axum::serve::ListenerExt::tap_io(listener, |socket| {
        let _ = socket.set_nodelay(true);
    });
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let target = Endpoint { url, token: None };
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS {
        let mut client = LoadClient::connect(&target, true).await?;
        watchers.spawn(async move {
            let mut deltas = 0_usize;
            loop {
                match client.next().await?["type"].as_str() {
                    Some("delta") => deltas += 1,
                    Some("turn_end") => return anyhow::Ok(deltas),
                    _ => {}
                }
            }
        });
    }
    let begun = Instant::now();
    for number in 0..TOKENS {
        let frame = json!({
            "type": "delta", "id": "00000000-0000-0000-0000-000000000000", "agent": "main",
            "session": "00000000-0000-0000-0000-000000000000", "token": 1, "call": 1,
            "turn": "00000000-0000-0000-0000-000000000000", "index": number, "part": "text",
            "text": format!("tok{number} "), "at": 1_700_000_000_000_u64,
        });
        sender.send(frame.to_string().into()).ok().context("nobody listens")?;
        tokio::task::yield_now().await;
    }
    sender.send(json!({ "type": "turn_end" }).to_string().into()).ok();
    let mut delivered = 0;
    while let Some(done) = watchers.join_next().await {
        delivered += done??;
    }
    let rate = delivered as f64 / begun.elapsed().as_secs_f64();
    server.abort();
    Ok(rate)
}

async fn pass_on(
    State(all): State<broadcast::Sender<Arc<str>>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let mut frames = all.subscribe();
    upgrade.on_upgrade(move |mut socket| async move {
        let hello = Message::Text(json!({ "type": "hello" }).to_string().into());
        let _ = socket.send(hello).await;
        while let Ok(text) = frames.recv().await {
            if socket.send(Message::Text((*text).into())).await.is_err() {
                return;
            }
        }
    })
}

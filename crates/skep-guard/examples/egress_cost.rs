//! What the guard adds to a request, in processor time: `cargo run --release -p skep-guard
//! --example egress_cost`. Batches of a bare client and of the guard take turns against one
//! server of this process; shown is the median of all batches, per request.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::json;
use skep_core::policy::host::WebAddress;
use skep_guard::egress::{Egress, EgressHub, FetchRequest, SystemResolver};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const ROUNDS: usize = 200;
const BATCH: u32 = 20;

type Bare = Client<HttpConnector, Full<Bytes>>;

#[tokio::main]
async fn main() {
    let closing = serve("Connection: close\r\n").await;
    let keeping = serve("").await;
    let listed = |port: u16| [format!("127.0.0.1:{port}"), format!("[::1]:{port}")];
    let private = [listed(closing), listed(keeping)].concat();
    let rules = serde_json::from_value(json!({
        "hosts": [format!("localhost:{closing}"), format!("localhost:{keeping}")],
        "private": private,
    }));
    let hub = EgressHub::new(Arc::new(SystemResolver::default()));
    let guarded = hub.of(1, &Arc::new(rules.unwrap()));
    let bare: Bare =
        Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build_http();
    for (what, port) in [("a connection each", closing), ("one connection kept", keeping)] {
        let url = format!("http://localhost:{port}/");
        let (mut plain, mut guard) = (Vec::new(), Vec::new());
        // Who goes first changes from round to round; the first rounds only warm up.
        for round in 0..ROUNDS + 10 {
            let (own, other);
            if round % 2 == 0 {
                own = by_bare(&bare, &url).await;
                other = by_guard(&guarded, &url).await;
            } else {
                other = by_guard(&guarded, &url).await;
                own = by_bare(&bare, &url).await;
            }
            if round >= 10 {
                plain.push(own);
                guard.push(other);
            }
        }
        let (plain, guard) = (median(&mut plain), median(&mut guard));
        let added = guard.as_secs_f64() - plain.as_secs_f64();
        println!(
            "{what}: bare {:.1} µs, guard {:.1} µs, added {:.1} µs of processor time a request",
            plain.as_secs_f64() * 1e6,
            guard.as_secs_f64() * 1e6,
            added * 1e6
        );
    }
}

async fn by_bare(client: &Bare, url: &str) -> Duration {
    let began = processor_time();
    for _ in 0..BATCH {
        let response = client.get(url.parse().unwrap()).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), 5);
    }
    (processor_time() - began) / BATCH
}

async fn by_guard(egress: &Egress, url: &str) -> Duration {
    let began = processor_time();
    for _ in 0..BATCH {
        let address = WebAddress::parse(url).unwrap();
        let page = egress.fetch(FetchRequest::get(address)).await.unwrap();
        assert_eq!(page.read().await.unwrap().len(), 5);
    }
    (processor_time() - began) / BATCH
}

async fn serve(header: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                while stream.read(&mut request).await.is_ok_and(|count| count > 0) {
                    let answer =
                        format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{header}\r\nhello");
                    if stream.write_all(answer.as_bytes()).await.is_err() || !header.is_empty() {
                        return;
                    }
                }
            });
        }
    });
    port
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Of all threads of this process.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on Linux, and the place to write to is ours.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(done, 0);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

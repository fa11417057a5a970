//! Where the program goes on its own account: to the addresses its operator wrote, and nowhere
//! else (spec 05, 6).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use skep_testkit::Reply;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::stage::Stage;

/// A server that answers everything in the same way, and how many connections it had.
async fn server(answer: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = [0; 65536];
                while stream.read(&mut request).await.is_ok_and(|count| count > 0) {
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    (url, count)
}

#[tokio::test]
async fn attack_proxy_variables_lead_nowhere() {
    let (proxy, seen) =
        server("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n".into()).await;
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::say("direct"));
    let mut start = stage.start().env("NO_PROXY", "").env("no_proxy", "");
    for name in ["http_proxy", "https_proxy", "all_proxy", "ftp_proxy"] {
        start = start.env(name, &proxy).env(name.to_uppercase(), &proxy);
    }
    // With it some clients take `HTTP_PROXY` for a header of a request.
    let play = stage.run(start.env("REQUEST_METHOD", "GET")).await;
    assert_eq!(play.ask("main", "hello").await["response"]["content"], "direct");
    let checked = play.api().get("/api/v1/providers?check=true").await.unwrap().good().unwrap();
    assert_eq!(checked["providers"][0]["reached"]["ok"], true, "{checked}");
    assert_eq!(seen.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn attack_a_model_server_redirects_nowhere() {
    let (sink, seen) = server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into()).await;
    for status in [301, 302, 303, 307, 308] {
        let moved = format!(
            "HTTP/1.1 {status} Moved\r\nLocation: {sink}/v1/messages\r\nContent-Length: 0\r\n\r\n"
        );
        let (vendor, asked) = server(moved).await;
        let stage = Stage::new().await;
        stage.write(
            "providers.yaml",
            &format!(
                "profiles:\n  default: {{provider: anthropic, model: scripted, \
                 api_url: '{vendor}', api_key: '${{RIG_KEY}}'}}\n"
            ),
        );
        let play = stage.up().await;
        let answer = play.ask("main", "hello").await;
        assert!(answer["response"].is_null(), "{status}: {answer}");
        assert!(asked.load(Ordering::SeqCst) > 0, "{status}");
    }
    assert_eq!(seen.load(Ordering::SeqCst), 0);
}

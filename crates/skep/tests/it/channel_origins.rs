//! Pages of other origins, as browsers ask for them, and the size of frames.

use reqwest::Method;
use skep_testkit::http::{Answer, answer};
use tokio_tungstenite::tungstenite::Message;

use crate::stage::{Play, Stage};

const LISTED: &str = "https://page.example";

async fn ask(play: &Play, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let api = play.hive.api(None).unwrap();
    let request = api.request(method, path);
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    answer(request).await.unwrap()
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn channel_origins_that_are_listed_may_ask_and_read() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", &format!("server: {{allowed_origins: ['{LISTED}']}}\n"));
    let play = stage.up().await;
    let token = format!("Bearer {}", play.token);
    let messages = "/api/v1/agents/main/messages";
    let asks = [
        ("origin", LISTED),
        ("access-control-request-method", "POST"),
        // The last one is of those that a client library adds by itself.
        (
            "access-control-request-headers",
            "authorization,content-type,idempotency-key,x-stainless-retry-count",
        ),
    ];
    // The browser's question: no credential comes with it, and none is asked for.
    let asked = ask(&play, Method::OPTIONS, messages, &asks).await;
    assert_eq!(asked.status, 204, "{}", asked.text);
    assert_eq!(header(&asked, "access-control-allow-origin"), Some(LISTED));
    assert!(header(&asked, "access-control-allow-methods").unwrap().contains("POST"));
    let allowed = header(&asked, "access-control-allow-headers").unwrap();
    for name in ["authorization", "content-type", "idempotency-key", "x-stainless-retry-count"] {
        assert!(allowed.contains(name), "{allowed}");
    }
    assert!(header(&asked, "vary").unwrap().contains("origin"));
    assert_eq!(header(&asked, "access-control-allow-credentials"), None);
    // The call itself, good and refused: the page can read both.
    let called = [("origin", LISTED), ("authorization", token.as_str())];
    let called = ask(&play, Method::GET, "/api/v1/agents", &called).await;
    let refused = ask(&play, Method::GET, "/api/v1/agents", &[("origin", LISTED)]).await;
    for (answer, status) in [(called, 200), (refused, 401)] {
        assert_eq!(answer.status, status, "{}", answer.text);
        assert_eq!(header(&answer, "access-control-allow-origin"), Some(LISTED));
        assert_eq!(header(&answer, "access-control-allow-credentials"), None);
    }
    // Everybody else as before: refused, and nothing a browser would take for a yes.
    let asks = [("origin", "https://evil.example"), asks[1], asks[2]];
    let asked = ask(&play, Method::OPTIONS, messages, &asks).await;
    assert_eq!(asked.status, 403, "{}", asked.text);
    assert_eq!(header(&asked, "access-control-allow-origin"), None);
    // A question that is none goes the usual way.
    let plain = ask(&play, Method::OPTIONS, messages, &[("origin", LISTED)]).await;
    assert_eq!(plain.status, 401, "{}", plain.text);
}

#[tokio::test]
async fn channel_frames_end_at_their_limit() {
    let stage = Stage::new().await;
    let play = stage.up().await;
    let mut ws = play.ws().await;
    let text = |bytes: usize| Message::text(format!("{{\"content\": \"{}\"}}", "x".repeat(bytes)));
    // Below the limit of frames, and above that of texts: an answer, and the socket lives.
    ws.send_raw(text(27 << 20)).await.unwrap();
    let refused = ws.next_of("error").await.unwrap();
    assert_eq!(refused["code"], "too_large", "{refused}");
    // The rest of it cannot be read any more: the close says why.
    let _ = ws.send_raw(text(28 << 20)).await;
    assert_eq!(ws.wait_closed().await.unwrap(), Some(1009));
}

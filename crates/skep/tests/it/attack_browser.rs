//! Browsers: what a link, a cookie and a key open, and what is left open when they end.

use reqwest::{Method, RequestBuilder};
use serde_json::json;
use skep_testkit::http::{Api, Events, answer};
use skep_testkit::model::Reply;
use skep_testkit::{WsClient, http};

use crate::stage::{Play, Stage};

/// A browser that is signed in.
pub struct Browser<'a> {
    api: Api,
    play: &'a Play,
    cookie: String,
    key: String,
}

/// The word of a new link.
pub async fn link(play: &Play, role: &str, name: &str) -> String {
    let made = play.api().post("/api/v1/links", &json!({"role": role, "name": name})).await;
    let link = made.unwrap().good().unwrap()["link"].as_str().unwrap().to_owned();
    link.split_once("#once=").unwrap().1.to_owned()
}

pub async fn sign_in<'a>(play: &'a Play, once: &str) -> Result<Browser<'a>, http::Answer> {
    let api = play.hive.api(None).unwrap();
    let entered = api.post("/api/v1/session", &json!({"once": once})).await.unwrap();
    if entered.status != 201 {
        return Err(entered);
    }
    let cookie = entered.headers["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let key = entered.json["key"].as_str().unwrap().to_owned();
    Ok(Browser { api, play, cookie, key })
}

impl Browser<'_> {
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.api.request(method, path);
        request.header("cookie", &self.cookie).header("x-skep-key", &self.key)
    }

    async fn status(&self, method: Method, path: &str) -> u16 {
        answer(self.request(method, path)).await.unwrap().status
    }

    async fn events(&self, path: &str) -> Events {
        Events::of(self.request(Method::GET, path)).await.unwrap()
    }

    async fn ws(&self) -> WsClient {
        let target = self.play.hive.ws(None).unwrap().header("cookie", &self.cookie);
        let protocols = format!("skep.v1, skep-key.{}", self.key);
        let target = target.header("sec-websocket-protocol", &protocols);
        WsClient::connect(&target).await.unwrap()
    }
}

#[tokio::test]
async fn attack_a_browser_that_signs_out_keeps_nothing_open_and_others_do() {
    let stage = Stage::new().await;
    let gate = stage.model.gate("held");
    stage.model.push(Reply::new().gate_first("held").text("late"));
    let play = stage.up().await;
    let word = link(&play, "operator", "anna").await;
    let one = sign_in(&play, &word).await.expect("signed in");
    let replayed = sign_in(&play, &word).await.err().expect("a link works once");
    assert_eq!((replayed.status, &replayed.json["code"]), (403, &json!("link_over")));
    // Both are the operator; the credential is another.
    let other = sign_in(&play, &link(&play, "operator", "anna").await).await.unwrap();
    let (mut socket, mut stays) = (one.ws().await, other.ws().await);
    let mut events = one.events("/api/v1/events").await;
    let receipt = play.tell("main", "main", "hello").await;
    let item = receipt["item_id"].as_str().unwrap();
    let message = format!("/api/v1/agents/main/messages/{item}");
    let mut told = one.events(&format!("{message}?stream=true")).await;
    let waiting = answer(one.request(Method::GET, &format!("{message}?wait=true&timeout=60")));
    let leaving = async {
        // The wait is under way: its request was sent before this one was made.
        assert_eq!(told.next().await.unwrap().unwrap().name.as_deref(), Some("message"));
        one.status(Method::DELETE, "/api/v1/session").await
    };
    let (waited, left) = tokio::join!(waiting, leaving);
    assert_eq!((waited.unwrap().status, left), (401, 204));
    assert_eq!(socket.wait_closed().await.unwrap(), Some(1008));
    while events.next().await.unwrap().is_some() {}
    while told.next().await.unwrap().is_some() {}
    for path in ["/api/v1/session", "/api/v1/events", "/api/v1/agents"] {
        assert_eq!(one.status(Method::GET, path).await, 401, "{path}");
    }
    // The other browser of the same person heard nothing of it.
    gate.open();
    stays.say("m-1", "/status").await.unwrap();
    stays.answer_to("m-1").await.unwrap();
    assert_eq!(other.status(Method::GET, "/api/v1/session").await, 200);
}

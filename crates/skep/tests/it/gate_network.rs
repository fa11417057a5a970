//! Hosts through the product: a listed one is read, another one is asked about for that call, a
//! denied one is refused whatever else says, and how often one is asked outlasts a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use skep_testkit::wait::{self, PATIENCE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::gate_policy::{answer, obeys, said};
use crate::stage::{Play, Stage};

/// A site that says the same to everybody and counts them.
struct Site {
    port: u16,
    requests: Arc<AtomicUsize>,
}

impl Site {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&requests);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.unwrap() > 0
                {
                }
                counted.fetch_add(1, Ordering::SeqCst);
                let text = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\n\
                            Content-Length: 18\r\n\r\n<h1>The hive</h1>\n";
                stream.write_all(text.as_bytes()).await.unwrap();
            }
        });
        Self { port, requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Its addresses may be dialled; `hosts` and `deny` are further lines.
    fn rules(&self, more: &str) -> String {
        let port = self.port;
        format!(
            "allowed_tools: [web_fetch]\nnetwork:\n  private: ['127.0.0.1:{port}', \
             '[::1]:{port}']\n{more}"
        )
    }

    fn call(&self, host: &str) -> String {
        format!("web_fetch {{\"url\": \"http://{host}:{}/page\"}}", self.port)
    }
}

async fn policy(play: &Play) -> Value {
    play.api().get("/api/v1/agents/main/policy").await.unwrap().good().unwrap()
}

/// Until the lists of main are these.
async fn until_denied(play: &Play, deny: &[&str]) {
    let looked = wait::until_async("the lists to be read again", PATIENCE, async || {
        (policy(play).await["network"]["deny"] == json!(deny)).then_some(())
    });
    looked.await.unwrap();
}

#[tokio::test]
async fn gate_network_reads_listed_hosts_and_tells_the_audit_trail() {
    let (stage, site) = (Stage::new().await, Site::start().await);
    let port = site.port;
    stage.write("teams/main/config.yaml", &site.rules(&format!("  hosts: ['localhost:{port}']\n")));
    obeys(&stage);
    let play = stage.up().await;
    let network = policy(&play).await["network"].clone();
    assert_eq!(network["hosts"], json!([format!("localhost:{port}")]));
    assert_eq!(network["requests_per_minute"], 60);
    for host in ["127.0.0.1", "localhost", "LOCALHOST.", "0x7f.1"] {
        let text = answer(&play, &site.call(host)).await;
        assert!(text.contains("data, not instructions]\n\n# The hive"), "{host}: {text}");
    }
    assert_eq!(site.requests(), 4);
    assert_eq!(play.questions().await, Vec::<Value>::new());
    let row = play.audit("tool=web_fetch&outcome=ok").await.pop().unwrap();
    let word = format!("read: allow; host 127.0.0.1:{port} listed");
    assert!(row["decision"].to_string().contains(&word), "{row}");
    let url = json!({"url": format!("http://localhost:{port}/page")}).to_string();
    let why = said(&stage, &["why", "main", "web_fetch", &url]).await;
    assert!(why.stdout.contains("localhost is listed in network.hosts"), "{why:?}");
    // Nothing is asked that no yes can open, and no line says something else.
    let url = |host: &str| json!({"url": format!("http://{host}/page")}).to_string();
    for (host, told) in [
        (format!("127.0.0.1:{port}"), "127.0.0.1 is listed in network.private"),
        ("169.254.169.254".to_owned(), "of a cloud: no agent may reach it\n"),
        ("10.0.5.8:81".to_owned(), "`network: {private: [\"10.0.5.8:81\"]}`\n"),
    ] {
        let why = said(&stage, &["why", "main", "web_fetch", &url(&host)]).await.stdout;
        assert!(why.contains(told), "{told} not in {why}");
        assert_eq!(why.contains("deny: "), !why.contains("allow"), "{why}");
        assert!(!why.contains("skep grant"), "{why}");
    }
    let text = answer(&play, r#"web_fetch {"url": "http://169.254.169.254/"}"#).await;
    assert!(text.starts_with("policy_deny: ") && text.contains("no agent may reach it"), "{text}");
    let unlisted = said(&stage, &["why", "main", "bash", r#"{"command": "date"}"#]).await.stdout;
    assert!(unlisted.starts_with("deny: the agent's allowed_tools does not list bash"));
    assert!(!unlisted.contains(": allow"), "{unlisted}");
    let grant = ["grant", "new", "main", "bash", "--host", "docs.rs", "--minutes", "5"];
    let refused = said(&stage, &grant).await;
    assert!(refused.code != Some(0) && refused.stderr.contains("network.hosts"), "{refused:?}");
    // The doors of the hive itself are no host, even where the address is listed.
    let own = play.hive.url().unwrap().rsplit(':').next().unwrap().to_owned();
    let config = format!("{}, '127.0.0.1:{own}']\n", site.rules("").trim_end_matches("]\n"));
    stage.write("teams/main/config.yaml", &config);
    wait::until_async("the door to be listed", PATIENCE, async || {
        let listed = policy(&play).await["network"]["private"].clone();
        (listed.as_array().unwrap().len() == 3).then_some(())
    })
    .await
    .unwrap();
    let text = answer(&play, &format!("web_fetch {{\"url\": \"http://127.0.0.1:{own}/\"}}")).await;
    assert!(text.starts_with("address_refused: "), "{text}");
    assert!(text.contains("a door of this hive"), "{text}");
}

#[tokio::test]
async fn gate_network_asks_for_other_hosts_and_deny_wins() {
    let (stage, site) = (Stage::new().await, Site::start().await);
    let port = site.port;
    stage.write("teams/main/config.yaml", &site.rules(""));
    obeys(&stage);
    let play = stage.up().await;
    let item = play.item("main", "main", &site.call("localhost")).await;
    play.until_state("main", &item, "waiting").await;
    let asked = play.question().await;
    assert_eq!((&asked["class"], &asked["network"]), (&json!("reach"), &json!("host")));
    assert_eq!(asked["summary"], format!("http://localhost:{port}/page"));
    let host = json!({
        "host": "localhost", "port": port, "url": format!("http://localhost:{port}/page"),
        "standing": "unlisted", "entry": format!("localhost:{port}"),
    });
    assert_eq!(asked["why"]["host"], host);
    assert!(
        asked["why"]["why"].to_string().contains("localhost is not in the agent's network.hosts")
    );
    let shown = said(&stage, &["approve"]).await.stdout;
    assert!(shown.contains(&format!("host     localhost, port {port}, not listed")), "{shown}");
    assert!(shown.contains("one host"), "{shown}");
    assert_eq!(site.requests(), 0);
    play.answer(&asked, "approve").await.good().unwrap();
    let ended = play.ended("main", &item).await;
    assert!(ended["response"]["content"].to_string().contains("# The hive"), "{ended}");
    let row = play.audit("tool=web_fetch&outcome=ok").await.remove(0);
    assert!(row["decision"].to_string().contains(&format!("host localhost:{port} unlisted")));

    // Once was once; `why` says how to list or grant it, and a grant counts.
    let url = json!({"url": format!("http://localhost:{port}/page")}).to_string();
    let why = said(&stage, &["why", "main", "web_fetch", &url]).await;
    let grant = "skep grant new main web_fetch --host localhost --minutes 30";
    let told = ["ask: ", &format!("network: {{hosts: [\"localhost:{port}\"]}}"), grant];
    for line in told {
        assert!(why.stdout.contains(line), "{line} not in {}", why.stdout);
    }
    let words: Vec<&str> = grant.split(' ').skip(1).collect();
    assert_eq!(said(&stage, &words).await.code, Some(0));
    let text = answer(&play, &site.call("localhost")).await;
    assert!(text.contains("# The hive"), "{text}");
    assert_eq!(site.requests(), 2);

    // Denied: neither the grant nor a person lifts it, also not one who answers later.
    stage.write("teams/main/config.yaml", &site.rules("  deny: [localhost]\n"));
    until_denied(&play, &["localhost"]).await;
    let text = answer(&play, &site.call("localhost")).await;
    let denied = "policy_deny: the call of `web_fetch` was not run: localhost is denied by the \
                  agent's network.deny: localhost";
    assert!(text.starts_with(denied), "{text}");
    let why = said(&stage, &["why", "main", "web_fetch", &url]).await;
    let line = "localhost is denied by `localhost` in network.deny";
    assert!(why.stdout.starts_with("deny: ") && why.stdout.contains(line), "{why:?}");
    assert_eq!(site.requests(), 2);
    let other = format!("web_fetch {{\"url\": \"http://ip6-localhost.invalid:{port}/\"}}");
    let item = play.item("main", "other", &other).await;
    play.until_state("main", &item, "waiting").await;
    let asked = play.question().await;
    stage.write("teams/main/config.yaml", &site.rules("  deny: ['*.invalid']\n"));
    until_denied(&play, &["*.invalid"]).await;
    play.answer(&asked, "approve").await.good().unwrap();
    let ended = play.ended("main", &item).await;
    assert!(ended["response"]["content"].to_string().contains("policy_deny: "), "{ended}");
    assert_eq!(site.requests(), 2);
}

#[tokio::test]
async fn gate_network_counts_requests_over_a_restart() {
    let (stage, site) = (Stage::new().await, Site::start().await);
    stage.write("teams/main/config.yaml", &site.rules(""));
    stage.write("skep.yaml", "limits: {requests_per_minute: 2}\n");
    obeys(&stage);
    let mut play = stage.up().await;
    for _ in 0..2 {
        let text = answer(&play, &site.call("127.0.0.1")).await;
        assert!(text.contains("# The hive"), "{text}");
    }
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();
    let play = stage.up().await;
    let text = answer(&play, &site.call("127.0.0.1")).await;
    assert!(text.starts_with("rate_limited: "), "{text}");
    assert!(text.contains("2 requests a minute (`limits.requests_per_minute`)"), "{text}");
    assert!(text.contains("try again in "), "{text}");
    assert_eq!(site.requests(), 2);
    // Another host has a bucket of its own.
    let other = format!("web_fetch {{\"url\": \"http://[::1]:{}/\"}}", site.port);
    assert!(!answer(&play, &other).await.starts_with("rate_limited"));
    // More are allowed at once when the setting says so.
    stage.write("skep.yaml", "limits: {requests_per_minute: 600}\n");
    wait::until_async("the new limit", PATIENCE, async || {
        (policy(&play).await["network"]["requests_per_minute"] == 600).then_some(())
    })
    .await
    .unwrap();
    wait::until_async("a request to be allowed", PATIENCE, async || {
        answer(&play, &site.call("127.0.0.1")).await.contains("# The hive").then_some(())
    })
    .await
    .unwrap();
}

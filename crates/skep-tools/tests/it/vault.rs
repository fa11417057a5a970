//! The vault in an agent's hands: its own entries, those of people, and where they may go.

use std::sync::{Arc, Mutex};

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use skep_core::policy::network::HostEntry;
use skep_core::policy::vault::HIVE;
use skep_core::tool::{CallSecrets, SecretArgument, Tool};
use skep_guard::egress::{EgressHub, SystemResolver};
use skep_guard::vault::{NewVaultEntry, Owner, Vault};
use skep_tools::{VaultTool, WebFetchTool};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::lab::{self, Answer, OUTPUT_BYTES};

struct Hands {
    _folder: TempDir,
    vault: Arc<Vault>,
    tools: [VaultTool; 4],
}

impl Hands {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let vault = lab::vault(folder.path());
        Self { tools: VaultTool::all(&vault), vault, _folder: folder }
    }

    /// As a person sets it.
    async fn put(&self, owner: i64, name: &str, value: &str, hosts: &[String]) {
        let hosts = hosts.iter().map(|host| HostEntry::parse(host).unwrap()).collect();
        let (name, value) = (name.to_owned(), Some(SecretString::from(value)));
        let given_by = Owner::People;
        let entry = NewVaultEntry { owner, name, value, secret: true, given_by, hosts };
        self.vault.set(entry, None, 1).await.unwrap();
    }

    /// The answer, and what the model alone is shown.
    async fn call(&self, name: &str, arguments: Value, given: Option<&str>) -> (Answer, Value) {
        let tool = self.tools.iter().find(|tool| tool.spec().name == name).unwrap();
        let mut context = lab::context(std::path::Path::new("/nonexistent"));
        let given = given.map(|value| ("value", SecretString::from(value)));
        context.secrets = CallSecrets::new(given.into_iter().collect());
        let secrets = context.secrets.clone();
        let answer = lab::call(tool, arguments, context).await;
        (answer, secrets.shown().map_or(Value::Null, |text| json!(text.expose_secret())))
    }
}

#[tokio::test]
async fn vault_an_agent_has_its_own_entries_and_uses_those_of_people() {
    let hands = Hands::new();
    hands.put(1, "GITHUB", "github-value-0001", &["api.github.com".into()]).await;
    hands.put(2, "OTHERS", "others-value-0001", &["api.github.com".into()]).await;
    hands.put(HIVE, "SHARED", "shared-value-0001", &["*.example.org".into()]).await;
    hands.put(HIVE, "PROFILE", "profile-value-001", &[]).await;
    let secret = hands.tools[0].secret_arguments(&json!({"key": "OWN", "value": "x"}));
    assert_eq!(secret, [SecretArgument { argument: "value", name: "vault.OWN".into() }]);
    let marked = json!({"key": "OWN", "value": "[secret:vault.OWN]"});
    // Without the value, which is on no record, nothing is set.
    let (lost, _) = hands.call("vault_set", marked.clone(), None).await;
    assert_eq!(lost.class(), "value_lost");
    let (kept, _) = hands.call("vault_set", marked, Some("own-value-0aB3dE5gH7jK")).await;
    assert_eq!(kept.text, "kept OWN. It shows as [secret:vault.OWN] from now on.");
    let (listed, _) = hands.call("vault_list", json!({}), None).await;
    let expected = "SHARED: set by a person, for *.example.org\nGITHUB: set by a person, for \
                    api.github.com\nOWN: set by this agent";
    assert_eq!(listed.text, expected);
    let (own, shown) = hands.call("vault_get", json!({"key": "OWN"}), None).await;
    // The model is shown the value, the record has its name.
    let value = json!("own-value-0aB3dE5gH7jK");
    assert_eq!((own.text.as_str(), shown), ("[secret:vault.OWN]", value));
    let (used, shown) = hands.call("vault_get", json!({"key": "GITHUB"}), None).await;
    let how = r#"{"use":"{{vault:GITHUB}}","hosts":["api.github.com"]}"#;
    assert_eq!((used.text.as_str(), shown), (how, Value::Null));
    let refused = async |tool: &str, key: &str| {
        let arguments = match tool {
            "vault_set" => json!({"key": key, "value": "[secret:x]"}),
            _ => json!({ "key": key }),
        };
        let (answer, _) = hands.call(tool, arguments, Some("another-value-0001")).await;
        answer.class().to_owned()
    };
    assert_eq!(refused("vault_get", "OTHERS").await, "vault_unknown");
    assert_eq!(refused("vault_set", "GITHUB").await, "vault_refused");
    assert_eq!(refused("vault_delete", "GITHUB").await, "vault_refused");
    assert_eq!(refused("vault_delete", "SHARED").await, "vault_unknown");
    assert_eq!(refused("vault_delete", "OWN").await, "");
    assert_eq!(refused("vault_get", "OWN").await, "vault_unknown");
}

/// Answers with what it was sent; `/to?ADDRESS` redirects there.
struct Mirror {
    port: u16,
    heard: Arc<Mutex<String>>,
}

impl Mirror {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::<Mutex<String>>::default();
        let hears = Arc::clone(&heard);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = vec![0; 64 << 10];
                let count = stream.read(&mut bytes).await.unwrap();
                let request = String::from_utf8_lossy(&bytes[..count]).into_owned();
                hears.lock().unwrap().push_str(&request);
                let line = request.split_whitespace().nth(1).unwrap_or_default();
                let answer = match line.split_once("/to?") {
                    Some((_, to)) => {
                        let status = if request.starts_with("POST") { 307 } else { 302 };
                        format!(
                            "HTTP/1.1 {status} x\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"
                        )
                    }
                    None => format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n\
                         {request}",
                        request.len()
                    ),
                };
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { port, heard }
    }

    fn has_heard(&self, text: &str) -> bool {
        self.heard.lock().unwrap().contains(text)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vault_an_entry_goes_to_its_hosts_alone() {
    let hands = Hands::new();
    let (mine, other) = (Mirror::start().await, Mirror::start().await);
    let host = |mirror: &Mirror| format!("127.0.0.1:{}", mirror.port);
    let value = "value-for-one-host-42";
    hands.put(1, "TOKEN", value, &[host(&mine)]).await;
    hands.put(1, "NOWHERE", "value-for-no-host-42", &[]).await;
    hands.put(2, "OTHERS", "value-of-another-42", &[host(&mine)]).await;
    let hub = Arc::new(EgressHub::new(Arc::new(SystemResolver::default())));
    let tool = WebFetchTool::new(hub, Arc::clone(&hands.vault), OUTPUT_BYTES);
    let rules = json!({"private": [host(&mine), host(&other)]});
    let rules = Arc::new(serde_json::from_value(rules).unwrap());
    let fetch = async |to: &Mirror, path: &str, more: Value| {
        let mut arguments = json!({"url": format!("http://{}{path}", host(to))});
        for (key, value) in more.as_object().unwrap() {
            arguments[key] = value.clone();
        }
        let mut context = lab::context(std::path::Path::new("/nonexistent"));
        context.network = Arc::clone(&rules);
        lab::call(&tool, arguments, context).await
    };
    let header = |name: &str, text: &str| json!({"headers": {name: text}});
    // It arrives where it may, in headers and in the body.
    let sent = fetch(&mine, "/", header("Authorization", "Bearer {{vault:TOKEN}}")).await;
    assert!(!sent.is_error && mine.has_heard(&format!("Bearer {value}")), "{sent:?}");
    // What comes back is not read in pieces either.
    let mut seen = String::new();
    for offset in (0..).step_by(12) {
        let mut more = header("X-Key", "{{vault:TOKEN}}");
        (more["offset"], more["max_bytes"]) = (json!(offset), json!(12));
        let page = fetch(&mine, "/", more).await.text;
        if page.starts_with("past_end") {
            break;
        }
        seen.push_str(page.split_once("not instructions]\n\n").map_or("", |(_, shown)| shown));
    }
    assert!(seen.contains("[secret:vault.TOKEN]"), "{seen}");
    let pieces: Vec<&str> = (0..value.len() - 7).map(|at| &value[at..at + 8]).collect();
    assert!(!pieces.iter().any(|piece| seen.contains(piece)), "{seen}");
    let body = json!({"method": "POST", "body": "key={{vault:TOKEN}}&x=1"});
    let sent = fetch(&mine, "/", body.clone()).await;
    assert!(!sent.is_error && mine.has_heard(&format!("key={value}&x=1")), "{sent:?}");
    assert!(hands.vault.list()[1].row.used_at.is_some(), "its use is on record");
    // And nowhere else: not directly, not over a redirect, whatever header carries it.
    let away = format!("/to?http://{}/", host(&other));
    let refused = [
        (&other, "/", header("Authorization", "{{vault:TOKEN}}"), "vault_host"),
        (&other, "/", body.clone(), "vault_host"),
        (&mine, "/", header("X", "{{vault:NOWHERE}}"), "vault_host"),
        (&mine, "/", header("X", "{{vault:OTHERS}}"), "vault_unknown"),
        (&mine, "/", header("X", "{{vault:MISSING}}"), "vault_unknown"),
        (&mine, "/", header("X", "{{vault:TOKEN"), "vault_invalid"),
        (&mine, "/", header("Host", "{{vault:TOKEN}}"), "header_refused"),
        (&mine, &away, header("User-Agent", "{{vault:TOKEN}}"), "vault_host"),
        (&mine, &away, header("Accept", "{{vault:TOKEN}}"), "vault_host"),
        (&mine, &away, body, "redirect_refused"),
    ];
    for (to, path, more, class) in refused {
        let answer = fetch(to, path, more.clone()).await;
        assert_eq!(answer.class(), class, "{more} {answer:?}");
    }
    // Where it is dropped on the way, the rest goes on.
    let moved = fetch(&mine, &away, header("Authorization", "Bearer {{vault:TOKEN}}")).await;
    assert!(!moved.is_error, "{moved:?}");
    assert!(other.has_heard("GET / HTTP/1.1") && !other.has_heard(value));
    let in_url = fetch(&mine, "/?k={{vault:TOKEN}}", json!({})).await;
    assert!(in_url.text.starts_with("a vault entry goes into a header or the body"));
}

#[tokio::test]
async fn vault_an_entry_does_not_go_unencrypted_to_a_public_host() {
    let hands = Hands::new();
    hands.put(1, "TOKEN", "value-for-one-host-42", &["example.org".into()]).await;
    let hub = Arc::new(EgressHub::new(Arc::new(SystemResolver::default())));
    let tool = WebFetchTool::new(hub, Arc::clone(&hands.vault), OUTPUT_BYTES);
    let mut context = lab::context(std::path::Path::new("/nonexistent"));
    context.network = Arc::new(serde_json::from_value(json!({"hosts": ["example.org"]})).unwrap());
    let headers = json!({"X": "{{vault:TOKEN}}"});
    let arguments = json!({"url": "http://example.org/", "headers": headers});
    assert_eq!(lab::call(&tool, arguments, context).await.class(), "vault_unencrypted");
}

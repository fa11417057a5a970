//! A real child behind the walls: its network holds the relay and nothing else.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use serde_json::{Value, json};
use skep_core::relay::RelayWire;
use skep_core::settings::SandboxLevel;
use skep_guard::duplex::{DuplexChild, DuplexProgram, DuplexRecords};
use skep_guard::network::RoomNetwork;
use skep_guard::sandbox::{Level, Sandbox, SandboxRoom, Settings};
use skep_testkit::{Reply, ScriptedModel};

use crate::scene::{KEY, Scene, WIRES, body, path};

/// Asks for what it is told in lines, with clients as they are.
const PROGRAM: &str = r#"
import json, subprocess, sys, urllib.request

def ask(order):
    if order["by"] == "curl":
        words = ["curl", "-sS", "-m", "20", "-w", "\n%{http_code}", "--data-binary", "@-"]
        for name, value in order["headers"].items():
            words += ["-H", f"{name}: {value}"]
        ran = subprocess.run(words + [order["url"]], input=order["body"], text=True,
                             capture_output=True)
        return ran.stdout + ran.stderr
    request = urllib.request.Request(order["url"], order["body"].encode(), order["headers"])
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read().decode() + f"\n{answer.status}"
    except urllib.error.HTTPError as error:
        return error.read().decode() + f"\n{error.code}"
    except OSError as error:
        return str(error)

for line in sys.stdin:
    print(json.dumps(ask(json.loads(line))), flush=True)
"#;

struct Confined {
    scene: Scene,
    child: DuplexChild,
    _home: tempfile::TempDir,
}

impl Confined {
    async fn new(wire: RelayWire, vendor: &str) -> Self {
        let scene = Scene::at(wire, vendor, SandboxLevel::Confined);
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let workspace = home.path().join("work");
        fs::create_dir(&workspace).unwrap();
        let mut settings = Settings::new(Level::Confined, Vec::new());
        settings.limits.disk_floor_bytes = 0;
        let network = RoomNetwork::Service(scene.lease.service.clone());
        let room = SandboxRoom { workspace, read_only: Vec::new(), network };
        let words = ["-c".into(), PROGRAM.into()].to_vec();
        let mut program = DuplexProgram::new("python3", words);
        program.environment.push(("BEARER".to_owned(), scene.lease.bearer.clone()));
        let records = DuplexRecords::new(home.path().join("children"));
        let child = records.start("engine", &Sandbox::new(settings), program, &room).await.unwrap();
        Self { scene, child, _home: home }
    }

    async fn ask(&mut self, by: &str, url: &str, bearer: &str) -> String {
        let mut headers = json!({
            "authorization": format!("Bearer {bearer}"),
            "content-type": "application/json",
            "anthropic-version": "2023-06-01",
        });
        if self.scene.wire == RelayWire::Responses {
            headers.as_object_mut().unwrap().remove("anthropic-version");
        }
        let sent = body(self.scene.wire).to_string();
        let order = json!({ "by": by, "url": url, "headers": headers, "body": sent });
        self.child.sender().send(order.to_string()).await.unwrap();
        let line = self.child.line().await.unwrap().unwrap();
        serde_json::from_slice::<Value>(&line).unwrap().as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn usual_clients_behind_the_walls_reach_the_model() {
    for wire in WIRES {
        let model = ScriptedModel::start().await.unwrap();
        model.require_key(KEY);
        model.answer_with(|_| Reply::say("Grüße from the model"));
        let mut confined = Confined::new(wire, &model.base_url()).await;
        let url = format!("{}{}", confined.scene.lease.base_url, path(wire));
        assert!(url.starts_with("http://model.skep/v1/"));
        let bearer = confined.scene.lease.bearer.clone();
        let closed = confined.ask("curl", &url, &bearer).await;
        assert!(closed.contains("[relay_closed]") && closed.ends_with("403"), "{closed}");
        let mut open = confined.scene.open();
        for by in ["curl", "python"] {
            let said = confined.ask(by, &url, &bearer).await;
            assert!(said.contains("Grüße from the model") && said.ends_with("200"), "{said}");
            assert!(open.used.recv().await.unwrap().meta.usage.total_tokens > 0);
            let wrong = confined.ask(by, &url, "wrong").await;
            assert!(wrong.contains("[relay_bearer]") && wrong.ends_with("401"), "{wrong}");
        }
        // The vendor itself, this machine, and any other name are not there.
        let vendor = model.base_url();
        for url in [format!("{vendor}{}", path(wire)), "https://api.anthropic.com/".to_owned()] {
            for by in ["curl", "python"] {
                let said = confined.ask(by, &url, &bearer).await;
                assert!(!said.ends_with("200"), "{url} {said}");
            }
        }
        assert_eq!(model.asked(), 2);
        let end = confined.child.end().await.unwrap();
        let refused: Vec<&str> = end.contacts.iter().map(|it| it.host.as_str()).collect();
        assert_eq!(refused, ["api.anthropic.com"]);
    }
}

/// Before, while and after a request is answered. The bearer, which it does have, is found: so
/// the key would be.
#[tokio::test]
async fn the_key_is_nowhere_in_the_process() {
    let model = ScriptedModel::start().await.unwrap();
    model.require_key(KEY);
    let half = Reply::new().open_text().delta("one").gate("half").delta("two").close();
    model.push(half);
    let mut confined = Confined::new(RelayWire::Anthropic, &model.base_url()).await;
    let _open = confined.scene.open();
    let bearer = confined.scene.lease.bearer.clone();
    let url = format!("{}/v1/messages", confined.scene.lease.base_url);
    let early = confined.ask("python", &url, "wrong").await;
    assert!(early.ends_with("401"), "{early}");
    let pid = confined.child.pid();
    let look = || {
        let encoded = BASE64_STANDARD_NO_PAD.encode(KEY);
        for secret in [KEY, &encoded[..encoded.len() - 2]] {
            assert_eq!(holders(pid, secret.as_bytes(), given), 0);
            assert_eq!(holders(pid, secret.as_bytes(), memory), 0);
        }
        assert!(holders(pid, bearer.as_bytes(), memory) > 0, "the control is not found");
    };
    look();
    let asked = confined.ask("python", &url, &bearer);
    let watched = async {
        model.wait_for_request(1).await.unwrap();
        look();
        model.gate("half").release();
    };
    let (said, ()) = tokio::join!(asked, watched);
    assert!(said.contains("two") && said.ends_with("200"), "{said}");
    look();
}

/// How many processes from this one on have the bytes, by `look`.
fn holders(pid: u32, secret: &[u8], look: fn(&Path) -> Vec<Vec<u8>>) -> usize {
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(parent) = family.get(at) {
        family.extend(children(*parent));
        at += 1;
    }
    assert!(family.len() > 2, "{family:?}");
    let within = |bytes: &Vec<u8>| bytes.windows(secret.len()).any(|window| window == secret);
    let has = |pid: &&u32| look(&Path::new("/proc").join(pid.to_string())).iter().any(within);
    family.iter().filter(has).count()
}

fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let listed = fs::read_to_string(path).unwrap_or_default();
    listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// What the process was started with.
fn given(process: &Path) -> Vec<Vec<u8>> {
    ["environ", "cmdline"].map(|file| fs::read(process.join(file)).unwrap()).to_vec()
}

/// All of its memory that it can write.
fn memory(process: &Path) -> Vec<Vec<u8>> {
    let mut memory = fs::File::open(process.join("mem")).unwrap();
    let maps = fs::read_to_string(process.join("maps")).unwrap();
    let writable = maps.lines().filter(|line| line.contains(" rw"));
    let read = writable.map(|line| {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).unwrap());
        let mut bytes = Vec::new();
        memory.seek(SeekFrom::Start(from)).unwrap();
        let _ = Read::by_ref(&mut memory).take(to - from).read_to_end(&mut bytes);
        bytes
    });
    read.collect()
}

//! Where a journey plays: a home of its own, a scripted model, and the rig on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};
use skep_testkit::effects::Effects;
use skep_testkit::hive::Start;
use skep_testkit::http::Api;
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::ws::WsTarget;
use skep_testkit::{Hive, ScriptedModel, WsClient, locate};
use tempfile::TempDir;

/// Before the operator token of a first start.
const SHOWN: &str = "shown this once: ";

pub struct Stage {
    pub model: ScriptedModel,
    pub effects: Effects,
    home: PathBuf,
    /// Shown at the first start only.
    token: Mutex<Option<String>>,
    /// Holds everything; gone with the stage.
    folder: TempDir,
}

impl Stage {
    /// `main` on the native engine, `plain` on the one that can neither queue nor interrupt; both
    /// with every tool of the rig and the scripted model behind them.
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = ScriptedModel::start().await.unwrap();
        let home = folder.path().join("home");
        let stage = Self {
            effects: Effects::at(&folder.path().join("effects")),
            token: Mutex::new(None),
            model,
            home,
            folder,
        };
        // Gates hold the model back for as long as it takes: a machine under load is not taken for
        // a vendor that hangs.
        stage.write_profile(600);
        stage.write("teams/main/config.yaml", "allowed_tools: ['*']\n");
        stage.write("teams/plain/config.yaml", "engine: blunt\nallowed_tools: ['*']\n");
        stage
    }

    /// The scripted model, given up after this many seconds of silence.
    pub fn write_profile(&self, seconds: u32) {
        self.write(
            "providers.yaml",
            &format!(
                "profiles:\n  default:\n    provider: anthropic\n    model: scripted\n    \
                 api_url: {}\n    api_key: ${{RIG_KEY}}\n    max_output_tokens: 1024\n    \
                 timeouts: {{ connect: 600, first: {seconds}, idle: {seconds} }}\n",
                self.model.base_url()
            ),
        );
    }

    /// A new stage with a copy of this one's database and its token: it spares the first start.
    /// Nothing may run on this one.
    pub async fn again(&self) -> Self {
        let other = Self::new().await;
        fs::create_dir_all(other.home.join("run")).unwrap();
        for file in ["run/skep.db", "run/clean", "run/audit.head"] {
            fs::copy(self.home.join(file), other.home.join(file)).unwrap();
        }
        *other.token.lock().unwrap() = self.token.lock().unwrap().clone();
        other
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Outside the home.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, file: &str, text: &str) {
        let path = self.home.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Takes a folder out of the home at once: file by file, the hive could make one anew
    /// meanwhile.
    pub fn take_out(&self, folder: &str) {
        let place = tempfile::tempdir_in(self.folder()).unwrap().keep();
        fs::rename(self.home.join(folder), place).unwrap();
    }

    /// The rig, about to start on this home.
    pub fn start(&self) -> Start {
        Start::up(&locate::rig().unwrap(), &self.home)
            .env("RIG_EFFECTS", self.effects.path())
            .env("RIG_KEY", "rig-key-canary-1f7c")
    }

    /// The rig with its two hooks; each does what [`Stage::hook`] says.
    pub fn hooked(&self) -> Start {
        fs::create_dir_all(self.hooks()).unwrap();
        self.start().env("RIG_HOOKS", self.hooks())
    }

    /// From now on the hook `first` or `second` does this: `{"rewrite": …}`, `{"append": …}` to a
    /// command, `{"veto": …}`, `{"fail": …}`, `{"panic": …}`, `{"hang": …}` before a call;
    /// `{"replace": …}`, `{"withhold": …}` or the last three after it.
    pub fn hook(&self, name: &str, point: &str, wish: &Value) {
        fs::create_dir_all(self.hooks()).unwrap();
        fs::write(self.hooks().join(format!("{name}.{point}")), wish.to_string()).unwrap();
    }

    /// Calls and answers as a hook was shown them, without one that it is about to write down.
    pub fn seen_by(&self, name: &str) -> Vec<Value> {
        let lines = fs::read_to_string(self.hooks().join(format!("{name}.seen")));
        let lines = lines.unwrap_or_default();
        let whole = lines.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn hooks(&self) -> PathBuf {
        self.folder.path().join("hooks")
    }

    /// The rig, listening.
    pub async fn up(&self) -> Play {
        self.run(self.start()).await
    }

    pub async fn run(&self, start: Start) -> Play {
        let play = self.play(start.listening().await.unwrap());
        // A first start keeps its token between its last words and its first answer.
        if play.hive.stdout().contains(SHOWN) {
            play.hive.wait_ready().await.unwrap();
        }
        play
    }

    /// A rig that listens.
    pub fn play(&self, hive: Hive) -> Play {
        let mut token = self.token.lock().unwrap();
        let shown = hive.stdout();
        if let Some((_, after)) = shown.split_once(SHOWN) {
            *token = Some(after.lines().next().unwrap().to_owned());
        }
        let token = token.clone().expect("the first start shows a token");
        Play { hive, token }
    }
}

/// A running rig.
pub struct Play {
    pub hive: Hive,
    pub token: String,
}

impl Play {
    pub fn api(&self) -> Api {
        self.hive.api(Some(&self.token)).unwrap()
    }

    pub fn target(&self) -> WsTarget {
        self.hive.ws(Some(&self.token)).unwrap()
    }

    pub async fn ws(&self) -> WsClient {
        WsClient::connect(&self.target()).await.unwrap()
    }

    /// Sends and waits for the end; the followed message.
    pub async fn ask(&self, agent: &str, text: &str) -> Value {
        let path = format!("/api/v1/agents/{agent}/messages?wait=true&timeout=60");
        let answer = self.api().post(&path, &json!({"message": text})).await.unwrap();
        answer.good().unwrap()
    }

    /// Sends without waiting; the receipt.
    pub async fn tell(&self, agent: &str, session: &str, text: &str) -> Value {
        let path = format!("/api/v1/agents/{agent}/messages");
        let body = json!({"message": text, "session_key": session});
        self.api().post(&path, &body).await.unwrap().good().unwrap()
    }

    /// The end of a message that was sent.
    pub async fn ended(&self, agent: &str, item: &str) -> Value {
        let path = format!("/api/v1/agents/{agent}/messages/{item}?wait=true&timeout=60");
        self.api().get(&path).await.unwrap().good().unwrap()
    }

    /// Every message of a session, full.
    pub async fn history(&self, agent: &str, session: &str) -> Vec<Value> {
        let path =
            format!("/api/v1/agents/{agent}/history?session_key={session}&view=full&limit=500");
        let page = self.api().get(&path).await.unwrap().good().unwrap();
        page["messages"].as_array().unwrap().clone()
    }

    pub async fn state(&self) -> Value {
        self.api().get("/api/v1/state").await.unwrap().good().unwrap()
    }

    /// Decides a waiting call through the rig's own door.
    pub async fn decide(&self, turn: &str, call: &str, value: Value) -> u16 {
        let body = json!({"turn": turn, "call": call, "value": value});
        self.rig("/decide", &body).await.0
    }

    /// From now on the rig's source of tools offers these; hooks as `{name, agent, priority}`.
    pub async fn offer(&self, tools: &[&str], hooks: Value) {
        let (status, why) = self.rig("/offer", &json!({"tools": tools, "hooks": hooks})).await;
        assert_eq!(status, 204, "{why}");
    }

    /// Asks at the rig's own door.
    pub async fn rig(&self, path: &str, body: &Value) -> (u16, String) {
        let answer = self.rig_door().await.post(path, body).await.unwrap();
        (answer.status, answer.text)
    }

    /// The rig's own door.
    pub async fn rig_door(&self) -> Api {
        let named = wait::until("the rig's door for decisions", PATIENCE, || {
            let shown = self.hive.stdout();
            let (_, after) = shown.split_once("deciding on ")?;
            Some(after.split_once('\n')?.0.to_owned())
        });
        Api::tcp(&named.await.unwrap(), None).unwrap()
    }
}

//! Four clients that write down what they were promised, a model that never answers the same way
//! twice, and the questions asked after every crash.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use skep_testkit::canary::Canary;
use skep_testkit::hive::Start;
use skep_testkit::model::Differing;
use skep_testkit::recorder::Recorder;
use skep_testkit::wait::{PATIENCE, Stopwatch};
use skep_testkit::ws::WsTarget;
use skep_testkit::{ModelRequest, Reply};

use crate::fault_crash_journal::{Journal, call_ids, text_of, word};
use crate::stage::{Play, Stage};

const CLIENTS: usize = 4;
/// Steps with calls in a turn.
const ROUNDS: usize = 2;
/// The promise: ready again within this after any crash.
const READY: Duration = Duration::from_secs(3);
const SETTLE: Duration = Duration::from_secs(60);

/// What starts took.
#[derive(Default)]
pub struct Starts(Vec<Duration>);

impl Starts {
    pub fn add(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// The promise holds for each.
    pub fn check(mut self) -> String {
        self.0.sort_unstable();
        let (middle, slowest) = (self.0[self.0.len() / 2], self.0[self.0.len() - 1]);
        assert!(slowest < READY, "ready after {middle:?}, the slowest after {slowest:?}");
        format!("starts {middle:?}, the slowest {slowest:?}")
    }
}

pub struct Scene {
    pub stage: Stage,
    clients: Vec<Recorder>,
    /// How long each start took until the hive was ready.
    pub starts: Starts,
}

impl Scene {
    /// On a home that knows its agents and its token already.
    pub fn on(stage: Stage) -> Self {
        stage.model.answer_with(answer);
        let mut scene = Scene { stage, clients: Vec::new(), starts: Starts::default() };
        scene.new_clients("a");
        scene
    }

    /// Other clients, each with a conversation of its own.
    pub fn new_clients(&mut self, word: &str) {
        let client = |number: usize| {
            let name = format!("{word}{number}");
            let text = name.clone();
            Recorder::new(&name, move |n| format!("<{text}-{n}> do it")).window(2)
        };
        self.clients = (0..CLIENTS).map(client).collect();
    }

    pub fn start(&self) -> Start {
        self.stage.start()
    }

    /// Starts it; nothing when it is killed before it is ready.
    pub async fn up(&mut self, start: Start) -> Option<Play> {
        let begun = Stopwatch::start();
        let mut hive = start.spawn().unwrap();
        if let Err(error) = hive.wait_listening().await {
            assert!(!hive.is_running(), "{error:#}");
            return None;
        }
        let mut play = self.stage.play(hive);
        let api = play.hive.api(None).unwrap();
        while !api.get("/api/v1/ready").await.is_ok_and(|answer| answer.status == 200) {
            if !play.hive.is_running() {
                return None;
            }
            assert!(begun.elapsed() < PATIENCE, "not ready in time\n{}", play.hive.stderr());
        }
        self.starts.0.push(begun.elapsed());
        Some(play)
    }

    /// Every client sends `count` messages; done when all are answered or the hive is gone.
    pub async fn load(&mut self, target: &WsTarget, count: usize) {
        let runs = self.clients.iter_mut().map(|client| client.run(target, count));
        for ran in join_all(runs).await {
            ran.unwrap();
        }
    }

    /// Everything sent so far comes to its end.
    pub async fn settle(&mut self, target: &WsTarget) {
        let runs = self.clients.iter_mut().map(|client| client.settle(target, SETTLE));
        for ran in join_all(runs).await {
            ran.unwrap();
        }
    }

    /// Model requests so far.
    pub async fn asked(&self) -> usize {
        self.requests_after(0, <[ModelRequest]>::len).await
    }

    /// Asks about the requests after the first `asked`; copying all of them would take long.
    async fn requests_after<T>(&self, asked: usize, ask: impl Fn(&[ModelRequest]) -> T) -> T {
        let model = &self.stage.model;
        let answer = |requests: &[ModelRequest]| Some(ask(&requests[asked..]));
        model.wait_at_most("requests", SETTLE, answer).await.unwrap()
    }

    /// After a restart: every turn that was open went on after its last step on record.
    pub async fn check_resumed(&self, before: &Journal, asked_before: usize) {
        let requests = self.requests_after(asked_before, <[ModelRequest]>::to_vec).await;
        for turn in before.open_turns() {
            let first = before.rows(turn, "user").next().expect("a turn has a user message");
            let mark = text_of(first);
            let request = requests.iter().find(|request| position(request, &mark).is_some());
            let request = request.unwrap_or_else(|| panic!("turn {turn} ({mark}) did not go on"));
            check_request(before, turn, &mark, request);
        }
    }

    /// At the end: every promise kept, nothing done twice, nothing left over.
    pub async fn check_quiet(&self, play: Play) -> Journal {
        let state = play.state().await;
        let trail = play.api().get("/api/v1/audit/verify").await.unwrap().good().unwrap();
        assert_eq!(trail["ok"], true, "no crash is taken for somebody's doing: {trail}");
        let Play { mut hive, .. } = play;
        hive.kill().await.unwrap();
        let journal = Journal::of(self.stage.home());
        assert_eq!(journal.left(), Vec::<&Value>::new(), "still to do");
        for client in &self.clients {
            let tally = client.verify().unwrap();
            assert_eq!((tally.acked, tally.refused), (client.sent().len(), 0));
            // Never three kills in one step, so never dead.
            assert_eq!(tally.errors, BTreeMap::new());
            self.check_history(&journal, client);
        }
        self.check_effects(&journal, &state);
        let refused = |requests: &[ModelRequest]| {
            requests.iter().filter_map(|request| request.refusal.clone()).collect::<Vec<_>>()
        };
        assert_eq!(self.requests_after(0, refused).await, Vec::<String>::new());
        let key = Canary::of("rig-key-canary-1f7c");
        assert_eq!(key.find_below(self.stage.home()).unwrap(), []);
        journal
    }

    /// Each message stands in history exactly once, in the order sent.
    fn check_history(&self, journal: &Journal, client: &Recorder) {
        let sent: Vec<&str> = client.sent().iter().map(|sent| sent.id.as_str()).collect();
        let users = journal.history.iter().map(|row| &row["body"]);
        let users = users.filter(|body| body["role"] == "user");
        let ids = users.map(|body| word(&body["origin"]["messageId"]));
        let kept: Vec<&str> = ids.filter(|id| sent.contains(id)).collect();
        assert_eq!(kept, sent, "messages in history");
    }

    fn check_effects(&self, journal: &Journal, state: &Value) {
        let counts = self.stage.effects.counts().unwrap();
        let calls = journal.calls_by_name();
        let shown = state["unknown_calls"].as_array().unwrap();
        for (name, count) in &counts {
            assert_eq!(*count, 1, "effects of {name}");
            assert!(calls.contains_key(name), "{name} had its effect and is on no record");
        }
        for (name, call) in calls {
            let result = journal.result(call).unwrap_or_else(|| panic!("{name} has no result"));
            let (said, happened) = (text_of(result), counts.contains_key(&name));
            match (word(&call["state"]), word(&call["tool"])) {
                ("done", "effect") => {
                    assert!(said.starts_with("done ") && happened, "{name}: {said}");
                }
                ("done", "look") => assert!(said.starts_with("looked at "), "{name}: {said}"),
                ("unknown", "effect") => {
                    assert!(said.contains("outcome unknown"), "{name}: {said}");
                    assert_eq!(result["isError"], true);
                    let named = |row: &&Value| {
                        row["turn"] == call["turn"] && row["call_id"] == call["call"]
                    };
                    assert!(shown.iter().any(|row| named(&row)), "{name} is not in the state");
                }
                other => panic!("{name} ended as {other:?}"),
            }
        }
    }
}

/// Two steps with parallel calls, then a text; never twice the same. One step in three has calls
/// with effects only, one has both kinds, one only such as may run again.
fn answer(request: &ModelRequest) -> Reply {
    let kind = request.nonce % 3;
    let script = Differing {
        tool: if kind == 2 { "look" } else { "effect" }.to_owned(),
        calls: 2,
        rounds: ROUNDS,
        arguments: |fresh| json!({"text": format!("{fresh}"), "ms": fresh % 4}),
    };
    let reply = script.answer(request);
    match kind == 1 && request.steps_done() < ROUNDS {
        true => reply.tool("look", json!({"text": "between", "ms": 1})),
        false => reply,
    }
}

/// The first request of a turn after a restart: all of its steps on record, and no other.
fn check_request(before: &Journal, turn: &str, mark: &str, request: &ModelRequest) {
    let at = position(request, mark).unwrap();
    let own = &request.messages()[at..];
    let said = own.iter().filter(|message| message["role"] == "assistant");
    let said: Vec<Vec<&str>> = said.map(|message| blocks(message, "tool_use", "id")).collect();
    let on_record = before.rows(turn, "assistant").map(|body| call_ids(body).collect());
    let on_record: Vec<Vec<&str>> = on_record.collect();
    assert_eq!(said, on_record, "turn {turn} ({mark}): steps in the request and on record");
    let results: BTreeMap<String, String> =
        request.tool_results().into_iter().map(|result| (result.id, result.text)).collect();
    for call in before.calls.iter().filter(|call| call["turn"] == turn) {
        let said = &results[word(&call["call"])];
        let unknown = said.contains("outcome unknown");
        let expected = match word(&call["state"]) {
            "started" => call["tool"] == "effect",
            state => state == "unknown",
        };
        assert_eq!(unknown, expected, "{call}: {said}");
    }
}

/// Where the message with this text stands in a request.
fn position(request: &ModelRequest, mark: &str) -> Option<usize> {
    request.messages().iter().position(|message| {
        message["role"] == "user"
            && blocks(message, "text", "text").iter().any(|text| text.contains(mark))
    })
}

fn blocks<'a>(message: &'a Value, kind: &str, field: &str) -> Vec<&'a str> {
    let blocks = message["content"].as_array().into_iter().flatten();
    blocks.filter(|block| block["type"] == kind).map(|block| word(&block[field])).collect()
}

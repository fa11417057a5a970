//! A model vendor on loopback that speaks the real wires (Anthropic Messages, OpenAI Chat
//! Completions and OpenAI Responses) and plays a script, the same on each.
//!
//! It refuses what the real service refuses, records every request, and lets the test decide each
//! chunk of each answer: pause at named gates, split anywhere, cut, garble, stall.

mod anthropic;
mod frames;
mod fresh;
mod gate;
mod image;
mod openai;
mod openai_chat;
mod openai_responses;
mod play;
mod refusal;
mod reply;
mod request;
mod wire;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use fresh::Differing;
pub use gate::Gate;
pub use image::Image;
pub use reply::{Reply, Usage};
pub use request::{Ending, ModelRequest, ToolResult, signature_of};
pub use wire::Wire;

use crate::wait::PATIENCE;
use gate::Gates;
use refusal::Refusal;

type Script = Arc<dyn Fn(&ModelRequest) -> Reply + Send + Sync>;

/// The server; it ends when this is dropped.
pub struct ScriptedModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

/// The handlers of all connections and the test look at this together; a task of its own would
/// make every question of the test asynchronous.
pub(crate) struct Shared {
    state: Mutex<State>,
    gates: Gates,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Reply>,
    script: Option<Script>,
    key: Option<String>,
    keyless: bool,
    requests: Vec<ModelRequest>,
    nonce: u64,
}

impl ScriptedModel {
    pub async fn start() -> Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// On a given address: to come back where a stopped one was.
    pub async fn start_at(address: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address).await.context("binding the scripted model")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State { nonce: first_nonce(), ..State::default() }),
            gates: Gates::default(),
            changed: watch::Sender::new(0),
        });
        let router = play::router(Arc::clone(&shared));
        // Chunks must leave when they are written, not when the kernel has gathered enough.
        let listener = listener.tap_io(|stream| {
            let _not_essential = stream.set_nodelay(true);
        });
        let server = tokio::spawn(async move {
            let _ends_with_the_test = axum::serve(listener, router).await;
        });
        Ok(ScriptedModel { address, shared, server })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What an Anthropic client takes as its base URL; an OpenAI client takes it with `/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds one answer to the queue. The queue is used before the script.
    pub fn push(&self, reply: Reply) {
        self.shared.state().queue.push_back(reply);
    }

    pub fn push_all(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.state().queue.extend(replies);
    }

    /// Answers of the queue not yet given.
    pub fn queued(&self) -> usize {
        self.shared.state().queue.len()
    }

    /// Answers every request for which the queue has nothing. Without it such a request gets 400.
    pub fn answer_with(&self, script: impl Fn(&ModelRequest) -> Reply + Send + Sync + 'static) {
        self.shared.state().script = Some(Arc::new(script));
    }

    /// Other keys get 401 from now on.
    pub fn require_key(&self, key: &str) {
        self.shared.state().key = Some(key.to_owned());
    }

    /// A request without a key is fine from now on, as for a server on one's own machine.
    pub fn ask_for_no_key(&self) {
        self.shared.state().keyless = true;
    }

    pub fn gate(&self, name: &str) -> Gate {
        self.shared.gates.get(name)
    }

    /// Every request so far, refused ones included, in order of arrival.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.shared.state().requests.clone()
    }

    /// How many requests came so far.
    pub fn asked(&self) -> usize {
        self.shared.state().requests.len()
    }

    /// Why requests were refused; empty when the product speaks the wire well.
    pub fn refusals(&self) -> Vec<String> {
        self.requests().into_iter().filter_map(|request| request.refusal).collect()
    }

    /// Waits for the `number`-th request; the first is 1.
    pub async fn wait_for_request(&self, number: usize) -> Result<ModelRequest> {
        self.wait(&format!("model request {number}"), |requests| {
            number.checked_sub(1).and_then(|at| requests.get(at)).cloned()
        })
        .await
    }

    /// Waits until the `number`-th request is over and says how.
    pub async fn wait_for_end(&self, number: usize) -> Result<Ending> {
        self.wait(&format!("the end of model request {number}"), |requests| {
            let request = number.checked_sub(1).and_then(|at| requests.get(at))?;
            request.ending
        })
        .await
    }

    /// Requests that are being answered at this moment.
    pub fn in_flight(&self) -> usize {
        self.shared.state().requests.iter().filter(|request| request.ending.is_none()).count()
    }

    async fn wait<T>(&self, what: &str, ask: impl Fn(&[ModelRequest]) -> Option<T>) -> Result<T> {
        self.wait_at_most(what, PATIENCE, ask).await
    }

    /// Waits until the recorded requests give an answer.
    pub async fn wait_at_most<T>(
        &self,
        what: &str,
        patience: Duration,
        ask: impl Fn(&[ModelRequest]) -> Option<T>,
    ) -> Result<T> {
        let mut changed = self.shared.changed.subscribe();
        let search = async {
            loop {
                changed.borrow_and_update();
                if let Some(found) = ask(&self.shared.state().requests) {
                    return Ok(found);
                }
                changed.changed().await.context("the scripted model is gone")?;
            }
        };
        tokio::time::timeout(patience, search)
            .await
            .with_context(|| format!("waited {patience:?} in vain for {what}"))?
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request and picks its answer.
    fn accept(&self, mut request: ModelRequest, refusal: Option<Refusal>) -> Accepted {
        let (script, queued) = {
            let mut state = self.state();
            state.nonce += 1;
            request.nonce = state.nonce;
            request.number = state.requests.len() + 1;
            let refusal = refusal.or_else(|| wrong_key(&state, &request));
            request.refusal = refusal.as_ref().map(|refusal| refusal.message.clone());
            state.requests.push(request.clone());
            if let Some(refusal) = refusal {
                (None, Some(Reply::from(refusal)))
            } else {
                (state.script.clone(), state.queue.pop_front())
            }
        };
        self.changed.send_modify(|version| *version += 1);
        // The script runs without the lock: it may ask the model about earlier requests.
        let reply = queued
            .or_else(|| script.map(|script| script(&request)))
            .unwrap_or_else(|| Reply::bad_request("the script has no answer for this request"));
        Accepted { request, reply }
    }

    fn end(&self, number: usize, ending: Ending) {
        if let Some(request) = self.state().requests.get_mut(number.saturating_sub(1)) {
            request.ending.get_or_insert(ending);
        }
        self.changed.send_modify(|version| *version += 1);
    }
}

pub(crate) struct Accepted {
    request: ModelRequest,
    reply: Reply,
}

fn wrong_key(state: &State, request: &ModelRequest) -> Option<Refusal> {
    let key = state.key.as_deref()?;
    (request.key() != Some(key)).then(|| Refusal::authentication("invalid x-api-key"))
}

/// Different in every process, so that nothing repeats after a restart of the test either.
fn first_nonce() -> u64 {
    u64::from(std::process::id()) << 24
}

//! The line to the hive: one WebSocket channel that is taken up again when it breaks.
//!
//! Everything that is said comes from three places, in this order of trust: durable frames (what
//! became of a message), rows of the history (what was said and done), and live events (what is
//! happening). Each has its number, so a connection that comes back goes on where it was: frames
//! by `seq`, events by theirs, rows by their place in the session. A message without an ack is
//! sent again with its id, which the hive accepts once.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_tungstenite::tungstenite::Message;

use crate::failure::Failure;
use crate::hive::client::{CallError, Client, Socket, escaped};

/// The hive pings every 30 s; whoever is silent for longer than two is gone.
const SILENCE: Duration = Duration::from_secs(75);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Before a message the hive could not take just now is sent again.
const SEND_AGAIN: Duration = Duration::from_secs(1);
/// Rows of the past shown at the beginning.
const PAST: i64 = 12;
/// The most rows the hive gives at once.
const PAGE: i64 = 500;
const QUEUE: usize = 256;

/// What the person wants.
pub enum Order {
    Say {
        id: String,
        text: String,
    },
    /// Ends the turn that runs.
    Interrupt,
    /// An answer to a call that waits for a person.
    Decide(Value),
    /// What a pattern would cover is wanted.
    Preview {
        id: String,
        pattern: String,
    },
}

/// What there is to tell.
pub enum News {
    /// The conversation as it stands, at the beginning and after a gap.
    Opened {
        state: Value,
        rows: Vec<Value>,
    },
    /// New rows of the history, in order.
    Rows(Vec<Value>),
    /// A frame or event, as it came.
    Frame(Value),
    /// The calls of this conversation that wait for a person.
    Questions(Vec<Value>),
    /// What a pattern would cover; or why that cannot be said.
    Covers {
        pattern: String,
        found: Result<Value, String>,
    },
    Lost {
        why: String,
    },
    Back,
    /// Without hope: the hive refuses this client.
    Ended(Failure),
}

/// Which conversation, and for how long a hive may be gone.
pub struct Wish {
    pub agent: String,
    pub session: String,
    /// None: for ever.
    pub patience: Option<Duration>,
}

pub struct Connection {
    pub orders: mpsc::Sender<Order>,
    pub news: mpsc::Receiver<News>,
}

/// Reaches the hive once, so that a wrong address or name is told at once; then keeps the line.
pub async fn open(client: Client, wish: Wish) -> Result<Connection, Failure> {
    let attempted = format!("talk to {}", wish.agent);
    let failed = |client: &Client, error| client.failure(attempted.clone(), error);
    let (orders, wanted) = mpsc::channel(QUEUE);
    let (told, news) = mpsc::channel(QUEUE);
    let mut keeper = Keeper {
        client,
        wish,
        wanted,
        told,
        channel: None,
        event_seq: 0,
        place: Place::default(),
        unanswered: Vec::new(),
    };
    let opened = keeper.read_state().await.map_err(|error| failed(&keeper.client, error))?;
    let socket = keeper.connect().await.map_err(|error| failed(&keeper.client, error))?;
    tokio::spawn(async move {
        // Whoever listens no longer has left.
        if keeper.told.send(opened).await.is_ok() && keeper.read_questions().await.is_ok() {
            let _left = keeper.keep(socket).await;
        }
    });
    Ok(Connection { orders, news })
}

/// How far a session was read.
#[derive(Default)]
struct Place {
    session: Option<String>,
    row: i64,
}

struct Keeper {
    client: Client,
    wish: Wish,
    wanted: mpsc::Receiver<Order>,
    told: mpsc::Sender<News>,
    /// The channel and its newest frame.
    channel: Option<(String, i64)>,
    event_seq: i64,
    place: Place,
    /// Messages without an ack: id and text.
    unanswered: Vec<(String, String)>,
}

/// Nobody listens any more.
struct Left;

/// Why a socket is no longer read.
enum Broken {
    Left,
    Lost(String),
}

impl From<mpsc::error::SendError<News>> for Left {
    fn from(_: mpsc::error::SendError<News>) -> Self {
        Self
    }
}

impl From<mpsc::error::SendError<News>> for Broken {
    fn from(_: mpsc::error::SendError<News>) -> Self {
        Self::Left
    }
}

impl Keeper {
    async fn keep(&mut self, mut socket: Socket) -> Result<(), Left> {
        loop {
            match self.serve(&mut socket).await {
                Broken::Left => return Err(Left),
                Broken::Lost(why) => self.told.send(News::Lost { why }).await?,
            }
            match self.come_back().await {
                Ok(again) => socket = again,
                Err(error) => {
                    let attempted = format!("go on talking to {}", self.wish.agent);
                    let failure = self.client.failure(attempted, error);
                    self.told.send(News::Ended(failure)).await?;
                    return Err(Left);
                }
            }
            self.told.send(News::Back).await?;
            self.read_questions().await?;
        }
    }

    /// Tries until the hive is there again.
    async fn come_back(&mut self) -> Result<Socket, CallError> {
        let since = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            match self.connect().await {
                Ok(socket) => return Ok(socket),
                // Its home was replaced: the old channel is of no use any more.
                Err(CallError::Problem { status: 404, .. }) if self.channel.is_some() => {
                    self.channel = None;
                    continue;
                }
                Err(error) if !passes(&error) => return Err(error),
                Err(error) if self.wish.patience.is_some_and(|most| since.elapsed() > most) => {
                    return Err(error);
                }
                Err(_) => {}
            }
            tokio::select! {
                () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                () = self.told.closed() => {
                    let why = "nobody waits for it".to_owned();
                    return Err(CallError::Strange(why));
                }
            }
        }
    }

    /// The state and the newest rows; events go on from there.
    async fn read_state(&mut self) -> Result<News, CallError> {
        let state = self.client.get("/api/v1/state").await?;
        self.event_seq = state["seq"].as_i64().unwrap_or(0);
        let key = format!("session_key={}", escaped(&self.wish.session));
        let limit = if self.place.session.is_none() { PAST } else { PAGE };
        let page = self.rows(&format!("{key}&limit={limit}")).await?;
        let mut rows = items(&page["messages"]);
        let session = page["session"].as_str().map(str::to_owned);
        let newest = rows.last().and_then(|row| row["seq"].as_i64()).unwrap_or(0);
        let seen = match self.place.session == session && session.is_some() {
            // After a gap: only what was missed.
            true => rows.iter().filter(|row| row["seq"].as_i64() <= Some(self.place.row)).count(),
            false => 0,
        };
        rows.drain(..seen);
        self.place = Place { session, row: newest };
        Ok(News::Opened { state, rows })
    }

    /// Who may not see them is told of none.
    async fn read_questions(&self) -> Result<(), Left> {
        let agent = escaped(&self.wish.agent);
        let page = self.client.get(&format!("/api/v1/approvals?limit=200&agent={agent}")).await;
        // Users' keys begin with who they are.
        let own = format!("/{}", self.wish.session);
        let mut open = page.map(|page| items(&page["approvals"])).unwrap_or_default();
        open.retain(|question| {
            let key = question["session_key"].as_str().unwrap_or_default();
            key == self.wish.session || key.ends_with(&own)
        });
        Ok(self.told.send(News::Questions(open)).await?)
    }

    async fn preview(&self, id: &str, pattern: String) -> Result<(), Broken> {
        let (id, asked) = (escaped(id), escaped(&pattern));
        let path = format!("/api/v1/approvals/{id}/covers?pattern={asked}");
        let found = self.client.get(&path).await.map_err(|error| error.to_string());
        Ok(self.told.send(News::Covers { pattern, found }).await?)
    }

    async fn rows(&self, which: &str) -> Result<Value, CallError> {
        let agent = escaped(&self.wish.agent);
        self.client.get(&format!("/api/v1/agents/{agent}/history?view=full&{which}")).await
    }

    async fn connect(&mut self) -> Result<Socket, CallError> {
        let path = match &self.channel {
            Some((id, seq)) => format!("/ws?channel={}&since={seq}", escaped(id)),
            None => "/ws".to_owned(),
        };
        let mut socket = self.client.socket(&path).await?;
        let mut frames = vec![self.subscription()];
        frames.extend(self.unanswered.iter().map(|(id, text)| self.message(id, text)));
        for frame in frames {
            socket.send(Message::text(frame.to_string())).await.map_err(broken)?;
        }
        Ok(socket)
    }

    fn subscription(&self) -> Value {
        json!({
            "type": "subscribe", "agent": self.wish.agent, "session": self.wish.session,
            "since": self.event_seq,
        })
    }

    fn message(&self, id: &str, text: &str) -> Value {
        json!({
            "content": text, "id": id, "agent": self.wish.agent, "session": self.wish.session,
        })
    }

    /// Reads and writes until the socket breaks or nobody listens.
    async fn serve(&mut self, socket: &mut Socket) -> Broken {
        let mut heard = Instant::now();
        let mut again: Option<Instant> = None;
        loop {
            let done = tokio::select! {
                message = timeout_at(heard + SILENCE, socket.next()) => {
                    heard = Instant::now();
                    match message {
                        Ok(Some(Ok(Message::Text(text)))) => {
                            let frame: Value = serde_json::from_str(&text).unwrap_or_default();
                            if is_momentary(&frame) {
                                again = Some(Instant::now() + SEND_AGAIN);
                                Ok(())
                            } else {
                                self.take(frame, socket).await
                            }
                        }
                        Ok(Some(Ok(Message::Close(_)))) | Ok(None) => lost("it closed the line"),
                        Ok(Some(Ok(_))) => Ok(()),
                        Ok(Some(Err(error))) => lost(&error.to_string()),
                        Err(_) => lost("no sign of life"),
                    }
                }
                order = self.wanted.recv() => match order {
                    Some(order) => self.obey(order, socket).await,
                    None => Err(Broken::Left),
                },
                () = due(again) => {
                    again = None;
                    self.send_again(socket).await
                }
            };
            if let Err(broken) = done {
                return broken;
            }
        }
    }

    async fn obey(&mut self, order: Order, socket: &mut Socket) -> Result<(), Broken> {
        let frame = match order {
            Order::Say { id, text } => {
                let frame = self.message(&id, &text);
                self.unanswered.push((id, text));
                frame
            }
            Order::Decide(frame) => frame,
            Order::Preview { id, pattern } => return self.preview(&id, pattern).await,
            Order::Interrupt => json!({
                "type": "interrupt", "agent": self.wish.agent, "session": self.wish.session,
            }),
        };
        send(socket, &frame).await
    }

    async fn send_again(&mut self, socket: &mut Socket) -> Result<(), Broken> {
        for (id, text) in self.unanswered.clone() {
            send(socket, &self.message(&id, &text)).await?;
        }
        Ok(())
    }

    async fn take(&mut self, frame: Value, socket: &mut Socket) -> Result<(), Broken> {
        let durable = frame["seq"].as_i64().filter(|_| frame["type"] != "hello");
        if let (Some(channel), Some(seq)) = (&mut self.channel, durable) {
            channel.1 = channel.1.max(seq);
        }
        match frame["type"].as_str() {
            Some("hello") => {
                // A new channel has no frames yet; of an old one those after ours follow now.
                let id = frame["channel"].as_str().unwrap_or_default();
                let known = self.channel.take().filter(|(known, _)| known == id);
                self.channel = Some(known.unwrap_or_else(|| (id.to_owned(), 0)));
                self.told.send(News::Frame(frame)).await?;
            }
            Some("event") => {
                let event = &frame["event"];
                if event["type"] == "history_updated" {
                    self.read_rows(event).await?;
                }
                self.event_seq = event["seq"].as_i64().unwrap_or(self.event_seq);
                let asks = event["type"] == "approval_asked";
                self.told.send(News::Frame(frame)).await?;
                if asks {
                    self.read_questions().await.map_err(|Left| Broken::Left)?;
                }
            }
            // Events were left out: what happened stands in the state and the history.
            Some("resync") if frame["from"].is_null() => {
                let opened = self.read_state().await.map_err(|error| lost_by(&error))?;
                self.told.send(opened).await?;
                self.read_questions().await.map_err(|Left| Broken::Left)?;
                send(socket, &self.subscription()).await?;
            }
            _ => {
                self.unanswered.retain(|(id, _)| !speaks_of(&frame, id));
                self.told.send(News::Frame(frame)).await?;
            }
        }
        Ok(())
    }

    /// The rows an event speaks of, as far as they are new.
    async fn read_rows(&mut self, event: &Value) -> Result<(), Broken> {
        let Some(session) = event["session"].as_str() else { return Ok(()) };
        if self.place.session.as_deref() != Some(session) {
            self.place = Place { session: Some(session.to_owned()), row: 0 };
        }
        let last = event["last"].as_i64().unwrap_or(0);
        let first = event["first"].as_i64().unwrap_or(0).max(self.place.row + 1);
        if first > last {
            return Ok(());
        }
        let limit = (last - first + 1).min(PAGE);
        let which = format!("session={}&before={}&limit={limit}", escaped(session), last + 1);
        let page = self.rows(&which).await.map_err(|error| lost_by(&error))?;
        self.told.send(News::Rows(items(&page["messages"]))).await?;
        self.place.row = last;
        Ok(())
    }
}

/// Whether the same call may work a moment later.
fn passes(error: &CallError) -> bool {
    matches!(error, CallError::Unreachable { .. } | CallError::Problem { status: 500.., .. })
}

/// A message that was not taken, for a reason that passes; the same id is sent again.
fn is_momentary(frame: &Value) -> bool {
    let code = frame["code"].as_str().unwrap_or_default();
    frame["type"] == "error"
        && frame["seq"].is_null()
        && frame["message_id"].is_string()
        && matches!(code, "store_unsynced" | "store_busy" | "stopping")
}

/// Whether the frame tells that the hive has the message, or will not take it.
pub fn speaks_of(frame: &Value, id: &str) -> bool {
    let replies = frame["in_reply_to"].as_array().into_iter().flatten();
    frame["message_id"] == id || replies.into_iter().any(|reply| reply == id)
}

fn items(list: &Value) -> Vec<Value> {
    list.as_array().cloned().unwrap_or_default()
}

async fn send(socket: &mut Socket, frame: &Value) -> Result<(), Broken> {
    let sent = socket.send(Message::text(frame.to_string())).await;
    sent.map_err(|error| Broken::Lost(error.to_string()))
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn lost(why: &str) -> Result<(), Broken> {
    Err(Broken::Lost(why.to_owned()))
}

fn lost_by(error: &CallError) -> Broken {
    Broken::Lost(error.to_string())
}

fn broken(error: tokio_tungstenite::tungstenite::Error) -> CallError {
    CallError::Unreachable { connected: true, why: error.to_string() }
}

//! The connection to the hive: one WebSocket channel that is resumed when it breaks.
//!
//! Updates come from three sources, in this order of trust: durable frames (the outcome of a
//! message), history rows (messages and tool results), and live events. Each source is numbered, so
//! a connection resumes where it broke: frames and events by `seq`, rows by their place in the
//! session. A message without an ack is sent again with its id, which the hive accepts once.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_tungstenite::tungstenite::Message;

use crate::failure::Failure;
use crate::hive::client::{CallError, Client, HiveSocket, escaped};
use crate::print::{items, text_or_empty};

/// The hive pings every 30 s; after two missed pings the connection is lost.
const SILENCE: Duration = Duration::from_secs(75);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Delay before a message is sent again that the hive could not accept.
const SEND_AGAIN: Duration = Duration::from_secs(1);
/// History rows shown at the start.
const PAST: i64 = 12;
/// The largest page of rows the hive returns.
const PAGE: i64 = 500;
const QUEUE: usize = 256;

/// A command from the user interface to the connection.
#[derive(Debug, PartialEq)]
pub enum ChatCommand {
    Say {
        id: String,
        text: String,
    },
    /// Sends this frame: stops the turn, decides about a call.
    Frame(Value),
    /// Names this conversation; without a name, the automatic title again.
    Rename(String),
    /// Tries the last message again that was not answered.
    Retry,
    /// Posts to this path; events tell what it brings about.
    Post(String),
    /// Reads this path.
    Read(ChatRead, String),
}

/// What is read.
#[derive(Debug, PartialEq)]
pub enum ChatRead {
    /// A file that a call names.
    File,
    /// The conversations of an agent.
    Sessions,
    /// What these patterns would cover.
    Covers(Vec<String>),
}

/// An update from the connection to the user interface.
pub enum ChatUpdate {
    /// The current conversation, at the start and after a gap in the events.
    Opened {
        state: Value,
        rows: Vec<Value>,
        /// Turns that are no rows: failed, cancelled, about to be tried again.
        turns: Vec<Value>,
    },
    /// New rows of the history, in order.
    Rows(Vec<Value>),
    /// A frame or event, unchanged.
    Frame(Value),
    /// The pending approvals of this conversation.
    Questions(Vec<Value>),
    /// What the agent asks the operator in this conversation, oldest first.
    Asked(Vec<Value>),
    /// What was read, or the error.
    Read(ChatRead, Result<Value, String>),
    /// What became of a command, or why it was not carried out.
    Told(Result<String, String>),
    Lost {
        why: String,
    },
    Back,
    /// The hive refuses this client; there is no reconnect.
    Ended(Failure),
}

/// Which conversation, and how long to wait for a hive that is gone.
pub struct ConnectionOptions {
    pub agent: String,
    pub session: String,
    /// `None`: no limit.
    pub patience: Option<Duration>,
}

pub struct ChatConnection {
    pub commands: mpsc::Sender<ChatCommand>,
    pub updates: mpsc::Receiver<ChatUpdate>,
}

/// Connects once, so that a wrong address or name fails at once; then keeps the connection.
pub async fn open(client: Client, options: ConnectionOptions) -> Result<ChatConnection, Failure> {
    let attempted = format!("chat with {}", options.agent);
    let failed = |client: &Client, error| client.failure(attempted.clone(), error);
    let (commands, incoming) = mpsc::channel(QUEUE);
    let (outgoing, updates) = mpsc::channel(QUEUE);
    let mut task = ConnectionTask {
        client,
        options,
        commands: incoming,
        updates: outgoing,
        channel: None,
        event_seq: 0,
        cursor: HistoryCursor::default(),
        unanswered: Vec::new(),
    };
    let opened = task.read_state().await.map_err(|error| failed(&task.client, error))?;
    let socket = task.connect().await.map_err(|error| failed(&task.client, error))?;
    tokio::spawn(async move {
        // An error means that the receiver was dropped.
        if task.updates.send(opened).await.is_ok() && task.read_questions().await.is_ok() {
            let _left = task.keep(socket).await;
        }
    });
    Ok(ChatConnection { commands, updates })
}

/// The last row read of a session.
#[derive(Default)]
struct HistoryCursor {
    session: Option<String>,
    row: i64,
}

struct ConnectionTask {
    client: Client,
    options: ConnectionOptions,
    commands: mpsc::Receiver<ChatCommand>,
    updates: mpsc::Sender<ChatUpdate>,
    /// The channel and its newest frame.
    channel: Option<(String, i64)>,
    event_seq: i64,
    cursor: HistoryCursor,
    /// Messages without an ack: id and text.
    unanswered: Vec<(String, String)>,
}

/// Why reading the socket ended.
enum SocketEnd {
    /// The receiver of updates was dropped.
    ListenerGone,
    Lost(String),
}

impl From<mpsc::error::SendError<ChatUpdate>> for SocketEnd {
    fn from(_: mpsc::error::SendError<ChatUpdate>) -> Self {
        Self::ListenerGone
    }
}

impl From<CallError> for SocketEnd {
    fn from(error: CallError) -> Self {
        Self::Lost(error.to_string())
    }
}

impl ConnectionTask {
    async fn keep(&mut self, mut socket: HiveSocket) -> Result<(), SocketEnd> {
        loop {
            match self.serve(&mut socket).await {
                SocketEnd::Lost(why) => self.updates.send(ChatUpdate::Lost { why }).await?,
                gone => return Err(gone),
            }
            match self.come_back().await {
                Ok(again) => socket = again,
                Err(error) => {
                    let attempted = format!("continue the chat with {}", self.options.agent);
                    let failure = self.client.failure(attempted, error);
                    return Ok(self.updates.send(ChatUpdate::Ended(failure)).await?);
                }
            }
            self.updates.send(ChatUpdate::Back).await?;
            self.read_questions().await?;
        }
    }

    /// Reconnects with back-off.
    async fn come_back(&mut self) -> Result<HiveSocket, CallError> {
        let since = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            match self.connect().await {
                Ok(socket) => return Ok(socket),
                // The hive's home was replaced: the old channel is unknown there.
                Err(CallError::Problem { status: 404, .. }) if self.channel.is_some() => {
                    self.channel = None;
                    continue;
                }
                Err(error) if !passes(&error) => return Err(error),
                Err(error) if self.options.patience.is_some_and(|most| since.elapsed() > most) => {
                    return Err(error);
                }
                Err(_) => {}
            }
            tokio::select! {
                () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                () = self.updates.closed() => {
                    let why = "nobody waits for it".to_owned();
                    return Err(CallError::Strange(why));
                }
            }
        }
    }

    /// Reads the state and the newest rows; events continue from there.
    async fn read_state(&mut self) -> Result<ChatUpdate, CallError> {
        let state = self.client.get("/api/v1/state").await?;
        self.event_seq = state["seq"].as_i64().unwrap_or(0);
        let key = format!("session_key={}", escaped(&self.options.session));
        let limit = if self.cursor.session.is_none() { PAST } else { PAGE };
        let page = self.rows(&format!("{key}&limit={limit}")).await?;
        let mut rows = items(&page["messages"]).to_vec();
        let session = page["session"].as_str().map(str::to_owned);
        let newest = rows.last().and_then(|row| row["seq"].as_i64()).unwrap_or(0);
        let seen = match self.cursor.session == session && session.is_some() {
            // After a gap: only the rows that were missed.
            true => rows.iter().filter(|row| row["seq"].as_i64() <= Some(self.cursor.row)).count(),
            false => 0,
        };
        rows.drain(..seen);
        self.cursor = HistoryCursor { session, row: newest };
        let turns = items(&page["turns"]).to_vec();
        Ok(ChatUpdate::Opened { state, rows, turns })
    }

    /// What waits for a person. A client that may not read it gets empty lists.
    async fn read_questions(&self) -> Result<(), SocketEnd> {
        let agent = escaped(&self.options.agent);
        let approvals = format!("/api/v1/approvals?limit=200&agent={agent}");
        let approvals = self.read_open(&approvals, "approvals").await;
        self.updates.send(ChatUpdate::Questions(approvals)).await?;
        let asked = self.read_open("/api/v1/questions", "questions").await;
        Ok(self.updates.send(ChatUpdate::Asked(asked)).await?)
    }

    /// Those of a list that are about this conversation.
    async fn read_open(&self, path: &str, name: &str) -> Vec<Value> {
        let ConnectionOptions { agent, session, .. } = &self.options;
        let page = self.client.get(path).await.unwrap_or_default();
        let mut open = items(&page[name]).to_vec();
        open.retain(|one| one["agent"] == agent.as_str() && is_key(&one["session_key"], session));
        open
    }

    async fn rename(&self, title: &str) -> Result<(), SocketEnd> {
        let told = match &self.cursor.session {
            Some(id) => {
                let (agent, id) = (escaped(&self.options.agent), escaped(id));
                let path = format!("/api/v1/agents/{agent}/sessions/{id}");
                let renamed = self.client.patch(&path, &json!({ "title": title }), "rename").await;
                let named = |info: Value| format!("Renamed: {}", text_or_empty(&info["title"]));
                renamed.map(named).map_err(|failure| failure.why)
            }
            None => Err("Nothing was said in this conversation yet.".to_owned()),
        };
        Ok(self.updates.send(ChatUpdate::Told(told)).await?)
    }

    /// The newest turn is tried again if it ended without an answer.
    async fn retry(&self) -> Result<(), SocketEnd> {
        let key = escaped(&self.options.session);
        let page = self.rows(&format!("session_key={key}&limit={PAST}")).await?;
        let newest = items(&page["messages"]).last().map(|row| &row["seq"]);
        let last = items(&page["turns"]).last().filter(|turn| {
            newest == Some(&turn["seq"]) && turn["retry"].is_null() && turn["retried_as"].is_null()
        });
        match last.and_then(|turn| turn["item"].as_str()) {
            Some(item) => self.post(&format!("/api/v1/inbox/{}/retry", escaped(item))).await,
            None => {
                let why = "The last message was answered, or is still under way.".to_owned();
                Ok(self.updates.send(ChatUpdate::Told(Err(why))).await?)
            }
        }
    }

    async fn post(&self, path: &str) -> Result<(), SocketEnd> {
        if let Err(error) = self.client.post(path, &json!({}), None).await {
            self.updates.send(ChatUpdate::Told(Err(error.to_string()))).await?;
        }
        Ok(())
    }

    async fn rows(&self, which: &str) -> Result<Value, CallError> {
        let agent = escaped(&self.options.agent);
        self.client.get(&format!("/api/v1/agents/{agent}/history?view=full&{which}")).await
    }

    async fn connect(&mut self) -> Result<HiveSocket, CallError> {
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
            "type": "subscribe", "agent": self.options.agent, "session": self.options.session,
            "since": self.event_seq,
        })
    }

    fn message(&self, id: &str, text: &str) -> Value {
        json!({
            "content": text, "id": id, "agent": self.options.agent, "session": self.options.session,
        })
    }

    /// Reads and writes until the socket breaks or nobody listens.
    async fn serve(&mut self, socket: &mut HiveSocket) -> SocketEnd {
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
                command = self.commands.recv() => match command {
                    Some(command) => self.obey(command, socket).await,
                    None => Err(SocketEnd::ListenerGone),
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

    async fn obey(
        &mut self,
        command: ChatCommand,
        socket: &mut HiveSocket,
    ) -> Result<(), SocketEnd> {
        let frame = match command {
            ChatCommand::Say { id, text } => {
                let frame = self.message(&id, &text);
                self.unanswered.push((id, text));
                frame
            }
            ChatCommand::Frame(frame) => frame,
            ChatCommand::Rename(title) => return self.rename(&title).await,
            ChatCommand::Retry => return self.retry().await,
            ChatCommand::Post(path) => return self.post(&path).await,
            ChatCommand::Read(what, path) => {
                let found = self.client.get(&path).await.map_err(|error| error.to_string());
                return Ok(self.updates.send(ChatUpdate::Read(what, found)).await?);
            }
        };
        send(socket, &frame).await
    }

    async fn send_again(&mut self, socket: &mut HiveSocket) -> Result<(), SocketEnd> {
        for (id, text) in self.unanswered.clone() {
            send(socket, &self.message(&id, &text)).await?;
        }
        Ok(())
    }

    async fn take(&mut self, frame: Value, socket: &mut HiveSocket) -> Result<(), SocketEnd> {
        let durable = frame["seq"].as_i64().filter(|_| frame["type"] != "hello");
        if let (Some(channel), Some(seq)) = (&mut self.channel, durable) {
            channel.1 = channel.1.max(seq);
        }
        match frame["type"].as_str() {
            Some("hello") => {
                // A new channel has no frames yet; a resumed one sends the frames after ours.
                let id = frame["channel"].as_str().unwrap_or_default();
                let known = self.channel.take().filter(|(known, _)| known == id);
                self.channel = Some(known.unwrap_or_else(|| (id.to_owned(), 0)));
                self.updates.send(ChatUpdate::Frame(frame)).await?;
            }
            Some("event") => {
                let event = &frame["event"];
                if event["type"] == "history_updated" {
                    self.read_rows(event).await?;
                }
                self.event_seq = event["seq"].as_i64().unwrap_or(self.event_seq);
                let kind = event["type"].as_str();
                let asks = matches!(kind, Some("approval_asked" | "question_asked"));
                self.updates.send(ChatUpdate::Frame(frame)).await?;
                if asks {
                    self.read_questions().await?;
                }
            }
            // Events were skipped: state and history say what happened.
            Some("resync") if frame["from"].is_null() => {
                let opened = self.read_state().await?;
                self.updates.send(opened).await?;
                self.read_questions().await?;
                send(socket, &self.subscription()).await?;
            }
            _ => {
                self.unanswered.retain(|(id, _)| !speaks_of(&frame, id));
                self.updates.send(ChatUpdate::Frame(frame)).await?;
            }
        }
        Ok(())
    }

    /// Reads the new rows that an event announces.
    async fn read_rows(&mut self, event: &Value) -> Result<(), SocketEnd> {
        let Some(session) = event["session"].as_str() else { return Ok(()) };
        if self.cursor.session.as_deref() != Some(session) {
            self.cursor = HistoryCursor { session: Some(session.to_owned()), row: 0 };
        }
        let last = event["last"].as_i64().unwrap_or(0);
        let first = event["first"].as_i64().unwrap_or(0).max(self.cursor.row + 1);
        if first > last {
            return Ok(());
        }
        let limit = (last - first + 1).min(PAGE);
        let which = format!("session={}&before={}&limit={limit}", escaped(session), last + 1);
        let page = self.rows(&which).await?;
        self.updates.send(ChatUpdate::Rows(items(&page["messages"]).to_vec())).await?;
        self.cursor.row = last;
        Ok(())
    }
}

/// Whether a retry of the same call may succeed.
fn passes(error: &CallError) -> bool {
    matches!(error, CallError::Unreachable { .. } | CallError::Problem { status: 500.., .. })
}

/// Whether the hive refused a message for a temporary reason; it is sent again with the same id.
fn is_momentary(frame: &Value) -> bool {
    let code = frame["code"].as_str().unwrap_or_default();
    frame["type"] == "error"
        && frame["seq"].is_null()
        && frame["message_id"].is_string()
        && matches!(code, "store_unsynced" | "store_busy" | "stopping")
}

/// Whether it is the key of this conversation: a user's keys start with the user's name, and a
/// user sees no others.
pub fn is_key(key: &Value, session: &str) -> bool {
    let rest = key.as_str().and_then(|key| key.strip_suffix(session));
    rest.is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// Whether the frame accepts or refuses the message.
pub fn speaks_of(frame: &Value, id: &str) -> bool {
    frame["message_id"] == id || items(&frame["in_reply_to"]).iter().any(|reply| reply == id)
}

async fn send(socket: &mut HiveSocket, frame: &Value) -> Result<(), SocketEnd> {
    let sent = socket.send(Message::text(frame.to_string())).await;
    sent.map_err(|error| SocketEnd::Lost(error.to_string()))
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn lost(why: &str) -> Result<(), SocketEnd> {
    Err(SocketEnd::Lost(why.to_owned()))
}

fn broken(error: tokio_tungstenite::tungstenite::Error) -> CallError {
    CallError::Unreachable { connected: true, why: error.to_string() }
}

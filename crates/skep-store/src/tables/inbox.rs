//! The inbox: accepting messages and commands, each in one commit with its ack.

use serde_json::json;
use skep_core::Millis;
use skep_core::arrival::{self, Arrival, LaneActivity};
use skep_core::cause::{Cause, ItemOptions};
use skep_core::engine::Capabilities;
use skep_core::event::{CancelReason, Event, EventKind, ItemState, TurnState};
use skep_core::file::File;
use skep_core::frame::FrameKind;
use skep_core::ids::{
    AgentId, AgentName, ChannelId, ItemId, MessageId, NodeName, Principal, SessionId, SessionKey,
    TurnId,
};
use skep_core::inbound::AckState;
use skep_core::message::{Body, Origin, Role};
use skep_core::settings::{QueueMode, Think, Wanted};
use skep_core::tool::ChainOrigin;
use skep_core::{peer_text, prompt};
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args, record};

use crate::tables::agents::{Tally, tally};
use crate::tables::files;
use crate::tables::lanes::{self, Lane, OpenTurn};
use crate::tables::leases::{self, Lease, Opening};
use crate::tables::outbox::{self, NewFrame};
use crate::tables::people::requests::{self, Request};
use crate::tables::people::storage;

/// Messages of people are `normal`; the other priorities come with what sends them.
pub const NORMAL: i64 = 2;

/// A message or command as a door hands it in.
#[derive(Clone, Debug)]
pub struct Letter {
    pub item: ItemId,
    pub message_id: MessageId,
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub session_key: SessionKey,
    pub cause: Cause,
    pub principal: Principal,
    /// On whose behalf it runs, where that is somebody else than the principal.
    pub origin: Option<Principal>,
    /// Frames answer it there; nothing where the sender asks for the answer instead.
    pub channel: Option<ChannelId>,
    pub text: String,
    /// The text of the skill that it is to be done with.
    pub skill: Option<String>,
    /// What the sender should know about it; stands in the ack.
    pub note: Option<String>,
    pub files: Vec<File>,
    /// How hard its turn thinks, where the sender says so.
    pub think: Option<Think>,
    /// The sender's own id: where it is unique, and what it is.
    pub request: Option<Request>,
    /// Bytes its sender may store in all; nothing where that has no limit.
    pub room: Option<u64>,
    pub now: Millis,
}

impl Letter {
    /// Bytes of what is kept of it.
    fn size(&self) -> usize {
        let skill = self.skill.as_ref().map_or(0, String::len);
        storage::size(&self.text, &self.files) + skill
    }
}

/// Takes a message in. With `take`, and when nothing stands before it, its turn begins in the
/// same commit.
pub struct Accept {
    pub letter: Letter,
    pub mode: QueueMode,
    pub engine: Capabilities,
    pub take: Option<NewTurn>,
    /// `/new` before it: its turn begins a new session, and a waiting turn is ended.
    pub fresh: bool,
}

/// What a turn that begins needs: the caller holds a slot for it.
#[derive(Clone, Debug)]
pub struct NewTurn {
    pub turn: TurnId,
    pub session: SessionId,
    pub idle_ms: i64,
    /// Who runs it.
    pub node: NodeName,
}

pub enum Accepted {
    /// The turn began with it.
    Started { lease: Box<Lease> },
    /// It is in the inbox; `ready`: its lane can be taken as soon as a slot is free.
    Queued { ack: Ack, ready: bool, interrupt: Option<EndedTurn> },
    /// The same id and body were accepted before.
    Repeated(Repeated),
}

/// The acknowledgement for the sender.
#[derive(Clone, Debug, PartialEq)]
pub struct Ack {
    pub state: AckState,
    pub note: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Repeated {
    pub item: ItemId,
    pub message_id: MessageId,
    pub ack: AckState,
    pub note: Option<String>,
}

record!(Repeated { item, message_id, ack, note });

impl Run for Accept {
    type Out = Accepted;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Accepted, Refusal> {
        if let Some(repeated) = repeated(tx, &self.letter).await? {
            return Ok(Accepted::Repeated(repeated));
        }
        let letter = &self.letter;
        let mut lane = lanes::find_or_make(tx, letter.agent, letter.session_key.as_str()).await?;
        lane.refuse_apart()?;
        lane.fresh |= self.fresh;
        let ord = tx.next_ord().await?;
        match &self.take {
            Some(slot) if lane.is_free() => self.start(tx, lane, ord, slot).await,
            _ => self.queue(tx, lane, ord).await,
        }
    }

    fn cost(&self) -> usize {
        self.letter.size() + 1024
    }
}

impl Accept {
    async fn start(
        &self,
        tx: &mut Tx<'_>,
        mut lane: Lane,
        ord: i64,
        slot: &NewTurn,
    ) -> Result<Accepted, Refusal> {
        let letter = &self.letter;
        let ack = Ack { state: AckState::Started, note: letter.note.clone() };
        if lane.fresh {
            forget_session(tx, &mut lane).await?;
        }
        let opening = Opening {
            lane,
            agent: letter.agent,
            agent_name: &letter.agent_name,
            session_key: &letter.session_key,
            priority: NORMAL,
            ord,
            think: letter.think,
            options: ItemOptions::default(),
            slot,
            queued: false,
            now: letter.now,
        };
        let placed = leases::place(tx, &opening).await?;
        let how = Taken { state: ItemState::Running, turn: Some(&slot.turn) };
        insert(tx, letter, &opening.lane, ord, how, &ack).await?;
        tell_accepted(tx, letter, &ack).await?;
        let by = Tally { running: 1, turns: 1, served: Some(ord), ..Tally::default() };
        tally(tx, letter.agent, by).await?;
        let origin = ChainOrigin {
            channel: letter.channel.as_ref().map(|channel| channel.as_str().to_owned()),
            topic: None,
            principal: letter.origin.as_ref().unwrap_or(&letter.principal).clone(),
        };
        let lease = leases::begin(tx, opening, placed, user_text(letter, &origin)).await?;
        Ok(Accepted::Started { lease: Box::new(lease) })
    }

    async fn queue(&self, tx: &mut Tx<'_>, lane: Lane, ord: i64) -> Result<Accepted, Refusal> {
        let letter = &self.letter;
        let activity = match &lane.open {
            None => LaneActivity::Free,
            Some(open) if open.state == TurnState::Waiting => LaneActivity::Waiting,
            Some(_) => LaneActivity::Running,
        };
        let arrival = arrival::decide(self.mode, self.engine, activity);
        let open = lane.open.as_ref();
        let ack = match arrival {
            Arrival::Hold if !self.fresh => {
                let waits_for = open.and_then(|turn| turn.waiting_for.clone());
                Ack { state: AckState::Waiting, note: letter.note.clone().or(waits_for) }
            }
            _ => {
                let rests = (lane.wanted != Wanted::Active).then(|| {
                    let wanted = lane.wanted.as_str();
                    format!("the agent is {wanted}; it goes on when it is started")
                });
                Ack { state: AckState::Queued, note: letter.note.clone().or(rests) }
            }
        };
        let how = Taken { state: ItemState::Pending, turn: None };
        insert(tx, letter, &lane, ord, how, &ack).await?;
        tell_accepted(tx, letter, &ack).await?;
        if lane.fresh {
            tx.conn.run("UPDATE lanes SET fresh = 0 WHERE id = $1", &args![lane.id]).await?;
        }
        lanes::add_pending(tx, &lane, letter.agent, (NORMAL, ord), letter.now).await?;
        tally(tx, letter.agent, Tally { pending: 1, ..Tally::default() }).await?;
        let reason = match arrival {
            Arrival::Interrupt => Some(CancelReason::Interrupt),
            Arrival::Hold if self.fresh => Some(CancelReason::Stop),
            _ => None,
        };
        let interrupt = match (open, reason) {
            (Some(turn), Some(reason)) => Some(end(tx, turn, reason, letter.now).await?),
            _ => None,
        };
        Ok(Accepted::Queued { ack, ready: lane.open.is_none(), interrupt })
    }
}

/// A slash command: answered in the commit that records it.
pub struct Order {
    pub letter: Letter,
    pub action: Action,
}

pub enum Action {
    /// Ends the lane's running or waiting turn.
    Stop,
    /// The next message of the lane begins a new session; a waiting turn is ended.
    NewSession,
    /// What the lane's next turns use.
    Choose {
        choice: LaneChoice,
        say: String,
    },
    Say(String),
    Fail {
        code: &'static str,
        text: String,
    },
}

/// `None` resets it to the agent's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneChoice {
    Profile(Option<String>),
    Think(Option<Think>),
}

pub enum Ordered {
    Done { ended: Option<EndedTurn>, answer: Result<String, String> },
    Repeated(Repeated),
}

/// A turn that was asked to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTurn {
    pub turn: TurnId,
    /// No task of ours runs it: the caller closes it.
    pub idle: bool,
}

impl Run for Order {
    type Out = Ordered;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Ordered, Refusal> {
        if let Some(repeated) = repeated(tx, &self.letter).await? {
            return Ok(Ordered::Repeated(repeated));
        }
        let letter = &self.letter;
        let lane = lanes::find_or_make(tx, letter.agent, letter.session_key.as_str()).await?;
        if matches!(self.action, Action::NewSession | Action::Choose { .. }) {
            lane.refuse_apart()?;
        }
        let ord = tx.next_ord().await?;
        let (ended, answer) = self.act(tx, &lane).await?;
        let ack = Ack { state: AckState::Done, note: None };
        let state = if answer.is_ok() { ItemState::Done } else { ItemState::Failed };
        let how = Taken { state, turn: None };
        insert(tx, letter, &lane, ord, how, &ack).await?;
        finish_command(tx, letter, &answer).await?;
        tell_accepted(tx, letter, &ack).await?;
        if let Some(channel) = &letter.channel {
            let to = [letter.message_id.as_str()];
            let (kind, payload) = match &answer {
                Ok(text) => (FrameKind::Response, json!({"content": text, "in_reply_to": to})),
                Err((code, text)) => {
                    (FrameKind::Error, json!({"code": code, "error": text, "in_reply_to": to}))
                }
            };
            let id = format!("{}.end", letter.item);
            let now = letter.now;
            let frame = NewFrame { id, channel, item: &letter.item, kind, payload, now };
            outbox::push(tx, frame).await?;
        }
        let kind = EventKind::InboxEnded {
            item: letter.item.clone(),
            message_id: letter.message_id.clone(),
            state,
            code: answer.as_ref().err().map(|(code, _)| (*code).to_owned()),
            error: answer.as_ref().err().map(|(_, text)| text.clone()),
        };
        tx.event(event(letter, kind));
        Ok(Ordered::Done { ended, answer: answer.map_err(|(_, text)| text) })
    }
}

type Answer = Result<String, (&'static str, String)>;

impl Order {
    async fn act(
        &self,
        tx: &mut Tx<'_>,
        lane: &Lane,
    ) -> Result<(Option<EndedTurn>, Answer), Refusal> {
        match &self.action {
            Action::Say(text) => Ok((None, Ok(text.clone()))),
            Action::Choose { choice, say } => {
                let (sql, value) = match choice {
                    LaneChoice::Profile(profile) => {
                        ("UPDATE lanes SET profile = $2 WHERE id = $1", profile.as_deref())
                    }
                    LaneChoice::Think(think) => {
                        ("UPDATE lanes SET think = $2 WHERE id = $1", think.map(Think::as_str))
                    }
                };
                tx.conn.run(sql, &args![lane.id, value]).await?;
                Ok((None, Ok(say.clone())))
            }
            Action::Fail { code, text } => Ok((None, Err((*code, text.clone())))),
            Action::Stop => {
                let ended = end_open_turn(tx, lane, self.letter.now).await?;
                let text = match &ended {
                    Some(_) => "Stopping the turn. Queued messages stay.",
                    None => "Nothing is running here.",
                };
                Ok((ended, Ok(text.to_owned())))
            }
            Action::NewSession => {
                let waits = lane.open.as_ref().is_some_and(|turn| turn.state == TurnState::Waiting);
                let ended =
                    if waits { end_open_turn(tx, lane, self.letter.now).await? } else { None };
                let next = match lane.open.is_none() && lane.pending == 0 {
                    true => "UPDATE lanes SET session = NULL, fresh = 0 WHERE id = $1",
                    // What is there already belongs to the session that is.
                    false => "UPDATE lanes SET fresh = 1 WHERE id = $1",
                };
                tx.conn.run(next, &args![lane.id]).await?;
                Ok((ended, Ok("The next message begins a new conversation.".to_owned())))
            }
        }
    }
}

/// Ends the open turn of a lane without a letter: REST stop, an interrupt frame.
pub struct StopLane {
    pub agent: AgentId,
    pub session_key: SessionKey,
    pub now: Millis,
}

impl Run for StopLane {
    type Out = Option<EndedTurn>;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Self::Out, Refusal> {
        match lanes::find(tx.conn, self.agent, self.session_key.as_str()).await? {
            Some(lane) => end_open_turn(tx, &lane, self.now).await,
            None => Ok(None),
        }
    }
}

async fn end_open_turn(
    tx: &mut Tx<'_>,
    lane: &Lane,
    now: Millis,
) -> Result<Option<EndedTurn>, Refusal> {
    match &lane.open {
        Some(open) => Ok(Some(end(tx, open, CancelReason::Stop, now).await?)),
        None => Ok(None),
    }
}

async fn end(
    tx: &mut Tx<'_>,
    open: &OpenTurn,
    reason: CancelReason,
    now: Millis,
) -> Result<EndedTurn, Refusal> {
    leases::request_cancel(tx, &open.id, reason, now).await?;
    Ok(EndedTurn { turn: open.id.clone(), idle: open.state != TurnState::Running })
}

async fn forget_session(tx: &mut Tx<'_>, lane: &mut Lane) -> Result<(), SqlError> {
    lane.session = None;
    let forget = "UPDATE lanes SET session = NULL, fresh = 0 WHERE id = $1";
    tx.conn.run(forget, &args![lane.id]).await?;
    Ok(())
}

/// The earlier message of the same id, or a conflict where its body was another.
pub(crate) async fn repeated(
    tx: &mut Tx<'_>,
    letter: &Letter,
) -> Result<Option<Repeated>, Refusal> {
    let Some(request) = &letter.request else { return Ok(None) };
    let select = "SELECT r.body_hash, i.agent, i.id, i.message_id, i.ack, i.note FROM requests r \
                  JOIN items i ON i.id = r.item WHERE r.scope = $1 AND r.id = $2";
    let args = args![request.scope, request.id];
    let found: Option<(Vec<u8>, AgentId, Repeated)> = tx.conn.find(select, &args).await?;
    let Some((body_hash, agent, repeated)) = found else { return Ok(None) };
    if body_hash != request.body_hash || agent != letter.agent {
        return Err(requests::reused(&request.id));
    }
    Ok(Some(repeated))
}

/// The text of the skill that an item is done with.
pub async fn skill_text(conn: &mut Conn, item: &ItemId) -> Result<Option<String>, SqlError> {
    let select = "SELECT skill_text FROM items WHERE id = $1";
    Ok(conn.find::<Option<String>>(select, &args![item]).await?.flatten())
}

/// As what an item is taken in.
struct Taken<'a> {
    state: ItemState,
    /// The turn that begins with it.
    turn: Option<&'a TurnId>,
}

async fn insert(
    tx: &mut Tx<'_>,
    letter: &Letter,
    lane: &Lane,
    ord: i64,
    Taken { state, turn }: Taken<'_>,
    ack: &Ack,
) -> Result<(), Refusal> {
    storage::charge(tx, &letter.principal, letter.size(), letter.room).await?;
    let insert = "INSERT INTO items (id, ord, agent, lane, kind, priority, message_id, \
                  principal, channel, body, ack, note, state, created_at, fresh, files, \
                  think, turn, started_at, cause, origin_principal, skill_text) VALUES ($1, $2, \
                  $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, \
                  $20, $21, $22)";
    let (kind, more) = letter.cause.stored();
    let (kind, files) = (kind.as_ref(), letter.files.len());
    let fresh = lane.fresh && matches!(state, ItemState::Pending | ItemState::Running);
    let started_at = turn.map(|_| letter.now);
    let args = args![
        letter.item,
        ord,
        letter.agent,
        lane.id,
        kind,
        NORMAL,
        letter.message_id,
        letter.principal,
        letter.channel,
        letter.text,
        ack.state,
        ack.note,
        state,
        letter.now,
        fresh,
        files,
        letter.think,
        turn,
        started_at,
        more,
        letter.origin,
        letter.skill,
    ];
    tx.conn.run(insert, &args).await?;
    files::keep_with_item(tx, &letter.item, &letter.files, letter.now).await?;
    if let Some(request) = &letter.request {
        requests::insert(tx, request, letter.item.as_str(), letter.now).await?;
    }
    Ok(())
}

async fn finish_command(tx: &mut Tx<'_>, letter: &Letter, answer: &Answer) -> Result<(), SqlError> {
    let (result, code, error) = match answer {
        Ok(text) => (Some(text), None, None),
        Err((code, text)) => (None, Some(*code), Some(text)),
    };
    let update = "UPDATE items SET result = $2, error_code = $3, error = $4, \
                  started_at = created_at, finished_at = created_at WHERE id = $1";
    tx.conn.run(update, &args![letter.item, result, code, error]).await?;
    Ok(())
}

async fn tell_accepted(tx: &mut Tx<'_>, letter: &Letter, ack: &Ack) -> Result<(), Refusal> {
    if let Some(channel) = &letter.channel {
        let mut payload = json!({
            "message_id": letter.message_id,
            "agent": letter.agent_name,
            "session": letter.session_key,
            "state": ack.state,
        });
        if let Some(note) = &ack.note {
            payload["note"] = note.as_str().into();
        }
        let id = format!("{}.ack", letter.item);
        let (kind, now) = (FrameKind::Ack, letter.now);
        outbox::push(tx, NewFrame { id, channel, item: &letter.item, kind, payload, now }).await?;
    }
    let kind = EventKind::InboxAccepted {
        item: letter.item.clone(),
        message_id: letter.message_id.clone(),
        session_key: letter.session_key.clone(),
    };
    tx.event(event(letter, kind));
    Ok(())
}

fn event(letter: &Letter, kind: EventKind) -> Event {
    Event::of(letter.agent, &letter.agent_name, letter.now, kind)
}

fn user_text<'a>(letter: &'a Letter, origin: &'a ChainOrigin) -> UserText<'a> {
    UserText {
        item: &letter.item,
        cause: &letter.cause,
        message_id: &letter.message_id,
        channel: letter.channel.as_ref().map(ChannelId::as_str),
        principal: letter.principal.as_str(),
        origin,
        text: &letter.text,
        skill: letter.skill.as_deref(),
        files: letter.files.clone(),
        peers: 0,
        now: letter.now,
    }
}

/// A person's words on their way into history.
pub(crate) struct UserText<'a> {
    pub item: &'a ItemId,
    pub cause: &'a Cause,
    pub message_id: &'a MessageId,
    pub channel: Option<&'a str>,
    pub principal: &'a str,
    pub origin: &'a ChainOrigin,
    pub text: &'a str,
    /// Of the skill that it is to be done with; for models alone.
    pub skill: Option<&'a str>,
    pub files: Vec<File>,
    /// Messages of other agents that wait behind it.
    pub peers: i64,
    pub now: Millis,
}

pub(crate) fn user_body(user: UserText<'_>) -> Body {
    let channel = user.channel.and_then(|id| id.split(':').next()).unwrap_or("api");
    let origin = Origin {
        item: user.item.clone(),
        message_id: user.message_id.clone(),
        channel: channel.to_owned(),
        principal: user.principal.to_owned(),
        kind: user.cause.item_kind(),
    };
    let body = Body::user(user.text, user.files, origin);
    match user.cause {
        // People see what the command was, models do not.
        Cause::Command(_) => Body { role: Role::System, ..body },
        _ => {
            let mut shown = prompt::shown(user.now, user.principal);
            if let Some(more) = peer_text::more_waiting(user.peers) {
                shown = format!("{shown}\n{more}");
            }
            if let Some(skill) = user.skill {
                shown = format!("{shown}\n{skill}");
            }
            Body { shown: Some(shown), ..body }
        }
    }
}

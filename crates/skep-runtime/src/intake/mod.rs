//! The way in: a message becomes a row, and its turn begins in the same commit when it can.

mod choose;
pub(crate) mod items;
mod open_session;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use skep_core::BoxFuture;
use skep_core::cause::{Cause, Slash};
use skep_core::event::CancelReason;
use skep_core::file::{self, Attachment, File, Unfit};
use skep_core::ids::{
    AgentId, AgentName, ChannelId, ItemId, MessageId, Principal, SESSION_KEY_CHARACTERS,
    SessionKey, TurnId, is_session_key,
};
use skep_core::role::Role;
use skep_core::settings::{AgentSettings, QueueMode};
use skep_core::skill_text;
use skep_core::slash::{self, Typed};
use skep_guard::{clock, random};
use skep_store::inbox::{Accept, Accepted, Action, Letter, Order, Ordered, Repeated, StopLane};
use skep_store::requests::Request;
use skep_store::{Pending, StoreError, lanes, outbox, watch};
use skep_turn::lane::Slot;

use crate::door::{
    AckState, DoorError, ErrorKind, Inbound, Receipt, Source, SpendInfo, check_no_secret,
};
use crate::hive::{Hive, Shared, door_error};
use choose::ChoiceWish;

/// A stop is on record first; a store that hangs delays it by no more than this.
const STOP_PATIENCE: Duration = Duration::from_millis(500);
/// For whoever sent a message with a secret in it.
const SECRET_NOTE: &str = "The message held a secret of this hive, or what looks like a key or \
                           token. It was kept without it: a name stands in its place.";
const LONGEST_ID: usize = 200;

impl Hive {
    /// Takes a message or a command. It is queued in the order of the calls before this returns;
    /// the future gives the receipt once it is durable.
    pub fn submit(&self, inbound: Inbound) -> BoxFuture<'static, Result<Receipt, DoorError>> {
        match self.queue(inbound) {
            Ok(receipt) => receipt,
            Err(error) => Box::pin(async move { Err(error) }),
        }
    }

    fn queue(
        &self,
        mut inbound: Inbound,
    ) -> Result<BoxFuture<'static, Result<Receipt, DoorError>>, DoorError> {
        let shared = &self.shared;
        if shared.env().stop.draining.is_cancelled() {
            let text = "The hive is stopping; send again with the same id when it is back.";
            return Err(DoorError::new(ErrorKind::Stopping, "stopping", text));
        }
        let agent = self.able_agent(&inbound.agent)?;
        inbound.text = skep_scrub::known().clean_owned(inbound.text);
        let files = files(std::mem::take(&mut inbound.attachments))?;
        check(&inbound, &files, shared.settings().limits.inbox_body_bytes)?;
        let typed = match &inbound.source {
            Source::Call { .. } => Typed::Message(inbound.text.clone()),
            Source::Socket { .. } | Source::Api { .. } => slash::parse(&inbound.text),
        };
        let work = match typed {
            Typed::Message(text) => {
                let letter = self.letter(&inbound, Cause::Message, text, files)?;
                self.accept(&agent, letter, inbound.mode, Opens::Turn)
            }
            Typed::Command(Slash::New { rest: Some(text) }) => {
                let letter = self.letter(&inbound, Cause::Message, text, files)?;
                self.accept(&agent, letter, inbound.mode, Opens::Session)
            }
            Typed::Command(Slash::Skill { name: Some(name), rest })
                if agent.skill(&name).is_some() =>
            {
                let text = rest.unwrap_or_else(|| format!("Use the skill `{name}`."));
                let skill = shared.skill_text(&agent, &name).ok();
                let letter = self.letter(&inbound, Cause::Message, text, files)?;
                self.accept(&agent, Letter { skill, ..letter }, inbound.mode, Opens::Turn)
            }
            Typed::Command(command) => {
                refuse_files(&files)?;
                let cause = Cause::Command(command.clone());
                let letter = self.letter(&inbound, cause, inbound.text.clone(), files)?;
                self.order(&agent, letter, command)
            }
        };
        // A caller that goes away does not take its turn with it.
        let task = shared.tasks.spawn(work);
        Ok(Box::pin(async move { task.await.unwrap_or_else(|_| Err(DoorError::failed())) }))
    }

    /// Ends the running or waiting turn of a session; nothing when there is none.
    pub async fn stop(
        &self,
        agent: &AgentName,
        key: &SessionKey,
    ) -> Result<Option<TurnId>, DoorError> {
        let agent = self.shared.agent_id(agent)?;
        let command = StopLane { agent, session_key: key.clone(), now: clock::now_ms() };
        let pending = self.shared.store.submit(command);
        let ended = self.on_record(pending, agent, key).await?;
        self.shared.env().session_scopes.end(agent, key);
        if let Some(ended) = &ended {
            self.shared.turns.end(ended, CancelReason::Stop);
        }
        Ok(ended.map(|ended| ended.turn))
    }

    /// Waits for a stop to be on record. When the store hangs, the turn is ended all the same:
    /// after a crash it would go on, and nobody was told otherwise.
    async fn on_record<T>(
        &self,
        mut pending: Pending<T>,
        agent: AgentId,
        key: &SessionKey,
    ) -> Result<T, DoorError> {
        if let Ok(done) = tokio::time::timeout(STOP_PATIENCE, &mut pending).await {
            return done.map_err(|error| self.stop_anyway(error, agent, key));
        }
        self.cancel_running(agent, key);
        pending.await.map_err(door_error)
    }

    fn stop_anyway(&self, error: StoreError, agent: AgentId, key: &SessionKey) -> DoorError {
        self.cancel_running(agent, key);
        door_error(error)
    }

    fn cancel_running(&self, agent: AgentId, key: &SessionKey) {
        let registry = &self.shared.env().lanes.registry;
        if let Some(running) = registry.of_lane(agent, key) {
            registry.cancel(&running.turn, CancelReason::Stop);
        }
    }

    pub(crate) fn able_agent(&self, name: &AgentName) -> Result<Arc<AgentSettings>, DoorError> {
        self.agent_of(self.shared.agent_id(name)?, name)
    }

    /// The settings of an agent that a row is about.
    pub(crate) fn agent_of(
        &self,
        id: AgentId,
        name: &AgentName,
    ) -> Result<Arc<AgentSettings>, DoorError> {
        self.shared.snapshot().agent(id, name).map_err(|reason| {
            let text = format!("The agent {name} is disabled: {reason}");
            DoorError::new(ErrorKind::Conflict, "agent_failed", text)
        })
    }

    pub(crate) fn letter(
        &self,
        inbound: &Inbound,
        cause: Cause,
        text: String,
        files: Vec<File>,
    ) -> Result<Letter, DoorError> {
        let (agent, item) = (self.shared.agent_id(&inbound.agent)?, random::uuid().to_string());
        let of_sender = || format!("api/{}/{}", inbound.principal, agent.0);
        let (channel, id, scope) = match &inbound.source {
            Source::Socket { channel, id } => {
                (Some(channel.clone()), id.clone(), channel.to_string())
            }
            Source::Api { key } => (None, key.clone(), of_sender()),
            Source::Call { key, call } => {
                (None, Some(key.clone().unwrap_or_else(|| call.0.clone())), of_sender())
            }
        };
        let message_id = match &inbound.source {
            Source::Socket { id: Some(id), .. } => id.clone(),
            Source::Call { call, .. } => call.0.clone(),
            Source::Socket { id: None, .. } | Source::Api { .. } => item.clone(),
        };
        Ok(Letter {
            item: ItemId(item),
            message_id: MessageId(message_id),
            agent,
            agent_name: inbound.agent.clone(),
            session_key: inbound.session_key.clone(),
            cause,
            principal: inbound.principal.clone(),
            origin: None,
            channel,
            note: skep_scrub::known().is_marked(&text).then(|| SECRET_NOTE.to_owned()),
            text,
            skill: None,
            think: inbound.think,
            request: id.map(|id| Request { scope, id, body_hash: body_hash(inbound, &files) }),
            files,
            room: self.shared.room_of(&inbound.principal),
            now: clock::now_ms(),
        })
    }

    fn accept(
        &self,
        agent: &AgentSettings,
        letter: Letter,
        mode: Option<QueueMode>,
        opens: Opens,
    ) -> BoxFuture<'static, Result<Receipt, DoorError>> {
        let shared = Arc::clone(&self.shared);
        let receipt = ReceiptDraft::of(&letter);
        let (command, permit) = match self.acceptance(agent, letter, mode, opens) {
            Ok(prepared) => prepared,
            Err(error) => return Box::pin(async move { Err(error) }),
        };
        let pending = shared.store.submit(command);
        Box::pin(accepted(shared, pending, permit, receipt))
    }

    /// The command that takes a letter in, with a slot for its turn where one is free for those on
    /// whose behalf it runs.
    pub(crate) fn acceptance(
        &self,
        agent: &AgentSettings,
        letter: Letter,
        mode: Option<QueueMode>,
        opens: Opens,
    ) -> Result<(Accept, Option<Slot>), DoorError> {
        let shared = &self.shared;
        let engine = shared.snapshot().engine(agent).map(|engine| engine.capabilities());
        let engine = engine.ok_or_else(|| {
            let text = format!("The agent {} names no engine of this hive.", agent.name);
            DoorError::new(ErrorKind::Conflict, "agent_failed", text)
        })?;
        let on_behalf = letter.origin.as_ref().unwrap_or(&letter.principal);
        let permit = shared.env().lanes.slots.slot_for(on_behalf.as_str());
        let command = Accept {
            letter,
            mode: mode.unwrap_or(agent.queue_mode),
            engine,
            take: permit.is_some().then(|| shared.env().lanes.turn_ids()),
            fresh: opens == Opens::Session,
        };
        Ok((command, permit))
    }

    fn order(
        &self,
        agent: &AgentSettings,
        letter: Letter,
        command: Slash,
    ) -> BoxFuture<'static, Result<Receipt, DoorError>> {
        match command {
            Slash::Stop => self.act(letter, Action::Stop),
            // It asks a model: a turn of its own carries it out.
            Slash::Compact { .. } => {
                self.accept(agent, letter, Some(QueueMode::Queue), Opens::Turn)
            }
            Slash::New { .. } => self.act(letter, Action::NewSession),
            Slash::Help => self.act(letter, Action::Say(slash::help(&[]))),
            Slash::Unknown { word } => {
                let text = format!("There is no command `{word}`.\n{}", slash::help(&[]));
                self.act(letter, Action::Fail { code: "unknown_command", text })
            }
            Slash::Skill { name: None, .. } => {
                self.act(letter, Action::Say(skill_text::for_people(agent)))
            }
            Slash::Skill { name: Some(name), .. } => {
                let text = skill_text::unknown(agent, &name);
                self.act(letter, Action::Fail { code: "unknown_skill", text })
            }
            Slash::Model { wanted } => self.choose(letter, ChoiceWish::Model(wanted)),
            Slash::Think { wanted } => self.choose(letter, ChoiceWish::Think(wanted)),
            Slash::Status => {
                let hive = self.clone();
                Box::pin(async move {
                    let text = hive.lane_status(&letter).await?;
                    hive.act(letter, Action::Say(text)).await
                })
            }
        }
    }

    /// Says what holds, or changes it for the lane's next turns.
    fn choose(
        &self,
        letter: Letter,
        wish: ChoiceWish,
    ) -> BoxFuture<'static, Result<Receipt, DoorError>> {
        let hive = self.clone();
        Box::pin(async move {
            let (agent, key) = (letter.agent, letter.session_key.clone());
            let read = hive.shared.store.read(async |conn| lanes::chosen(conn, agent, &key).await);
            let now = read.await.map_err(door_error)?;
            let settings = hive.shared.settings();
            let action = match settings.agent(&letter.agent_name) {
                Ok(agent) => wish.action(&agent, &now, &settings),
                Err(text) => Action::Fail { code: "agent_failed", text },
            };
            hive.act(letter, action).await
        })
    }

    fn act(
        &self,
        letter: Letter,
        action: Action,
    ) -> BoxFuture<'static, Result<Receipt, DoorError>> {
        let hive = self.clone();
        let receipt = ReceiptDraft::of(&letter);
        let (agent, key) = (letter.agent, letter.session_key.clone());
        let stops = matches!(action, Action::Stop);
        let ends = stops || matches!(action, Action::NewSession);
        let pending = self.shared.store.submit(Order { letter, action });
        Box::pin(async move {
            let ordered = match stops {
                true => hive.on_record(pending, agent, &key).await?,
                false => pending.await.map_err(door_error)?,
            };
            match ordered {
                Ordered::Done { ended, answer } => {
                    if ends {
                        hive.shared.env().session_scopes.end(agent, &key);
                    }
                    if let Some(ended) = ended {
                        hive.shared.turns.end(&ended, CancelReason::Stop);
                    }
                    let note = Some(answer.unwrap_or_else(|error| error));
                    Ok(receipt.say(AckState::Done, note))
                }
                Ordered::Repeated(repeated) => receipt.repeat(&hive.shared, repeated).await,
            }
        })
    }

    async fn lane_status(&self, letter: &Letter) -> Result<String, DoorError> {
        let (agent, key) = (letter.agent, letter.session_key.clone());
        let read = self.shared.store.read(async |conn| {
            let depth = watch::lane_depth(conn, agent, &key).await?;
            Ok((depth, lanes::chosen(conn, agent, &key).await?))
        });
        let (depth, chosen) = read.await.map_err(door_error)?;
        let (pending, state, waits) = depth.unwrap_or_default();
        let turn = match (state, waits) {
            (None, _) => "none".to_owned(),
            (Some(_), Some(reason)) => format!("waiting: {reason}"),
            (Some(state), None) => state,
        };
        let store = self.shared.env().lanes.health.word().to_owned();
        let settings = self.shared.settings();
        let model = match settings.agent(&letter.agent_name) {
            Ok(agent) => choose::summary(&agent, &chosen, &settings),
            Err(reason) => reason,
        };
        let plural = if pending == 1 { "" } else { "s" };
        let mut entries = vec![
            ("agent", letter.agent_name.to_string()),
            ("conversation", letter.session_key.to_string()),
            ("turn", turn),
            ("queued", format!("{pending} message{plural}")),
            ("model", model),
            ("hive's model", settings.model_note.clone()),
            ("store", store),
        ];
        // What everybody uses is for operators.
        if self.shared.tokens.role(letter.principal.as_str()) == Some(Role::Operator) {
            entries.insert(6, ("today", today(&self.spend())));
        }
        Ok(slash::listed("Status", entries))
    }
}

/// What today cost, and what it may.
fn today(spend: &SpendInfo) -> String {
    let cost = match spend.cost {
        Some(cost) => cost.to_string(),
        None => format!("{} and calls of unknown price", spend.known_cost),
    };
    let most = spend.limits.cost_per_day.map(|most| format!(" of {most}"));
    cost + &most.unwrap_or_default()
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opens {
    /// A turn, or it joins one.
    Turn,
    /// A turn in a new session.
    Session,
}

pub(crate) async fn accepted(
    shared: Arc<Shared>,
    pending: Pending<Accepted>,
    permit: Option<Slot>,
    receipt: ReceiptDraft,
) -> Result<Receipt, DoorError> {
    let outcome = pending.await;
    shared.env().lanes.health.note(&outcome);
    match outcome.map_err(door_error)? {
        Accepted::Started { lease } => {
            shared.turns.begin(*lease, permit);
            let note = receipt.note.clone();
            Ok(receipt.say(AckState::Started, note))
        }
        Accepted::Queued { ack, ready, interrupt } => {
            drop(permit);
            if let Some(ended) = interrupt {
                shared.turns.end(&ended, CancelReason::Interrupt);
            }
            if ready {
                shared.env().lanes.wake();
            }
            Ok(receipt.say(ack.state, ack.note))
        }
        Accepted::Repeated(repeated) => receipt.repeat(&shared, repeated).await,
    }
}

/// What the receipt will say, whatever becomes of the letter.
pub(crate) struct ReceiptDraft {
    note: Option<String>,
    message_id: MessageId,
    item_id: ItemId,
    agent: AgentName,
    session_key: SessionKey,
    channel: Option<ChannelId>,
}

impl ReceiptDraft {
    pub(crate) fn of(letter: &Letter) -> Self {
        Self {
            note: letter.note.clone(),
            message_id: letter.message_id.clone(),
            item_id: letter.item.clone(),
            agent: letter.agent_name.clone(),
            session_key: letter.session_key.clone(),
            channel: letter.channel.clone(),
        }
    }

    fn say(self, state: AckState, note: Option<String>) -> Receipt {
        Receipt {
            message_id: self.message_id,
            item_id: self.item_id,
            agent: self.agent,
            session_key: self.session_key,
            session: None,
            state,
            note,
            joined: false,
            repeated: Vec::new(),
        }
    }

    /// The same answer as before, with the frames that had carried it.
    async fn repeat(self, shared: &Shared, earlier: Repeated) -> Result<Receipt, DoorError> {
        let frames = match &self.channel {
            Some(channel) => {
                let read = shared
                    .store
                    .read(async |conn| outbox::frames_of_item(conn, channel, &earlier.item).await);
                read.await.map_err(door_error)?
            }
            None => Vec::new(),
        };
        Ok(Receipt {
            message_id: earlier.message_id,
            item_id: earlier.item,
            agent: self.agent,
            session_key: self.session_key,
            session: None,
            state: earlier.ack,
            note: earlier.note,
            joined: true,
            repeated: frames,
        })
    }
}

/// The files of a message, checked. Secrets of the hive go from them as they do from the text.
pub(crate) fn files(mut attachments: Vec<Attachment>) -> Result<Vec<File>, DoorError> {
    for attachment in &mut attachments {
        attachment.name = skep_scrub::known().clean_owned(std::mem::take(&mut attachment.name));
        match std::str::from_utf8(&attachment.bytes) {
            Ok(text) => {
                if let Cow::Owned(clean) = skep_scrub::known().clean_file(text) {
                    attachment.bytes = clean.into_bytes();
                }
            }
            Err(_) if skep_scrub::known().is_in_file(&attachment.bytes) => {
                let text = format!(
                    "{} is no text and has a secret of the hive in its data. Remove that and send \
                     it again.",
                    attachment.name
                );
                return Err(DoorError::new(ErrorKind::Invalid, "secret", text));
            }
            Err(_) => {}
        }
    }
    file::accept(attachments).map_err(|unfit| {
        let (kind, code) = match &unfit {
            Unfit::Unsupported(_) => (ErrorKind::Invalid, "unsupported_attachment"),
            Unfit::TooLarge(_) => (ErrorKind::TooLarge, "too_large"),
        };
        DoorError::new(kind, code, unfit.to_string())
    })
}

/// A command is carried out at the door: no model would see its files.
fn refuse_files(files: &[File]) -> Result<(), DoorError> {
    if files.is_empty() {
        return Ok(());
    }
    let text = "A command takes no attachments. Send them with a message.";
    Err(DoorError::new(ErrorKind::Invalid, "unsupported_attachment", text))
}

fn check(inbound: &Inbound, files: &[File], longest: usize) -> Result<(), DoorError> {
    let invalid = |code, text: String| Err(DoorError::new(ErrorKind::Invalid, code, text));
    if inbound.text.trim().is_empty() && files.is_empty() {
        return invalid("blank", "The message is blank; write something.".to_owned());
    }
    if inbound.text.len() > longest {
        let text = format!(
            "The message has {} bytes, more than inbox_body_bytes ({longest}) allows. Put the \
             material into a file and name it.",
            inbound.text.len()
        );
        return Err(DoorError::new(ErrorKind::TooLarge, "too_large", text));
    }
    let id = match &inbound.source {
        Source::Socket { id, .. } => id,
        Source::Api { key } | Source::Call { key, .. } => key,
    };
    if let Some(id) = id {
        check_no_secret("The id of the message", id)?;
    }
    if let Some(id) = id
        && (id.is_empty() || id.len() > LONGEST_ID || id.chars().any(char::is_control))
    {
        let text = format!("An id has 1 to {LONGEST_ID} bytes and no control characters.");
        return invalid("bad_id", text);
    }
    check_key(&inbound.session_key)
}

/// The form of what names a conversation.
pub(crate) fn check_key(key: &SessionKey) -> Result<(), DoorError> {
    check_no_secret("The session key", key.as_str())?;
    if !is_session_key(key.as_str()) {
        let text = format!(
            "A session key has 1 to {SESSION_KEY_CHARACTERS} characters, none of them a control \
             character."
        );
        return Err(DoorError::new(ErrorKind::Invalid, "bad_session", text));
    }
    Ok(())
}

/// What makes two messages of one id the same: everything that decides what they do.
fn body_hash(inbound: &Inbound, files: &[File]) -> [u8; 32] {
    let Inbound { agent, session_key, text, mode, think, principal, .. } = inbound;
    let Principal(principal) = principal;
    // A wish that is not there adds nothing: ids of before it existed keep their meaning.
    let wishes = match think {
        Some(think) => format!("{mode:?} {}", think.as_str()),
        None => format!("{mode:?}"),
    };
    let mut hash = Sha256::new();
    for part in [agent.as_str(), session_key.as_str(), text, principal, &wishes] {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    for part in files.iter().flat_map(|file| [&file.name, &file.hash]) {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

//! Messages of agents to each other and to the operator: every guard, the items and what counts
//! them, in one commit.

use skep_core::Millis;
use skep_core::audit::AuditRow;
use skep_core::cause::{Cause, ItemOptions};
use skep_core::event::EventKind;
use skep_core::heads;
use skep_core::ids::{AgentId, AgentName, CallId, ItemId, Principal, SessionKey, TurnId};
use skep_core::peer_text::PeerText;
use skep_core::question::{AnswerForm, GivenAnswer};
use skep_core::task::QuestionEnd;
use skep_core::tool::ChainOrigin;

use super::chain::{self, ChainLimits, ChainPlace};
use super::hierarchy::{CallingAgent, Guarded, OPERATOR, TargetAgent};
use super::new_item::NewItem;
use super::questions;
use super::results::sender;
use super::waits;
use crate::tables::inbox::NORMAL;
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args, record};

/// Messages of one agent that the operator has not looked at.
const UNREAD: i64 = 50;
/// Agents that one message to everybody reaches.
const EVERYBODY: i64 = 10_000;

/// Writes to an agent, to the operator, or to everybody (`*`). Calling it again with the same call
/// changes nothing.
#[derive(Clone)]
pub struct SendLetter {
    pub turn: TurnId,
    pub call: CallId,
    /// For the message; those to everybody are numbered behind it.
    pub id: ItemId,
    pub to: AgentName,
    pub body: String,
    pub in_reply_to: Option<ItemId>,
    /// Whom the agent may write to, as its settings say.
    pub recipients: Vec<String>,
    pub limits: ChainLimits,
    pub now: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentLetter {
    pub id: ItemId,
    pub thread: ItemId,
    pub to: AgentName,
}

record!(SentLetter { id, thread, to });

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// These messages are there.
    Sent(Vec<SentLetter>),
    /// Nothing was sent: a word, and why.
    Refused { code: &'static str, why: String },
}

/// The message that is replied to.
struct Replied {
    thread: ItemId,
    agent: AgentId,
    key: SessionKey,
    hops: i64,
}

record!(Replied { thread, agent, key, hops });

impl Run for SendLetter {
    type Out = Sent;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<Sent, Refusal> {
        let sent = self.sent(tx.conn).await?;
        if !sent.is_empty() {
            return Ok(Sent::Sent(sent));
        }
        let (giver, mut place) = CallingAgent::in_chain(tx, &self.turn).await?;
        let replied = match self.replied(tx.conn, &giver).await? {
            Ok(replied) => replied,
            Err((code, why)) => return Ok(Sent::Refused { code, why }),
        };
        let targets = match self.targets(tx.conn, &giver).await? {
            Ok(targets) => targets,
            Err((code, why)) => return Ok(Sent::Refused { code, why }),
        };
        // A reply is farther away than what it replies to, whatever the turn began with.
        let farthest = replied.as_ref().map_or(0, |replied| replied.hops);
        place.hops = place.hops.max(farthest);
        if let Some(why) = chain::over(tx, &place, targets.len(), self.limits).await? {
            chain::notice(tx, &place, giver.agent_name.as_str(), &why, self.now).await?;
            return Ok(Sent::Refused { code: "chain_limit", why });
        }
        for (at, target) in targets.iter().enumerate() {
            let id = match targets.len() {
                1 => self.id.clone(),
                _ => ItemId(format!("{}.{at}", self.id)),
            };
            let letter = NewLetter { id: &id, giver: &giver, place: &place, target };
            self.put(tx, &letter, replied.as_ref()).await?;
        }
        chain::count(tx, &place.root, targets.len(), false).await?;
        Ok(Sent::Sent(self.sent(tx.conn).await?))
    }

    fn cost(&self) -> usize {
        self.body.len() + 1024
    }
}

struct NewLetter<'a> {
    id: &'a ItemId,
    giver: &'a CallingAgent,
    place: &'a ChainPlace,
    target: &'a TargetAgent,
}

impl SendLetter {
    /// What this call sent before.
    async fn sent(&self, conn: &mut Conn) -> Result<Vec<SentLetter>, SqlError> {
        let select = "SELECT l.id, l.thread, coalesce(a.name, 'operator') FROM letters l \
                      LEFT JOIN agents a ON a.id = l.agent \
                      WHERE l.from_turn = $1 AND l.from_call = $2";
        conn.list(select, &args![self.turn, self.call]).await
    }

    /// Only what came in this conversation is replied to: others belong to other people.
    async fn replied(
        &self,
        conn: &mut Conn,
        giver: &CallingAgent,
    ) -> Result<Guarded<Option<Replied>>, SqlError> {
        let Some(id) = &self.in_reply_to else { return Ok(Ok(None)) };
        let select = "SELECT m.thread, m.from_agent, m.from_key, i.hops FROM letters m \
                      JOIN items i ON i.id = m.id JOIN lanes l ON l.id = i.lane \
                      WHERE m.id = $1 AND m.agent = $2 AND l.key = $3";
        let found: Option<Replied> = conn.find(select, &args![id, giver.agent, giver.key]).await?;
        Ok(match found {
            Some(replied) => Ok(Some(replied)),
            None => {
                let id = heads::in_line(id.as_str());
                Err(("unknown_message", format!("no message {id} came in this conversation")))
            }
        })
    }

    async fn targets(
        &self,
        conn: &mut Conn,
        giver: &CallingAgent,
    ) -> Result<Guarded<Vec<TargetAgent>>, SqlError> {
        if self.to.as_str() == "*" {
            if !self.recipients.iter().any(|listed| listed == "*") {
                let why = "everybody at once needs `*` in its allowed_recipients";
                return Ok(Err(("not_a_recipient", why.to_owned())));
            }
            let all = TargetAgent::all_but(conn, giver.agent, EVERYBODY).await?;
            let nobody = || ("unknown_agent", "there is no other agent".to_owned());
            return Ok(if all.is_empty() { Err(nobody()) } else { Ok(all) });
        }
        let target = match giver.recipient(conn, &self.to, &self.recipients).await? {
            Ok(target) => target,
            Err(refused) => return Ok(Err(refused)),
        };
        if target.agent == OPERATOR {
            let unread = "SELECT id FROM letters WHERE agent = 0 AND closed_at IS NULL \
                          AND from_agent = $1 LIMIT $2";
            let unread: Vec<String> = conn.list(unread, &args![giver.agent, UNREAD]).await?;
            if unread.len() as i64 >= UNREAD {
                let why = format!("the operator has not looked at {UNREAD} messages of yours");
                return Ok(Err(("rate_limited", why)));
            }
        }
        Ok(Ok(vec![target]))
    }

    async fn put(
        &self,
        tx: &mut Tx<'_>,
        new: &NewLetter<'_>,
        replied: Option<&Replied>,
    ) -> Result<(), Refusal> {
        let NewLetter { id, giver, place, target } = new;
        let thread = replied.map_or(*id, |replied| &replied.thread);
        let body = heads::quoted(&self.body);
        let insert = "INSERT INTO letters (id, thread, in_reply_to, agent, from_agent, from_key, \
                      from_turn, from_call, body, created_at) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let args = args![
            id,
            thread,
            self.in_reply_to,
            target.agent,
            giver.agent,
            giver.key,
            self.turn,
            self.call,
            body,
            self.now
        ];
        tx.conn.run(insert, &args).await?;
        if target.agent == OPERATOR {
            let kind = EventKind::QuestionAsked {
                question: (*id).clone(),
                session_key: giver.key.clone(),
                to: target.agent_name.to_string(),
                expires_at: None,
            };
            return Ok(questions::tell(tx, &self.turn, kind, self.now).await?);
        }
        let key = self.key(tx.conn, place, target, replied).await?;
        let from = Some(giver.agent_name.as_str());
        let text = PeerText { id: id.as_str(), from, thread: thread.as_str(), body: &self.body };
        let item = NewItem {
            id,
            agent: target.agent,
            agent_name: &target.agent_name,
            key: &key,
            cause: Cause::Peer,
            options: ItemOptions::default(),
            priority: NORMAL,
            principal: sender(&giver.agent_name),
            body: &text.text(),
            place,
            hops: place.hops + 1,
            correlation: Some(thread.as_str()),
            dedup: &format!("call:{}/{}", self.turn, self.call),
            now: self.now,
        };
        item.insert(tx).await?;
        waits::wake_receiver(tx, target.agent, &key, self.now).await
    }

    /// The session that reads it: of what it replies to, of the work that it belongs to, or one
    /// for each chain.
    async fn key(
        &self,
        conn: &mut Conn,
        place: &ChainPlace,
        target: &TargetAgent,
        replied: Option<&Replied>,
    ) -> Result<SessionKey, SqlError> {
        if let Some(replied) = replied.filter(|replied| replied.agent == target.agent) {
            return Ok(replied.key.clone());
        }
        if let Some(task) = &place.task {
            let select = "SELECT from_key FROM tasks WHERE item = $1 AND from_agent = $2";
            if let Some(key) = conn.find(select, &args![task, target.agent]).await? {
                return Ok(key);
            }
        }
        let select = "SELECT l.key FROM items i JOIN lanes l ON l.id = i.lane \
                      WHERE i.id = $1 AND i.agent = $2";
        let root: Option<SessionKey> = conn.find(select, &args![place.root, target.agent]).await?;
        Ok(root.unwrap_or_else(|| SessionKey(format!("task:{}", place.root))))
    }
}

/// A message that the operator has not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorLetter {
    pub id: ItemId,
    pub thread: ItemId,
    pub from_agent: AgentName,
    pub from_key: SessionKey,
    pub body: String,
    pub created_at: Millis,
}

record!(OperatorLetter { id, thread, from_agent, from_key, body, created_at });

/// What agents wrote to the operator, oldest first.
pub async fn of_operator(conn: &mut Conn, most: i64) -> Result<Vec<OperatorLetter>, SqlError> {
    let select = "SELECT m.id, m.thread, f.name, m.from_key, m.body, m.created_at FROM letters m \
                  JOIN agents f ON f.id = m.from_agent WHERE m.agent = 0 AND m.closed_at IS NULL \
                  AND f.removed_at IS NULL AND f.installed = 1 ORDER BY m.created_at LIMIT $1";
    conn.list(select, &args![most]).await
}

/// An agent that is removed waits for no reply.
pub(crate) async fn withdraw(tx: &mut Tx<'_>, agent: AgentId, now: Millis) -> Result<(), SqlError> {
    let unread = "SELECT id, from_turn FROM letters WHERE agent = 0 AND closed_at IS NULL \
                  AND from_agent = $1";
    let unread: Vec<(ItemId, TurnId)> = tx.conn.list(unread, &args![agent]).await?;
    for (question, turn) in unread {
        let close = "UPDATE letters SET closed_at = $2 WHERE id = $1";
        tx.conn.run(close, &args![question, now]).await?;
        let kind = EventKind::QuestionEnded { question, state: QuestionEnd::Withdrawn };
        questions::tell(tx, &turn, kind, now).await?;
    }
    Ok(())
}

/// The operator has looked at a message, and replies or puts it away.
pub struct CloseLetter {
    pub letter: ItemId,
    /// Under this id, with these words.
    pub reply: Option<(ItemId, GivenAnswer)>,
    pub by: Principal,
    pub now: Millis,
}

/// Who wrote it, and where.
struct Author {
    thread: ItemId,
    agent: AgentId,
    agent_name: AgentName,
    key: SessionKey,
    turn: TurnId,
    closed: bool,
}

record!(Author { thread, agent, agent_name, key, turn, closed });

impl Run for CloseLetter {
    /// A lane has work.
    type Out = bool;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<bool, Refusal> {
        let select = "SELECT m.thread, m.from_agent, f.name, m.from_key, m.from_turn, \
                      m.closed_at IS NOT NULL FROM letters m JOIN agents f ON f.id = m.from_agent \
                      WHERE m.id = $1 AND m.agent = $2 AND f.removed_at IS NULL \
                      AND f.installed = 1 AND f.closing IS NULL";
        let author: Option<Author> = tx.conn.find(select, &args![self.letter, OPERATOR]).await?;
        let author =
            author.ok_or_else(|| Refusal::not_found(format!("message {}", self.letter)))?;
        if author.closed {
            let detail = format!("the message {} was answered or put away already", self.letter);
            return Err(Refusal::conflict("already_ended", detail));
        }
        let reply = self.reply.as_ref().map(|(id, given)| {
            let words = AnswerForm::default().read(given).map(|words| (id, words));
            words.map_err(|why| Refusal::conflict("invalid_answer", why))
        });
        let reply = reply.transpose()?;
        let close = "UPDATE letters SET closed_at = $2 WHERE id = $1";
        tx.conn.run(close, &args![self.letter, self.now]).await?;
        let (outcome, state) = match &reply {
            Some(_) => ("message_answered", QuestionEnd::Answered),
            None => ("message_closed", QuestionEnd::Withdrawn),
        };
        let what = serde_json::json!({ "message": self.letter });
        tx.audit(AuditRow::change(outcome, Some(&self.by.0), &what, self.now)).await?;
        let kind = EventKind::QuestionEnded { question: self.letter.clone(), state };
        questions::tell(tx, &author.turn, kind, self.now).await?;
        match &reply {
            Some((id, body)) => self.send(tx, &author, id, body).await,
            None => Ok(false),
        }
    }

    fn cost(&self) -> usize {
        self.reply.as_ref().map_or(0, |(_, given)| given.size()) + 1024
    }
}

impl CloseLetter {
    async fn send(
        &self,
        tx: &mut Tx<'_>,
        to: &Author,
        id: &ItemId,
        body: &str,
    ) -> Result<bool, Refusal> {
        let place = ChainPlace::of_turn(tx.conn, &to.turn).await?.unwrap_or_else(|| {
            let origin = ChainOrigin { channel: None, topic: None, principal: self.by.clone() };
            ChainPlace { item: id.clone(), root: id.clone(), hops: 0, origin, task: None }
        });
        let insert = "INSERT INTO letters (id, thread, in_reply_to, agent, from_agent, from_key, \
                      from_turn, from_call, body, created_at) \
                      VALUES ($1, $2, $3, $4, 0, '', '', '', $5, $6)";
        let args = args![id, to.thread, self.letter, to.agent, body, self.now];
        tx.conn.run(insert, &args).await?;
        let (thread, from) = (to.thread.as_str(), None);
        let text = PeerText { id: id.as_str(), from, thread, body }.text();
        let item = NewItem {
            id,
            agent: to.agent,
            agent_name: &to.agent_name,
            key: &to.key,
            cause: Cause::Peer,
            options: ItemOptions::default(),
            priority: NORMAL,
            principal: self.by.clone(),
            body: &text,
            place: &place,
            hops: place.hops,
            correlation: Some(thread),
            dedup: &format!("reply:{}", self.letter),
            now: self.now,
        };
        let woke = item.insert(tx).await?;
        waits::wake_receiver(tx, to.agent, &to.key, self.now).await?;
        Ok(woke)
    }
}

//! Questions to a person. A question is written with the wait it causes, or with the answer of the
//! call that does not wait.

use serde_json::{Value as Json, json};
use skep_core::Millis;
use skep_core::approval::{ApprovalKind, ApprovalState, Scope};
use skep_core::audit::{AuditKind, AuditRow};
use skep_core::cause::Cause;
use skep_core::event::{Event, EventKind};
use skep_core::ids::{AgentId, AgentName, CallId, ItemId, SessionId, SessionKey, TurnId};
use skep_core::policy::Class;
use skep_db::{Conn, Refusal, Run, SqlError, Tx, args, record};

/// A question about a call that is to wait.
#[derive(Clone, Debug)]
pub struct NewApproval {
    pub id: String,
    pub kind: ApprovalKind,
    pub call: CallId,
    pub tool: String,
    pub class: Class,
    /// The exact final ones.
    pub arguments: Json,
    pub cwd: String,
    /// What the arguments name in the workspace, as shown.
    pub files: Json,
    pub hash: String,
    pub why: Json,
    pub asked_by: Vec<String>,
    pub expires_at: Millis,
}

/// The turn that asks.
pub(crate) struct Asking<'a> {
    pub turn: &'a TurnId,
    pub agent: AgentId,
    pub agent_name: &'a AgentName,
    pub session: &'a SessionId,
    pub now: Millis,
}

impl Asking<'_> {
    pub fn event(&self, kind: EventKind) -> Event {
        let event = Event::of(self.agent, self.agent_name, self.now, kind);
        event.within(self.session, Some(self.turn))
    }
}

pub(crate) async fn ask(
    tx: &mut Tx<'_>,
    asking: &Asking<'_>,
    new: &NewApproval,
) -> Result<(), SqlError> {
    let insert = "INSERT INTO approvals (id, agent, session, session_key, item, turn, call_id, \
                  tool, class, arguments, cwd, files, hash, why, state, asked_by, asked_at, \
                  expires_at, kind) SELECT $1, $2, $3, s.key, \
                  (SELECT i.id FROM items i WHERE i.turn = $4 ORDER BY i.ord LIMIT 1), \
                  $4, $5, $6, $7, $8, $9, $10, $11, $12, 'open', $13, $14, $15, $16 \
                  FROM sessions s WHERE s.id = $3";
    let (arguments, files, why) =
        (new.arguments.to_string(), new.files.to_string(), new.why.to_string());
    let asked_by = json!(new.asked_by).to_string();
    let args = args![
        new.id,
        asking.agent,
        asking.session,
        asking.turn,
        new.call,
        new.tool,
        new.class,
        arguments,
        new.cwd,
        files,
        new.hash,
        why,
        asked_by,
        asking.now,
        new.expires_at,
        new.kind
    ];
    tx.conn.run(insert, &args).await?;
    tx.event(asking.event(EventKind::ApprovalAsked {
        approval: new.id.clone(),
        call_id: new.call.clone(),
        tool: new.tool.clone(),
        expires_at: new.expires_at,
    }));
    Ok(())
}

/// The call runs with its approval now.
pub(crate) async fn mark_used(tx: &mut Tx<'_>, id: &str, now: Millis) -> Result<(), SqlError> {
    let update = "UPDATE approvals SET used_at = COALESCE(used_at, $2) WHERE id = $1";
    tx.conn.run(update, &args![id, now]).await.map(drop)
}

/// The call that was to run with it did not.
pub(crate) async fn mark_unused(tx: &mut Tx<'_>, id: &str) -> Result<(), SqlError> {
    let update = "UPDATE approvals SET used_at = NULL WHERE id = $1";
    tx.conn.run(update, &args![id]).await.map(drop)
}

/// Nobody answered in time.
pub(crate) async fn mark_expired(
    tx: &mut Tx<'_>,
    asking: &Asking<'_>,
    id: &str,
) -> Result<(), SqlError> {
    let update = "UPDATE approvals SET state = 'expired' WHERE id = $1 AND state = 'open'";
    if tx.conn.run(update, &args![id]).await? > 0 {
        tell_over(tx, asking, id, ApprovalState::Expired);
    }
    Ok(())
}

/// What was asked is not wanted any more, or nobody decided on it in time.
pub(crate) async fn end_open(
    tx: &mut Tx<'_>,
    id: &str,
    state: ApprovalState,
    now: Millis,
) -> Result<(), SqlError> {
    let update = "UPDATE approvals SET state = $2 WHERE id = $1 AND state = 'open'";
    if tx.conn.run(update, &args![id, state]).await? > 0
        && let Some(found) = find(tx.conn, id).await?
    {
        tell_over(tx, &found.asking(now), id, state);
    }
    Ok(())
}

/// The turn is over: what it asked needs no answer any more.
pub(crate) async fn withdraw(tx: &mut Tx<'_>, asking: &Asking<'_>) -> Result<(), SqlError> {
    let update = "UPDATE approvals SET state = 'withdrawn' WHERE turn = $1 AND state = 'open' \
                  AND reopened = 0 AND kind = 'call' RETURNING id";
    for id in tx.conn.list::<String>(update, &args![asking.turn]).await? {
        tell_over(tx, asking, &id, ApprovalState::Withdrawn);
    }
    Ok(())
}

/// Nobody has decided, and nobody has to any more.
fn tell_over(tx: &mut Tx<'_>, asking: &Asking<'_>, id: &str, state: ApprovalState) {
    let (approval, by, scope, patterns) = (id.to_owned(), None, None, Vec::new());
    tx.event(asking.event(EventKind::ApprovalDecided { approval, state, by, scope, patterns }));
}

/// Opens an expired approval again.
#[derive(Clone)]
pub struct Reopen {
    pub id: String,
    pub by: String,
    pub expires_at: Millis,
    pub now: Millis,
}

impl Run for Reopen {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let found = existing(tx.conn, &self.id).await?;
        if found.state != ApprovalState::Expired {
            let detail = format!(
                "the approval {} is {}; only an expired one can be reopened",
                self.id,
                found.state.as_str()
            );
            return Err(Refusal::conflict("not_expired", detail));
        }
        let update = "UPDATE approvals SET state = 'open', reopened = 1, expires_at = $2 \
                      WHERE id = $1";
        tx.conn.run(update, &args![self.id, self.expires_at]).await?;
        let asking = found.asking(self.now);
        tx.event(asking.event(EventKind::ApprovalAsked {
            approval: self.id.clone(),
            call_id: found.call.clone(),
            tool: found.tool.clone(),
            expires_at: self.expires_at,
        }));
        Ok(tx.audit(found.note(&self.by, "reopened", "asked again", self.now)).await?)
    }
}

/// Somebody who may not wanted to decide. Told once of each and each question, however often they
/// try.
#[derive(Clone)]
pub struct NoteRefused {
    pub id: String,
    pub by: String,
    pub why: String,
    pub now: Millis,
}

impl Run for NoteRefused {
    type Out = ();

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<(), Refusal> {
        let Some(found) = find(tx.conn, &self.id).await? else { return Ok(()) };
        let known = "SELECT 1 FROM audit WHERE turn = $1 AND call_id = $2 AND kind = 'decision' \
                     AND outcome = 'refused' AND principal = $3 LIMIT 1";
        if tx.conn.row(known, &args![found.turn, found.call, self.by]).await?.is_some() {
            return Ok(());
        }
        let word = format!("refused: {}", self.why);
        Ok(tx.audit(found.note(&self.by, "refused", &word, self.now)).await?)
    }
}

/// Reopened questions whose time is over again; those of waiting turns end with their wait.
#[derive(Clone)]
pub struct ExpireReopened {
    pub now: Millis,
}

impl Run for ExpireReopened {
    type Out = usize;

    async fn run<'a>(&'a self, tx: &'a mut Tx<'_>) -> Result<usize, Refusal> {
        let due = "SELECT id FROM approvals WHERE state = 'open' AND reopened = 1 \
                   AND expires_at <= $1 ORDER BY expires_at LIMIT 100";
        let ids: Vec<String> = tx.conn.list(due, &args![self.now]).await?;
        for id in &ids {
            let Some(found) = find(tx.conn, id).await? else { continue };
            let asking = found.asking(self.now);
            mark_expired(tx, &asking, &found.id).await?;
        }
        Ok(ids.len())
    }
}

/// When the next reopened question is over.
pub async fn next_over(conn: &mut Conn) -> Result<Option<Millis>, SqlError> {
    let select = "SELECT expires_at FROM approvals WHERE state = 'open' AND reopened = 1 \
                  ORDER BY expires_at LIMIT 1";
    conn.find(select, &[]).await
}

/// A question, and its answer when there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    pub number: i64,
    pub id: String,
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub session: SessionId,
    pub session_key: SessionKey,
    pub item: Option<ItemId>,
    pub turn: TurnId,
    pub call: CallId,
    pub tool: String,
    pub class: String,
    pub arguments: Json,
    pub cwd: String,
    pub files: Json,
    pub hash: String,
    pub why: Json,
    pub state: ApprovalState,
    pub reopened: bool,
    pub asked_by: Vec<String>,
    pub asked_at: Millis,
    pub expires_at: Millis,
    pub decided_by: Option<String>,
    pub decided_at: Option<Millis>,
    pub decided_from: Option<String>,
    pub scope: Option<Scope>,
    pub patterns: Option<Vec<String>>,
    pub note: Option<String>,
    pub used_at: Option<Millis>,
    pub kind: ApprovalKind,
}

record! { Approval {
    number, id, agent, agent_name, session, session_key, item, turn, call, tool, class, arguments,
    cwd, files, hash, why, state, reopened, asked_by, asked_at, expires_at, decided_by, decided_at,
    decided_from, scope, patterns, note, used_at, kind,
} }

impl Approval {
    pub(crate) fn asking(&self, now: Millis) -> Asking<'_> {
        let Self { turn, agent, agent_name, session, .. } = self;
        Asking { turn, agent: *agent, agent_name, session, now }
    }

    /// What was decided about it, for the audit trail.
    fn note(&self, by: &str, outcome: &str, word: &str, now: Millis) -> AuditRow {
        let decision = json!([{"stage": "approval", "word": word}]).to_string();
        let row = AuditRow::new(AuditKind::Decision, now, outcome);
        AuditRow { decision, ..self.trace(by, row) }
    }

    /// A row about this question.
    pub(crate) fn trace(&self, by: &str, row: AuditRow) -> AuditRow {
        AuditRow {
            principal: Some(by.to_owned()),
            agent: Some(self.agent_name.0.clone()),
            agent_id: Some(self.agent),
            session: Some(self.session.0.clone()),
            turn: Some(self.turn.0.clone()),
            call_id: Some(self.call.0.clone()),
            tool: Some(self.tool.clone()),
            arguments: self.arguments.to_string(),
            ..row
        }
    }

    /// Refused where there is an answer already, or another call was shown.
    pub(crate) fn answerable(&self, hash: &str, now: Millis) -> Result<(), Refusal> {
        let id = &self.id;
        match self.state {
            ApprovalState::Open if self.hash != hash => {
                let detail = format!(
                    "the approval {id} is about another call than the one that was shown (its \
                     hash is {}); read it again",
                    self.hash
                );
                Err(Refusal::conflict("changed", detail))
            }
            ApprovalState::Open if self.expires_at <= now => {
                Err(Refusal::conflict("expired", expired(id)))
            }
            ApprovalState::Open => Ok(()),
            ApprovalState::Expired => Err(Refusal::conflict("expired", expired(id))),
            ApprovalState::Withdrawn => Err(withdrawn(id)),
            ApprovalState::Approved | ApprovalState::Denied => {
                let detail = format!(
                    "the approval {id} was {} by {} at {} through {}; a decision is made once",
                    self.state.as_str(),
                    self.decided_by.as_deref().unwrap_or("somebody"),
                    skep_core::time::utc(self.decided_at.unwrap_or(0)),
                    self.decided_from.as_deref().unwrap_or("a door"),
                );
                Err(Refusal::conflict("already_decided", detail))
            }
        }
    }
}

pub(crate) fn withdrawn(id: &str) -> Refusal {
    let detail = format!(
        "nobody waits for the approval {id} any more: its turn ended before it was decided"
    );
    Refusal::conflict("withdrawn", detail)
}

/// No call of the turn runs any more, though the turn may still be open.
pub(crate) async fn is_told_to_end(conn: &mut Conn, turn: &TurnId) -> Result<bool, SqlError> {
    let select = "SELECT 1 FROM turns WHERE id = $1 AND cancel IS NOT NULL";
    Ok(conn.row(select, &args![turn]).await?.is_some())
}

fn expired(id: &str) -> String {
    format!("the approval {id} expired before it was decided; reopen it first")
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT p.number, p.id, p.agent, a.name, p.session, p.session_key, p.item, p.turn, ",
            "p.call_id, p.tool, p.class, p.arguments, p.cwd, p.files, p.hash, p.why, p.state, ",
            "p.reopened, p.asked_by, p.asked_at, p.expires_at, p.decided_by, p.decided_at, ",
            "p.decided_from, p.scope, p.patterns, p.note, p.used_at, p.kind ",
            "FROM approvals p JOIN agents a ON a.id = p.agent ",
            $rest
        )
    };
}

pub async fn find(conn: &mut Conn, id: &str) -> Result<Option<Approval>, SqlError> {
    conn.find(select!("WHERE p.id = $1"), &args![id]).await
}

pub(crate) async fn existing(conn: &mut Conn, id: &str) -> Result<Approval, Refusal> {
    find(conn, id).await?.ok_or_else(|| Refusal::not_found(format!("approval {id}")))
}

/// Changes of the hive that an agent has asked for and nobody has decided on; at most so many.
pub async fn open_shapes(conn: &mut Conn, agent: AgentId, most: i64) -> Result<usize, SqlError> {
    let select = "SELECT id FROM approvals WHERE agent = $1 AND state = 'open' \
                  AND kind = 'shape' LIMIT $2";
    Ok(conn.list::<String>(select, &args![agent, most]).await?.len())
}

/// The open questions of a turn.
pub async fn open_of_turn(conn: &mut Conn, turn: &TurnId) -> Result<Vec<Approval>, SqlError> {
    let select = select!("WHERE p.turn = $1 AND p.state = 'open' AND p.reopened = 0");
    conn.list(select, &args![turn]).await
}

/// Approvals in a state, the newest first, below `before`.
pub async fn page(
    conn: &mut Conn,
    state: ApprovalState,
    agent: Option<AgentId>,
    before: i64,
    limit: u32,
) -> Result<Vec<Approval>, SqlError> {
    match agent {
        None => {
            let select =
                select!("WHERE p.state = $1 AND p.number < $2 ORDER BY p.number DESC LIMIT $3");
            conn.list(select, &args![state, before, limit]).await
        }
        Some(agent) => {
            let select = select!(
                "WHERE p.agent = $1 AND p.state = $2 AND p.number < $3 \
                 ORDER BY p.number DESC LIMIT $4"
            );
            conn.list(select, &args![agent, state, before, limit]).await
        }
    }
}

/// Approvals that no call used, newest first.
pub async fn unused(
    conn: &mut Conn,
    agent: Option<AgentId>,
    before: i64,
    limit: u32,
) -> Result<Vec<Approval>, SqlError> {
    let select = select!(
        "WHERE p.state = 'approved' AND p.used_at IS NULL AND p.number < $1 \
         AND ($2 IS NULL OR p.agent = $2) ORDER BY p.number DESC LIMIT $3"
    );
    conn.list(select, &args![before, agent, limit]).await
}

/// On whose behalf a turn works: the senders of the messages it answers. An approved call and a
/// call that runs again belong to whoever had asked for them, not to whoever decided so.
pub async fn asked_by(conn: &mut Conn, turn: &TurnId) -> Result<Vec<String>, SqlError> {
    let select = "SELECT coalesce(origin_principal, principal), kind, cause FROM items \
                  WHERE turn = $1 ORDER BY ord";
    let mut principals: Vec<String> = Vec::new();
    let mut turns = vec![turn.clone()];
    while let Some(turn) = turns.pop() {
        for (principal, cause) in conn.list(select, &args![turn]).await? {
            let asked = match cause {
                Cause::Approved(id) => {
                    find(conn, id.as_str()).await?.map_or_else(Vec::new, |found| found.asked_by)
                }
                Cause::Again(call) => {
                    turns.push(call.turn);
                    continue;
                }
                _ => vec![principal],
            };
            let news = asked.into_iter().filter(|asked| !principals.contains(asked));
            principals.extend(news.collect::<Vec<_>>());
        }
    }
    Ok(principals)
}

//! One item of the inbox by its id: what became of it, ending it, trying it again, now or anew.

use std::sync::Arc;
use std::time::Duration;

use skep_core::Millis;
use skep_core::cause::Cause;
use skep_core::event::CancelReason;
use skep_core::ids::{AgentName, ItemId, Principal, SessionId, TurnId};
use skep_guard::{clock, random};
use skep_store::item_views::{self, CancelItem, Cancelled, Retry};
use skep_store::sessions::ForkSession;
use skep_store::task_views::{self, TaskRow};
use skep_store::timing::{self, TimedApproval};
use skep_store::waits::RetryNow;
use skep_store::watch::{self, CallRow, ItemRow};
use skep_store::{files, history, inbox, outbox, search};

use crate::door::{
    ChainApproval, Credential, DoorError, EarlierCall, ErrorKind, Inbound, InboxItem, ItemInfo,
    MessageFailure, Receipt, Sight, Source, TaskInfo,
};
use crate::hive::{Hive, door_error};
use crate::intake::{Opens, ReceiptDraft, accepted};

/// Characters of a message in a list.
const PREVIEW: usize = 200;
/// A turn that is told to end has ended by then.
const ENDED_WITHIN: Duration = Duration::from_secs(5);

impl Hive {
    pub async fn item(&self, id: &ItemId, sight: &Sight) -> Result<ItemInfo, DoorError> {
        let row = self.seen_item(id, sight).await?;
        let read = self.shared.store.read(async |conn| {
            let trace = item_views::trace(conn, id).await?;
            let root = task_views::root_of(conn, id).await?.unwrap_or_else(|| id.clone());
            let chain = task_views::of_root(conn, &root).await?;
            let approvals = timing::approvals_of_chain(conn, &root).await?;
            Ok((trace, outbox::undelivered_of_item(conn, id).await?, root, chain, approvals))
        });
        let (trace, undelivered, root, chain, approvals) = read.await.map_err(door_error)?;
        let seen = chain.into_iter().filter(|task| sight.covers(task.agent, &task.session_key));
        let chain: Vec<TaskInfo> = seen.map(task_info).collect();
        let is_seen = |item: &ItemId| item == id || chain.iter().any(|task| task.item_id == *item);
        let approvals = approvals.into_iter().filter(|(item, _)| is_seen(item));
        Ok(ItemInfo {
            approvals: approvals.map(chain_approval).collect(),
            text: row.body.clone(),
            from: row.principal.clone(),
            channel: row.channel.clone(),
            session: trace.session,
            turn: row.turn.clone(),
            steps: trace.steps,
            waiting_for: trace.waiting_for,
            started_at: trace.started_at,
            response: row.answer.clone(),
            retry_of: trace.retry_of,
            retried_as: trace.retried_as,
            root: Some(root).filter(|root| root != id),
            chain,
            undelivered,
            item: inbox_item(row),
        })
    }

    /// Ends an item: at once when nobody has begun it, else with its turn. Gives it as it is then.
    pub async fn cancel_item(&self, id: &ItemId, sight: &Sight) -> Result<ItemInfo, DoorError> {
        self.seen_item(id, sight).await?;
        let ended = self.shared.waiters.wait(id);
        let mut told = self.end_item(id, CancelReason::Stop).await;
        let has_ended = told.as_ref().is_err_and(|error| error.code == "already_ended");
        // Its own turns are over, and what it gave others may go on.
        if has_ended && self.cancel_tasks(id).await.is_ok() {
            told = Ok(());
        }
        if told.is_ok() && !has_ended {
            // One that takes longer is given as it stands then.
            let _ = tokio::time::timeout(ENDED_WITHIN, ended).await;
        }
        self.shared.waiters.tidy(id);
        told?;
        self.item(id, sight).await
    }

    async fn end_item(&self, id: &ItemId, reason: CancelReason) -> Result<(), DoorError> {
        let command = CancelItem { item: id.clone(), reason, now: clock::now_ms() };
        match self.shared.store.write(command).await.map_err(door_error)? {
            Cancelled::Ended => {}
            Cancelled::Stopping(ended) => self.shared.turns.end(&ended, reason),
        }
        Ok(())
    }

    /// Ends a message because the client that waited for it has gone. `id` is an item id, or a
    /// message id this principal gave. False: there was nothing left to end.
    pub async fn client_gone(
        &self,
        agent: &AgentName,
        id: &str,
        principal: &Principal,
    ) -> Result<bool, DoorError> {
        let found = match self.follow(agent, id, principal, &Sight::All).await {
            Ok(found) if !found.has_ended() => found,
            Ok(_) => return Ok(false),
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match self.end_item(&found.item_id, CancelReason::ClientGone).await {
            Ok(()) => Ok(true),
            Err(error) if error.code == "already_ended" => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Calls that have not ended, or not before `since`; their ids begin with `prefix`, which
    /// ends with a colon.
    pub async fn earlier_calls(
        &self,
        prefix: &str,
        since: Millis,
    ) -> Result<Vec<EarlierCall>, DoorError> {
        let read = self.shared.store.read(async |conn| watch::calls(conn, prefix, since).await);
        let rows = read.await.map_err(door_error)?;
        let call = |row: CallRow| EarlierCall {
            call: row.message_id,
            agent: row.agent,
            principal: row.principal,
            ended: row.ended,
        };
        Ok(rows.into_iter().map(call).collect())
    }

    /// The same message again, with the rights of whoever had sent it: `principal` only presses
    /// the button, and may do so for others where it sees the whole hive.
    pub async fn retry_item(
        &self,
        id: &ItemId,
        key: Option<String>,
        principal: &Principal,
        sight: &Sight,
    ) -> Result<Receipt, DoorError> {
        let row = self.seen_item(id, sight).await?;
        self.send_again(row, None, key, principal, sight).await
    }

    /// Another answer to the last message of a conversation. It is sent again in a copy that ends
    /// before it, so that the model does not see the answer there is; the original is archived.
    pub async fn regenerate(
        &self,
        agent: &AgentName,
        session: &SessionId,
        key: Option<String>,
        principal: &Principal,
        credential: &Credential,
        sight: &Sight,
    ) -> Result<Receipt, DoorError> {
        let (agent, agent_name, row) = self.seen_session(agent, session, sight).await?;
        let read = self.shared.store.read(async |conn| {
            let asked = history::last_asked(conn, &agent_name, session).await?;
            let Some((seq, item)) = asked else { return Ok(None) };
            Ok(watch::item_by_id(conn, &item).await?.map(|item| (seq, item)))
        });
        // An imported one names an item of another hive.
        let found = read.await.map_err(door_error)?.filter(|(_, item)| item.agent == agent);
        let (seq, item) = found.ok_or_else(not_kept)?;
        let of = session.clone();
        let read = self
            .shared
            .store
            .read_long(credential.name(), async move |conn| search::rows_of(conn, &of).await);
        let fork = ForkSession {
            agent,
            agent_name,
            from: session.clone(),
            at: Some(seq - 1),
            session: SessionId(random::uuid().to_string()),
            key: row.key.clone(),
            spoken: read.await.map_err(door_error)?,
            now: clock::now_ms(),
        };
        // In a fork it may come from another conversation.
        let item = ItemRow { session_key: row.key.clone(), ..item };
        let receipt = self.send_again(item, Some(fork), key, principal, sight).await?;
        let read = self
            .shared
            .store
            .read(async |conn| history::session_of_key(conn, agent, &row.key).await);
        Ok(Receipt { session: read.await.map_err(door_error)?, ..receipt })
    }

    async fn send_again(
        &self,
        row: ItemRow,
        fork: Option<ForkSession>,
        key: Option<String>,
        principal: &Principal,
        sight: &Sight,
    ) -> Result<Receipt, DoorError> {
        let id = row.id.clone();
        if !self.is_ready() {
            let text = "The hive is stopping; try again when it is back.";
            return Err(DoorError::new(ErrorKind::Stopping, "stopping", text));
        }
        if row.principal != *principal && *sight != Sight::All {
            let text = format!(
                "The item {id} was sent by somebody else. Send the message yourself, or ask its \
                 sender or an operator to try it again."
            );
            return Err(DoorError::new(ErrorKind::Forbidden, "not_sender", text));
        }
        let agent = self.agent_of(row.agent, &row.agent_name)?;
        let inbound = Inbound {
            agent: row.agent_name,
            session_key: row.session_key,
            text: row.body,
            attachments: Vec::new(),
            mode: None,
            think: row.think,
            principal: row.principal,
            source: Source::Api { key },
        };
        let read = self.shared.store.read(async |conn| {
            Ok((files::of_item(conn, &id).await?, inbox::skill_text(conn, &id).await?))
        });
        let (files, skill) = read.await.map_err(door_error)?;
        if inbound.text.is_empty() && files.is_empty() {
            return Err(not_kept());
        }
        // What was a message stays one, also where it begins with a slash.
        let mut letter = self.letter(&inbound, Cause::Message, inbound.text.clone(), files)?;
        letter.skill = skill;
        if let Some(request) = &mut letter.request {
            // Keys of two people are different keys.
            request.scope = format!("api/{principal}/{}", letter.agent.0);
        }
        let receipt = ReceiptDraft::of(&letter);
        let (accept, permit) = self.acceptance(&agent, letter, None, Opens::Turn)?;
        let shared = Arc::clone(&self.shared);
        let pending = shared.store.submit(Retry { of: id, accept, fork });
        // A caller that goes away does not take the turn with it.
        let task = self.shared.tasks.spawn(accepted(shared, pending, permit, receipt));
        task.await.unwrap_or_else(|_| Err(DoorError::failed()))
    }

    /// Ends the pause before a turn is tried again.
    pub async fn retry_now(&self, turn: &TurnId, sight: &Sight) -> Result<(), DoorError> {
        let read = self.shared.store.read(async |conn| watch::turn_place(conn, turn).await);
        let place = read.await.map_err(door_error)?;
        if !place.is_some_and(|(agent, key)| sight.covers(agent, &key)) {
            let text = format!("There is no turn `{turn}`.");
            return Err(DoorError::new(ErrorKind::NotFound, "unknown_turn", text));
        }
        let lanes = &self.shared.env().lanes;
        if lanes.registry.retry_now(turn) {
            return Ok(());
        }
        let command = RetryNow { turn: turn.clone(), now: clock::now_ms() };
        self.shared.store.write(command).await.map_err(door_error)?;
        lanes.look_for_more(true);
        Ok(())
    }

    async fn seen_item(&self, id: &ItemId, sight: &Sight) -> Result<ItemRow, DoorError> {
        let read = self.shared.store.read(async |conn| watch::item_by_id(conn, id).await);
        let found = read.await.map_err(door_error)?;
        let seen = found.filter(|row| sight.covers(row.agent, &row.session_key));
        seen.ok_or_else(|| {
            let text = format!("There is no item `{id}`.");
            DoorError::new(ErrorKind::NotFound, "unknown_item", text)
        })
    }
}

/// Its conversation was deleted, or it was said elsewhere.
fn not_kept() -> DoorError {
    let text = "The message is not in the inbox of this hive any more; send it again instead.";
    DoorError::new(ErrorKind::Conflict, "message_not_kept", text)
}

fn chain_approval((item_id, row): (ItemId, TimedApproval)) -> ChainApproval {
    let TimedApproval { id, tool, state, asked_at, decided_at, decided_by, .. } = row;
    ChainApproval { id, item_id, tool, state, asked_at, decided_at, decided_by }
}

fn task_info(row: TaskRow) -> TaskInfo {
    TaskInfo {
        item_id: row.id,
        parent_task: row.parent_task,
        from: row.from_agent,
        agent: row.agent_name,
        session_key: row.session_key,
        kind: row.kind,
        state: row.state,
        item_state: row.item_state,
        hops: row.hops,
        open: row.open,
        preview: skep_scrub::known().beginning(&row.body, PREVIEW),
        result: row.result,
        code: row.code,
        created_at: row.created_at,
        ended_at: row.ended_at,
    }
}

pub(crate) fn priority_word(priority: i64) -> &'static str {
    match priority {
        0 => "critical",
        1 => "high",
        2 => "normal",
        _ => "low",
    }
}

pub(crate) fn inbox_item(row: ItemRow) -> InboxItem {
    InboxItem {
        item_id: row.id,
        message_id: row.message_id,
        agent: row.agent_name,
        session_key: row.session_key,
        kind: row.cause.listed().into_owned(),
        priority: priority_word(row.priority),
        state: row.state,
        attempts: row.attempts,
        preview: skep_scrub::known().beginning(&row.body, PREVIEW),
        error: row.error.map(|(code, error)| MessageFailure { code, error }),
        created_at: row.created_at,
        finished_at: row.finished_at,
        ord: row.ord,
    }
}

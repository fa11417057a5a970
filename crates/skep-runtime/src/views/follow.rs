//! Following a message to its end, now or after a restart.

use std::time::Duration;

use skep_core::ids::{AgentName, Principal};
use skep_core::message::{Block, Message, Role};
use skep_store::history;
use skep_store::watch::{self, ItemRow};

use crate::door::{DoorError, ErrorKind, Followed, MessageFailure, Response, Sight, Spoken};
use crate::hive::{Hive, door_error};

impl Hive {
    /// The message as it stands. `id` is an item id, or a message id this principal gave.
    pub async fn follow(
        &self,
        agent: &AgentName,
        id: &str,
        principal: &Principal,
        sight: &Sight,
    ) -> Result<Followed, DoorError> {
        let agent_id = match self.shared.agent_id(agent) {
            Ok(id) => id,
            // A message outlives its agent: whoever waits for its end learns it.
            Err(unknown) => self.shared.stored_agent(agent).await?.ok_or(unknown)?.0,
        };
        let read = self.shared.store.read(async |conn| {
            let item = watch::item(conn, agent_id, id, principal).await?;
            let seen = |item: &ItemRow| sight.covers(item.agent, &item.session_key);
            let Some(item) = item.filter(seen) else { return Ok(None) };
            let together = match &item.turn {
                Some(turn) => watch::answered_with(conn, turn).await?,
                None => vec![item.message_id.clone()],
            };
            Ok(Some((item, together)))
        });
        let found = read.await.map_err(door_error)?;
        let (item, together) = found.ok_or_else(|| {
            let text = format!("The agent {agent} has no message `{id}`.");
            DoorError::new(ErrorKind::NotFound, "unknown_message", text)
        })?;
        let ItemRow { message_id, session_key, state, turn, stop_reason, error, .. } = item;
        Ok(Followed {
            message_id,
            item_id: item.id,
            agent: item.agent_name,
            session_key,
            state,
            turn,
            response: item.answer.map(|content| Response {
                content,
                in_reply_to: together,
                stop_reason,
            }),
            error: error.map(|(code, error)| MessageFailure { code, error }),
        })
    }

    /// What the turn of a message said in answer to it.
    pub async fn spoken(&self, followed: &Followed) -> Result<Spoken, DoorError> {
        let Some(turn) = &followed.turn else { return Ok(Spoken::default()) };
        let agent = &followed.agent;
        let read = self.shared.store.read(async |conn| history::spoken_in(conn, agent, turn).await);
        let mut spoken = Spoken::default();
        for Message { body, .. } in read.await.map_err(door_error)? {
            // A message that joined a turn is answered by what follows it.
            if body.origin.as_ref().is_some_and(|origin| origin.item == followed.item_id) {
                (spoken.texts, spoken.stop) = (Vec::new(), None);
            }
            if body.role == Role::Assistant {
                spoken.stop = body.meta.as_ref().map(|meta| meta.stop_reason);
                body.meta.iter().for_each(|meta| spoken.usage.add(meta.usage));
                let text = |block: &Block| match block {
                    Block::Text { text } => Some(text.clone()),
                    _ => None,
                };
                spoken.texts.push(body.content.iter().filter_map(text).collect());
            }
        }
        spoken.texts.retain(|text| !text.is_empty());
        Ok(spoken)
    }

    /// Waits for the message's end; at the time-out it is given as it stands then.
    pub async fn follow_until_ended(
        &self,
        agent: &AgentName,
        id: &str,
        principal: &Principal,
        sight: &Sight,
        timeout: Duration,
    ) -> Result<Followed, DoorError> {
        let first = self.follow(agent, id, principal, sight).await?;
        if first.has_ended() {
            return Ok(first);
        }
        // Registered before looking again: an end between the two is seen by one of them.
        let ended = self.shared.waiters.wait(&first.item_id);
        let again = self.follow(agent, first.item_id.as_str(), principal, sight).await?;
        if again.has_ended() {
            self.shared.waiters.tidy(&first.item_id);
            return Ok(again);
        }
        tokio::select! {
            _ = ended => {}
            () = tokio::time::sleep(timeout) => {}
            () = self.shared.env().stop.cut.cancelled() => {}
        }
        self.shared.waiters.tidy(&first.item_id);
        self.follow(agent, first.item_id.as_str(), principal, sight).await
    }
}

//! Sessions that begin with what was said elsewhere.

use skep_core::ids::{AgentName, ItemId, MessageId, Principal, SessionId, SessionKey, TurnId};
use skep_core::message::{Block, Body, Origin};
use skep_guard::{clock, random};
use skep_store::begin::BeginSession;
use skep_store::history::NewHistoryRow;

use crate::door::{DoorError, Earlier};
use crate::hive::{Hive, door_error};
use crate::intake::files;

impl Hive {
    /// Puts earlier messages into a new session under this key; a key that has one keeps it.
    pub async fn begin_session(
        &self,
        agent: &AgentName,
        key: &SessionKey,
        principal: &Principal,
        earlier: Vec<Earlier>,
    ) -> Result<(), DoorError> {
        let messages = earlier.into_iter().map(|said| {
            let id = random::uuid().to_string();
            let body = match said {
                Earlier::User(text, attachments) => {
                    let origin = Origin {
                        item: ItemId::new(&id),
                        message_id: MessageId::new(&id),
                        channel: "api".to_owned(),
                        principal: principal.to_string(),
                        kind: None,
                    };
                    let files = files(attachments)?;
                    Body::user(skep_scrub::known().clean_owned(text), files, origin)
                }
                Earlier::Assistant(text) => {
                    Body::assistant(vec![Block::text(skep_scrub::known().clean_owned(text))], None)
                }
            };
            Ok(NewHistoryRow::new(id, body))
        });
        let messages: Result<Vec<NewHistoryRow>, DoorError> = messages.collect();
        let command = BeginSession {
            agent: self.shared.agent_id(agent)?,
            agent_name: agent.clone(),
            session_key: key.clone(),
            session: SessionId(random::uuid().to_string()),
            turn: TurnId(random::uuid().to_string()),
            messages: messages?,
            principal: principal.clone(),
            room: self.shared.room_of(principal),
            now: clock::now_ms(),
        };
        self.shared.store.write(command).await.map(drop).map_err(door_error)
    }
}

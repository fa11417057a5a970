//! One message as it goes on, until it has ended: what the model says and which tools it uses, and
//! at last the durable answer. Whoever listens may leave; the turn goes on.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use skep_core::BoxStream;
use skep_core::event::{Event, EventKind};
use skep_core::ids::{AgentName, ItemId, SessionKey, TurnId};
use skep_core::message::Usage;
use skep_runtime::door::{DoorError, Followed, Receipt};
use skep_runtime::{Hive, Live};

use crate::door::{Doors, Stay};
use crate::request::permit::Permit;

/// How long a message that is not told any more is waited for at a time.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The hive's events from now on. Begun before the message is handed in, so that nothing of it is
/// missed.
pub(crate) struct Listening {
    doors: Doors,
    permit: Permit,
    live: BoxStream<'static, Live>,
}

impl Listening {
    pub(crate) fn begin(doors: &Doors, permit: &Permit) -> Self {
        let live = doors.hive.events();
        Self { doors: Arc::clone(doors), permit: permit.clone(), live }
    }

    /// Of all that happens, what concerns this message.
    pub(crate) fn to(self, message: FollowedMessage) -> Telling {
        let doors = &self.doors;
        let stay = doors.standing.stay(&doors.hive, self.permit.credential());
        Telling { listening: self, message, stay, turn: None, ended: None, stage: Stage::New }
    }
}

pub(crate) struct FollowedMessage {
    pub(crate) agent: AgentName,
    pub(crate) session_key: SessionKey,
    pub(crate) item: ItemId,
}

impl From<&Receipt> for FollowedMessage {
    fn from(receipt: &Receipt) -> Self {
        Self {
            agent: receipt.agent.clone(),
            session_key: receipt.session_key.clone(),
            item: receipt.item_id.clone(),
        }
    }
}

pub(crate) enum FollowItem {
    /// A delta, the start or end of a tool, rows written, a turn that goes on: of this message's
    /// turn alone.
    Event(Arc<Event>),
    /// Something was left out: from here on only the end is told.
    Lost,
    End(Box<Followed>, Option<Usage>),
    /// The hive stops, or the credential is over; the message is kept.
    Left,
}

pub(crate) struct Telling {
    listening: Listening,
    message: FollowedMessage,
    stay: Stay,
    /// The turn that answers it, once there is one.
    turn: Option<TurnId>,
    /// The item has ended in this turn, whose end follows.
    ended: Option<TurnId>,
    stage: Stage,
}

/// New → Open → Over, or New | Open → Lost → Over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Open,
    /// The events are gone; the store knows the end.
    Lost,
    Over,
}

impl Telling {
    /// What comes next; nothing after the end.
    pub(crate) async fn next(&mut self) -> Option<FollowItem> {
        let told = match self.stage {
            Stage::Over => return None,
            Stage::New => match self.look().await {
                Ok(followed) if followed.has_ended() => {
                    end(&self.listening.doors.hive, followed).await
                }
                Ok(_) => {
                    self.stage = Stage::Open;
                    self.listen().await
                }
                Err(error) => self.lose(&error),
            },
            Stage::Open => self.listen().await,
            Stage::Lost => self.wait_for_the_end().await,
        };
        if matches!(told, FollowItem::End(..) | FollowItem::Left) {
            self.stage = Stage::Over;
        }
        Some(told)
    }

    async fn listen(&mut self) -> FollowItem {
        loop {
            let closing = &self.listening.doors.closing;
            let live = tokio::select! {
                live = self.listening.live.next() => live,
                () = closing.cancelled() => return FollowItem::Left,
                () = self.stay.over() => return FollowItem::Left,
            };
            let Some(Live::Event(event)) = live else {
                self.stage = Stage::Lost;
                return FollowItem::Lost;
            };
            match self.consider(event).await {
                Ok(Some(told)) => return told,
                Ok(None) => {}
                Err(error) => return self.lose(&error),
            }
        }
    }

    async fn consider(&mut self, event: Arc<Event>) -> Result<Option<FollowItem>, DoorError> {
        match &event.kind {
            EventKind::InboxEnded { item, .. } if *item == self.message.item => {
                self.ended.clone_from(&event.turn);
                if event.turn.is_none() {
                    let followed = self.look().await?;
                    return Ok(Some(FollowItem::End(Box::new(followed), None)));
                }
            }
            EventKind::TurnEnd { usage, .. }
                if event.turn.is_some() && event.turn == self.ended =>
            {
                let usage = *usage;
                let followed = self.look().await?;
                return Ok(Some(FollowItem::End(Box::new(followed), Some(usage))));
            }
            EventKind::TurnStart { session_key, .. }
                if self.turn.is_none() && *session_key == self.message.session_key =>
            {
                self.look().await?;
            }
            // A turn that runs takes waiting messages in between two steps, and writes them down.
            EventKind::HistoryUpdated { .. }
                if self.turn.is_none() && event.agent == self.message.agent =>
            {
                self.look().await?;
            }
            _ => {}
        }
        let told = matches!(
            event.kind,
            EventKind::Delta { .. }
                | EventKind::ToolStart { .. }
                | EventKind::ToolEnd { .. }
                | EventKind::TurnWaiting { .. }
                | EventKind::ModelRetry(_)
                | EventKind::HistoryUpdated { .. }
        );
        let own = event.turn.is_some() && event.turn == self.turn;
        Ok((own && told).then_some(FollowItem::Event(event)))
    }

    /// The message as it stands, and the turn it has by now.
    async fn look(&mut self) -> Result<Followed, DoorError> {
        let FollowedMessage { agent, item, .. } = &self.message;
        let permit = &self.listening.permit;
        let hive = &self.listening.doors.hive;
        let sight = permit.sight();
        let followed = hive.follow(agent, item.as_str(), permit.principal(), &sight).await?;
        self.turn.clone_from(&followed.turn);
        Ok(followed)
    }

    async fn wait_for_the_end(&mut self) -> FollowItem {
        let FollowedMessage { agent, item, .. } = &self.message;
        let permit = &self.listening.permit;
        let (principal, sight) = (permit.principal(), permit.sight());
        let doors = &self.listening.doors;
        loop {
            let following =
                doors.hive.follow_until_ended(agent, item.as_str(), principal, &sight, LOOK_AGAIN);
            let followed = tokio::select! {
                followed = following => followed,
                () = doors.closing.cancelled() => return FollowItem::Left,
                () = self.stay.over() => return FollowItem::Left,
            };
            match followed {
                Ok(followed) if followed.has_ended() => return end(&doors.hive, followed).await,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "the end of a message cannot be read");
                    return FollowItem::Left;
                }
            }
        }
    }

    fn lose(&mut self, error: &DoorError) -> FollowItem {
        tracing::warn!(%error, "a message that is told cannot be read");
        self.stage = Stage::Lost;
        FollowItem::Lost
    }
}

/// The end of a message whose events are gone: what it took stands in the history.
async fn end(hive: &Hive, followed: Followed) -> FollowItem {
    let spoken = match followed.turn {
        Some(_) => hive.spoken(&followed).await.ok(),
        None => None,
    };
    FollowItem::End(Box::new(followed), spoken.map(|spoken| spoken.usage))
}

//! What one socket sends. Messages are handed to the hive in the order of their frames; nothing is
//! waited for in between.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use futures_util::stream::{FuturesUnordered, SplitStream};
use futures_util::{FutureExt, StreamExt};
use skep_core::BoxFuture;
use skep_core::event::Event;
use skep_core::frame::Frame;
use skep_core::ids::{ChannelId, ItemId};
use skep_core::question::GivenAnswer;
use skep_runtime::door::{Credential, DecisionWish, DoorError, Inbound, Source};
use tokio::sync::oneshot;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::channel::frame::{self, ClientFrame, IncomingMessage, Named, Place, Refused, invalid};
use crate::channel::hub::{PastPage, Push, Seated};
use crate::door::state::Doors;
use crate::request::extract::{LARGE_BODY_TIME, in_turn};
use crate::request::permit::Permit;
use crate::request::{HeldRoom, Intake};
use crate::stream::event_filter::EventFilter;
use crate::stream::event_watch::{Seen, Watching};
use crate::ws::socket::SocketEnd;

/// Two pings unanswered, and some slack.
pub(crate) const SILENCE: Duration = Duration::from_secs(75);
/// A client's ping has this much around its payload: two bytes and the mask.
const CONTROL_HEAD: usize = 6;
/// Messages handed in whose receipt is not there yet; further ones stay in the kernel's buffer.
pub(crate) const UNDER_WAY: usize = 256;

/// What came of a client's frame.
type Outcome = BoxFuture<'static, Result<Done, Refused>>;

pub(crate) enum Done {
    /// Frames of a message that had been taken before.
    Again(Vec<Frame>),
    /// Said to this socket alone.
    Say(Utf8Bytes),
}

pub(crate) struct Incoming<'a> {
    pub(crate) source: &'a mut SplitStream<WebSocket>,
    pub(crate) seated: &'a Seated,
    pub(crate) doors: &'a Doors,
    pub(crate) channel: &'a ChannelId,
    pub(crate) permit: &'a Permit,
    pub(crate) intake: &'a Intake,
    pub(crate) stream: bool,
    pub(crate) under_way: FuturesUnordered<Outcome>,
    pub(crate) subscription: Option<Subscription>,
}

/// Raw live events; a socket has one at most, the newest.
pub(crate) struct Subscription {
    watching: Watching<Vec<Utf8Bytes>>,
    /// A page that the socket has not taken yet; until then no other is read.
    untaken: Option<oneshot::Receiver<()>>,
}

/// A frame that may be done.
enum Wish {
    Message(Told),
    Interrupt(Place),
    Subscribe(EventFilter, Option<i64>),
    Approve { id: String, decision: DecisionWish },
    Answer { id: String, answer: GivenAnswer },
}

struct Told {
    place: Place,
    said: IncomingMessage,
}

impl Incoming<'_> {
    /// Reads until the connection ends.
    pub(crate) async fn run(&mut self) -> SocketEnd {
        let mut heard = Instant::now();
        let mut not_before = heard;
        loop {
            let room = self.under_way.len() < UNDER_WAY;
            let whole = self.intake.since().map(|since| since + LARGE_BODY_TIME);
            let deadline = whole.map_or(heard + SILENCE, |whole| whole.min(heard + SILENCE));
            let told = tokio::select! {
                message = next_frame(self.source, not_before, deadline), if room => {
                    heard = Instant::now();
                    match message {
                        Ok(Some(Ok(message))) => {
                            if matches!(message, Message::Text(_) | Message::Binary(_)) {
                                let (hive, who) = (&self.doors.hive, self.permit.identity());
                                let pause = self.doors.rates.pause(hive, who);
                                not_before = heard + pause.unwrap_or_default();
                            }
                            self.take(message).await
                        }
                        Ok(Some(Err(error))) => Err(SocketEnd::of(&error)),
                        Ok(None) => Err(SocketEnd::Gone),
                        Err(_) if whole.is_some_and(|whole| whole <= heard) => {
                            Err(SocketEnd::Endless)
                        }
                        Err(_) => Err(SocketEnd::Silent),
                    }
                }
                Some(outcome) = self.under_way.next() => self.pass_outcome(outcome).await,
                seen = next_event(&mut self.subscription) => self.pass_events(seen).await,
            };
            if let Err(ended) = told {
                return ended;
            }
        }
    }

    async fn take(&mut self, message: Message) -> Result<(), SocketEnd> {
        let text = match message {
            Message::Text(text) => text,
            Message::Binary(_) => {
                drop(self.intake.hand_over());
                let error = invalid("unsupported", "send JSON as text, not as binary");
                return self.tell(frame::error(&Refused { error, message_id: None })).await;
            }
            // The library answers pings; both only show that the other side lives.
            Message::Ping(payload) | Message::Pong(payload) => {
                self.intake.forget(CONTROL_HEAD + payload.len());
                return Ok(());
            }
            Message::Close(_) => return Err(SocketEnd::Gone),
        };
        let parsed = in_turn(text.len(), move || ClientFrame::parse(&text)).await;
        let room = self.intake.hand_over();
        let wish = match parsed {
            Ok(frame) => {
                let decides = frame.decides().map(str::to_owned);
                let wish = self.wish(frame);
                if let (Some(id), Err(_)) = (decides, &wish) {
                    self.doors.hive.note_refused(&id, self.permit.identity(), "websocket").await;
                }
                wish
            }
            Err(refused) => Err(refused),
        };
        match wish {
            Ok(Wish::Message(message)) => {
                self.submit(message, room);
                Ok(())
            }
            Ok(Wish::Interrupt(place)) => {
                self.interrupt(place);
                Ok(())
            }
            Ok(Wish::Approve { id, decision }) => {
                self.approve(id, decision);
                Ok(())
            }
            Ok(Wish::Answer { id, answer }) => {
                self.answer(id, answer);
                Ok(())
            }
            Ok(Wish::Subscribe(filter, since)) => self.subscribe(filter, since).await,
            Err(refused) => self.tell(frame::error(&refused)).await,
        }
    }

    /// What the frame means for who sent it, if that one may.
    fn wish(&self, frame: ClientFrame) -> Result<Wish, Refused> {
        let message_id = frame.message_id();
        self.allowed(frame).map_err(|error| Refused { error, message_id })
    }

    fn allowed(&self, frame: ClientFrame) -> Result<Wish, DoorError> {
        let permit = self.permit.other(frame.action())?;
        let place = |named: Named| {
            let session = permit.session_key(named.session, self.channel.as_str())?;
            let agent_id = self.doors.hive.agent_id(&named.agent)?;
            Ok(Place { agent: named.agent, agent_id, session })
        };
        Ok(match frame {
            ClientFrame::Message(said) => {
                Wish::Message(Told { place: place(said.named.clone())?, said })
            }
            ClientFrame::Interrupt(named) => Wish::Interrupt(place(named)?),
            ClientFrame::Subscribe { agent, session, since } => {
                Wish::Subscribe(EventFilter::new(agent, session, permit.sight()), since)
            }
            ClientFrame::Approve { id, decision } => {
                let from = match permit.credential() {
                    Credential::Owner => "terminal",
                    Credential::Browser { .. } | Credential::Token { .. } => "websocket",
                };
                let decision = decision.wish(&permit, from);
                Wish::Approve { id, decision }
            }
            ClientFrame::Answer { id, answer } => Wish::Answer { id, answer },
        })
    }

    /// The message takes its room until it is kept.
    fn submit(&mut self, told: Told, room: HeldRoom) {
        let Told { place, said: IncomingMessage { content, id, mode, attachments, .. } } = told;
        if self.stream {
            self.seated.follow(&place);
        }
        let receipt = self.seated.submit(Inbound {
            agent: place.agent,
            session_key: place.session,
            text: content,
            attachments,
            mode,
            think: None,
            principal: self.permit.principal().clone(),
            source: Source::Socket { channel: self.channel.clone(), id: id.clone() },
        });
        // An ack is a durable frame and comes through the hub. Only a message that had been taken
        // before is answered here, with the frames of then.
        let outcome = receipt.map(move |receipt| {
            drop(room);
            match receipt {
                Ok(receipt) => Ok(Done::Again(receipt.repeated)),
                Err(error) => Err(Refused { error, message_id: id }),
            }
        });
        self.under_way.push(outcome.boxed());
    }

    fn interrupt(&mut self, place: Place) {
        let hive = self.doors.hive.clone();
        let mut outcome = async move {
            match hive.stop(&place.agent, &place.session).await {
                Ok(Some(_)) => Ok(Done::Again(Vec::new())),
                Ok(None) => {
                    let error = invalid("nothing_running", "nothing runs in this conversation");
                    Err(Refused { error, message_id: None })
                }
                Err(error) => Err(Refused { error, message_id: None }),
            }
        }
        .boxed();
        // Begun here, so that it stands before the messages of later frames.
        match (&mut outcome).now_or_never() {
            Some(done) => self.under_way.push(std::future::ready(done).boxed()),
            None => self.under_way.push(outcome),
        }
    }

    fn approve(&mut self, id: String, decision: DecisionWish) {
        let (hive, by) = (self.doors.hive.clone(), self.permit.identity().clone());
        let sight = self.permit.sight();
        let outcome = async move {
            match hive.decide_approval(&id, decision, &by, &sight).await {
                Ok(approval) => Ok(Done::Say(frame::approval(&approval))),
                Err(error) => Err(Refused { error, message_id: Some(id) }),
            }
        };
        self.under_way.push(outcome.boxed());
    }

    fn answer(&mut self, id: String, answer: GivenAnswer) {
        let (hive, by) = (self.doors.hive.clone(), self.permit.principal().clone());
        let outcome = async move {
            match hive.answer_question(ItemId::new(id.as_str()), answer, &by).await {
                Ok(()) => Ok(Done::Say(frame::answered(&id))),
                Err(error) => Err(Refused { error, message_id: Some(id) }),
            }
        };
        self.under_way.push(outcome.boxed());
    }

    async fn subscribe(
        &mut self,
        filter: EventFilter,
        since: Option<i64>,
    ) -> Result<(), SocketEnd> {
        let page = |events: Vec<Event>| events.iter().map(frame::event).collect();
        match Watching::begin(self.doors, self.permit, since, filter, page).await {
            Ok((active, watching)) => {
                self.subscription = Some(Subscription { watching, untaken: None });
                match active {
                    Some(active) => self.tell(frame::active(&active)).await,
                    None => Ok(()),
                }
            }
            Err(error) => self.tell(frame::error(&Refused { error, message_id: None })).await,
        }
    }

    async fn pass_outcome(&mut self, outcome: Result<Done, Refused>) -> Result<(), SocketEnd> {
        let again = match outcome {
            Ok(Done::Again(again)) => again,
            Ok(Done::Say(text)) => return self.tell(text).await,
            Err(refused) => return self.tell(frame::error(&refused)).await,
        };
        for frame in again {
            self.push(Push::Again(Arc::new(frame))).await?;
        }
        Ok(())
    }

    async fn pass_events(&mut self, seen: Seen<Vec<Utf8Bytes>>) -> Result<(), SocketEnd> {
        match seen {
            Seen::Past(texts) => {
                let (taken, untaken) = oneshot::channel();
                if let Some(subscription) = &mut self.subscription {
                    subscription.untaken = Some(untaken);
                }
                self.push(Push::Past(Arc::new(PastPage { texts, _taken: taken }))).await
            }
            Seen::Now(events) => {
                for event in events {
                    self.tell(self.doors.hub.event_text(&event)).await?;
                }
                Ok(())
            }
            // After a gap the client reads the state and subscribes from there.
            Seen::Resync => {
                self.subscription = None;
                self.tell(frame::resync_events()).await
            }
        }
    }

    async fn tell(&mut self, text: Utf8Bytes) -> Result<(), SocketEnd> {
        self.push(Push::Plain(text)).await
    }

    /// Waits for room in the queue: who does not read what it caused is not read further either.
    async fn push(&mut self, push: Push) -> Result<(), SocketEnd> {
        self.seated.queue().send(push).await.map_err(|_| SocketEnd::Gone)
    }
}

/// The next frame that came in time; whoever sent too many is read later.
async fn next_frame(
    source: &mut SplitStream<WebSocket>,
    not_before: Instant,
    deadline: Instant,
) -> Result<Option<Result<Message, axum::Error>>, Elapsed> {
    sleep_until(not_before).await;
    timeout_at(deadline.max(not_before), source.next()).await
}

async fn next_event(subscription: &mut Option<Subscription>) -> Seen<Vec<Utf8Bytes>> {
    let Some(subscription) = subscription else { return std::future::pending().await };
    // Kept until it is over: whoever waits here is interrupted by every frame.
    if let Some(untaken) = &mut subscription.untaken {
        let _ = untaken.await;
        subscription.untaken = None;
    }
    subscription.watching.next().await
}

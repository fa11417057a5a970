#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use serde_json::json;
use skep_core::frame::FrameKind;
use skep_core::ids::{AgentId, AgentName, Token};

fn new_hub() -> (Arc<Hub>, Feed) {
    Hub::new(futures_util::stream::pending().boxed())
}

fn opened(channel: &ChannelId) -> OpenedChannel {
    OpenedChannel { channel: channel.clone(), seq: 0, floor: 0 }
}

fn frame_of(channel: &ChannelId, seq: i64) -> Arc<Frame> {
    Arc::new(Frame {
        channel: channel.clone(),
        seq,
        id: format!("f{seq}"),
        kind: FrameKind::Response,
        at: 0,
        payload: json!({}),
    })
}

fn id(agent: &str) -> AgentId {
    AgentId(if agent == "main" { 1 } else { 2 })
}

fn event(agent: &str, turn: &str, kind: EventKind) -> Event {
    Event {
        seq: None,
        at: 0,
        agent: AgentName::new(agent),
        agent_id: Some(id(agent)),
        session: None,
        turn: Some(TurnId::new(turn)),
        kind,
    }
}

fn start(key: &str) -> EventKind {
    EventKind::TurnStart {
        session_key: SessionKey::new(key),
        token: Token(1),
        from: String::new(),
        body: String::new(),
        resumed: false,
    }
}

fn words(index: u32) -> EventKind {
    EventKind::Delta {
        token: Token(1),
        call: 0,
        index,
        part: DeltaPart::Text,
        text: "word".to_owned(),
    }
}

fn received(queue: &mut Queue) -> Vec<String> {
    std::iter::from_fn(|| queue.pushes.try_recv().ok())
        .map(|push| match push {
            Push::Durable(frame) | Push::Again(frame) => format!("frame {}", frame.seq),
            Push::Delta(mark, _) => format!("delta {} {}", mark.turn, mark.index),
            Push::Plain(text) => text.as_str().to_owned(),
            Push::Past(page) => page.texts.iter().map(Utf8Bytes::as_str).collect(),
        })
        .collect()
}

#[test]
fn frames_reach_every_socket_of_their_channel_and_no_other() {
    let (hub, _feed) = new_hub();
    let (one, other) = (ChannelId::new("ws:1"), ChannelId::new("ws:2"));
    assert_eq!(hub.accept(frame_of(&one, 1)), Delivery::Absent);
    let (first, mut first_queue) = hub.sit(&opened(&one), None);
    let (_second, mut second_queue) = hub.sit(&opened(&one), None);
    let (_third, mut third_queue) = hub.sit(&opened(&other), None);
    assert_eq!(hub.accept(frame_of(&one, 1)), Delivery::Delivered);
    hub.registry().deliver(&frame_of(&one, 2));
    drop(first);
    hub.registry().deliver(&frame_of(&one, 3));
    assert_eq!(received(&mut first_queue), ["frame 2"]);
    assert_eq!(received(&mut second_queue), ["frame 2", "frame 3"]);
    assert_eq!(received(&mut third_queue), Vec::<String>::new());
}

#[test]
fn a_reader_that_falls_behind_is_marked_and_never_waited_for() {
    let (hub, _feed) = new_hub();
    let channel = ChannelId::new("ws:1");
    let (_seated, mut queue) = hub.sit(&opened(&channel), None);
    for seq in 1..=(QUEUE as i64 + 5) {
        hub.registry().deliver(&frame_of(&channel, seq));
    }
    assert!(queue.take_lag());
    assert!(!queue.take_lag());
    assert_eq!(received(&mut queue).len(), QUEUE);
}

#[test]
fn streams_go_to_sockets_that_asked_for_the_conversation() {
    let (hub, _feed) = new_hub();
    let (streaming, mut streaming_queue) =
        hub.sit(&opened(&ChannelId::new("ws:1")), Some(SessionKey::new("ws:1")));
    let (_quiet, mut quiet_queue) = hub.sit(&opened(&ChannelId::new("ws:1")), None);
    let route = |event: Event| hub.registry().route(&event);
    route(event("main", "t0", words(0)));
    route(event("main", "t1", start("ws:1")));
    route(event("main", "t1", words(0)));
    route(event("cto", "t2", start("desk")));
    route(event("cto", "t2", words(0)));
    let place = |agent: &str, key: &str| {
        let (agent_id, session) = (id(agent), SessionKey::new(key));
        Place { agent: AgentName::new(agent), agent_id, session }
    };
    let (place, own) = (place("cto", "desk"), place("main", "ws:1"));
    streaming.follow(&place);
    streaming.follow(&place);
    route(event("cto", "t2", words(1)));
    let mut open = streaming.open_places();
    open.sort_by(|one, two| one.agent.cmp(&two.agent));
    assert_eq!(open, [place, own]);
    route(event("main", "t3", start("desk")));
    route(event("main", "t3", words(0)));
    let usage = skep_core::message::Usage::default();
    let (code, error, profile) = (None, None, None);
    let end = EventKind::TurnEnd { ok: true, code, error, usage, profile };
    route(event("cto", "t2", end));
    route(event("cto", "t2", words(2)));
    assert_eq!(received(&mut streaming_queue), ["delta t1 0", "delta t2 1"]);
    assert_eq!(received(&mut quiet_queue), Vec::<String>::new());
    drop(streaming);
    assert!(hub.registry().streams.is_empty());
    assert_eq!(hub.registry().turns.len(), 2);
}

#[test]
fn an_empty_hub_keeps_nothing() {
    let (hub, _feed) = new_hub();
    let (seated, _queue) = hub.sit(&opened(&ChannelId::new("ws:1")), Some(SessionKey::new("ws:1")));
    drop(seated);
    let registry = hub.registry();
    assert!(registry.channels.is_empty() && registry.streams.is_empty());
}

//! Frames go to the channel whose word their id begins with, and to no other.

use std::sync::Arc;

use skep_core::BoxFuture;
use skep_core::channel::{Channel, ChannelCapabilities, Delivery};
use skep_core::frame::{Frame, FrameKind};
use skep_core::ids::{AgentName, ChannelId, Principal, SessionKey};
use skep_runtime::door::{Inbound, Source};
use tokio::sync::mpsc;

use crate::echo;

struct Probe {
    word: &'static str,
    frames: mpsc::Sender<Arc<Frame>>,
}

impl Channel for Probe {
    fn id(&self) -> &str {
        self.word
    }

    fn capabilities(&self) -> ChannelCapabilities {
        ChannelCapabilities {
            typing: false,
            edits: false,
            buttons: false,
            attachments: false,
            max_message_bytes: None,
        }
    }

    fn send<'a>(&'a self, frame: Arc<Frame>) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            self.frames.send(frame).await.unwrap();
            Delivery::Delivered
        })
    }
}

fn probe(word: &'static str) -> (Arc<Probe>, mpsc::Receiver<Arc<Frame>>) {
    let (frames, seen) = mpsc::channel(64);
    (Arc::new(Probe { word, frames }), seen)
}

#[tokio::test]
async fn frames_go_to_the_channel_they_are_for() {
    let run = tempfile::tempdir().unwrap();
    let hive = echo::hive(run.path()).await;
    let (pigeon, mut by_pigeon) = probe("pigeon");
    let (drum, mut by_drum) = probe("drum");
    hive.add_channel(pigeon);
    hive.add_channel(drum);
    let owner = Principal::new("operator");
    let channel = hive.open_channel("pigeon", &owner, None).await.unwrap().channel;
    let inbound = Inbound {
        agent: AgentName::new("main"),
        session_key: SessionKey::new(channel.as_str()),
        text: "coo".to_owned(),
        attachments: Vec::new(),
        mode: None,
        think: None,
        principal: owner,
        source: Source::Socket { channel: channel.clone(), id: Some("m1".to_owned()) },
    };
    hive.submit(inbound).await.unwrap();
    let ack = by_pigeon.recv().await.unwrap();
    let response = by_pigeon.recv().await.unwrap();
    let place = |frame: &Frame| (frame.channel.clone(), frame.kind, frame.seq);
    assert_eq!(place(&ack), (channel.clone(), FrameKind::Ack, 1));
    assert_eq!(place(&response), (channel, FrameKind::Response, 2));
    assert_eq!(response.payload["content"], "coo");
    assert_eq!(response.payload["in_reply_to"], serde_json::json!(["m1"]));
    hive.drain(std::future::ready(())).await;
    assert!(by_drum.try_recv().is_err());
}

#[tokio::test]
async fn a_channel_belongs_to_who_opened_it() {
    let run = tempfile::tempdir().unwrap();
    let hive = echo::hive(run.path()).await;
    let (one, two) = (Principal::new("token:1"), Principal::new("token:2"));
    let channel = hive.open_channel("ws", &one, None).await.unwrap().channel;
    let again = hive.open_channel("ws", &one, Some(channel.clone())).await.unwrap();
    assert_eq!(again.channel, channel);
    let foreign = hive.open_channel("ws", &two, Some(channel)).await.unwrap_err();
    assert_eq!(foreign.code, "foreign_channel");
    let made_up = Some(ChannelId::new("ws:nobody"));
    let unknown = hive.open_channel("ws", &one, made_up).await.unwrap_err();
    assert_eq!(unknown.code, "unknown_channel");
    hive.drain(std::future::ready(())).await;
}

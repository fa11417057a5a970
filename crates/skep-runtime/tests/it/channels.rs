//! Frames go to the channel whose word their id begins with, each as often as its record allows;
//! no channel waits for another.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use skep_core::channel::Channel;
use skep_core::frame::{Frame, FrameKind, FrameState, UndeliveredFrame};
use skep_core::ids::{AgentName, ChannelId, ItemId, Principal, SessionKey};
use skep_core::inbound::{Inbound, Receipt, Source};
use skep_runtime::Hive;
use skep_runtime::door::Sight;
use skep_testkit::channel::{Manner, ScriptedChannel};
use tokio::time::Instant;

use crate::echo;

/// A hive with a channel, and one channel id of it.
struct Scene {
    hive: Hive,
    channel: Arc<ScriptedChannel>,
    id: ChannelId,
}

impl Scene {
    async fn open(run: &Path, manner: Manner) -> Self {
        let hive = echo::hive(run).await;
        let channel = ScriptedChannel::new("pigeon", manner);
        hive.add_channel(Arc::clone(&channel) as Arc<dyn Channel>);
        let id = new_id(&hive, "pigeon").await;
        Self { hive, channel, id }
    }

    /// The same hive after a stop, or instead of one.
    async fn again(run: &Path, id: &ChannelId, manner: Manner) -> Self {
        let hive = echo::hive(run).await;
        let channel = ScriptedChannel::new("pigeon", manner);
        hive.add_channel(Arc::clone(&channel) as Arc<dyn Channel>);
        Self { hive, channel, id: id.clone() }
    }

    async fn say(&self, text: &str) -> Receipt {
        say(&self.channel, &self.id, text).await
    }

    async fn stop(self) {
        self.hive.drain(std::future::ready(())).await;
    }

    async fn sent(&self, frames: usize) -> Vec<Arc<Frame>> {
        sent(&self.channel, frames).await
    }

    /// What is shown of an item's frames, once there are this many.
    async fn undelivered(&self, item: &ItemId, frames: usize) -> Vec<UndeliveredFrame> {
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            let shown = self.hive.item(item, &Sight::All).await.unwrap().undelivered;
            if shown.len() == frames {
                return shown;
            }
            assert!(std::time::Instant::now() < deadline, "{shown:?}");
            tokio::task::yield_now().await;
        }
    }
}

async fn new_id(hive: &Hive, word: &str) -> ChannelId {
    hive.open_channel(word, &Principal::new("operator"), None).await.unwrap().channel
}

/// A message that comes in through the channel.
async fn say(channel: &ScriptedChannel, id: &ChannelId, text: &str) -> Receipt {
    let inbound = Inbound {
        agent: AgentName::new("main"),
        session_key: SessionKey::new(id.as_str()),
        text: text.to_owned(),
        attachments: Vec::new(),
        mode: None,
        think: None,
        principal: Principal::new("operator"),
        source: Source::Socket { channel: id.clone(), id: Some(text.to_owned()) },
    };
    channel.inbound().unwrap().submit(inbound).await.unwrap()
}

/// The frames a channel was handed, once there are this many.
async fn sent(channel: &ScriptedChannel, frames: usize) -> Vec<Arc<Frame>> {
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let sent = channel.sent();
        if sent.len() >= frames {
            return sent;
        }
        assert!(std::time::Instant::now() < deadline, "only {sent:?}");
        tokio::task::yield_now().await;
    }
}

fn places(frames: &[Arc<Frame>]) -> Vec<(FrameKind, i64)> {
    frames.iter().map(|frame| (frame.kind, frame.seq)).collect()
}

fn ids(frames: &[Arc<Frame>]) -> Vec<String> {
    frames.iter().map(|frame| frame.id.clone()).collect()
}

const FIRST_TWO: [(FrameKind, i64); 2] = [(FrameKind::Ack, 1), (FrameKind::Response, 2)];

#[tokio::test]
async fn frames_go_to_the_channel_they_are_for() {
    let run = tempfile::tempdir().unwrap();
    let scene = Scene::open(run.path(), Manner::Take).await;
    let drum = ScriptedChannel::new("drum", Manner::Take);
    scene.hive.add_channel(Arc::clone(&drum) as Arc<dyn Channel>);
    scene.say("coo").await;
    let frames = scene.sent(2).await;
    assert_eq!(places(&frames), FIRST_TWO);
    assert!(frames.iter().all(|frame| frame.channel == scene.id));
    assert_eq!(frames[1].payload["content"], "coo");
    assert_eq!(frames[1].payload["in_reply_to"], serde_json::json!(["coo"]));
    scene.stop().await;
    assert!(drum.sent().is_empty());
}

/// The clock stands still unless the test moves it: what arrives without it being moved waits for
/// no timer and for no other channel.
#[tokio::test]
async fn a_channel_that_hangs_delays_no_other() {
    let run = tempfile::tempdir().unwrap();
    let scene = Scene::open(run.path(), Manner::Hang).await;
    let drum = ScriptedChannel::new("drum", Manner::Take);
    scene.hive.add_channel(Arc::clone(&drum) as Arc<dyn Channel>);
    let beat = new_id(&scene.hive, "drum").await;
    let other = new_id(&scene.hive, "pigeon").await;
    tokio::time::pause();
    // An idle runtime would move it.
    let busy = tokio::spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    scene.say("hung").await;
    scene.sent(1).await;
    for (second, text) in ["one", "two", "three"].into_iter().enumerate() {
        tokio::time::advance(Duration::from_secs(15)).await;
        let before = Instant::now();
        say(&drum, &beat, text).await;
        sent(&drum, 2 * second + 2).await;
        assert!(before.elapsed() <= Duration::from_millis(50), "{:?}", before.elapsed());
    }
    // Nor another channel id of its own; of the one that hangs nothing else is under way.
    say(&scene.channel, &other, "beside").await;
    let frames = scene.sent(2).await;
    let of = |id: &ChannelId| frames.iter().filter(|frame| frame.channel == *id).count();
    assert_eq!((of(&scene.id), of(&other)), (1, 1));
    // After a minute it counts as put off, and comes again with the same id.
    tokio::time::advance(Duration::from_secs(46)).await;
    tokio::time::resume();
    busy.abort();
    scene.sent(3).await;
    scene.channel.set(Manner::Take);
    let frames = scene.sent(5).await;
    let own: Vec<_> = frames.iter().filter(|frame| frame.channel == scene.id).cloned().collect();
    assert_eq!(places(&own), [FIRST_TWO[0], FIRST_TWO[0], FIRST_TWO[1]]);
    assert_eq!(own[0].id, own[1].id);
    scene.stop().await;
}

#[tokio::test]
async fn a_refused_frame_is_shown_with_the_reason_and_not_sent_again() {
    let run = tempfile::tempdir().unwrap();
    let scene = Scene::open(run.path(), Manner::Refuse("the loft is closed".to_owned())).await;
    let item = scene.say("coo").await.item_id;
    let refused = |kind| UndeliveredFrame {
        kind,
        state: FrameState::Refused,
        attempts: 1,
        next_at: None,
        reason: Some("the loft is closed".to_owned()),
    };
    let shown = scene.undelivered(&item, 2).await;
    assert_eq!(shown, [refused(FrameKind::Ack), refused(FrameKind::Response)]);
    scene.channel.come_back(&scene.id);
    scene.say("again").await;
    assert_eq!(ids(&scene.sent(4).await)[..2], ids(&scene.channel.sent())[..2]);
    let id = scene.id.clone();
    scene.stop().await;
    let scene = Scene::again(run.path(), &id, Manner::Take).await;
    scene.say("third").await;
    assert_eq!(places(&scene.sent(2).await), [(FrameKind::Ack, 5), (FrameKind::Response, 6)]);
    scene.stop().await;
}

#[tokio::test]
async fn a_frame_that_is_put_off_goes_out_before_those_behind_it() {
    let run = tempfile::tempdir().unwrap();
    let far = 1 << 50;
    let scene = Scene::open(run.path(), Manner::Delay(far)).await;
    let item = scene.say("coo").await.item_id;
    let put_off = UndeliveredFrame {
        kind: FrameKind::Ack,
        state: FrameState::Pending,
        attempts: 1,
        next_at: Some(far),
        reason: None,
    };
    assert_eq!(scene.undelivered(&item, 1).await, [put_off]);
    scene.say("behind").await;
    scene.channel.come_back(&scene.id);
    let id = scene.id.clone();
    scene.stop().await;
    // A restart does not shorten the wait.
    let scene = Scene::again(run.path(), &id, Manner::Delay(0)).await;
    let other = new_id(&scene.hive, "pigeon").await;
    say(&scene.channel, &other, "beside").await;
    scene.sent(1).await;
    scene.channel.set(Manner::Take);
    let frames = scene.sent(3).await;
    assert!(frames.iter().all(|frame| frame.channel == other), "{frames:?}");
    assert_eq!(places(&frames), [FIRST_TWO[0], FIRST_TWO[0], FIRST_TWO[1]]);
    scene.stop().await;
}

#[tokio::test]
async fn what_nobody_took_goes_out_when_somebody_listens_or_after_a_restart() {
    let run = tempfile::tempdir().unwrap();
    let scene = Scene::open(run.path(), Manner::Absent).await;
    scene.say("coo").await;
    scene.sent(1).await;
    scene.channel.come_back(&scene.id);
    let frames = scene.sent(3).await;
    assert_eq!(places(&frames)[1..], FIRST_TWO);
    scene.channel.set(Manner::Absent);
    scene.say("later").await;
    // Its ack is tried again when its answer is there: nothing overtakes it.
    let tries = scene.sent(5).await;
    assert_eq!(places(&tries)[3..], [(FrameKind::Ack, 3); 2]);
    let id = scene.id.clone();
    scene.stop().await;
    let scene = Scene::again(run.path(), &id, Manner::Take).await;
    let frames = scene.sent(2).await;
    assert_eq!(places(&frames), [(FrameKind::Ack, 3), (FrameKind::Response, 4)]);
    assert_eq!(frames[0].id, tries[3].id);
    scene.stop().await;
    // All of it is recorded: nothing comes a second time.
    let scene = Scene::again(run.path(), &id, Manner::Take).await;
    scene.say("new").await;
    assert_eq!(places(&scene.sent(2).await), [(FrameKind::Ack, 5), (FrameKind::Response, 6)]);
    scene.stop().await;
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

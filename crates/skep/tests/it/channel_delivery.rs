//! A second channel: what it was not sent goes out after a restart, with the ids of before, and
//! what is recorded as delivered does not go out again.

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::wait::{self, PATIENCE};

use crate::stage::{Play, Stage};

async fn up(stage: &Stage, manner: &str) -> Play {
    stage.run(stage.start().env("RIG_CHANNEL", manner)).await
}

async fn say(play: &Play, channel: &Value, text: &str) -> Value {
    let body = json!({"channel": channel, "text": text});
    play.rig_door().await.post("/say", &body).await.unwrap().good().unwrap()
}

/// What the channel was sent since the start, once the frame with this number is among it.
async fn frames(play: &Play, last: i64) -> Vec<Value> {
    let rig = play.rig_door().await;
    let sent = wait::until_async("frames of the second channel", PATIENCE, async || {
        let sent = rig.get("/frames").await.ok()?.good().ok()?;
        let sent = sent.as_array()?;
        sent.iter().any(|frame| frame["seq"] == last).then(|| sent.clone())
    });
    sent.await.unwrap()
}

fn names(frames: &[Value]) -> Vec<(String, i64, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let name =
        |frame: &Value| (text(&frame["type"]), frame["seq"].as_i64().unwrap(), text(&frame["id"]));
    frames.iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn channel_frames_that_nobody_took_go_out_after_a_kill() {
    let stage = Stage::new().await;
    stage.model.answer_with(|_| Reply::new().text("yes"));
    let mut play = up(&stage, "absent").await;
    let said = say(&play, &Value::Null, "hello").await;
    play.ended("main", said["item_id"].as_str().unwrap()).await;
    play.hive.kill().await.unwrap();

    let mut play = up(&stage, "take").await;
    let first = names(&frames(&play, 2).await);
    let order: Vec<_> = first.iter().map(|(kind, seq, _)| (kind.as_str(), *seq)).collect();
    assert_eq!(order, [("ack", 1), ("response", 2)]);
    // Killed before or after that is recorded: what comes again has the same ids.
    play.hive.kill().await.unwrap();
    let mut play = up(&stage, "take").await;
    say(&play, &said["channel"], "again").await;
    let (again, later): (Vec<_>, Vec<_>) =
        names(&frames(&play, 4).await).into_iter().partition(|(_, seq, _)| *seq <= 2);
    assert!(again.is_empty() || again == first, "{again:?}");
    let order: Vec<_> = later.iter().map(|(kind, seq, _)| (kind.as_str(), *seq)).collect();
    assert_eq!(order, [("ack", 3), ("response", 4)]);
    play.hive.terminate().unwrap();
    play.hive.wait(PATIENCE).await.unwrap();

    // Recorded by the stop in order: only what is new comes.
    let play = up(&stage, "take").await;
    say(&play, &said["channel"], "once more").await;
    let last = names(&frames(&play, 6).await);
    let order: Vec<_> = last.iter().map(|(kind, seq, _)| (kind.as_str(), *seq)).collect();
    assert_eq!(order, [("ack", 5), ("response", 6)]);
}

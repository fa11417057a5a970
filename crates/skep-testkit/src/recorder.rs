//! A client for crash tests: sends numbered messages, writes down what was promised for each,
//! comes back after every crash to the same channel, sends again what it does not know about, and
//! at the end checks that every promise was kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::time::Instant;

use crate::ws::{WsClient, WsTarget, durable_seq, is_answer, replies_to};

/// The outcome is unknown, not refused: the same id is sent again.
const UNSYNCED: &str = "store_unsynced";

/// unknown → acked → answered; unknown → refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Sent, nothing heard: it may have been taken or not.
    Unknown,
    /// The server said that it is durable.
    Acked,
    /// The server said no: it must never be answered.
    Refused(String),
}

#[derive(Clone, Debug)]
pub struct Sent {
    pub id: String,
    pub content: String,
    pub promise: Promise,
    /// The server itself did not know: sent again, it may come after later ones.
    pub unsynced: bool,
    /// To be sent again on the next connection.
    again: bool,
}

/// What is there at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub acked: usize,
    pub refused: usize,
    pub responses: usize,
    pub errors: BTreeMap<String, usize>,
}

pub struct Recorder {
    name: String,
    content: Box<dyn Fn(u64) -> String + Send + Sync>,
    /// Messages on their way at the same time.
    window: usize,
    channel: Option<String>,
    sent: Vec<Sent>,
    /// Every durable frame ever received, by seq.
    frames: BTreeMap<u64, Value>,
}

impl Recorder {
    /// `name` makes ids unique among clients; `content` makes the text of message n.
    pub fn new(name: &str, content: impl Fn(u64) -> String + Send + Sync + 'static) -> Self {
        Recorder {
            name: name.to_owned(),
            content: Box::new(content),
            window: 4,
            channel: None,
            sent: Vec::new(),
            frames: BTreeMap::new(),
        }
    }

    pub fn window(mut self, window: usize) -> Self {
        self.window = window.max(1);
        self
    }

    pub fn sent(&self) -> &[Sent] {
        &self.sent
    }

    pub fn frames(&self) -> &BTreeMap<u64, Value> {
        &self.frames
    }

    pub fn channel(&self) -> Option<&str> {
        self.channel.as_deref()
    }

    /// Sends `count` new messages and reads until all messages so far are settled, or until the
    /// connection ends, which is no error: the server may be killed at any moment. A server that
    /// stays silent for `PATIENCE` is one.
    pub async fn run(&mut self, target: &WsTarget, count: usize) -> Result<()> {
        let Some(mut client) = self.connect(target).await? else { return Ok(()) };
        let until = self.sent.len() + count;
        if !self.send_unknown(&mut client).await? {
            return Ok(());
        }
        loop {
            while self.sent.len() < until && self.on_their_way() < self.window {
                if !self.send_new(&mut client).await {
                    return Ok(());
                }
            }
            if self.sent.len() == until && self.on_their_way() == 0 {
                // What is left, if anything, waits for the next connection.
                return client.close().await.or(Ok(()));
            }
            match client.next().await? {
                Some(frame) => self.take(&frame)?,
                None => return Ok(()),
            }
        }
    }

    /// With a server that stays up: comes back, sends again what is unknown and reads until every
    /// message is answered or refused.
    pub async fn settle(&mut self, target: &WsTarget, patience: Duration) -> Result<()> {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left, self.run(target, 0)).await {
                Ok(done) => done?,
                Err(_) => break,
            }
            if self.sent.iter().all(|sent| self.is_settled(sent)) {
                return Ok(());
            }
            // The server said that it does not know: give it a moment before asking again.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let open: Vec<&Sent> = self.sent.iter().filter(|sent| !self.is_settled(sent)).collect();
        bail!("{}: not settled within {patience:?}: {open:?}", self.name)
    }

    /// Every promise kept? Call it after `settle`.
    pub fn verify(&self) -> Result<Tally> {
        self.check_seqs()?;
        let answers = self.answers()?;
        let mut tally = Tally::default();
        for sent in &self.sent {
            let answered = answers.contains_key(sent.id.as_str());
            match &sent.promise {
                Promise::Acked => {
                    ensure!(answered, "{}: acknowledged and never answered", sent.id);
                    tally.acked += 1;
                }
                Promise::Refused(code) => {
                    ensure!(!answered, "{}: refused ({code}) and answered all the same", sent.id);
                    tally.refused += 1;
                }
                Promise::Unknown => bail!("{}: still unknown; settle first", sent.id),
            }
        }
        self.check_order(&answers)?;
        for frame in self.frames.values().filter(|frame| is_answer(frame)) {
            if frame["type"] == "response" {
                tally.responses += 1;
            } else {
                let code = frame["code"].as_str().unwrap_or("without code").to_owned();
                *tally.errors.entry(code).or_insert(0) += 1;
            }
        }
        Ok(tally)
    }

    /// None when there is nobody to connect to.
    async fn connect(&mut self, target: &WsTarget) -> Result<Option<WsClient>> {
        let mut target = target.clone();
        if let Some(channel) = &self.channel {
            target = target.resume(channel, self.last_seq());
        }
        // An abrupt end during the handshake is the crash we came for.
        let Ok(opened) = WsClient::try_connect(&target).await else { return Ok(None) };
        match opened {
            Ok(client) => {
                let channel = client.channel().to_owned();
                let same = self.channel.as_ref().is_none_or(|known| *known == channel);
                ensure!(same, "{}: came back to {channel} instead", self.name);
                self.channel = Some(channel);
                Ok(Some(client))
            }
            Err(refused) if refused.status.is_none_or(|status| status == 503) => Ok(None),
            Err(refused) => bail!("{}: refused at the door: {refused:?}", self.name),
        }
    }

    /// In the order they were first sent, before anything new. False when the connection ended.
    async fn send_unknown(&mut self, client: &mut WsClient) -> Result<bool> {
        // What was taken before the crash is replayed first; sending again is harmless anyway.
        let unknown = self.sent.iter().filter(|sent| sent.promise == Promise::Unknown);
        for sent in unknown {
            if client.say(&sent.id, &sent.content).await.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn send_new(&mut self, client: &mut WsClient) -> bool {
        let number = self.sent.len() as u64;
        let (id, content) = (format!("{}-{number}", self.name), (self.content)(number));
        // Written down first: from here on it may have arrived.
        self.sent.push(Sent {
            id: id.clone(),
            content: content.clone(),
            promise: Promise::Unknown,
            unsynced: false,
            again: false,
        });
        client.say(&id, &content).await.is_ok()
    }

    fn take(&mut self, frame: &Value) -> Result<()> {
        if let Some(seq) = durable_seq(frame) {
            let before = self.frames.insert(seq, frame.clone());
            if let Some(before) = before {
                ensure!(before == *frame, "frame {seq} changed: {before} became {frame}");
            }
        }
        match frame["type"].as_str() {
            Some("ack") => self.acked(frame),
            Some("error") if durable_seq(frame).is_none() => self.refused(frame),
            _ => Ok(()),
        }
    }

    fn acked(&mut self, frame: &Value) -> Result<()> {
        let id = frame["message_id"].as_str().context("an ack without message_id")?;
        let sent = self.find(id).with_context(|| format!("an ack for {id}, never sent"))?;
        ensure!(
            matches!(sent.promise, Promise::Unknown | Promise::Acked),
            "{id}: acknowledged after {:?}",
            sent.promise
        );
        sent.promise = Promise::Acked;
        Ok(())
    }

    fn refused(&mut self, frame: &Value) -> Result<()> {
        let code = frame["code"].as_str().unwrap_or("without code").to_owned();
        let named = frame["message_id"].as_str().into_iter().chain(replies_to(frame));
        let ids: Vec<String> = named.map(str::to_owned).collect();
        ensure!(!ids.is_empty(), "an error that names no message: {frame}");
        for id in ids {
            let sent = self.find(&id).with_context(|| format!("a refusal of {id}, never sent"))?;
            if code == UNSYNCED {
                sent.unsynced = true;
                sent.again = sent.promise == Promise::Unknown;
                continue;
            }
            ensure!(sent.promise != Promise::Acked, "{id}: acknowledged, then refused ({code})");
            sent.promise = Promise::Refused(code.clone());
        }
        Ok(())
    }

    fn find(&mut self, id: &str) -> Option<&mut Sent> {
        self.sent.iter_mut().find(|sent| sent.id == id)
    }

    fn on_their_way(&self) -> usize {
        self.sent.iter().filter(|sent| !self.is_settled(sent)).count()
    }

    fn is_settled(&self, sent: &Sent) -> bool {
        match sent.promise {
            Promise::Refused(_) => true,
            Promise::Acked => self.is_answered(&sent.id),
            Promise::Unknown => false,
        }
    }

    fn is_answered(&self, id: &str) -> bool {
        let mut answers = self.frames.values().rev().filter(|frame| is_answer(frame));
        answers.any(|frame| replies_to(frame).any(|reply| reply == id))
    }

    /// The last frame before which none is missing.
    fn last_seq(&self) -> u64 {
        (1..).take_while(|seq| self.frames.contains_key(seq)).last().unwrap_or(0)
    }

    fn check_seqs(&self) -> Result<()> {
        let Some((last, _)) = self.frames.last_key_value() else { return Ok(()) };
        let missing: Vec<u64> = (1..=*last).filter(|seq| !self.frames.contains_key(seq)).collect();
        ensure!(missing.is_empty(), "{}: frames {missing:?} never came", self.name);
        let ids: BTreeSet<&str> = self.frames.values().filter_map(|f| f["id"].as_str()).collect();
        ensure!(ids.len() == self.frames.len(), "{}: two frames share an id", self.name);
        Ok(())
    }

    /// The frame that ends each message; more than one is a broken promise.
    fn answers(&self) -> Result<BTreeMap<&str, u64>> {
        let mut answers = BTreeMap::new();
        for (seq, frame) in self.frames.iter().filter(|(_, frame)| is_answer(frame)) {
            for id in replies_to(frame) {
                let known = self.sent.iter().any(|sent| sent.id == id);
                ensure!(known, "frame {seq} answers {id}, which was never sent");
                if let Some(before) = answers.insert(id, *seq) {
                    bail!("{id}: answered by frame {before} and again by frame {seq}");
                }
            }
        }
        Ok(answers)
    }

    /// Taken in the order sent, answered in the order taken.
    fn check_order(&self, answers: &BTreeMap<&str, u64>) -> Result<()> {
        let mut taken: Vec<&str> = Vec::new();
        for frame in self.frames.values().filter(|frame| frame["type"] == "ack") {
            let id = frame["message_id"].as_str().unwrap_or_default();
            if !taken.contains(&id) {
                taken.push(id);
            }
        }
        let sent = self.sent.iter().filter(|sent| !sent.unsynced).map(|sent| sent.id.as_str());
        let sent: Vec<&str> = sent.filter(|id| taken.contains(id)).collect();
        let kept: Vec<&str> = taken.iter().copied().filter(|id| sent.contains(id)).collect();
        ensure!(kept == sent, "{}: sent as {sent:?}, taken as {kept:?}", self.name);
        for pair in taken.windows(2) {
            let (first, second) = (answers.get(pair[0]), answers.get(pair[1]));
            ensure!(first <= second, "{} was answered after {}", pair[0], pair[1]);
        }
        Ok(())
    }
}

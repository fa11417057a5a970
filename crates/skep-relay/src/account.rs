//! What one request may use, and what it turns out to have used.

use std::sync::Arc;

use bytes::Bytes;
use skep_core::count;
use skep_core::engine::Hold;
use skep_core::message::Meta;
use skep_core::provider::{ModelRequest, RawEndpoint, SystemPrompt};
use skep_core::relay::{RelayUsage, RelayWire};
use skep_model::tally::AnswerTally;

use crate::check::JudgedRequest;
use crate::launch::RelayedTurn;
use crate::refusal::RelayRefusal;

/// Held for one request until its answer is over.
pub(crate) struct RequestAccount {
    turn: Arc<RelayedTurn>,
    /// What the budget counts by.
    request: Arc<ModelRequest>,
    hold: Option<Hold>,
    tally: AnswerTally,
}

impl RequestAccount {
    /// Asks whether the request may be made.
    pub async fn open(
        turn: &Arc<RelayedTurn>,
        wire: RelayWire,
        endpoint: RawEndpoint,
        judged: &JudgedRequest,
        body: &Bytes,
    ) -> Result<Self, RelayRefusal> {
        let profile = &turn.turn.profile;
        let request = match endpoint {
            // Nothing is used by counting; it is refused where nothing may be used any more.
            RawEndpoint::CountTokens => sized(judged, &[], 0),
            RawEndpoint::Messages | RawEndpoint::Responses => {
                let limit = judged.limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
                sized(judged, body, limit.unwrap_or(profile.max_output_tokens))
            }
        };
        let request = Arc::new(request);
        let hold = turn.turn.allowance.hold(profile, &request).await.map_err(RelayRefusal::over)?;
        let (turn, tally) = (Arc::clone(turn), AnswerTally::new(wire));
        Ok(Self { turn, request, hold: Some(hold), tally })
    }

    /// The vendor did not answer, or refused.
    pub fn refused(mut self) {
        if let Some(hold) = self.hold.take() {
            hold.failed();
        }
    }

    /// A piece of the answer, and with it perhaps what was used.
    pub async fn read(&mut self, piece: &[u8]) {
        self.tally.read(piece);
        let heard = self.tally.heard();
        if let Some(hold) = &mut self.hold {
            hold.hear(heard);
        }
        self.tell().await;
    }

    /// The answer came to its end.
    pub async fn finish(mut self) {
        self.tally.finish();
        self.tell().await;
        self.refused();
    }

    /// Once, and before the process hears the end of the answer.
    async fn tell(&mut self) {
        let Some((message, meta)) = self.told() else { return };
        let usage = RelayUsage { message, meta: meta.clone() };
        let counted = self.turn.turn.used.send(usage).await.is_ok();
        self.settle(meta, counted);
    }

    fn told(&self) -> Option<(Option<String>, Meta)> {
        self.hold.as_ref()?;
        let (message, meta) = self.tally.told()?;
        let profile = &self.turn.turn.profile;
        let usage = count::plausible(meta.usage, &self.request).priced(profile.price.as_ref());
        Some((message, Meta { profile: Some(profile.name.clone()), usage, ..meta }))
    }

    /// Where nobody makes a message of it, the hold keeps what was used.
    fn settle(&mut self, meta: Meta, counted: bool) {
        match self.hold.take() {
            Some(hold) if counted => hold.answered(meta.usage),
            Some(hold) => hold.unusable(meta),
            None => {}
        }
    }
}

/// The process went away, or the turn was closed: what is known by now counts.
impl Drop for RequestAccount {
    fn drop(&mut self) {
        self.tally.finish();
        if let Some((message, meta)) = self.told() {
            let usage = RelayUsage { message, meta: meta.clone() };
            let counted = self.turn.turn.used.try_send(usage).is_ok();
            self.settle(meta, counted);
        }
    }
}

/// The request as the budget sees it: its text counts as text, whatever it means.
fn sized(judged: &JudgedRequest, body: &[u8], max_output_tokens: u32) -> ModelRequest {
    let mut text = String::with_capacity(body.len());
    let mut from = 0;
    for picture in &judged.pictures {
        text.push_str(&String::from_utf8_lossy(body.get(from..picture.start).unwrap_or_default()));
        from = picture.end;
    }
    text.push_str(&String::from_utf8_lossy(body.get(from..).unwrap_or_default()));
    // Each of these is counted as a token.
    let pictures = usize::try_from(count::PICTURE).unwrap_or(0) * judged.pictures.len();
    ModelRequest {
        model: judged.model.clone(),
        system: SystemPrompt { shared: text.into(), agent: "!".repeat(pictures).into() },
        tools: Arc::default(),
        messages: Vec::new(),
        max_output_tokens,
        thinking: None,
        temperature: None,
        sees_images: true,
        cache_key: String::new(),
    }
}

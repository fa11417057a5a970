//! What became of the frames a pump sent, until their rows say it.

use std::collections::HashMap;

use skep_core::channel::Delivery;
use skep_core::frame::Frame;
use skep_core::ids::ChannelId;
use skep_store::outbox::{FrameRecord, RecordFrames};

type ByChannel = HashMap<ChannelId, Vec<FrameRecord>>;

/// By channel, in the order of sending; neighbours that were delivered are one record.
#[derive(Default)]
pub(crate) struct DeliveryRecords {
    unwritten: ByChannel,
    /// Those of the write under way.
    writing: ByChannel,
}

impl DeliveryRecords {
    pub fn add(&mut self, frame: &Frame, delivery: Delivery) {
        let records = match self.unwritten.get_mut(&frame.channel) {
            Some(records) => records,
            None => self.unwritten.entry(frame.channel.clone()).or_default(),
        };
        if let Some(last) = records.last_mut()
            && last.to + 1 == frame.seq
            && last.delivery == Delivery::Delivered
            && delivery == Delivery::Delivered
        {
            last.to = frame.seq;
            return;
        }
        let (channel, from, to) = (frame.channel.clone(), frame.seq, frame.seq);
        records.push(FrameRecord { channel, from, to, delivery });
    }

    /// Where this frame is over with: the last one of which the same is known.
    pub fn over_until(&self, channel: &ChannelId, seq: i64) -> Option<i64> {
        let known = [&self.unwritten, &self.writing].into_iter();
        let mut records = known.filter_map(|records| records.get(channel)).flatten();
        let covers = |record: &&FrameRecord| {
            let over = !matches!(record.delivery, Delivery::Retry { .. });
            over && (record.from..=record.to).contains(&seq)
        };
        records.find(covers).map(|record| record.to)
    }

    pub fn is_empty(&self) -> bool {
        self.unwritten.is_empty()
    }

    /// What is to be written. It is known here until [`Self::written`].
    pub fn take(&mut self) -> RecordFrames {
        self.writing = std::mem::take(&mut self.unwritten);
        RecordFrames { records: self.writing.values().flatten().cloned().collect() }
    }

    pub fn written(&mut self) {
        self.writing = HashMap::new();
    }
}

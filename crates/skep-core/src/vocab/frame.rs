//! Frames: what leaves through a channel. Durable frames are outbox rows with a `seq` of their
//! channel; `delta`, `progress` and protocol errors have none.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Millis;
use crate::vocab::ids::ChannelId;
use crate::vocab::words::words;

words! {
    FrameKind {
        Ack = "ack",
        Response = "response",
        Error = "error",
        /// Something a person is to know though they asked nothing.
        Notification = "notification",
        /// An agent asks a person.
        Question = "question",
        /// A call waits for a person's decision.
        Approval = "approval",
    }
}

words! {
    FrameState {
        Pending = "pending",
        Delivered = "delivered",
        Refused = "refused",
    }
}

/// One durable frame of one channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    pub channel: ChannelId,
    pub seq: i64,
    pub id: String,
    pub kind: FrameKind,
    pub at: Millis,
    /// The fields of this kind, as they go on the wire beside `type`, `id` and `seq`.
    pub payload: Value,
}

/// A frame that its channel refused, or put off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct UndeliveredFrame {
    pub kind: FrameKind,
    pub state: FrameState,
    /// How often it was sent.
    pub attempts: i64,
    /// It is sent again at this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Millis>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Frame {
    /// The JSON object a client receives.
    pub fn to_wire(&self) -> Value {
        let mut object = serde_json::Map::new();
        object.insert("type".to_owned(), self.kind.as_str().into());
        object.insert("id".to_owned(), self.id.clone().into());
        object.insert("seq".to_owned(), self.seq.into());
        if let Value::Object(fields) = &self.payload {
            object.extend(fields.clone());
        }
        Value::Object(object)
    }
}

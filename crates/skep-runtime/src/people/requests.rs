//! Writes that carry a key: the same one twice is carried out once.

use skep_core::ids::Principal;
use skep_guard::clock;
use skep_store::requests::{BeginRequest, Begun, CloseRequest, Request};

use crate::door::{DoorError, EarlierRequest};
use crate::hive::{Hive, door_error};

impl Hive {
    /// To be called before a write with a key. Where nothing came before, the caller writes and
    /// then calls [`end_request`](Self::end_request).
    pub async fn begin_request(
        &self,
        principal: &Principal,
        key: &str,
        body_hash: [u8; 32],
    ) -> Result<EarlierRequest, DoorError> {
        let request = Request { scope: scope(principal), id: key.to_owned(), body_hash };
        let command = BeginRequest { request, now: clock::now_ms() };
        match self.shared.store.write(command).await.map_err(door_error)? {
            Begun::First => Ok(EarlierRequest::None),
            Begun::Open => Ok(EarlierRequest::Open),
            Begun::Answered(answer) => Ok(EarlierRequest::Answered(answer)),
        }
    }

    /// Keeps the answer; without one the key may be used again.
    pub async fn end_request(
        &self,
        principal: &Principal,
        key: &str,
        answer: Option<String>,
    ) -> Result<(), DoorError> {
        let command = CloseRequest { scope: scope(principal), id: key.to_owned(), answer };
        self.shared.store.write(command).await.map_err(door_error)
    }
}

/// Apart from the keys of messages, which are per agent.
fn scope(principal: &Principal) -> String {
    format!("write/{principal}")
}

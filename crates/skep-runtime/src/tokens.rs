//! Credentials: made here, shown once, known afterwards by their hash alone.

use std::sync::{PoisonError, RwLock};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use skep_core::ids::Principal;
use skep_guard::{clock, random};
use skep_store::tokens::{self, NewToken, RevokeToken, TokenRow};
use skep_store::{Store, StoreError};

use crate::door::{DoorError, Identity, Role, TokenInfo};
use crate::hive::{Hive, door_error};

/// The valid hashes, because every request asks. Changed only by making and revoking.
pub(crate) struct TokenCache {
    valid: RwLock<Vec<(String, [u8; 32])>>,
}

impl TokenCache {
    pub async fn load(store: &Store) -> Result<Self, StoreError> {
        let rows = store.read(tokens::all).await?;
        let valid = rows.into_iter().filter(|row| row.revoked_at.is_none());
        let valid = valid.filter_map(|row| Some((row.id, row.hash.try_into().ok()?))).collect();
        Ok(Self { valid: RwLock::new(valid) })
    }
}

impl Hive {
    /// Who this token belongs to. Compared in constant time, and by hash besides.
    pub fn authenticate(&self, token: &str) -> Option<Identity> {
        let hash = hash(token);
        let valid = self.shared.tokens.valid.read().unwrap_or_else(PoisonError::into_inner);
        let found = valid.iter().find(|(_, known)| bool::from(known.ct_eq(&hash)));
        found.map(|(id, _)| Identity::operator(Principal(format!("token:{id}"))))
    }

    /// A new token; the text is given this once.
    pub async fn new_token(&self, name: &str) -> Result<(TokenInfo, String), DoorError> {
        let text = format!("skep_{}", random::token());
        let (id, now) = (random::uuid().simple().to_string(), clock::now_ms());
        let command = NewToken { id: id.clone(), name: name.to_owned(), hash: hash(&text), now };
        self.shared.store.write(command).await.map_err(door_error)?;
        let mut valid = self.shared.tokens.valid.write().unwrap_or_else(PoisonError::into_inner);
        valid.push((id.clone(), hash(&text)));
        let (name, role) = (name.to_owned(), Role::Operator);
        Ok((TokenInfo { id, name, role, created_at: now, revoked_at: None }, text))
    }

    pub async fn tokens(&self) -> Result<Vec<TokenInfo>, DoorError> {
        let rows = self.shared.store.read(tokens::all).await.map_err(door_error)?;
        let info = rows.into_iter().map(|TokenRow { id, name, created_at, revoked_at, .. }| {
            TokenInfo { id, name, role: Role::Operator, created_at, revoked_at }
        });
        Ok(info.collect())
    }

    /// From the moment this returns the token opens nothing.
    pub async fn revoke_token(&self, id: &str) -> Result<(), DoorError> {
        let command = RevokeToken { id: id.to_owned(), now: clock::now_ms() };
        self.shared.store.write(command).await.map_err(door_error)?;
        let mut valid = self.shared.tokens.valid.write().unwrap_or_else(PoisonError::into_inner);
        valid.retain(|(known, _)| known != id);
        Ok(())
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

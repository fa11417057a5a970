//! Credentials: made here, shown once, known afterwards by their hash alone.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use skep_core::ids::{AgentName, Principal};
use skep_guard::{clock, random};
use skep_scrub::{Owner, Secret};
use skep_store::tokens::{self, AddToken, RevokeToken, TokenRow};

use crate::door::{Credential, DoorError, ErrorKind, Grant, Identity, TokenInfo, check_no_secret};
use crate::hive::{Hive, ValidToken, door_error};

/// Tokens and keys that are searched for in texts; a hive with more of them hides those in use
/// first. More would make every search slower.
const HIDDEN: usize = 256;

/// A token that opens nothing before it is kept.
#[derive(Clone)]
pub struct FreshToken {
    id: String,
    name: String,
    grant: Grant,
    /// What its owner writes; shown once.
    pub text: String,
}

impl FreshToken {
    pub fn new(name: &str, grant: Grant) -> Self {
        let text = format!("skep_{}", random::token());
        let id = random::uuid().simple().to_string();
        Self { id, name: name.to_owned(), grant, text }
    }
}

impl Hive {
    /// Who this token belongs to. Compared in constant time, and by hash besides.
    pub fn authenticate(&self, token: &str) -> Option<Identity> {
        let hash = hash(token);
        self.shared.tokens.find(&hash).map(|(id, grant)| {
            hide(&id, token);
            let principal = Principal(format!("token:{id}"));
            let credential = Credential::Token { id: id.clone() };
            Identity { own: grant.own(&principal), role: grant.role, credential, principal }
        })
    }

    /// Whether this credential would be let in at this moment.
    pub fn is_good(&self, credential: &Credential) -> bool {
        match credential {
            Credential::Owner => true,
            Credential::Token { id } => self.shared.tokens.has(id),
            Credential::Browser { id, .. } => self.shared.browsers.knows(id),
        }
    }

    /// A new token; the text is given this once. With `request`, which is unique to whoever
    /// asks, asking again makes no second one.
    pub async fn new_token(
        &self,
        name: &str,
        grant: Grant<AgentName>,
        by: &Principal,
        request: Option<&str>,
    ) -> Result<(TokenInfo, String), DoorError> {
        check_no_secret("The name of the token", name)?;
        if let Some(prefix) = &grant.prefix {
            check_no_secret("The prefix of the token", prefix)?;
        }
        if let Some(mistake) = grant.mistake() {
            return Err(DoorError::new(ErrorKind::Invalid, "invalid_grant", mistake));
        }
        let grant = grant.resolve(|agent| self.shared.agent_id(&agent))?;
        let mut token = FreshToken::new(name, grant);
        if let Some(request) = request {
            token.id = hash(request).iter().take(16).map(|b| format!("{b:02x}")).collect();
        }
        let info = self.keep_token(&token, Some(by)).await?;
        Ok((info, token.text))
    }

    /// From the moment this returns the token opens the hive. `by` is nobody at a first start.
    pub async fn keep_token(
        &self,
        token: &FreshToken,
        by: Option<&Principal>,
    ) -> Result<TokenInfo, DoorError> {
        let (hash, now) = (hash(&token.text), clock::now_ms());
        let FreshToken { id, name, grant, text } = token.clone();
        let by = by.map(ToString::to_string);
        let command =
            AddToken { id: id.clone(), name: name.clone(), grant: grant.clone(), hash, by, now };
        let agent = self.shared.store.write(command).await.map_err(door_error)?;
        hide(&id, &text);
        let Grant { role, prefix, .. } = grant.clone();
        self.shared.tokens.add(ValidToken { id: id.clone(), name: name.clone(), hash, grant });
        Ok(TokenInfo { id, name, role, prefix, agent, created_at: now, revoked_at: None })
    }

    pub async fn tokens(&self) -> Result<Vec<TokenInfo>, DoorError> {
        let rows = self.shared.store.read(tokens::all).await.map_err(door_error)?;
        Ok(rows.into_iter().map(info).collect())
    }

    /// From the moment this returns the token opens nothing.
    pub async fn revoke_token(&self, id: &str, by: &Principal) -> Result<(), DoorError> {
        let by = by.to_string();
        let command = RevokeToken { id: id.to_owned(), by, now: clock::now_ms() };
        self.shared.store.write(command).await.map_err(door_error)?;
        self.shared.tokens.remove(id);
        Ok(())
    }
}

fn info(row: TokenRow) -> TokenInfo {
    let TokenRow { id, name, grant, agent_name: agent, created_at, revoked_at, .. } = row;
    let Grant { role, prefix, .. } = grant;
    TokenInfo { id, name, role, prefix, agent, created_at, revoked_at }
}

/// The token appears nowhere from now on but where its owner writes it.
fn hide(id: &str, token: &str) {
    let scrubber = skep_scrub::known();
    let is_known = matches!(scrubber.clean_file(token), Cow::Owned(_));
    if scrubber.count(Owner::People) < HIDDEN && !is_known {
        scrubber.add([Secret::new(format!("token.{id}"), token)]);
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

//! The credentials that open the hive now, in memory because every request asks.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use subtle::ConstantTimeEq;

use skep_core::Millis;
use skep_core::ids::Principal;
use skep_core::policy::rule::Who;
use skep_core::role::{Grant, Role};
use skep_store::browsers::{self, Browser};
use skep_store::tokens::{self, TokenRow};
use skep_store::{Store, StoreError};

/// Links that wait at once; one more lets go of the oldest.
const LINKS: usize = 64;

/// The valid tokens. Changed only by making and revoking.
pub(crate) struct TokenCache(RwLock<Vec<ValidToken>>);

pub(crate) struct ValidToken {
    pub id: String,
    pub name: String,
    pub hash: [u8; 32],
    pub grant: Grant,
}

impl TokenCache {
    pub async fn load(store: &Store) -> Result<Self, StoreError> {
        let rows = store.read(tokens::all).await?;
        let valid = rows.into_iter().filter(|row| row.revoked_at.is_none());
        let token = |row: TokenRow| {
            let TokenRow { id, name, grant, .. } = row;
            Some(ValidToken { id, name, hash: row.hash.try_into().ok()?, grant })
        };
        Ok(Self(RwLock::new(valid.filter_map(token).collect())))
    }

    pub fn role(&self, principal: &str) -> Option<Role> {
        if principal == "operator" {
            return Some(Role::Operator);
        }
        let id = principal.strip_prefix("token:")?;
        self.look(|valid| valid.iter().find(|token| token.id == id).map(|token| token.grant.role))
    }

    /// The role of a principal, and what its token was called.
    pub fn holder(&self, principal: &str) -> (Option<Role>, Option<String>) {
        if principal == "operator" {
            return (Some(Role::Operator), None);
        }
        // Of somebody at a browser only the name is known here.
        if let Some(name) = principal.strip_prefix("person:") {
            return (None, Some(name.to_owned()));
        }
        let Some(id) = principal.strip_prefix("token:") else { return (None, None) };
        self.look(|valid| {
            let found = valid.iter().find(|token| token.id == id);
            found.map_or((None, None), |token| (Some(token.grant.role), Some(token.name.clone())))
        })
    }

    /// The id and the grant of a token. Compared in constant time, and by hash besides.
    /// Everybody who has a token.
    pub fn holders(&self) -> Vec<Who> {
        let who = |token: &ValidToken| Who {
            principal: Principal(format!("token:{}", token.id)),
            role: Some(token.grant.role),
            name: Some(token.name.clone()),
        };
        self.look(|valid| valid.iter().map(who).collect())
    }

    pub fn find(&self, hash: &[u8; 32]) -> Option<(String, Grant)> {
        self.look(|valid| {
            let found = valid.iter().find(|token| bool::from(token.hash.ct_eq(hash)));
            found.map(|token| (token.id.clone(), token.grant.clone()))
        })
    }

    pub fn has(&self, id: &str) -> bool {
        self.look(|valid| valid.iter().any(|token| token.id == id))
    }

    pub fn add(&self, token: ValidToken) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(token);
    }

    pub fn remove(&self, id: &str) {
        let mut valid = self.0.write().unwrap_or_else(PoisonError::into_inner);
        valid.retain(|token| token.id != id);
    }

    fn look<T>(&self, look: impl FnOnce(&[ValidToken]) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Browsers that are signed in, and links that sign one in. Locks and not a task: every request
/// asks, an update is a few instructions and never waits.
pub(crate) struct Browsers {
    links: Mutex<Vec<SignInLink>>,
    valid: RwLock<Vec<Browser>>,
}

/// A link dies with the process: whoever starts the hive can print another.
pub(crate) struct SignInLink {
    pub hash: [u8; 32],
    pub expires_at: Millis,
    pub name: String,
    pub role: Role,
}

impl Browsers {
    pub async fn load(store: &Store, now: Millis) -> Result<Self, StoreError> {
        let valid = store.read(async |conn| browsers::signed_in(conn, now).await).await?;
        Ok(Self { links: Mutex::default(), valid: RwLock::new(valid) })
    }

    pub fn add_link(&self, link: SignInLink) {
        let mut links = self.links();
        if links.len() >= LINKS {
            links.remove(0);
        }
        links.push(link);
    }

    /// A link works once.
    pub fn take_link(&self, hash: &[u8; 32], now: Millis) -> Option<SignInLink> {
        let mut links = self.links();
        links.retain(|link| link.expires_at > now);
        let at = links.iter().position(|link| bool::from(link.hash.ct_eq(hash)))?;
        Some(links.remove(at))
    }

    pub fn knows(&self, id: &str) -> bool {
        let valid = self.valid.read().unwrap_or_else(PoisonError::into_inner);
        valid.iter().any(|browser| browser.id == id)
    }

    /// Everybody who is signed in.
    pub fn people(&self) -> Vec<Who> {
        let valid = self.valid.read().unwrap_or_else(PoisonError::into_inner);
        let who = |it: &Browser| Who {
            principal: it.principal(),
            role: Some(it.role),
            name: Some(it.name.clone()),
        };
        valid.iter().map(who).collect()
    }

    pub fn add(&self, browser: Browser, now: Millis) {
        let mut valid = self.valid.write().unwrap_or_else(PoisonError::into_inner);
        valid.retain(|browser| browser.expires_at > now);
        valid.push(browser);
    }

    /// The browser with this cookie and this key. Neither opens anything alone.
    pub fn find(&self, cookie: &[u8; 32], key: &[u8; 32], now: Millis) -> Option<Browser> {
        let valid = self.valid.read().unwrap_or_else(PoisonError::into_inner);
        let found = valid.iter().find(|browser| {
            let both = browser.cookie.ct_eq(cookie) & browser.key.ct_eq(key);
            bool::from(both) && browser.expires_at > now
        });
        found.cloned()
    }

    pub fn remove(&self, cookie: &[u8; 32]) -> Option<Browser> {
        let mut valid = self.valid.write().unwrap_or_else(PoisonError::into_inner);
        let at = valid.iter().position(|browser| bool::from(browser.cookie.ct_eq(cookie)))?;
        Some(valid.remove(at))
    }

    fn links(&self) -> MutexGuard<'_, Vec<SignInLink>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

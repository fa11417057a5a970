//! Signing a browser in: a link that works once becomes a cookie and a key, and both are needed
//! on every request, because a cookie alone goes to every port of the host.

use std::sync::{Mutex, PoisonError, RwLock};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use skep_core::Millis;
use skep_guard::{clock, random};
use skep_store::browsers::{self, Browser, SignIn, SignOut};
use skep_store::{Store, StoreError};

use crate::door::{Credential, DoorError, ErrorKind, Identity, Role, Sight};
use crate::hive::{Hive, door_error};

/// How long a link waits to be opened.
const LINK_TIME: Millis = 10 * 60 * 1000;
/// How long a browser stays signed in.
const BROWSER_TIME: Millis = 30 * 24 * 3600 * 1000;
/// Links that wait at once; one more lets go of the oldest.
const LINKS: usize = 64;

pub(crate) struct Browsers {
    // Locks and not a task: every request asks, an update is a few instructions and never waits.
    links: Mutex<Vec<Link>>,
    valid: RwLock<Vec<Browser>>,
}

/// A link dies with the process: whoever starts the hive can print another.
struct Link {
    hash: [u8; 32],
    expires_at: Millis,
    name: String,
    role: Role,
}

/// What a browser gets for its link, this once.
pub struct SignedIn {
    pub cookie: String,
    pub key: String,
    pub name: String,
    pub role: Role,
    pub seconds: i64,
}

impl Browsers {
    pub async fn load(store: &Store, now: Millis) -> Result<Self, StoreError> {
        let valid = store.read(async |conn| browsers::signed_in(conn, now).await).await?;
        Ok(Self { links: Mutex::default(), valid: RwLock::new(valid) })
    }

    fn take(&self, once: &str, now: Millis) -> Option<Link> {
        let hash = hash(once);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.expires_at > now);
        let at = links.iter().position(|link| bool::from(link.hash.ct_eq(&hash)))?;
        Some(links.remove(at))
    }

    pub fn knows(&self, id: &str) -> bool {
        let valid = self.valid.read().unwrap_or_else(PoisonError::into_inner);
        valid.iter().any(|known| known.id == id)
    }
}

impl Hive {
    /// A word that signs one browser in, once, within ten minutes.
    pub fn new_link(&self, name: &str, role: Role) -> String {
        let once = random::token();
        let expires_at = clock::now_ms() + LINK_TIME;
        let link = Link { hash: hash(&once), expires_at, name: name.to_owned(), role };
        let browsers = &self.shared.browsers;
        let mut links = browsers.links.lock().unwrap_or_else(PoisonError::into_inner);
        if links.len() >= LINKS {
            links.remove(0);
        }
        links.push(link);
        once
    }

    pub async fn sign_in(&self, once: &str) -> Result<SignedIn, DoorError> {
        let now = clock::now_ms();
        let Some(link) = self.shared.browsers.take(once, now) else {
            let text = "This link was used already, is older than ten minutes, or the hive was \
                        started anew since. Make another with `skep link`.";
            return Err(DoorError::new(ErrorKind::Forbidden, "link_over", text));
        };
        let (cookie, key) = (random::token(), random::token());
        let browser = Browser {
            id: random::uuid().simple().to_string(),
            name: link.name.clone(),
            role: link.role,
            cookie: hash(&cookie),
            key: hash(&key),
            created_at: now,
            expires_at: now + BROWSER_TIME,
        };
        let command = SignIn { browser: browser.clone() };
        self.shared.store.write(command).await.map_err(door_error)?;
        let browsers = &self.shared.browsers;
        let mut valid = browsers.valid.write().unwrap_or_else(PoisonError::into_inner);
        valid.retain(|known| known.expires_at > now);
        valid.push(browser);
        let Link { name, role, .. } = link;
        Ok(SignedIn { cookie, key, name, role, seconds: BROWSER_TIME / 1000 })
    }

    /// Who this browser is. Neither part opens anything alone.
    pub fn authenticate_browser(&self, cookie: &str, key: &str) -> Option<Identity> {
        let (cookie, key) = (hash(cookie), hash(key));
        let now = clock::now_ms();
        let browsers = &self.shared.browsers;
        let valid = browsers.valid.read().unwrap_or_else(PoisonError::into_inner);
        let found = valid.iter().find(|known| {
            let both = known.cookie.ct_eq(&cookie) & known.key.ct_eq(&key);
            bool::from(both) && known.expires_at > now
        })?;
        Some(identity(found))
    }

    /// From here on this cookie opens nothing, whatever becomes of writing it down. What it was.
    pub fn forget_browser(&self, cookie: &str) -> Option<Credential> {
        let hash = hash(cookie);
        let browsers = &self.shared.browsers;
        let mut valid = browsers.valid.write().unwrap_or_else(PoisonError::into_inner);
        let at = valid.iter().position(|known| bool::from(known.cookie.ct_eq(&hash)))?;
        Some(credential(&valid.remove(at)))
    }

    /// Makes it last beyond this process.
    pub async fn sign_out(&self, browser: &Credential) -> Result<(), DoorError> {
        let Credential::Browser { id, .. } = browser else { return Ok(()) };
        let command = SignOut { id: id.clone(), now: clock::now_ms() };
        self.shared.store.write(command).await.map_err(door_error)
    }
}

fn identity(browser: &Browser) -> Identity {
    let (credential, principal) = (credential(browser), browser.principal());
    if browser.role == Role::Operator {
        return Identity::operator(principal, credential);
    }
    let own = Sight::of_user(&principal);
    Identity { principal, role: browser.role, credential, own }
}

fn credential(browser: &Browser) -> Credential {
    Credential::Browser { id: browser.id.clone(), expires_at: browser.expires_at }
}

fn hash(word: &str) -> [u8; 32] {
    Sha256::digest(word.as_bytes()).into()
}

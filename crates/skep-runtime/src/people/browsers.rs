//! Signing a browser in: a link that works once becomes a cookie and a key, and both are needed
//! on every request, because a cookie alone goes to every port of the host.

use sha2::{Digest, Sha256};

use skep_core::Millis;
use skep_guard::{clock, random};
use skep_store::browsers::{Browser, SignIn, SignOut};

use crate::door::{Credential, DoorError, ErrorKind, Identity, Role, Sight};
use crate::hive::{Hive, SignInLink, door_error};

/// How long a link waits to be opened.
const LINK_TIME: Millis = 10 * 60 * 1000;
/// How long a browser stays signed in.
const BROWSER_TIME: Millis = 30 * 24 * 3600 * 1000;
/// What a browser gets for its link, this once.
pub struct SignedIn {
    pub cookie: String,
    pub key: String,
    pub name: String,
    pub role: Role,
    pub seconds: i64,
}

impl Hive {
    /// A word that signs one browser in, once, within ten minutes.
    pub fn new_link(&self, name: &str, role: Role) -> String {
        let once = random::token();
        let expires_at = clock::now_ms() + LINK_TIME;
        let link = SignInLink { hash: hash(&once), expires_at, name: name.to_owned(), role };
        self.shared.browsers.add_link(link);
        once
    }

    pub async fn sign_in(&self, once: &str) -> Result<SignedIn, DoorError> {
        let now = clock::now_ms();
        let Some(link) = self.shared.browsers.take_link(&hash(once), now) else {
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
        self.shared.browsers.add(browser, now);
        let SignInLink { name, role, .. } = link;
        Ok(SignedIn { cookie, key, name, role, seconds: BROWSER_TIME / 1000 })
    }

    /// Who this browser is. Neither part opens anything alone.
    pub fn authenticate_browser(&self, cookie: &str, key: &str) -> Option<Identity> {
        let found = self.shared.browsers.find(&hash(cookie), &hash(key), clock::now_ms());
        found.as_ref().map(identity)
    }

    /// From here on this cookie opens nothing, whatever becomes of writing it down. What it was.
    pub fn forget_browser(&self, cookie: &str) -> Option<Credential> {
        self.shared.browsers.remove(&hash(cookie)).as_ref().map(credential)
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

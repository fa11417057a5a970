//! What became of each host that a confined program asked for.

use std::sync::{Arc, Mutex, PoisonError};

use super::ProgramNetwork;
use crate::egress::EgressError;

/// A program that tries thousands of names is told of the first ones.
const MOST_CONTACTS: usize = 64;

/// One host and one verdict, however often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// A name, or an address with its port.
    pub host: String,
    /// Nothing where it was reached, else why not.
    pub refusal: Option<NetworkRefusal>,
}

impl Contact {
    /// A word for rows.
    pub fn verdict(&self) -> &'static str {
        self.refusal.as_ref().map_or("reached", |refusal| refusal.code)
    }
}

/// Why a program does not get through: a word for rules and rows, a sentence for whoever reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRefusal {
    pub code: &'static str,
    pub why: String,
}

impl NetworkRefusal {
    pub(super) fn new(code: &'static str, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }

    /// Nobody forbade it: the host did not answer, or the connection was not used.
    pub fn is_failure(&self) -> bool {
        const FAILURES: [&str; 4] = ["unreachable", "name_unknown", "connect_timeout", "idle"];
        FAILURES.contains(&self.code)
    }
}

impl From<EgressError> for NetworkRefusal {
    fn from(error: EgressError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

pub(super) struct ContactLog {
    network: Arc<dyn ProgramNetwork>,
    /// Locked for the time of an entry.
    contacts: Mutex<Vec<Contact>>,
}

impl ContactLog {
    pub fn new(network: Arc<dyn ProgramNetwork>) -> Self {
        Self { network, contacts: Mutex::default() }
    }

    pub fn reached(&self, host: String) {
        self.add(Contact { host, refusal: None });
    }

    pub fn refused(&self, host: String, refusal: NetworkRefusal) {
        tracing::debug!(%host, code = refusal.code, "a confined program was refused a host");
        self.add(Contact { host, refusal: Some(refusal) });
    }

    pub fn all(&self) -> Vec<Contact> {
        self.contacts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, contact: Contact) {
        let mut contacts = self.contacts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known =
            |known: &Contact| known.host == contact.host && known.verdict() == contact.verdict();
        if contacts.len() < MOST_CONTACTS && !contacts.iter().any(is_known) {
            self.network.contact(&contact);
            contacts.push(contact);
        }
    }
}

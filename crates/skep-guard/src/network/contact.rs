//! What became of each host that a confined program asked for.

use std::sync::{Mutex, PoisonError};

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
}

impl From<EgressError> for NetworkRefusal {
    fn from(error: EgressError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// Locked for the time of an entry.
#[derive(Debug, Default)]
pub(super) struct ContactLog(Mutex<Vec<Contact>>);

impl ContactLog {
    pub fn reached(&self, host: String) {
        self.add(Contact { host, refusal: None });
    }

    pub fn refused(&self, host: String, refusal: NetworkRefusal) {
        tracing::debug!(%host, code = refusal.code, "a confined program was refused a host");
        self.add(Contact { host, refusal: Some(refusal) });
    }

    pub fn all(&self) -> Vec<Contact> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, contact: Contact) {
        let mut contacts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let code = |contact: &Contact| contact.refusal.as_ref().map(|refusal| refusal.code);
        let is_known =
            |known: &Contact| known.host == contact.host && code(known) == code(&contact);
        if contacts.len() < MOST_CONTACTS && !contacts.iter().any(is_known) {
            contacts.push(contact);
        }
    }
}

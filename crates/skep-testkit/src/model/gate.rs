//! Named places where an answer stops until the test lets it go on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::sync::{Semaphore, watch};

use crate::wait::PATIENCE;

/// A released gate lets through one answer for each release, also one that comes later.
#[derive(Clone)]
pub struct Gate {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    passes: Semaphore,
    /// Answers that have come to the gate so far.
    arrived: watch::Sender<usize>,
}

#[derive(Default)]
pub(crate) struct Gates {
    by_name: Mutex<HashMap<String, Gate>>,
}

impl Gates {
    pub(crate) fn get(&self, name: &str) -> Gate {
        let mut gates = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        gates.entry(name.to_owned()).or_insert_with(|| Gate::new(name)).clone()
    }
}

impl Gate {
    fn new(name: &str) -> Self {
        let passes = Semaphore::new(0);
        let inner = Inner { name: name.to_owned(), passes, arrived: watch::Sender::new(0) };
        Gate { inner: Arc::new(inner) }
    }

    /// Lets one answer pass.
    pub fn release(&self) {
        self.inner.passes.add_permits(1);
    }

    /// Lets every answer pass from now on.
    pub fn open(&self) {
        self.inner.passes.close();
    }

    /// Answers that have come here so far, whether or not they passed.
    pub fn arrived(&self) -> usize {
        *self.inner.arrived.borrow()
    }

    /// Waits until `count` answers have come here.
    pub async fn wait_arrived(&self, count: usize) -> Result<()> {
        let mut arrived = self.inner.arrived.subscribe();
        let search = arrived.wait_for(|arrived| *arrived >= count);
        tokio::time::timeout(PATIENCE, search)
            .await
            .with_context(|| format!("nobody came to gate {} in {PATIENCE:?}", self.inner.name))?
            .context("the gate is gone")?;
        Ok(())
    }

    pub(crate) async fn pass(&self) {
        self.inner.arrived.send_modify(|arrived| *arrived += 1);
        // An error means that the gate stands open.
        if let Ok(pass) = self.inner.passes.acquire().await {
            pass.forget();
        }
    }
}

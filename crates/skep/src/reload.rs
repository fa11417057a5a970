//! Watches the files of a running hive and puts changed ones in force, for the turns that start
//! later.

use std::sync::Arc;
use std::time::Duration;

use skep_cli::hive::Home;
use skep_core::settings::ConfigStanding;
use skep_runtime::Hive;
use tokio::task::JoinHandle;

use crate::apply::{Applier, Reading};
use crate::home::watch::{HomeWatcher, ReadScope};

/// The most attempts to read files that keep changing.
const TRIES: u32 = 10;
/// The reading is valid if no change arrives within this time.
const SETTLED: Duration = Duration::from_millis(50);
/// After a store that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// The task that watches the files of a running hive.
struct ReloadTask {
    hive: Hive,
    applier: Arc<Applier>,
    watch: HomeWatcher,
}

/// Starts watching. If that fails, the hive reports it and continues.
pub fn start(home: &Home, hive: &Hive, applier: Arc<Applier>) -> Option<JoinHandle<()>> {
    let watch = match HomeWatcher::new(home) {
        Ok(watch) => watch,
        Err(error) => {
            let text = format!(
                "changes of the files are used after the next start, because they cannot be \
                 watched ({error})"
            );
            tracing::warn!("{text}");
            hive.note_config(ConfigStanding { unwatched: Some(text), ..ConfigStanding::default() });
            return None;
        }
    };
    // Another reading finds changes between the first reading and the watch.
    watch.again(ReadScope::Home);
    Some(tokio::spawn(ReloadTask { hive: hive.clone(), applier, watch }.run()))
}

impl ReloadTask {
    async fn run(mut self) {
        loop {
            let mut scope = self.watch.changed().await;
            let (reading, unwatched) = self.read(&mut scope).await;
            match self.applier.install(reading, unwatched).await {
                Ok(true) => {}
                Ok(false) => self.watch.again(scope),
                Err(error) => {
                    tracing::warn!(%error, "changed files cannot be used yet; again in a second");
                    tokio::time::sleep(PAUSE).await;
                    self.watch.again(scope);
                }
            }
        }
    }

    /// Reads a consistent state: nothing changed during the reading.
    async fn read(&mut self, scope: &mut ReadScope) -> (Reading, Option<String>) {
        let mut tries = 1;
        loop {
            let followed = tokio::task::block_in_place(|| self.watch.follow(scope));
            let reading = self.applier.read(scope).await;
            tokio::time::sleep(SETTLED).await;
            // If the changes never stop, valid settings are used; a problem may be an unfinished
            // change.
            if !self.watch.is_marked() || (tries >= TRIES && reading.is_valid()) {
                let unwatched = match (followed, &*scope) {
                    (Err(why), _) => Some(why),
                    (Ok(()), ReadScope::Agents(_)) => self.hive.config().unwatched.clone(),
                    (Ok(()), ReadScope::Home) => None,
                };
                return (reading, unwatched);
            }
            tries += 1;
            scope.merge(self.watch.changed().await);
        }
    }
}

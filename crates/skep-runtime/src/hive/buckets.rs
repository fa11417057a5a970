//! Keeps how often agents may still ask hosts over a restart: written behind, a batch a commit.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use skep_core::Millis;
use skep_core::ids::AgentId;
use skep_guard::clock;
use skep_guard::egress::{HostBucket, HostBuckets};
use skep_store::agents::{self, EgressBucket, KeepBuckets};
use skep_store::{Store, StoreError};

/// What was left at the last end.
pub(crate) async fn restore(
    buckets: &HostBuckets,
    store: &Store,
    now: Millis,
) -> Result<(), StoreError> {
    let rows = store.read(async |conn| agents::buckets(conn, now).await).await?;
    buckets.restore(rows.into_iter().map(|row| HostBucket {
        owner: row.agent.0,
        host: row.host,
        bucket: row.bucket,
    }));
    Ok(())
}

/// Writes what changed until `end`, and once more then.
pub(crate) async fn keep(buckets: Arc<HostBuckets>, store: Store, end: CancellationToken) {
    while !end.is_cancelled() {
        tokio::select! {
            () = end.cancelled() => {}
            // What comes during a commit is the next one; a crash forgets no more than that.
            () = buckets.changed() => {}
        }
        let now = clock::now_ms();
        let fresh = buckets.unwritten(now).into_iter();
        let rows = fresh.map(|row| EgressBucket {
            agent: AgentId(row.owner),
            host: row.host,
            bucket: row.bucket,
        });
        let command = KeepBuckets { buckets: rows.collect(), now };
        if command.buckets.is_empty() {
            continue;
        }
        if let Err(error) = store.write(command).await {
            tracing::warn!(%error, "counts of requests to hosts are not kept over a restart");
        }
    }
}

//! Types of `skep-core` that are read from several columns: whoever selects them keeps this order.

use skep_core::frame::{Frame, UndeliveredFrame};
use skep_core::policy::network::HostEntry;
use skep_core::policy::vault::VaultRow;
use skep_core::role::Grant;
use skep_core::spend::Spend;
use skep_core::tool::ChainOrigin;

use crate::engine::error::SqlError;
use crate::engine::record::{Columns, Record, record};

record!(ChainOrigin { channel, topic, principal });
record!(Frame { channel, seq, id, kind, at, payload });
record!(Grant { role, prefix, agent });
record!(Spend { calls, tokens, cost, unpriced_calls, unpriced_tokens });
record!(UndeliveredFrame { kind, state, attempts, next_at, reason });

impl Record for VaultRow {
    fn read(row: &mut Columns) -> Result<Self, SqlError> {
        let (owner, name, key_id, sealed, secret) = row.take()?;
        let hosts: Vec<String> = row.take()?;
        // One that cannot be read is a host less, never a host more.
        let hosts = hosts.iter().filter_map(|host| HostEntry::parse(host).ok()).collect();
        let (set_at, used_at) = row.take()?;
        Ok(Self { owner, name, key_id, sealed, secret, hosts, set_at, used_at })
    }
}

//! JSON Schemas of the files, for editors: made from the raw types, kept in `run/schema/`.

use serde_json::Value;

use super::agent::RawAgent;
use super::channels::RawChannels;
use super::expect::schema_of;
use super::hive::RawHive;
use super::providers::RawProviders;

/// Every published schema with its file name.
pub fn all() -> [(&'static str, Value); 4] {
    [
        ("skep.json", schema_of::<RawHive>()),
        ("providers.json", schema_of::<RawProviders>()),
        ("channels.json", schema_of::<RawChannels>()),
        ("agent.json", schema_of::<RawAgent>()),
    ]
}

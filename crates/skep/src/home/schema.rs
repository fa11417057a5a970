//! JSON Schemas of the files, for editors: made from the raw types, kept in `run/schema/`.

use std::io;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use skep_cli::hive::Home;

use super::agent::RawAgent;
use super::channels::RawChannels;
use super::create::write_file;
use super::hive::RawHive;
use super::providers::RawProviders;

/// Subschemas stand where they are used, so that a path of keys is a path in the schema.
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Every published schema with its file name.
pub fn all() -> [(&'static str, Value); 4] {
    [
        ("skep.json", of::<RawHive>()),
        ("providers.json", of::<RawProviders>()),
        ("channels.json", of::<RawChannels>()),
        ("agent.json", of::<RawAgent>()),
    ]
}

/// Writes the schemas that are missing or belong to another version.
pub fn publish(home: &Home) -> io::Result<()> {
    for (name, schema) in all() {
        let mut text = serde_json::to_string_pretty(&schema).map_err(io::Error::other)?;
        text.push('\n');
        let path = home.schema().join(name);
        let same = std::fs::read(&path).is_ok_and(|found| found == text.as_bytes());
        if !same {
            write_file(&path, &text)?;
        }
    }
    Ok(())
}

//! Reads printable parts of a hive's answer.

use serde_json::Value;
use skep_core::money::Money;

use crate::print::output::foreign;
use crate::print::time;

/// The entries of a list; empty if it is not a list.
pub fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A cleaned text; `?` if there is none.
pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| "?".to_owned(), foreign)
}

/// A cleaned text; empty if there is none.
pub fn text_or_empty(value: &Value) -> String {
    value.as_str().map(foreign).unwrap_or_default()
}

/// `1 call`, `2 calls`.
pub fn counted(count: impl Into<i128>, one: &str, more: &str) -> String {
    let count = count.into();
    format!("{count} {}", if count == 1 { one } else { more })
}

/// A time; empty if there is none.
pub fn stamp(value: &Value) -> String {
    value.as_i64().map(time::stamp).unwrap_or_default()
}

/// An amount of money, if it is one.
pub fn money(value: &Value) -> Option<String> {
    value.as_f64().and_then(Money::from_dollars).map(|money| money.to_string())
}

//! Events that do not have their wire's shape, put into it where they have one meaning. Only what
//! the strict types refused comes here: a server that keeps to its wire pays nothing for it.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use skep_core::provider::ModelError;

use crate::answer::garbage;

/// What a model wrote or asks for: a null in there means something.
const FOREIGN: &[&str] = &["arguments", "input"];

/// Reads an event, and as `fix` leaves it where the wire's types refuse it as it came.
pub(crate) fn read<T: DeserializeOwned>(
    data: &str,
    what: &str,
    fix: impl FnOnce(&mut Map<String, Value>),
) -> Result<T, ModelError> {
    let strict = serde_json::from_str(data).ok();
    let mend = || serde_json::from_str(&mended(data, fix)?).ok();
    strict.or_else(mend).ok_or_else(|| garbage(what))
}

/// The event as `fix` leaves it, without the fields that are null; nothing if it is no object.
pub(crate) fn mended(data: &str, fix: impl FnOnce(&mut Map<String, Value>)) -> Option<String> {
    let mut event: Map<String, Value> = serde_json::from_str(data).ok()?;
    drop_nulls(&mut event);
    fix(&mut event);
    serde_json::to_string(&event).ok()
}

/// A field that is absent has a default; one that is null has not.
fn drop_nulls(object: &mut Map<String, Value>) {
    object.retain(|_, value| !value.is_null());
    for (_, value) in object.iter_mut().filter(|(name, _)| !FOREIGN.contains(&name.as_str())) {
        match value {
            Value::Object(inner) => drop_nulls(inner),
            Value::Array(items) => {
                items.retain(|item| !item.is_null());
                items.iter_mut().filter_map(Value::as_object_mut).for_each(drop_nulls);
            }
            _ => {}
        }
    }
}

/// Leaves a text in each field: numbers are written out, what else is no text goes.
pub(crate) fn texts(object: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        match object.get(*name) {
            None | Some(Value::String(_)) => {}
            Some(Value::Number(number)) => {
                let text = number.to_string();
                object.insert((*name).to_owned(), Value::String(text));
            }
            Some(_) => drop(object.remove(*name)),
        }
    }
}

/// Leaves a whole number in the field, or nothing.
pub(crate) fn number(object: &mut Map<String, Value>, name: &str) {
    let told = match object.get(name) {
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_i64(),
        None => return,
    };
    match told {
        Some(number) => drop(object.insert(name.to_owned(), Value::from(number))),
        None => drop(object.remove(name)),
    }
}

/// Leaves an object in the field, or nothing.
pub(crate) fn object<'a>(
    event: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    if event.get(name).is_some_and(|value| !value.is_object()) {
        event.remove(name);
    }
    event.get_mut(name)?.as_object_mut()
}

/// Leaves a list of objects in the field, also where one stands alone.
pub(crate) fn list<'a>(
    event: &'a mut Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let items = match event.remove(name) {
        Some(Value::Array(mut items)) => {
            items.retain(Value::is_object);
            items
        }
        Some(one @ Value::Object(_)) => vec![one],
        _ => Vec::new(),
    };
    let items = event.entry(name).or_insert(Value::Array(items));
    items.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Leaves the text of arguments in the field: some servers send the object itself.
pub(crate) fn arguments(object: &mut Map<String, Value>, name: &str) {
    match object.get(name) {
        None | Some(Value::String(_)) => {}
        Some(Value::Null) => drop(object.remove(name)),
        Some(value) => {
            let text = value.to_string();
            object.insert(name.to_owned(), Value::String(text));
        }
    }
}

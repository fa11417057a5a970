//! Entries of the vault: how they are named, meant in a text and kept.

use crate::Millis;
use crate::policy::network::HostEntry;

/// The owner of entries that every agent and profile of the hive may use.
pub const HIVE: i64 = 0;
/// The longest name of an entry.
pub const NAME_BYTES: usize = 64;
/// The longest value.
pub const VALUE_BYTES: usize = 16 << 10;

const OPEN: &str = "{{vault:";
const CLOSE: &str = "}}";
/// A whole value of a profile that means an entry.
const WHOLE: &str = "vault:";

/// An entry as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultRow {
    /// The id of an agent, or [`HIVE`].
    pub owner: i64,
    pub name: String,
    /// The key that it is sealed with.
    pub key_id: String,
    pub sealed: Vec<u8>,
    /// Set by a person: an agent uses it and never sees it.
    pub secret: bool,
    /// Where `web_fetch` may send it; nowhere when empty.
    pub hosts: Vec<HostEntry>,
    pub set_at: Millis,
    pub used_at: Option<Millis>,
}

/// A change of the vault that is to be kept.
#[derive(Clone, Debug, PartialEq)]
pub enum VaultWrite {
    /// In the place of the entry of that name.
    Put(VaultRow),
    Remove {
        owner: i64,
        name: String,
    },
    /// Its agent is gone.
    RemoveOwner(i64),
    /// The same values, sealed with another key.
    Reseal(Vec<VaultRow>),
    /// When it was used last.
    Used {
        owner: i64,
        name: String,
        at: Millis,
    },
}

/// Letters, digits, `_`, `-` and dots; the first is a letter.
pub fn is_name(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    name.len() <= NAME_BYTES
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
        && name.bytes().all(inside)
}

/// How an entry is meant in a text: `{{vault:NAME}}`.
pub fn reference(name: &str) -> String {
    format!("{OPEN}{name}{CLOSE}")
}

/// A value of a file: `vault:NAME` is short for `{{vault:NAME}}`.
pub fn long_form(value: &str) -> Option<String> {
    value.strip_prefix(WHOLE).filter(|name| is_name(name)).map(reference)
}

/// Whether the text means an entry, or tries to.
pub fn is_meant(text: &str) -> bool {
    text.contains(OPEN)
}

/// The names in a text, in order; `Err`: what is no name.
pub fn names(text: &str) -> Result<Vec<&str>, String> {
    let mut found = Vec::new();
    fill(text, |name| {
        found.push(name);
        Ok::<_, String>(String::new())
    })?;
    Ok(found)
}

/// The text with every `{{vault:NAME}}` replaced. What is filled in is not read again.
pub fn fill<'t, E: From<String>>(
    text: &'t str,
    mut value: impl FnMut(&'t str) -> Result<String, E>,
) -> Result<String, E> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(OPEN) {
        let after = &rest[start + OPEN.len()..];
        let name = after.find(CLOSE).map(|end| &after[..end]).filter(|name| is_name(name));
        let Some(name) = name else {
            return Err("`{{vault:` is not followed by a name and `}}`".to_owned().into());
        };
        filled.push_str(&rest[..start]);
        filled.push_str(&value(name)?);
        rest = &after[name.len() + CLOSE.len()..];
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vault_references_in_a_text() {
        let say = |text: &str| fill(text, |name| Ok::<_, String>(format!("<{name}>")));
        let unclear = "`{{vault:` is not followed by a name and `}}`";
        let cases = [
            ("", Ok("")),
            ("plain {{x}} vault:A", Ok("plain {{x}} vault:A")),
            ("Bearer {{vault:A.b-1}}", Ok("Bearer <A.b-1>")),
            ("{{vault:A}}{{vault:B}}!", Ok("<A><B>!")),
            ("{{vault:}}", Err(unclear)),
            ("{{vault:A", Err(unclear)),
            ("{{vault:A b}}", Err(unclear)),
            ("{{vault:{{vault:A}}}}", Err(unclear)),
        ];
        for (text, expected) in cases {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(say(text), expected, "{text}");
        }
        // A value that looks like a reference stays a value.
        let twice = fill("{{vault:A}}", |_| Ok::<_, String>("{{vault:B}}".to_owned()));
        assert_eq!(twice.as_deref(), Ok("{{vault:B}}"));
        assert_eq!(names("{{vault:A}} {{vault:B}}"), Ok(vec!["A", "B"]));
        assert_eq!(long_form("vault:A"), Some("{{vault:A}}".to_owned()));
        assert_eq!((long_form("vault:"), long_form("Bearer vault:A")), (None, None));
    }
}

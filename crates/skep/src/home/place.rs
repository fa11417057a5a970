//! Maps a position in a YAML text to its key path, and back. The YAML reader reports the position
//! of an error, not its key; this walks the parser's events again, and only after an error.

use serde_saphyr::granit_parser::{Event, Parser, Span};

#[derive(Clone, Copy, PartialEq)]
pub enum NodeRole {
    Key,
    Value,
}

/// The path of the node at a position. A block mapping starts where its first key starts: `role`
/// selects one of the two.
pub fn path_at(text: &str, at: (u32, u32), role: NodeRole) -> Option<Vec<String>> {
    let mut other = None;
    let found = walk(text, |node| {
        if node.at != at {
            return None;
        }
        if node.role == role {
            return Some(node.path());
        }
        other.get_or_insert_with(|| node.path());
        None
    });
    found.or(other)
}

/// The position of a key.
pub fn of_key(text: &str, path: &[&str]) -> Option<(u32, u32)> {
    walk(text, |node| {
        let found = node.role == NodeRole::Key && node.path().iter().eq(path.iter());
        found.then_some(node.at)
    })
}

struct YamlNode<'a> {
    at: (u32, u32),
    role: NodeRole,
    open: &'a [OpenCollection],
}

impl YamlNode<'_> {
    fn path(&self) -> Vec<String> {
        self.open.iter().filter_map(OpenCollection::step).collect()
    }
}

/// A collection that is open at some point of the walk.
enum OpenCollection {
    /// `key` is the one whose value comes next, or the one just read.
    Mapping {
        key: Option<String>,
        value_next: bool,
    },
    Sequence {
        index: usize,
    },
}

impl OpenCollection {
    fn step(&self) -> Option<String> {
        match self {
            Self::Mapping { key, .. } => key.clone(),
            Self::Sequence { index } => Some(index.to_string()),
        }
    }
}

fn walk<T>(text: &str, mut visit: impl FnMut(&YamlNode<'_>) -> Option<T>) -> Option<T> {
    let mut open: Vec<OpenCollection> = Vec::new();
    let mut parser = Parser::new_from_str(text);
    // A syntax error ends the walk: nothing after it has a key.
    while let Some(Ok((event, span))) = parser.next_event() {
        let (name, opens) = match event {
            Event::Scalar(value, ..) => (Some(value.into_owned()), None),
            Event::Alias(_) => (None, None),
            Event::MappingStart(..) => {
                (None, Some(OpenCollection::Mapping { key: None, value_next: false }))
            }
            Event::SequenceStart(..) => (None, Some(OpenCollection::Sequence { index: 0 })),
            Event::MappingEnd | Event::SequenceEnd => {
                open.pop();
                advance(&mut open);
                continue;
            }
            _ => continue,
        };
        let role = enter(&mut open, name);
        if let Some(found) = visit(&YamlNode { at: start(span), role, open: &open }) {
            return Some(found);
        }
        match opens {
            Some(frame) => open.push(frame),
            None => advance(&mut open),
        }
    }
    None
}

/// A node begins: in a mapping it is a key or the value of one.
fn enter(open: &mut [OpenCollection], name: Option<String>) -> NodeRole {
    match open.last_mut() {
        Some(OpenCollection::Mapping { key, value_next: false }) => {
            *key = name;
            NodeRole::Key
        }
        _ => NodeRole::Value,
    }
}

/// A node has ended: what comes next in the collection around it?
fn advance(open: &mut [OpenCollection]) {
    match open.last_mut() {
        Some(OpenCollection::Mapping { value_next, .. }) => *value_next = !*value_next,
        Some(OpenCollection::Sequence { index }) => *index += 1,
        None => {}
    }
}

/// The parser counts columns from 0, people and the YAML reader from 1.
fn start(span: Span) -> (u32, u32) {
    (span.start.line() as u32, span.start.col() as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "server:\n  port: 1\nprofiles:\n  a: {model: x}\nlist:\n  - one\n  - k: v\n";

    #[test]
    fn paths_of_places() {
        let cases = [
            ((1, 1), NodeRole::Key, "server"),
            ((1, 1), NodeRole::Value, ""),
            ((2, 3), NodeRole::Key, "server.port"),
            ((2, 3), NodeRole::Value, "server"),
            ((2, 9), NodeRole::Value, "server.port"),
            ((4, 7), NodeRole::Key, "profiles.a.model"),
            ((4, 6), NodeRole::Value, "profiles.a"),
            ((4, 14), NodeRole::Value, "profiles.a.model"),
            ((6, 5), NodeRole::Value, "list.0"),
            ((7, 8), NodeRole::Value, "list.1.k"),
        ];
        for (at, role, path) in cases {
            let found = path_at(TEXT, at, role).map(|path| path.join("."));
            assert_eq!(found.as_deref(), Some(path), "{at:?}");
        }
        assert_eq!(path_at(TEXT, (9, 9), NodeRole::Value), None);
    }

    #[test]
    fn places_of_keys() {
        assert_eq!(of_key(TEXT, &["profiles", "a", "model"]), Some((4, 7)));
        assert_eq!(of_key(TEXT, &["profiles", "b"]), None);
    }
}

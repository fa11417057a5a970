//! Patterns for file names in a plain line, as bash means them without options set: `*`, `?` and
//! `[set]` stay within a name and leave out hidden ones.

use crate::plain::Bit;

/// File names that one pattern stands for (spec 14 N).
const MOST_NAMES: usize = 1000;

/// The names in a folder, and whether each is a folder or leads to one.
pub type Listed = Vec<(String, bool)>;

/// The names of a path, each as pattern or literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// It starts at the root of the file system.
    pub absolute: bool,
    pub names: Vec<Name>,
    /// It ends with a slash: folders alone fit.
    pub folder: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    Literal(String),
    Pattern(Vec<NamePiece>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePiece {
    Char(char),
    Any,
    One,
    Set { not: bool, ranges: Vec<(char, char)> },
}

impl Names {
    /// `None` if its meaning is not certain.
    pub fn of(bits: &[Bit]) -> Option<Self> {
        let mut names = vec![Vec::new()];
        for bit in bits {
            let last = names.last_mut()?;
            match bit {
                Bit::Any => last.push(NamePiece::Any),
                Bit::One => last.push(NamePiece::One),
                Bit::Set(inside) => last.push(set(inside)?),
                Bit::Text(text) => {
                    for c in text.chars() {
                        match c {
                            '/' => names.push(Vec::new()),
                            c => names.last_mut()?.push(NamePiece::Char(c)),
                        }
                    }
                }
                Bit::Home | Bit::Folder | Bit::Unknown => return None,
            }
        }
        let absolute = names.first().is_some_and(Vec::is_empty);
        let folder = names.len() > 1 && names.last().is_some_and(Vec::is_empty);
        let end = names.len() - usize::from(folder);
        let names: Vec<Name> = names[usize::from(absolute)..end].iter().map(|n| name(n)).collect();
        let dots = |name: &Name| matches!(name, Name::Literal(text) if text == "." || text == "..");
        let odd = names.contains(&Name::Literal(String::new()))
            || names.iter().skip_while(|name| matches!(name, Name::Literal(_))).any(dots);
        (!odd).then_some(Self { absolute, names, folder })
    }

    /// The paths that fit, sorted; none where none do.
    pub fn expand(
        &self,
        list: &dyn Fn(&str) -> Result<Listed, String>,
    ) -> Result<Vec<String>, String> {
        let mut found = vec![if self.absolute { "/".to_owned() } else { String::new() }];
        let fixed = self.names.iter().take_while(|name| matches!(name, Name::Literal(_))).count();
        for (place, name) in self.names.iter().enumerate() {
            let last = place + 1 == self.names.len();
            let end = if !last || self.folder { "/" } else { "" };
            if let (Name::Literal(text), true) = (name, place < fixed) {
                found[0] += &format!("{text}{end}");
                continue;
            }
            let mut deeper = Vec::new();
            for base in &found {
                let fitting = list(base)?.into_iter().filter(|(entry, is_folder)| {
                    (end.is_empty() || *is_folder)
                        && match name {
                            Name::Literal(text) => text == entry,
                            Name::Pattern(pieces) => fits(pieces, entry),
                        }
                });
                deeper.extend(fitting.map(|(entry, _)| format!("{base}{entry}{end}")));
                if deeper.len() > MOST_NAMES {
                    return Err(format!("a pattern fits more than {MOST_NAMES} file names"));
                }
            }
            found = deeper;
        }
        found.sort();
        Ok(found)
    }
}

/// Compares with a pattern of which some parts are open: each stands for any number of pieces. At
/// the worst the product of both lengths: the last open part is the only one to go back to.
pub fn matches_open<P, T>(
    pattern: &[P],
    text: &[T],
    is_open: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut place, mut back) = (0, 0, None);
    while let Some(piece) = text.get(place) {
        match pattern.get(at) {
            Some(part) if is_open(part) => {
                back = Some((at, place));
                at += 1;
            }
            Some(part) if fits(part, piece) => {
                at += 1;
                place += 1;
            }
            _ => match back {
                Some((open, from)) => {
                    back = Some((open, from + 1));
                    at = open + 1;
                    place = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(is_open)
}

fn name(pieces: &[NamePiece]) -> Name {
    let literal = pieces.iter().map(|piece| match piece {
        NamePiece::Char(c) => Some(*c),
        _ => None,
    });
    match literal.collect() {
        Some(text) => Name::Literal(text),
        None => Name::Pattern(pieces.to_vec()),
    }
}

/// Whether a file of this name is meant.
fn fits(pattern: &[NamePiece], name: &str) -> bool {
    let hidden = name.starts_with('.') && pattern.first() != Some(&NamePiece::Char('.'));
    let chars: Vec<char> = name.chars().collect();
    let fits = |piece: &NamePiece, c: &char| match piece {
        NamePiece::Char(own) => own == c,
        NamePiece::One => true,
        NamePiece::Any => false,
        NamePiece::Set { not, ranges } => {
            ranges.iter().any(|(from, to)| (from..=to).contains(&c)) != *not
        }
    };
    !hidden && matches_open(pattern, &chars, |piece| *piece == NamePiece::Any, fits)
}

/// Letters, digits, `_`, `.`, a `-` at an end, and ranges within digits, small or large letters.
fn set(inside: &str) -> Option<NamePiece> {
    let free = inside.strip_prefix(['!', '^']);
    let chars: Vec<char> = free.unwrap_or(inside).chars().collect();
    let (mut ranges, mut at) = (Vec::new(), 0);
    let kind = |c: char| (c.is_ascii_digit(), c.is_ascii_lowercase(), c.is_ascii_uppercase());
    while let Some(from) = chars.get(at).copied() {
        let (to, length) = match chars.get(at + 1..at + 3) {
            Some(['-', to]) => (*to, 3),
            _ => (from, 1),
        };
        let edge = at == 0 || at + 1 == chars.len();
        let single = length == 1 && (from != '-' || edge) && !"!^".contains(from);
        let range = length == 3 && from.is_ascii_alphanumeric() && kind(from) == kind(to);
        if !single && (!range || from > to) {
            return None;
        }
        ranges.push((from, to));
        at += length;
    }
    (!ranges.is_empty()).then_some(NamePiece::Set { not: free.is_some(), ranges })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Option<Names> {
        let mut bits = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            match (c, rest.find(']')) {
                ('*', _) => bits.push(Bit::Any),
                ('?', _) => bits.push(Bit::One),
                ('[', Some(end)) => {
                    bits.push(Bit::Set(rest[1..end].to_owned()));
                    rest = &rest[end + 1..];
                    continue;
                }
                _ => bits.push(Bit::Text(c.to_string())),
            }
            rest = &rest[c.len_utf8()..];
        }
        Names::of(&bits)
    }

    #[test]
    fn gate_glob_names() {
        let cases = [
            ("*.rs", "a.rs", true),
            ("*.rs", ".a.rs", false),
            (".*", ".a", true),
            ("?", "é", true),
            ("?x", ".x", false),
            ("[.]x", ".x", false),
            ("a[0-9]*", "a1", true),
            ("a[!0-9]", "a1", false),
            ("a[^0-9]", "ab", true),
            ("[a-]", "-", true),
            ("**", "a", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
        ];
        for (text, name, expected) in cases {
            let found = pattern(text);
            let Some(Names { names, .. }) = found else { unreachable!("{text}") };
            let [Name::Pattern(pieces)] = names.as_slice() else { unreachable!("{text}") };
            assert_eq!(fits(pieces, name), expected, "{text} {name}");
        }
        for odd in ["[z-a]", "[a-Z]", "[a-b-c]", "[!]", "a//*"] {
            assert_eq!(pattern(odd), None, "{odd}");
        }
    }
}

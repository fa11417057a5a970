//! The language of search: words that must all be there, `"a phrase"`, `start*`, `-without`, and
//! `OR` between two of them. It is read here so that a mistake has a remedy instead of a riddle.

/// Longer queries say nothing more precisely.
const LONGEST: usize = 400;
const MOST_TERMS: usize = 16;
/// A shorter beginning stands for too many words.
const SHORTEST_START: usize = 3;

/// A query that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// All of these; of each, one.
    with: Vec<Vec<Term>>,
    without: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    text: String,
    /// It is only the beginning of its last word.
    start: bool,
}

/// Reads what a person wrote, or says what to write instead.
pub fn parse(written: &str) -> Result<Query, String> {
    if written.chars().count() > LONGEST {
        return Err(format!("the query is longer than {LONGEST} characters; leave words out"));
    }
    let mut query = Query { with: Vec::new(), without: Vec::new() };
    let mut or = false;
    let mut rest = written.trim_start();
    let mut terms = 0;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("OR").filter(|after| is_end(after)) {
            if or || query.with.is_empty() {
                return Err("OR stands between two words: cat OR dog".to_owned());
            }
            or = true;
            rest = after.trim_start();
            continue;
        }
        let without = first == '-' && rest[1..].chars().next().is_some_and(|c| !is_gap(c));
        if without {
            rest = &rest[1..];
        }
        let (term, after) = term(rest)?;
        rest = after.trim_start();
        let Some(term) = term else { continue };
        terms += 1;
        match (without, or, query.with.last_mut()) {
            (true, true, _) => return Err("OR cannot stand before a -word".to_owned()),
            (true, false, _) => query.without.push(term),
            (false, true, Some(group)) => group.push(term),
            (false, _, _) => query.with.push(vec![term]),
        }
        or = false;
    }
    if or {
        return Err("OR stands between two words: cat OR dog".to_owned());
    }
    if terms > MOST_TERMS {
        return Err(format!("the query has more than {MOST_TERMS} words; leave some out"));
    }
    if query.with.is_empty() {
        let text = "write at least one word of letters or digits that is to be found";
        return Err(text.to_owned());
    }
    Ok(query)
}

fn is_gap(character: char) -> bool {
    character.is_whitespace()
}

fn is_end(rest: &str) -> bool {
    rest.chars().next().is_none_or(is_gap)
}

/// One word or phrase. `None`: nothing in it can be looked for.
fn term(rest: &str) -> Result<(Option<Term>, &str), String> {
    let (text, mut after) = match rest.strip_prefix('"') {
        Some(quoted) => quoted
            .split_once('"')
            .ok_or("a quotation mark is not closed; write \"both of them\" or neither")?,
        None => {
            let end = rest.find(|c: char| is_gap(c) || c == '"').unwrap_or(rest.len());
            rest.split_at(end)
        }
    };
    let mut text = text;
    let mut start = false;
    if let Some(cut) = text.strip_suffix('*') {
        (text, start) = (cut, true);
    } else if let Some(cut) = after.strip_prefix('*') {
        (after, start) = (cut, true);
    }
    if !text.chars().any(char::is_alphanumeric) {
        return Ok((None, after));
    }
    let last = text.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    if start && last.chars().count() < SHORTEST_START {
        return Err(format!("write at least {SHORTEST_START} letters before a *"));
    }
    Ok((Some(Term { text: text.to_owned(), start }), after))
}

impl Query {
    /// In the notation of the index, every word quoted: none of them is an operator there.
    pub fn notation(&self) -> String {
        let groups = self.with.iter().map(|group| {
            let terms: Vec<String> = group.iter().map(Term::notation).collect();
            match terms.len() {
                1 => terms.concat(),
                _ => format!("({})", terms.join(" OR ")),
            }
        });
        let mut text = groups.collect::<Vec<_>>().join(" AND ");
        if !self.without.is_empty() {
            let without: Vec<String> = self.without.iter().map(Term::notation).collect();
            text = format!("({text}) NOT ({})", without.join(" OR "));
        }
        text
    }

    /// Whether a short text has these words, also inside of its own; case does not matter.
    pub fn fits(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let has = |term: &Term| text.contains(&term.text.to_lowercase());
        self.with.iter().all(|group| group.iter().any(has)) && !self.without.iter().any(has)
    }
}

impl Term {
    fn notation(&self) -> String {
        let star = if self.start { " *" } else { "" };
        // A zero byte would end the query for the index.
        let text = self.text.replace('"', "\"\"").replace('\0', " ");
        format!("\"{text}\"{star}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_understood() {
        let cases = [
            ("cat", "\"cat\""),
            ("  cat   dog ", "\"cat\" AND \"dog\""),
            ("\"black cat\" -dog", "(\"black cat\") NOT (\"dog\")"),
            ("cat OR dog fish", "(\"cat\" OR \"dog\") AND \"fish\""),
            ("cat OR dog OR cow", "(\"cat\" OR \"dog\" OR \"cow\")"),
            ("ORDER or", "\"ORDER\" AND \"or\""),
            ("inter*", "\"inter\" *"),
            ("\"black inter\"*", "\"black inter\" *"),
            (
                "NEAR(a b) AND text:x ^y",
                "\"NEAR(a\" AND \"b)\" AND \"AND\" AND \"text:x\" AND \"^y\"",
            ),
            ("x\"y z\"", "\"x\" AND \"y z\""),
            ("c++ - !!! 5", "\"c++\" AND \"5\""),
            ("-a b -\"c d\"", "(\"b\") NOT (\"a\" OR \"c d\")"),
            ("Ärger 猫", "\"Ärger\" AND \"猫\""),
            ("a\0b", "\"a b\""),
        ];
        for (written, expected) in cases {
            assert_eq!(parse(written).unwrap().notation(), expected, "{written}");
        }
    }

    #[test]
    fn what_is_refused_says_what_to_write() {
        let long = "x".repeat(401);
        let many = "w ".repeat(17);
        let cases = [
            ("", "at least one word"),
            (" !!! ", "at least one word"),
            ("-cat", "at least one word"),
            ("\"open", "not closed"),
            ("OR cat", "OR stands between"),
            ("cat OR", "OR stands between"),
            ("cat OR OR dog", "OR stands between"),
            ("cat OR -dog", "before a -word"),
            ("ca*", "at least 3 letters"),
            (long.as_str(), "longer than 400"),
            (many.as_str(), "more than 16 words"),
        ];
        for (written, expected) in cases {
            let said = parse(written).unwrap_err();
            assert!(said.contains(expected), "{written}: {said}");
        }
    }
}

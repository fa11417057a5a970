//! Why JSON could not be read, in the words of JSON and not in those of the program.

/// Characters of a reason; more would only repeat what was sent.
const MOST: usize = 400;

/// What the reader expected, as it names it and as a client knows it.
const WORDS: [(&str, &str); 6] = [
    ("a sequence", "a list"),
    ("sequence", "a list"),
    ("a map", "an object"),
    ("map", "an object"),
    ("a boolean", "true or false"),
    ("unit", "null"),
];

pub(crate) fn why(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (what, place) = match text.rsplit_once(" at line ") {
        Some((what, place)) => (what, format!(" at line {place}")),
        None => (text.as_str(), String::new()),
    };
    let told = match what.rsplit_once(", expected ") {
        // `invalid type: map` names what was sent, `expected struct Raw` what was wanted.
        Some((found, wanted)) => {
            let (kind, found) = found.split_once(": ").unwrap_or((found, ""));
            let found =
                if found.is_empty() { String::new() } else { format!(": {}", plain(found)) };
            format!("{kind}{found}, expected {}", plain(wanted))
        }
        None => what.to_owned(),
    };
    // What was sent may be a key: it goes before the middle is left out.
    shortened(&skep_scrub::known().clean(&told)) + &place
}

fn plain(word: &str) -> String {
    if word.starts_with("struct ") {
        return "an object".to_owned();
    }
    let is_width = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    match word.split_at_checked(1) {
        Some(("i" | "u", rest)) if rest == "size" || is_width(rest) => "a whole number".to_owned(),
        Some(("f", rest)) if is_width(rest) => "a number".to_owned(),
        _ => {
            let known = WORDS.iter().find(|(own, _)| *own == word);
            known.map_or(word, |(_, usual)| usual).to_owned()
        }
    }
}

/// Both ends of a long reason.
fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= MOST {
        return text.to_owned();
    }
    let head: String = text.chars().take(MOST / 2).collect();
    let tail: String = text.chars().skip(count - MOST / 2).collect();
    format!("{head} … {tail}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Shape {
        count: Option<i64>,
        share: Option<f64>,
        part: Option<Part>,
        list: Option<Vec<u32>>,
        yes: Option<bool>,
        word: Option<String>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Part {
        name: String,
    }

    fn told(text: &str) -> String {
        why(&serde_json::from_str::<Shape>(text).unwrap_err())
    }

    #[test]
    fn what_was_wanted_is_told_in_the_words_of_json() {
        let table = [
            (r#""x""#, "invalid type: string \"x\", expected an object at line 1 column 3"),
            ("null", "invalid type: null, expected an object at line 1 column 4"),
            (r#"{"part": 5}"#, "invalid type: integer `5`, expected an object at line 1 column 10"),
            (r#"{"count": {}}"#, "invalid type: an object, expected a whole number at line 1 col"),
            (r#"{"count": "map"}"#, "invalid type: string \"map\", expected a whole number at"),
            (r#"{"share": []}"#, "invalid type: a list, expected a number at line 1 column 10"),
            (r#"{"list": {}}"#, "invalid type: an object, expected a list at line 1 column 9"),
            (r#"{"list": [-1]}"#, "invalid value: integer `-1`, expected a whole number at line 1"),
            (r#"{"yes": 1}"#, "invalid type: integer `1`, expected true or false at line 1 column"),
            (r#"{"word": 1}"#, "invalid type: integer `1`, expected a string at line 1 column 10"),
            (r#"{"other": 1}"#, "unknown field `other`, expected one of `count`, `share`, `part`"),
            (r#"{"part": {}}"#, "missing field `name` at line 1 column 11"),
            ("{", "EOF while parsing an object at line 1 column 1"),
        ];
        for (text, expected) in table {
            assert!(told(text).starts_with(expected), "{text}: {}", told(text));
        }
    }

    #[test]
    fn what_was_sent_is_not_sent_back_whole() {
        let long = "ü".repeat(100_000);
        for text in [format!("{{\"count\": \"{long}\"}}"), format!("{{\"{long}\": 1}}")] {
            let told = told(&text);
            assert!(told.chars().count() < 500 && told.contains(" … "), "{}", told.len());
        }
        let said = told(&format!("{{\"count\": \"{long}, expected struct\"}}"));
        assert!(said.contains("expected a whole number at line 1"), "{said}");
    }
}

//! What a body is, by its `Content-Type` and where that says nothing by its bytes.

/// How much of a body is looked at to tell text from the rest.
const SNIFF_BYTES: usize = 8 * 1024;

/// The header `Content-Type`, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContentType {
    /// Type and subtype in lower case; empty where the header says nothing.
    pub essence: String,
    pub charset: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Media {
    Html,
    /// Shown as it is.
    Text,
    Binary,
    /// Only the bytes can tell.
    Unknown,
}

impl ContentType {
    pub fn parse(header: &str) -> Self {
        // As it came: a secret in lower case is not found any more.
        let header = skep_scrub::known().clean(header);
        let mut parts = header.split(';');
        let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let value = value.trim().trim_matches(['"', '\'']);
            (name.trim().eq_ignore_ascii_case("charset") && !value.is_empty())
                .then(|| value.to_owned())
        });
        let plain = |c: char| c.is_ascii_alphanumeric() || "/+-._".contains(c);
        // Shown to the model: no more of a stranger's header than a type can have.
        let essence: String = essence.chars().filter(|c| plain(*c)).take(80).collect();
        Self { essence, charset }
    }

    pub fn media(&self) -> Media {
        let (kind, subtype) = self.essence.split_once('/').unwrap_or_default();
        match (kind, subtype) {
            ("text", "html") | ("application", "xhtml+xml") => Media::Html,
            ("text", _) => Media::Text,
            _ if subtype.ends_with("+json") || subtype.ends_with("+xml") => Media::Text,
            (
                "application",
                "json" | "xml" | "javascript" | "x-javascript" | "ecmascript" | "yaml" | "x-yaml"
                | "toml" | "x-sh" | "x-ndjson" | "jsonl" | "sql" | "graphql",
            ) => Media::Text,
            ("image" | "audio" | "video" | "font" | "model", _) => Media::Binary,
            ("application", "pdf" | "zip" | "gzip" | "x-tar" | "wasm" | "msword") => Media::Binary,
            _ => Media::Unknown,
        }
    }

    /// For people and models.
    pub fn name(&self) -> &str {
        if self.essence.is_empty() { "no type" } else { &self.essence }
    }
}

/// What the bytes are where the header does not say, or whether they are what it says. Text in
/// two bytes a letter is known by its mark.
pub(super) fn by_bytes(declared: Media, body: &[u8]) -> Media {
    let head = body.get(..SNIFF_BYTES).unwrap_or(body);
    let wide = head.starts_with(&[0xFE, 0xFF]) || head.starts_with(&[0xFF, 0xFE]);
    match declared {
        Media::Binary => Media::Binary,
        Media::Html | Media::Text => declared,
        Media::Unknown if wide => Media::Text,
        Media::Unknown if has_controls(head) => Media::Binary,
        Media::Unknown if !mostly_utf8(head) => Media::Binary,
        Media::Unknown => {
            let start = head.trim_ascii_start();
            let begins =
                |tag: &[u8]| start.get(..tag.len()).is_some_and(|it| it.eq_ignore_ascii_case(tag));
            let html = begins(b"<!doctype html") || begins(b"<html");
            if html { Media::Html } else { Media::Text }
        }
    }
}

/// Decoded text that was none: text has no zero characters.
pub(super) fn is_text(text: &str) -> bool {
    let head: usize = text.chars().take(SNIFF_BYTES).filter(|c| *c == '\0').count();
    head == 0
}

fn has_controls(head: &[u8]) -> bool {
    head.iter().any(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31))
}

/// A letter may be cut at the end of what was looked at.
fn mostly_utf8(head: &[u8]) -> bool {
    match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_types_are_told_apart() {
        let cases = [
            ("text/html; charset=UTF-8", Media::Html),
            ("TEXT/HTML", Media::Html),
            ("application/xhtml+xml", Media::Html),
            ("text/plain", Media::Text),
            ("text/csv;charset=\"iso-8859-1\"", Media::Text),
            ("application/json", Media::Text),
            ("application/ld+json; profile=x", Media::Text),
            ("image/svg+xml", Media::Text),
            ("image/png", Media::Binary),
            ("application/pdf", Media::Binary),
            ("application/octet-stream", Media::Unknown),
            ("", Media::Unknown),
            ("nonsense", Media::Unknown),
        ];
        for (header, media) in cases {
            assert_eq!(ContentType::parse(header).media(), media, "{header}");
        }
        let charset = ContentType::parse("text/csv; a=b; Charset=\"iso-8859-1\"").charset;
        assert_eq!(charset.as_deref(), Some("iso-8859-1"));
        assert_eq!(ContentType::parse("text/x\u{1b}[2J\ny").essence, "text/x2jy");
        skep_scrub::known().add([skep_scrub::Secret::new("media.test", "Medi4-Canary-Q7x")]);
        let echoed = ContentType::parse("Text/Medi4-Canary-Q7x; charset=Medi4-Canary-Q7x");
        assert!(!format!("{echoed:?}").to_lowercase().contains("canary"), "{echoed:?}");
    }

    #[test]
    fn web_bytes_decide_where_the_type_is_unknown() {
        let cases: [(&[u8], Media); 6] = [
            (b"plain words", Media::Text),
            (b"  <!DOCTYPE html><p>", Media::Html),
            (b"\x89PNG\r\n\x1a\n\0\0", Media::Binary),
            (b"\xff\xfeh\0i\0", Media::Text),
            (b"\xff\xff\xff\xff", Media::Binary),
            (b"", Media::Text),
        ];
        for (body, media) in cases {
            assert_eq!(by_bytes(Media::Unknown, body), media, "{body:?}");
        }
    }
}

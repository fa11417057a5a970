//! Bytes to text: the mark at the beginning, the header, the page's own word, then a guess.

use encoding_rs::{Encoding, REPLACEMENT, UTF_8, WINDOWS_1252};

/// Where a page may name its own encoding (as browsers look for it).
const DECLARATION_BYTES: usize = 1024;

pub(super) struct Decoded {
    pub text: String,
    pub encoding: &'static str,
}

/// `Err` names an encoding that nothing reads any more.
pub(super) fn decode(bytes: &[u8], header: Option<&str>) -> Result<Decoded, String> {
    let encoding = match Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding,
        None => named(header).or_else(|| declared(bytes)).unwrap_or_else(|| guess(bytes)),
    };
    if encoding == REPLACEMENT {
        let name = header.unwrap_or("the encoding it names");
        let name: String = name.chars().filter(char::is_ascii_graphic).take(40).collect();
        return Err(name);
    }
    let (text, _) = encoding.decode_with_bom_removal(bytes);
    Ok(Decoded { text: text.into_owned(), encoding: encoding.name() })
}

fn named(label: Option<&str>) -> Option<&'static Encoding> {
    label.and_then(|label| Encoding::for_label(label.as_bytes()))
}

/// `<meta charset=…>`, `<meta http-equiv content="…charset=…">` or `<?xml encoding="…"?>`.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes.get(..DECLARATION_BYTES).unwrap_or(bytes).to_ascii_lowercase();
    let meta = after(&head, b"<meta").and_then(|from| {
        let mut rest = &head[from..];
        loop {
            let end = rest.iter().position(|byte| *byte == b'>').unwrap_or(rest.len());
            if let Some(label) = value_of(&rest[..end], b"charset") {
                return Some(label);
            }
            let next = after(&rest[end..], b"<meta")?;
            rest = &rest[end + next..];
        }
    });
    let xml = || {
        let end = head.iter().position(|byte| *byte == b'>')?;
        head.starts_with(b"<?xml").then(|| value_of(&head[..end], b"encoding")).flatten()
    };
    let found = Encoding::for_label(meta.or_else(xml)?)?;
    // Whoever could read the declaration byte by byte did not read two bytes a letter.
    let wide = found == encoding_rs::UTF_16LE || found == encoding_rs::UTF_16BE;
    Some(if wide { UTF_8 } else { found })
}

/// The place behind the first `word`.
fn after(text: &[u8], word: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, word).map(|at| at + word.len())
}

/// The value behind `name=` in a tag.
fn value_of<'a>(tag: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = tag.get(after(tag, name)?..)?.trim_ascii_start();
    let rest = rest.strip_prefix(b"=")?.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"").or_else(|| rest.strip_prefix(b"'")).unwrap_or(rest);
    let end = rest.iter().position(|byte| b"\"'; \t\r\n/?".contains(byte)).unwrap_or(rest.len());
    Some(&rest[..end])
}

/// The last letter may be cut off.
fn guess(bytes: &[u8]) -> &'static Encoding {
    match std::str::from_utf8(bytes) {
        Ok(_) => UTF_8,
        Err(error) if error.error_len().is_none() => UTF_8,
        Err(_) => WINDOWS_1252,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn web_text_is_decoded_by_mark_header_declaration_or_guess() {
        let cases: [(&[u8], Option<&str>, &str, &str); 12] = [
            (b"\xef\xbb\xbfgr\xc3\xbcn", Some("iso-8859-1"), "UTF-8", "grün"),
            (b"\xff\xfeg\0r\0\xfc\0n\0", None, "UTF-16LE", "grün"),
            (b"gr\xfcn", Some("ISO-8859-1"), "windows-1252", "grün"),
            (b"gr\xc3\xbcn", Some("no-such"), "UTF-8", "grün"),
            (b"gr\xfcn", None, "windows-1252", "grün"),
            (b"<meta charset=koi8-r>\xc4\xc1", None, "KOI8-R", "<meta charset=koi8-r>да"),
            (
                b"<meta name=a><META CHARSET = 'shift_jis'>\x82\xa0",
                None,
                "Shift_JIS",
                "<meta name=a><META CHARSET = 'shift_jis'>あ",
            ),
            (
                b"<meta http-equiv=x content=\"text/html; charset=big5\">\xa4\xa4",
                None,
                "Big5",
                "<meta http-equiv=x content=\"text/html; charset=big5\">中",
            ),
            (b"<meta charset=utf-16>\xc3\xbc", None, "UTF-8", "<meta charset=utf-16>ü"),
            (
                b"<?xml version=\"1.0\" encoding=\"euc-kr\"?>\xc7\xd1",
                None,
                "EUC-KR",
                "<?xml version=\"1.0\" encoding=\"euc-kr\"?>한",
            ),
            (b"cut \xe2\x82", None, "UTF-8", "cut \u{fffd}"),
            (b"", None, "UTF-8", ""),
        ];
        for (bytes, header, encoding, text) in cases {
            let found = decode(bytes, header).map_err(|name| panic!("{name}")).unwrap();
            assert_eq!((found.encoding, found.text.as_str()), (encoding, text));
        }
        assert_eq!(decode(b"x", Some("iso-2022-kr")).map(|it| it.text), Err("iso-2022-kr".into()));
    }
}

#![allow(clippy::unwrap_used)]
use super::*;
use crate::vocab::message::Block;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

fn one(name: &str, mime: Option<&str>, bytes: &[u8]) -> Result<File, Unfit> {
    let attachment =
        Attachment { name: name.into(), mime: mime.map(str::to_owned), bytes: bytes.to_vec() };
    accept(vec![attachment]).map(|mut files| files.remove(0))
}

/// Bytes, what the sender calls them, and the type they get or a part of the refusal.
type Case = (&'static [u8], Option<&'static str>, Result<&'static str, &'static str>);

#[test]
fn the_bytes_decide_what_a_file_is() {
    let cases: [Case; 12] = [
        (PNG, None, Ok("image/png")),
        (PNG, Some("text/plain"), Ok("image/png")),
        (b"\xff\xd8\xff\xe0JFIF", Some("image/png"), Ok("image/jpeg")),
        (b"GIF89a...", None, Ok("image/gif")),
        (b"GIF87a...", None, Ok("image/gif")),
        (b"RIFF1234WEBPVP8 ", None, Ok("image/webp")),
        (b"RIFF\x24\xf0\0\0WAVEfmt ", None, Err("neither a picture")),
        (b"fn main() {}", None, Ok("text/plain")),
        (b"{}", Some("application/json"), Ok("application/json")),
        (b"{}", Some("text/x; \"bad\"\r\n"), Ok("text/plain")),
        (b"<svg/>", Some("image/svg+xml"), Err("no PNG, JPEG, GIF or WebP")),
        (b"%PDF-1.7\x00\x01", None, Err("neither a picture")),
    ];
    for (bytes, mime, expected) in cases {
        match (one("a", mime, bytes), expected) {
            (Ok(file), Ok(mime)) => assert_eq!(file.mime, mime, "{bytes:?}"),
            (Err(Unfit::Unsupported(text)), Err(part)) => assert!(text.contains(part), "{text}"),
            (found, expected) => assert!(found.is_err() && expected.is_err(), "{found:?}"),
        }
    }
}

#[test]
fn limits_are_said_with_what_to_do() {
    let big = [PNG, &vec![0; IMAGE_BYTES]].concat();
    assert!(matches!(one("a.png", None, &big), Err(Unfit::TooLarge(_))));
    assert!(one("a.png", None, &big[..IMAGE_BYTES]).is_ok());
    assert!(one("a.txt", None, &vec![b'x'; TEXT_BYTES]).is_ok());
    let Err(Unfit::TooLarge(text)) = one("a.txt", None, &vec![b'x'; TEXT_BYTES + 1]) else {
        return assert_eq!("taken", "refused");
    };
    assert!(text.contains("262145 bytes") && text.contains("workspace"), "{text}");
    for name in ["", "a\nb", &"n".repeat(201)] {
        assert!(matches!(one(name, None, b"x"), Err(Unfit::Unsupported(_))), "{name:?}");
    }
    let many = |count: usize, bytes: &[u8]| {
        let file = Attachment { name: "a".into(), mime: None, bytes: bytes.to_vec() };
        accept(vec![file; count])
    };
    assert_eq!(many(10, b"x").unwrap().len(), 10);
    assert!(matches!(many(11, b"x"), Err(Unfit::TooLarge(_))));
    assert!(matches!(many(5, &big[..IMAGE_BYTES]), Err(Unfit::TooLarge(_))));
}

#[test]
fn a_file_stands_in_a_row_by_its_hash() {
    let file = File::new("bee.png", "image/png", PNG);
    assert!(file.is_image() && file.is_whole() && is_hash(&file.hash));
    let row = serde_json::to_string(&Block::File(file.without_data())).unwrap();
    let hash = &file.hash;
    assert_eq!(
        row,
        format!(
            r#"{{"type":"file","name":"bee.png","mime":"image/png","size":12,"hash":"{hash}"}}"#
        )
    );
    let whole = serde_json::to_string(&Block::File(file.clone())).unwrap();
    assert!(whole.contains(r#""data":"iVBORw0KGgpyZXN0""#), "{whole}");
    assert_eq!(serde_json::from_str::<Block>(&whole).unwrap(), Block::File(file.clone()));
    let other = File { data: Some(FileData(Arc::from(&b"other"[..]))), ..file };
    assert!(!other.is_whole());
}

//! A body as it came to the body that is meant, within a bound.

use std::cell::Cell;
use std::io::{self, BufRead, Read};

use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// Above this size the ratio counts: short pages repeat themselves more than long ones.
const RATIO_FROM: usize = 1 << 20;
/// Nobody's text shrinks to less; a body made to hurt does.
const MOST_RATIO: usize = 200;
const PIECE: usize = 64 << 10;

/// What `Content-Encoding` names, in the order in which it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    Deflate,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    pub bytes: Vec<u8>,
    /// There was more.
    pub cut: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ExpandError {
    /// It grows too much.
    Bomb,
    Broken(String),
}

/// At most two, each known; `Err` names what is not.
pub(super) fn codings(header: &str) -> Result<Vec<Coding>, String> {
    // As it came: a secret in lower case is not found any more.
    let header = skep_scrub::known().clean(header);
    let mut found = Vec::new();
    for word in header.split(',').map(|word| word.trim().to_ascii_lowercase()) {
        match word.as_str() {
            "" | "identity" => {}
            "gzip" | "x-gzip" => found.push(Coding::Gzip),
            "deflate" => found.push(Coding::Deflate),
            _ => {
                let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
                return Err(word.chars().filter(plain).take(20).collect());
            }
        }
    }
    if found.len() > 2 { Err("more than two at once".to_owned()) } else { Ok(found) }
}

/// `whole`: the body came to its end.
pub(super) fn expand(
    wire: Vec<u8>,
    whole: bool,
    codings: &[Coding],
    most: usize,
) -> Result<Expanded, ExpandError> {
    let mut body = Expanded { bytes: wire, cut: !whole };
    for coding in codings.iter().rev() {
        body = one(&body, *coding, most)?;
    }
    if body.bytes.len() > most {
        body.bytes.truncate(most);
        body.cut = true;
    }
    Ok(body)
}

fn one(body: &Expanded, coding: Coding, most: usize) -> Result<Expanded, ExpandError> {
    let wire = body.bytes.as_slice();
    let zlib = |bytes: &[u8]| match bytes {
        [first, second, ..] => {
            first & 0x0f == 8 && u16::from_be_bytes([*first, *second]).is_multiple_of(31)
        }
        _ => false,
    };
    let used = Cell::new(0);
    let input = CountedInput { rest: wire, used: &used };
    let mut reader: Box<dyn Read + '_> = match coding {
        Coding::Gzip => Box::new(MultiGzDecoder::new(input)),
        // The name means the first, and some send the second.
        Coding::Deflate if zlib(wire) => Box::new(ZlibDecoder::new(input)),
        Coding::Deflate => Box::new(DeflateDecoder::new(input)),
    };
    let mut out = Vec::new();
    let mut piece = vec![0; PIECE];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(Expanded { bytes: out, cut: body.cut }),
            Ok(count) => out.extend_from_slice(&piece[..count]),
            // What was cut by us cannot end in order.
            Err(_) if body.cut => return Ok(Expanded { bytes: out, cut: true }),
            Err(error) => return Err(ExpandError::Broken(error.to_string())),
        }
        if out.len() > RATIO_FROM && out.len() / MOST_RATIO > used.get() {
            return Err(ExpandError::Bomb);
        }
        if out.len() > most {
            out.truncate(most);
            return Ok(Expanded { bytes: out, cut: true });
        }
    }
}

/// Says how much of it was read.
struct CountedInput<'a> {
    rest: &'a [u8],
    used: &'a Cell<usize>,
}

impl Read for CountedInput<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.rest.read(into)?;
        self.used.set(self.used.get() + count);
        Ok(count)
    }
}

impl BufRead for CountedInput<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(self.rest)
    }

    fn consume(&mut self, count: usize) {
        self.rest.consume(count);
        self.used.set(self.used.get() + count);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    const MOST: usize = 4 << 20;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn web_bodies_are_expanded() {
        let text = b"so it goes".to_vec();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(&text).unwrap();
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::fast());
        raw.write_all(&text).unwrap();
        let twice = gzip(&gzip(&text));
        let cases = [
            ("", text.clone()),
            ("identity", text.clone()),
            ("gzip", gzip(&text)),
            ("X-GZIP", gzip(&text)),
            ("deflate", zlib.finish().unwrap()),
            ("deflate", raw.finish().unwrap()),
            ("gzip, gzip", twice),
        ];
        for (header, wire) in cases {
            let found = expand(wire, true, &codings(header).unwrap(), MOST).unwrap();
            assert_eq!(found, Expanded { bytes: text.clone(), cut: false }, "{header}");
        }
        assert_eq!(codings("br"), Err("br".to_owned()));
        skep_scrub::known().add([skep_scrub::Secret::new("coding.test", "C0ding-Canary-Q7x")]);
        assert_eq!(codings("C0ding-Canary-Q7x"), Err("secretcodingtest".to_owned()));
        assert_eq!(codings("gzip, gzip, gzip"), Err("more than two at once".to_owned()));
    }

    #[test]
    fn web_bombs_and_broken_bodies_end_early() {
        let bomb = gzip(&vec![b' '; 64 << 20]);
        assert_eq!(expand(bomb.clone(), true, &[Coding::Gzip], MOST), Err(ExpandError::Bomb));
        let twice = gzip(&bomb);
        let both = [Coding::Gzip, Coding::Gzip];
        assert_eq!(expand(twice, true, &both, MOST), Err(ExpandError::Bomb));
        let mut half = gzip(b"so it goes, and goes on");
        half.truncate(half.len() - 9);
        let broken = expand(half.clone(), true, &[Coding::Gzip], MOST);
        assert!(matches!(broken, Err(ExpandError::Broken(_))), "{broken:?}");
        assert!(expand(half, false, &[Coding::Gzip], MOST).unwrap().cut);
        let long: Vec<u8> = (0..MOST + 9).map(|n| (n * n / 7 % 251) as u8).collect();
        let found = expand(gzip(&long), true, &[Coding::Gzip], MOST).unwrap();
        assert_eq!((found.bytes.len(), found.cut), (MOST, true));
        assert_eq!(expand(long, true, &[], MOST).unwrap().bytes.len(), MOST);
    }
}

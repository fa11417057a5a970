//! A file of a workspace on its way out, piece by piece and without secrets of the hive: however
//! large it is and however slowly it is taken, little of it is in memory.

use std::fs::File;
use std::io::{self, Read, Seek};

use futures_util::{Stream, stream};
use skep_core::file::image_type;

use crate::door::DoorError;

const PIECE: usize = 64 << 10;

/// A file that was looked through and may go out.
pub struct Download {
    reader: PieceReader,
    /// What is not text goes out as it is.
    is_text: bool,
    /// The kind of picture it is.
    pub picture: Option<&'static str>,
}

/// The raw piece and the same without secrets, which lags behind by what may begin one.
type Pieces = (Vec<u8>, String);

impl Download {
    /// Looks through at most `most` bytes. `None`: it is not text and holds a secret.
    pub(super) fn open(file: File, most: u64) -> io::Result<Option<Self>> {
        let mut reader = PieceReader::new(file, most);
        let (mut is_text, mut picture, mut is_first) = (true, None, true);
        while let Some((raw, _)) = reader.next()? {
            if std::mem::take(&mut is_first) {
                picture = image_type(&raw);
            }
            is_text &= std::str::from_utf8(&raw).is_ok();
        }
        let found = reader.stream.has_found();
        let mut file = reader.file;
        file.rewind()?;
        let reader = PieceReader::new(file, most);
        Ok((is_text || !found).then_some(Self { reader, is_text, picture }))
    }

    /// Each piece is made when it is asked for, off the async threads.
    pub fn pieces(self) -> impl Stream<Item = Result<Vec<u8>, DoorError>> + Send {
        stream::unfold(Some(self), async |file| {
            let mut file = file?;
            let work = tokio::task::spawn_blocking(move || (file.next(), file));
            match work.await {
                Ok((Ok(Some(piece)), file)) => Some((Ok(piece), Some(file))),
                Ok((Ok(None), _)) => None,
                Ok((Err(_), _)) | Err(_) => Some((Err(DoorError::failed()), None)),
            }
        })
    }

    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some((raw, clean)) = self.reader.next()? else { return Ok(None) };
        match (self.is_text, self.reader.stream.has_found()) {
            (true, _) => Ok(Some(clean.into_bytes())),
            (false, false) => Ok(Some(raw)),
            (false, true) => Err(io::Error::other("it was changed and holds a secret now")),
        }
    }
}

struct PieceReader {
    file: File,
    left: u64,
    /// The first bytes of a letter that the piece before ended in.
    begun: Vec<u8>,
    stream: skep_scrub::Stream,
    ended: bool,
}

impl PieceReader {
    fn new(file: File, left: u64) -> Self {
        Self { file, left, begun: Vec::new(), stream: skep_scrub::Stream::of_file(), ended: false }
    }

    fn next(&mut self) -> io::Result<Option<Pieces>> {
        if self.ended {
            return Ok(None);
        }
        let mut raw = std::mem::take(&mut self.begun);
        let room = self.left.min(PIECE as u64);
        let count = (&mut self.file).take(room).read_to_end(&mut raw)?;
        self.left -= count as u64;
        self.ended = count == 0;
        if !self.ended {
            self.begun = raw.split_off(raw.len() - unfinished(&raw));
        }
        let text = String::from_utf8_lossy(&raw).into_owned();
        let mut clean = self.stream.push(skep_scrub::known(), text);
        if self.ended {
            clean.push_str(&self.stream.finish(skep_scrub::known()));
        }
        Ok(Some((raw, clean)))
    }
}

/// How many bytes at the end are the beginning of a letter.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.iter().rev().take(3).position(|byte| *byte >= 0xC0).map_or(0, |at| at + 1);
    let needs = match bytes[bytes.len() - last..].first() {
        Some(0xC0..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..) => 4,
        _ => 0,
    };
    if last < needs { last } else { 0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use futures_util::StreamExt;

    use super::*;

    async fn sent(content: &[u8]) -> Option<Result<Vec<u8>, ()>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        let pieces: Vec<_> = Download::open(file, 16 << 20).unwrap()?.pieces().collect().await;
        assert!(pieces.iter().flatten().all(|piece| piece.len() <= 8 * PIECE), "in pieces");
        let pieces: Result<Vec<_>, _> = pieces.into_iter().collect();
        Some(pieces.map(|pieces| pieces.concat()).map_err(drop))
    }

    #[tokio::test]
    async fn attack_a_large_file_goes_out_in_pieces_and_without_secrets() {
        let key = "download-canary-0123456789-0123456789";
        skep_scrub::known().add([skep_scrub::Secret::new("canary", key)]);
        for size in [0, 10, PIECE - 5, PIECE, PIECE + 1, 3 * PIECE + 7] {
            let text = "aä語🐝".repeat(size / 8);
            assert_eq!(sent(text.as_bytes()).await, Some(Ok(text.clone().into_bytes())));
            // Wherever a piece ends, nothing of the key comes through but its first letters.
            let told = sent(format!("{text}{key} end").as_bytes()).await.unwrap().unwrap();
            let told = String::from_utf8(told).unwrap();
            assert!(told.ends_with("[secret:canary] end") && !told.contains("canary-0"), "{size}");
            let raw = [b"\0\xff".as_slice(), text.as_bytes()].concat();
            assert_eq!(sent(&raw).await, Some(Ok(raw.clone())));
            assert_eq!(sent(&[&raw, key.as_bytes()].concat()).await, None, "not text");
        }
        let escapes = "%25".repeat(1 << 18);
        assert_eq!(sent(escapes.as_bytes()).await, Some(Ok(escapes.into_bytes())));
        let slashes = vec![b'\\'; 1 << 20];
        assert_eq!(sent(&slashes).await, Some(Ok(slashes.clone())));
    }
}

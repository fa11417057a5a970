//! `read`: a text file of the workspace as numbered lines, in pages; a picture as a picture.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::RangeInclusive;

use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::file::{self, IMAGE_BYTES};
use skep_core::policy::AgentReach;
use skep_core::provider::ToolSpec;
use skep_core::tool::{Manner, Prepared, Tool, ToolAnswer, ToolContext};
use skep_guard::workspace::Workspace;
use skep_scrub::CleanReader;
use tokio_util::sync::CancellationToken;

use crate::blocking::{self, ToolOutcome};
use crate::spec::{self, FILE_PATH, spec, text};

/// The most one answer holds (spec 05 §3), whatever the gate would let through.
const PAGE_BYTES: usize = 256 * 1024;
/// How much of a file is looked at to tell text from the rest.
const SNIFF_BYTES: usize = 8 * 1024;
/// Room left in a page for the closing note.
const NOTE_BYTES: usize = 256;

const EMPTY: &str = "[the file is empty]";

#[derive(Debug)]
pub struct ReadTool {
    spec: ToolSpec,
    page_bytes: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    file_path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

impl ReadTool {
    /// `output_bytes` is what the gate lets an answer hold: a page that fits is not cut by it.
    pub fn new(output_bytes: usize) -> Self {
        let description = "Reads a file of the workspace. Text is answered with numbered lines; a \
             long file comes in pages, and the last line then says which offset continues. A \
             picture (PNG, JPEG, GIF, WebP) is shown as a picture.";
        let properties = json!({
            "file_path": text(FILE_PATH),
            "offset": {
                "type": "integer",
                "minimum": 1,
                "description": "First line to read, counted from 1.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "description": "Most lines to read.",
            },
        });
        let spec = spec("read", description, properties, &["file_path"]);
        Self { spec, page_bytes: output_bytes.min(PAGE_BYTES) }
    }
}

impl Tool for ReadTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        Manner::READ
    }

    fn aliases(&self) -> &[&'static str] {
        &["Read"]
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let takes = "read takes file_path (text), offset and limit (whole numbers)";
        let arguments: Arguments = spec::read(arguments, takes)?;
        if arguments.offset == Some(0) || arguments.limit == Some(0) {
            return Err("offset and limit are counted from 1".to_owned());
        }
        let page_bytes = self.page_bytes;
        Ok(blocking::prepared(move |workspace, context| {
            answer(&arguments, page_bytes, workspace, context)
        }))
    }
}

fn answer(
    arguments: &Arguments,
    page_bytes: usize,
    workspace: &Workspace,
    context: &ToolContext,
) -> ToolOutcome {
    let path = &arguments.file_path;
    let file = workspace.open_file(path).map_err(|refusal| refusal.to_string())?;
    match page(file, arguments, page_bytes, &context.cancel) {
        Ok(Page::Text(text)) => Ok(ToolAnswer::ok(text)),
        Ok(Page::Image { bytes, .. }) if skep_scrub::known().is_in_file(&bytes) => Err(format!(
            "secret_in_file: {path} is a picture with a secret of the hive in its data; remove \
             what is written beside the picture"
        )),
        Ok(Page::Image { mime, bytes }) => Ok(picture(path, mime, bytes)),
        Ok(Page::LargeImage) => Err(format!(
            "too_large: {path} is a picture of more than {IMAGE_BYTES} bytes; models take no \
             larger ones"
        )),
        Ok(Page::NotText { kind, bytes }) => Err(format!(
            "not_text: {path} is {kind} ({bytes} bytes); read shows text and pictures only"
        )),
        Ok(Page::PastEnd { lines }) => {
            Err(format!("past_end: {path} has {lines} lines; offset must not be larger"))
        }
        Ok(Page::Cancelled) => Err(blocking::cancelled()),
        Err(error) => Err(format!("io_error: {path} could not be read: {error}")),
    }
}

#[derive(Debug)]
enum Page {
    Text(String),
    Image { mime: &'static str, bytes: Vec<u8> },
    LargeImage,
    NotText { kind: &'static str, bytes: u64 },
    PastEnd { lines: u64 },
    Cancelled,
}

fn page(
    file: File,
    arguments: &Arguments,
    page_bytes: usize,
    cancel: &CancellationToken,
) -> io::Result<Page> {
    let bytes = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    if let Some(mime) = file::image_type(reader.fill_buf()?) {
        return image(reader, mime);
    }
    if let Some(kind) = foreign_kind(reader.fill_buf()?) {
        return Ok(Page::NotText { kind, bytes });
    }
    let first = arguments.offset.unwrap_or(1);
    let mut from = 0;
    for number in 1..first {
        if cancel.is_cancelled() {
            return Ok(Page::Cancelled);
        }
        match next_line(&mut reader, 0)? {
            Some(line) => from += line.all,
            None if number == 1 => return Ok(Page::Text(EMPTY.to_owned())),
            None => return Ok(Page::PastEnd { lines: number - 1 }),
        }
    }
    let last = arguments.limit.map_or(u64::MAX, |limit| first.saturating_add(limit - 1));
    lines(clean_from(reader.into_inner(), from)?, first..=last, page_bytes, cancel)
}

/// The file from a place on without its secrets, also without the rest of one that begins before.
fn clean_from(mut file: File, from: u64) -> io::Result<impl BufRead> {
    let known = skep_scrub::known();
    let before = from.min(known.reach() as u64);
    file.seek(SeekFrom::Start(from - before))?;
    // At most what is in memory anyway.
    let before = usize::try_from(before).unwrap_or(usize::MAX);
    Ok(BufReader::with_capacity(64 * 1024, CleanReader::new(known, file, before)))
}

fn lines(
    mut reader: impl BufRead,
    numbers: RangeInclusive<u64>,
    page_bytes: usize,
    cancel: &CancellationToken,
) -> io::Result<Page> {
    let room = page_bytes.saturating_sub(NOTE_BYTES).max(NOTE_BYTES);
    let mut text = String::new();
    let mut number = *numbers.start();
    while let Some(line) = next_line(&mut reader, room)? {
        if cancel.is_cancelled() {
            return Ok(Page::Cancelled);
        }
        let shown = numbered(number, &line, room);
        if number > *numbers.end() || text.len() + shown.len() > room {
            let _ = write!(text, "[more lines follow: read again with offset {number}]");
            return Ok(Page::Text(text));
        }
        text.push_str(&shown);
        number += 1;
    }
    match number - 1 {
        0 => Ok(Page::Text(EMPTY.to_owned())),
        lines if lines < *numbers.start() => Ok(Page::PastEnd { lines }),
        _ => Ok(Page::Text(text)),
    }
}

fn image(reader: BufReader<File>, mime: &'static str) -> io::Result<Page> {
    let mut bytes = Vec::new();
    // A file that grows meanwhile is not read for ever.
    let most = IMAGE_BYTES as u64 + 1;
    reader.take(most).read_to_end(&mut bytes)?;
    let size = bytes.len() as u64;
    Ok(if size == most { Page::LargeImage } else { Page::Image { mime, bytes } })
}

fn picture(path: &str, mime: &str, bytes: Vec<u8>) -> ToolAnswer {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    let text = format!("[{path}: a picture, {mime}, {} bytes]", bytes.len());
    let files = vec![file::File::new(name, mime, bytes)];
    ToolAnswer::Done { text, is_error: false, details: None, files }
}

struct Line {
    kept: Vec<u8>,
    /// Without its end.
    length: u64,
    /// With its end.
    all: u64,
}

/// The next line, of which at most `keep` bytes are held in memory.
fn next_line(reader: &mut impl BufRead, keep: usize) -> io::Result<Option<Line>> {
    let mut line = Line { kept: Vec::new(), length: 0, all: 0 };
    let mut any = false;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(any.then_some(line));
        }
        any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let piece = &buffer[..end.unwrap_or(buffer.len())];
        let room = keep.saturating_sub(line.kept.len()).min(piece.len());
        line.kept.extend_from_slice(&piece[..room]);
        line.length += piece.len() as u64;
        let used = end.map_or(buffer.len(), |end| end + 1);
        line.all += used as u64;
        reader.consume(used);
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}

fn numbered(number: u64, line: &Line, room: usize) -> String {
    let whole = line.kept.len() as u64 == line.length;
    let bytes = line.kept.strip_suffix(b"\r").filter(|_| whole).unwrap_or(&line.kept);
    let text = String::from_utf8_lossy(bytes);
    // 64 bytes: the number before the line and the note behind it.
    let longest = room.saturating_sub(64);
    if whole && text.len() <= longest {
        return format!("{number:>6}\t{text}\n");
    }
    let cut = text.floor_char_boundary(longest);
    format!("{number:>6}\t{} [cut: the line has {} bytes]\n", &text[..cut], line.length)
}

/// What a file that is not text seems to be, judged by its beginning.
fn foreign_kind(start: &[u8]) -> Option<&'static str> {
    const KNOWN: [(&[u8], &str); 3] = [
        (b"%PDF-", "a PDF document"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\x1f\x8b", "a gzip archive"),
    ];
    let known = KNOWN.iter().find(|(magic, _)| start.starts_with(magic));
    if let Some((_, kind)) = known {
        return Some(kind);
    }
    let sniffed = &start[..start.len().min(SNIFF_BYTES)];
    sniffed.contains(&0).then_some("binary data")
}

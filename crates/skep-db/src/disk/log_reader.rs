//! Our own reader of the write-ahead log. SQLite takes a log up to the first frame that does not
//! fit and drops the rest in silence; this one says how far that is, and whether there was more.
//!
//! The format: <https://sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The last bit says in which order of bytes the sums were made.
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;
/// That of our databases, for a log whose header cannot be read.
const PAGE: usize = 4096;

/// Where a commit ends in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// They differ from log to log. The first is one more each time the log starts over.
    pub salts: [u32; 2],
    pub frames: u32,
    /// Of the last frame: it covers all before it.
    pub sum: [u32; 2],
}

/// What lies in the log file.
#[derive(Debug, Default)]
pub(crate) struct LogScan {
    /// 0 where there is no such file.
    pub bytes: u64,
    /// The header is valid and has these.
    pub salts: Option<[u32; 2]>,
    /// The last commit that SQLite would find; 0 frames where there is none.
    pub end: LogEnd,
    /// The sum of the frame that was asked for, where SQLite would find that.
    pub sum: Option<[u32; 2]>,
    /// Behind a frame that does not fit lies a commit, and behind that the frame which was written
    /// after it. A commit is synced before anything follows it, so no crash leaves this. Looked
    /// for only where no frame was asked for.
    pub broken: bool,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug)]
struct LogFrame {
    page: u32,
    /// Pages of the database after this commit; 0 where it is none.
    size: u32,
    salts: [u32; 2],
    sum: [u32; 2],
}

impl LogFrame {
    fn parse(header: &[u8]) -> Self {
        Self {
            page: number(header, 0),
            size: number(header, 4),
            salts: [number(header, 8), number(header, 12)],
            sum: [number(header, 16), number(header, 20)],
        }
    }

    fn is_commit(&self) -> bool {
        self.size != 0
    }
}

/// The log while it is written, for whoever knows how many frames it has.
pub(crate) struct LogTail {
    path: PathBuf,
    /// With the size of a page, from the first commit on.
    open: Option<(File, usize)>,
}

impl LogTail {
    pub fn new(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    /// The commit that was written as frame number `frames` (from 1).
    pub fn end(&mut self, frames: u32) -> io::Result<LogEnd> {
        if self.open.is_none() {
            let file = File::open(&self.path)?;
            let mut header = [0; HEADER];
            file.read_exact_at(&mut header, 0)?;
            self.open = Some((file, Header::parse(&header).page));
        }
        let Some((file, page)) = &self.open else { return Err(io::ErrorKind::NotFound.into()) };
        let before = u64::from(frames.saturating_sub(1));
        let mut bytes = [0; FRAME_HEADER];
        file.read_exact_at(&mut bytes, (HEADER as u64) + before * (FRAME_HEADER + page) as u64)?;
        let frame = LogFrame::parse(&bytes);
        let found = LogEnd { salts: frame.salts, frames, sum: frame.sum };
        let no_commit = || io::Error::other(format!("frame {frames} of the log is no commit"));
        frame.is_commit().then_some(found).ok_or_else(no_commit)
    }
}

/// Reads a log; `asked` is the number of the frame (from 1) whose sum is wanted.
pub(crate) fn read(path: &Path, asked: Option<u32>) -> io::Result<LogScan> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LogScan::default()),
        file => file?,
    };
    let mut log = LogScan { bytes: file.metadata()?.len(), ..LogScan::default() };
    let mut file = BufReader::with_capacity(1 << 16, file);
    let mut header = [0; HEADER];
    if !fill(&mut file, &mut header)? {
        return Ok(log);
    }
    let head = Header::parse(&header);
    log.salts = head.valid.then_some(head.salts);
    log.end.salts = head.salts;
    let mut walk = Walk { salts: log.salts, sum: head.sum, whole: head.valid, behind: false };
    let mut bytes = vec![0; FRAME_HEADER + head.page];
    let mut number = 0_u32;
    while fill(&mut file, &mut bytes)? {
        number = number.saturating_add(1);
        let frame = LogFrame::parse(&bytes);
        let fits = walk.next(&frame, head.order, &bytes);
        if !walk.whole && asked.is_some() {
            break;
        }
        log.broken |= walk.behind && fits;
        walk.behind = !walk.whole && fits && frame.is_commit();
        if walk.whole && asked == Some(number) {
            log.sum = Some(frame.sum);
        }
        if walk.whole && frame.is_commit() {
            log.end = LogEnd { salts: frame.salts, frames: number, sum: frame.sum };
        }
    }
    Ok(log)
}

/// How far a walk through the frames has come.
struct Walk {
    /// As a valid header has them.
    salts: Option<[u32; 2]>,
    /// As the frame before has it.
    sum: [u32; 2],
    /// Every frame so far fits.
    whole: bool,
    /// The frame before is a commit behind one that does not fit.
    behind: bool,
}

impl Walk {
    /// Whether the frame was written behind the one before it.
    fn next(&mut self, frame: &LogFrame, order: ByteOrder, bytes: &[u8]) -> bool {
        let (header, page) = bytes.split_at(FRAME_HEADER);
        let sum = |from| order.sum(order.sum(from, header.get(..8).unwrap_or_default()), page);
        let salts = self.salts.is_none_or(|salts| salts == frame.salts);
        let fits = frame.page != 0 && salts && sum(self.sum) == frame.sum;
        self.whole &= fits;
        self.sum = frame.sum;
        fits
    }
}

struct Header {
    valid: bool,
    order: ByteOrder,
    page: usize,
    salts: [u32; 2],
    sum: [u32; 2],
}

impl Header {
    fn parse(bytes: &[u8; HEADER]) -> Self {
        let magic = number(bytes, 0);
        let order = if magic & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
        let page = usize::try_from(number(bytes, 8)).unwrap_or_default();
        let fits = (512..=65536).contains(&page) && page.is_power_of_two();
        let sum = [number(bytes, 24), number(bytes, 28)];
        let as_summed = order.sum([0, 0], bytes.get(..24).unwrap_or_default()) == sum;
        let known = magic & !1 == MAGIC && number(bytes, 4) == VERSION;
        Self {
            valid: known && fits && as_summed,
            order: if known { order } else { ByteOrder::Little },
            page: if fits { page } else { PAGE },
            salts: [number(bytes, 16), number(bytes, 20)],
            sum,
        }
    }
}

/// In which a sum reads its words.
#[derive(Clone, Copy)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The log's own sum: over whole pairs of words, going on from another one.
    pub fn sum(self, from: [u32; 2], bytes: &[u8]) -> [u32; 2] {
        let [mut one, mut two] = from;
        for pair in bytes.chunks_exact(8) {
            let (first, second) = (self.word(pair, 0), self.word(pair, 4));
            one = one.wrapping_add(first).wrapping_add(two);
            two = two.wrapping_add(second).wrapping_add(one);
        }
        [one, two]
    }

    fn word(self, bytes: &[u8], at: usize) -> u32 {
        let word = word(bytes, at);
        match self {
            Self::Little => u32::from_le_bytes(word),
            Self::Big => u32::from_be_bytes(word),
        }
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(word(bytes, at))
}

/// Four bytes; zeros where there are none.
fn word(bytes: &[u8], at: usize) -> [u8; 4] {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).unwrap_or_default()
}

/// False where the file ends before.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

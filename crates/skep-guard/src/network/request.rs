//! Plain HTTP of a confined program: every request on a connection is for the host that the
//! connection was opened for.
//!
//! A grammar of what every server reads in the same way; the rest is refused. Bytes go on as they
//! came, so nothing is lost that a client or a server may want to say.

use super::NetworkRefusal;

/// Of the head of one request.
pub(super) const HEAD_BYTES: usize = 64 * 1024;
const MOST_HEADERS: usize = 128;
/// Of the line that says how long a chunk is.
const CHUNK_LINE_BYTES: usize = 18;

/// What follows next on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    /// Bytes of a body whose length was said.
    Body(u64),
    ChunkLine,
    Chunk(u64),
    /// The end of line behind a chunk.
    ChunkEnd,
    /// The end of line behind the last chunk.
    ChunksEnd,
}

/// Reads along with the bytes from the client.
#[derive(Debug)]
pub(super) struct Requests<'a> {
    name: &'a str,
    port: u16,
    state: State,
}

impl<'a> Requests<'a> {
    pub fn new(name: &'a str, port: u16) -> Self {
        Self { name, port, state: State::Head }
    }

    /// How many of these bytes may go on; none while more of them is needed to tell.
    pub fn check(&mut self, bytes: &[u8]) -> Result<usize, NetworkRefusal> {
        let mut passed = 0;
        while passed < bytes.len() {
            match self.step(&bytes[passed..])? {
                0 => break,
                more => passed += more,
            }
        }
        Ok(passed)
    }

    fn step(&mut self, bytes: &[u8]) -> Result<usize, NetworkRefusal> {
        match self.state {
            State::Head => self.head(bytes),
            State::Body(left) => {
                let (taken, left) = take(bytes, left);
                self.state = if left == 0 { State::Head } else { State::Body(left) };
                Ok(taken)
            }
            State::Chunk(left) => {
                let (taken, left) = take(bytes, left);
                self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
                Ok(taken)
            }
            State::ChunkLine => self.chunk_line(bytes),
            State::ChunkEnd => self.end_of_line(bytes, State::ChunkLine),
            // Headers behind a body are refused: nobody needs them.
            State::ChunksEnd => self.end_of_line(bytes, State::Head),
        }
    }

    fn end_of_line(&mut self, bytes: &[u8], next: State) -> Result<usize, NetworkRefusal> {
        match bytes {
            [b'\r', b'\n', ..] => {
                self.state = next;
                Ok(2)
            }
            [] | [b'\r'] => Ok(0),
            _ => Err(unreadable("a chunk of its body does not end where it should")),
        }
    }

    fn chunk_line(&mut self, bytes: &[u8]) -> Result<usize, NetworkRefusal> {
        let line = &bytes[..bytes.len().min(CHUNK_LINE_BYTES)];
        let Some(end) = memchr::memmem::find(line, b"\r\n") else {
            return match line.len() < CHUNK_LINE_BYTES {
                true => Ok(0),
                false => Err(unreadable("the length of a chunk is malformed")),
            };
        };
        let digits = str::from_utf8(&line[..end]).unwrap_or_default();
        let hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let length = u64::from_str_radix(digits, 16).ok().filter(|_| hexadecimal);
        self.state = match length {
            Some(0) => State::ChunksEnd,
            Some(length) => State::Chunk(length),
            None => return Err(unreadable("the length of a chunk is malformed")),
        };
        Ok(end + 2)
    }

    fn head(&mut self, bytes: &[u8]) -> Result<usize, NetworkRefusal> {
        // The first byte tells already whether it can be a request.
        if !bytes.first().is_none_or(u8::is_ascii_uppercase) {
            return Err(unreadable("it is no HTTP/1 request"));
        }
        let within = &bytes[..bytes.len().min(HEAD_BYTES)];
        let Some(end) = memchr::memmem::find(within, b"\r\n\r\n") else {
            return match bytes.len() < HEAD_BYTES {
                true => Ok(0),
                false => Err(unreadable("its head is longer than 64 KiB")),
            };
        };
        let head = &bytes[..end + 4];
        self.state = self.judge(head)?;
        Ok(head.len())
    }

    /// What follows the head, when it is for our host.
    fn judge(&self, head: &[u8]) -> Result<State, NetworkRefusal> {
        if !ends_of_line_are_whole(head) {
            return Err(unreadable("a line of its head has no proper end"));
        }
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request.parse(head);
        if !matches!(parsed, Ok(httparse::Status::Complete(length)) if length == head.len()) {
            return Err(unreadable("it is no HTTP/1 request"));
        }
        let (method, target) =
            (request.method.unwrap_or_default(), request.path.unwrap_or_default());
        if method.eq_ignore_ascii_case("CONNECT") {
            let why = "it asks for a tunnel (CONNECT); no proxy is needed here";
            return Err(NetworkRefusal::new("http_tunnel", why));
        }
        let values = |name: &str| {
            let named = request.headers.iter();
            let named = named.filter(|header| header.name.eq_ignore_ascii_case(name));
            named.map(|header| header.value).collect::<Vec<_>>()
        };
        let [host] = values("host")[..] else {
            return Err(unreadable("it has not exactly one Host"));
        };
        self.is_ours(host)?;
        match target.split_once("://") {
            _ if target.starts_with('/') || (method == "OPTIONS" && target == "*") => {}
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
                let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
                self.is_ours(&rest.as_bytes()[..end])?;
            }
            _ => return Err(unreadable("its target is neither a path nor an http address")),
        }
        match (&values("content-length")[..], &values("transfer-encoding")[..]) {
            ([], []) | ([b"0"], []) => Ok(State::Head),
            ([length], []) => {
                let digits = str::from_utf8(length).unwrap_or_default();
                let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
                let length = digits.parse().ok().filter(|_| plain);
                length.map(State::Body).ok_or_else(|| unreadable("its length is malformed"))
            }
            ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") => match request.version {
                Some(1) => Ok(State::ChunkLine),
                _ => Err(unreadable("chunks in a request of HTTP/1.0")),
            },
            _ => Err(unreadable("the length of its body can be read in two ways")),
        }
    }

    fn is_ours(&self, authority: &[u8]) -> Result<(), NetworkRefusal> {
        let text = str::from_utf8(authority).unwrap_or_default();
        let (host, port) = match text.split_once(':') {
            Some((host, port)) if port.starts_with(|first: char| first.is_ascii_digit()) => {
                (host, port.parse().ok())
            }
            Some((host, _)) => (host, None),
            None => (text, Some(self.port)),
        };
        if host.eq_ignore_ascii_case(self.name) && port == Some(self.port) {
            return Ok(());
        }
        let shown = String::from_utf8_lossy(authority).escape_default().to_string();
        let why = format!(
            "a request is for {shown:.80}, but the address belongs to {}:{}",
            self.name, self.port
        );
        Err(NetworkRefusal::new("http_host_differs", why))
    }
}

fn take(bytes: &[u8], left: u64) -> (usize, u64) {
    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    (taken, left - taken as u64)
}

/// Every CR has its LF and every LF its CR: servers differ in what a lone one means.
fn ends_of_line_are_whole(head: &[u8]) -> bool {
    let mut before = 0;
    head.iter().all(|byte| {
        let whole = (before == b'\r') == (*byte == b'\n');
        before = *byte;
        whole
    })
}

fn unreadable(why: &str) -> NetworkRefusal {
    NetworkRefusal::new("http_unreadable", format!("a request is not understood: {why}"))
}

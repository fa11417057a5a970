//! Server-sent events out of a byte stream that may be split anywhere: inside a character, inside
//! a line end, inside a field name.

/// The longest event accepted, its field names included. Vendors send a few kilobytes.
const EVENT_BYTES: usize = 4 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Empty when the stream did not name it.
    pub name: String,
    pub data: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("an event is longer than {EVENT_BYTES} bytes")]
    TooLong,
    #[error("the stream is not UTF-8")]
    NotText,
}

/// Takes bytes, gives complete events. After an error nothing more can be read.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    name: String,
    data: String,
    any_data: bool,
    /// Bytes of the event so far, for the bound.
    size: usize,
    /// A line ended in CR; a LF that follows belongs to the same end.
    after_carriage_return: bool,
    after_first_line: bool,
}

impl Parser {
    /// Reads a piece of the stream and appends the events it completes.
    pub fn push(&mut self, mut bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_carriage_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            self.size += piece.len() + 1;
            if self.size > EVENT_BYTES {
                return Err(SseError::TooLong);
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.after_carriage_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if let Some(event) = self.end_line()? {
                events.push(event);
            }
        }
        Ok(())
    }

    /// The stream ended: the last event may lack its blank line, or even its line end.
    pub fn finish(&mut self) -> Result<Option<SseEvent>, SseError> {
        let last = if self.line.is_empty() { None } else { self.end_line()? };
        Ok(last.or_else(|| self.end_event()))
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, SseError> {
        let mut line = std::mem::take(&mut self.line);
        let first = !std::mem::replace(&mut self.after_first_line, true);
        if first && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        let line = String::from_utf8(line).map_err(|_| SseError::NotText)?;
        if line.is_empty() {
            return Ok(self.end_event());
        }
        let (field, value) = line.split_once(':').unwrap_or((line.as_str(), ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if std::mem::replace(&mut self.any_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // Comments (an empty field name), ids and reconnection times mean nothing here.
            _ => {}
        }
        Ok(None)
    }

    /// An empty line: an event if there was data, as the format says.
    fn end_event(&mut self) -> Option<SseEvent> {
        self.size = 0;
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.any_data).then_some(SseEvent { name, data })
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;

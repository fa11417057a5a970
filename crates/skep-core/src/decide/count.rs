//! How many tokens a request may have at the most. Nobody but the vendor can tell exactly; what is
//! held back for a call must not be less than it turns out to use.
//!
//! Vendors cut text into pieces of three to four letters on average; a piece never has less than a
//! byte. Here a run of letters is taken to be pieces of three, digits pieces of two, and everything
//! else, spaces aside, a piece each.

use crate::traits::provider::{ModelRequest, ToolSpec};
use crate::vocab::file::File;
use crate::vocab::message::{Block, Message, Usage};

/// What a vendor writes around a message, a block and a tool.
const AROUND: u64 = 12;
/// The largest picture any of the known models takes.
pub const PICTURE: u64 = 5000;

/// Up to so many tokens a vendor is taken at its word: no window is larger.
const TRUSTED: u64 = 2_000_000;
/// No vendor counts so many times what is counted here.
const TIMES: u64 = 4;

/// What a vendor says a call used, as far as a call of this size can use it: one wrong count is no
/// reason to stop everybody for a day.
pub fn plausible(usage: Usage, request: &ModelRequest) -> Usage {
    if usage.total_tokens <= TRUSTED {
        return usage;
    }
    let prompt = of_request(request).saturating_mul(TIMES).max(TRUSTED);
    let answer = TIMES * u64::from(request.max_output_tokens);
    let [input, read, written] =
        [usage.input, usage.cache_read, usage.cache_write].map(|count| count.min(prompt));
    Usage::new(input, usage.output.min(answer), read, written)
}

pub fn of_request(request: &ModelRequest) -> u64 {
    let system = of_text(&request.system.shared) + of_text(&request.system.agent);
    let tools = request.tools.iter().map(of_tool);
    system + tools.sum::<u64>() + of_messages(request.messages.iter().map(AsRef::as_ref))
}

pub fn of_tool(tool: &ToolSpec) -> u64 {
    let schema = tool.input_schema.to_string();
    AROUND + of_text(&tool.name) + of_text(&tool.description) + of_text(&schema)
}

pub fn of_messages<'m>(messages: impl Iterator<Item = &'m Message>) -> u64 {
    messages.map(|message| AROUND + message.body.content.iter().map(of_block).sum::<u64>()).sum()
}

fn of_block(block: &Block) -> u64 {
    AROUND
        + match block {
            Block::File(file) => of_file(file),
            other => of_text(&serde_json::to_string(other).unwrap_or_default()),
        }
}

fn of_file(file: &File) -> u64 {
    match &file.data {
        _ if file.is_image() => PICTURE,
        Some(data) => of_text(&String::from_utf8_lossy(&data.0)),
        None => file.size,
    }
}

pub fn of_text(text: &str) -> u64 {
    // In sixths of a token, so that runs need no memory of their length.
    let sixths = text.bytes().fold(0_u64, |sum, byte| {
        sum + match byte {
            b'a'..=b'z' | b'A'..=b'Z' => 2,
            b'0'..=b'9' | b'\n' => 3,
            b' ' | b'\t' | b'\r' => 1,
            // A letter of another script has two to four bytes.
            128.. => 3,
            _ => 6,
        }
    });
    sixths.div_ceil(6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lie_between_the_vendors_rule_of_thumb_and_the_bytes() {
        // Four letters a token, vendors say of English; code and other scripts have more.
        let texts = [
            "The quick brown fox jumps over the lazy dog. ",
            "fn main() { println!(\"{}\", 1 + 1); }\n",
            "1234567890 ",
            "Übermäßige Größe ",
            "今日は良い天気です",
        ];
        for text in texts {
            let long = text.repeat(100);
            let (counted, bytes) = (of_text(&long), long.len() as u64);
            assert!(counted * 4 >= bytes, "{text:?}: {counted} of {bytes}");
            assert!(counted <= bytes, "{text:?}: {counted} of {bytes}");
        }
        assert_eq!((of_text(""), of_text("abc"), of_text("{}")), (0, 1, 2));
    }
}

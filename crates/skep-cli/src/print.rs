//! How results are printed: lines, tables, times, and text that cannot drive a terminal.

pub(crate) mod outcome;
pub mod output;
pub(crate) mod table;
pub(crate) mod text;
pub mod time;
pub(crate) mod values;

pub(crate) use output::{Tone, foreign, toned};
pub use table::table;
pub(crate) use text::{Colour, Style, TermInfo, TextLine, TextSpan, shortened, width};
pub(crate) use values::{counted, items, money, stamp, text, text_or_empty};

//! How results are printed: lines, tables, times, and text that cannot drive a terminal.

pub mod output;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod values;

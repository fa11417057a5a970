//! What a line of shell runs. [`plain`] reads the lines of which it is known exactly, [`line`]
//! takes any line apart for rules that refuse. Pure: the same line and the same files give the
//! same answer.

pub mod glob;
pub mod line;
mod parser;
pub mod plain;
#[cfg(test)]
mod plain_tests;
mod wrapper;

/// The name of a program without the folders before it.
pub fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

//! Vendors that take no number of tokens to think take one of a few words.

/// The word for a thinking budget in tokens. The borders are those at which agents with a budget
/// usually set low, medium and high.
pub fn of_budget(tokens: u32) -> &'static str {
    match tokens {
        0..4096 => "low",
        4096..16384 => "medium",
        _ => "high",
    }
}

//! What to do with a call of the last journalled step when its turn goes on (spec 13 C).

use crate::vocab::event::CallState;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It has its result.
    Keep,
    /// It runs: for the first time, with its decision, or again because it changes nothing.
    Run,
    /// It had started and may have had its effect: answered as unknown, never repeated by us.
    Unknown,
    /// It still waits for its decision.
    Wait,
}

pub fn decide(state: CallState, retry_safe: bool, decided: bool) -> Again {
    match state {
        CallState::Done | CallState::Unknown => Again::Keep,
        CallState::Planned => Again::Run,
        CallState::Started if retry_safe => Again::Run,
        CallState::Started => Again::Unknown,
        CallState::Waiting if decided => Again::Run,
        CallState::Waiting => Again::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table() {
        use CallState::*;
        let cases = [
            (Done, false, false, Again::Keep),
            (Done, true, false, Again::Keep),
            (Unknown, false, false, Again::Keep),
            (Planned, false, false, Again::Run),
            (Planned, true, false, Again::Run),
            (Started, true, false, Again::Run),
            (Started, false, false, Again::Unknown),
            (Started, false, true, Again::Unknown),
            (Waiting, false, false, Again::Wait),
            (Waiting, false, true, Again::Run),
        ];
        for (state, retry_safe, decided, expected) in cases {
            assert_eq!(decide(state, retry_safe, decided), expected, "{state:?} {retry_safe}");
        }
    }
}

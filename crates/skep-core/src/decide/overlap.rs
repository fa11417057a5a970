//! What becomes of a task for a team that has work already.

use crate::Millis;
use crate::vocab::words::words;

words! {
    /// What whoever gives a task wants then.
    Overlap {
        Allow = "allow", Skip = "skip", Replace = "replace", Confirm = "confirm",
    }
}

/// Work that runs longer may be replaced.
pub const STALE_MS: Millis = 10 * 60 * 1000;

/// One piece of work that the team has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Somebody has begun it.
    pub begun: bool,
    pub age_ms: Millis,
}

impl InFlight {
    pub fn is_stale(self) -> bool {
        self.age_ms > STALE_MS
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlapVerdict {
    /// It goes into the queue.
    Enqueue,
    /// It goes into the queue, and what is there is cancelled.
    Replace,
    /// It is left out.
    Skip,
    /// Whoever gives it is to say what they want.
    Confirm,
}

pub fn decide(wanted: Overlap, in_flight: &[InFlight]) -> OverlapVerdict {
    if in_flight.is_empty() {
        return OverlapVerdict::Enqueue;
    }
    match wanted {
        Overlap::Allow => OverlapVerdict::Enqueue,
        Overlap::Skip => OverlapVerdict::Skip,
        Overlap::Confirm => OverlapVerdict::Confirm,
        Overlap::Replace if in_flight.iter().all(|work| !work.begun || work.is_stale()) => {
            OverlapVerdict::Replace
        }
        Overlap::Replace => OverlapVerdict::Confirm,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wish_meets_every_state_of_the_team() {
        let pending = InFlight { begun: false, age_ms: 3 * STALE_MS };
        let fresh = InFlight { begun: true, age_ms: STALE_MS };
        let stale = InFlight { begun: true, age_ms: STALE_MS + 1 };
        let teams: [&[InFlight]; 5] =
            [&[], &[pending], &[fresh], &[stale, pending], &[pending, fresh]];
        use OverlapVerdict::{Confirm, Enqueue, Replace, Skip};
        let table = [
            (Overlap::Allow, [Enqueue; 5]),
            (Overlap::Skip, [Enqueue, Skip, Skip, Skip, Skip]),
            (Overlap::Confirm, [Enqueue, Confirm, Confirm, Confirm, Confirm]),
            (Overlap::Replace, [Enqueue, Replace, Confirm, Replace, Confirm]),
        ];
        for (wanted, expected) in table {
            assert_eq!(teams.map(|team| decide(wanted, team)), expected, "{wanted:?}");
        }
    }
}

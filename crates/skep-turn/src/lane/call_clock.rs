//! When the model call of a turn began, spoke and ended.

use skep_core::Millis;
use skep_store::history::ModelTimes;

/// A call is begun again after a failure until its message is complete or cut off.
#[derive(Debug, Default)]
pub struct CallClock {
    began: Option<Millis>,
    first: Option<Millis>,
    tries: i64,
    /// Of the message that is complete and not on record.
    said: Option<ModelTimes>,
}

impl CallClock {
    pub fn begin(&mut self, now: Millis) {
        self.began.get_or_insert(now);
        self.first = None;
        self.tries += 1;
    }

    /// It says something. An engine that does not tell when its calls begin is heard first here.
    pub fn hear(&mut self, now: Millis) {
        if self.first.is_none() {
            self.first = Some(now);
            self.tries = self.tries.max(1);
            self.began.get_or_insert(now);
        }
    }

    /// Its message is complete.
    pub fn end(&mut self, now: Millis) {
        self.said = self.cut(now);
    }

    /// Of the message that is complete.
    pub fn take_said(&mut self) -> Option<ModelTimes> {
        self.said.take()
    }

    /// Of a message that is put on record before it is complete.
    pub fn cut(&mut self, now: Millis) -> Option<ModelTimes> {
        let Self { began, first, tries, .. } = std::mem::take(self);
        began.map(|began| ModelTimes { began, first, ended: now, tries })
    }

    /// Since when the call under way is made, and since when it speaks.
    pub fn under_way(&self) -> Option<(Millis, Option<Millis>)> {
        self.began.map(|began| (began, self.first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_timed_from_its_first_try_to_its_message() {
        let mut clock = CallClock::default();
        clock.begin(10);
        clock.hear(12);
        // Cut off and begun again: what it said is void.
        clock.begin(20);
        assert_eq!(clock.under_way(), Some((10, None)));
        clock.hear(25);
        clock.hear(30);
        clock.end(40);
        assert_eq!(clock.under_way(), None);
        let times = ModelTimes { began: 10, first: Some(25), ended: 40, tries: 2 };
        assert_eq!((clock.take_said(), clock.take_said()), (Some(times), None));
    }

    #[test]
    fn what_was_not_seen_has_no_times() {
        let mut clock = CallClock::default();
        assert_eq!(clock.cut(5), None);
        // An engine that only speaks: each message begins with its first word.
        clock.hear(7);
        let times = ModelTimes { began: 7, first: Some(7), ended: 9, tries: 1 };
        assert_eq!(clock.cut(9), Some(times));
        clock.end(11);
        assert_eq!(clock.take_said(), None);
    }
}

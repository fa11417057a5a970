//! Events as the texts that sockets are sent. All sockets that watch get the same text, so it is
//! made once and not for each of them: writing an event down costs far more than passing it on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::ws::Utf8Bytes;
use skep_core::event::Event;

use crate::ws::frame;

/// Watchers are rarely further apart than this; one that is makes its text itself.
const KEPT: usize = 64;

#[derive(Default)]
pub(crate) struct EventTexts {
    // A lock and not a task: held for a look at the newest few, and while a text is made, which
    // the others would otherwise make too.
    recent: Mutex<VecDeque<(Arc<Event>, Utf8Bytes)>>,
}

impl EventTexts {
    pub(crate) fn of(&self, event: &Arc<Event>) -> Utf8Bytes {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        // Kept with its event, whose place in memory cannot be another's meanwhile.
        let known = recent.iter().rev().find(|(known, _)| Arc::ptr_eq(known, event));
        if let Some((_, text)) = known {
            return text.clone();
        }
        let text = frame::event(event);
        if recent.len() >= KEPT {
            recent.pop_front();
        }
        recent.push_back((Arc::clone(event), text.clone()));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skep_core::event::EventKind;
    use skep_core::ids::AgentName;

    #[test]
    fn watchers_share_the_text_of_an_event() {
        let event = |first: i64| {
            Arc::new(Event {
                seq: Some(first),
                at: 0,
                agent: AgentName::new("main"),
                session: None,
                turn: None,
                kind: EventKind::HistoryUpdated { first, last: first },
            })
        };
        let (texts, one) = (EventTexts::default(), event(1));
        let first = texts.of(&one);
        assert_eq!(first.as_str().as_ptr(), texts.of(&one).as_str().as_ptr());
        assert_eq!(first, frame::event(&one));
        for number in 0..1000 {
            assert_eq!(texts.of(&event(number)), frame::event(&event(number)));
        }
        assert_eq!(texts.of(&one), first);
        assert_eq!(texts.recent.lock().unwrap_or_else(PoisonError::into_inner).len(), KEPT);
    }
}

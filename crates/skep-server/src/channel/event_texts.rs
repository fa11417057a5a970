//! Live events as the texts that watchers are sent. All watchers of one door get the same text, so
//! it is made once and not for each of them: writing an event down costs far more than passing it
//! on.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::ws::Utf8Bytes;
use skep_core::event::{Event, EventKind, TURN_START_CHARACTERS};
use skep_core::title;
use skep_core::visible::CUT;

/// Watchers take events in heaps; a heap of this many is read by all before it is forgotten.
const KEPT: usize = 4096;

/// The event as it is told: what was cut when it was kept does not end with the beginning of
/// what has become a secret since.
pub(crate) fn told(event: &Event) -> Cow<'_, Event> {
    let may_be_cut = match &event.kind {
        EventKind::TurnStart { body, .. } => body.chars().count() >= TURN_START_CHARACTERS,
        EventKind::SessionChanged { title, .. } => title::may_be_cut(title),
        EventKind::ApprovalDecided { patterns, .. } => patterns.iter().any(|it| it.ends_with(CUT)),
        _ => false,
    };
    if !may_be_cut {
        return Cow::Borrowed(event);
    }
    let clean = |text: &str| skep_scrub::known().clean_cut(text).into_owned();
    let mut told = event.clone();
    match &mut told.kind {
        EventKind::TurnStart { body: text, .. } | EventKind::SessionChanged { title: text, .. } => {
            *text = clean(text);
        }
        EventKind::ApprovalDecided { patterns, .. } => patterns.iter_mut().for_each(|pattern| {
            if let Some(begun) = pattern.strip_suffix(CUT) {
                *pattern = clean(begun) + CUT;
            }
        }),
        _ => {}
    }
    Cow::Owned(told)
}

pub(crate) struct EventTexts {
    make: fn(&Event) -> Utf8Bytes,
    // A lock and not a task: held for a look-up, and while a text is made, which the others would
    // otherwise make too.
    recent: Mutex<Recent>,
}

/// Texts by the place of their event in memory; kept with the event, so that the place cannot be
/// another's meanwhile.
#[derive(Default)]
struct Recent {
    texts: HashMap<usize, Utf8Bytes>,
    events: VecDeque<Arc<Event>>,
}

impl EventTexts {
    pub(crate) fn new(make: fn(&Event) -> Utf8Bytes) -> Self {
        Self { make, recent: Mutex::default() }
    }

    pub(crate) fn of(&self, event: &Arc<Event>) -> Utf8Bytes {
        let place = Arc::as_ptr(event).addr();
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = recent.texts.get(&place) {
            return text.clone();
        }
        let text = (self.make)(event);
        if recent.events.len() >= KEPT
            && let Some(oldest) = recent.events.pop_front()
        {
            recent.texts.remove(&Arc::as_ptr(&oldest).addr());
        }
        recent.texts.insert(place, text.clone());
        recent.events.push_back(Arc::clone(event));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::frame;
    use skep_core::approval::ApprovalState;
    use skep_core::ids::{AgentId, AgentName, SessionKey, Token};

    /// It was cut and kept before the value was known.
    #[test]
    fn attack_an_event_does_not_end_with_the_beginning_of_a_secret() {
        let value = "value-of-an-event-0123456789";
        skep_scrub::known().add([skep_scrub::Secret::new("vault.EVENT", value)]);
        let at = TURN_START_CHARACTERS - 16;
        let body = format!("{} {}", "x".repeat(at - 1), &value[..16]);
        assert_eq!(body.chars().count(), TURN_START_CHARACTERS);
        let title = format!("{} {}", "y".repeat(45), &value[..14]);
        let pattern = format!("echo {}{CUT}", &value[..20]);
        let kinds = [
            EventKind::TurnStart {
                session_key: SessionKey::new("main"),
                token: Token(1),
                from: "operator".to_owned(),
                body,
                resumed: false,
            },
            EventKind::SessionChanged {
                session_key: SessionKey::new("main"),
                title,
                pinned: false,
                archived: false,
            },
            EventKind::ApprovalDecided {
                approval: "a".to_owned(),
                state: ApprovalState::Approved,
                by: None,
                scope: None,
                patterns: vec![pattern],
            },
        ];
        for kind in kinds {
            let text = frame::event(&Event::of(AgentId(1), &AgentName::new("main"), 0, kind));
            assert!(text.contains(" …") && !text.contains("value-of"), "{text}");
        }
    }

    #[test]
    fn watchers_share_the_text_of_an_event() {
        let event = |first: i64| {
            Arc::new(Event {
                seq: Some(first),
                at: 0,
                agent: AgentName::new("main"),
                agent_id: None,
                session: None,
                turn: None,
                kind: EventKind::HistoryUpdated { first, last: first },
            })
        };
        let (texts, one) = (EventTexts::new(frame::event), event(1));
        let first = texts.of(&one);
        assert_eq!(first.as_str().as_ptr(), texts.of(&one).as_str().as_ptr());
        assert_eq!(first, frame::event(&one));
        for number in 0..10_000 {
            assert_eq!(texts.of(&event(number)), frame::event(&event(number)));
        }
        assert_eq!(texts.of(&one), first);
        let recent = texts.recent.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!((recent.texts.len(), recent.events.len()), (KEPT, KEPT));
    }
}

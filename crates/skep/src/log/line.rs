//! An event of the program as one JSON line, with the agent, session, turn and tool of the spans
//! around it.

use std::fmt;

use serde_json::{Map, Value};
use skep_guard::clock;
use skep_runtime::logs::{LogLine, time_text};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::file::LogSender;

/// The most a field of a line holds.
const FIELD_BYTES: usize = 16 << 10;

/// Sends every event that passes the filter to the file.
pub(super) struct JsonLogLayer {
    sender: LogSender,
}

impl JsonLogLayer {
    pub fn new(sender: LogSender) -> Self {
        Self { sender }
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for JsonLogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = FieldVisitor::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<FieldVisitor>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut around = FieldVisitor::default();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(fields) = span.extensions().get::<FieldVisitor>() {
                around.0.extend(fields.0.clone());
            }
        }
        let mut fields = FieldVisitor::default();
        event.record(&mut fields);
        let mut named = |name: &str| {
            let outer = around.0.remove(name);
            fields.0.remove(name).or(outer).and_then(|value| match value {
                Value::String(text) => Some(text),
                Value::Null => None,
                other => Some(other.to_string()),
            })
        };
        let line = LogLine {
            time: time_text(clock::now_ms()),
            level: event.metadata().level().to_string(),
            target: event.metadata().target().to_owned(),
            agent: named("agent"),
            session: named("session"),
            turn: named("turn"),
            tool: named("tool"),
            message: named("message").unwrap_or_default(),
            more: fields.0,
        };
        if let Ok(text) = serde_json::to_string(&line) {
            self.sender.send(skep_scrub::known().clean_owned(text));
        }
    }
}

/// Collects the fields of an event or a span.
#[derive(Default)]
struct FieldVisitor(Map<String, Value>);

impl FieldVisitor {
    fn keep(&mut self, field: &Field, value: impl Into<Value>) {
        // Source locations of events from the `log` crate.
        if !field.name().starts_with("log.") {
            self.0.insert(field.name().to_owned(), value.into());
        }
    }

    fn keep_text(&mut self, field: &Field, mut text: String) {
        if text.len() > FIELD_BYTES {
            // Redacted first: a cut could leave half a secret, which is not recognised.
            text = skep_scrub::known().clean_owned(text);
            let cut = text.floor_char_boundary(FIELD_BYTES);
            text.truncate(cut);
            text.push('…');
        }
        self.keep(field, text);
    }
}

impl Visit for FieldVisitor {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.keep(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field, value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.keep(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.keep(field, u64::try_from(value).unwrap_or(u64::MAX));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.keep_text(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.keep_text(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::log::file;

    fn noted(act: impl FnOnce()) -> Vec<Value> {
        let (sender, lines) = file::sender_for_test();
        let subscriber = tracing_subscriber::registry().with(JsonLogLayer::new(sender));
        tracing::subscriber::with_default(subscriber, act);
        lines().into_iter().map(|line| serde_json::from_str(&line).unwrap()).collect()
    }

    #[test]
    fn a_line_has_the_places_of_its_spans_and_its_own_fields() {
        let lines = noted(|| {
            let turn = tracing::info_span!("turn", agent = %"main", session = "s1", turn = "t1");
            let _turn = turn.entered();
            let _call = tracing::info_span!("call", tool = "read").entered();
            tracing::warn!(count = 3, note = ?"x", agent = "cto", "it {}", "happened");
        });
        let mut line = lines[0].clone();
        let time = line["time"].take();
        assert_eq!(time.as_str().unwrap().len(), "2026-02-03T04:05:06.789Z".len());
        let expected = json!({
            "time": null, "level": "WARN", "target": "skep::log::line::tests", "agent": "cto",
            "session": "s1", "turn": "t1", "tool": "read", "message": "it happened",
            "count": 3, "note": "\"x\"",
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn secrets_are_taken_out_at_every_level_also_where_a_text_is_cut() {
        let secret = "log-canary/\"4711\"";
        skep_scrub::known().add([skep_scrub::Secret::new("log.canary", secret)]);
        let lines = noted(|| {
            tracing::trace!(key = secret, "said {secret}");
            tracing::error!(debugged = ?secret, "{}{secret}", "x".repeat(FIELD_BYTES - 5));
        });
        let all = format!("{lines:?}");
        assert!(!all.contains("4711") && !all.contains("log-ca"), "{all}");
        assert_eq!(lines[0]["key"], "[secret:log.canary]");
        assert_eq!(lines[0]["message"], "said [secret:log.canary]");
    }
}

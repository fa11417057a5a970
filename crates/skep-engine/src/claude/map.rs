//! From the lines of Claude Code to events of a turn.

use skep_core::Millis;
use skep_core::engine::{EngineEvent, FailureCode, RetryCode, RetryInfo, RetryScope, TurnEnd};
use skep_core::ids::CallId;

use super::permissions::ClaudeTools;
use super::wire::{
    ApiRetry, AssistantBlock, AssistantLine, BlockDelta, RateLimit, ResultLine, StartedBlock,
    StreamEvent, UserBlock, UserContent, UserLine,
};

/// The program's own words in the place of a model's, such as an error of the vendor.
const SYNTHETIC: &str = "<synthetic>";
const TOO_LONG: &str = "prompt_too_long";
const UNKNOWN_SESSION: &str = "No conversation found";
/// Shown of what the program says about a failure.
const REASON_LETTERS: usize = 1000;

/// What of the vendor's stream is known so far.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// The message that streams: the vendor's id.
    open: Option<String>,
    /// Model calls of this turn.
    pub calls: u32,
    /// The vendor's window is closed until then.
    resets_at: Option<Millis>,
}

/// What became of a call, as the program says.
#[derive(Debug, PartialEq)]
pub(super) struct CallReport {
    pub id: CallId,
    pub text: String,
    pub is_error: bool,
}

/// What a line of the stream means.
#[derive(Debug, PartialEq)]
pub(super) enum Streamed {
    Nothing,
    Event(EngineEvent),
    /// The message with this id of the vendor is complete.
    Complete(String),
}

impl Course {
    /// The model speaks.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub fn stream(&mut self, event: StreamEvent) -> Streamed {
        Streamed::Event(match event {
            StreamEvent::MessageStart { message } => {
                self.open = Some(message.id);
                self.calls = self.calls.saturating_add(1);
                EngineEvent::CallStart
            }
            StreamEvent::ContentBlockStart { content_block } => match content_block {
                StartedBlock::Text { text } if !text.is_empty() => EngineEvent::Text(text),
                StartedBlock::RedactedThinking { data } => EngineEvent::RedactedThinking(data),
                StartedBlock::Text { .. } | StartedBlock::Other => return Streamed::Nothing,
            },
            StreamEvent::ContentBlockDelta { delta } => match delta {
                BlockDelta::TextDelta { text } => EngineEvent::Text(text),
                BlockDelta::ThinkingDelta { thinking } => EngineEvent::Thinking(thinking),
                BlockDelta::SignatureDelta { signature } => EngineEvent::Signature(signature),
                BlockDelta::Other => return Streamed::Nothing,
            },
            StreamEvent::MessageStop => {
                return self.open.take().map_or(Streamed::Nothing, Streamed::Complete);
            }
            StreamEvent::Other => return Streamed::Nothing,
        })
    }

    /// Calls in a block that is complete. An error is a message that nobody saw begin.
    pub fn blocks(
        &self,
        line: AssistantLine,
        tools: &ClaudeTools,
    ) -> Result<Vec<EngineEvent>, String> {
        let message = line.message;
        if message.model == SYNTHETIC {
            return Ok(Vec::new());
        }
        let calls = message.content.into_iter().filter_map(|block| match block {
            AssistantBlock::ToolUse { id, name, input } => {
                let name = tools.told(&name);
                Some(EngineEvent::ToolCall { id, name, arguments: input })
            }
            AssistantBlock::Other => None,
        });
        let calls: Vec<EngineEvent> = calls.collect();
        if !calls.is_empty() && self.open.as_ref() != Some(&message.id) {
            return Err(format!("a call in a message that did not stream ({})", message.id));
        }
        Ok(calls)
    }

    pub fn limit(&mut self, limit: &RateLimit) {
        if limit.status == "rejected" {
            self.resets_at = limit.resets_at.map(|seconds| (seconds * 1000.0) as Millis);
        }
    }

    /// How the turn ends with this result, where nobody asked for its end.
    pub fn end(&self, result: ResultLine, now: Millis) -> TurnEnd {
        if !result.is_error {
            return TurnEnd::Finished;
        }
        let status = result.api_error_status;
        let reason = result.terminal_reason.as_deref().unwrap_or_default();
        let errors = result.errors.unwrap_or_default();
        if errors.iter().any(|error| error.starts_with(UNKNOWN_SESSION)) {
            return TurnEnd::StaleSession;
        }
        let text = result.result.unwrap_or_else(|| errors.join("; "));
        let text: String = text.chars().take(REASON_LETTERS).collect();
        let failed = |code| TurnEnd::Failed { code, text: text.clone() };
        let retry = |code| TurnEnd::Retry { code, text: text.clone() };
        match (reason, status) {
            (TOO_LONG, _) => failed(FailureCode::ContextTooLong),
            ("max_turns", _) => TurnEnd::StepLimit,
            ("api_error", _) if let Some(code) = relay_code(&text) => failed(code),
            ("api_error", Some(401 | 403)) => failed(FailureCode::ProviderAuth),
            ("api_error", Some(429)) => match self.resets_at.filter(|until| *until > now) {
                Some(until) => {
                    let (code, reason) = (RetryCode::RateLimited, text);
                    TurnEnd::Park { until, code, reason }
                }
                None => retry(RetryCode::RateLimited),
            },
            ("api_error", Some(status @ (408 | 500..))) => retry(passing(Some(status))),
            ("api_error", None) => retry(RetryCode::Unreachable),
            ("api_error", Some(_)) => failed(FailureCode::ProviderRejected),
            _ => TurnEnd::Failed {
                code: FailureCode::EngineCrashed,
                text: format!("Claude Code ended the turn ({reason}): {text}"),
            },
        }
    }
}

/// The relay's own refusals end with a code.
fn relay_code(text: &str) -> Option<FailureCode> {
    let (_, code) = text.trim_end().strip_suffix(']')?.rsplit_once('[')?;
    match code {
        "limit_cost" => Some(FailureCode::LimitCost),
        "limit_tokens" => Some(FailureCode::LimitTokens),
        "relay_tool" | "relay_field" | "relay_body" | "relay_model" | "relay_closed" => {
            Some(FailureCode::ProviderRejected)
        }
        _ => None,
    }
}

fn passing(status: Option<u16>) -> RetryCode {
    match status {
        Some(429) => RetryCode::RateLimited,
        Some(529) => RetryCode::Overloaded,
        Some(408) => RetryCode::Timeout,
        Some(_) => RetryCode::Unavailable,
        None => RetryCode::Unreachable,
    }
}

/// It waits and asks the model again.
pub(super) fn retried(retry: &ApiRetry, now: Millis) -> EngineEvent {
    let code = passing(retry.error_status);
    let pause = retry.retry_delay_ms.clamp(0.0, 86_400_000.0) as Millis;
    let status = retry.error_status.map(|status| format!(" ({status})")).unwrap_or_default();
    let word: String = retry.error.chars().take(80).collect();
    EngineEvent::Retry {
        retry: RetryInfo {
            scope: RetryScope::Call,
            number: Some(retry.attempt),
            of: Some(retry.max_retries),
            attempt: None,
            code,
            next_at: now.saturating_add(pause),
        },
        text: format!("the model did not answer: {word}{status}"),
    }
}

/// Results in a line.
pub(super) fn reports(line: UserLine) -> Vec<CallReport> {
    let UserContent::Blocks(blocks) = line.message.content else { return Vec::new() };
    let reports = blocks.into_iter().filter_map(|block| match block {
        UserBlock::ToolResult { tool_use_id, content, is_error } => {
            Some(CallReport { id: tool_use_id, text: content.into_text(), is_error })
        }
        UserBlock::Other => None,
    });
    reports.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn result(value: Value) -> ResultLine {
        let mut line = json!({"is_error": true, "subtype": "success"});
        for (key, value) in value.as_object().unwrap() {
            line[key] = value.clone();
        }
        serde_json::from_value(line).unwrap()
    }

    fn end(value: Value) -> TurnEnd {
        Course::default().end(result(value), 1000)
    }

    #[test]
    fn the_end_goes_by_error_and_reason_and_never_by_its_subtype() {
        let failed = |code, text: &str| TurnEnd::Failed { code, text: text.to_owned() };
        let retry = |code, text: &str| TurnEnd::Retry { code, text: text.to_owned() };
        let api = |status: Value, text: &str| {
            end(json!({"terminal_reason": "api_error", "api_error_status": status,
                       "result": text}))
        };
        assert_eq!(end(json!({"is_error": false, "subtype": "error"})), TurnEnd::Finished);
        let long = json!({"terminal_reason": "prompt_too_long", "result": "Prompt is too long",
                          "api_error_status": 400});
        assert_eq!(end(long), failed(FailureCode::ContextTooLong, "Prompt is too long"));
        assert_eq!(api(json!(401), "no"), failed(FailureCode::ProviderAuth, "no"));
        assert_eq!(api(json!(400), "no"), failed(FailureCode::ProviderRejected, "no"));
        assert_eq!(api(json!(500), "no"), retry(RetryCode::Unavailable, "no"));
        assert_eq!(api(json!(529), "no"), retry(RetryCode::Overloaded, "no"));
        assert_eq!(api(json!(429), "no"), retry(RetryCode::RateLimited, "no"));
        assert_eq!(api(json!(null), "no"), retry(RetryCode::Unreachable, "no"));
        let over = "API Error: 400 over the budget [limit_cost]";
        assert_eq!(api(json!(400), over), failed(FailureCode::LimitCost, over));
        let missing = json!({"errors": ["No conversation found with session ID: x"]});
        assert_eq!(end(missing), TurnEnd::StaleSession);
        let TurnEnd::Failed { code, text } = end(json!({"errors": ["what"]})) else {
            panic!("it did not fail")
        };
        assert_eq!(code, FailureCode::EngineCrashed);
        assert!(text.ends_with(": what"), "{text}");
    }

    #[test]
    fn a_closed_window_parks_the_turn_until_it_opens() {
        let mut course = Course::default();
        course.limit(&RateLimit { status: "allowed".to_owned(), resets_at: Some(9.0) });
        let limited = || {
            result(json!({"terminal_reason": "api_error", "api_error_status": 429,
                          "result": "limited"}))
        };
        assert!(matches!(course.end(limited(), 1000), TurnEnd::Retry { .. }));
        course.limit(&RateLimit { status: "rejected".to_owned(), resets_at: Some(9.0) });
        let (code, reason) = (RetryCode::RateLimited, "limited".to_owned());
        assert_eq!(course.end(limited(), 1000), TurnEnd::Park { until: 9000, code, reason });
        assert!(matches!(course.end(limited(), 9000), TurnEnd::Retry { .. }));
    }
}

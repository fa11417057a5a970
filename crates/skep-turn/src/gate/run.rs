//! A tool at work, within its time.

use std::time::Duration;

use tokio::task::JoinHandle;
use tracing::Instrument;

use skep_core::tool::{Prepared, ToolAnswer, ToolContext};

use super::End;

/// A call may take this long; waiting for a decision does not count.
pub(super) const CALL_TIME: Duration = Duration::from_secs(600);
/// A cancelled tool has this long to end by itself before it is dropped.
pub(super) const GRACE: Duration = Duration::from_millis(3500);

/// In a task of its own, so that a tool that panics ends no turn.
pub(super) async fn to_end(prepared: Prepared, mut context: ToolContext) -> (ToolAnswer, End) {
    // Of this call alone: one that takes too long does not end its turn.
    let cancel = context.cancel.child_token();
    context.cancel = cancel.clone();
    let mut task = AbortOnDrop(tokio::spawn(prepared(context).in_current_span()));
    let ended = tokio::select! {
        ended = &mut task.0 => Some(ended),
        () = cancel.cancelled() => None,
        () = tokio::time::sleep(CALL_TIME) => {
            cancel.cancel();
            None
        }
    };
    let ended = match ended {
        Some(ended) => Some(ended),
        None => tokio::time::timeout(GRACE, &mut task.0).await.ok(),
    };
    let said = |text: &str| ToolAnswer::error(text);
    match ended {
        Some(Ok(ToolAnswer::Cut { text, details })) => {
            (ToolAnswer::Done { text, is_error: true, details, files: Vec::new() }, End::Cut)
        }
        Some(Ok(answer)) => (answer, End::Answered),
        Some(Err(_)) => (said("tool_failed: the tool failed inside; see the log"), End::Answered),
        None => (said("tool_cut: the tool was told to end and did not answer"), End::Cut),
    }
}

struct AbortOnDrop(JoinHandle<ToolAnswer>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

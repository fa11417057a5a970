//! Secrets in what a call is given and in what it answers.

use std::borrow::Cow;

use serde_json::Value;

use skep_core::policy::Class;
use skep_core::tool::{Tool, ToolAnswer};
use skep_guard::work;

use super::chain::{Chain, Stage};

/// No program gets a secret by its arguments, and no file the name of one in the place of what was
/// meant.
pub(super) fn without_secrets(
    class: Class,
    tool: &dyn Tool,
    name: &str,
    arguments: &Value,
    chain: &mut Chain,
) -> Result<(), String> {
    let scrubber = skep_scrub::known();
    let found = match class {
        Class::Run => scrubber.is_json_marked(arguments),
        Class::Write | Class::Shape => {
            let secret = tool.secret_arguments(arguments);
            let is_open = |name: &str| secret.iter().all(|it| it.argument != name);
            let mut fields = arguments.as_object().into_iter().flatten();
            fields.any(|(name, value)| is_open(name) && skep_scrub::has_json_mark(value))
        }
        Class::Read | Class::Reach => false,
    };
    if !found {
        return Ok(());
    }
    chain.note(Stage::Secrets, "refused: in the arguments");
    Err(format!(
        "secret_in_arguments: the arguments of `{name}` hold a secret, or the name of one in \
         brackets. No program gets one this way and no file keeps one: leave it out. Where a value \
         of the vault is needed, web_fetch takes {{{{vault:NAME}}}} in headers and body."
    ))
}

/// Texts above this take a thread of their own milliseconds, in which others' turns wait.
const LONG_BYTES: usize = 64 << 10;

pub(super) async fn without_secrets_in(
    answer: ToolAnswer,
    about: &Value,
    chain: &mut Chain,
) -> ToolAnswer {
    match &answer {
        ToolAnswer::Done { text, .. } if text.len() > LONG_BYTES => {}
        _ => return scrubbed(answer, about, chain),
    }
    let about = about.clone();
    let cleaned = work::spawn(move || {
        let mut chain = Chain::default();
        (scrubbed(answer, &about, &mut chain), chain)
    });
    let Ok((answer, notes)) = cleaned.await else {
        return ToolAnswer::error("the answer was lost: the hive is shutting down");
    };
    chain.add_new(notes);
    answer
}

/// The answer without secrets. The model is told where one in its own words was replaced: what it
/// wrote is not what it meant.
fn scrubbed(answer: ToolAnswer, arguments: &Value, chain: &mut Chain) -> ToolAnswer {
    let scrubber = skep_scrub::known();
    match answer {
        ToolAnswer::Done { text, is_error, mut details, files } => {
            let (mut text, mut found) = match scrubber.clean(&text) {
                Cow::Borrowed(_) => (text, false),
                Cow::Owned(clean) => (clean, true),
            };
            if let Some(details) = &mut details {
                found |= scrubber.clean_json(details);
            }
            if found {
                chain.note(Stage::Scrub, "a secret was taken out");
            }
            if !is_error && scrubber.is_json_marked(arguments) {
                text.push_str("\n[the call held a secret; its name was used instead]");
            }
            ToolAnswer::Done { text, is_error, details, files }
        }
        ToolAnswer::Cut { text, .. } => ToolAnswer::error(scrubber.clean_owned(text)),
        ToolAnswer::Wait { reason } => ToolAnswer::Wait { reason: scrubber.clean_owned(reason) },
    }
}

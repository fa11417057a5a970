//! What a client of the OpenAI interface asks for, and what of it an agent can do.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};
use skep_core::file::Attachment;
use utoipa::ToSchema;

use crate::request::problem::Problem;

/// The body of `POST /v1/chat/completions`. Sampling parameters and fields that are not known have
/// no effect: the agent's own settings decide. What would make the answer another one than the
/// client relies on (`tools`, `n` above 1, …) is refused.
#[derive(Deserialize, ToSchema)]
pub(crate) struct ChatRequest {
    /// The name of an agent.
    #[schema(example = "main")]
    pub(crate) model: String,
    #[schema(min_items = 1)]
    messages: Vec<ChatMessage>,
    pub(crate) stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    #[schema(minimum = 1, maximum = 1)]
    n: Option<i64>,
    #[serde(flatten)]
    #[schema(ignore)]
    others: Map<String, Value>,
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct StreamOptions {
    /// A last chunk with the tokens used.
    include_usage: Option<bool>,
}

#[derive(Deserialize, ToSchema)]
#[serde(expecting = "a message: an object with role and content")]
pub(crate) struct ChatMessage {
    #[schema(example = "user", pattern = "^(system|developer|user|assistant)$")]
    role: String,
    content: Option<Content>,
    #[serde(flatten)]
    #[schema(ignore)]
    others: Map<String, Value>,
}

#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize, ToSchema)]
struct Part {
    #[schema(pattern = "^(text|image_url)$")]
    r#type: String,
    text: Option<String>,
    image_url: Option<ImageUrl>,
}

#[derive(Deserialize, ToSchema)]
struct ImageUrl {
    /// The picture itself, as a data URL; the hive fetches nothing.
    #[schema(
        pattern = "^data:image/[a-z]+;base64,",
        example = "data:image/png;base64,iVBORw0KGgo="
    )]
    url: String,
}

/// What was asked, sorted by what becomes of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Conversation {
    /// Said before, and answered; empty where a session already has it.
    pub(crate) earlier: Vec<(Speaker, ChatText)>,
    /// What is to be answered now.
    pub(crate) newest: ChatText,
}

/// One message, or several of one speaker together.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ChatText {
    pub(crate) text: String,
    pub(crate) pictures: Vec<Attachment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Assistant,
}

/// Where the conversation is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// In a session of its own, made of the messages given.
    Nowhere,
    /// In a session that has everything up to the last assistant message.
    InSession,
}

impl ChatRequest {
    pub(crate) fn conversation(&self, kept: Kept) -> Result<Conversation, Problem> {
        self.refuse_what_cannot_be()?;
        let mut said = Vec::new();
        let mut context: Vec<String> = Vec::new();
        for message in &self.messages {
            let known = ["user", "assistant", "system", "developer"];
            if !known.contains(&message.role.as_str()) {
                return Err(unknown_role(&message.role));
            }
            let one = message.said()?;
            match message.role.as_str() {
                "user" => said.push((Speaker::User, one)),
                "assistant" => {
                    if kept == Kept::InSession {
                        context.clear();
                    }
                    said.push((Speaker::Assistant, one));
                }
                _ => context.push(one.text),
            }
        }
        let answered = said.iter().rposition(|(speaker, _)| *speaker == Speaker::Assistant);
        let newest = said.split_off(answered.map_or(0, |at| at + 1));
        if newest.is_empty() {
            let detail = "the last message must be the user's: there is nothing to answer";
            return Err(Problem::bad_request("nothing_to_answer", detail).about("messages"));
        }
        let mut newest = ChatText::join(newest.into_iter().map(|(_, said)| said));
        newest.text = with_context(&context, newest.text);
        let earlier = match kept {
            Kept::Nowhere => said,
            Kept::InSession => Vec::new(),
        };
        Ok(Conversation { earlier, newest })
    }

    pub(crate) fn includes_usage(&self) -> bool {
        let options = self.stream_options.as_ref();
        options.and_then(|options| options.include_usage).unwrap_or(false)
    }

    fn refuse_what_cannot_be(&self) -> Result<(), Problem> {
        if self.n.is_some_and(|n| n != 1) {
            let detail = "an agent gives one answer; leave n out";
            return Err(Problem::bad_request("unsupported_parameter", detail).about("n"));
        }
        let Some((name, _)) = self.others.iter().find(|(name, value)| is_refused(name, value))
        else {
            return Ok(());
        };
        let detail = match name.as_str() {
            "tools" | "tool_choice" | "functions" | "function_call" => format!(
                "{name} cannot be given: an agent uses its own tools (allowed_tools in its \
                 config.yaml); leave it out"
            ),
            _ => format!("{name} is not supported; leave it out"),
        };
        Err(Problem::bad_request("unsupported_parameter", detail).about(name))
    }
}

/// What a client relies on and an agent does not do. Listed in docs/doors.md.
fn is_refused(name: &str, value: &Value) -> bool {
    let given = match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(values) => !values.is_empty(),
        _ => true,
    };
    match name {
        "tools" | "functions" | "stop" | "logprobs" | "audio" => given,
        "tool_choice" | "function_call" => given && value != "none" && value != "auto",
        "response_format" => given && value["type"] != "text",
        "modalities" => given && *value != serde_json::json!(["text"]),
        _ => false,
    }
}

impl ChatMessage {
    fn said(&self) -> Result<ChatText, Problem> {
        let refused = ["tool_calls", "function_call", "audio"].into_iter().find(|name| {
            let value = self.others.get(*name).unwrap_or(&Value::Null);
            !value.is_null() && !value.as_array().is_some_and(Vec::is_empty)
        });
        if let Some(name) = refused {
            let detail = format!("a message with {name} is not supported: send its text alone");
            return Err(Problem::bad_request("unsupported_content", detail).about("messages"));
        }
        match &self.content {
            None => Ok(ChatText::default()),
            Some(Content::Text(text)) => Ok(ChatText { text: text.clone(), pictures: Vec::new() }),
            Some(Content::Parts(parts)) => {
                let parts: Result<Vec<ChatText>, Problem> = parts.iter().map(Part::said).collect();
                Ok(ChatText::join(parts?.into_iter()))
            }
        }
    }
}

impl ChatText {
    fn join(parts: impl Iterator<Item = Self>) -> Self {
        let (mut texts, mut pictures) = (Vec::new(), Vec::new());
        for part in parts {
            texts.extend(Some(part.text).filter(|text| !text.is_empty()));
            pictures.extend(part.pictures);
        }
        Self { text: texts.join("\n\n"), pictures }
    }
}

impl Part {
    fn said(&self) -> Result<ChatText, Problem> {
        match (self.r#type.as_str(), &self.text, &self.image_url) {
            ("text", Some(text), None) => Ok(ChatText { text: text.clone(), pictures: Vec::new() }),
            ("image_url", None, Some(image)) => {
                Ok(ChatText { text: String::new(), pictures: vec![picture(&image.url)?] })
            }
            (other, _, _) => {
                let shown = skep_scrub::known().beginning(other, 64);
                let detail =
                    format!("content of type {shown:?} is not supported; send text or image_url");
                Err(Problem::bad_request("unsupported_content", detail).about("messages"))
            }
        }
    }
}

fn picture(url: &str) -> Result<Attachment, Problem> {
    let parts = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let Some((mime, data)) = parts else {
        let detail = "a picture must be given as a data URL (data:image/png;base64,…): the hive \
                      fetches nothing for a client";
        return Err(Problem::bad_request("unsupported_content", detail).about("messages"));
    };
    let bytes = STANDARD.decode(data).map_err(|error| {
        let detail = format!("the data of a picture is no base64: {error}");
        Problem::bad_request("unsupported_content", detail).about("messages")
    })?;
    Ok(Attachment { name: "picture".to_owned(), mime: Some(mime.to_owned()), bytes })
}

fn unknown_role(role: &str) -> Problem {
    let shown = skep_scrub::known().beginning(role, 64);
    let detail = format!(
        "there is no role {shown:?} here; the roles are system, developer, user and assistant"
    );
    Problem::bad_request("unknown_role", detail).about("messages")
}

/// What stands around a conversation goes with its newest message; the agent's own rules stay
/// what they are.
fn with_context(context: &[String], text: String) -> String {
    match context.is_empty() {
        true => text,
        false => format!("<context>\n{}\n</context>\n\n{text}", context.join("\n\n")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn conversation(body: Value, kept: Kept) -> Result<Conversation, Value> {
        let mut whole = json!({"model": "main"});
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let request: ChatRequest = serde_json::from_value(whole).unwrap();
        request.conversation(kept).map_err(|problem| problem.code().into())
    }

    #[test]
    fn what_is_new_and_what_was_before() {
        let system = json!({"role": "system", "content": "be brief"});
        let ask = json!({"role": "user", "content": "one?"});
        let told =
            json!({"role": "assistant", "content": "1", "refusal": null, "tool_calls": null});
        let parts = json!([{"type": "text", "text": "two"}, {"type": "text", "text": "three?"}]);
        let again = json!({"role": "user", "content": parts, "name": "anna"});
        let said = |text: &str| ChatText { text: text.to_owned(), pictures: Vec::new() };
        let earlier = || vec![(Speaker::User, said("one?")), (Speaker::Assistant, said("1"))];
        let context = "<context>\nbe brief\n</context>\n\n";
        let cases = [
            (json!([ask]), Kept::Nowhere, vec![], "one?".to_owned()),
            (json!([system, ask]), Kept::InSession, vec![], format!("{context}one?")),
            (json!([ask, ask]), Kept::Nowhere, vec![], "one?\n\none?".to_owned()),
            (
                json!([system, ask, told, again]),
                Kept::Nowhere,
                earlier(),
                format!("{context}two\n\nthree?"),
            ),
            (json!([system, ask, told, again]), Kept::InSession, vec![], "two\n\nthree?".into()),
            (
                json!([ask, told, system, again]),
                Kept::InSession,
                vec![],
                format!("{context}two\n\nthree?"),
            ),
        ];
        for (messages, kept, earlier, newest) in cases {
            let found = conversation(json!({"messages": messages}), kept).unwrap();
            assert_eq!(found, Conversation { earlier, newest: said(&newest) }, "{messages}");
        }
        let image =
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}});
        let asked = json!([{"role": "user", "content": [{"type": "text", "text": "see"}, image]}]);
        let newest = conversation(json!({"messages": asked}), Kept::Nowhere).unwrap().newest;
        assert_eq!(newest.text, "see");
        let (name, mime) = ("picture".to_owned(), Some("image/png".to_owned()));
        assert_eq!(newest.pictures, [Attachment { name, mime, bytes: vec![0, 1, 2] }]);
    }

    #[test]
    fn what_an_agent_cannot_do_is_refused() {
        let ask = json!([{"role": "user", "content": "x"}]);
        let call = json!([{"id": "c", "type": "function", "function": {"name": "f"}}]);
        let image = json!([{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]);
        let cases = [
            (json!({"messages": []}), "nothing_to_answer"),
            (json!({"messages": [{"role": "assistant", "content": "x"}]}), "nothing_to_answer"),
            (json!({"messages": [{"role": "system", "content": "x"}]}), "nothing_to_answer"),
            (json!({"messages": [{"role": "tool", "content": "x"}]}), "unknown_role"),
            (json!({"messages": [{"role": "critic", "content": "x"}]}), "unknown_role"),
            (json!({"messages": [{"role": "user", "content": image}]}), "unsupported_content"),
            (
                json!({"messages": [{"role": "assistant", "tool_calls": call}]}),
                "unsupported_content",
            ),
            (json!({"messages": ask, "n": 2}), "unsupported_parameter"),
            (json!({"messages": ask, "tools": [{}]}), "unsupported_parameter"),
            (json!({"messages": ask, "tool_choice": "required"}), "unsupported_parameter"),
            (json!({"messages": ask, "modalities": ["audio"]}), "unsupported_parameter"),
            (json!({"messages": ask, "logprobs": true}), "unsupported_parameter"),
            (json!({"messages": ask, "functions": [{}]}), "unsupported_parameter"),
            (json!({"messages": ask, "stop": "x"}), "unsupported_parameter"),
            (
                json!({"messages": ask, "response_format": {"type": "json_object"}}),
                "unsupported_parameter",
            ),
        ];
        for (body, code) in cases {
            assert_eq!(conversation(body.clone(), Kept::Nowhere), Err(code.into()), "{body}");
        }
        let fine = json!({
            "messages": ask, "n": 1, "temperature": 0.2, "tools": null, "user": "operator",
            "response_format": {"type": "text"}, "logprobs": false, "functions": [],
            "tool_choice": "auto", "modalities": ["text"], "top_k": 40, "nonsense": {"deep": [1]},
            "stream_options": {"include_usage": null, "include_obfuscation": false},
        });
        assert!(conversation(fine, Kept::Nowhere).is_ok());
        let part = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
        let odd = json!({"role": "user", "content": [part], "weight": 2, "tool_calls": []});
        assert!(conversation(json!({"messages": [odd]}), Kept::Nowhere).is_ok());
    }
}

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};

use super::*;
use crate::openai_chat::request::Dialect;
use crate::rows::{assistant, call, origin, request, result, row, user};
use crate::{anthropic, openai_chat, openai_responses};

fn anthropic_body(request: &ModelRequest) -> Value {
    serde_json::from_str(&anthropic::request::render(request)).unwrap()
}

#[test]
fn ids_every_vendor_takes_stay_and_others_are_replaced_for_ever() {
    let long = "x".repeat(41);
    for id in ["toolu_01ABC", "call_1", "rehearsal_0_0", "a-b", &"x".repeat(40)] {
        assert_eq!(call_id(&CallId::new(id)), id);
    }
    for id in ["functions.read:0", "functions.read:1", "", "ä", &long] {
        let replaced = call_id(&CallId::new(id)).into_owned();
        assert!(replaced.starts_with("call_") && replaced.len() == 21, "{id}: {replaced}");
        assert_eq!(call_id(&CallId::new(id)), replaced);
        assert_eq!(call_id(&CallId::new(&replaced)), replaced, "stays when it comes back");
    }
    // Pinned: another value would change the beginning of every stored conversation.
    assert_eq!(call_id(&CallId::new("functions.read:0")), "call_5b4c7fc9f36ea68e");
}

#[test]
fn a_result_without_a_mark_says_that_it_is_an_error() {
    let text = |text: &'static str| ContentPart::Text(text.into());
    let result =
        |is_error| CallResult { id: "a".into(), parts: vec![text("x"), text("y")], is_error };
    assert_eq!(marked(&result(false)), "x\n\ny");
    assert_eq!(marked(&result(true)), "Error: x\n\ny");
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";
const BASE64: &str = "iVBORw0KGgpyZXN0";

fn conversation() -> Vec<Arc<Message>> {
    let png = |name: &str| File::new(name, "image/png", PNG);
    let notes = File::new("notes.txt", "text/plain", &b"remember\n"[..]);
    let gone = png("gone.png").without_data();
    let asked = Body::user("what is it?", vec![png("bee.png"), notes, gone], origin());
    let mut seen = (*result("one", "bee.png: a picture", false)).clone();
    seen.body.content.push(Block::File(png("bee.png")));
    vec![
        row(Body { shown: Some("[noon]".to_owned()), ..asked }),
        assistant("x", vec![call("one"), call("two")]),
        Arc::new(seen),
        result("two", "no", true),
        user("and?"),
    ]
}

const NOTES: &str = "[file notes.txt]\nremember\n\n[end of file notes.txt]";
const GONE: &str = "[file gone.png, image/png, 12 bytes: its content is not there any more]";
const UNSEEN: &str = "[file bee.png, image/png, 12 bytes: this model takes no pictures]";

#[test]
fn pictures_stand_where_each_vendor_wants_them() {
    let request = request(conversation());
    let text = |text: &str| json!({"type": "text", "text": text});
    let source = json!({"type": "base64", "media_type": "image/png", "data": BASE64});
    let image = json!({"type": "image", "source": source});
    let messages = anthropic_body(&request)["messages"].take();
    let expected = [text("[noon]"), image.clone(), text(NOTES), text(GONE), text("what is it?")];
    assert_eq!(messages[0]["content"], Value::from(expected.to_vec()));
    assert_eq!(messages[2]["content"][0]["content"], json!([text("bee.png: a picture"), image]));

    let url = format!("data:image/png;base64,{BASE64}");
    let image = json!({"type": "image_url", "image_url": {"url": url}});
    let dialect = Dialect::of("https://api.openai.com/v1");
    let body = openai_chat::request::render(&request, dialect);
    let messages = &body["messages"];
    let expected = [text("[noon]"), image.clone(), text(NOTES), text(GONE), text("what is it?")];
    assert_eq!(messages[1]["content"], Value::from(expected.to_vec()));
    assert_eq!(messages[3]["content"], "bee.png: a picture");
    assert_eq!(messages[4]["content"], "Error: no");
    let caption = text("[pictures of the tool call one]");
    assert_eq!(messages[5], json!({"role": "user", "content": [caption, image]}));
    assert_eq!(messages[6]["content"], "and?");
    assert_eq!(body["prompt_cache_key"], "session");

    let text = |text: &str| json!({"type": "input_text", "text": text});
    let image = json!({"type": "input_image", "detail": "auto", "image_url": url});
    let input = openai_responses::request::render(&request)["input"].take();
    let expected = [text("[noon]"), image.clone(), text(NOTES), text(GONE), text("what is it?")];
    assert_eq!(input[0]["content"], Value::from(expected.to_vec()));
    assert_eq!(input[3]["output"], json!([text("bee.png: a picture"), image]));
    assert_eq!(input[4]["output"], "Error: no");
}

#[test]
fn a_model_that_does_not_see_is_told_in_words() {
    let request = ModelRequest { sees_images: false, ..request(conversation()) };
    let local = Dialect::of("http://127.0.0.1/v1");
    let body = openai_chat::request::render(&request, local);
    let gone = UNSEEN.replace("bee", "gone");
    let asked = ["[noon]", UNSEEN, NOTES, &gone, "what is it?"].join("\n\n");
    assert_eq!(body["messages"][1]["content"], asked);
    assert_eq!(body["messages"][3]["content"], format!("bee.png: a picture\n\n{UNSEEN}"));
    assert_eq!(body["messages"][5]["content"], "and?");
    assert_eq!(body.get("prompt_cache_key"), None, "only its own servers know it");
    let bodies = [
        anthropic::request::render(&request),
        openai_responses::request::render(&request).to_string(),
    ];
    for body in bodies {
        assert!(body.contains(UNSEEN) && !body.contains(BASE64), "{body}");
    }
}

#[test]
fn requests_with_pictures_begin_with_all_of_the_one_before() {
    let rows = conversation();
    let local = Dialect::of("http://127.0.0.1/v1");
    // A request before each answer: the results of a step come together.
    let bodies = [1, 4, 5].map(|end| {
        let request = request(rows[..end].to_vec());
        let chat = openai_chat::request::render(&request, local).to_string();
        [chat, openai_responses::request::render(&request).to_string()]
    });
    for pair in bodies.windows(2) {
        for (before, after) in pair[0].iter().zip(&pair[1]) {
            assert!(after.starts_with(before.strip_suffix("]}").unwrap()), "{before}\n{after}");
        }
    }
}

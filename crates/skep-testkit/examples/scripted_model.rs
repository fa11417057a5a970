//! The scripted model as a program, for clients that are not written in Rust: prints its address,
//! answers by the last thing the user said, ends when its input does.

use std::io::Read;

use anyhow::Result;
use serde_json::json;
use skep_testkit::model::Usage;
use skep_testkit::{ModelRequest, Reply, ScriptedModel};

#[tokio::main]
async fn main() -> Result<()> {
    let model = ScriptedModel::start().await?;
    model.require_key("right-key");
    model.answer_with(answer);
    println!("{}", model.base_url());
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    for refusal in model.refusals() {
        println!("refused: {refusal}");
    }
    Ok(())
}

fn answer(request: &ModelRequest) -> Reply {
    let usage = Usage {
        input_tokens: Some(11),
        output_tokens: Some(22),
        cache_creation_input_tokens: 33,
        cache_read_input_tokens: 44,
    };
    let results = request.last_tool_results();
    // A product may show the model more before what was typed.
    let text = request.last_user_text();
    match text.lines().last().unwrap_or_default() {
        "tools" if results.is_empty() => Reply::new()
            .thinking("I wonder… 🐝")
            .redacted_thinking("opaque")
            .ping()
            .text_in(["Grüße, ", "I look."])
            .tool("read", json!({ "path": "ä \"q\" \n" }))
            .tool("read", json!({ "path": "b" }))
            .usage(usage),
        "tools" => {
            let texts: Vec<&str> = results.iter().map(|result| result.text.as_str()).collect();
            Reply::say(&texts.join("+"))
        }
        "look" => {
            let seen = request.images();
            let seen = seen.iter().map(|image| format!("{} {}", image.mime, image.bytes.len()));
            Reply::say(&format!("I see {}", seen.collect::<Vec<_>>().join(", ")))
        }
        "limit" => Reply::say("cut sho").stop_reason("max_tokens"),
        "rate" => Reply::rate_limited(Some("0")),
        "broken" => Reply::server_error(),
        "overloaded" => Reply::overloaded(),
        "long" => Reply::context_too_long(),
        "missing" => Reply::not_found(),
        "breaks" => Reply::new().text("half").error_event("api_error", "it broke"),
        other => Reply::say(&format!("you said {other}")).usage(usage),
    }
}

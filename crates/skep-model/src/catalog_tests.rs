#![allow(clippy::unwrap_used)]
use skep_core::message::Usage;

use super::*;

const ANTHROPIC: &str = "https://api.anthropic.com";
const OPENAI: &str = "https://api.openai.com/v1";

#[test]
fn a_model_is_found_by_its_name_with_or_without_a_date() {
    let table = [
        ("claude-sonnet-4-5", Some("claude-sonnet-4-5")),
        ("claude-sonnet-4-5-20250929", Some("claude-sonnet-4-5")),
        ("claude-sonnet-4-20250514", Some("claude-sonnet-4")),
        ("claude-3-5-haiku-latest", Some("claude-3-5-haiku")),
        ("gpt-5", Some("gpt-5")),
        ("gpt-5-2025-08-07", Some("gpt-5")),
        ("gpt-5-mini-2025-08-07", Some("gpt-5-mini")),
        ("gpt-5.1", Some("gpt-5.1")),
        ("o3", Some("o3")),
        // Another model, whatever it begins with.
        ("gpt-5-turbo", None),
        ("gpt-5.1-nano", None),
        ("claude-sonnet-4-9", None),
        ("o3-mini", None),
        ("llama3:8b", None),
        ("", None),
    ];
    for (id, expected) in table {
        assert_eq!(find(id).map(|model| model.id), expected, "{id}");
    }
}

#[test]
fn names_are_there_once_and_the_answer_fits_into_the_window() {
    for (at, model) in MODELS.iter().enumerate() {
        assert!(MODELS[..at].iter().all(|other| other.id != model.id), "{}", model.id);
        assert!(model.max_output_tokens < model.context_window, "{}", model.id);
        if let Some(price) = model.price {
            assert!(price.cache_read < price.input && price.input < price.output, "{}", model.id);
            assert!(price.input <= price.cache_write && price.input > Money::ZERO, "{}", model.id);
        }
    }
}

#[test]
fn calls_cost_what_the_vendors_say() {
    let usage = Usage::new(10_000, 1000, 80_000, 5000);
    let cost = |model: &str, url: &str| price(model, url).map(|price| price.of(&usage).dollars());
    // 0.03 + 0.015 + 0.024 + 0.01875
    assert_eq!(cost("claude-sonnet-4-5", ANTHROPIC), Some(0.08775));
    // 0.0125 + 0.01 + 0.01 + 0.00625
    assert_eq!(cost("gpt-5", OPENAI), Some(0.03875));
    // 0.001 + 0.0005 + 0.0008 + 0.000625
    assert_eq!(cost("claude-haiku-5-5", ANTHROPIC), Some(0.002925));
    // Nobody knows what another address asks for it.
    assert_eq!(cost("gpt-5", "http://127.0.0.1:8080/v1"), None);
    assert_eq!(cost("gpt-5", "https://api.openai.com.example/v1"), None);
    assert_eq!(cost("claude-sonnet-4-5", OPENAI), None);
    assert_eq!(cost("gpt-99", OPENAI), None);
}

#[test]
fn long_requests_cost_more_as_a_whole() {
    let price = price("gpt-5.4", OPENAI).unwrap();
    let cost = |prompt: u64| price.of(&Usage::new(prompt - 1000, 100, 1000, 0));
    // 271 000 · 2.5 + 100 · 15 + 1000 · 0.25, then 271 001 · 5 + 100 · 22.5 + 1000 · 0.5
    assert_eq!(cost(272_000).dollars(), 0.67925);
    assert_eq!(cost(272_001).dollars(), 1.357755);
}

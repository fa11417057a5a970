//! What is known of a model without being written.
#![allow(clippy::unwrap_used)]

use skep_cli::hive::Home;

use super::known_names::KnownNames;
use super::load::load;

/// Window, input price in dollars, pictures, output of an answer.
#[test]
fn what_is_known_of_a_model_holds_until_the_profile_says_otherwise() {
    let profile = |model: &str, more: &str| {
        let text = format!(
            "profiles: {{default: {{provider: anthropic, model: {model}, api_key: key-of-a-test\
             {more}}}}}"
        );
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("providers.yaml"), text).unwrap();
        let known = KnownNames::new(&["native"], &["read"]);
        let loaded = load(&Home::new(folder.path()), &known, &|_| None).unwrap();
        let profile = &loaded.settings.profiles["default"];
        let input = profile.price.map(|price| price.input.dollars());
        (profile.context_window, input, profile.sees_images, profile.max_output_tokens)
    };
    assert_eq!(profile("claude-sonnet-4-5", ""), (Some(200_000), Some(3.0), true, 8192));
    assert_eq!(profile("claude-9", ""), (None, None, false, 8192));
    let elsewhere = ", api_url: 'http://127.0.0.1:1'";
    assert_eq!(profile("claude-sonnet-4-5", elsewhere), (Some(200_000), None, true, 8192));
    let said = ", context_window: 5000, sees_images: false, price: {input: 1, output: 2}";
    assert_eq!(profile("claude-sonnet-4-5", said), (Some(5000), Some(1.0), false, 8192));
}

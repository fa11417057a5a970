#![allow(clippy::unwrap_used)]

use super::*;

fn wish(provider: &str, url: Option<&str>) -> WrittenProfile {
    let (provider, api_url) = (provider.to_owned(), url.map(str::to_owned));
    WrittenProfile { provider, model: "m".to_owned(), api_url, api_key: None }
}

fn prepare(
    files: &[(&str, &str)],
    name: &str,
    wish: WrittenProfile,
    key: Option<&str>,
) -> (tempfile::TempDir, Result<ProfileChange, String>) {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in files {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    let home = Home::new(folder.path());
    let none = |_: &str| None;
    let change = ProfileChange::prepare(&home, name, wish, key, (&none, &LocalModel::Absent));
    (folder, change)
}

const LINE: &str =
    r#"default: {"provider":"anthropic","model":"m","api_key":"${SKEP_KEY_DEFAULT}"}"#;

#[test]
fn a_profile_is_added_or_changed_and_the_rest_stays() {
    let other = "other: {provider: rehearsal}";
    let earlier = r#"{"provider":"ollama","model":"x"}"#;
    let cases = [
        (String::new(), format!("profiles:\n  {LINE}\n")),
        ("# mine\n".to_owned(), format!("# mine\nprofiles:\n  {LINE}\n")),
        ("profiles: {}\n".to_owned(), format!("profiles:\n  {LINE}\n")),
        (
            format!("profiles:\n    # why\n    {other}\n    default: {earlier}\n"),
            format!("profiles:\n    # why\n    {other}\n    {LINE}\n"),
        ),
    ];
    for (before, after) in cases {
        let files = [("providers.yaml", before.as_str())];
        let (folder, change) =
            prepare(&files, "default", wish("anthropic", None), Some("sk-12345678"));
        change.map_err(|why| format!("{before}: {why}")).unwrap().files.write().unwrap();
        let read = |file: &str| std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert_eq!(read("providers.yaml"), after);
        assert!(read("keys.env").ends_with("\nSKEP_KEY_DEFAULT=sk-12345678\n"));
    }
}

/// What agents used before there was a profile in the file they use afterwards.
#[test]
fn the_default_of_the_environment_is_written_before_another_profile() {
    let rehearsal = r#"default: {"provider":"rehearsal","model":"rehearsal"}"#;
    let openai = concat!(
        r#"default: {"provider":"openai","model":"gpt-5","#,
        r#""api_url":"${OPENAI_BASE_URL}","api_key":"${OPENAI_API_KEY}"}"#,
    );
    let second = r#"second: {"provider":"ollama","model":"m"}"#;
    for (is_set, default) in [(false, rehearsal), (true, openai)] {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        let variables = |name: &str| match name {
            "OPENAI_API_KEY" => is_set.then(|| "sk-12345678".to_owned()),
            "OPENAI_BASE_URL" => is_set.then(|| "http://127.0.0.1:9/v1".to_owned()),
            _ => None,
        };
        let known = (&variables as Variables, &LocalModel::Absent);
        let change = ProfileChange::prepare(&home, "second", wish("ollama", None), None, known);
        change.map_err(|why| why.clone()).unwrap().files.write().unwrap();
        let written = std::fs::read_to_string(home.providers_yaml()).unwrap();
        assert_eq!(written, format!("profiles:\n  {second}\n  {default}\n"));
    }
}

#[test]
fn a_profile_written_by_hand_is_not_touched() {
    let by_hand = [
        "profiles:\n  default: {provider: rehearsal}\n",
        "profiles:\n  default:\n    provider: rehearsal\n",
        "profiles: {default: {provider: rehearsal}}\n",
        "{profiles: {default: {provider: rehearsal}}}\n",
        "profiles:\n  \"default\": {provider: rehearsal}\n",
        "profiles: &a\n  default: {provider: rehearsal}\n",
        "profiles:\n  default: {\"provider\":\"rehearsal\",\"temperature\":1}\n",
    ];
    for text in by_hand {
        let files = [("providers.yaml", text)];
        let (_, change) = prepare(&files, "default", wish("anthropic", None), Some("sk-12345678"));
        assert!(change.is_err(), "{text}");
    }
}

#[test]
fn a_key_stays_with_the_address_it_was_given_for() {
    let files = [
        ("providers.yaml", &*format!("profiles:\n  {LINE}\n")),
        ("keys.env", "SKEP_KEY_DEFAULT=sk-12345678\n"),
    ];
    let same = prepare(&files, "default", wish("anthropic", None), None).1;
    assert!(same.is_ok_and(|change| change.connection.api_key.is_some()));
    let elsewhere = Some("http://127.0.0.1:9/v1");
    let moved = prepare(&files, "default", wish("anthropic", elsewhere), None).1;
    assert_eq!(
        moved.err().unwrap_or_default().split(';').next(),
        Some("default: the key `api_key` is missing")
    );
    let moved = prepare(&files, "default", wish("openai", elsewhere), None).1;
    assert!(moved.is_ok_and(|change| change.connection.api_key.is_none()));
    // What no profile names any more is not kept.
    let (folder, moved) = prepare(&files, "default", wish("openai", elsewhere), None);
    moved.ok().unwrap().files.write().unwrap();
    assert_eq!(std::fs::read_to_string(folder.path().join("keys.env")).unwrap(), "");
}

#[test]
fn an_address_stays_until_another_one_is_given() {
    let url = "http://127.0.0.1:9/v1";
    let line = LINE.replace("m\"", &format!("m\",\"api_url\":\"{url}\""));
    let files = [
        ("providers.yaml", &*format!("profiles:\n  {line}\n")),
        ("keys.env", "SKEP_KEY_DEFAULT=sk-12345678\n"),
    ];
    let same = prepare(&files, "default", wish("anthropic", None), None).1.ok().unwrap();
    assert_eq!(same.connection.api_url, url);
    assert!(same.connection.api_key.is_some());
    let other = prepare(&files, "default", wish("ollama", None), None).1.ok().unwrap();
    assert_ne!(other.connection.api_url, url);
    assert!(other.connection.api_key.is_none());
}

#[test]
fn a_profile_is_removed_with_its_key_and_the_rest_stays() {
    let other = "other: {provider: rehearsal}";
    let shared = "other: {provider: openai, model: m, api_key: \"${SKEP_KEY_CHEAP}\"}";
    let cheap = LINE.replace("default", "cheap").replace("DEFAULT", "CHEAP");
    let keys = "# mine\nSKEP_KEY_CHEAP=sk-12345678\nSKEP_KEY_OTHER=sk-87654321\n";
    let fewer = "# mine\nSKEP_KEY_OTHER=sk-87654321\n";
    let default = "default: {provider: rehearsal}";
    let cases = [
        (other, "cheap", Ok(fewer)),
        (shared, "cheap", Ok(keys)),
        (other, "other", Err("by hand")),
        (other, "nobody", Err("by hand")),
    ];
    for (other, name, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        let text = format!("profiles: # why\n  {default}\n  {cheap}\n  # this\n  {other}\n");
        std::fs::write(home.providers_yaml(), &text).unwrap();
        std::fs::write(home.keys_env(), keys).unwrap();
        let none = |_: &str| None;
        let edits = FileEdits::without_profile(&home, name, (&none, &LocalModel::Absent));
        match (edits, expected) {
            (Ok(edits), Ok(keys)) => {
                edits.write().unwrap();
                let read = |file| std::fs::read_to_string(file).unwrap();
                assert_eq!(read(home.providers_yaml()), text.replace(&format!("  {cheap}\n"), ""));
                assert_eq!(read(home.keys_env()), keys);
            }
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (edits, _) => panic!("{other} {name}: {:?}", edits.err()),
        }
    }
    assert_eq!(take(&format!("profiles:\n  {cheap}\n"), "cheap"), "profiles: {}\n");
}

#[test]
fn values_that_would_mean_something_else_are_refused() {
    let long = "k".repeat(5000);
    for key in
        ["short", "two\nlines-of-it", "nul\0-in-the-key", "a blank in it", "käääääääse", &long]
    {
        let change = prepare(&[], "default", wish("anthropic", None), Some(key)).1;
        let why = change.err().unwrap();
        assert!(why.contains("visible ASCII") && !why.contains(key), "{why}");
    }
    for url in
        ["ftp://x/v1", "x", "http://", "https://user:word@x/v1", "https://x/?key=1", "${HOME}"]
    {
        let change = prepare(&[], "default", wish("openai", Some(url)), None).1;
        assert!(change.is_err(), "{url}");
    }
    for name in ["", "Default", "a b", "a\nb: {}", "../x", "a--b"] {
        let change = prepare(&[], name, wish("ollama", None), None).1;
        assert!(change.is_err(), "{name}");
    }
    let nobody = prepare(&[], "default", wish("nobody", None), Some("sk-12345678")).1;
    assert!(nobody.is_err());
    // Another vendor's key does not go to OpenAI for want of an address.
    let nowhere = prepare(&[], "default", wish("openai", None), Some("sk-12345678")).1;
    assert!(nowhere.err().unwrap().starts_with("enter the address of the server"));
    let broken = [("keys.env", "sk-12345678\n")];
    let why = prepare(&broken, "default", wish("ollama", None), None).1.err().unwrap();
    assert!(why.contains("keys.env:1:1: this line names no key") && !why.contains("sk-"), "{why}");
}

#[test]
fn a_new_home_gets_a_limit_with_its_first_model_that_costs_money() {
    let generated = include_str!("generated/skep.yaml");
    let cases = [
        (generated, wish("anthropic", None), true),
        (generated, wish("ollama", None), false),
        ("# mine\n", wish("anthropic", None), false),
    ];
    for (text, wish, limited) in cases {
        let key = (wish.provider == "anthropic").then_some("sk-12345678");
        let (folder, change) = prepare(&[("skep.yaml", text)], "default", wish, key);
        change.map_err(|why| why.clone()).unwrap().files.write().unwrap();
        let written = std::fs::read_to_string(folder.path().join("skep.yaml")).unwrap();
        assert_eq!(written.contains("\n  cost_per_day: 10\n"), limited);
    }
}

//! Which model answers, from the files and from the environment.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use secrecy::ExposeSecret;

use super::load_tests::Folder;
use super::providers::Vendor;

#[test]
fn a_key_in_the_environment_is_used_only_when_nothing_is_configured() {
    let variables = [("ANTHROPIC_API_KEY", "k-2"), ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9/")];
    let loaded = Folder::new(&[]).load_with(&variables).unwrap();
    let connection = &loaded.connections["default"];
    assert_eq!(connection.vendor, Vendor::Anthropic);
    assert_eq!(connection.api_url, "http://127.0.0.1:9");
    assert_eq!(connection.api_key.as_ref().unwrap().expose_secret(), "k-2");
    assert!(loaded.settings.model_note.contains("ANTHROPIC_API_KEY"));
    let configured =
        Folder::new(&[("providers.yaml", "profiles: {default: {provider: rehearsal}}\n")]);
    let loaded = configured.load_with(&variables).unwrap();
    assert_eq!(loaded.connections["default"].vendor, Vendor::Rehearsal);
}

#[test]
fn a_key_written_out_is_warned_of_and_never_shown() {
    let folder = Folder::new(&[(
        "providers.yaml",
        "profiles:\n  default:\n    provider: anthropic\n    model: m\n    api_key: canary-1\n",
    )]);
    let loaded = folder.load().unwrap();
    assert_eq!(loaded.warnings.len(), 1);
    let warning = &loaded.warnings[0];
    assert!(warning.contains("providers.yaml:5:14: `profiles.default.api_key`"), "{warning}");
    assert!(warning.contains("skep vault move"), "{warning}");
    assert!(!format!("{warning} {loaded:?}").contains("canary-1"));
}

#[test]
fn keys_and_headers_name_entries_of_the_vault() {
    let profile = |more: &str| {
        let head = "profiles:\n  default:\n    provider: anthropic\n    model: m\n";
        Folder::new(&[("providers.yaml", &format!("{head}{more}"))])
    };
    let headers = "    extra_headers: {X-Auth: 'v1 {{vault:b}}', X-Plain: 'vault:c'}\n";
    let loaded = profile(&format!("    api_key: vault:a.b-c\n{headers}")).load().unwrap();
    assert!(loaded.warnings.is_empty());
    let connection = &loaded.connections["default"];
    assert_eq!(connection.api_key.as_ref().unwrap().expose_secret(), "{{vault:a.b-c}}");
    assert_eq!(connection.key_source, "vault entry a.b-c");
    let headers = connection.extra_headers.iter();
    let headers: Vec<_> = headers.map(|(_, value)| value.expose_secret()).collect();
    assert_eq!(headers, ["v1 {{vault:b}}", "{{vault:c}}"]);
    for (more, what) in [
        ("    api_key: 'vault:a b'\n", "names no vault entry"),
        ("    api_key: 'vault:'\n", "names no vault entry"),
        ("    api_key: 'x {{vault:a'\n", "names no vault entry"),
        ("    api_key: '${X} {{vault:a}}'\n", "names no vault entry"),
        ("    api_key: vault:a\n    api_url: vault:b\n", "a vault entry cannot stand here"),
    ] {
        let error = profile(more).load().unwrap_err().to_string();
        assert!(error.contains(what), "{more}: {error}");
    }
}

#[test]
fn keys_and_credential_headers_are_taken_out_of_texts_and_short_ones_are_warned_of() {
    let folder = Folder::new(&[(
        "providers.yaml",
        "profiles:\n  default:\n    provider: anthropic\n    model: m\n    \
         api_key: '${SHORT}'\n    extra_headers: {X-Title: written-openly, \
         X-From: '${FROM_THE_ENVIRONMENT}', \
         Proxy-Authorization: Bearer credential-of-header}\n",
    )]);
    let variables = [
        ("SHORT", "1234567"),
        ("FROM_THE_ENVIRONMENT", "value-of-variable"),
        ("OPENAI_API_KEY", "key-nobody-names"),
    ];
    let loaded = folder.load_with(&variables).unwrap();
    assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
    assert!(loaded.warnings[0].contains("`profiles.default.extra_headers.Proxy-Authorization`"));
    assert!(loaded.warnings[1].starts_with("default.api_key has fewer than 8 characters"));
    let text = "written-openly value-of-variable credential-of-header key-nobody-names 1234567";
    let expected = "written-openly [secret:default.X-From] [secret:default.Proxy-Authorization] \
                    [secret:OPENAI_API_KEY] 1234567";
    assert_eq!(skep_scrub::known().clean(text), expected);
}

#[test]
fn openai_is_detected_after_anthropic_and_compatible_servers_by_their_address() {
    let key = ("OPENAI_API_KEY", "k-3");
    let base = ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/");
    let table = [
        (vec![key], Vendor::OpenAiResponses, "https://api.openai.com/v1"),
        (vec![key, base], Vendor::OpenAiChat, "http://127.0.0.1:9/v1"),
        (vec![key, ("ANTHROPIC_API_KEY", "k-2")], Vendor::Anthropic, "https://api.anthropic.com"),
    ];
    for (variables, vendor, url) in table {
        let loaded = Folder::new(&[]).load_with(&variables).unwrap();
        let connection = &loaded.connections["default"];
        assert_eq!((connection.vendor, connection.api_url.as_str()), (vendor, url));
        let note = &loaded.settings.model_note;
        assert!(note.starts_with(vendor.as_str()) && note.contains("_API_KEY is set"), "{note}");
    }
}

#[test]
fn the_openai_wires_are_configured_by_name() {
    let folder = Folder::new(&[(
        "providers.yaml",
        "profiles:\n  default: {provider: openai-responses, model: m, api_key: '${KEY}'}\n\
         \x20 local: {provider: openai, model: l, api_url: 'http://127.0.0.1:9/v1'}\n",
    )]);
    let loaded = folder.load_with(&[("KEY", "key-of-the-test-2")]).unwrap();
    let (usual, local) = (&loaded.connections["default"], &loaded.connections["local"]);
    assert_eq!(usual.vendor, Vendor::OpenAiResponses);
    assert_eq!(usual.api_url, "https://api.openai.com/v1");
    assert_eq!((local.vendor, local.api_key.is_none()), (Vendor::OpenAiChat, true));
    assert_eq!(local.api_url, "http://127.0.0.1:9/v1");
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn ollama_needs_no_address_and_no_key() {
    let written = "profiles:\n  default: {provider: ollama, model: 'qwen3:8b'}\n  \
                   other: {provider: ollama, model: m, api_url: 'http://127.0.0.1:9/v1'}\n";
    let loaded = Folder::new(&[("providers.yaml", written)]).load().unwrap();
    let found = |name: &str| {
        let connection = &loaded.connections[name];
        (connection.vendor, connection.api_url.as_str(), connection.api_key.is_some())
    };
    assert_eq!(found("default"), (Vendor::OpenAiChat, "http://127.0.0.1:11434/v1", false));
    assert_eq!(found("other"), (Vendor::OpenAiChat, "http://127.0.0.1:9/v1", false));
}

#[test]
fn a_credential_written_out_in_a_header_is_warned_of() {
    let written = "profiles:\n  default:\n    provider: ollama\n    model: m\n    \
                   extra_headers:\n      X-Tenant: plain\n      X-Api-Key: canary-2-of-headers\n";
    let loaded = Folder::new(&[("providers.yaml", written)]).load().unwrap();
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    let warning = &loaded.warnings[0];
    assert!(warning.contains(":7:18: `profiles.default.extra_headers.X-Api-Key`"), "{warning}");
    assert!(!format!("{warning} {loaded:?}").contains("canary-2"));
}

#[test]
fn a_vendor_and_a_model_stand_for_a_profile_wherever_one_is_named() {
    let providers = "profiles:\n  default: {provider: rehearsal}\n  big:\n    \
                     provider: anthropic\n    model: m\n    api_key: '${KEY}'\n    \
                     max_output_tokens: 77\n    context_window: 2000\n";
    let load = |hive: &str, agent: &str| {
        let files =
            [("providers.yaml", providers), ("skep.yaml", hive), ("teams/main/config.yaml", agent)];
        Folder::new(&files).load_with(&[("KEY", "key-of-the-test")]).unwrap()
    };
    let id = "anthropic:claude:v2";
    for (hive, agent) in [
        (format!("defaults: {{profile: '{id}'}}\n"), String::new()),
        (String::new(), format!("profile: '{id}'\n")),
    ] {
        let loaded = load(&hive, &agent);
        let profile = &super::load_tests::agent(&loaded, "main").profile;
        // The provider of the profile `big` answers; what is known of its model is not known here.
        assert_eq!((profile.name.as_str(), profile.model.as_str()), ("big", "claude:v2"));
        assert_eq!((profile.max_output_tokens, profile.context_window), (77, None));
    }
    let told = |agent: &str| {
        let loaded = load("", agent);
        loaded
            .broken
            .values()
            .next()
            .unwrap()
            .to_string()
            .split("config.yaml")
            .nth(1)
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        told("profile: 'antropic:x'\n"),
        ":1:10: `profile`: there is no profile with the provider `antropic`; expected one of \
         anthropic, rehearsal; did you mean `anthropic`?"
    );
    assert_eq!(
        told("profile: 'anthropic:'\n"),
        ":1:10: `profile`: `` is no model; expected `anthropic:` and the model's name at the vendor"
    );
}

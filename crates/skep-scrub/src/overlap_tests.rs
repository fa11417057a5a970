use crate::tests::{scrubber, scrubber_with, streamed};

/// What is left of one of two secrets that overlap would be the secret, but for some letters.
#[test]
fn of_secrets_that_overlap_nothing_is_left() {
    let scrubber = scrubber(&["abcdefgh12345678T", "Tq_A8f3Kd92LmQ0zXw7Pe", "Pe with more words"]);
    for text in [
        "it abcdefgh12345678Tq_A8f3Kd92LmQ0zXw7Pe ends",
        "it abcdefgh12345678%54q_A8f3Kd92LmQ0zXw7Pe ends",
        "it abcdefgh12345678Tq_A8f3Kd92LmQ0zXw7Pe with more words ends",
    ] {
        assert_eq!(scrubber.clean(text), "it [secret:s0] ends", "{text}");
        for cut in 1..text.len() {
            let (one, two) = text.split_at(cut);
            assert_eq!(streamed(&scrubber, &[one, two]), "it [secret:s0] ends", "{one}|{two}");
        }
    }
}

/// Of two hives with other secrets of the same length, the same is shown around them: else who has
/// one sent back to him, between letters of his own, learns of which letters it is.
#[test]
fn what_looks_like_a_token_around_a_secret_tells_nothing_of_it() {
    let secrets = ["aaaabbbbccccdddd", "aB3dE5gH7jK9mN1p", "0123456789012345", "a word or 2 more"];
    let key = "-----BEGIN PRIVATE KEY-----\n*\n-----END PRIVATE KEY-----";
    for around in [
        "npm_*xxxxxxxxxxxxxxxxxxxx",
        "npm_*",
        "1*:Axxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "token=*npm_a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5a1B2c3",
        "npm_a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5a1B2c3* and more",
        "\\u006epm_*xxxxxxxxxxxxxxxxxxxx",
        key,
    ] {
        let shown = secrets.map(|secret| {
            let scrubber = scrubber(&[secret]);
            let text = around.replace('*', secret);
            let cleaned = scrubber.clean(&text).into_owned();
            assert!(!cleaned.contains(secret), "{text}: {cleaned}");
            assert_eq!(streamed(&scrubber, &text.split("").collect::<Vec<_>>()), cleaned);
            cleaned
        });
        assert_eq!(shown[1..], [shown[0].as_str(); 3], "{around}");
    }
    // A token that stands beside one is found, and so is a key of which only some lines are known.
    let known = scrubber(&[secrets[1]]);
    let token = format!("npm_{}", "a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5a1B2c3");
    let text = format!("{token}{}", secrets[1]);
    assert_eq!(known.clean(&text), "[secret:format.npm-token]");
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let lines = format!("{line}\n  {line}\n  c2hvcnQ=");
    let known = scrubber(&[&format!("-----BEGIN KEY-----\n{line}\nwhatever\n")]);
    assert_eq!(known.clean(&key.replace('*', &lines)), "[secret:format.private-key]");
}

/// Else an agent could find a secret of people by which of its own values is seen before it.
#[test]
fn a_value_of_an_agent_that_overlaps_with_one_of_people_is_not_seen() {
    let people = ["Tq_A8f3Kd92LmQ0zXw7Pe", "correct horse battery staple"];
    let agents = ["zz9yy8xx7ww6vv55T", "zz9yy8xx7ww6vv55correct", "Peuu1tt2ss3rr4qq5"];
    let without = scrubber_with(&people, &[]);
    let with = scrubber_with(&people, &agents);
    for text in [
        "zz9yy8xx7ww6vv55Tq_A8f3Kd92LmQ0zXw7Pe and more",
        "zz9yy8xx7ww6vv55%54q_A8f3Kd92LmQ0zXw7Pe and more",
        "Tq_A8f3Kd92LmQ0zXw7Peuu1tt2ss3rr4qq5 and more",
        "zz9yy8xx7ww6vv55correct horse battery staple and more",
    ] {
        let shown = without.clean(text);
        assert_ne!(shown, text);
        assert_eq!(with.clean(text), shown);
        for cut in 1..text.len() {
            let (one, two) = text.split_at(cut);
            assert_eq!(streamed(&with, &[one, two]), shown, "{one}|{two}");
        }
    }
    assert_eq!(with.clean("a zz9yy8xx7ww6vv55T b"), "a [secret:a0] b");
}

/// Ids, hashes, hosts and names of files are full of what may be a value: an agent could take them
/// from all others.
#[test]
fn a_value_of_an_agent_is_no_part_of_a_longer_name() {
    let value = "85f3-ec6febb28361";
    let scrubber = scrubber_with(&[], &[value]);
    for around in [
        "{\"id\":\"01a1ed9e-c0f0-712b-*\"}",
        "skep approve 01a1ed9e-c0f0-712b-*, or not",
        "https://*.example.org/a",
        "https://www.*/",
        "x* and *x",
        "at a_* or *_b and *.txt",
        // A label that was chosen to be the value in hex or base64.
        "https://383566332d656336666562623238333631.example/a",
        "https://www.383566332d656336666562623238333631/a",
        "https://x-ODVmMy1lYzZmZWJiMjgzNjE.example/a",
    ] {
        let text = around.replace('*', value);
        assert_eq!(scrubber.clean(&text), text);
        assert_eq!(streamed(&scrubber, &text.split("").collect::<Vec<_>>()), text);
    }
    for around in [
        "*",
        "key=*&more",
        "Bearer *.",
        "{\"a\":\"one\\n*\\n\"}",
        "https://example.org/*/x?y=*",
        "\u{1b}[31m*\u{1b}[m",
        "- * -",
        "_*_",
        "é*é",
        "%3D*%26",
    ] {
        let (text, shown) = (around.replace('*', value), around.replace('*', "[secret:a0]"));
        assert_eq!(scrubber.clean(&text), shown);
        assert_eq!(streamed(&scrubber, &text.split("").collect::<Vec<_>>()), shown);
    }
    // In base64 it always stands among other letters.
    assert_eq!(scrubber.clean("eDg1ZjMtZWM2ZmViYjI4MzYxeA=="), "e[secret:a0]eA==");
    assert_eq!(scrubber.clean("383566332d656336666562623238333631."), "[secret:a0].");
}

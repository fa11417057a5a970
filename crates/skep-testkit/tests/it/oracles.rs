//! Effect counter and canaries.

use std::fs;

use skep_testkit::canary::{Canary, CanaryFile};
use skep_testkit::effects::Effects;

#[test]
fn effects_are_counted_per_call() {
    let folder = tempfile::tempdir().unwrap();
    let effects = Effects::at(&folder.path().join("effects"));
    assert_eq!(effects.total().unwrap(), 0);
    for call in ["a", "b", "a"] {
        effects.record(call).unwrap();
    }
    let counts: Vec<(String, usize)> = effects.counts().unwrap().into_iter().collect();
    assert_eq!(counts, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
    assert_eq!(effects.repeated().unwrap(), ["a"]);
}

/// Written independently of the search: whole encodings of a text around the secret.
fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let mut word = [0u8; 4];
        word[1..=group.len()].copy_from_slice(group);
        let word = u32::from_be_bytes(word);
        for digit in 0..=group.len() {
            out.push(char::from(alphabet[(word >> (18 - 6 * digit)) as usize & 63]));
        }
    }
    out
}

#[test]
fn a_canary_is_found_in_every_disguise() {
    let standard = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let for_url = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for canary in [Canary::new("key"), Canary::awkward("kéy"), Canary::of("exactly-12-c")] {
        let secret = canary.value();
        assert_eq!(canary.find_in(format!("x{secret}y").as_bytes()), Some("plain"));
        let json = serde_json::to_string(&format!("a\n{secret}")).unwrap();
        assert!(canary.find_in(json.as_bytes()).is_some());
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(canary.find_in(hex.as_bytes()), Some("hex"));
        for before in ["", "u", "us", "use", "user:"] {
            for alphabet in [standard, for_url] {
                let text = base64(format!("{before}{secret} and more").as_bytes(), alphabet);
                assert_eq!(canary.find_in(text.as_bytes()), Some("base64"), "{before}");
            }
        }
        assert_eq!(canary.find_in(b"canary-key- and nothing else"), None);
    }
    let awkward = Canary::of("a b/c&d=e?f+ghij");
    assert_eq!(awkward.find_in(b"?q=a%20b%2Fc%26d%3De%3Ff%2Bghij"), Some("url"));
    assert_ne!(Canary::new("key").value(), Canary::new("key").value());
}

#[test]
fn a_canary_is_found_below_a_folder_and_in_names() {
    let folder = tempfile::tempdir().unwrap();
    let canary = Canary::new("key");
    fs::create_dir(folder.path().join("deep")).unwrap();
    fs::write(folder.path().join("clean"), "nothing").unwrap();
    assert_eq!(canary.find_below(folder.path()).unwrap(), []);
    let log = folder.path().join("deep/log");
    fs::write(&log, [&[0xff, 0][..], canary.value().as_bytes()].concat()).unwrap();
    let found = canary.find_below(folder.path()).unwrap();
    assert_eq!((found.len(), &found[0].path, found[0].form), (1, &log, "plain"));
    fs::write(folder.path().join(canary.value()), "").unwrap();
    assert_eq!(canary.find_below(folder.path()).unwrap().len(), 2);
}

#[test]
fn a_canary_file_notices_every_touch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = CanaryFile::plant(&path).unwrap();
    assert!(file.is_untouched());
    fs::read(&path).unwrap();
    assert!(file.is_untouched(), "reading shows in the canary's content elsewhere, not here");
    fs::write(&path, "other").unwrap();
    assert!(!file.is_untouched());
    let file = CanaryFile::plant(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!file.is_untouched());
}

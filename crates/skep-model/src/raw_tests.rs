#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// However an answer is cut into pieces, a key in it is seen.
#[test]
fn a_key_is_seen_across_pieces() {
    let key = "sk-12345678";
    let answer = format!("before {key} after").into_bytes();
    for size in 1..answer.len() {
        let values = vec![SecretString::from(key.to_owned())];
        let mut secrets = Secrets { values, last: Vec::new() };
        let seen = answer.chunks(size).any(|piece| secrets.come_in(piece));
        assert!(seen, "pieces of {size} bytes");
        let values = vec![SecretString::from("sk-1234567X".to_owned())];
        let mut others = Secrets { values, last: Vec::new() };
        assert!(!answer.chunks(size).any(|piece| others.come_in(piece)));
    }
    let mut none = Secrets { values: Vec::new(), last: Vec::new() };
    assert!(!none.come_in(&answer));
}

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

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
    let result = |is_error| CallResult { id: "a".into(), texts: vec!["x", "y"], is_error };
    assert_eq!(marked(&result(false)), "x\n\ny");
    assert_eq!(marked(&result(true)), "Error: x\n\ny");
}

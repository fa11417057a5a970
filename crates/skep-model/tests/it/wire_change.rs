//! A session that changes its vendor: every wire takes what the others left behind.

use serde_json::json;
use skep_core::provider::ModelRequest;
use skep_testkit::model::{Reply, ScriptedModel, Wire, signature_of};

use crate::rows::{follow, joined, request, step, user};
use crate::vendors::{KEY, provider_with};

/// Twice around all wires, with thinking, calls and ids that no other vendor would take. The
/// server refuses what the real services refuse: foreign signatures among it.
#[tokio::test]
async fn a_session_goes_from_vendor_to_vendor_and_back() {
    let server = ScriptedModel::start().await.unwrap();
    server.require_key(KEY);
    let mut rows = Vec::new();
    for (round, wire) in Wire::ALL.into_iter().cycle().take(6).enumerate() {
        let provider = provider_with(wire, &server, Default::default());
        let turn = format!("turn {round}");
        rows.push(user(&turn, &turn));
        let odd_id = format!("functions.read:{round}/{}", "x".repeat(60));
        server.push(
            Reply::new()
                .thinking(&format!("thought {round}"))
                .redacted_thinking("opaque")
                .text("I look.")
                .tool("read", json!({"file_path": "a"}))
                .tool_with_id(&odd_id, "read", json!({})),
        );
        server.push(Reply::say("done"));
        for _ in 0..2 {
            let request = ModelRequest { thinking: Some(1024), ..request(rows.clone()) };
            let (events, failure) = follow(provider.as_ref(), request).await;
            assert_eq!(failure, None, "{wire:?} in round {round}: {:?}", server.refusals());
            rows.extend(step(&turn, &joined(events)));
        }
    }
    assert_eq!(server.refusals(), Vec::<String>::new());

    // Each vendor is shown its own thinking of both rounds, and nobody else's.
    let last = |wire: Wire| {
        let requests = server.requests();
        let request = requests.into_iter().rfind(|request| request.wire == wire).unwrap();
        request.body.to_string()
    };
    for (at, wire) in Wire::ALL.into_iter().enumerate() {
        let body = last(wire);
        for round in 0..6 {
            let own = round % 3 == at && wire != Wire::OpenAiChat;
            let proof = signature_of(&format!("thought {round}"));
            assert_eq!(body.contains(&proof), own, "{wire:?} and round {round}");
        }
    }
    let results = server.requests().last().unwrap().tool_results();
    assert_eq!(results.len(), 12);
}

/// In the middle of a turn too: the results of one vendor's calls go to another.
#[tokio::test]
async fn a_turn_goes_on_at_another_vendor() {
    let server = ScriptedModel::start().await.unwrap();
    for (first, second) in Wire::ALL.into_iter().flat_map(|a| Wire::ALL.map(|b| (a, b))) {
        let mut rows = vec![user("turn", "go")];
        let call = || Reply::new().thinking("hm").tool("read", json!({}));
        server.push_all([call(), call(), Reply::say("done")]);
        for wire in [first, second, first] {
            let provider = provider_with(wire, &server, Default::default());
            let request = ModelRequest { thinking: Some(1024), ..request(rows.clone()) };
            let (events, failure) = follow(provider.as_ref(), request).await;
            assert_eq!(failure, None, "{first:?} {second:?}: {:?}", server.refusals());
            rows.extend(step("turn", &joined(events)));
        }
    }
    assert_eq!(server.refusals(), Vec::<String>::new());
}

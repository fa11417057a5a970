//! Who gets a place, and when.
#![allow(clippy::unwrap_used)]

use super::*;

#[tokio::test(start_paused = true)]
async fn gate_an_approved_call_is_never_refused_because_its_agent_is_busy() {
    let (admission, agent) = (Arc::new(Admission::default()), AgentId(1));
    let places: Vec<_> = (0..AT_ONCE).map(|_| admission.enter_now(agent, None).unwrap()).collect();
    let enter = |patience| {
        let admission = Arc::clone(&admission);
        let cancel = CancellationToken::new();
        tokio::spawn(async move { admission.enter(agent, None, patience, &cancel).await })
    };
    let plain: Vec<_> = (0..MOST_WAITING).map(|_| enter(Patience::Bounded)).collect();
    tokio::task::yield_now().await;
    let approved = enter(Patience::Unbounded);
    assert!(matches!(enter(Patience::Bounded).await.unwrap(), AdmissionResult::Full(_)));
    for task in plain {
        let refused = task.await.unwrap();
        assert!(matches!(refused, AdmissionResult::Full("its other calls took too long")));
    }
    assert!(!approved.is_finished());
    drop(places);
    assert!(matches!(approved.await.unwrap(), AdmissionResult::In { .. }));
}

/// Whatever one user takes, another user and an operator have a place at once.
#[tokio::test(start_paused = true)]
async fn gate_no_user_takes_the_places_of_others() {
    let (admission, agent) = (Arc::new(Admission::default()), AgentId(1));
    let now = |user| admission.enter_now(agent, user);
    let anna: Vec<_> = std::iter::from_fn(|| now(Some("anna"))).take(AT_ONCE).collect();
    assert_eq!(anna.len(), 3);
    let enter = |user: &'static str| {
        let (admission, cancel) = (Arc::clone(&admission), CancellationToken::new());
        let patience = Patience::Bounded;
        tokio::spawn(async move { admission.enter(agent, Some(user), patience, &cancel).await })
    };
    let waiting: Vec<_> = (0..MOST_WAITING).map(|_| enter("anna")).collect();
    tokio::task::yield_now().await;
    assert!(matches!(enter("anna").await.unwrap(), AdmissionResult::Full(_)));
    let berta = now(Some("berta")).unwrap();
    assert!(now(Some("berta")).is_none(), "the last one is for operators");
    let operator = now(None).unwrap();
    // Who waits is served when somebody leaves, and has its own share of what waits.
    let carla = enter("carla");
    drop(operator);
    drop(berta);
    assert!(matches!(carla.await.unwrap(), AdmissionResult::In { .. }));
    drop((anna, waiting));
}

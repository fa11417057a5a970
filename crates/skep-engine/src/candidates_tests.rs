#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

const BUSY: RetryCode = RetryCode::Overloaded;

fn passing(until: Option<Millis>) -> (ModelError, Option<Millis>) {
    (ModelError::Passing { code: BUSY, text: "busy".to_owned(), retry_after: None }, until)
}

fn auth() -> (ModelError, Option<Millis>) {
    (ModelError::Auth { text: "key".to_owned() }, None)
}

#[test]
fn what_a_step_ends_with_when_nobody_answered() {
    let rejected = || (ModelError::Rejected { text: "no".to_owned() }, None);
    let missing = || (ModelError::NotFound { text: "gone".to_owned() }, None);
    let failed = |code, text: &str| TurnEnd::Failed { code, text: text.to_owned() };
    let cases = [
        (vec![passing(None)], TurnEnd::Retry { code: BUSY, text: "busy".to_owned() }),
        (vec![auth()], failed(FailureCode::ProviderAuth, "key (profile p0)")),
        (vec![missing()], failed(FailureCode::ProviderRejected, "gone (profile p0)")),
        (
            vec![auth(), missing()],
            failed(FailureCode::ProviderAuth, "profile p0: key; profile p1: gone"),
        ),
        (vec![passing(Some(9))], TurnEnd::Park { until: 9, code: BUSY, reason: "busy".to_owned() }),
        (
            vec![passing(None), auth()],
            TurnEnd::Retry { code: BUSY, text: "profile p0: busy; profile p1: key".to_owned() },
        ),
        (
            vec![passing(Some(9)), passing(None)],
            TurnEnd::Retry { code: BUSY, text: "profile p0: busy; profile p1: busy".to_owned() },
        ),
        (
            vec![passing(Some(9)), auth(), passing(Some(5))],
            TurnEnd::Park {
                until: 5,
                code: BUSY,
                reason: "profile p0: busy; profile p1: key; profile p2: busy".to_owned(),
            },
        ),
        (
            vec![auth(), auth()],
            failed(FailureCode::ProviderAuth, "profile p0: key; profile p1: key"),
        ),
        (
            vec![passing(None), rejected()],
            failed(FailureCode::ProviderRejected, "profile p0: busy; profile p1: no"),
        ),
    ];
    for (errors, expected) in cases {
        let given_up = errors.into_iter().enumerate().map(|(index, (error, until))| GivenUp {
            profile: format!("p{index}"),
            error,
            until,
        });
        assert_eq!(end_of(given_up.collect()), expected);
    }
}

//! Every limit holds from its own number on, and says so.
#![allow(clippy::unwrap_used)]

use super::*;

fn dollars(amount: f64) -> Money {
    Money::from_dollars(amount).unwrap()
}

fn account(tokens: u64, cost: f64, unpriced_tokens: u64, held: Held) -> Account {
    let spent = Spend { calls: 1, tokens, cost: dollars(cost), unpriced_calls: 0, unpriced_tokens };
    Account { spent, unsettled: Spend::default(), held }
}

#[test]
fn every_limit_holds_from_its_own_number_on() {
    let caps = |tokens, cost: Option<f64>| Caps { tokens, cost: cost.map(dollars) };
    let need = |tokens, cost: Option<f64>| Need { tokens, cost: cost.map(dollars) };
    let nothing = Held::default();
    let held =
        |tokens, cost| Held { calls: 1, tokens, cost: dollars(cost), unpriced_tokens: tokens };
    let (tokens, cost) = (FailureCode::LimitTokens, FailureCode::LimitCost);
    let much = UNPRICED_TOKENS;
    let cases = [
        (caps(None, None), account(u64::MAX, 1e6, u64::MAX, nothing), need(9, Some(1.0)), None),
        (caps(Some(10), None), account(5, 0.0, 0, nothing), need(5, Some(1.0)), None),
        (
            caps(Some(10), None),
            account(5, 0.0, 0, nothing),
            need(6, Some(0.0)),
            Some((tokens, false)),
        ),
        (
            caps(Some(10), None),
            account(5, 0.0, 0, held(1, 0.0)),
            need(5, None),
            Some((tokens, true)),
        ),
        (caps(None, Some(3.0)), account(9, 2.0, 0, nothing), need(9, Some(1.0)), None),
        (
            caps(None, Some(3.0)),
            account(9, 2.000_000_001, 0, nothing),
            need(9, Some(1.0)),
            Some((cost, false)),
        ),
        (
            caps(None, Some(3.0)),
            account(9, 1.0, 0, held(1, 1.5)),
            need(9, Some(1.0)),
            Some((cost, true)),
        ),
        // Free of charge: never held back by what others cost.
        (caps(None, Some(3.0)), account(9, 9.0, 0, held(1, 1.5)), need(9, Some(0.0)), None),
        (
            caps(None, Some(0.0)),
            account(0, 0.0, 0, nothing),
            need(9, Some(0.1)),
            Some((cost, false)),
        ),
        // Of unknown price: tokens limit, and money does not.
        (caps(None, Some(1.0)), account(9, 5.0, much - 9, nothing), need(9, None), None),
        (
            caps(None, Some(1.0)),
            account(9, 0.0, much - 8, nothing),
            need(9, None),
            Some((tokens, false)),
        ),
        (
            caps(None, Some(1.0)),
            account(9, 0.0, much - 9, held(1, 0.0)),
            need(9, None),
            Some((tokens, true)),
        ),
        (caps(Some(much * 2), Some(1.0)), account(much, 0.0, much, nothing), need(9, None), None),
        // Numbers that meet their end are no way through.
        (
            caps(Some(10), None),
            account(u64::MAX, 0.0, 0, held(u64::MAX, 0.0)),
            need(u64::MAX, None),
            Some((tokens, false)),
        ),
    ];
    for (caps, account, need, expected) in cases {
        let found = admit(Scope::Hive, &caps, &account, &need, 0).err();
        let found = found.map(|over| (over.code, over.by_holds));
        assert_eq!(found, expected, "{caps:?} {account:?} {need:?}");
    }
}

#[test]
fn what_was_never_settled_counts() {
    let caps = Caps { tokens: None, cost: Some(dollars(3.0)) };
    let lost = Spend { cost: dollars(2.5), ..Spend::default() };
    let account = Account { unsettled: lost, ..Account::default() };
    let need = Need { tokens: 1, cost: Some(dollars(1.0)) };
    assert!(admit(Scope::Hive, &caps, &account, &need, 0).is_err());
}

#[test]
fn a_refusal_says_limit_spent_held_when_and_which_key() {
    let caps = Caps { tokens: Some(1000), cost: Some(dollars(10.0)) };
    let held = Held { calls: 2, tokens: 1, cost: dollars(1.5), unpriced_tokens: 0 };
    let account = account(10, 8.25, 0, held);
    let need = Need { tokens: 9, cost: Some(dollars(2.0)) };
    let day = 24 * 3_600_000;
    let now = 20_000 * day + 3_600_000 * 18 + 60_000 * 45 + 1;
    let said = |scope, need: &Need| admit(scope, &caps, &account, need, now).unwrap_err().text;
    assert_eq!(
        said(Scope::Hive, &need),
        "The day's limit of $10.00 does not leave room for this call, which may use $2.00: $8.25 \
         is spent and $1.50 held by calls under way. Calls go on at 00:00 UTC, in 5 h 14 min, or \
         raise limits.cost_per_day in skep.yaml."
    );
    assert_eq!(
        said(Scope::Turn(Some("main")), &Need { tokens: 990, cost: None }),
        "A turn's limit of 1000 tokens does not leave room for this call, which may use 990 \
         tokens: 10 are used and 1 held by calls under way. Write again to go on in a new turn, or \
         raise budgets.tokens_per_turn in teams/main/config.yaml."
    );
    let agent = said(Scope::Agent("main"), &need);
    assert!(agent.starts_with("The day's limit of the agent main of $10.00"), "{agent}");
    assert!(agent.ends_with("raise budgets.cost_per_day in teams/main/config.yaml."), "{agent}");
}

#[test]
fn people_are_warned_when_most_is_used() {
    let caps = Caps { tokens: None, cost: Some(dollars(10.0)) };
    let of = |cost| warning(Scope::Hive, &caps, &account(1, cost, 0, Held::default()));
    assert_eq!(of(7.99), None);
    let told = "$8.00 of $10.00 is spent (limits.cost_per_day in skep.yaml)";
    assert_eq!(of(8.0).as_deref(), Some(told));
    let caps = Caps { tokens: Some(100), cost: None };
    let told = warning(Scope::Agent("a"), &caps, &account(80, 0.0, 0, Held::default()));
    let text = "80 of 100 tokens are used (budgets.tokens_per_day in teams/a/config.yaml)";
    assert_eq!(told.as_deref(), Some(text));
}

#[test]
fn what_is_held_is_given_back_whole() {
    let mut held = Held::default();
    let needs = [Need { tokens: 5, cost: Some(Money(7)) }, Need { tokens: 3, cost: None }];
    needs.iter().for_each(|need| held.take(need));
    assert_eq!(held, Held { calls: 2, tokens: 8, cost: Money(7), unpriced_tokens: 3 });
    needs.iter().for_each(|need| held.give_back(need));
    assert_eq!(held, Held::default());
}

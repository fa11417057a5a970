//! Limits of what model calls may use, and whether another call fits. A call takes what it may use
//! at the most in advance, and gives back what it did not use.

use crate::Millis;
use crate::vocab::failure::FailureCode;
use crate::vocab::money::{Money, Price};
use crate::vocab::spend::{Spend, next_day};

/// Where only the cost is limited, calls whose price nobody knows have this many tokens: an unknown
/// cost is not a cost of nothing.
pub const UNPRICED_TOKENS: u64 = 2_000_000;
/// Part of a limit of which people are warned when it is used.
const WARN_PERCENT: u64 = 80;

/// What a call may use at the most: its request as counted and all the room of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    pub tokens: u64,
    /// `None` if the price is unknown.
    pub cost: Option<Money>,
}

impl Need {
    pub fn new(request: u64, answer: u64, price: Option<&Price>) -> Self {
        Self {
            tokens: request.saturating_add(answer),
            cost: price.map(|price| price.at_most(request, answer)),
        }
    }
}

/// What calls under way have taken from a limit in advance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub calls: u64,
    pub tokens: u64,
    pub cost: Money,
    pub unpriced_tokens: u64,
}

impl Held {
    pub fn take(&mut self, need: &Need) {
        self.calls += 1;
        self.tokens = self.tokens.saturating_add(need.tokens);
        match need.cost {
            Some(cost) => self.cost = self.cost.plus(cost),
            None => self.unpriced_tokens = self.unpriced_tokens.saturating_add(need.tokens),
        }
    }

    pub fn join(&mut self, other: &Self) {
        self.calls += other.calls;
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost = self.cost.plus(other.cost);
        self.unpriced_tokens = self.unpriced_tokens.saturating_add(other.unpriced_tokens);
    }

    pub fn give_back(&mut self, need: &Need) {
        self.calls = self.calls.saturating_sub(1);
        self.tokens = self.tokens.saturating_sub(need.tokens);
        match need.cost {
            Some(cost) => self.cost = Money((self.cost.0.saturating_sub(cost.0)).max(0)),
            None => self.unpriced_tokens = self.unpriced_tokens.saturating_sub(need.tokens),
        }
    }
}

/// One limit's side of the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// As vendors counted it.
    pub spent: Spend,
    /// Calls that broke off, or were lost with a process: what they may have used, as we count.
    pub unsettled: Spend,
    pub held: Held,
}

impl Account {
    /// What both came to.
    pub fn join(&mut self, other: &Self) {
        self.spent.join(&other.spent);
        self.unsettled.join(&other.unsettled);
        self.held.join(&other.held);
    }

    fn tokens(&self) -> u64 {
        self.spent.tokens.saturating_add(self.unsettled.tokens)
    }

    fn cost(&self) -> Money {
        self.spent.cost.plus(self.unsettled.cost)
    }

    fn unpriced(&self) -> u64 {
        self.spent.unpriced_tokens.saturating_add(self.unsettled.unpriced_tokens)
    }
}

/// The most that may be used; nothing where nothing limits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    pub tokens: Option<u64>,
    pub cost: Option<Money>,
}

impl Caps {
    pub fn is_none(&self) -> bool {
        self.tokens.is_none() && self.cost.is_none()
    }

    /// What calls of unknown price may use, where nothing else limits their tokens.
    pub fn unpriced(&self) -> Option<u64> {
        let needed = self.cost.is_some() && self.tokens.is_none();
        needed.then_some(UNPRICED_TOKENS)
    }
}

/// What a limit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// All calls of a day.
    Hive,
    /// One agent's calls of a day.
    Agent(&'a str),
    /// Those of an agent and everybody below it.
    Team(&'a str),
    /// One turn; where the agent has a limit of its own, this is its name.
    Turn(Option<&'a str>),
}

impl Scope<'_> {
    fn limit(self) -> String {
        match self {
            Self::Hive => "The day's limit".to_owned(),
            Self::Agent(agent) => format!("The day's limit of the agent {agent}"),
            Self::Team(agent) => format!("The day's limit of the team of {agent}"),
            Self::Turn(_) => "A turn's limit".to_owned(),
        }
    }

    /// Where it is written.
    fn key(self, what: &str) -> String {
        match self {
            Self::Hive => format!("limits.{what}_per_day in skep.yaml"),
            Self::Agent(agent) => format!("budgets.{what}_per_day in teams/{agent}/config.yaml"),
            Self::Team(agent) => {
                format!("budgets.team_{what}_per_day in teams/{agent}/config.yaml")
            }
            Self::Turn(None) => format!("limits.{what}_per_turn in skep.yaml"),
            Self::Turn(Some(agent)) => {
                format!("budgets.{what}_per_turn in teams/{agent}/config.yaml")
            }
        }
    }

    fn frees(self, now: Millis) -> String {
        match self {
            Self::Turn(_) => "Write again to go on in a new turn, or raise".to_owned(),
            Self::Hive | Self::Agent(_) | Self::Team(_) => {
                let minutes = (next_day(now) - now).div_euclid(60_000);
                let (hours, minutes) = (minutes / 60, minutes % 60);
                format!("Calls go on at 00:00 UTC, in {hours} h {minutes} min, or raise")
            }
        }
    }
}

/// A limit stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    pub code: FailureCode,
    /// What, how much, until when, and what to change.
    pub text: String,
    /// It would fit if calls under way gave back what they hold: it may be worth to wait.
    pub by_holds: bool,
}

/// Whether a call may be made. What is free is not held back by what others cost.
pub fn admit(
    scope: Scope<'_>,
    caps: &Caps,
    account: &Account,
    need: &Need,
    now: Millis,
) -> Result<(), Over> {
    let held = &account.held;
    if let Some(limit) = caps.tokens {
        let used = account.tokens();
        let after = used.saturating_add(need.tokens);
        if after.saturating_add(held.tokens) > limit {
            let by_holds = after <= limit;
            let (limit, need) = (format!("{limit} tokens"), format!("{} tokens", need.tokens));
            let used = format!("{used} are used and {} held", held.tokens);
            let key = scope.key("tokens");
            let text = refusal(scope, &limit, &need, &used, &key, now);
            return Err(Over { code: FailureCode::LimitTokens, text, by_holds });
        }
    }
    match (caps.cost, need.cost) {
        (Some(limit), Some(cost)) if cost > Money::ZERO => {
            let after = account.cost().plus(cost);
            if after.plus(held.cost) <= limit {
                return Ok(());
            }
            let used = format!("{} is spent and {} held", account.cost(), held.cost);
            let key = scope.key("cost");
            let (most, by_holds) = (cost.to_string(), after <= limit);
            let text = refusal(scope, &limit.to_string(), &most, &used, &key, now);
            Err(Over { code: FailureCode::LimitCost, text, by_holds })
        }
        (Some(_), None) => unpriced(scope, caps, account, need, now),
        _ => Ok(()),
    }
}

fn unpriced(
    scope: Scope<'_>,
    caps: &Caps,
    account: &Account,
    need: &Need,
    now: Millis,
) -> Result<(), Over> {
    let Some(limit) = caps.unpriced() else { return Ok(()) };
    let after = account.unpriced().saturating_add(need.tokens);
    if after.saturating_add(account.held.unpriced_tokens) <= limit {
        return Ok(());
    }
    let text = format!(
        "Models of unknown price have {limit} tokens beside {}; {} are used and {} held by calls \
         under way, and this call may use {}. {} it: give the profile a price in providers.yaml, \
         or set {}.",
        scope.key("cost"),
        account.unpriced(),
        account.held.unpriced_tokens,
        need.tokens,
        scope.frees(now),
        scope.key("tokens"),
    );
    Err(Over { code: FailureCode::LimitTokens, text, by_holds: after <= limit })
}

fn refusal(
    scope: Scope<'_>,
    limit: &str,
    need: &str,
    used: &str,
    key: &str,
    now: Millis,
) -> String {
    format!(
        "{} of {limit} does not leave room for this call, which may use {need}: {used} by calls \
         under way. {} {key}.",
        scope.limit(),
        scope.frees(now),
    )
}

/// The warning once most of a limit is used.
pub fn warning(scope: Scope<'_>, caps: &Caps, account: &Account) -> Option<String> {
    let most = |limit: u64| u128::from(limit) * u128::from(WARN_PERCENT) / 100;
    let tokens = caps.tokens.filter(|limit| u128::from(account.tokens()) >= most(*limit));
    if let Some(limit) = tokens {
        let (used, key) = (account.tokens(), scope.key("tokens"));
        return Some(format!("{used} of {limit} tokens are used ({key})"));
    }
    let nano = |money: Money| u64::try_from(money.0).unwrap_or(0);
    let cost = caps.cost.filter(|limit| u128::from(nano(account.cost())) >= most(nano(*limit)))?;
    Some(format!("{} of {cost} is spent ({})", account.cost(), scope.key("cost")))
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;

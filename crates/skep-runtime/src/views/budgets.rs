//! Limits of money and tokens as the doors show them.

use serde::Serialize;
use utoipa::ToSchema;

use skep_core::Millis;
use skep_core::budget::{Account, Caps};
use skep_core::ids::AgentName;
use skep_core::money::Money;
use skep_core::settings::AgentState;
use skep_core::spend;
use skep_guard::clock;

use crate::hive::Hive;

/// What a day's calls have used of what they may.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BudgetPage {
    /// Of all agents together.
    pub hive: BudgetInfo,
    /// Agents that used something today, or have a limit of their own.
    pub agents: Vec<AgentBudget>,
    /// What one turn may use, where the hive says so.
    pub per_turn: CapsInfo,
    /// When the sums begin anew.
    pub until: Millis,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AgentBudget {
    pub agent: AgentName,
    #[serde(flatten)]
    pub budget: BudgetInfo,
    /// What one of its turns may use, where its settings say so.
    pub per_turn: CapsInfo,
    /// Of it and everybody below it, where that is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team: Option<BudgetInfo>,
}

/// Absent where nothing limits it.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct CapsInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub cost: Option<Money>,
}

impl CapsInfo {
    fn new(caps: Caps) -> Self {
        Self { tokens: caps.tokens, cost: caps.cost }
    }
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BudgetInfo {
    pub limits: CapsInfo,
    pub calls: u64,
    /// As vendors counted them.
    pub tokens: u64,
    /// Dollars, of calls whose price is known.
    #[schema(value_type = f64)]
    pub cost: Money,
    /// Of calls whose price is not known.
    pub unpriced_tokens: u64,
    /// Of calls that broke off or were lost: what they may have used, as we count.
    pub unsettled_tokens: u64,
    #[schema(value_type = f64)]
    pub unsettled_cost: Money,
    /// Taken in advance by calls under way.
    pub held_calls: u64,
    pub held_tokens: u64,
    #[schema(value_type = f64)]
    pub held_cost: Money,
}

impl BudgetInfo {
    fn new(caps: Caps, account: &Account) -> Self {
        let Account { spent, unsettled, held } = account;
        Self {
            limits: CapsInfo::new(caps),
            calls: spent.calls,
            tokens: spent.tokens,
            cost: spent.cost,
            unpriced_tokens: spent.unpriced_tokens,
            unsettled_tokens: unsettled.tokens,
            unsettled_cost: unsettled.cost,
            held_calls: held.calls,
            held_tokens: held.tokens,
            held_cost: held.cost,
        }
    }
}

impl Hive {
    pub fn budgets(&self) -> BudgetPage {
        let now = clock::now_ms();
        let active = self.shared.snapshot();
        let settings = &active.settings;
        let ledger = &self.shared.env().ledger;
        let mut accounts = ledger.agents(now);
        let mut agents = Vec::new();
        for (name, state) in settings.agents.iter() {
            let account = active.ids.get(name).and_then(|id| accounts.remove(id));
            let AgentState::Active(agent) = state else { continue };
            let own = &agent.budgets;
            let limits = [own.day, own.turn, own.team];
            if account.is_none() && limits.iter().all(Caps::is_none) {
                continue;
            }
            let team = || ledger.team(&active.members(name), now);
            agents.push(AgentBudget {
                agent: name.clone(),
                budget: BudgetInfo::new(own.day, &account.unwrap_or_default()),
                per_turn: CapsInfo::new(own.turn),
                team: (!own.team.is_none()).then(|| BudgetInfo::new(own.team, &team())),
            });
        }
        let limits = &settings.limits;
        BudgetPage {
            hive: BudgetInfo::new(limits.day_caps(), &ledger.hive(now)),
            agents,
            per_turn: CapsInfo::new(limits.per_turn),
            until: spend::next_day(now),
        }
    }
}

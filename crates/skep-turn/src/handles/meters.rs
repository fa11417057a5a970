//! What the hive counts while it works. Every set of labels is bounded: a model cannot make the
//! list longer by the names it says.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use skep_core::engine::FailureCode;
use skep_core::event::{Event, EventKind};
use skep_core::message::Meta;

/// Profiles told apart; calls of further ones are counted together.
const PROFILES: usize = 64;
/// Tools told apart, likewise.
const TOOLS: usize = 1024;
const OTHER: &str = "other";

#[derive(Default)]
pub struct Meters {
    turns: Family<Outcome, Counter>,
    calls: Family<Profile, Counter>,
    tokens: Family<Tokens, Counter>,
    cost: Family<Profile, Counter<f64, AtomicU64>>,
    tools: Family<Tool, Counter>,
    approvals: Family<Decided, Counter>,
    over_budget: Family<Outcome, Counter>,
    known: Mutex<KnownLabels>,
}

/// Locked for a look-up per call.
#[derive(Default)]
struct KnownLabels {
    tools: BTreeSet<String>,
    profiles: BTreeSet<String>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Profile {
    profile: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Tokens {
    profile: String,
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Tool {
    tool: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Decided {
    state: &'static str,
}

impl Meters {
    /// Tools there are now; what was counted of others stays.
    pub fn know(&self, tools: impl IntoIterator<Item = String>) {
        let known = &mut self.known().tools;
        known.extend(tools.into_iter().take(TOOLS.saturating_sub(known.len())));
    }

    fn known(&self) -> MutexGuard<'_, KnownLabels> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names them to whoever shows them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("skep_turns", "Turns that ended, by outcome", self.turns.clone());
        registry.register("skep_model_calls", "Model calls that were answered", self.calls.clone());
        registry.register("skep_model_tokens", "Tokens as vendors count them", self.tokens.clone());
        let help = "Cost of those calls whose price is known";
        let dollars = Unit::Other("dollars".to_owned());
        registry.register_with_unit("skep_model_cost", help, dollars, self.cost.clone());
        let help = "Model calls that a limit of money or tokens kept from being made";
        registry.register("skep_budget_refusals", help, self.over_budget.clone());
        registry.register("skep_tool_calls", "Tool calls that ended", self.tools.clone());
        let help = "Questions to people: asked, and what became of them";
        registry.register("skep_approvals", help, self.approvals.clone());
    }

    /// Called with every committed event.
    pub fn note(&self, event: &Event) {
        match &event.kind {
            EventKind::TurnEnd { code, .. } => {
                let outcome = code.clone().unwrap_or_else(|| "done".to_owned());
                self.turns.get_or_create(&Outcome { outcome }).inc();
            }
            EventKind::ToolEnd { tool, is_error, .. } => {
                let tool =
                    self.known().tools.get(tool).cloned().unwrap_or_else(|| OTHER.to_owned());
                let outcome = if *is_error { "error" } else { "ok" };
                self.tools.get_or_create(&Tool { tool, outcome }).inc();
            }
            EventKind::ApprovalAsked { .. } => {
                self.approvals.get_or_create(&Decided { state: "asked" }).inc();
            }
            EventKind::ApprovalDecided { state, .. } => {
                self.approvals.get_or_create(&Decided { state: state.as_str() }).inc();
            }
            _ => {}
        }
    }

    /// A limit stood in the way of a model call.
    pub fn over_budget(&self, code: FailureCode) {
        let outcome = code.as_str().to_owned();
        self.over_budget.get_or_create(&Outcome { outcome }).inc();
    }

    /// A model call was answered.
    pub fn call(&self, meta: &Meta) {
        let profile = self.profile(meta.profile.as_ref().unwrap_or(&meta.provider));
        let usage = meta.usage;
        let counts = [
            ("input", usage.input),
            ("output", usage.output),
            ("cache_read", usage.cache_read),
            ("cache_write", usage.cache_write),
        ];
        for (kind, count) in counts {
            let tokens = Tokens { profile: profile.clone(), kind };
            self.tokens.get_or_create(&tokens).inc_by(count);
        }
        let profile = Profile { profile };
        if let Some(cost) = usage.cost {
            self.cost.get_or_create(&profile).inc_by(cost.dollars());
        }
        self.calls.get_or_create(&profile).inc();
    }

    fn profile(&self, name: &str) -> String {
        let known = &mut self.known().profiles;
        if known.len() < PROFILES {
            known.insert(name.to_owned());
        }
        if known.contains(name) { name.to_owned() } else { OTHER.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_make_the_list_longer() {
        let meters = Meters::default();
        meters.know((0..2000).map(|number| format!("t{number}")));
        assert_eq!(meters.known().tools.len(), TOOLS);
        for number in 0..1000 {
            meters.profile(&format!("p{number}"));
        }
        assert_eq!(meters.profile("p1"), "p1");
        assert_eq!(meters.profile("p999"), OTHER);
    }
}

//! What a turn's model calls use, for the ledger.

use skep_core::count;
use skep_core::message::{Meta, Usage};
use skep_store::spend::ChargeLost;

use super::context::ModelContext;
use super::persist::Lost;
use super::prompt::system_prompt;
use super::state::{Turn, TurnState};

impl Turn {
    /// Takes what a model call used into the turn's sums, and tells what has to be told.
    pub fn count(&self, state: &mut TurnState, meta: &Meta) {
        state.usage.add(meta.usage);
        state.notes.extend(self.env.ledger.warnings(&self.agent, &self.payer()));
    }

    /// The process before this one ended while the turn ran: if it was the model's turn to speak,
    /// the call it was in may have been charged in full, and nobody will ever tell.
    pub async fn charge_lost_call(&self, context: &ModelContext) -> Result<(), Lost> {
        let ledger = &self.env.ledger;
        if !ledger.is_limited(&self.agent) {
            return Ok(());
        }
        let profile = &self.agent.profile;
        let specs = self.snapshot.toolbox.specs(&self.agent);
        let system = system_prompt(&self.snapshot.settings, &self.agent, &specs);
        let words = count::of_text(&system.shared) + count::of_text(&system.agent);
        let rows = context.all();
        let prompt = words
            + specs.iter().map(count::of_tool).sum::<u64>()
            + count::of_messages(rows.iter().map(AsRef::as_ref));
        let room = u64::from(profile.max_output_tokens);
        let usage = Usage::new(prompt, room, 0, 0).priced(profile.price.as_ref());
        let charge = ChargeLost {
            turn: self.lease.turn.clone(),
            token: self.lease.token,
            agent: self.lease.agent,
            profile: profile.name.clone(),
            usage,
            now: self.env.now(),
        };
        if self.persist(charge).await? {
            ledger.add_unsettled(&self.payer(), &usage);
        }
        Ok(())
    }
}

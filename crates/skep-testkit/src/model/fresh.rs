//! A model that answers differently every time it is asked: ids, texts and arguments are new in
//! each answer, so a product that asks again instead of going on is found out.

use serde_json::Value;

use super::reply::Reply;
use super::request::ModelRequest;

/// `rounds` answers with `calls` parallel calls of `tool` each, then a closing text.
/// Stateless: how far a turn has come is read from the request, so it survives restarts.
pub struct Differing {
    pub tool: String,
    pub calls: usize,
    pub rounds: usize,
    /// The arguments of one call, from a number that never comes again.
    pub arguments: fn(fresh: u64) -> Value,
}

impl Differing {
    /// For `ScriptedModel::answer_with`.
    pub fn answer(&self, request: &ModelRequest) -> Reply {
        let nonce = request.nonce;
        let thinking = format!("thought {nonce}");
        let reply = Reply::new().thinking(&thinking);
        if request.steps_done() >= self.rounds {
            return reply.text(&format!("answer {nonce}"));
        }
        let reply = reply.text(&format!("step {nonce}"));
        (0..self.calls).fold(reply, |reply, call| {
            // Room for a thousand calls in one answer.
            let fresh = nonce * 1000 + call as u64;
            reply.tool(&self.tool, (self.arguments)(fresh))
        })
    }
}

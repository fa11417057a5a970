//! Hooks: what looks at a call before policy decides on it, and at its answer after it ran. They
//! are part of the gate. One that fails, panics or takes too long counts as a no.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::BoxFuture;
use crate::traits::tool::Requester;
use crate::vocab::ids::{AgentName, CallId, TurnId};

/// A call as hooks see it.
#[derive(Clone, Debug, PartialEq)]
pub struct HookedCall {
    pub agent: AgentName,
    /// Absent where the call belongs to no session.
    pub requester: Option<Arc<Requester>>,
    pub turn: TurnId,
    pub call: CallId,
    pub tool: String,
    /// As the hooks before left them.
    pub arguments: Value,
}

/// What a `tool.before` hook wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Before {
    Go,
    /// Other arguments. They are checked like the model's own, and policy decides on them.
    Rewrite(Value),
    /// The call does not run; the model is told why.
    Veto(String),
}

/// What a `tool.after` hook wants.
#[derive(Clone, Debug, PartialEq)]
pub enum After {
    Keep,
    /// The model is shown this instead of the answer.
    Replace(String),
    /// The model is told that the answer is withheld, and why.
    Withhold(String),
}

/// `Err` is a failure of the hook itself.
type Looks<I, O> = Arc<dyn Fn(I) -> BoxFuture<'static, Result<O, String>> + Send + Sync>;

/// One hook; plugins bring them. A plain value, because its two parts are all that differs.
#[derive(Clone)]
pub struct Hook {
    pub name: String,
    /// The agent whose calls it looks at; absent: those of every agent.
    pub agent: Option<AgentName>,
    /// A higher one looks first; of equal ones the name decides.
    pub priority: i32,
    pub before: Option<Looks<HookedCall, Before>>,
    /// Receives the call and the text of its result.
    pub after: Option<Looks<(HookedCall, String), After>>,
}

impl Hook {
    /// One that looks at nothing yet, of every agent.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), agent: None, priority: 0, before: None, after: None }
    }

    pub fn is_for(&self, agent: &AgentName) -> bool {
        self.agent.as_ref().is_none_or(|own| own == agent)
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("name", &self.name).finish_non_exhaustive()
    }
}

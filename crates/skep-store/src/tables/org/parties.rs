//! Who gives and who is given: an agent at work, and whom it may turn to.

use skep_core::ids::{AgentId, AgentName, SessionKey, TurnId};

use super::chain::ChainPlace;
use skep_db::{Conn, Refusal, SqlError, Tx, args, record};

/// What the operator is asked for is that of this agent, whom there is not.
pub const OPERATOR: AgentId = AgentId(0);
/// What one agent may have asked the operator for and has no answer to.
const ASKED: i64 = 50;

/// A word, and why.
pub(super) type Guarded<T> = Result<T, (&'static str, String)>;

/// An agent whose turn runs.
pub(super) struct Giver {
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub key: SessionKey,
    pub parent: Option<AgentId>,
}

record!(Giver { agent, agent_name, key, parent });

impl Giver {
    /// The turn must not have ended, or be about to.
    pub async fn of_turn(tx: &mut Tx<'_>, turn: &TurnId) -> Result<(Self, ChainPlace), Refusal> {
        let select = "SELECT t.agent, a.name, l.key, a.parent_id FROM turns t \
                      JOIN agents a ON a.id = t.agent JOIN lanes l ON l.id = t.lane \
                      WHERE t.id = $1 AND t.ended_at IS NULL AND t.cancel IS NULL";
        let giver = tx.conn.find(select, &args![turn]).await?.ok_or(Refusal::Stale)?;
        let place = ChainPlace::of_turn(tx.conn, turn).await?.ok_or(Refusal::Stale)?;
        Ok((giver, place))
    }

    /// The agent that it may write to, or ask. `allowed`: words and names of its settings.
    pub async fn recipient(
        &self,
        conn: &mut Conn,
        to: &AgentName,
        allowed: &[String],
    ) -> Result<Guarded<Recipient>, SqlError> {
        let may = |word: &str| allowed.iter().any(|listed| listed == word || listed == "*");
        let refused = || {
            let why = format!(
                "{} may not turn to {to}: its allowed_recipients are {}",
                self.agent_name,
                allowed.join(", ")
            );
            Ok(Err(("not_a_recipient", why)))
        };
        if to.as_str() == "operator" {
            return if may("operator") { Ok(Ok(Recipient::operator())) } else { refused() };
        }
        let Some(target) = Recipient::named(conn, to).await? else {
            return Ok(Err(("unknown_agent", format!("there is no agent {to}"))));
        };
        if target.agent == self.agent {
            return Ok(Err(("yourself", "that is you".to_owned())));
        }
        let is = [
            (self.parent == Some(target.agent), "parent"),
            (target.parent == Some(self.agent), "children"),
            (self.parent.is_some() && self.parent == target.parent, "siblings"),
            (true, to.as_str()),
        ];
        match is.iter().any(|(is, word)| *is && may(word)) {
            true => Ok(Ok(target)),
            false => refused(),
        }
    }

    /// Whether the operator may be asked one thing more.
    pub async fn operator(&self, conn: &mut Conn) -> Result<Guarded<Recipient>, SqlError> {
        let open = "SELECT item FROM tasks WHERE agent = $1 AND state = 'open' \
                    AND from_agent = $2 LIMIT $3";
        let args = args![OPERATOR, self.agent, ASKED];
        let open: Vec<String> = conn.list(open, &args).await?;
        if open.len() as i64 >= ASKED {
            let why = format!("the operator has {ASKED} open questions of {}", self.agent_name);
            return Ok(Err(("rate_limited", why)));
        }
        Ok(Ok(Recipient::operator()))
    }
}

/// Who is to do it. The operator has no row.
pub(super) struct Recipient {
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub parent: Option<AgentId>,
}

record!(Recipient { agent, agent_name, parent });

impl Recipient {
    pub fn operator() -> Self {
        Self { agent: OPERATOR, agent_name: AgentName::new("operator"), parent: None }
    }

    pub async fn named(conn: &mut Conn, name: &AgentName) -> Result<Option<Self>, SqlError> {
        let select = "SELECT id, name, parent_id FROM agents WHERE name = $1 \
                      AND removed_at IS NULL AND installed = 1";
        conn.find(select, &args![name]).await
    }

    pub async fn above(conn: &mut Conn, giver: &Giver) -> Result<Option<Self>, SqlError> {
        let Some(parent) = giver.parent else { return Ok(None) };
        let select = "SELECT id, name, parent_id FROM agents WHERE id = $1 \
                      AND removed_at IS NULL AND installed = 1";
        conn.find(select, &args![parent]).await
    }
}

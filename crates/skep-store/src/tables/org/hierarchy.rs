//! Who may say what to whom: an agent leads those directly below it, and nobody else.

use skep_core::ids::{AgentId, AgentName, SessionKey, TurnId};

use skep_db::{Conn, Refusal, SqlError, Tx, args, record};

/// The agent whose turn calls.
pub(crate) struct CallingAgent {
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub key: SessionKey,
    pub parent: Option<AgentId>,
}

record!(CallingAgent { agent, agent_name, key, parent });

/// The agent that a call is about.
pub(crate) struct TargetAgent {
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub parent: Option<AgentId>,
}

record!(TargetAgent { agent, agent_name, parent });

/// `Err`: a word, and why not.
pub(crate) type Guarded<T> = Result<T, (&'static str, String)>;

impl CallingAgent {
    /// The turn must not have ended, or be about to.
    pub async fn of(tx: &mut Tx<'_>, turn: &TurnId) -> Result<Self, Refusal> {
        let select = "SELECT t.agent, a.name, l.key, a.parent_id FROM turns t \
                      JOIN agents a ON a.id = t.agent JOIN lanes l ON l.id = t.lane \
                      WHERE t.id = $1 AND t.ended_at IS NULL AND t.cancel IS NULL";
        tx.conn.find(select, &args![turn]).await?.ok_or(Refusal::Stale)
    }

    /// The agent above it.
    pub async fn above(&self, conn: &mut Conn) -> Result<Option<TargetAgent>, SqlError> {
        let select = "SELECT id, name, parent_id FROM agents WHERE id = $1 \
                      AND removed_at IS NULL AND installed = 1 AND closing IS NULL";
        match self.parent {
            Some(parent) => conn.find(select, &args![parent]).await,
            None => Ok(None),
        }
    }

    /// The agent of this name, where it is directly below.
    pub async fn team(
        &self,
        conn: &mut Conn,
        name: &AgentName,
    ) -> Result<Guarded<TargetAgent>, SqlError> {
        let select = "SELECT id, name, parent_id FROM agents WHERE name = $1 \
                      AND removed_at IS NULL AND installed = 1 AND spawning IS NULL \
                      AND closing IS NULL";
        let found: Option<TargetAgent> = conn.find(select, &args![name]).await?;
        Ok(match found {
            Some(target) if target.parent == Some(self.agent) => Ok(target),
            Some(_) => Err((
                "not_your_team",
                format!(
                    "{name} is not directly below {}, and only its own parent leads it",
                    self.agent_name
                ),
            )),
            None => Err(("unknown_team", format!("there is no team {name}"))),
        })
    }
}

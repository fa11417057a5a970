//! Who may say what to whom: an agent leads those directly below it, and writes to whomever its
//! settings name.

use skep_core::cause::CallRef;
use skep_core::decision::Decision;
use skep_core::ids::{AgentId, AgentName, ItemId, SessionKey, TurnId};

use super::chain::ChainPlace;
use skep_db::{Conn, Refusal, SqlError, Tx, args, record};

/// What the operator is asked for is that of this agent, whom there is not.
pub const OPERATOR: AgentId = AgentId(0);
/// What one agent may have asked the operator for and has no answer to.
const ASKED: i64 = 50;

/// `Err`: a word, and why not.
pub(crate) type Guarded<T> = Result<T, (&'static str, String)>;

/// The agent whose turn calls.
pub(crate) struct CallingAgent {
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub key: SessionKey,
    pub parent: Option<AgentId>,
}

record!(CallingAgent { agent, agent_name, key, parent });

/// The agent that a call is about. The operator has no row.
pub(crate) struct TargetAgent {
    pub agent: AgentId,
    pub agent_name: AgentName,
    pub parent: Option<AgentId>,
}

record!(TargetAgent { agent, agent_name, parent });

/// Those that are there: neither half made nor about to go.
macro_rules! select_targets {
    ($which:literal) => {
        concat!(
            "SELECT id, name, parent_id FROM agents WHERE removed_at IS NULL AND installed = 1 ",
            "AND spawning IS NULL AND closing IS NULL AND ",
            $which
        )
    };
}

/// Whether a call that a person approved is about agents that were there when the person was asked.
pub(crate) async fn as_asked(
    conn: &mut Conn,
    call: &CallRef,
    agents: &[AgentId],
) -> Result<Guarded<()>, SqlError> {
    let decision = "SELECT decision FROM calls WHERE turn = $1 AND call_id = $2";
    let decision: Option<Option<Decision>> =
        conn.find(decision, &args![call.turn, call.call]).await?;
    let Some(Some(Decision::Approval { id, .. })) = decision else { return Ok(Ok(())) };
    for agent in agents {
        let newer = "SELECT a.name FROM agents a JOIN approvals p ON p.id = $2 \
                     WHERE a.id = $1 AND a.created_at >= p.asked_at";
        if let Some(name) = conn.find::<AgentName>(newer, &args![agent, id]).await? {
            let why = format!(
                "these are other agents than those that were asked about: {name} was made later; \
                 call again"
            );
            return Ok(Err(("changed", why)));
        }
    }
    Ok(Ok(()))
}

impl TargetAgent {
    fn operator() -> Self {
        Self { agent: OPERATOR, agent_name: AgentName::new("operator"), parent: None }
    }

    async fn named(conn: &mut Conn, name: &AgentName) -> Result<Option<Self>, SqlError> {
        conn.find(select_targets!("name = $1"), &args![name]).await
    }

    /// Everybody but one, by name; at most so many.
    pub async fn all_but(
        conn: &mut Conn,
        agent: AgentId,
        most: i64,
    ) -> Result<Vec<Self>, SqlError> {
        conn.list(select_targets!("id <> $1 ORDER BY name LIMIT $2"), &args![agent, most]).await
    }
}

impl CallingAgent {
    /// The turn must not have ended, or be about to.
    pub async fn of_turn(tx: &mut Tx<'_>, turn: &TurnId) -> Result<Self, Refusal> {
        let select = "SELECT t.agent, a.name, l.key, a.parent_id FROM turns t \
                      JOIN agents a ON a.id = t.agent JOIN lanes l ON l.id = t.lane \
                      WHERE t.id = $1 AND t.ended_at IS NULL AND t.cancel IS NULL";
        tx.conn.find(select, &args![turn]).await?.ok_or(Refusal::Stale)
    }

    /// With the place of the turn in its chain.
    pub async fn in_chain(tx: &mut Tx<'_>, turn: &TurnId) -> Result<(Self, ChainPlace), Refusal> {
        let caller = Self::of_turn(tx, turn).await?;
        let place = ChainPlace::of_turn(tx.conn, turn).await?.ok_or(Refusal::Stale)?;
        Ok((caller, place))
    }

    /// The agent as one that gives itself work.
    pub async fn itself(&self, conn: &mut Conn) -> Result<Guarded<TargetAgent>, SqlError> {
        let own = conn.find(select_targets!("id = $1"), &args![self.agent]).await?;
        Ok(own.ok_or_else(|| ("closing", format!("{} is about to go", self.agent_name))))
    }

    /// The agent above it.
    pub async fn above(&self, conn: &mut Conn) -> Result<Option<TargetAgent>, SqlError> {
        match self.parent {
            Some(parent) => conn.find(select_targets!("id = $1"), &args![parent]).await,
            None => Ok(None),
        }
    }

    /// The agent of this name, where it is directly below.
    pub async fn team(
        &self,
        conn: &mut Conn,
        name: &AgentName,
    ) -> Result<Guarded<TargetAgent>, SqlError> {
        Ok(match TargetAgent::named(conn, name).await? {
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

    /// The agent that it may write to, or ask. `allowed`: words and names of its settings.
    pub async fn recipient(
        &self,
        conn: &mut Conn,
        to: &AgentName,
        allowed: &[String],
    ) -> Result<Guarded<TargetAgent>, SqlError> {
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
            return if may("operator") { Ok(Ok(TargetAgent::operator())) } else { refused() };
        }
        let Some(target) = TargetAgent::named(conn, to).await? else {
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

    /// The operator, where there is room for one question more. What is to be approved has a limit
    /// of its own.
    pub async fn operator(&self, conn: &mut Conn) -> Result<Guarded<TargetAgent>, SqlError> {
        let open = "SELECT item FROM tasks WHERE agent = $1 AND state = 'open' \
                    AND from_agent = $2 AND kind <> 'shape' LIMIT $3";
        let args = args![OPERATOR, self.agent, ASKED];
        let open: Vec<ItemId> = conn.list(open, &args).await?;
        if open.len() as i64 >= ASKED {
            let why = format!("the operator has {ASKED} open questions of {}", self.agent_name);
            return Ok(Err(("rate_limited", why)));
        }
        Ok(Ok(TargetAgent::operator()))
    }
}

//! Whether an agent works: paused, stopped, started, restarted.

use serde::Deserialize;
use utoipa::ToSchema;

use skep_core::ids::{AgentId, AgentName, Principal};
use skep_core::settings::Wanted;
use skep_guard::clock;
use skep_store::agents::WantAgent;

use crate::door::DoorError;
use crate::hive::{Hive, door_error};

/// What somebody wants of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LifeCycle {
    /// Finishes its turns and takes up nothing new.
    Pause,
    /// Cuts its turns; they go on when it is started.
    Stop,
    Start,
    /// Cuts its turns, and has them go on at once.
    Restart,
}

impl Hive {
    /// Whether that changed anything. What is queued stays, in every case.
    pub async fn change_life(
        &self,
        name: &AgentName,
        change: LifeCycle,
        by: &Principal,
    ) -> Result<bool, DoorError> {
        let agent = self.shared.agent_id(name)?;
        match change {
            LifeCycle::Pause => self.want(agent, Wanted::Paused, by).await,
            LifeCycle::Start => self.want(agent, Wanted::Active, by).await,
            LifeCycle::Stop => {
                let changed = self.want(agent, Wanted::Stopped, by).await?;
                Ok(self.cut(agent) || changed)
            }
            LifeCycle::Restart => {
                self.want(agent, Wanted::Stopped, by).await?;
                self.cut(agent);
                self.want(agent, Wanted::Active, by).await
            }
        }
    }

    async fn want(
        &self,
        agent: AgentId,
        wanted: Wanted,
        by: &Principal,
    ) -> Result<bool, DoorError> {
        let want = WantAgent { agent, wanted, by: by.0.clone(), now: clock::now_ms() };
        let changed = self.shared.store.write(want).await.map_err(door_error)?;
        self.shared.env().lanes.wake();
        Ok(changed)
    }

    /// Its turns give their leases back, and what they left running ends.
    fn cut(&self, agent: AgentId) -> bool {
        let env = self.shared.env();
        let cut = env.lanes.registry.cut(agent);
        env.session_scopes.keep(|other| other != agent);
        cut > 0
    }
}

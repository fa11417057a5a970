//! Agents come, get a place in the tree, are stopped and started, and go.
#![allow(clippy::unwrap_used)]

use skep_core::ids::AgentName;
use skep_core::settings::Wanted;

use super::Story;
use crate::agents::{InstallAgents, NewAgent, WantAgent};

impl Story {
    pub(super) async fn place_agents(&self) {
        let parent = Some(AgentName::new("main"));
        let child = NewAgent { parent, ..NewAgent::root(AgentName::new("child")) };
        let install = InstallAgents { agents: vec![child], gone: Vec::new(), now: 1 };
        self.store.write(install).await.unwrap();
        let gone = vec![AgentName::new("child")];
        let withdraw = InstallAgents { agents: Vec::new(), gone, now: 1 };
        self.store.write(withdraw).await.unwrap();
        for wanted in [Wanted::Stopped, Wanted::Stopped, Wanted::Active] {
            let (agent, by) = (self.agent, "operator".to_owned());
            self.store.write(WantAgent { agent, wanted, by, now: 1 }).await.unwrap();
        }
    }
}

//! Templates of teams, and the teams that people make of them.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use skep_core::BoxFuture;
use skep_core::ids::AgentName;

use super::DoorError;

/// A team that is ready to use.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TemplateInfo {
    pub name: String,
    /// What the team is for.
    pub description: String,
    /// The lead, then those below it, as they are called without another name.
    pub agents: Vec<TemplateAgent>,
    /// A first task for the lead.
    pub request: String,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TemplateAgent {
    pub name: String,
    pub description: String,
}

/// A team that somebody wants.
#[derive(Clone, Debug)]
pub struct TeamDraft {
    pub template: String,
    /// Of the lead; the other names begin with it. Nothing: the template's.
    pub name: Option<String>,
    /// The agent above the lead.
    pub parent: Option<AgentName>,
}

/// A team that was made of a template, and is in force.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MadeTeam {
    pub template: String,
    /// The lead, then those below it.
    pub agents: Vec<TemplateAgent>,
    /// A first task for the lead.
    pub request: String,
}

/// Makes every agent of a team and puts them in force, or none of them.
pub type MakeTeam =
    Arc<dyn Fn(TeamDraft) -> BoxFuture<'static, Result<MadeTeam, DoorError>> + Send + Sync>;

pub struct TeamTemplates {
    pub all: Vec<TemplateInfo>,
    pub make: MakeTeam,
}

//! One tool about teams themselves, as the gate sees it.

use std::sync::Arc;

use serde_json::{Value, json};
use skep_core::BoxFuture;
use skep_core::ids::is_agent_name;
use skep_core::policy::{AgentReach, Class};
use skep_core::provider::ToolSpec;
use skep_core::tool::{Manner, Prepared, SecretArgument, Tool, ToolAnswer, ToolContext};

use super::Organisation;
use super::arguments::{
    AgentArguments, ListTeamsArguments, RequestSpawnArguments, ShutdownArguments, SpawnArguments,
    StatusArguments, UpdateTeamArguments, flag, spec, text, texts,
};
use super::tool::{OrgCall, prepared, read};
use super::{manage, shutdown_team, spawn_team, team_status, update_team};
use crate::people::life_cycle::LifeCycle;

#[derive(Clone, Copy, PartialEq, Eq)]
enum TeamAction {
    List,
    Status,
    Update,
    Spawn,
    RequestSpawn,
    Shutdown,
    Live(LifeCycle),
}

pub(super) struct TeamTool {
    spec: ToolSpec,
    action: TeamAction,
    organisation: Arc<Organisation>,
}

impl TeamTool {
    pub fn all(organisation: &Arc<Organisation>) -> Vec<Self> {
        let list = spec(
            "list_teams",
            "Lists the teams below you: what each is for, its keywords, its state and how much is \
             pending.",
            json!({ "recursive": flag("Also those below them (false).") }),
            &[],
        );
        let status = spec(
            "get_status",
            "Tells how the teams directly below you stand: state, active turn, current task, \
             queue depth, and how much of what they can do at a time is in use (saturation).",
            json!({ "team": text("Of this team alone.") }),
            &[],
        );
        let update = spec(
            "update_team",
            "Changes what a team directly below you is for. Its last keyword stays.",
            json!({
                "team": text("The name of a team directly below you."),
                "scope_add": texts("Keywords of work that it takes from now on."),
                "scope_remove": texts("Keywords of work that it takes no more."),
                "description": text("What it is for, in a sentence."),
            }),
            &["team"],
        );
        let tools = [
            (TeamAction::List, list),
            (TeamAction::Status, status),
            (TeamAction::Update, update),
            (TeamAction::Spawn, spawn_spec()),
            (TeamAction::RequestSpawn, request_spec()),
            (TeamAction::Shutdown, shutdown_spec()),
        ];
        let lives = [
            (
                "kill",
                LifeCycle::Stop,
                "Stops an agent directly below you: its turns are cut and \
                                       wait until it is started.",
            ),
            (
                "start",
                LifeCycle::Start,
                "Starts an agent directly below you that is stopped or \
                                         paused.",
            ),
            (
                "restart",
                LifeCycle::Restart,
                "Cuts the turns of an agent directly below you and \
                                             has them go on at once.",
            ),
        ];
        let lives = lives.map(|(name, change, what)| {
            let properties = json!({ "agent": text("Its name.") });
            let what = format!("{what} For managers.");
            (TeamAction::Live(change), spec(name, &what, properties, &["agent"]))
        });
        let tool = |(action, spec)| Self { spec, action, organisation: Arc::clone(organisation) };
        tools.into_iter().chain(lives).map(tool).collect()
    }
}

impl TeamTool {
    /// What the call would be answered, where that is a no whatever a person says.
    async fn refused(&self, arguments: Value, context: &ToolContext) -> Option<ToolAnswer> {
        let organisation = Arc::clone(&self.organisation);
        let shared = organisation.hive().await?;
        let call = OrgCall { organisation, shared, context: context.clone() };
        match self.action {
            TeamAction::Spawn => {
                let wanted = spawn_team::named(read(&self.spec, arguments).ok()?);
                spawn_team::refusal(&call, wanted).await
            }
            TeamAction::RequestSpawn => {
                let wanted = spawn_team::requested(&call, read(&self.spec, arguments).ok()?);
                spawn_team::refusal(&call, wanted).await
            }
            TeamAction::Shutdown => {
                shutdown_team::refusal(&call, read(&self.spec, arguments).ok()?).await
            }
            TeamAction::List | TeamAction::Status | TeamAction::Update | TeamAction::Live(_) => {
                None
            }
        }
    }
}

fn spawn_spec() -> ToolSpec {
    let credentials = json!({
        "type": "object", "additionalProperties": { "type": "string" },
        "description": "Values that it may use and never sees, by the names of vault entries.",
    });
    let properties = json!({
        "name": text("Its name: lower-case letters, digits and single dashes."),
        "description": text("What it is for, in a sentence."),
        "scope_accepts": texts("Keywords of work that it takes, at least one."),
        "init_context": text("What it is to know from the start; becomes a rule of its own."),
        "credentials": credentials,
        "engine": text("What runs its turns."),
        "profile": text("The model profile it uses."),
        "allowed_tools": texts(
            "Its tools, never more than yours; without it the files and messages you have.",
        ),
    });
    let what = "Makes a team below you, led by a new agent. A person may have to approve it first: \
                then nothing exists yet, and what came of it comes as an event.";
    spec("spawn_team", what, properties, &["name", "scope_accepts"])
}

fn shutdown_spec() -> ToolSpec {
    let properties = json!({
        "name": text("The name of a team directly below you."),
        "cascade": flag("Also everybody below it; refused without it where there are any (false)."),
    });
    let what = "Removes a team below you for good: its work ends, its files and secrets go. A \
                person may have to approve it first.";
    spec("shutdown_team", what, properties, &["name"])
}

fn request_spec() -> ToolSpec {
    let properties = json!({
        "name": text("Its name: lower-case letters, digits and single dashes."),
        "description": text("What it is for, in a sentence."),
    });
    let what = "Asks for a new agent below you, which a person has to approve. For managers.";
    spec("request_spawn", what, properties, &["name", "description"])
}

impl Tool for TeamTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        match self.action {
            TeamAction::List | TeamAction::Status => Manner::POLL,
            TeamAction::Update | TeamAction::Live(_) => Manner::keyed(Class::Write),
            TeamAction::Spawn | TeamAction::RequestSpawn | TeamAction::Shutdown => {
                Manner::keyed(Class::Shape)
            }
        }
    }

    fn secret_arguments(&self, arguments: &Value) -> Vec<SecretArgument> {
        if self.action != TeamAction::Spawn {
            return Vec::new();
        }
        // Of two teams each has its own.
        let argument = spawn_team::CREDENTIALS;
        let team = arguments["name"].as_str().filter(|name| is_agent_name(name));
        let name = match team {
            Some(team) => format!("{argument}.{team}"),
            None => argument.to_owned(),
        };
        vec![SecretArgument { argument, name }]
    }

    fn refusal<'a>(
        &'a self,
        arguments: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            match self.refused(arguments.clone(), context).await? {
                ToolAnswer::Done { text, .. } => Some(text),
                ToolAnswer::Cut { .. } | ToolAnswer::Wait { .. } => None,
            }
        })
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let organisation = &self.organisation;
        Ok(match self.action {
            TeamAction::List => {
                let arguments: ListTeamsArguments = read(&self.spec, arguments)?;
                prepared(
                    organisation,
                    |call| async move { team_status::list(&call, arguments).await },
                )
            }
            TeamAction::Status => {
                let arguments: StatusArguments = read(&self.spec, arguments)?;
                prepared(
                    organisation,
                    |call| async move { team_status::status(&call, arguments).await },
                )
            }
            TeamAction::Update => {
                let arguments: UpdateTeamArguments = read(&self.spec, arguments)?;
                prepared(
                    organisation,
                    |call| async move { update_team::run(&call, arguments).await },
                )
            }
            TeamAction::Spawn => {
                let arguments: SpawnArguments = read(&self.spec, arguments)?;
                prepared(organisation, |call| async move {
                    spawn_team::run(&call, spawn_team::named(arguments)).await
                })
            }
            TeamAction::RequestSpawn => {
                let arguments: RequestSpawnArguments = read(&self.spec, arguments)?;
                prepared(organisation, |call| async move {
                    spawn_team::run(&call, spawn_team::requested(&call, arguments)).await
                })
            }
            TeamAction::Shutdown => {
                let arguments: ShutdownArguments = read(&self.spec, arguments)?;
                prepared(
                    organisation,
                    |call| async move { shutdown_team::run(&call, arguments).await },
                )
            }
            TeamAction::Live(change) => {
                let arguments: AgentArguments = read(&self.spec, arguments)?;
                prepared(organisation, move |call| async move {
                    manage::run(&call, arguments, change).await
                })
            }
        })
    }
}

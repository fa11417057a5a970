//! The tools about teams themselves.

use serde_json::{Value, json};
use skep_core::ids::is_agent_name;
use skep_core::policy::Class;
use skep_core::provider::ToolSpec;
use skep_core::tool::{Manner, SecretArgument};

use super::arguments::{flag, spec, text, texts};
use super::tool::OrgTool;
use super::{manage, shutdown_team, spawn_team, team_status, update_team};
use crate::people::life_cycle::LifeCycle;

pub(super) fn all() -> Vec<OrgTool> {
    let (write, shape) = (Manner::keyed(Class::Write), Manner::keyed(Class::Shape));
    vec![
        OrgTool::new(list_spec(), Manner::POLL, team_status::list),
        OrgTool::new(status_spec(), Manner::POLL, team_status::status),
        OrgTool::new(update_spec(), write, update_team::run),
        OrgTool::new(spawn_spec(), shape, spawn_team::spawn)
            .unless(spawn_team::spawn_refusal)
            .with_secrets(credentials),
        OrgTool::new(request_spec(), shape, spawn_team::request)
            .unless(spawn_team::request_refusal)
            .with_secrets(credentials),
        OrgTool::new(shutdown_spec(), shape, shutdown_team::run).unless(shutdown_team::refusal),
        life(
            "kill",
            LifeCycle::Stop,
            "Stops an agent directly below you: its turns are cut and wait until it is started.",
        ),
        life(
            "start",
            LifeCycle::Start,
            "Starts an agent directly below you that is stopped or paused.",
        ),
        life(
            "restart",
            LifeCycle::Restart,
            "Cuts the turns of an agent directly below you and has them go on at once.",
        ),
    ]
}

fn list_spec() -> ToolSpec {
    spec(
        "list_teams",
        "Lists the teams below you: what each is for, its keywords, its state and how much is \
         pending.",
        json!({ "recursive": flag("Also those below them (false).") }),
        &[],
    )
}

fn status_spec() -> ToolSpec {
    spec(
        "get_status",
        "Tells how the teams directly below you stand: state, active turn, current task, \
         queue depth, and how much of what they can do at a time is in use (saturation).",
        json!({ "team": text("Of this team alone.") }),
        &[],
    )
}

fn update_spec() -> ToolSpec {
    spec(
        "update_team",
        "Changes what a team directly below you is for. Its last keyword stays.",
        json!({
            "team": text("The name of a team directly below you."),
            "scope_add": texts("Keywords of work that it takes from now on."),
            "scope_remove": texts("Keywords of work that it takes no more."),
            "description": text("What it is for, in a sentence."),
        }),
        &["team"],
    )
}

fn spawn_spec() -> ToolSpec {
    let credentials = json!({
        "type": "object", "additionalProperties": { "type": "string" },
        "description": "Keys that it may use and never sees, by the names of vault entries: \
                        at most 16, each of 16 or more letters and digits.",
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

/// Of two teams each has its own. What `request_spawn` does not take is on no record either.
fn credentials(arguments: &Value) -> Vec<SecretArgument> {
    let argument = spawn_team::CREDENTIALS;
    let team = arguments["name"].as_str().filter(|name| is_agent_name(name));
    let name = match team {
        Some(team) => format!("{argument}.{team}"),
        None => argument.to_owned(),
    };
    vec![SecretArgument { argument, name }]
}

fn request_spec() -> ToolSpec {
    let properties = json!({
        "name": text("Its name: lower-case letters, digits and single dashes."),
        "description": text("What it is for, in a sentence."),
    });
    let what = "Asks for a new agent below you, which a person has to approve. For managers.";
    spec("request_spawn", what, properties, &["name", "description"])
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

fn life(name: &str, change: LifeCycle, what: &str) -> OrgTool {
    let what = format!("{what} For managers.");
    let spec = spec(name, &what, json!({ "agent": text("Its name.") }), &["agent"]);
    let run = move |call, arguments| manage::run(call, arguments, change);
    OrgTool::new(spec, Manner::keyed(Class::Write), run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn org_credentials_are_taken_out_of_every_call_that_makes_a_team() {
        let makers: Vec<OrgTool> =
            all().into_iter().filter(|tool| tool.name().contains("spawn")).collect();
        assert_eq!(makers.len(), 2);
        for tool in makers {
            let given = json!({"name": "a", "credentials": {"KEY": "x"}});
            let secrets = tool.secret_arguments(&given);
            assert_eq!(secrets[0].argument, "credentials", "{}", tool.name());
        }
    }
}

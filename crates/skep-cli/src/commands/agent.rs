//! `skep agent`: lists, shows, makes and stops agents.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::guidance::{self, PromptArgs, warning_lines};
use super::status::{missing_tools, work};
use crate::failure::{Exit, Failure};
use crate::hive::{CallError, Client, Globals, Home, escaped, with_query};
use crate::print::{Tone, foreign, items, table, text, toned};

/// How long a running hive may take to notice a new folder.
const NOTICE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);
const STARTED_LATER: &str = "the hive starts it at its next start: skep up";
/// The teams that are ready to use.
pub const TEMPLATES: [&str; 3] = ["engineering", "research", "support"];

#[derive(Subcommand)]
pub enum AgentCommand {
    /// List the agents
    #[command(after_help = "Examples:
  skep agent list
  skep agent list --json")]
    List,
    /// Show one agent: engine, model, state, work
    #[command(after_help = "Examples:
  skep agent show main")]
    Show {
        /// The agent
        agent: String,
    },
    /// Show the prompt of an agent: each part with its file and its estimated tokens
    Prompt(PromptArgs),
    /// List the skills and subagents of an agent, and files that are left out
    #[command(after_help = "Examples:
  skep agent skills main

A skill is a file skills/NAME.md or skills/NAME/SKILL.md in the agent's folder.")]
    Skills {
        /// The agent
        agent: String,
    },
    /// Create an agent: its folder with settings, rules and workspace
    New(NewAgentArgs),
    /// Remove an agent for good: its work, its folder and its secrets; history stays
    #[command(after_help = "Examples:
  skep agent rm helper
  skep agent rm research --cascade")]
    Rm {
        /// The agent
        agent: String,
        /// Everybody below it too
        #[arg(long)]
        cascade: bool,
    },
    /// Have an agent finish its turns and take up nothing new
    #[command(after_help = "Examples:
  skep agent pause main
  skep agent start main")]
    Pause {
        /// The agent
        agent: String,
    },
    /// Have a paused or stopped agent go on
    #[command(after_help = "Examples:
  skep agent start main")]
    Start {
        /// The agent
        agent: String,
    },
    /// Cut the turns of an agent and have them go on at once
    #[command(after_help = "Examples:
  skep agent restart main")]
    Restart {
        /// The agent
        agent: String,
    },
    /// Stop an agent, or end the running turn of one conversation
    #[command(after_help = "Examples:
  skep agent stop main
  skep agent stop main --session discord:42

Without --session the whole agent stops: its turns are cut and go on with `skep agent start`.
With it one turn ends for good, and queued messages run next; `skep task cancel` ends a single
item.")]
    Stop {
        /// The agent
        agent: String,
        /// End only the turn of this conversation, by its session key
        #[arg(long, value_name = "KEY")]
        session: Option<String>,
    },
}

#[derive(Args)]
#[command(after_help = "Examples:
  skep agent new reviewer --description \"Reads what others changed.\"
  skep agent new cto --profile large --tools read,grep,glob
  skep agent new --template support         support, support-finder, support-writer
  skep agent new --template research --name bees

A running hive starts it by itself. Everything can be changed later in the agent's
config.yaml.")]
pub struct NewAgentArgs {
    /// Its name: lower-case letters, digits and single dashes
    #[arg(required_unless_present = "template")]
    pub name: Option<String>,
    /// Create a whole team with rules and skills: a lead and the agents below it
    #[arg(long, value_parser = TEMPLATES, conflicts_with_all = ["description", "tools"])]
    pub template: Option<String>,
    /// With --template: the name of the lead, with which the other names begin (default: the
    /// template's)
    #[arg(long = "name", value_name = "NAME", requires = "template", conflicts_with = "name")]
    pub lead: Option<String>,
    /// The agent whose team it belongs to; without one it is a root of the tree
    #[arg(long, value_name = "AGENT")]
    pub parent: Option<String>,
    /// What it is for, in a sentence
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// The model profile it uses, as in providers.yaml
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// The tools it may use, separated by commas; it has no others
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub tools: Option<Vec<String>>,
}

impl NewAgentArgs {
    /// The agent, or the lead of the team.
    pub fn first_name(&self) -> &str {
        let named = self.name.as_deref().or(self.lead.as_deref());
        named.or(self.template.as_deref()).unwrap_or_default()
    }

    /// What a failure message says was attempted.
    pub fn attempted(&self) -> String {
        let what = if self.template.is_some() { "team" } else { "agent" };
        format!("create the {what} {}", self.first_name())
    }
}

/// What `agent new` has made.
pub struct CreatedAgents {
    /// Each agent after its parent.
    pub agents: Vec<CreatedAgent>,
    /// A first message for the lead of a team.
    pub request: Option<String>,
}

pub struct CreatedAgent {
    pub name: String,
    pub folder: PathBuf,
    /// What it is for.
    pub about: String,
}

/// `make` creates the folders of new agents.
pub async fn run<M>(command: AgentCommand, globals: &Globals, make: M) -> Result<(), Failure>
where
    M: AsyncFnOnce(&Home, &NewAgentArgs) -> Result<CreatedAgents, Failure>,
{
    match command {
        AgentCommand::List => list(globals).await,
        AgentCommand::Show { agent } => show(&agent, globals).await,
        AgentCommand::Prompt(args) => guidance::prompt(args, globals).await,
        AgentCommand::Skills { agent } => guidance::skills(&agent, globals).await,
        AgentCommand::New(new) => create(&new, globals, make).await,
        AgentCommand::Rm { agent, cascade } => remove(&agent, cascade, globals).await,
        AgentCommand::Pause { agent } => live(&agent, "pause", "paused", globals).await,
        AgentCommand::Start { agent } => live(&agent, "start", "active", globals).await,
        AgentCommand::Restart { agent } => live(&agent, "restart", "active", globals).await,
        AgentCommand::Stop { agent, session: None } => {
            live(&agent, "stop", "stopped", globals).await
        }
        AgentCommand::Stop { agent, session: Some(session) } => {
            stop(&agent, &session, globals).await
        }
    }
}

pub async fn agents(client: &Client, attempted: &str) -> Result<Vec<Value>, Failure> {
    let told = client.fetch("/api/v1/agents", attempted).await?;
    told["agents"].as_array().cloned().ok_or_else(|| {
        let why = "it has no list of agents".to_owned();
        client.failure(attempted, CallError::Strange(why))
    })
}

async fn list(globals: &Globals) -> Result<(), Failure> {
    let agents = agents(&Client::open(globals)?, "list the agents").await?;
    let row = |(depth, agent): (usize, &Value)| {
        let about = agent["error"].as_str().or(agent["description"].as_str()).unwrap_or_default();
        let [name, status, engine, model] =
            ["name", "status", "engine", "model"].map(|key| text(&agent[key]));
        let name = format!("{}{name}", "  ".repeat(depth));
        let work = agent.get("work").map(work).unwrap_or_default();
        [name, status, engine, model, work, about.to_owned()]
    };
    let heads = ["agent", "status", "engine", "model", "work", "description"];
    globals
        .print(&json!({ "agents": agents }), table(heads, in_tree(&agents).into_iter().map(row)));
    Ok(())
}

/// Each agent after its parent, with how many are above it. One whose parent is not among them
/// counts as a root.
fn in_tree(agents: &[Value]) -> Vec<(usize, &Value)> {
    let is_root = |agent: &&Value| {
        agent["parent"].is_null() || !agents.iter().any(|it| it["name"] == agent["parent"])
    };
    let mut open: Vec<(usize, &Value)> = agents.iter().filter(is_root).map(|it| (0, it)).collect();
    open.reverse();
    let mut shown = Vec::with_capacity(agents.len());
    while let Some((depth, agent)) = open.pop() {
        shown.push((depth, agent));
        let below = agents.iter().rev().filter(|it| it["parent"] == agent["name"]);
        open.extend(below.map(|it| (depth + 1, it)));
    }
    // Agents that are each other's parents are below nobody.
    let rest = agents.iter().filter(|it| !shown.iter().any(|(_, known)| known == it));
    let rest: Vec<_> = rest.map(|it| (0, it)).collect();
    shown.extend(rest);
    shown
}

async fn show(name: &str, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let attempted = format!("show the agent {name}");
    let agents = agents(&client, &attempted).await?;
    let Some(agent) = agents.iter().find(|agent| agent["name"] == name) else {
        let known: Vec<String> = agents.iter().map(|agent| text(&agent["name"])).collect();
        let why = format!("there is no such agent; there are: {}", known.join(", "));
        return Err(Failure::new(Exit::Failed, attempted, why).next("skep agent list"));
    };
    let (mut agent, mut lines) = (agent.clone(), lines(agent));
    // Not everybody may see what it is guided by.
    let path = format!("/api/v1/agents/{}/skills", escaped(name));
    if let Ok(told) = client.fetch(&path, &attempted).await {
        lines.extend(warning_lines(&told["warnings"]));
        agent["warnings"] = told["warnings"].clone();
    }
    globals.print(&agent, lines);
    Ok(())
}

pub fn lines(agent: &Value) -> Vec<String> {
    let tone = if agent["status"] == "active" { Tone::Good } else { Tone::Bad };
    let mut lines = vec![
        format!("agent   {}", toned(&text(&agent["name"]), Tone::Strong)),
        format!("status  {}", toned(&text(&agent["status"]), tone)),
    ];
    lines.extend(agent["parent"].as_str().map(|parent| format!("parent  {}", foreign(parent))));
    lines.extend(agent["error"].as_str().map(|error| format!("error   {}", foreign(error))));
    let described = agent["description"].as_str().filter(|text| !text.is_empty());
    lines.extend(described.map(|text| format!("for     {}", foreign(text))));
    lines.push(format!("engine  {} · {}", text(&agent["engine"]), text(&agent["model"])));
    lines.extend(missing_tools(agent).map(|names| format!("lacks   {names} (not there now)")));
    let denied = agent["policy_error"].as_str();
    lines.extend(denied.map(|why| format!("policy  all tool calls are denied: {}", foreign(why))));
    let able = agent["capabilities"].as_object().into_iter().flatten();
    let able: Vec<&str> =
        able.filter(|(_, can)| **can == true).map(|(name, _)| name.as_str()).collect();
    lines.push(format!("can     {}", foreign(&able.join(", "))));
    lines.extend(agent.get("work").map(|all| format!("work    {}", work(all))));
    lines
}

async fn create<M>(new: &NewAgentArgs, globals: &Globals, make: M) -> Result<(), Failure>
where
    M: AsyncFnOnce(&Home, &NewAgentArgs) -> Result<CreatedAgents, Failure>,
{
    if globals.url.is_some() {
        let why = "an agent is a folder in the home of its hive";
        let failure = Failure::new(Exit::Usage, new.attempted(), why);
        return Err(failure.next("on the hive's machine: skep agent new …, without --url"));
    }
    let made = make(&globals.home()?, new).await?;
    let mut running = true;
    for agent in &made.agents {
        running = running && noticed(globals, &agent.name).await;
    }
    match &new.template {
        None => created_one(&made, running, globals),
        Some(template) => created_team(template, &made, running, globals),
    }
    Ok(())
}

fn created_one(made: &CreatedAgents, running: bool, globals: &Globals) {
    for CreatedAgent { name, folder, .. } in &made.agents {
        let folder = folder.display().to_string();
        let next = match running {
            true => format!("it is running: skep chat {name}"),
            false => STARTED_LATER.to_owned(),
        };
        let told = json!({ "agent": name, "folder": folder, "running": running });
        globals.print(&told, [format!("created {folder}"), globals.commands(&next)]);
    }
}

fn created_team(template: &str, made: &CreatedAgents, running: bool, globals: &Globals) {
    let agents: Vec<Value> = made
        .agents
        .iter()
        .map(|it| json!({ "agent": it.name, "folder": it.folder, "description": it.about }))
        .collect();
    let request = made.request.as_deref().unwrap_or_default();
    let told = json!({
        "template": template, "agents": agents, "request": request, "running": running,
    });
    let Some(lead) = made.agents.first() else { return };
    let mut lines = vec![format!("created the team {} from the template {template}:", lead.name)];
    lines.extend(table(
        ["agent", "what it is for"],
        made.agents.iter().map(|it| [it.name.clone(), it.about.clone()]),
    ));
    lines.push(format!("settings, rules and skills: {}", lead.folder.display()));
    if !running {
        lines.push(globals.commands(STARTED_LATER));
    }
    lines.push(globals.commands(&format!("try it: skep send {} {request:?} --wait", lead.name)));
    let later = format!("what it reports later: skep history show {}", lead.name);
    lines.push(globals.commands(&later));
    lines.push(globals.commands("what it asks you: skep ask; what it wants to do: skep approve"));
    globals.print(&told, lines);
}

async fn remove(agent: &str, cascade: bool, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let path = format!("/api/v1/agents/{}", escaped(agent));
    let path = with_query(&path, [("cascade", cascade.then(|| "true".to_owned()))]);
    client.delete(&path, format!("remove the agent {agent}")).await?;
    globals.print(&json!({ "removed": agent }), [format!("removed {agent}")]);
    Ok(())
}

/// Whether a running hive has loaded the agent. A hive that does not run is no failure.
pub async fn noticed(globals: &Globals, name: &str) -> bool {
    let Ok(client) = Client::open(globals) else { return false };
    let since = Instant::now();
    while since.elapsed() < NOTICE {
        let Ok(told) = client.get("/api/v1/agents").await else { return false };
        let mut agents = items(&told["agents"]).iter();
        if agents.any(|agent| agent["name"] == name) {
            return true;
        }
        sleep(PAUSE).await;
    }
    false
}

async fn live(agent: &str, action: &str, state: &str, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let path = format!("/api/v1/agents/{}/life", escaped(agent));
    let attempted = format!("{action} {agent}");
    let told = client.submit(&path, &json!({ "action": action }), attempted).await?;
    let line = match (action, told["changed"] == true) {
        ("restart", _) => format!("{agent} begins again"),
        (_, true) => format!("{agent} is {state}"),
        (_, false) => format!("{agent} was {state} already"),
    };
    globals.print(&told, [line]);
    Ok(())
}

async fn stop(agent: &str, session: &str, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let path = format!("/api/v1/agents/{}/stop", escaped(agent));
    let told =
        client.submit(&path, &json!({ "session_key": session }), format!("stop {agent}")).await?;
    let lines = match told["stopped"] == true {
        true => vec![format!("stopping the turn of {agent} / {session}")],
        false => {
            let state = client.fetch("/api/v1/state", format!("stop {agent}")).await?;
            let turns = items(&state["turns"]).iter().filter(|turn| turn["agent"] == agent);
            let elsewhere = turns.map(|turn| {
                let key = text(&turn["session_key"]);
                globals.commands(&format!(
                    "  it works in {key}: skep agent stop {agent} --session {key}"
                ))
            });
            [format!("nothing runs in {agent} / {session}")].into_iter().chain(elsewhere).collect()
        }
    };
    globals.print(&told, lines);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_list_is_a_tree() {
        let agents: Vec<Value> = [
            ("a", Some("b")),
            ("b", Some("a")),
            ("low", Some("team")),
            ("main", None),
            ("other", Some("hidden")),
            ("second", Some("main")),
            ("team", Some("main")),
        ]
        .map(|(name, parent)| json!({ "name": name, "parent": parent }))
        .to_vec();
        let shown = in_tree(&agents).into_iter();
        let shown: Vec<(usize, &str)> =
            shown.map(|(depth, it)| (depth, it["name"].as_str().unwrap_or_default())).collect();
        let expected =
            [(0, "main"), (1, "second"), (1, "team"), (2, "low"), (0, "other"), (0, "a"), (0, "b")];
        assert_eq!(shown, expected);
    }
}

//! A subagent as a tool: a task for the agent itself, in another role and a session of its own. The
//! call waits without a slot until it has ended, and its last message is the answer.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use skep_core::Millis;
use skep_core::cause::ItemOptions;
use skep_core::policy::{AgentReach, Class, allow};
use skep_core::provider::ToolSpec;
use skep_core::settings::AgentSettings;
use skep_core::task::TaskKind;
use skep_core::tool::{Manner, Prepared, Tool, ToolAnswer};
use skep_store::assign::Assign;
use skep_turn::snapshot::MakeSubagent;

use crate::org::tool::{OrgCall, refused};
use crate::org::{Organisation, delegate, query};

/// How the subagents of a hive's agents become tools.
pub fn subagent_tools(organisation: &Arc<Organisation>) -> MakeSubagent {
    let organisation = Arc::clone(organisation);
    Arc::new(move |name| Arc::new(SubagentTool::new(name, &organisation)))
}

/// One for all agents that have a subagent of this name.
struct SubagentTool {
    spec: ToolSpec,
    organisation: Arc<Organisation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubagentArguments {
    task: String,
}

impl SubagentTool {
    fn new(name: &str, organisation: &Arc<Organisation>) -> Self {
        let description = "Gives one of your subagents a task and waits for its result. It has \
                           your workspace and tools, and knows nothing of this conversation.";
        let task = "The task, complete in itself: the subagent sees nothing else.";
        let input_schema = json!({
            "type": "object",
            "properties": { "task": { "type": "string", "description": task } },
            "required": ["task"],
            "additionalProperties": false,
        });
        let (name, description) = (name.to_owned(), description.to_owned());
        let spec = ToolSpec { name, description, input_schema };
        Self { spec, organisation: Arc::clone(organisation) }
    }
}

impl Tool for SubagentTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        Manner::keyed(Class::Write)
    }

    /// What the agent's file says of it, as data.
    fn note(&self, agent: &AgentSettings) -> String {
        let own = agent.subagent(&self.spec.name).filter(|own| !own.description.is_empty());
        own.map(|own| format!("What it is for: \"{}\"", own.description.replace('"', "'")))
            .unwrap_or_default()
    }

    fn serves(&self, agent: &AgentSettings) -> bool {
        agent.subagent(&self.spec.name).is_some()
    }

    fn preset(&self) -> Option<&'static str> {
        Some(allow::SUBAGENTS)
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let name = self.spec.name.clone();
        let SubagentArguments { task } =
            serde_json::from_value(arguments).map_err(|error| format!("{name}: {error}"))?;
        let organisation = Arc::clone(&self.organisation);
        Ok(Box::new(move |context| {
            Box::pin(async move {
                match OrgCall::new(organisation, context).await {
                    Some(call) => run(&call, name, task).await,
                    None => refused("stopping", "the hive is stopping"),
                }
            })
        }))
    }
}

async fn run(call: &OrgCall, name: String, task: String) -> ToolAnswer {
    if let Some(decided) = query::decided(call) {
        return tell(decided);
    }
    let reason = format!("the subagent {name}");
    let new = match delegate::new(call, TaskKind::Subagent, vec![call.context.agent.clone()], task)
    {
        Ok(new) => new,
        Err(refused) => return *refused,
    };
    // As long as a task may take.
    let until = Some(Millis::MAX);
    let assign = Assign { until, options: ItemOptions { subagent: Some(name) }, ..new };
    match query::give(call, assign, reason).await {
        Ok(rows) => tell(&rows),
        Err(answer) => *answer,
    }
}

/// Its last message as it stands, or why there is none.
fn tell(tasks: &[Value]) -> ToolAnswer {
    let task = tasks.first().unwrap_or(&Value::Null);
    let result = task["result"].as_str().unwrap_or_default();
    match task["state"].as_str() {
        Some("done") if result.trim().is_empty() => {
            ToolAnswer::ok("The subagent has ended and said nothing.")
        }
        Some("done") => ToolAnswer::ok(result),
        _ => refused(task["code"].as_str().unwrap_or("failed"), result),
    }
}

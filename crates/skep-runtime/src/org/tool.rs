//! One tool of the organisation, as the gate sees it. Every refusal is an answer with its reason.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skep_core::BoxFuture;
use skep_core::policy::AgentReach;
use skep_core::provider::ToolSpec;
use skep_core::settings::{AgentSettings, AgentState};
use skep_core::tool::{Manner, Prepared, SecretArgument, Tool, ToolAnswer, ToolContext};
use skep_core::visible::is_blank;
use skep_store::assign::ChainLimits;
use skep_store::{Refusal, StoreError};

use super::organisation::Organisation;
use crate::hive::Shared;

/// A call at work.
pub(crate) struct OrgCall {
    pub organisation: Arc<Organisation>,
    pub shared: Arc<Shared>,
    pub context: ToolContext,
}

impl OrgCall {
    /// Nothing where the hive has ended.
    pub async fn new(organisation: Arc<Organisation>, context: ToolContext) -> Option<Self> {
        let shared = organisation.hive().await?;
        Some(Self { organisation, shared, context })
    }

    /// Whom the agent may write to now; nobody where it is not in the settings any more.
    pub fn recipients(&self) -> Vec<String> {
        let (id, name) = (self.context.agent_id, &self.context.agent);
        let agent = self.shared.snapshot().agent(id, name);
        agent.map(|agent| agent.allowed_recipients.clone()).unwrap_or_default()
    }

    /// Words for others, which are there and not too many.
    pub fn words(&self, words: String) -> Result<String, Box<ToolAnswer>> {
        let most = self.shared.settings().limits.inbox_body_bytes;
        if is_blank(&words) {
            return Err(Box::new(refused("empty", "there is no text")));
        }
        if words.len() > most {
            let why = format!("the text has more than {most} bytes");
            return Err(Box::new(refused("too_large", &why)));
        }
        Ok(words)
    }

    pub fn chain_limits(&self) -> ChainLimits {
        let limits = &self.shared.settings().limits;
        ChainLimits { hops: limits.hops, items: limits.items_per_root }
    }

    pub fn is_manager(&self) -> bool {
        let agents = &self.shared.settings().agents;
        let own = agents.get(&self.context.agent);
        matches!(own, Some(AgentState::Active(agent)) if agent.manager)
    }
}

/// What a call does, once its arguments are understood.
type Work<T> = Box<dyn FnOnce(OrgCall) -> BoxFuture<'static, T> + Send>;
/// Understands the arguments of a call.
type Reader<T> = Box<dyn Fn(Value) -> serde_json::Result<Work<T>> + Send + Sync>;

fn reader<A, F, T>(run: impl Fn(OrgCall, A) -> F + Copy + Send + Sync + 'static) -> Reader<T>
where
    A: DeserializeOwned + Send + 'static,
    F: Future<Output = T> + Send + 'static,
    T: 'static,
{
    Box::new(move |arguments| {
        let arguments: A = serde_json::from_value(arguments)?;
        let work: Work<T> = Box::new(move |call| Box::pin(run(call, arguments)));
        Ok(work)
    })
}

pub(super) struct OrgTool {
    spec: ToolSpec,
    manner: Manner,
    aliases: &'static [&'static str],
    secrets: fn(&Value) -> Vec<SecretArgument>,
    serves: fn(&AgentSettings) -> bool,
    note: fn(&AgentSettings) -> String,
    run: Reader<ToolAnswer>,
    refusal: Option<Reader<Option<ToolAnswer>>>,
}

impl OrgTool {
    pub fn new<A, F>(
        spec: ToolSpec,
        manner: Manner,
        run: impl Fn(OrgCall, A) -> F + Copy + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        F: Future<Output = ToolAnswer> + Send + 'static,
    {
        Self {
            spec,
            manner,
            aliases: &[],
            secrets: |_| Vec::new(),
            // A subagent works alone.
            serves: |agent| agent.role.is_none(),
            note: |_| String::new(),
            run: reader(run),
            refusal: None,
        }
    }

    pub fn name(&self) -> &str {
        &self.spec.name
    }

    pub fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    /// Other names for it.
    pub fn also_called(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Only for agents that it serves, with what their settings add to its description.
    pub fn noting(
        self,
        serves: fn(&AgentSettings) -> bool,
        note: fn(&AgentSettings) -> String,
    ) -> Self {
        Self { serves, note, ..self }
    }

    pub fn with_secrets(self, secrets: fn(&Value) -> Vec<SecretArgument>) -> Self {
        Self { secrets, ..self }
    }

    /// What a call would be answered, where that is a no whatever a person says.
    pub fn unless<A, F>(
        self,
        refusal: impl Fn(OrgCall, A) -> F + Copy + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        F: Future<Output = Option<ToolAnswer>> + Send + 'static,
    {
        Self { refusal: Some(reader(refusal)), ..self }
    }

    pub fn secret_arguments(&self, arguments: &Value) -> Vec<SecretArgument> {
        (self.secrets)(arguments)
    }

    /// For the agents of a hive.
    pub fn offered_by(self, organisation: &Arc<Organisation>) -> Arc<dyn Tool> {
        Arc::new(OfferedTool { tool: self, organisation: Arc::clone(organisation) })
    }
}

struct OfferedTool {
    tool: OrgTool,
    organisation: Arc<Organisation>,
}

impl Tool for OfferedTool {
    fn spec(&self) -> &ToolSpec {
        &self.tool.spec
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        self.tool.manner
    }

    fn aliases(&self) -> &[&'static str] {
        self.tool.aliases
    }

    fn serves(&self, agent: &AgentSettings) -> bool {
        (self.tool.serves)(agent)
    }

    fn note(&self, agent: &AgentSettings) -> String {
        (self.tool.note)(agent)
    }

    fn secret_arguments(&self, arguments: &Value) -> Vec<SecretArgument> {
        self.tool.secret_arguments(arguments)
    }

    fn refusal<'a>(
        &'a self,
        arguments: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let refusal = self.tool.refusal.as_ref()?;
            let work = refusal(arguments.clone()).ok()?;
            let call = OrgCall::new(Arc::clone(&self.organisation), context.clone()).await?;
            match work(call).await? {
                ToolAnswer::Done { text, .. } => Some(text),
                ToolAnswer::Cut { .. } | ToolAnswer::Wait { .. } => None,
            }
        })
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        let work = (self.tool.run)(arguments);
        let work = work.map_err(|error| format!("{}: {error}", self.tool.spec.name))?;
        let organisation = Arc::clone(&self.organisation);
        Ok(Box::new(move |context| {
            Box::pin(async move {
                match OrgCall::new(organisation, context).await {
                    Some(call) => work(call).await,
                    None => refused("stopping", "the hive is stopping"),
                }
            })
        }))
    }
}

pub(crate) fn answered(value: &Value) -> ToolAnswer {
    ToolAnswer::ok(value.to_string())
}

pub(crate) fn refused(code: &str, why: &str) -> ToolAnswer {
    ToolAnswer::error(json!({"success": false, "error": code, "reason": why}).to_string())
}

/// The store did not take it.
pub(crate) fn failed(error: &StoreError) -> ToolAnswer {
    match error {
        StoreError::Refused(Refusal::Conflict { code, detail }) => return refused(code, detail),
        StoreError::Refused(Refusal::NotFound { what }) => {
            return refused("not_found", &format!("{what} does not exist"));
        }
        _ => {}
    }
    tracing::warn!(%error, "a tool of the organisation could not write");
    refused("store", "the hive could not keep this now; call again later")
}

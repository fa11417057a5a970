//! The profiles as people see them, and a try of one: a real call, as small as a wire allows.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use tokio::time::Instant;

use skep_core::engine::{Hold, RetryCode};
use skep_core::ids::{AgentName, ItemId, MessageId, SessionId, TurnId};
use skep_core::message::{Body, Message, Origin, Usage, history_tag};
use skep_core::provider::{ModelError, ModelEvent, ModelRequest, Provider, SystemPrompt};
use skep_core::settings::Profile;
use skep_core::{choice, count};
use skep_guard::clock;
use skep_turn::turn::millis;

use crate::door::{DoorError, ErrorKind, MessageFailure, ProviderInfo, ProviderTry, Reached};
use crate::hive::Hive;

/// No wire takes less for an answer.
const ANSWER_TOKENS: u32 = 16;
/// Whoever tries a profile waits for it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Whoever lists them waits for the slowest.
const KNOCK: Duration = Duration::from_secs(5);
const QUESTION: &str = "Say ok.";

impl Hive {
    /// Every profile, in the order of the names.
    pub fn providers(&self) -> Vec<ProviderInfo> {
        let settings = self.settings();
        let uses = |name: &str| {
            let active = settings.agents.keys().filter(|agent| {
                settings.agent(agent).is_ok_and(|agent| agent.profile.name == name)
            });
            active.cloned().collect()
        };
        let described = settings.profiles.values().map(|profile| {
            let reach = settings.reached.get(&profile.name).cloned().unwrap_or_default();
            ProviderInfo {
                name: profile.name.clone(),
                provider: profile.provider.clone(),
                model: profile.model.clone(),
                address: reach.address,
                key: reach.key,
                max_output_tokens: profile.max_output_tokens,
                context_window: profile.context_window,
                price_known: profile.price.is_some(),
                fallback: profile.fallback.iter().map(|other| other.name.clone()).collect(),
                agents: uses(&profile.name),
                reached: None,
            }
        });
        described.collect()
    }

    /// As `providers`, and all of them are knocked at, at the same time.
    pub async fn providers_reached(&self) -> Vec<ProviderInfo> {
        let providers = self.settings().providers.clone();
        let knocked = self.providers().into_iter().map(|info| {
            let provider = providers.get(&info.name);
            async move {
                let reached = match provider {
                    Some(provider) => Some(knock(&*provider).await),
                    None => None,
                };
                ProviderInfo { reached, ..info }
            }
        });
        join_all(knocked).await
    }

    /// Asks the model of a profile, or of `vendor:model`, for a word. Never a fallback instead.
    pub async fn try_provider(&self, id: &str) -> Result<ProviderTry, DoorError> {
        let settings = self.settings();
        let unknown = |text| DoorError::new(ErrorKind::NotFound, "unknown_profile", text);
        let usual = settings.profiles.get("default").or_else(|| settings.profiles.values().next());
        let Some(usual) = usual else {
            return Err(unknown("This hive has no profile.".to_owned()));
        };
        let profile = choice::profile(id, usual, &settings.profiles).map_err(unknown)?;
        let Some(provider) = settings.providers.get(&profile.name) else {
            let text = format!("The profile `{id}` cannot be used; see skep status.");
            return Err(unknown(text));
        };
        Ok(self.try_profile(&profile, &*provider).await)
    }

    /// The same for a profile that may not be in force.
    pub(crate) async fn try_profile(
        &self,
        profile: &Arc<Profile>,
        provider: &dyn Provider,
    ) -> ProviderTry {
        let since = Instant::now();
        let request = Arc::new(request(profile));
        let held = self.shared.env().ledger.hold_try(profile, &request);
        let tried = match held {
            Ok(hold) => {
                let asked = ask(provider, profile, request, hold);
                tokio::time::timeout(PATIENCE, asked).await
            }
            Err(over) => {
                Ok(Err(MessageFailure { code: over.code.as_str().to_owned(), error: over.text }))
            }
        };
        let took_ms = millis(since.elapsed());
        let (usage, error) = match tried {
            Ok(Ok(usage)) => (Some(usage), None),
            Ok(Err(error)) => (None, Some(error)),
            Err(_) => {
                let error = format!("no answer within {} seconds", PATIENCE.as_secs());
                (None, Some(MessageFailure { code: "provider_unavailable".to_owned(), error }))
            }
        };
        let (name, model) = (profile.name.clone(), profile.model.clone());
        ProviderTry { name, model, ok: error.is_none(), took_ms, usage, error }
    }
}

async fn knock(provider: &dyn Provider) -> Reached {
    let since = Instant::now();
    let error = match tokio::time::timeout(KNOCK, provider.reach()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("nothing answers there within {} seconds", KNOCK.as_secs())),
    };
    Reached { ok: error.is_none(), took_ms: millis(since.elapsed()), error }
}

async fn ask(
    provider: &dyn Provider,
    profile: &Profile,
    request: Arc<ModelRequest>,
    mut hold: Hold,
) -> Result<Usage, MessageFailure> {
    let mut answer = provider.call(Arc::clone(&request));
    let mut heard = false;
    while let Some(event) = answer.next().await {
        match event {
            Ok(ModelEvent::End(meta)) if !heard && meta.usage.output == 0 => {
                hold.answered(count::plausible(meta.usage, &request));
                let text = "the model's answer is empty; check the name of the model".to_owned();
                return Err(failure(&ModelError::Rejected { text }));
            }
            Ok(ModelEvent::End(meta)) => {
                let usage = count::plausible(meta.usage, &request);
                let usage = usage.priced(profile.price.as_ref());
                hold.answered(usage);
                return Ok(usage);
            }
            Ok(_) => {
                heard = true;
                hold.hear(1);
            }
            Err(error) => {
                hold.failed();
                return Err(failure(&error));
            }
        }
    }
    let text = "the model's answer ended before it was complete".to_owned();
    Err(failure(&ModelError::Passing { code: RetryCode::Cut, text, retry_after: None }))
}

fn request(profile: &Profile) -> ModelRequest {
    // Of no conversation: it is not written down anywhere.
    let origin = Origin {
        item: ItemId::new(""),
        message_id: MessageId::new(""),
        channel: "api".to_owned(),
        principal: "operator".to_owned(),
        kind: None,
    };
    let question = Message {
        tag: history_tag(),
        id: String::new(),
        agent_id: AgentName::nobody(),
        session_id: SessionId::new(""),
        turn: TurnId::new(""),
        seq: 1,
        timestamp: clock::now_ms(),
        body: Body::user(QUESTION, Vec::new(), origin),
    };
    ModelRequest {
        model: profile.model.clone(),
        system: SystemPrompt::default(),
        tools: Vec::new().into(),
        messages: vec![Arc::new(question)],
        max_output_tokens: ANSWER_TOKENS,
        thinking: None,
        temperature: None,
        sees_images: false,
        cache_key: String::new(),
    }
}

fn failure(error: &ModelError) -> MessageFailure {
    let code = match error {
        ModelError::Passing { .. } => "provider_unavailable",
        ModelError::Auth { .. } => "provider_auth",
        ModelError::NotFound { .. } | ModelError::Rejected { .. } => "provider_rejected",
        ModelError::ContextTooLong { .. } => "context_too_long",
    };
    MessageFailure { code: code.to_owned(), error: error.to_string() }
}

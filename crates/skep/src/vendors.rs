//! From profiles to providers: the only place that names concrete vendors.

use std::collections::BTreeMap;
use std::sync::Arc;

use secrecy::SecretString;
use skep_core::provider::{Provider, Providers};
use skep_core::settings::{AgentState, HiveSettings};
use skep_guard::http::ClientError;
use skep_guard::vault::Vault;
use skep_model::{
    AnthropicProvider, OpenAiChatProvider, OpenAiResponsesProvider, RehearsalProvider, WireSettings,
};

use crate::home::{Vendor, VendorConnection};

/// The providers in use, one a profile. A profile that has not changed keeps its provider, and
/// with it the open connections.
#[derive(Default)]
pub struct Vendors {
    held: BTreeMap<String, (VendorConnection, Arc<dyn Provider>)>,
    /// Why the provider of a profile could not be made.
    failed: BTreeMap<String, String>,
}

impl Vendors {
    /// Makes the providers of these settings. A profile whose provider cannot be built disables
    /// only the agents that use it.
    pub fn furnish(
        &mut self,
        settings: &mut HiveSettings,
        connections: &BTreeMap<String, VendorConnection>,
        vault: &Vault,
    ) {
        let mut held = BTreeMap::new();
        self.failed.clear();
        for (name, connection) in connections {
            match self.made(name, connection, vault) {
                Ok(made) => {
                    held.insert(name.clone(), made);
                }
                Err(reason) => {
                    if let Some(reached) = settings.reached.get_mut(name) {
                        reached.key.push_str(&format!("; cannot be used: {reason}"));
                    }
                    self.failed.insert(name.clone(), reason);
                }
            }
        }
        settings.agents.iter_mut().for_each(|(_, state)| self.disable(state));
        // An agent that keeps its old settings may use a removed profile.
        for state in settings.agents.values() {
            let AgentState::Active(agent) = state else { continue };
            let named = std::iter::once(&agent.profile).chain(&agent.profile.fallback);
            for name in named.map(|profile| &profile.name) {
                if let Some(former) = self.held.get(name).filter(|_| !held.contains_key(name)) {
                    held.insert(name.clone(), former.clone());
                }
            }
        }
        let providers = held.iter().map(|(name, (_, provider))| (name.clone(), provider.clone()));
        settings.providers = Providers::new(providers.collect());
        self.held = held;
    }

    fn made(
        &self,
        name: &str,
        connection: &VendorConnection,
        vault: &Vault,
    ) -> Result<(VendorConnection, Arc<dyn Provider>), String> {
        let connection = connection.filled(vault)?;
        let same = self.held.get(name).filter(|(before, _)| before.same_as(&connection));
        let provider = match same {
            Some((_, provider)) => Arc::clone(provider),
            None => provider(&connection).map_err(|error| error.to_string())?,
        };
        Ok((connection, provider))
    }

    /// Disables an agent whose profile has no provider.
    pub fn disable(&self, state: &mut AgentState) {
        let AgentState::Active(agent) = state else { return };
        let profile = &agent.profile.name;
        if let Some(reason) = self.failed.get(profile) {
            let reason = format!("its profile {profile} cannot be used: {reason}");
            *state = AgentState::Failed { reason };
        }
    }
}

pub fn provider(connection: &VendorConnection) -> Result<Arc<dyn Provider>, ClientError> {
    let settings = WireSettings {
        base_url: connection.api_url.clone(),
        key: connection.api_key.clone().unwrap_or_else(|| SecretString::from("")),
        timeouts: connection.timeouts,
        extra_headers: connection.extra_headers.clone(),
    };
    Ok(match connection.vendor {
        Vendor::Anthropic => Arc::new(AnthropicProvider::new(settings)?),
        Vendor::OpenAiChat => Arc::new(OpenAiChatProvider::new(settings)?),
        Vendor::OpenAiResponses => Arc::new(OpenAiResponsesProvider::new(settings)?),
        Vendor::Rehearsal => Arc::new(RehearsalProvider),
    })
}

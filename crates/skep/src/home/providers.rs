//! `providers.yaml`: named ways to reach a model, and what is used when there is none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use skep_core::ids::is_agent_name;
use skep_core::money::Price;
use skep_core::policy::vault::HIVE;
use skep_core::settings::{KnownModels, ModelFacts, Profile, Timeouts};
use skep_guard::vault::Vault;
use skep_model::catalog::{self, ANTHROPIC, OPENAI};
use skep_scrub::Secret;

use super::environment::{Reader, Variables};
use super::fallback;
use super::hive::web_address;
use super::keys::{self, ProfileFindings};
use super::local::{LocalModel, LocalServer};
use super::mistake::Mistake;
use super::scalar::{BoundedInteger, Dollars, Temperature, TextScalar};
use super::source::SourceText;
use super::yaml;

const MAX_OUTPUT_TOKENS: u32 = 8192;
pub(super) const DEFAULT: &str = "default";
/// Ollama's default address.
const OLLAMA: &str = "http://127.0.0.1:11434/v1";

/// Model profiles. With none, a provider is detected from the environment.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RawProviders {
    /// By name; `default` is the one agents use when they name none.
    profiles: BTreeMap<String, RawProfile>,
}

/// One way to reach a model.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawProfile {
    /// The vendor's wire: anthropic, openai (Chat Completions, also of compatible servers),
    /// openai-responses, ollama (openai at Ollama's own address), or the built-in offline
    /// rehearsal model.
    provider: RawVendor,
    /// Base address of the vendor's API; for the OpenAI wires with `/v1`.
    #[serde(default)]
    #[schemars(extend("x-holds" = "web address"))]
    api_url: Option<TextScalar>,
    /// The key: write `vault:NAME` to take it from the vault, `${NAME}` to take it from the
    /// environment. A compatible server of your own may need none.
    #[serde(default)]
    #[schemars(extend("x-holds" = "key"))]
    api_key: Option<TextScalar>,
    /// The model's name at the vendor.
    #[serde(default)]
    #[schemars(extend("x-holds" = "text"))]
    model: Option<TextScalar>,
    /// Tokens one answer may have (8192).
    #[serde(default)]
    max_output_tokens: Option<BoundedInteger<1, 1_000_000>>,
    /// Tokens the model may think before it answers (no thinking).
    #[serde(default)]
    thinking: Option<BoundedInteger<1024, 1_000_000>>,
    /// How freely the model chooses its words.
    #[serde(default)]
    temperature: Option<Temperature>,
    #[serde(default)]
    timeouts: RawTimeouts,
    /// Profiles asked instead, one after the other, while this one cannot answer.
    #[serde(default)]
    #[schemars(extend("x-holds" = "profile"))]
    fallback: Vec<TextScalar>,
    /// Tokens a request and its answer may have together (what is known of the model).
    #[serde(default)]
    context_window: Option<BoundedInteger<1024, 100_000_000>>,
    /// What its tokens cost (what is known of the model). Of an unknown price the cost is unknown.
    #[serde(default)]
    price: Option<RawPrice>,
    /// Whether the model takes pictures (what is known of the model).
    #[serde(default)]
    sees_images: Option<bool>,
    /// Headers sent with every request.
    #[serde(default)]
    #[schemars(extend("x-holds" = "header"))]
    extra_headers: BTreeMap<String, TextScalar>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum RawVendor {
    Anthropic,
    Openai,
    OpenaiResponses,
    Ollama,
    Rehearsal,
}

/// Dollars for a million tokens.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawPrice {
    input: Dollars,
    output: Dollars,
    /// Tokens of the request that came from the vendor's cache (as input).
    #[serde(default)]
    cache_read: Option<Dollars>,
    /// Tokens of the request that were put into the vendor's cache (as input).
    #[serde(default)]
    cache_write: Option<Dollars>,
}

impl RawProfile {
    fn is_ollama(&self) -> bool {
        matches!(self.provider, RawVendor::Ollama)
    }
}

/// A value of a profile that is a secret, as it is written.
pub struct WrittenSecret {
    pub profile: String,
    /// `api_key`, or the name of a header.
    pub field: String,
    pub text: TextScalar,
}

/// The secrets of all profiles, wherever they come from.
pub fn written_secrets(source: &SourceText) -> Result<Vec<WrittenSecret>, Mistake> {
    let raw: RawProviders = yaml::parse(source)?;
    let mut found = Vec::new();
    for (profile, raw) in raw.profiles {
        let key = raw.api_key.map(|text| ("api_key".to_owned(), text));
        let headers = raw.extra_headers.into_iter();
        let headers = headers.filter(|(name, _)| keys::carries_credentials(name));
        found.extend(key.into_iter().chain(headers).map(|(field, text)| WrittenSecret {
            profile: profile.clone(),
            field,
            text,
        }));
    }
    Ok(found)
}

/// Seconds after which a silent vendor is given up.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RawTimeouts {
    /// To connect (10).
    connect: Option<BoundedInteger<1, 3600>>,
    /// To the first complete event of an answer (120).
    first: Option<BoundedInteger<1, 3600>>,
    /// Between two complete events (60).
    idle: Option<BoundedInteger<1, 3600>>,
}

pub struct ResolvedProviders {
    pub profiles: BTreeMap<String, Arc<Profile>>,
    pub connections: BTreeMap<String, VendorConnection>,
    pub warnings: Vec<String>,
    /// No model is selected, and no local server was looked for.
    pub undecided: bool,
    /// Which model answers by default, and why.
    pub note: String,
    /// Secrets to redact everywhere.
    pub secrets: Vec<Secret>,
}

/// How a profile's vendor is reached. Never leaves the composition root.
#[derive(Clone, Debug)]
pub struct VendorConnection {
    pub vendor: Vendor,
    pub api_url: String,
    pub api_key: Option<SecretString>,
    /// Where the key comes from, in words.
    pub key_source: String,
    pub timeouts: Timeouts,
    pub extra_headers: Vec<(String, SecretString)>,
}

impl VendorConnection {
    /// With what the vault holds in the place of `{{vault:NAME}}`.
    pub fn filled(&self, vault: &Vault) -> Result<Self, String> {
        let fill = |text: &SecretString| {
            let filled = vault.fill(HIVE, text.expose_secret());
            let text = filled.map_err(|error| error.to_string())?.text;
            match HeaderValue::from_str(text.expose_secret()) {
                Ok(_) => Ok(text),
                Err(_) => Err("a vault entry of it holds what no header can carry".to_owned()),
            }
        };
        let headers = self.extra_headers.iter();
        let headers = headers.map(|(name, value)| Ok((name.clone(), fill(value)?)));
        Ok(Self {
            api_key: self.api_key.as_ref().map(fill).transpose()?,
            extra_headers: headers.collect::<Result<_, String>>()?,
            ..self.clone()
        })
    }

    /// Whether both have the same address, key and options.
    pub fn same_as(&self, other: &Self) -> bool {
        let secret = |key: &SecretString| key.expose_secret().to_owned();
        let headers = |connection: &Self| -> Vec<(String, String)> {
            let headers = connection.extra_headers.iter();
            headers.map(|(name, value)| (name.clone(), secret(value))).collect()
        };
        self.vendor == other.vendor
            && self.api_url == other.api_url
            && self.api_key.as_ref().map(secret) == other.api_key.as_ref().map(secret)
            && self.timeouts == other.timeouts
            && headers(self) == headers(other)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    Anthropic,
    OpenAiChat,
    OpenAiResponses,
    Rehearsal,
}

impl Vendor {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Rehearsal => "rehearsal",
        }
    }

    /// Where its service is.
    fn url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAiChat | Self::OpenAiResponses => "https://api.openai.com/v1",
            Self::Rehearsal => "",
        }
    }

    /// Used only when the key came from the environment and nobody named a model.
    fn usual_model(self) -> &'static str {
        match self {
            Self::Anthropic => "claude-sonnet-4-5",
            Self::OpenAiChat | Self::OpenAiResponses => "gpt-5",
            Self::Rehearsal => "rehearsal",
        }
    }

    /// What tells facts about the models at an address.
    fn known(self, api_url: &str) -> KnownModels {
        KnownModels(match self {
            Self::Rehearsal => |_| ModelFacts { price: Some(Price::FREE), ..ModelFacts::default() },
            _ if catalog::is_at(api_url, ANTHROPIC) => |model| facts(model, ANTHROPIC),
            _ if catalog::is_at(api_url, OPENAI) => |model| facts(model, OPENAI),
            _ => |model| facts(model, ""),
        })
    }

    /// The variable its key usually stands in.
    fn key_variable(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => "OPENAI_API_KEY",
            Self::Anthropic | Self::Rehearsal => "ANTHROPIC_API_KEY",
        }
    }
}

/// From the catalog.
fn facts(model: &str, address: &str) -> ModelFacts {
    let found = catalog::find(model);
    ModelFacts {
        context_window: found.map(|model| model.context_window),
        most_output: found.map(|model| model.max_output_tokens),
        price: catalog::price(model, address),
        sees_images: found.is_some_and(|model| model.sees_images),
    }
}

pub fn read(
    source: &SourceText,
    variables: Variables,
    local: &LocalModel,
) -> Result<ResolvedProviders, Mistake> {
    let raw: RawProviders = yaml::parse(source)?;
    if raw.profiles.is_empty() {
        return Ok(detect(variables, local));
    }
    let reader = Reader { source, variables };
    let mut profiles = BTreeMap::new();
    let mut connections = BTreeMap::new();
    let mut findings = ProfileFindings::default();
    for (name, raw) in &raw.profiles {
        if !is_agent_name(name) {
            let mistake = source.mistake_at_path(&["profiles", name], "is not a profile name");
            return Err(mistake.expecting("lower-case letters, digits and single dashes"));
        }
        let (profile, connection) = resolve(&reader, name, raw, &mut findings)?;
        profiles.insert(name.clone(), profile);
        connections.insert(name.clone(), connection);
    }
    let written: Vec<_> =
        raw.profiles.iter().map(|(name, raw)| (name, raw.fallback.as_slice())).collect();
    let profiles = fallback::link(&reader, profiles, &written)?;
    let Some(usual) = profiles.get(DEFAULT) else {
        let mistake = source.mistake_at_path(&["profiles"], "there is no profile `default`");
        return Err(mistake.expecting("one profile of that name, used when an agent names none"));
    };
    let note = format!("{} {} (profile default of providers.yaml)", usual.provider, usual.model);
    let ProfileFindings { warnings, secrets } = findings;
    Ok(ResolvedProviders { profiles, connections, warnings, note, secrets, undecided: false })
}

fn resolve(
    reader: &Reader<'_>,
    name: &str,
    raw: &RawProfile,
    findings: &mut ProfileFindings,
) -> Result<(Profile, VendorConnection), Mistake> {
    let vendor = match raw.provider {
        RawVendor::Anthropic => Vendor::Anthropic,
        RawVendor::Openai | RawVendor::Ollama => Vendor::OpenAiChat,
        RawVendor::OpenaiResponses => Vendor::OpenAiResponses,
        RawVendor::Rehearsal => Vendor::Rehearsal,
    };
    let (model, api_url, api_key) = match vendor {
        Vendor::Anthropic | Vendor::OpenAiChat | Vendor::OpenAiResponses => (
            reader.text(needed(reader, name, vendor, "model", raw.model.as_ref())?)?,
            match &raw.api_url {
                None if raw.is_ollama() => OLLAMA.to_owned(),
                None => vendor.url().to_owned(),
                Some(text) => web_address(reader, text)?,
            },
            api_key(reader, name, vendor, raw, findings)?,
        ),
        Vendor::Rehearsal => {
            if let Some(text) = raw.api_key.as_ref().or(raw.api_url.as_ref()) {
                let mistake = reader.mistake(text, "has no meaning for provider rehearsal");
                return Err(mistake.expecting("the key to be left out"));
            }
            let model = raw.model.as_ref().map(|text| reader.text(text)).transpose()?;
            (model.unwrap_or_else(|| vendor.usual_model().to_owned()), String::new(), None)
        }
    };
    let models = vendor.known(&api_url);
    let known = (models.0)(&model);
    let usual_output = MAX_OUTPUT_TOKENS.min(known.most_output.unwrap_or(u32::MAX));
    let max_output_tokens = raw.max_output_tokens.map_or(usual_output, |n| n.0 as u32);
    let thinking = raw.thinking.map(|n| n.0 as u32);
    check_thinking(reader, name, raw, max_output_tokens)?;
    let profile = Profile {
        name: name.to_owned(),
        provider: vendor.as_str().to_owned(),
        model,
        max_output_tokens,
        thinking,
        temperature: raw.temperature.map(|value| value.0),
        fallback: Vec::new(),
        context_window: raw.context_window.map(|n| n.0 as u32).or(known.context_window),
        price: raw.price.as_ref().map(price).or(known.price),
        sees_images: raw.sees_images.unwrap_or(known.sees_images),
        known: models,
    };
    let extra_headers = keys::extra_headers(reader, name, &raw.extra_headers, findings)?;
    let timeouts = timeouts(&raw.timeouts);
    let key_source = keys::key_source(raw.api_key.as_ref());
    Ok((
        profile,
        VendorConnection { vendor, api_url, api_key, key_source, timeouts, extra_headers },
    ))
}

fn needed<'a>(
    reader: &Reader<'_>,
    profile: &str,
    vendor: Vendor,
    key: &str,
    found: Option<&'a TextScalar>,
) -> Result<&'a TextScalar, Mistake> {
    found.ok_or_else(|| {
        let what = format!("the key `{key}` is missing");
        let mistake = reader.source.mistake_at_path(&["profiles", profile], what);
        let example = match key {
            "api_key" => format!("${{{}}}", vendor.key_variable()),
            _ => vendor.usual_model().to_owned(),
        };
        mistake.expecting(format!("for instance `{key}: {example}`"))
    })
}

/// The key as it is written; compatible servers often need none.
fn api_key(
    reader: &Reader<'_>,
    name: &str,
    vendor: Vendor,
    raw: &RawProfile,
    findings: &mut ProfileFindings,
) -> Result<Option<SecretString>, Mistake> {
    let own_server = raw.api_url.is_some() || raw.is_ollama();
    if vendor == Vendor::OpenAiChat && own_server && raw.api_key.is_none() {
        return Ok(None);
    }
    let text = needed(reader, name, vendor, "api_key", raw.api_key.as_ref())?;
    keys::api_key(reader, name, text, findings).map(Some)
}

/// The vendor refuses these combinations; the start reports them.
fn check_thinking(
    reader: &Reader<'_>,
    name: &str,
    raw: &RawProfile,
    max_output_tokens: u32,
) -> Result<(), Mistake> {
    let Some(thinking) = raw.thinking else { return Ok(()) };
    let path = ["profiles", name, "thinking"];
    if thinking.0 >= u64::from(max_output_tokens) {
        let mistake = reader.source.mistake_at_path(&path, "leaves no room for an answer");
        return Err(
            mistake.expecting(format!("less than max_output_tokens, which is {max_output_tokens}"))
        );
    }
    if raw.temperature.is_some() {
        let mistake = reader.source.mistake_at_path(&path, "cannot go with `temperature`");
        return Err(mistake.expecting("only one of the two keys"));
    }
    Ok(())
}

fn price(raw: &RawPrice) -> Price {
    Price {
        input: raw.input.0,
        output: raw.output.0,
        cache_read: raw.cache_read.unwrap_or(raw.input).0,
        cache_write: raw.cache_write.unwrap_or(raw.input).0,
        long: None,
    }
}

fn timeouts(raw: &RawTimeouts) -> Timeouts {
    let usual = Timeouts::default();
    let seconds = Duration::from_secs;
    Timeouts {
        connect: raw.connect.map_or(usual.connect, |n| seconds(n.0)),
        first: raw.first.map_or(usual.first, |n| seconds(n.0)),
        idle: raw.idle.map_or(usual.idle, |n| seconds(n.0)),
    }
}

/// Nothing is configured: a key in the environment decides, else a server on this machine, else
/// the offline rehearsal model.
fn detect(variables: Variables, local: &LocalModel) -> ResolvedProviders {
    if let Some(key) = variables("ANTHROPIC_API_KEY") {
        return detected(Vendor::Anthropic, variables("ANTHROPIC_BASE_URL"), key);
    }
    if let Some(key) = variables("OPENAI_API_KEY") {
        return match variables("OPENAI_BASE_URL") {
            // Another address means a compatible server, and those use Chat Completions.
            Some(url) => detected(Vendor::OpenAiChat, Some(url), key),
            None => detected(Vendor::OpenAiResponses, None, key),
        };
    }
    if let LocalModel::Found(LocalServer { name, url, model }) = local {
        let vendor = Vendor::OpenAiChat;
        let note = format!("{} {model} ({name} answers at {url})", vendor.as_str());
        return only(vendor, model, url, None, note);
    }
    let note = "rehearsal: a scripted offline model, because no provider is configured; set \
                ANTHROPIC_API_KEY or OPENAI_API_KEY or write providers.yaml to use a real one";
    let vendor = Vendor::Rehearsal;
    let found = only(vendor, vendor.usual_model(), vendor.url(), None, note.to_owned());
    ResolvedProviders { undecided: *local == LocalModel::NotLooked, ..found }
}

fn detected(vendor: Vendor, url: Option<String>, key: String) -> ResolvedProviders {
    let note = format!(
        "{} {} ({} is set in the environment)",
        vendor.as_str(),
        vendor.usual_model(),
        vendor.key_variable()
    );
    let url = url.as_deref().unwrap_or(vendor.url());
    only(vendor, vendor.usual_model(), url, Some(SecretString::from(key)), note)
}

/// One profile for every agent.
fn only(
    vendor: Vendor,
    model: &str,
    api_url: &str,
    api_key: Option<SecretString>,
    note: String,
) -> ResolvedProviders {
    let models = vendor.known(api_url);
    let known = (models.0)(model);
    let profile = Profile {
        name: DEFAULT.to_owned(),
        provider: vendor.as_str().to_owned(),
        model: model.to_owned(),
        max_output_tokens: MAX_OUTPUT_TOKENS.min(known.most_output.unwrap_or(u32::MAX)),
        thinking: None,
        temperature: None,
        fallback: Vec::new(),
        context_window: known.context_window,
        price: known.price,
        sees_images: known.sees_images,
        known: models,
    };
    let api_url = api_url.trim_end_matches('/').to_owned();
    let timeouts = Timeouts::default();
    let secrets = api_key.iter().map(|key| Secret::new(vendor.key_variable(), key.clone()));
    let secrets = secrets.collect();
    let key_source = match api_key {
        Some(_) => format!("{} of the environment", vendor.key_variable()),
        None => "none".to_owned(),
    };
    let extra_headers = Vec::new();
    let connection =
        VendorConnection { vendor, api_url, api_key, key_source, timeouts, extra_headers };
    ResolvedProviders {
        profiles: BTreeMap::from([(DEFAULT.to_owned(), Arc::new(profile))]),
        connections: BTreeMap::from([(DEFAULT.to_owned(), connection)]),
        warnings: Vec::new(),
        undecided: false,
        note,
        secrets,
    }
}

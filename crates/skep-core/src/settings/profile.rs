//! Profiles: named configurations of a model vendor.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::vocab::money::Price;

/// A named provider configuration. The key itself lives in the provider, never here.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pub name: String,
    pub provider: String,
    pub model: String,
    pub max_output_tokens: u32,
    pub thinking: Option<u32>,
    pub temperature: Option<f64>,
    /// The profiles to try in order when this one cannot answer: its fallbacks, and theirs.
    pub fallback: Vec<Arc<Profile>>,
    /// Tokens of a request and its answer together; `None` if unknown.
    pub context_window: Option<u32>,
    /// `None` if unknown: then the cost of its calls is unknown too.
    pub price: Option<Price>,
    /// It takes pictures; other models get a description in words.
    pub sees_images: bool,
    /// What is publicly known of a model at this profile's address.
    pub known: KnownModels,
}

/// Tells the facts about a model by its name.
#[derive(Clone, Copy, Debug)]
pub struct KnownModels(pub fn(&str) -> ModelFacts);

impl KnownModels {
    pub const NONE: Self = Self(|_| ModelFacts::default());
}

/// What is known does not change while a program runs: profiles do not differ by it.
impl PartialEq for KnownModels {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Facts about a model, as far as anybody knows them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelFacts {
    pub context_window: Option<u32>,
    pub most_output: Option<u32>,
    pub price: Option<Price>,
    pub sees_images: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// Until the first complete event of a stream.
    pub first: Duration,
    /// Between two complete events, pings included.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first: Duration::from_secs(120),
            idle: Duration::from_secs(60),
        }
    }
}

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Think {
    Off,
    Low,
    Medium,
    High,
}

impl Think {
    pub const ALL: [Self; 4] = [Self::Off, Self::Low, Self::Medium, Self::High];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }

    /// Tokens for thinking. Vendors that take a word instead of a number give each of these the
    /// word of its level.
    pub fn budget(self) -> Option<u32> {
        match self {
            Self::Off => None,
            Self::Low => Some(2048),
            Self::Medium => Some(8192),
            Self::High => Some(24_576),
        }
    }
}

/// How a profile's vendor is reached, without anything secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VendorAddress {
    /// Scheme, host, port and path; nothing where no address is dialled.
    pub address: Option<String>,
    /// Where the key comes from, in words.
    pub key: String,
}

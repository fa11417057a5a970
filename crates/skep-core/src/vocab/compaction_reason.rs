//! Why a session was compacted, in the words of rows and of the wire.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The window was nearly full.
    Full,
    /// The vendor refused the request for its length.
    Overflow,
    /// A person asked for it.
    Asked,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Overflow => "overflow",
            Self::Asked => "asked",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Self::Full, Self::Overflow, Self::Asked].into_iter().find(|it| it.as_str() == word)
    }
}

//! The answer to an approval, as every door takes it.

use serde::Deserialize;
use skep_core::approval::Scope;
use skep_runtime::door::DecisionWish;
use utoipa::ToSchema;

use crate::request::permit::Permit;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Word)]
pub(crate) enum DecisionWord {
    Approve,
    Deny,
}

/// An answer.
#[derive(Clone, Debug, Deserialize, PartialEq, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Decision)]
pub(crate) struct DecisionRequest {
    decision: DecisionWord,
    /// The scope of an approval; `once` where it is left out.
    scope: Option<Scope>,
    /// For `session` and `always`: what is allowed, one for each command of the call's line, all of
    /// it covered; exactly this call where there are none.
    #[serde(default)]
    patterns: Vec<String>,
    /// For the agent where it is a no, for the record else.
    #[schema(max_length = 2000)]
    note: Option<String>,
    /// The `hash` of what was shown.
    hash: String,
}

impl DecisionRequest {
    pub(crate) fn wish(self, permit: &Permit, from: &str) -> DecisionWish {
        DecisionWish {
            approve: self.decision == DecisionWord::Approve,
            scope: self.scope.unwrap_or(Scope::Once),
            patterns: self.patterns,
            note: self.note,
            hash: self.hash,
            by: permit.principal().to_string(),
            from: from.to_owned(),
        }
    }
}

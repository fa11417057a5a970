//! What a client sends, read strictly, and how it is refused.
//!
//! Nothing here knows the hive's doors: bodies, parameters, headers and files become values, and
//! what cannot be used becomes a [`problem::Problem`].

pub(crate) mod attachment;
pub(crate) mod decision;
pub(crate) mod extract;
pub(crate) mod header;
pub(crate) mod intake;
pub(crate) mod openai_error;
pub(crate) mod permit;
pub(crate) mod problem;
pub(crate) mod unread;

pub(crate) use attachment::{LARGE_TEXT, RawAttachment};
pub(crate) use decision::DecisionRequest;
pub(crate) use extract::{
    BODY_BYTES, HashedJsonBody, JsonBody, LINES, LINES_BYTES, LargeJsonBody, Nothing,
    OptionalJsonBody, Params, Segments, page_size,
};
pub(crate) use header::{IdempotencyKey, OnClose, OnCloseHeader, OnlyNew, is_id, only};
pub(crate) use intake::{Full, HeldRoom, Intake, IntakeRoom, Sender};
pub(crate) use openai_error::OpenAiError;
pub(crate) use permit::Permit;
pub(crate) use problem::{
    BadBody, Clash, Missing, NoAnswerYet, NotKept, NotReady, Problem, ProblemBody, TurnFailed,
    described,
};

//! What agents ask and tell the operator, and what the operator answers.

use serde::Serialize;
use utoipa::ToSchema;

use skep_core::Millis;
use skep_core::ids::{AgentName, ItemId, Principal, SessionKey};
use skep_core::question::GivenAnswer;
use skep_core::task::{QuestionKind, TaskKind};
use skep_guard::{clock, random};
use skep_store::letters::{self, CloseLetter, OperatorLetter};
use skep_store::questions::{self, AnswerTask, Answerer, OpenQuestion};
use skep_store::{Refusal, StoreError};

use crate::door::{DoorError, ErrorKind};
use crate::hive::{Hive, door_error};

/// Questions and messages of one answer.
const SHOWN: i64 = 200;

/// An agent waits for what the operator says, or has told the operator something.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QuestionInfo {
    pub id: ItemId,
    pub kind: QuestionKind,
    pub agent: AgentName,
    /// The conversation that hears the answer.
    pub session_key: SessionKey,
    /// The first item of the chain that waits for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<ItemId>,
    /// Of a message: the first one of its thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<ItemId>,
    pub text: String,
    /// What may be chosen; words of one's own are always an answer.
    pub options: Vec<String>,
    /// Several options may be chosen.
    pub multi: bool,
    pub created_at: Millis,
    /// From then on nobody waits for an answer; absent where nobody does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
}

/// What the operator has to look at.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Questions {
    /// Oldest first; at most 200.
    pub questions: Vec<QuestionInfo>,
    /// There are newer ones, which are listed when some of these have ended.
    pub more: bool,
}

impl Hive {
    /// Those nobody has answered, and messages nobody has looked at.
    pub async fn questions(&self) -> Result<Questions, DoorError> {
        let read = self.shared.store.read(async |conn| {
            let asked = questions::of_operator(conn, SHOWN + 1).await?;
            Ok((asked, letters::of_operator(conn, SHOWN + 1).await?))
        });
        let (asked, told) = read.await.map_err(door_error)?;
        let asked = asked.into_iter().map(QuestionInfo::asked);
        let mut list: Vec<_> = asked.chain(told.into_iter().map(QuestionInfo::told)).collect();
        list.sort_by_key(|question| question.created_at);
        let more = list.len() > SHOWN as usize;
        list.truncate(SHOWN as usize);
        Ok(Questions { questions: list, more })
    }

    /// The agent goes on with this answer.
    pub async fn answer_question(
        &self,
        id: ItemId,
        mut answer: GivenAnswer,
        by: &Principal,
    ) -> Result<(), DoorError> {
        answer.answer = answer.answer.map(|words| skep_scrub::known().clean_owned(words));
        let (answerer, now) = (Answerer::Operator(by.clone()), clock::now_ms());
        let command = AnswerTask { task: id.clone(), answer: answer.clone(), by: answerer, now };
        let answered = match self.shared.store.write(command).await {
            Err(StoreError::Refused(Refusal::NotFound { .. })) => {
                self.close_letter(id, Some(answer), by).await
            }
            other => other,
        };
        answered.map_err(|error| match error {
            StoreError::Refused(Refusal::Conflict { code: INVALID, detail }) => {
                let text = format!("This is no answer: {detail}.");
                DoorError::new(ErrorKind::Invalid, INVALID, text)
            }
            error => door_error(error),
        })?;
        self.shared.env().lanes.wake();
        Ok(())
    }

    /// The message needs no reply.
    pub async fn put_message_away(&self, id: ItemId, by: &Principal) -> Result<(), DoorError> {
        self.close_letter(id, None, by).await.map(drop).map_err(door_error)
    }

    async fn close_letter(
        &self,
        letter: ItemId,
        reply: Option<GivenAnswer>,
        by: &Principal,
    ) -> Result<bool, StoreError> {
        let reply = reply.map(|given| (ItemId(random::uuid().to_string()), given));
        let (by, now) = (by.clone(), clock::now_ms());
        self.shared.store.write(CloseLetter { letter, reply, by, now }).await
    }
}

impl QuestionInfo {
    fn asked(row: OpenQuestion) -> Self {
        let clean = |text| skep_scrub::known().clean_owned(text);
        Self {
            id: row.id,
            kind: match row.kind {
                TaskKind::Question => QuestionKind::Question,
                _ => QuestionKind::Escalation,
            },
            agent: row.from_agent,
            session_key: row.from_key,
            root: Some(row.root),
            thread: None,
            text: clean(row.text),
            options: row.form.options.into_iter().map(clean).collect(),
            multi: row.form.multi,
            created_at: row.created_at,
            until: Some(row.deadline),
        }
    }

    fn told(row: OperatorLetter) -> Self {
        Self {
            id: row.id,
            kind: QuestionKind::Message,
            agent: row.from_agent,
            session_key: row.from_key,
            root: None,
            thread: Some(row.thread),
            text: skep_scrub::known().clean_owned(row.body),
            options: Vec::new(),
            multi: false,
            created_at: row.created_at,
            until: None,
        }
    }
}

/// The store's word for an answer that is none.
const INVALID: &str = "invalid_answer";

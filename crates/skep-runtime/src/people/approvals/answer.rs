//! What a person decides about a question. An answer is bound to what was shown.

use std::sync::Arc;

use serde_json::{Value, json};

use skep_core::approval::{ApprovalKind, ApprovalState, Scope};
use skep_core::audit::AuditRow;
use skep_core::cause::Cause;
use skep_core::ids::{ApprovalId, Principal};
use skep_core::policy::Effect;
use skep_core::policy::rule::{Rule, Who};
use skep_core::role::Role;
use skep_core::settings::{AgentSettings, QueueMode};
use skep_guard::{clock, random};
use skep_store::approvals::{Approval, NoteRefused};
use skep_store::audit::AddAudit;
use skep_store::grants::GrantRow;
use skep_store::inbox::{Accept, Accepted, Letter};
use skep_store::waits::AnswerApproval;
use skep_turn::lane::Slot;

use super::{Foreseen, approvers_of, draft_of, row_of, unknown_approval};
use crate::door::{
    ApprovalInfo, DecisionWish, DoorError, ErrorKind, FileWriters, Identity, Inbound, RuleDraft,
    Sight, Source, check_no_secret,
};
use crate::hive::{Hive, door_error};
use crate::intake::Opens;

/// A note is a sentence or two.
const NOTE_CHARACTERS: usize = 2000;

/// What a lasting yes comes to.
#[derive(Default)]
struct Lasting {
    /// Other open questions that it answers.
    also: Vec<Approval>,
    /// What it allows.
    patterns: Vec<String>,
    /// To be made with the answer.
    grants: Vec<GrantRow>,
    /// A rule stands in the agent's file by now.
    written: bool,
}

/// Added where an answer came too late and its rule does not.
const RULE_STAYS: &str = " The rule was written by then; take it out of config.yaml if it is not \
                          meant to stay.";

impl Hive {
    /// Answers a question. One answer counts, and only to what was shown.
    pub async fn decide_approval(
        &self,
        id: &str,
        wish: DecisionWish,
        by: &Identity,
        sight: &Sight,
    ) -> Result<ApprovalInfo, DoorError> {
        let (hive, id, by, sight) = (self.clone(), id.to_owned(), by.clone(), sight.clone());
        // Of what is decided nothing is left half done by a caller that goes away.
        let task =
            self.shared.tasks.spawn(async move { hive.decided(&id, wish, &by, &sight).await });
        task.await.unwrap_or_else(|_| Err(DoorError::failed()))
    }

    async fn decided(
        &self,
        id: &str,
        mut wish: DecisionWish,
        by: &Identity,
        sight: &Sight,
    ) -> Result<ApprovalInfo, DoorError> {
        let note = wish.note.as_deref().map(|note| skep_scrub::known().clean(note).into_owned());
        if note.as_ref().is_some_and(|note| note.chars().count() > NOTE_CHARACTERS) {
            let text = format!("A note has at most {NOTE_CHARACTERS} characters.");
            return Err(DoorError::new(ErrorKind::Invalid, "invalid_note", text));
        }
        for pattern in &wish.patterns {
            check_no_secret("The pattern", pattern)?;
        }
        let lasting = wish.scope != Scope::Once;
        if (!wish.approve && lasting) || (!wish.patterns.is_empty() && !lasting) {
            let text = "A scope and a pattern go with a yes: `approve` with scope `session` or \
                        `always`. What is to be denied from now on is written as a rule.";
            return Err(DoorError::new(ErrorKind::Invalid, "invalid_scope", text));
        }
        // One after the other: a rule is written for the answer that counts and for no other.
        let _answering = self.shared.approvals.answering.lock().await;
        let who = self.visitor(by);
        let Some(row) = self.find_approval(id).await? else { return Err(unknown_approval(id)) };
        let shown = self.is_shown(&row, &who, sight).await;
        let checked = self.check_approver(&row, &who, &wish).await;
        checked.map_err(|error| if shown { error } else { unknown_approval(id) })?;
        let agent = self.agent_of(row.agent, &row.agent_name);
        let mut lasts = Lasting::default();
        // What the answer would be refused for is refused before anything is written.
        if lasting
            && row.state == ApprovalState::Open
            && row.hash == wish.hash
            && row.expires_at > clock::now_ms()
        {
            lasts = self.allow_lasting(&row, &*agent?, &wish).await?;
        }
        let written = lasts.written;
        if wish.patterns.is_empty() {
            wish.patterns = lasts.patterns;
        }
        self.answer(&row, &wish, note, lasts.grants).await.map_err(|mut error| {
            if written {
                error.text.push_str(RULE_STAYS);
            }
            error
        })?;
        for other in lasts.also {
            if approvers_of(&other).refuse(&who).is_some() {
                continue;
            }
            let note = format!("covered by what was decided about {id}");
            let covered = DecisionWish {
                approve: true,
                scope: Scope::Once,
                patterns: Vec::new(),
                note: None,
                hash: other.hash.clone(),
                by: wish.by.clone(),
                from: format!("pattern of {id}"),
            };
            // Somebody may have answered it meanwhile; then that counts.
            if let Err(error) = self.answer(&other, &covered, Some(note), Vec::new()).await {
                tracing::info!(%error, approval = other.id, "not answered by a pattern");
            }
        }
        // Whoever decided it sees it, also where the question had named others.
        self.approval(id, by, &Sight::All).await
    }

    /// Refuses whoever is no approver of this question, by the rules as they stand now: a role
    /// that was lost since the question gives no right.
    async fn check_approver(
        &self,
        row: &Approval,
        who: &Who,
        wish: &DecisionWish,
    ) -> Result<(), DoorError> {
        let refused =
            self.approvers_now(row).await.refuse(who).map(|why| ("not_approver", why)).or_else(
                || {
                    let beyond = wish.scope != Scope::Once && who.role != Some(Role::Operator);
                    let why = "what allows more than this call is for operators; approve it once";
                    beyond.then(|| ("scope", why.to_owned()))
                },
            );
        let Some((code, why)) = refused else { return Ok(()) };
        self.keep_refused(&row.id, who, format!("{why}, through {}", wish.from)).await;
        Err(DoorError::new(ErrorKind::Forbidden, code, format!("Nothing was decided: {why}.")))
    }

    async fn answer(
        &self,
        row: &Approval,
        wish: &DecisionWish,
        note: Option<String>,
        grants: Vec<GrantRow>,
    ) -> Result<(), DoorError> {
        let mut command = AnswerApproval {
            id: row.id.clone(),
            approve: wish.approve,
            scope: wish.scope,
            patterns: wish.patterns.clone(),
            note,
            hash: wish.hash.clone(),
            by: wish.by.clone(),
            from: wish.from.clone(),
            grants,
            event: None,
            now: clock::now_ms(),
        };
        let mut permit = None;
        if row.reopened && row.kind == ApprovalKind::Call && wish.approve {
            let (accept, slot) = self.event_of(row, &wish.by)?;
            command.event = Some(Box::new(accept));
            permit = slot;
        }
        let shared = Arc::clone(&self.shared);
        // A caller that goes away does not take the turn with it.
        let task = self.shared.tasks.spawn(async move {
            let outcome = shared.store.write(command).await.map_err(door_error)?;
            if let Some(Accepted::Started { lease }) = outcome {
                shared.turns.begin(*lease, permit);
            }
            shared.env().lanes.wake();
            Ok(())
        });
        task.await.unwrap_or_else(|_| Err(DoorError::failed()))
    }

    /// The item that runs the call of a question that was asked again.
    fn event_of(&self, row: &Approval, by: &str) -> Result<(Accept, Option<Slot>), DoorError> {
        let agent = self.agent_of(row.agent, &row.agent_name)?;
        let text = format!(
            "The call of `{}` that had waited for approval until its time was over is approved \
             now, by {by}. It runs with this message.",
            row.tool
        );
        let inbound = Inbound {
            agent: row.agent_name.clone(),
            session_key: row.session_key.clone(),
            text: text.clone(),
            attachments: Vec::new(),
            mode: None,
            think: None,
            principal: Principal::new(format!("approval:{}", row.id)),
            source: Source::Api { key: None },
        };
        let cause = Cause::Approved(ApprovalId::new(&row.id));
        let letter = self.letter(&inbound, cause, text, Vec::new())?;
        let letter = Letter { origin: row.asked_by.first().map(Principal::new), ..letter };
        self.acceptance(&agent, letter, Some(QueueMode::Queue), Opens::Turn)
    }

    /// Makes a yes last: a rule is written here, a grant with the answer.
    async fn allow_lasting(
        &self,
        row: &Approval,
        agent: &AgentSettings,
        wish: &DecisionWish,
    ) -> Result<Lasting, DoorError> {
        let foreseen = self.foresee(row, agent, wish.scope, &wish.patterns).await?;
        let patterns = foreseen.patterns();
        let Foreseen { rules, stray, verdict, also, .. } = foreseen;
        if verdict.effect != Effect::Allow {
            let text = format!(
                "That would not answer the next question of this kind: {}. Give a pattern for each \
                 command, choose a narrower one, or change that rule.",
                verdict.why
            );
            return Err(DoorError::new(ErrorKind::Conflict, "still_asked", text));
        }
        if let Some(why) = stray {
            let text = format!("Nothing was decided: {why}.");
            return Err(DoorError::new(ErrorKind::Invalid, "bad_pattern", text));
        }
        if wish.scope != Scope::Always {
            let grants = rules.iter().map(|rule| grant_row(row, rule, &wish.by)).collect();
            return Ok(Lasting { also, patterns, grants, written: false });
        }
        let drafts: Vec<RuleDraft> = rules.iter().map(draft_of).collect();
        let Some(FileWriters { rules: write, .. }) = self.shared.facts.writers.get() else {
            let text = "This hive cannot change its files; write the rule by hand.";
            return Err(DoorError::new(ErrorKind::Conflict, "rule_not_written", text));
        };
        let (name, by) = (row.agent_name.clone(), wish.by.clone());
        let put_in_force = write(name, by, drafts.clone()).await.map_err(|why| {
            let text = format!("The rule was not written, and nothing was decided: {why}");
            DoorError::new(ErrorKind::Conflict, "rule_not_written", text)
        })?;
        let what =
            json!({"approval": row.id, "rules": drafts.iter().map(told).collect::<Vec<_>>()});
        let told = AuditRow {
            agent: Some(row.agent_name.0.clone()),
            agent_id: Some(row.agent),
            tool: Some(row.tool.clone()),
            ..AuditRow::change("rule_written", Some(&wish.by), &what, clock::now_ms())
        };
        self.shared.store.write(AddAudit { row: told }).await.map_err(door_error)?;
        put_in_force.await;
        Ok(Lasting { also, patterns, grants: Vec::new(), written: true })
    }

    pub(super) async fn keep_refused(&self, id: &str, who: &Who, why: String) {
        let (id, by) = (id.to_owned(), who.principal.to_string());
        let command = NoteRefused { id, by, why, now: clock::now_ms() };
        if let Err(error) = self.shared.store.write(command).await {
            tracing::warn!(%error, "a refused decision is not in the audit trail");
        }
    }
}

fn grant_row(row: &Approval, rule: &Rule, by: &str) -> GrantRow {
    GrantRow {
        id: random::uuid().to_string(),
        session: Some(row.session.to_string()),
        made_by: by.to_owned(),
        made_at: clock::now_ms(),
        ..row_of(row, draft_of(rule))
    }
}

/// For the trail.
fn told(draft: &RuleDraft) -> Value {
    json!({"effect": "allow", "tool": draft.tool, "path": draft.path, "command": draft.command,
           "host": draft.host})
}

//! Questions to people: shown, answered, asked again. An answer is bound to what was shown.

mod drafts;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use skep_core::approval::{ApprovalState, Scope};
use skep_core::audit::AuditRow;
use skep_core::cause::Cause;
use skep_core::ids::{ApprovalId, Principal};
use skep_core::policy::approvers::Approvers;
use skep_core::policy::rule::{Rule, Who};
use skep_core::policy::{Class, Effect, Policy};
use skep_core::role::Role;
use skep_core::settings::{AgentSettings, QueueMode};
use skep_core::visible::{bounded_text, shown_arguments, summary};
use skep_guard::{clock, random, scrub};
use skep_store::approvals::{self, AnswerApproval, Approval, NoteRefused, Reopen};
use skep_store::audit::AddAudit;
use skep_store::grants::GrantRow;
use skep_store::history;
use skep_store::inbox::{Accept, Accepted, Letter};
use skep_store::{Conn, SqlError};
use skep_turn::gate::{self, Bound, CallerRights, NamedFile};
use skep_turn::lane::Slot;

use crate::door::{
    ApprovalInfo, ApprovalPage, ApprovalQuery, Covered, DecisionInfo, DecisionWish, DoorError,
    ErrorKind, Identity, Inbound, NetworkAccess, RuleDraft, Sight, Source,
};
use crate::hive::{Hive, door_error};
use crate::intake::Opens;
use crate::people::policies::{PolicyTrial, check_row};
use drafts::{exactly, patterned, suggestions};

/// Open questions that a pattern is tried on.
const TRIED: u32 = 200;
/// Characters of the agent's own words that go with a question.
const WORDS: usize = 1000;
/// A note is a sentence or two.
const NOTE_CHARACTERS: usize = 2000;

/// What a lasting yes comes to.
#[derive(Default)]
struct Lasting {
    /// Other open questions that it answers.
    also: Vec<Approval>,
    /// To be made with the answer.
    grants: Vec<GrantRow>,
    /// A rule stands in the agent's file by now.
    written: bool,
}

/// Added where an answer came too late and its rule does not.
const RULE_STAYS: &str = " The rule was written by then; take it out of config.yaml if it is not \
                          meant to stay.";

impl Hive {
    /// A page of approvals, the newest first.
    pub async fn approvals(
        &self,
        query: ApprovalQuery,
        by: &Identity,
        sight: &Sight,
    ) -> Result<ApprovalPage, DoorError> {
        let agent = self.shared.only_agent(query.agent.as_ref(), sight).await?;
        let before = query.cursor.unwrap_or(i64::MAX);
        let limit = query.limit.clamp(1, 500);
        let read = self.shared.store.read(async |conn| {
            if query.unused {
                return approvals::unused(conn, agent, before, limit).await;
            }
            let mut rows = Vec::new();
            for state in &query.states {
                rows.extend(approvals::page(conn, *state, agent, before, limit).await?);
            }
            Ok(rows)
        });
        let mut rows: Vec<Approval> = read.await.map_err(door_error)?;
        rows.sort_by_key(|row| std::cmp::Reverse(row.number));
        let full = rows.len() >= limit as usize;
        rows.truncate(limit as usize);
        let next = rows.last().filter(|_| full).map(|row| row.number);
        let who = self.visitor(by);
        rows.retain(|row| sees(&who, sight, row));
        Ok(ApprovalPage { approvals: self.infos(rows, &who).await?, next })
    }

    pub async fn approval(
        &self,
        id: &str,
        by: &Identity,
        sight: &Sight,
    ) -> Result<ApprovalInfo, DoorError> {
        let who = self.visitor(by);
        let row = self.seen_approval(id, &who, sight).await?;
        let words = self.shared.store.read(async |conn| words(conn, &row).await);
        let words = words.await.map_err(door_error)?;
        Ok(self.approval_info(row, words, &who))
    }

    async fn infos(&self, rows: Vec<Approval>, who: &Who) -> Result<Vec<ApprovalInfo>, DoorError> {
        let read = self.shared.store.read(async |conn| {
            let mut all = Vec::with_capacity(rows.len());
            for row in &rows {
                all.push(words(conn, row).await?);
            }
            Ok(all)
        });
        let all = read.await.map_err(door_error)?;
        let both = rows.into_iter().zip(all);
        Ok(both.map(|(row, words)| self.approval_info(row, words, who)).collect())
    }

    /// What a pattern would cover, before anybody says yes to it.
    pub async fn covers(
        &self,
        id: &str,
        pattern: Option<&str>,
        by: &Identity,
        sight: &Sight,
    ) -> Result<Covered, DoorError> {
        let who = self.visitor(by);
        let row = self.seen_approval(id, &who, sight).await?;
        let agent = self.agent_of(row.agent, &row.agent_name)?;
        let rules = self.draft_rules(&row, &agent, pattern).await?;
        let policy = with_rules(&agent.policy, &rules);
        let verdict = self.imagined(&row, &agent, &policy, Vec::new()).await?;
        let others = self.also_covered(&row, &agent, &policy, Vec::new()).await?;
        let seen = others.into_iter().filter(|row| sees(&who, sight, row)).collect();
        Ok(Covered {
            covers: verdict.effect == Effect::Allow,
            why: verdict.why,
            others: self.infos(seen, &who).await?,
        })
    }

    /// Answers a question. One answer counts, and only to what was shown.
    pub async fn decide_approval(
        &self,
        id: &str,
        wish: DecisionWish,
        by: &Identity,
    ) -> Result<ApprovalInfo, DoorError> {
        let (hive, id, by) = (self.clone(), id.to_owned(), by.clone());
        // Of what is decided nothing is left half done by a caller that goes away.
        let task = self.shared.tasks.spawn(async move { hive.decided(&id, wish, &by).await });
        task.await.unwrap_or_else(|_| Err(DoorError::failed()))
    }

    async fn decided(
        &self,
        id: &str,
        wish: DecisionWish,
        by: &Identity,
    ) -> Result<ApprovalInfo, DoorError> {
        let note = wish.note.as_deref().map(|note| scrub::known().clean(note).into_owned());
        if note.as_ref().is_some_and(|note| note.chars().count() > NOTE_CHARACTERS) {
            let text = format!("A note has at most {NOTE_CHARACTERS} characters.");
            return Err(DoorError::new(ErrorKind::Invalid, "invalid_note", text));
        }
        let lasting = wish.scope != Scope::Once;
        if (!wish.approve && lasting) || (wish.pattern.is_some() && !lasting) {
            let text = "A scope and a pattern go with a yes: `approve` with scope `session` or \
                        `always`. What is to be denied from now on is written as a rule.";
            return Err(DoorError::new(ErrorKind::Invalid, "invalid_scope", text));
        }
        // One after the other: a rule is written for the answer that counts and for no other.
        let _answering = self.shared.approvals.answering.lock().await;
        let who = self.visitor(by);
        let row = self.seen_approval(id, &who, &Sight::All).await?;
        self.check_approver(&row, &who, &wish).await?;
        if lasting && Bound::of(&files_of(&row.files)) == Bound::Nothing {
            let text = "The workspace has too many files to tell whether one changed, so this \
                        call is bound to none of them. Approve it once.";
            return Err(DoorError::new(ErrorKind::Conflict, "not_bound", text));
        }
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
                pattern: None,
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
        let now = match self.agent_of(row.agent, &row.agent_name) {
            Ok(agent) => self.imagined(row, &agent, &agent.policy, Vec::new()).await.ok(),
            Err(_) => None,
        };
        // Where the rules do not ask any more, those who were asked may still answer.
        let now = now.filter(|verdict| verdict.effect == Effect::Ask);
        let approvers = now.map_or_else(|| approvers_of(row), |verdict| verdict.approvers);
        let refused = approvers.refuse(who).map(|why| ("not_approver", why)).or_else(|| {
            let beyond = wish.scope != Scope::Once && who.role != Some(Role::Operator);
            let why = "what allows more than this call is for operators; approve it once";
            beyond.then(|| ("scope", why.to_owned()))
        });
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
            pattern: wish.pattern.clone(),
            note,
            hash: wish.hash.clone(),
            by: wish.by.clone(),
            from: wish.from.clone(),
            grants,
            event: None,
            now: clock::now_ms(),
        };
        let mut permit = None;
        if row.reopened && wish.approve {
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
        let rules = self.draft_rules(row, agent, wish.pattern.as_deref()).await?;
        let always = wish.scope == Scope::Always;
        let (policy, grants) = match always {
            true => (with_rules(&agent.policy, &rules), Vec::new()),
            false => (agent.policy.clone(), rules.clone()),
        };
        let verdict = self.imagined(row, agent, &policy, grants.clone()).await?;
        if verdict.effect != Effect::Allow {
            let text = format!(
                "That would not answer the next question of this kind: {}. Choose a narrower \
                 pattern, or change that rule.",
                verdict.why
            );
            return Err(DoorError::new(ErrorKind::Conflict, "still_asked", text));
        }
        let mut also = self.also_covered(row, agent, &policy, grants).await?;
        if !always {
            also.retain(|other| other.session == row.session);
            let grants = rules.iter().map(|rule| grant_row(row, rule, &wish.by)).collect();
            return Ok(Lasting { also, grants, written: false });
        }
        let drafts: Vec<RuleDraft> = rules.iter().map(draft_of).collect();
        let Some(write) = self.shared.approvals.write_rules.get() else {
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
        Ok(Lasting { also, grants: Vec::new(), written: true })
    }

    async fn imagined(
        &self,
        row: &Approval,
        agent: &AgentSettings,
        policy: &Policy,
        grants: Vec<Rule>,
    ) -> Result<skep_core::policy::evaluate::Verdict, DoorError> {
        let tool = self.tool(&row.tool)?;
        let who = row.asked_by.iter().map(|name| self.shared.person(name)).collect();
        let known = CallerRights { who, grants };
        let arguments = &row.arguments;
        Ok(PolicyTrial { agent, policy, tool: &*tool, arguments, known: &known }.verdict().await)
    }

    async fn also_covered(
        &self,
        row: &Approval,
        agent: &AgentSettings,
        policy: &Policy,
        grants: Vec<Rule>,
    ) -> Result<Vec<Approval>, DoorError> {
        let read = self.shared.store.read(async |conn| {
            let (open, id) = (ApprovalState::Open, Some(row.agent));
            approvals::page(conn, open, id, i64::MAX, TRIED).await
        });
        let mut covered = Vec::new();
        for other in read.await.map_err(door_error)? {
            if other.id == row.id || other.reopened {
                continue;
            }
            let verdict = self.imagined(&other, agent, policy, grants.clone()).await?;
            if verdict.effect == Effect::Allow {
                covered.push(other);
            }
        }
        Ok(covered)
    }

    /// The rules that a yes with this pattern stands for; without one, exactly this call.
    async fn draft_rules(
        &self,
        row: &Approval,
        agent: &AgentSettings,
        pattern: Option<&str>,
    ) -> Result<Vec<Rule>, DoorError> {
        let tool = self.tool(&row.tool)?;
        let subject = tool.subject(&row.arguments);
        let drafts = match pattern {
            Some(pattern) => vec![patterned(&row.tool, &subject, pattern)?],
            None => {
                let (workspace, level) = (agent.workspace.clone(), agent.sandbox.level);
                let work = move || gate::about(&subject, Some((&workspace, level)));
                let about = tokio::task::spawn_blocking(work).await.unwrap_or_default();
                exactly(&row.tool, &about.pieces)?
            }
        };
        let rules = drafts.into_iter().map(|draft| check_row(&row_of(row, draft)));
        rules.collect()
    }

    /// Asks again what nobody answered in time.
    pub async fn reopen(
        &self,
        id: &str,
        by: &Identity,
        sight: &Sight,
    ) -> Result<ApprovalInfo, DoorError> {
        let row = self.seen_approval(id, &self.visitor(by), sight).await?;
        let now = clock::now_ms();
        let time = self.shared.settings().limits.approval.as_millis();
        let expires_at = now.saturating_add(i64::try_from(time).unwrap_or(i64::MAX));
        let command = Reopen { id: row.id, by: by.principal.to_string(), expires_at, now };
        self.shared.store.write(command).await.map_err(door_error)?;
        self.shared.approvals.reopened.notify_one();
        self.approval(id, by, sight).await
    }

    /// Somebody whose role is not enough wanted to decide: the trail keeps it.
    pub async fn note_refused(&self, id: &str, by: &Identity, from: &str) {
        let why = format!("the role {} may not, through {from}", by.role.as_str());
        self.keep_refused(id, &self.visitor(by), why).await;
    }

    async fn keep_refused(&self, id: &str, who: &Who, why: String) {
        let (id, by) = (id.to_owned(), who.principal.to_string());
        let command = NoteRefused { id, by, why, now: clock::now_ms() };
        if let Err(error) = self.shared.store.write(command).await {
            tracing::warn!(%error, "a refused decision is not in the audit trail");
        }
    }

    /// Whoever is here, with the role of their credential; none where it is not good any more.
    /// Of somebody at a browser nothing else knows the role.
    pub(crate) fn visitor(&self, by: &Identity) -> Who {
        let role = self.is_good(&by.credential).then_some(by.role);
        Who { role, ..self.shared.person(by.principal.as_str()) }
    }

    async fn seen_approval(
        &self,
        id: &str,
        who: &Who,
        sight: &Sight,
    ) -> Result<Approval, DoorError> {
        let read = self.shared.store.read(async |conn| approvals::find(conn, id).await);
        let found = read.await.map_err(door_error)?;
        let seen = found.filter(|row| sees(who, sight, row));
        seen.ok_or_else(|| {
            let shown: String = id.chars().take(64).collect();
            let text = format!("There is no approval `{shown}`.");
            DoorError::new(ErrorKind::NotFound, "unknown_approval", text)
        })
    }

    fn approval_info(&self, row: Approval, words: Option<String>, who: &Who) -> ApprovalInfo {
        let approvers = approvers_of(&row);
        let sandbox =
            self.agent_of(row.agent, &row.agent_name).ok().map(|agent| agent.sandbox.level);
        let subject =
            self.shared.snapshot().toolbox.find(&row.tool).map(|tool| tool.subject(&row.arguments));
        let class = Class::parse(&row.class).filter(|_| subject.is_some());
        let decision = match (row.decided_by, row.decided_at, row.decided_from) {
            (Some(by), Some(at), Some(from)) => Some(DecisionInfo {
                by,
                at,
                from,
                scope: row.scope.unwrap_or(Scope::Once),
                pattern: row.pattern,
                note: row.note,
                used: row.used_at,
            }),
            _ => None,
        };
        let files = files_of(&row.files);
        ApprovalInfo {
            bound: Bound::of(&files),
            files,
            patterns: subject.map(|subject| suggestions(&subject)).unwrap_or_default(),
            shown: shown_arguments(&row.arguments),
            summary: summary(&row.arguments),
            words,
            network: class.zip(sandbox).map(|(class, level)| NetworkAccess::of(class, level)),
            id: row.id,
            agent: row.agent_name,
            session: row.session,
            session_key: row.session_key,
            item: row.item,
            turn: row.turn,
            call: row.call,
            tool: row.tool,
            class: row.class,
            arguments: row.arguments,
            cwd: row.cwd,
            sandbox,
            hash: row.hash,
            why: row.why,
            refused: approvers.refuse(who),
            approvers,
            state: row.state,
            reopened: row.reopened,
            asked_by: row.asked_by,
            asked_at: row.asked_at,
            expires_at: row.expires_at,
            decision,
        }
    }
}

/// The agent's own words, for people.
async fn words(conn: &mut Conn, row: &Approval) -> Result<Option<String>, SqlError> {
    let call = (&row.turn, &row.call);
    let said = history::said_with(conn, &row.agent_name, &row.session, call).await?;
    Ok(said.map(|said| bounded_text(said.trim(), WORDS)))
}

/// Those whom the rules named when the question was asked.
fn approvers_of(row: &Approval) -> Approvers {
    Approvers::deserialize(&row.why["approvers"]).unwrap_or_default()
}

/// An approver sees the question, whosever conversation it comes from.
pub(crate) fn sees(who: &Who, sight: &Sight, row: &Approval) -> bool {
    sight.covers(row.agent, &row.session_key) || approvers_of(row).refuse(who).is_none()
}

fn files_of(files: &Value) -> Vec<NamedFile> {
    Vec::deserialize(files).unwrap_or_default()
}

fn with_rules(policy: &Policy, rules: &[Rule]) -> Policy {
    let mut policy = policy.clone();
    policy.rules.extend_from_slice(rules);
    policy
}

fn row_of(row: &Approval, draft: RuleDraft) -> GrantRow {
    GrantRow {
        id: "the pattern".to_owned(),
        agent: row.agent,
        agent_name: row.agent_name.clone(),
        session: None,
        tool: draft.tool,
        path: draft.path,
        command: draft.command,
        host: draft.host,
        grants: Vec::new(),
        made_by: String::new(),
        made_at: 0,
        until: None,
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

fn draft_of(rule: &Rule) -> RuleDraft {
    RuleDraft {
        tool: rule.tool.clone(),
        path: rule.path.as_ref().map(ToString::to_string),
        command: rule.command.as_ref().map(ToString::to_string),
        host: rule.host.as_ref().map(ToString::to_string),
    }
}

/// For the trail.
fn told(draft: &RuleDraft) -> Value {
    json!({"effect": "allow", "tool": draft.tool, "path": draft.path, "command": draft.command,
           "host": draft.host})
}

//! The policy stage: what the call is about, what the rules say, and what was decided about it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use skep_core::Millis;
use skep_core::engine::ToolCall;
use skep_core::ids::{AgentId, Principal};
use skep_core::policy::evaluate::{Asked, Verdict};
use skep_core::policy::pattern::{CommandPattern, HostPattern, PathPattern};
use skep_core::policy::plain;
use skep_core::policy::rule::{GrantTo, PathFact, Piece, Rule, Who};
use skep_core::policy::shell::{Line, Part};
use skep_core::policy::{Effect, Policy};
use skep_core::settings::SandboxLevel;
use skep_core::tool::{Subject, Tool, ToolContext};
use skep_guard::workspace::Workspace;
use skep_guard::{clock, random};
use skep_store::approvals::{self, Approval, NewApproval};
use skep_store::grants::{self, GrantRow};
use skep_store::leases::Lease;

use super::binding::{Bind, Binding, Bound, NamedFile};
use super::chain::{Chain, Stage};
use super::{Gate, Refused};
use crate::hive::Shared;

/// Between two looks at files that were changed a moment ago.
const PAUSE: Duration = Duration::from_millis(20);
/// Looks before a question is asked all the same.
const TRIES: u32 = 50;

/// Where the gate looks up people, grants and decisions.
#[derive(Clone, Copy)]
pub(crate) struct Records<'a> {
    pub shared: &'a Shared,
    pub lease: &'a Lease,
}

/// Who asks, and what was granted.
#[derive(Default)]
pub(crate) struct Known {
    pub who: Vec<Who>,
    pub grants: Vec<Rule>,
}

impl Records<'_> {
    async fn known(&self) -> Result<Known, Refused> {
        let (turn, agent) = (self.lease.turn.clone(), self.lease.agent);
        let (session, now) = (self.lease.session.clone(), clock::now_ms());
        let read = self.shared.store.read(async |conn| {
            let principals = approvals::asked_by(conn, &turn).await?;
            Ok((principals, grants::of_agent(conn, agent, now).await?))
        });
        let (principals, rows) = read.await.map_err(|error| unread(&error))?;
        let here = rows.into_iter().filter(|row| match &row.session {
            Some(other) => *other == session.as_str(),
            None => true,
        });
        Ok(Known {
            who: principals.into_iter().map(|name| self.shared.person(&name)).collect(),
            grants: here.filter_map(|row| rule_of(&row)).collect(),
        })
    }

    async fn approval(&self, id: &str) -> Result<Option<Approval>, Refused> {
        let read = self.shared.store.read(async |conn| approvals::find(conn, id).await);
        read.await.map_err(|error| unread(&error))
    }
}

impl Shared {
    /// Somebody with the role and the name of the credential.
    pub(crate) fn person(&self, principal: &str) -> Who {
        let (role, name) = self.tokens.holder(principal);
        Who { principal: Principal::new(principal), role, name }
    }
}

fn unread(error: &skep_store::StoreError) -> Refused {
    Refused::new(format!(
        "policy_unread: the call was not run: who asked for it and what was granted could not be \
         read ({error}). Try again."
    ))
}

/// A grant as a rule that allows.
pub(crate) fn rule_of(row: &GrantRow) -> Option<Rule> {
    Some(Rule {
        effect: Effect::Allow,
        tool: row.tool.clone(),
        path: row.path.as_deref().map(PathPattern::parse).transpose().ok()?,
        command: row.command.as_deref().map(CommandPattern::parse).transpose().ok()?,
        host: row.host.as_deref().map(HostPattern::parse).transpose().ok()?,
        grants: row.grants.iter().map(|to| GrantTo::parse(to)).collect::<Option<_>>()?,
        place: format!("grant {}", row.id),
    })
}

/// When the policy looks at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// As it comes. What an approval is bound to is not looked at yet: the call may still wait.
    First,
    /// Directly before its start.
    Start,
}

/// What the policy stage came to.
pub(super) enum Permitted {
    /// It may run; with this approval, where it needed one.
    Go {
        approval: Option<String>,
    },
    Asks(Box<Question>),
}

/// A call that waits for a person.
pub(crate) struct Question {
    pub approval: NewApproval,
    pub reason: String,
}

/// Reads where paths lead; blocks.
pub(crate) fn pieces(subject: &Subject, workspace: &std::path::Path, resolve: bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    if let Some(command) = &subject.command {
        let mut line = plain::line(command);
        // Where a redirection leads is not judged yet.
        let redirected = |part: &Part| matches!(part, Part::Command(simple) if simple.redirected);
        if line.0.iter().any(redirected) {
            line = Line::parse(command);
        }
        pieces.extend(line.0.into_iter().map(Piece::Command));
    }
    let opened = if resolve { Workspace::open(workspace).ok() } else { None };
    for named in &subject.paths {
        let leads = named.path.as_ref().zip(opened.as_ref());
        let leads = leads.and_then(|(path, workspace)| workspace.leads_to(path));
        pieces.push(Piece::Path(match (leads, named.tree) {
            (None, _) => PathFact::Unknown,
            (Some(path), false) => PathFact::File(path),
            (Some(path), true) => PathFact::Tree(path),
        }));
    }
    if let Some(host) = &subject.host {
        pieces.push(Piece::Host(host.clone()));
    }
    if pieces.is_empty() {
        pieces.push(Piece::Whole);
    }
    pieces
}

/// Decides on a call as it is known.
pub(crate) fn decide(
    policy: &Policy,
    tool: &dyn Tool,
    level: SandboxLevel,
    pieces: &[Piece],
    known: &Known,
) -> Verdict {
    let (name, class) = (tool.spec().name.as_str(), tool.class());
    let asked = Asked { tool: name, class, level, pieces, who: &known.who };
    policy.decide(&asked, &known.grants)
}

impl Gate<'_> {
    pub(super) async fn permitted(
        &self,
        tool: &dyn Tool,
        call: &ToolCall,
        arguments: &Value,
        context: &ToolContext,
        moment: Moment,
        chain: &mut Chain,
    ) -> Result<Permitted, Refused> {
        let needs = self.policy.needs(&tool.spec().name);
        let subject = tool.subject(arguments);
        let mut known = match (needs.people, self.records) {
            (true, Some(records)) => records.known().await?,
            _ => Known::default(),
        };
        let level = self.agent.sandbox.level;
        let found = self.pieces(&subject, context, needs.paths).await;
        let mut verdict = decide(self.policy, tool, level, &found, &known);
        if verdict.effect == Effect::Ask {
            // A question is worth a closer look: at grants, and at where every path leads.
            if let Some(records) = self.records {
                known = records.known().await?;
            }
            let found = self.pieces(&subject, context, true).await;
            verdict = decide(self.policy, tool, level, &found, &known);
        }
        let approval = context.decision.as_ref().and_then(|value| value.get("approval"));
        let approval = approval.and_then(Value::as_str);
        if let (Some(id), Effect::Allow | Effect::Ask) = (approval, verdict.effect) {
            self.not_denied(call, id, context, chain)?;
        }
        match verdict.effect {
            Effect::Allow => {
                chain.note(Stage::Policy, word(tool, &verdict));
                Ok(Permitted::Go { approval: approval.map(str::to_owned) })
            }
            Effect::Deny => {
                chain.note(Stage::Policy, format!("refused: {}", word(tool, &verdict)));
                Err(Refused::new(self.denied(tool, call, &verdict)))
            }
            Effect::Ask if approval.is_some() && moment == Moment::First => {
                let approval = approval.map(str::to_owned);
                chain.note(Stage::Policy, approved_word(context));
                Ok(Permitted::Go { approval })
            }
            Effect::Ask => {
                let asked = Asking { tool, arguments, subject, verdict, known };
                self.ask(call, context, approval, asked, chain).await
            }
        }
    }

    async fn pieces(&self, subject: &Subject, context: &ToolContext, resolve: bool) -> Vec<Piece> {
        if subject.paths.is_empty() || !resolve {
            return pieces(subject, &context.workspace, false);
        }
        let (subject, workspace) = (subject.clone(), context.workspace.clone());
        let work = move || pieces(&subject, &workspace, true);
        let found = tokio::task::spawn_blocking(work).await;
        found.unwrap_or_else(|_| vec![Piece::Path(PathFact::Unknown)])
    }

    /// Ties the call down as it is now; with `since`, changes from then on are named.
    async fn bound(&self, bind: &Arc<Bind>, since: Millis) -> Result<Binding, Refused> {
        let bind = Arc::clone(bind);
        let bound = tokio::task::spawn_blocking(move || bind.bind(since)).await;
        bound.map_err(|_| {
            let text = "policy_unread: the call was not run: the files it names could not be read";
            Refused::new(text.to_owned())
        })
    }

    /// As it is shown to a person: every later change will have a later time.
    async fn bound_for_question(&self, bind: &Arc<Bind>) -> Result<Binding, Refused> {
        let mut tries = 0;
        loop {
            let begun = clock::now_ms();
            let binding = self.bound(bind, Millis::MAX).await?;
            tries += 1;
            // Whatever changes all the time has changed when it is looked at again.
            if binding.is_settled(begun) || tries == TRIES {
                return Ok(binding);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn denied(&self, tool: &dyn Tool, call: &ToolCall, verdict: &Verdict) -> String {
        let (name, class) = (&call.name, tool.class().as_str());
        match &verdict.rule {
            None => format!(
                "policy_deny: the call of `{name}` was not run: a call of the class `{class}` is \
                 not allowed in this hive. The operator decides this in skep.yaml with \
                 defaults.policy.{class}."
            ),
            Some(_) => format!(
                "policy_deny: the call of `{name}` was not run: {}. Do it another way, or say what \
                 you need: the operator decides this.",
                verdict.why
            ),
        }
    }

    /// With a decision in hand: whether it is about this very call. Else a question.
    async fn ask(
        &self,
        call: &ToolCall,
        context: &ToolContext,
        approval: Option<&str>,
        asked: Asking<'_>,
        chain: &mut Chain,
    ) -> Result<Permitted, Refused> {
        let Asking { tool, arguments, subject, verdict, known } = asked;
        let bind = Arc::new(Bind {
            agent: self.records.map_or(AgentId(0), |records| records.lease.agent),
            tool: tool.spec().name.clone(),
            arguments: arguments.clone(),
            subject,
            context: context.clone(),
        });
        let mut reason = format!("approval of {}", call.name);
        let row = match (approval, self.records) {
            (Some(id), Some(records)) => records.approval(id).await?,
            _ => None,
        };
        if let Some(row) = row {
            let found = self.bound(&bind, row.asked_at).await?;
            if row.hash == found.hash {
                chain.note(Stage::Policy, approved_word(context));
                return Ok(Permitted::Go { approval: Some(row.id) });
            }
            let changed = changed(&row, arguments, &found);
            reason = format!("approval of {} again, because {changed} changed", call.name);
        }
        chain.note(Stage::Policy, format!("ask: {}", word(tool, &verdict)));
        let binding = self.bound_for_question(&bind).await?;
        if Bound::of(&binding.files) == Bound::Nothing {
            reason.push_str("; files are not bound");
        }
        let now = clock::now_ms();
        let hours = i64::try_from(self.approval_time.as_millis()).unwrap_or(i64::MAX);
        let asked_by = known.who.iter().map(|who| who.principal.as_str()).collect::<Vec<_>>();
        let new = NewApproval {
            id: random::uuid().to_string(),
            call: call.id.clone(),
            tool: tool.spec().name.clone(),
            class: tool.class(),
            arguments: arguments.clone(),
            cwd: binding.cwd,
            files: json!(binding.files),
            hash: binding.hash,
            why: json!(verdict),
            asked_by: asked_by.join(", "),
            expires_at: now.saturating_add(hours),
        };
        Ok(Permitted::Asks(Box::new(Question { approval: new, reason })))
    }

    /// A person's no counts, whatever the rules have come to say since the question.
    fn not_denied(
        &self,
        call: &ToolCall,
        id: &str,
        context: &ToolContext,
        chain: &mut Chain,
    ) -> Result<(), Refused> {
        let Some(decision) = &context.decision else { return Ok(()) };
        if decision["approve"] == Value::Bool(true) {
            return Ok(());
        }
        let by = decision["by"].as_str().unwrap_or("somebody");
        chain.note(Stage::Policy, format!("refused: denied by {by} ({id})"));
        let note = decision["note"].as_str();
        let note = note.map(|note| format!(" and says: {note}")).unwrap_or_default();
        Err(Refused::new(format!(
            "approval_denied: the call of `{}` was not run: {by} denied it{note}. Do not try the \
             same again.",
            call.name
        )))
    }
}

/// A question as far as it is known.
struct Asking<'a> {
    tool: &'a dyn Tool,
    arguments: &'a Value,
    subject: Subject,
    verdict: Verdict,
    known: Known,
}

/// What differs between a call that was approved and the one at hand.
fn changed(row: &Approval, arguments: &Value, found: &Binding) -> String {
    let mut changed = Vec::new();
    if row.arguments != *arguments {
        changed.push("its arguments".to_owned());
    }
    if row.cwd != found.cwd {
        changed.push("its folder".to_owned());
    }
    let before: Vec<NamedFile> = serde_json::from_value(row.files.clone()).unwrap_or_default();
    let news = found.files.iter().filter(|file| !before.contains(file));
    let gone = before.iter().filter(|old| !found.files.iter().any(|file| file.path == old.path));
    // Of a folder the entries that changed, where there are any to name.
    let named = |file: &&NamedFile| file.path != "." || found.changed.is_empty();
    changed.extend(news.filter(named).chain(gone).map(|file| match file.path.as_str() {
        "." => "its workspace".to_owned(),
        path => path.to_owned(),
    }));
    changed.extend(found.changed.iter().cloned());
    let mut seen = HashSet::new();
    changed.retain(|word| seen.insert(word.clone()));
    changed.truncate(5);
    if changed.is_empty() { "its agent".to_owned() } else { changed.join(", ") }
}

/// For the chain: who said yes, and to which question.
fn approved_word(context: &ToolContext) -> String {
    let word = |key: &str| context.decision.as_ref().and_then(|decision| decision[key].as_str());
    let (by, id) = (word("by").unwrap_or("somebody"), word("approval").unwrap_or_default());
    format!("ask: approved by {by} ({id})")
}

/// For the chain: by rule, or by class.
fn word(tool: &dyn Tool, verdict: &Verdict) -> String {
    let effect = verdict.effect.as_str();
    match &verdict.rule {
        Some(rule) => format!("{effect} by {rule}"),
        None => format!("{}: {effect}", tool.class().as_str()),
    }
}

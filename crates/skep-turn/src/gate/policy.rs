//! The policy stage: what the call is about, what the rules say, and what was decided about it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use skep_core::Millis;
use skep_core::approval::{ApprovalKind, Bound, NamedFile};
use skep_core::cause::Cause;
use skep_core::decision::Decision;
use skep_core::engine::ToolCall;
use skep_core::ids::Principal;
use skep_core::policy::evaluate::{PolicyQuery, Verdict};
use skep_core::policy::host::WebAddress;
use skep_core::policy::host_standing::HostStanding;
use skep_core::policy::pattern::{CommandPattern, HostPattern, PathPattern};
use skep_core::policy::rule::{GrantTo, PathFact, Piece, Rule, Who};
use skep_core::policy::{Class, Effect, Policy};
use skep_core::settings::SandboxLevel;
use skep_core::tool::{Manner, NamedPath, Subject, Tool, ToolContext};
use skep_guard::workspace::Workspace;
use skep_guard::{clock, random};
use skep_shell::plain::{Access, Judged, Plain};
use skep_store::Store;
use skep_store::approvals::{self, Approval, NewApproval};
use skep_store::grants::{self, GrantRow};
use skep_store::leases::Lease;

use super::binding::{Bind, Binding};
use super::chain::{Chain, Stage};
use super::plain::Around;
use super::{GateEnv, GateRefusal};
use crate::handles::HolderOf;

/// Between two looks at files that were changed a moment ago.
const PAUSE: Duration = Duration::from_millis(20);
/// Looks before a question is asked all the same.
const TRIES: u32 = 50;
/// What a new agent writes for itself.
const OWN_SETTINGS: [&str; 3] = ["skills", "subagents", "team-rules"];

/// Where the gate looks up people, grants and decisions.
#[derive(Clone, Copy)]
pub struct Records<'a> {
    pub store: &'a Store,
    pub holder_of: &'a HolderOf,
    pub lease: &'a Lease,
}

/// Who asks, and what was granted.
#[derive(Default)]
pub struct CallerRights {
    pub who: Vec<Who>,
    pub grants: Vec<Rule>,
}

impl Records<'_> {
    async fn known(&self) -> Result<CallerRights, GateRefusal> {
        let (turn, agent) = (self.lease.turn.clone(), self.lease.agent);
        let (session, now) = (self.lease.session.clone(), clock::now_ms());
        let read = self.store.read(async |conn| {
            let principals = approvals::asked_by(conn, &turn).await?;
            Ok((principals, grants::of_agent(conn, agent, now).await?))
        });
        let (principals, rows) = read.await.map_err(|error| unread(&error))?;
        let here = rows.into_iter().filter(|row| row.counts_in(&session));
        Ok(CallerRights {
            who: principals.into_iter().map(|name| person(self.holder_of, &name)).collect(),
            grants: here.filter_map(|row| rule_of(&row)).collect(),
        })
    }

    async fn approval(&self, id: &str) -> Result<Option<Approval>, GateRefusal> {
        let read = self.store.read(async |conn| approvals::find(conn, id).await);
        read.await.map_err(|error| unread(&error))
    }
}

/// Somebody with the role and the name of the credential.
pub fn person(holder_of: &HolderOf, principal: &str) -> Who {
    let (role, name) = holder_of(principal);
    Who { principal: Principal::new(principal), role, name }
}

fn unread(error: &skep_store::StoreError) -> GateRefusal {
    GateRefusal::new(format!(
        "policy_unread: the call was not run: who asked for it and what was granted could not be \
         read ({error}). Try again."
    ))
}

/// A grant as a rule that allows.
pub fn rule_of(row: &GrantRow) -> Option<Rule> {
    Some(Rule {
        effect: Effect::Allow,
        tool: row.tool.clone(),
        path: row.path.as_deref().map(PathPattern::parse).transpose().ok()?,
        command: row.command.as_deref().map(CommandPattern::parse).transpose().ok()?,
        host: row.host.as_deref().map(HostPattern::parse).transpose().ok()?,
        grants: row.grants.iter().map(|to| GrantTo::parse(to)).collect::<Option<_>>()?,
        approvers: Vec::new(),
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
pub(super) enum Permission {
    /// It may run; with this approval, where it needed one. `run_as` is the command that runs in
    /// the place of the call's own: where a rule about commands allowed it, nothing but the words
    /// that were judged.
    Go {
        approval: Option<String>,
        run_as: Option<String>,
        leads: Vec<(String, String)>,
    },
    Asks(Box<Question>),
}

/// A call that waits for a person.
pub struct Question {
    pub approval: NewApproval,
    pub reason: String,
}

/// What a call is about, in the form in which rules compare it.
#[derive(Default)]
pub struct About {
    pub pieces: Vec<Piece>,
    /// Its paths, and where they lead.
    leads: Vec<(String, String)>,
    /// Its command, where that is plain.
    judged: Option<Judged>,
    /// What it would connect to.
    target: Option<WebAddress>,
    /// The parts of a plain command before its globs are expanded: what runs unless a rule about
    /// commands allows it. By then a glob may mean other files.
    written: Vec<Piece>,
}

impl About {
    fn names_host(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Host(_)))
    }
}

/// `look`: the workspace to look at. Where paths lead and which files a command names is not known
/// without one. Blocks with one.
pub fn about(subject: &Subject, look: Option<(&Path, SandboxLevel)>) -> About {
    let mut about = About { target: subject.target.clone(), ..About::default() };
    if let Some(command) = &subject.command {
        let (plain, parts) = Plain::and_parts(command);
        let around = || look.and_then(|(workspace, level)| Around::open(workspace, level));
        about.judged =
            plain.ok().zip(around()).and_then(|(plain, around)| plain.judge(&around).ok());
        let mut pieces: Vec<Piece> = parts.0.into_iter().map(Piece::Command).collect();
        if let Some(judged) = &about.judged {
            about.written = std::mem::take(&mut pieces);
            pieces.extend(judged.line().0.into_iter().map(Piece::Command));
        }
        about.pieces.append(&mut pieces);
        let targets = about.judged.iter().flat_map(|judged| &judged.targets);
        about.pieces.extend(targets.map(|(access, path)| Piece::Redirect {
            write: *access != Access::Read,
            path: PathFact::File(path.clone()),
        }));
    }
    let look = look.filter(|_| !subject.paths.is_empty());
    let opened = look.and_then(|(workspace, _)| Workspace::open(workspace).ok());
    for named in &subject.paths {
        let leads = named.path.as_ref().zip(opened.as_ref());
        let leads = leads.and_then(|(path, workspace)| workspace.leads_to(path));
        about.leads.extend(named.path.clone().zip(leads.clone()));
        // Folders above the workspace hold all of it.
        let holds = |folder: &String| opened.as_ref().is_some_and(|work| work.lies_in(folder));
        if named.tree && leads.as_ref().is_some_and(holds) {
            about.pieces.push(Piece::Path(PathFact::Tree(".".to_owned())));
        }
        about.pieces.push(Piece::Path(match (leads, named.tree) {
            (None, _) => PathFact::Unknown,
            (Some(path), false) => PathFact::File(path),
            (Some(path), true) => PathFact::Tree(path),
        }));
    }
    if let Some(host) = &subject.host {
        about.pieces.push(Piece::Host(host.clone()));
    }
    if about.pieces.is_empty() {
        about.pieces.push(Piece::Whole);
    }
    about
}

/// A tool's own name, and the class of this call of it.
pub type Called<'a> = (&'a str, Class);

pub fn decide(
    policy: &Policy,
    (tool, class): Called<'_>,
    level: SandboxLevel,
    about: &About,
    known: &CallerRights,
) -> Verdict {
    let asked = PolicyQuery { tool, class, level, pieces: &about.pieces, who: &known.who };
    let mut verdict = policy.decide(&asked, &known.grants);
    if !verdict.by_command && !about.written.is_empty() {
        let written = PolicyQuery { pieces: &about.written, ..asked };
        verdict = verdict.or_stricter(policy.decide(&written, &known.grants));
    }
    let judged = about.judged.as_ref().filter(|_| verdict.by_command);
    verdict.runs = judged.map(Judged::text);
    match &about.target {
        Some(target) => verdict.at_host(HostStanding::of(&policy.network, target)),
        // What cannot be read may be what a list denies.
        None if about.names_host() && !policy.network.deny.is_empty() => verdict.at_unread_host(),
        None => verdict,
    }
}

impl GateEnv<'_> {
    pub(super) async fn permitted(
        &self,
        tool: &dyn Tool,
        call: &ToolCall,
        arguments: &Value,
        context: &ToolContext,
        moment: Moment,
        chain: &mut Chain,
    ) -> Result<Permission, GateRefusal> {
        let manner = tool.manner(arguments, self.reach());
        let called = (&*tool.spec().name, manner.class);
        let needs = self.policy.needs(called.0);
        let subject = tool.subject(arguments);
        let mut known = match (needs.people, self.records) {
            (true, Some(records)) => records.known().await?,
            _ => CallerRights::default(),
        };
        let level = self.agent.sandbox.level;
        let mut about = self.about(&subject, context, needs.paths || needs.commands).await;
        let mut verdict = decide(self.policy, called, level, &about, &known);
        if verdict.effect == Effect::Ask {
            // A question is worth a closer look: at grants, and at where every path leads.
            if let Some(records) = self.records {
                known = records.known().await?;
            }
            about = self.about(&subject, context, true).await;
            verdict = decide(self.policy, called, level, &about, &known);
        }
        if verdict.effect == Effect::Ask
            && verdict.rule.is_none()
            && self.is_getting_ready(manner, &subject)
        {
            chain.note(Stage::Policy, "ask: approved with the agent itself");
            verdict.effect = Effect::Allow;
        }
        let leads = std::mem::take(&mut about.leads);
        let run_as = about.judged.filter(|_| verdict.by_command).map(|judged| judged.run_as());
        let approval = match (&context.decision, verdict.effect) {
            (Some(Decision::Approval { id, approve: true, by, .. }), _) => {
                Some(ApprovedBy { id: id.as_str(), by })
            }
            // A person's no counts, whatever the rules have come to say since the question.
            (
                Some(Decision::Approval { id, approve: false, by, note }),
                Effect::Allow | Effect::Ask,
            ) => {
                chain.note(Stage::Policy, format!("refused: denied by {by} ({id})"));
                let note = note.as_ref().map(|note| format!(" and says: {note}"));
                return Err(GateRefusal::new(format!(
                    "approval_denied: the call of `{}` was not run: {by} denied it{}. Do not try \
                     the same again.",
                    call.name,
                    note.unwrap_or_default()
                )));
            }
            _ => None,
        };
        match verdict.effect {
            Effect::Allow => {
                chain.note(Stage::Policy, word(called.1, &verdict));
                Ok(Permission::Go {
                    approval: approval.map(|yes| yes.id.to_owned()),
                    run_as,
                    leads,
                })
            }
            Effect::Deny => {
                chain.note(Stage::Policy, format!("refused: {}", word(called.1, &verdict)));
                Err(GateRefusal::new(self.denied(called.1, call, &verdict)))
            }
            Effect::Ask => match approval.filter(|_| moment == Moment::First) {
                Some(yes) => {
                    chain.note(Stage::Policy, yes.word(&verdict));
                    Ok(Permission::Go { approval: Some(yes.id.to_owned()), run_as, leads })
                }
                None => {
                    let kind = match manner.is_shape() {
                        true => ApprovalKind::Shape,
                        false => ApprovalKind::Call,
                    };
                    let asked = Asking {
                        tool,
                        called,
                        kind,
                        arguments,
                        subject,
                        verdict,
                        run_as,
                        leads,
                        known,
                    };
                    self.ask(call, context, approval, asked, chain).await
                }
            },
        }
    }

    /// Whoever approved a new agent approved that it writes its own skills, subagents and team
    /// rules in its first item.
    fn is_getting_ready(&self, manner: Manner, subject: &Subject) -> bool {
        let first = self.records.is_some_and(|records| records.lease.cause == Cause::Bootstrap);
        let own = |named: &NamedPath| {
            let path = named.path.as_deref().map(Path::new);
            let inside = path.and_then(|path| path.strip_prefix(&self.agent.folder).ok());
            let parts = inside.map(Path::components).into_iter().flatten();
            let parts: Vec<Component<'_>> = parts.collect();
            let own = |name: &OsStr| OWN_SETTINGS.iter().any(|own| name == *own);
            matches!(parts.first(), Some(Component::Normal(name)) if own(name))
                && parts.iter().all(|part| matches!(part, Component::Normal(_)))
        };
        let writes = manner.class == Class::Shape && !manner.is_shape();
        first && writes && !subject.paths.is_empty() && subject.paths.iter().all(own)
    }

    async fn about(&self, subject: &Subject, context: &ToolContext, look: bool) -> About {
        if (subject.paths.is_empty() && subject.command.is_none()) || !look {
            return about(subject, None);
        }
        let (subject, workspace) = (subject.clone(), context.workspace.clone());
        let level = self.agent.sandbox.level;
        let unseen = About { pieces: vec![Piece::Path(PathFact::Unknown)], ..About::default() };
        let work = move || about(&subject, Some((&workspace, level)));
        tokio::task::spawn_blocking(work).await.unwrap_or(unseen)
    }

    /// Ties the call down as it is now; with `since`, changes from then on are named.
    async fn bound(&self, bind: &Arc<Bind>, since: Millis) -> Result<Binding, GateRefusal> {
        let bind = Arc::clone(bind);
        let bound = tokio::task::spawn_blocking(move || bind.bind(since)).await;
        bound.map_err(|_| {
            let text = "policy_unread: the call was not run: the files it names could not be read";
            GateRefusal::new(text.to_owned())
        })
    }

    /// As it is shown to a person: every later change will have a later time.
    async fn bound_for_question(&self, bind: &Arc<Bind>) -> Result<Binding, GateRefusal> {
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

    fn denied(&self, class: Class, call: &ToolCall, verdict: &Verdict) -> String {
        let (name, class) = (&call.name, class.as_str());
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
        approval: Option<ApprovedBy<'_>>,
        asked: Asking<'_>,
        chain: &mut Chain,
    ) -> Result<Permission, GateRefusal> {
        let Asking { tool, called, kind, arguments, subject, verdict, run_as, leads, known } =
            asked;
        let bind = Arc::new(Bind {
            tool: called.0.to_owned(),
            class: called.1,
            arguments: arguments.clone(),
            subject,
            context: context.clone(),
        });
        let mut reason = format!("approval of {}", call.name);
        if let (Some(yes), Some(records)) = (approval, self.records)
            && let Some(row) = records.approval(yes.id).await?
        {
            let found = self.bound(&bind, row.asked_at).await?;
            if row.hash == found.hash {
                chain.note(Stage::Policy, yes.word(&verdict));
                return Ok(Permission::Go { approval: Some(row.id), run_as, leads });
            }
            let changed = changed(&row, arguments, &found);
            reason = format!("approval of {} again, because {changed} changed", call.name);
        }
        // Nobody is asked about what would be refused all the same.
        if kind == ApprovalKind::Shape
            && let Some(text) = tool.refusal(arguments, context).await
        {
            chain.note(Stage::Policy, "refused: nobody has to be asked");
            return Err(GateRefusal::new(text));
        }
        chain.note(Stage::Policy, format!("ask: {}", word(called.1, &verdict)));
        let binding = self.bound_for_question(&bind).await?;
        if Bound::of(&binding.files) == Bound::Nothing {
            reason.push_str("; files are not bound");
        }
        let now = clock::now_ms();
        let hours = i64::try_from(self.approval_time.as_millis()).unwrap_or(i64::MAX);
        let new = NewApproval {
            id: random::uuid().to_string(),
            kind,
            call: call.id.clone(),
            tool: called.0.to_owned(),
            class: called.1,
            arguments: arguments.clone(),
            cwd: binding.cwd,
            files: json!(binding.files),
            hash: binding.hash,
            why: json!(verdict),
            asked_by: known.who.iter().map(|who| who.principal.0.clone()).collect(),
            expires_at: now.saturating_add(hours),
        };
        Ok(Permission::Asks(Box::new(Question { approval: new, reason })))
    }
}

/// A person's yes: to which question, and whose.
#[derive(Clone, Copy)]
struct ApprovedBy<'a> {
    id: &'a str,
    by: &'a str,
}

impl ApprovedBy<'_> {
    /// For the chain.
    fn word(self, verdict: &Verdict) -> String {
        let (runs, host) = (runs(verdict), host_word(verdict));
        format!("ask: approved by {} ({}){runs}{host}", self.by, self.id)
    }
}

/// A question as far as it is known.
struct Asking<'a> {
    tool: &'a dyn Tool,
    called: Called<'a>,
    kind: ApprovalKind,
    arguments: &'a Value,
    subject: Subject,
    verdict: Verdict,
    run_as: Option<String>,
    leads: Vec<(String, String)>,
    known: CallerRights,
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

/// For the chain: by rule, or by class.
fn word(class: Class, verdict: &Verdict) -> String {
    let effect = verdict.effect.as_str();
    let runs = if verdict.effect == Effect::Allow { runs(verdict) } else { String::new() };
    let host = host_word(verdict);
    match &verdict.rule {
        Some(rule) => format!("{effect} by {rule}{runs}{host}"),
        None => format!("{}: {effect}{runs}{host}", class.as_str()),
    }
}

/// The host, and what the agent's lists say of it.
fn host_word(verdict: &Verdict) -> String {
    let Some(host) = &verdict.host else { return String::new() };
    format!("; host {}:{} {}", host.host, host.port, host.standing.as_str())
}

/// What runs in the place of the call's command.
fn runs(verdict: &Verdict) -> String {
    verdict.runs.as_ref().map(|text| format!("; runs: {}", text.trim_end())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn gate_a_search_above_the_workspace_is_about_the_workspace_too() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().canonicalize().unwrap();
        let work = folder.join("work");
        fs::create_dir_all(work.join("secrets")).unwrap();
        let pieces = |path: &Path| {
            let subject = Subject::beneath(&json!({"path": path}));
            about(&subject, Some((&work, SandboxLevel::Confined))).pieces
        };
        let all = Piece::Path(PathFact::Tree(".".to_owned()));
        for above in [folder.clone(), folder.join("work/.."), work.clone(), "/".into()] {
            assert!(pieces(&above).contains(&all), "{}", above.display());
        }
        for beside in [work.join("secrets"), folder.join("team-rules")] {
            assert!(!pieces(&beside).contains(&all), "{}", beside.display());
        }
    }
}

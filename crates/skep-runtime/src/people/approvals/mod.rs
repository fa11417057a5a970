//! Questions to people: shown, and asked again. `answer` is what is decided about them.

mod answer;
mod drafts;
mod files;

use serde::Deserialize;
use serde_json::Value;

use skep_core::approval::{ApprovalState, Bound, NamedFile, Scope};
use skep_core::message::{Block, View};
use skep_core::policy::approvers::Approvers;
use skep_core::policy::evaluate::Verdict;
use skep_core::policy::rule::{Piece, Rule, Who};
use skep_core::policy::{Class, Effect, Policy};
use skep_core::settings::AgentSettings;
use skep_core::tool::Subject;
use skep_core::visible::{bounded_text, change_summary, shown_arguments, summary, visible};
use skep_guard::clock;
use skep_store::approvals::{self, Approval, Reopen};
use skep_store::grants::GrantRow;
use skep_store::{Conn, SqlError, history};
use skep_turn::gate::{self, CallerRights};

use crate::door::{
    ApprovalInfo, ApprovalPage, ApprovalQuery, Covered, DecisionInfo, DoorError, ErrorKind,
    Identity, NetworkAccess, PastCalls, RuleDraft, Sight,
};
use crate::hive::{Hive, door_error};
use crate::people::policies::{PolicyTrial, check_row};
use drafts::{exactly, once_only, parts, patterned};

/// Open questions that a pattern is tried on.
const TRIED: u32 = 200;
/// Calls of the conversation that a pattern is tried on, and rows of it that are read for them.
const PAST_CALLS: usize = 5;
const PAST_ROWS: u32 = 40;
/// Characters of the agent's own words that go with a question.
const WORDS: usize = 1000;

const NOT_BOUND: &str = "The workspace has too many files to tell whether one changed, so this \
                         call is bound to none of them. Approve it once.";

/// What a lasting yes comes to. A preview and a decision are made of the same.
struct Foreseen {
    rules: Vec<Rule>,
    /// Why the patterns are not about this call, where they are not.
    stray: Option<String>,
    /// What would be decided about the call.
    verdict: Verdict,
    /// Other open questions that would be answered.
    also: Vec<Approval>,
    /// What would cover later calls: the rules, and for a conversation what is granted there.
    covering: Vec<Rule>,
}

impl Foreseen {
    /// What it allows; nothing: every call of the tool.
    fn patterns(&self) -> Vec<String> {
        self.rules.iter().filter_map(pattern_of).collect()
    }
}

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

    /// What patterns would cover in this scope, before anybody says yes to them.
    pub async fn covers(
        &self,
        id: &str,
        (scope, patterns): (Scope, &[String]),
        by: &Identity,
        sight: &Sight,
    ) -> Result<Covered, DoorError> {
        let who = self.visitor(by);
        let row = self.seen_approval(id, &who, sight).await?;
        let agent = self.agent_of(row.agent, &row.agent_name)?;
        let foreseen = self.foresee(&row, &agent, scope, patterns).await?;
        let allows = foreseen.patterns();
        let Foreseen { stray, verdict, also, covering, .. } = foreseen;
        let seen = also.into_iter().filter(|row| sees(&who, sight, row)).collect();
        let allowed = verdict.effect == Effect::Allow;
        Ok(Covered {
            covers: allowed && stray.is_none(),
            why: stray.filter(|_| allowed).unwrap_or(verdict.why),
            allows,
            others: self.infos(seen, &who).await?,
            last: self.past_calls(&row, &agent, covering).await?,
        })
    }

    async fn foresee(
        &self,
        row: &Approval,
        agent: &AgentSettings,
        scope: Scope,
        patterns: &[String],
    ) -> Result<Foreseen, DoorError> {
        if Bound::of(&files_of(&row.files)) == Bound::Nothing {
            return Err(DoorError::new(ErrorKind::Conflict, "not_bound", NOT_BOUND));
        }
        let (rules, stray) = self.draft_rules(row, agent, patterns).await?;
        let always = scope == Scope::Always;
        if let Some(why) =
            rules.iter().filter(|_| always).find_map(|rule| draft_of(rule).item().err())
        {
            return Err(DoorError::new(ErrorKind::Conflict, "rule_not_written", why));
        }
        // A rule outlasts what is granted now. A grant stands beside it, as in the gate.
        let (policy, grants) = match always {
            true => (with_rules(&agent.policy, &rules), Vec::new()),
            false => {
                let granted = self.grants_of(row.agent).await?;
                let granted = granted.iter().filter(|grant| grant.counts_in(&row.session));
                let granted = granted.filter_map(gate::rule_of).chain(rules.iter().cloned());
                (agent.policy.clone(), granted.collect())
            }
        };
        let verdict = self.imagined(row, agent, &policy, grants.clone()).await?;
        let mut also = self.also_covered(row, agent, &policy, grants.clone()).await?;
        also.retain(|other| always || other.session == row.session);
        let covering = if always { rules.clone() } else { grants };
        Ok(Foreseen { rules, stray, verdict, also, covering })
    }

    async fn imagined(
        &self,
        row: &Approval,
        agent: &AgentSettings,
        policy: &Policy,
        grants: Vec<Rule>,
    ) -> Result<Verdict, DoorError> {
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

    /// The rules that a yes with these patterns stands for, without any exactly this call; and why
    /// they are not about it, where they are not.
    async fn draft_rules(
        &self,
        row: &Approval,
        agent: &AgentSettings,
        patterns: &[String],
    ) -> Result<(Vec<Rule>, Option<String>), DoorError> {
        let tool = self.tool(&row.tool)?;
        let subject = tool.subject(&row.arguments);
        if let Some(refused) = once_only(&*tool, &subject) {
            return Err(refused);
        }
        let mut pieces = looked_at(agent, vec![subject.clone()]).await;
        let pieces = pieces.pop().unwrap_or_default();
        let drafts = match patterns {
            [] => exactly(&row.tool, &pieces)?,
            patterns => patterned(&row.tool, &subject, patterns)?,
        };
        let rules = drafts.into_iter().map(|draft| check_row(&row_of(row, draft)));
        let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
        // A yes to this call grants nothing that the call does not do.
        let idle = |rule: &&Rule| !pieces.iter().any(|piece| rule.fits(piece).is_ok());
        let stray = match rules.len() > pieces.len() {
            true => Some("these are more patterns than the call has commands".to_owned()),
            false => rules.iter().find(idle).map(|rule| {
                format!(
                    "no part of this call is what a pattern is about: {}",
                    visible(&rule.to_string())
                )
            }),
        };
        Ok((rules, stray))
    }

    /// How many of the newest calls of the tool in the conversation the rules cover.
    async fn past_calls(
        &self,
        row: &Approval,
        agent: &AgentSettings,
        rules: Vec<Rule>,
    ) -> Result<PastCalls, DoorError> {
        let read = self.shared.store.read(async |conn| {
            history::page(conn, &row.agent_name, &row.session, View::Full, None, PAST_ROWS).await
        });
        let messages = read.await.map_err(door_error)?;
        let tool = self.tool(&row.tool)?;
        let toolbox = &self.shared.snapshot().toolbox;
        let own = |name: &str| toolbox.find(name).is_some_and(|it| it.spec().name == row.tool);
        let blocks = messages.iter().rev().flat_map(|message| message.body.content.iter().rev());
        let subjects = blocks.filter_map(|block| match block {
            Block::ToolCall { name, arguments, .. } if own(name) => Some(tool.subject(arguments)),
            _ => None,
        });
        let calls = looked_at(agent, subjects.take(PAST_CALLS).collect()).await;
        let fits = |piece: &Piece| {
            piece.is_redirect() || rules.iter().any(|rule| rule.fits(piece).is_ok())
        };
        let covered = calls.iter().filter(|pieces| pieces.iter().all(fits)).count();
        Ok(PastCalls { calls: calls.len(), covered })
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

    /// Whoever is here, with the role of their credential; none where it is not good any more.
    /// Of somebody at a browser nothing else knows the role.
    pub(crate) fn visitor(&self, by: &Identity) -> Who {
        let role = self.is_good(&by.credential).then_some(by.role);
        Who { role, ..self.shared.person(by.principal.as_str()) }
    }

    /// Whoever neither sees nor may decide it is told the same as if it were not there.
    async fn seen_approval(
        &self,
        id: &str,
        who: &Who,
        sight: &Sight,
    ) -> Result<Approval, DoorError> {
        match self.find_approval(id).await? {
            Some(row) if self.is_shown(&row, who, sight).await => Ok(row),
            _ => Err(unknown_approval(id)),
        }
    }

    async fn find_approval(&self, id: &str) -> Result<Option<Approval>, DoorError> {
        let read = self.shared.store.read(async |conn| approvals::find(conn, id).await);
        read.await.map_err(door_error)
    }

    async fn is_shown(&self, row: &Approval, who: &Who, sight: &Sight) -> bool {
        sees(who, sight, row) || self.approvers_now(row).await.refuse(who).is_none()
    }

    /// Those whom the rules name now. Where they do not ask any more: those who were asked.
    async fn approvers_now(&self, row: &Approval) -> Approvers {
        let now = match self.agent_of(row.agent, &row.agent_name) {
            Ok(agent) => self.imagined(row, &agent, &agent.policy, Vec::new()).await.ok(),
            Err(_) => None,
        };
        let now = now.filter(|verdict| verdict.effect == Effect::Ask);
        now.map_or_else(|| approvers_of(row), |verdict| verdict.approvers)
    }

    /// Why this person may not decide; said too where nobody may who is known here.
    fn refused(&self, approvers: &Approvers, who: &Who) -> Option<String> {
        let why = approvers.refuse(who)?;
        let mut all = self.shared.tokens.holders();
        all.extend(self.shared.browsers.people());
        all.push(self.shared.person("operator"));
        match all.iter().any(|one| approvers.refuse(one).is_none()) {
            true => Some(why),
            false => Some(format!(
                "{why}. Nobody who has a token or is signed in may decide it: correct `approvers` \
                 in the agent's config.yaml, or give such a person access: `skep token new NAME`"
            )),
        }
    }

    fn approval_info(&self, mut row: Approval, words: Option<String>, who: &Who) -> ApprovalInfo {
        let approvers = approvers_of(&row);
        let agent = self.agent_of(row.agent, &row.agent_name).ok();
        let sandbox = agent.as_ref().map(|agent| agent.sandbox);
        let tool = self.shared.snapshot().toolbox.find(&row.tool).cloned();
        let subject = tool.as_ref().map(|tool| tool.subject(&row.arguments));
        let class = Class::parse(&row.class).filter(|_| subject.is_some());
        let decision = match (row.decided_by, row.decided_at, row.decided_from) {
            (Some(by), Some(at), Some(from)) => Some(DecisionInfo {
                by,
                at,
                from,
                scope: row.scope.unwrap_or(Scope::Once),
                patterns: row.patterns.unwrap_or_default(),
                note: row.note,
                used: row.used_at,
            }),
            _ => None,
        };
        // In the spelling that is dialled, not in the one that was written.
        let target = subject.as_ref().and_then(|subject| subject.target.as_ref());
        let target = target.map(ToString::to_string);
        let guarded = subject.as_ref().is_some_and(|subject| subject.guarded);
        let network = class.zip(sandbox).map(|(class, walls)| match guarded {
            true => NetworkAccess::Host,
            false => NetworkAccess::of(class, &walls),
        });
        let hosts = agent.filter(|_| network == Some(NetworkAccess::Listed));
        let hosts = hosts.map(|agent| agent.policy.network.listed()).unwrap_or_default();
        let files = files_of(&row.files);
        let bound = Bound::of(&files);
        let named = tool.as_deref().zip(subject.as_ref());
        let once = named.and_then(|(tool, subject)| once_only(tool, subject));
        let not_bound = || (bound == Bound::Nothing).then(|| NOT_BOUND.to_owned());
        // Before lines of it are left out or moved to the right.
        skep_scrub::known().clean_json(&mut row.arguments);
        ApprovalInfo {
            once_only: once.map(|refused| refused.text).or_else(not_bound),
            bound,
            files,
            commands: subject.map(|subject| parts(&subject)).unwrap_or_default(),
            shown: shown_arguments(&row.arguments),
            summary: target.unwrap_or_else(|| call_summary(&row.class, &row.tool, &row.arguments)),
            words,
            network,
            hosts,
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
            sandbox: sandbox.map(|walls| walls.level),
            hash: row.hash,
            why: row.why,
            refused: self.refused(&approvers, who),
            approvers,
            kind: row.kind,
            state: row.state,
            reopened: row.reopened,
            asked_by: row.asked_by,
            asked_at: row.asked_at,
            expires_at: row.expires_at,
            decision,
        }
    }
}

fn unknown_approval(id: &str) -> DoorError {
    let shown = skep_scrub::known().beginning(id, 64);
    let text = format!("There is no approval `{shown}`.");
    DoorError::new(ErrorKind::NotFound, "unknown_approval", text)
}

/// The parts of calls as rules compare them, with a look at where their paths lead.
async fn looked_at(agent: &AgentSettings, calls: Vec<Subject>) -> Vec<Vec<Piece>> {
    let (workspace, level) = (agent.workspace.clone(), agent.sandbox.level);
    let look = move |subject: &Subject| gate::about(subject, Some((&workspace, level))).pieces;
    let work = move || calls.iter().map(look).collect();
    tokio::task::spawn_blocking(work).await.unwrap_or_default()
}

/// The agent's own words, for people.
async fn words(conn: &mut Conn, row: &Approval) -> Result<Option<String>, SqlError> {
    let call = (&row.turn, &row.call);
    let said = history::said_with(conn, &row.agent_name, &row.session, call).await?;
    Ok(said.map(|said| bounded_text(&skep_scrub::known().clean(said.trim()), WORDS)))
}

/// Those whom the rules named when the question was asked.
fn approvers_of(row: &Approval) -> Approvers {
    Approvers::deserialize(&row.why["approvers"]).unwrap_or_default()
}

/// An approver sees the question, whosever conversation it comes from.
/// What the call is about, in one line.
pub(crate) fn call_summary(class: &str, tool: &str, arguments: &Value) -> String {
    match Class::parse(class) {
        Some(Class::Shape) => change_summary(tool, arguments),
        _ => summary(arguments),
    }
}

pub(crate) fn sees(who: &Who, sight: &Sight, row: &Approval) -> bool {
    sight.covers(row.agent, &row.session_key) || approvers_of(row).refuse(who).is_none()
}

fn files_of(files: &Value) -> Vec<NamedFile> {
    Vec::deserialize(files).unwrap_or_default()
}

fn pattern_of(rule: &Rule) -> Option<String> {
    let RuleDraft { path, command, host, .. } = draft_of(rule);
    command.or(path).or(host)
}

fn with_rules(policy: &Policy, rules: &[Rule]) -> Policy {
    let mut policy = policy.clone();
    policy.rules.extend_from_slice(rules);
    policy
}

fn draft_of(rule: &Rule) -> RuleDraft {
    RuleDraft {
        tool: rule.tool.clone(),
        path: rule.path.as_ref().map(ToString::to_string),
        command: rule.command.as_ref().map(ToString::to_string),
        host: rule.host.as_ref().map(ToString::to_string),
    }
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

//! Policies as people see them: what is in force, why a call would be decided so, and what was
//! granted for a time.

use std::sync::Arc;

use serde_json::Value;

use skep_core::ids::{AgentId, AgentName, Principal};
use skep_core::policy::evaluate::Verdict;
use skep_core::policy::network::NetworkRules;
use skep_core::policy::rule::{Rule, RuleInfo};
use skep_core::policy::{Class, Policy};
use skep_core::settings::AgentSettings;
use skep_core::tool::Tool;
use skep_guard::{clock, random};
use skep_store::grants::{self, AddGrant, GrantRow, RevokeGrant};
use skep_turn::gate::{self, CallerRights};
use skep_turn::snapshot::is_listed;

use crate::door::{
    ClassEffect, DoorError, ErrorKind, GrantInfo, GrantWish, NetworkInfo, PolicyInfo, Sight,
    WhyInfo, WhyWish, check_no_secret,
};
use crate::hive::{Hive, door_error};

/// A call to be decided on paper.
pub(crate) struct PolicyTrial<'a> {
    pub agent: &'a AgentSettings,
    pub policy: &'a Policy,
    pub tool: &'a dyn Tool,
    pub arguments: &'a Value,
    pub known: &'a CallerRights,
}

impl PolicyTrial<'_> {
    /// What would be decided. Reads where paths lead.
    pub async fn verdict(&self) -> Verdict {
        let (subject, workspace) =
            (self.tool.subject(self.arguments), self.agent.workspace.clone());
        let level = self.agent.sandbox.level;
        let work = move || gate::about(&subject, Some((&workspace, level)));
        let about = tokio::task::spawn_blocking(work).await.unwrap_or_default();
        let class = self.tool.manner(self.arguments, self.agent.reach()).class;
        gate::decide(self.policy, (&self.tool.spec().name, class), level, &about, self.known)
    }
}

impl Hive {
    pub async fn policy(&self, name: &AgentName) -> Result<PolicyInfo, DoorError> {
        let id = self.shared.agent_id(name)?;
        let agent = self.able_agent(name)?;
        let limit = self.shared.settings().limits.requests_per_minute;
        let classes = Class::ALL.iter().map(|class| ClassEffect {
            class: *class,
            effect: agent.policy.classes.decide(*class, agent.sandbox.level),
        });
        Ok(PolicyInfo {
            agent: name.clone(),
            classes: classes.collect(),
            rules: agent.policy.all_rules().map(RuleInfo::from).collect(),
            network: network_info(&agent.policy.network, limit),
            grants: self.grants_of(id).await?.into_iter().map(grant_info).collect(),
            broken: agent.policy.broken.clone(),
        })
    }

    /// What would be decided about a call, and why.
    pub async fn why(&self, wish: WhyWish) -> Result<WhyInfo, DoorError> {
        let id = self.shared.agent_id(&wish.agent)?;
        let agent = self.able_agent(&wish.agent)?;
        let tool = self.tool(&wish.tool)?;
        if let Err(why) = tool.prepare(wish.arguments.clone()) {
            let text = format!("The arguments do not fit `{}`: {why}", wish.tool);
            return Err(DoorError::new(ErrorKind::Invalid, "bad_arguments", text));
        }
        let rows = self.grants_of(id).await?;
        let lasting = rows.iter().filter(|row| row.session.is_none());
        let known = CallerRights {
            who: vec![self.shared.person(&wish.who)],
            grants: lasting.filter_map(gate::rule_of).collect(),
        };
        let (policy, arguments) = (&agent.policy, &wish.arguments);
        let imagined =
            PolicyTrial { agent: &agent, policy, tool: &*tool, arguments, known: &known };
        let mut verdict = imagined.verdict().await;
        let listed = is_listed(&agent, &*tool);
        if !listed {
            let why = format!("the agent's allowed_tools does not list {}", tool.spec().name);
            verdict = verdict.denied(why, "allowed_tools");
        }
        Ok(WhyInfo {
            agent: wish.agent,
            tool: tool.spec().name.clone(),
            class: tool.manner(&wish.arguments, agent.reach()).class,
            listed,
            verdict,
        })
    }

    pub(crate) fn tool(&self, name: &str) -> Result<Arc<dyn Tool>, DoorError> {
        let toolbox = &self.shared.snapshot().toolbox;
        toolbox.find(name).cloned().ok_or_else(|| {
            let names: Vec<String> = toolbox.names().collect();
            let shown = skep_scrub::known().beginning(name, 64);
            let text = format!("There is no tool `{shown}`. There are: {}.", names.join(", "));
            DoorError::new(ErrorKind::NotFound, "unknown_tool", text)
        })
    }

    /// Allows something for a time. It answers questions and lifts no refusal.
    pub async fn grant(&self, wish: GrantWish) -> Result<GrantInfo, DoorError> {
        let agent = self.shared.agent_id(&wish.agent)?;
        let patterns = [Some(&wish.tool), wish.path.as_ref(), wish.command.as_ref()];
        for pattern in patterns.into_iter().chain([wish.host.as_ref()]).flatten() {
            check_no_secret("The pattern", pattern)?;
        }
        if !wish.tool.contains('*') {
            let tool = self.tool(&wish.tool)?;
            if wish.host.is_some() && !names_host(&*tool) {
                return Err(DoorError::new(
                    ErrorKind::Invalid,
                    "bad_pattern",
                    hostless(&wish.tool),
                ));
            }
        }
        let now = clock::now_ms();
        let row = GrantRow {
            id: random::uuid().to_string(),
            agent,
            agent_name: wish.agent,
            session: None,
            tool: wish.tool,
            path: wish.path,
            command: wish.command,
            host: wish.host,
            grants: wish.grants,
            made_by: wish.by,
            made_at: now,
            until: Some(now.saturating_add(i64::from(wish.minutes) * 60_000)),
        };
        check_row(&row)?;
        self.shared.store.write(AddGrant(row.clone())).await.map_err(door_error)?;
        Ok(grant_info(row))
    }

    /// What is granted now, of all agents or of one.
    pub async fn grants(
        &self,
        agent: Option<&AgentName>,
        sight: &Sight,
    ) -> Result<Vec<GrantInfo>, DoorError> {
        let ids = match agent {
            Some(name) => vec![self.shared.agent_id(name)?],
            None => self.shared.snapshot().ids.values().copied().collect(),
        };
        let mut found = Vec::new();
        for id in ids {
            let rows = self.grants_of(id).await?;
            found.extend(rows.into_iter().filter(|row| sight.covers_agent(row.agent)));
        }
        Ok(found.into_iter().map(grant_info).collect())
    }

    pub async fn revoke_grant(&self, id: &str, by: &Principal) -> Result<(), DoorError> {
        let by = by.to_string();
        let command = RevokeGrant { id: id.to_owned(), by, now: clock::now_ms() };
        self.shared.store.write(command).await.map_err(door_error)
    }

    pub(crate) async fn grants_of(&self, agent: AgentId) -> Result<Vec<GrantRow>, DoorError> {
        let now = clock::now_ms();
        let read = self.shared.store.read(async |conn| grants::of_agent(conn, agent, now).await);
        read.await.map_err(door_error)
    }
}

fn names_host(tool: &dyn Tool) -> bool {
    let properties = &tool.spec().input_schema["properties"];
    ["url", "host"].iter().any(|key| !properties[key].is_null())
}

fn hostless(tool: &str) -> String {
    format!(
        "Calls of `{tool}` name no host, so the grant would allow nothing. Grant `web_fetch` the \
         host; for commands list it in network.hosts of the agent's config.yaml."
    )
}

/// Says what is wrong with the patterns of a grant.
pub(crate) fn check_row(row: &GrantRow) -> Result<Rule, DoorError> {
    use skep_core::policy::pattern::{CommandPattern, HostPattern, PathPattern};
    let invalid = |why: &str| DoorError::new(ErrorKind::Invalid, "bad_pattern", why);
    if let Some(path) = &row.path {
        PathPattern::parse(path).map_err(invalid)?;
    }
    if let Some(command) = &row.command {
        CommandPattern::parse(command).map_err(invalid)?;
    }
    if let Some(host) = &row.host {
        HostPattern::parse(host).map_err(invalid)?;
    }
    gate::rule_of(row).ok_or_else(|| {
        invalid("Somebody a grant is for is `any`, `role:` and a role, or `user:` and a name.")
    })
}

pub(super) fn network_info(rules: &NetworkRules, requests_per_minute: u32) -> NetworkInfo {
    fn texts<T: ToString>(entries: &[T]) -> Vec<String> {
        entries.iter().map(ToString::to_string).collect()
    }
    NetworkInfo {
        hosts: texts(&rules.hosts),
        deny: texts(&rules.deny),
        private: texts(&rules.private),
        requests_per_minute,
    }
}

fn grant_info(row: GrantRow) -> GrantInfo {
    GrantInfo {
        id: row.id,
        agent: row.agent_name,
        session: row.session,
        tool: row.tool,
        path: row.path,
        command: row.command,
        host: row.host,
        grants: if row.grants.is_empty() { vec!["any".to_owned()] } else { row.grants },
        made_by: row.made_by,
        made_at: row.made_at,
        until: row.until,
    }
}

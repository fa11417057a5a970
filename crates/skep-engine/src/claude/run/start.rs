//! The beginning of a turn: the session's own process where it runs and fits, else a new one.

use std::sync::Arc;

use tokio::sync::mpsc;

use skep_core::engine::{FailureCode, TurnEnd};
use skep_core::ids::SessionId;
use skep_core::relay::{RelayLaunch, RelayTurn, RelayWire};
use skep_guard::{clock, random};

use super::super::launch::{self, ClaudeOptions, ClaudePlan, ClaudeSession, ID, TESTED};
use super::super::permissions::{ClaudeTools, SERVER};
use super::super::transcript::Transcript;
use super::super::wire::{self, ClaudeLine, ControlResponse};
use super::{ClaudeProcess, ClaudeRun, Ended, HANDSHAKE, HOOK, INITIALIZE, USAGES};
use crate::process::{EngineHome, EngineLaunch, KeptProcess};

impl ClaudeRun {
    /// The session's own process where it runs and fits, else a new one.
    pub(super) async fn enter(&mut self) -> Ended<()> {
        self.options = ClaudeOptions::read(&self.request.options)?;
        let specs = Arc::clone(self.request.gate.specs());
        self.tools = Arc::new(ClaudeTools::new(self.options.tools, specs));
        let plan = ClaudePlan::new(&self.request, self.options.clone());
        let home = EngineHome::of(&self.shared.homes, ID, self.request.agent_id);
        let home = home.map_err(|error| unable(format!("its folder cannot be made: {error}")))?;
        let resumed = self.request.resume.as_ref().map(|resume| resume.session.id.clone());
        let key: &SessionId = &self.request.session;
        if let Some(process) = self.shared.kept.take(key).await {
            if resumed.as_ref() == Some(&process.session) && process.plan == plan {
                let session = process.session.clone();
                self.process = Some(process);
                self.transcript = Some(Transcript::open(home.folder, session).await);
                return Ok(());
            }
            process.end().await;
        }
        let session = match resumed {
            Some(id) => ClaudeSession::Resumed(id),
            None => ClaudeSession::New(random::uuid().to_string()),
        };
        let id = session.id().to_owned();
        self.transcript = Some(Transcript::open(home.folder.clone(), id).await);
        self.start(plan, &session, &home).await?;
        let ready = tokio::time::timeout(HANDSHAKE, self.shake_hands()).await;
        ready.unwrap_or_else(|_| {
            Err(self.program().surprise(format!("nothing for {} s", HANDSHAKE.as_secs())))
        })
    }

    async fn start(
        &mut self,
        plan: ClaudePlan,
        session: &ClaudeSession,
        home: &EngineHome,
    ) -> Ended<()> {
        let lease = self.shared.relay.open(RelayLaunch {
            agent: self.request.agent.clone(),
            wire: RelayWire::Anthropic,
            allowed_tools: self.tools.for_relay(),
            level: plan.sandbox.level,
        });
        let system = plan.write_system(home, self.request.session.as_str());
        let system =
            system.map_err(|why| unable(format!("its prompt cannot be written: {why}")))?;
        let arguments = plan.arguments(session, &system);
        let launch = EngineLaunch {
            program: self.program(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: plan.environment(&home.folder, &lease.base_url, &lease.bearer),
            home,
            workspace: &self.request.workspace,
            sandbox: &plan.sandbox,
            service: &lease.service,
        };
        let child = self.shared.starter.start(&self.request.session, launch).await?;
        let (lines, session) = (child.sender(), session.id().to_owned());
        self.process = Some(ClaudeProcess { child, lines, lease, session, plan });
        Ok(())
    }

    async fn shake_hands(&mut self) -> Ended<()> {
        self.send(wire::initialize(INITIALIZE, HOOK, SERVER, launch::HOOK_SECONDS)).await?;
        loop {
            let Some(process) = &mut self.process else { return Err(self.crash().await) };
            let line = process.child.line().await;
            match self.read(line).await? {
                ClaudeLine::ControlResponse { response } if response.request_id == INITIALIZE => {
                    return self.check(&response);
                }
                ClaudeLine::ControlRequest { request_id, request } => {
                    self.answer(request_id, request).await?;
                }
                // It does not know the session, as a rule.
                ClaudeLine::Result(result) => {
                    return Err(self.course.end(result, clock::now_ms()));
                }
                _ => {}
            }
        }
    }

    fn check(&self, response: &ControlResponse) -> Ended<()> {
        if response.subtype != "success" {
            let why = response.error.as_deref().unwrap_or("no reason");
            return Err(self.program().surprise(format!("it refused the start: {why}")));
        }
        let version = response.response["claude_code_version"].as_str().unwrap_or("unknown");
        if version != TESTED && !self.options.any_version {
            return Err(self.program().wrong_version(version, TESTED));
        }
        // Without it no call would be asked for.
        match response.response["hooks_applied"] != false {
            true => Ok(()),
            false => Err(self.program().surprise("it takes no hooks")),
        }
    }

    /// From here on the relay answers the process.
    pub(super) fn open_relay(&mut self) {
        let Some(process) = &self.process else { return };
        let (used, told) = mpsc::channel(USAGES);
        self.used = Some(told);
        self.answers = Some(process.lease.turns.open(RelayTurn {
            profile: Arc::clone(&self.request.profile),
            providers: self.request.providers.clone(),
            allowance: self.request.allowance.clone(),
            used,
        }));
    }
}

fn unable(why: String) -> TurnEnd {
    let code = FailureCode::AgentUnavailable;
    TurnEnd::Failed { code, text: format!("Claude Code could not be started: {why}") }
}

//! Commands that go on while the agent does something else. They belong to their session: they end
//! with it, when somebody stops it, and with the hive.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use skep_core::ids::{AgentId, SessionKey};
use skep_core::tool::ToolContext;
use skep_guard::process::{Captured, JobOutput, LiveOutput};
use skep_guard::random;
use skep_guard::sandbox::{Sandbox, SandboxError, SandboxRoom, ShellCommand};
use tokio_util::sync::CancellationToken;

/// Commands of one conversation that may run beside it.
pub(crate) const MOST_RUNNING: usize = 4;
/// Of all conversations of an agent together.
const MOST_OF_AGENT: usize = 32;
/// Ended ones of an agent whose output can still be asked for.
const ENDED_KEPT: usize = 64;
/// Whoever looks at one that is silent waits this long for something new: asking again and again
/// costs a model call each time.
const NEWS_WITHIN: Duration = Duration::from_secs(15);
/// One that is told to stop is gone by then, whatever it does.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);

/// Locked to look a job up or to add one; never while anything is waited for.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    agents: Mutex<HashMap<AgentId, Vec<Arc<Background>>>>,
}

/// A command that was started in the background.
#[derive(Debug)]
pub(crate) struct Background {
    pub id: String,
    session: SessionKey,
    live: LiveOutput,
    /// Bytes of what it said when somebody looked last.
    seen: AtomicUsize,
    stop: CancellationToken,
    /// Cancelled once `ending` is there.
    over: CancellationToken,
    ending: OnceLock<Result<JobOutput, SandboxError>>,
}

impl Background {
    /// How it ended; nothing while it runs.
    pub fn ending(&self) -> Option<&Result<JobOutput, SandboxError>> {
        self.ending.get()
    }

    /// What it has said by now.
    pub fn look(&self) -> Captured {
        let said = self.live.so_far();
        self.seen.store(said.all(), Ordering::Relaxed);
        said
    }

    /// Returns when it has said something since the last look, has ended, or the time is over.
    pub async fn news(&self, cancel: &CancellationToken) {
        tokio::select! {
            () = self.live.beyond(self.seen.load(Ordering::Relaxed)) => {}
            () = self.over.cancelled() => {}
            () = cancel.cancelled() => {}
            () = tokio::time::sleep(NEWS_WITHIN) => {}
        }
    }
}

impl Jobs {
    pub fn start(
        &self,
        context: &ToolContext,
        sandbox: Sandbox,
        command: ShellCommand,
        room: SandboxRoom,
    ) -> Result<Arc<Background>, String> {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = agents.entry(context.agent_id).or_default();
        let runs = |job: &&Arc<Background>| job.ending().is_none();
        let running = jobs.iter().filter(runs).count();
        let own = jobs.iter().filter(|job| job.session == context.session_key).filter(runs).count();
        if own >= MOST_RUNNING {
            return Err(format!(
                "too_many_jobs: {own} commands of this session run in the background already; \
                 stop one first"
            ));
        }
        if running >= MOST_OF_AGENT {
            return Err(format!(
                "too_many_jobs: {running} commands of this agent's sessions run in the background \
                 already; try again when one has ended"
            ));
        }
        let ended = jobs.len() - running;
        let mut surplus = (ended + 1).saturating_sub(ENDED_KEPT);
        jobs.retain(|job| {
            let goes = surplus > 0 && job.ending().is_some();
            surplus -= usize::from(goes);
            !goes
        });
        let unique = random::uuid().simple().to_string();
        let job = Arc::new(Background {
            id: format!("job-{}", &unique[unique.len() - 8..]),
            session: context.session_key.clone(),
            live: LiveOutput::default(),
            seen: AtomicUsize::new(0),
            stop: context.lasting.child_token(),
            over: CancellationToken::new(),
            ending: OnceLock::new(),
        });
        jobs.push(Arc::clone(&job));
        tokio::spawn(follow(
            Arc::clone(&job),
            Arc::clone(&context.lasting),
            sandbox,
            command,
            room,
        ));
        Ok(job)
    }

    /// A job of this conversation; the jobs of others are as if they were not there.
    pub fn find(&self, context: &ToolContext, id: &str) -> Result<Arc<Background>, String> {
        let agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = agents.get(&context.agent_id).map_or(&[][..], Vec::as_slice);
        let mut own = jobs.iter().filter(|job| job.session == context.session_key);
        own.clone().find(|job| job.id == id).cloned().ok_or_else(|| {
            let known: Vec<&str> = own.by_ref().map(|job| job.id.as_str()).collect();
            let there = match known.is_empty() {
                true => "there are none".to_owned(),
                false => format!("there are {}", known.join(", ")),
            };
            format!("no_such_job: there is no job `{id}`; {there}. Jobs end with their session")
        })
    }

    pub async fn stop(job: &Background) -> Result<(), String> {
        job.stop.cancel();
        tokio::time::timeout(STOPPED_WITHIN, job.over.cancelled())
            .await
            .map_err(|_| format!("not_stopped: {} does not end; ask again", job.id))
    }
}

/// `lasting` is held so that the session's end reaches the command.
async fn follow(
    job: Arc<Background>,
    lasting: Arc<CancellationToken>,
    sandbox: Sandbox,
    command: ShellCommand,
    room: SandboxRoom,
) {
    let ended = sandbox.run_live(command, &room, &job.live, &job.stop).await;
    // Set once, here alone.
    let _ = job.ending.set(ended);
    job.over.cancel();
    drop(lasting);
}

//! With small programs of the system in the place of an engine.
#![allow(clippy::unwrap_used)]

use super::*;

struct Cat(DuplexChild);

impl KeptProcess for Cat {
    fn child(&mut self) -> &mut DuplexChild {
        &mut self.0
    }

    fn is_idle_talk(&self, line: &[u8]) -> bool {
        line == b"hm"
    }

    fn end(self) -> BoxFuture<'static, ()> {
        Box::pin(async move { drop(self.0.end().await) })
    }
}

struct Bench {
    folder: tempfile::TempDir,
    starter: EngineStarter,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = sandbox::Settings::new(sandbox::Level::Host, Vec::new());
        let records = DuplexRecords::new(folder.path().join("children"));
        let starter = EngineStarter { sandbox: Arc::new(Sandbox::new(settings)), records };
        Self { folder, starter }
    }

    async fn start(&self, program: &str, arguments: &[&str]) -> Result<DuplexChild, TurnEnd> {
        struct Nobody;
        impl skep_core::relay::RelayConnections for Nobody {
            fn serve(
                &self,
                _: Box<dyn skep_core::relay::RelayConnection>,
            ) -> BoxFuture<'static, ()> {
                Box::pin(std::future::ready(()))
            }
        }
        let home = EngineHome::of(self.folder.path(), "cat", AgentId(7)).unwrap();
        let service = RelayService { host: String::new(), port: 80, connections: Arc::new(Nobody) };
        let sandbox = SandboxSettings { level: SandboxLevel::Host, ..SandboxSettings::default() };
        let launch = EngineLaunch {
            program: EngineProgram { name: "Cat", path: Path::new(program), install: "get cat" },
            arguments: arguments.iter().map(Into::into).collect(),
            environment: Vec::new(),
            home: &home,
            workspace: self.folder.path(),
            sandbox: &sandbox,
            service: &service,
        };
        self.starter.start(&SessionId::new("s"), launch).await
    }

    async fn cat(&self) -> Cat {
        Cat(self.start("cat", &[]).await.unwrap())
    }
}

fn session(id: &str) -> SessionId {
    SessionId::new(id)
}

const LONG: Duration = Duration::from_secs(3600);

/// That its process is gone is told by the end of the taking.
async fn ends(processes: &KeptProcesses<Cat>, id: &str) {
    let over = || {
        let kept = processes.kept.lock().unwrap();
        kept.iter().all(|kept| kept.session != session(id) || kept.hand_over.is_closed())
    };
    for _ in 0..1000 {
        if over() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the process is kept");
}

#[tokio::test]
async fn a_kept_process_is_handed_to_its_session_once() {
    let bench = Bench::new();
    let processes = KeptProcesses::default();
    processes.keep(session("s"), bench.cat().await, LONG);
    assert!(processes.take(&session("other")).await.is_none());
    let mut cat = processes.take(&session("s")).await.unwrap();
    assert!(processes.take(&session("s")).await.is_none());
    cat.0.sender().send("still here").await.unwrap();
    assert_eq!(cat.0.line().await.unwrap().unwrap(), b"still here");
    cat.end().await;
}

#[tokio::test]
async fn a_kept_process_ends_by_time_by_what_it_says_and_by_itself() {
    let bench = Bench::new();
    let processes = KeptProcesses::default();
    processes.keep(session("time"), bench.cat().await, Duration::from_millis(1));
    ends(&processes, "time").await;

    let cat = bench.cat().await;
    let told = cat.0.sender();
    processes.keep(session("says"), cat, LONG);
    told.send("hm").await.unwrap();
    told.send("surprise").await.unwrap();
    ends(&processes, "says").await;

    let gone = Cat(bench.start("true", &[]).await.unwrap());
    processes.keep(session("gone"), gone, LONG);
    ends(&processes, "gone").await;
    assert!(processes.take(&session("gone")).await.is_none());
}

#[tokio::test]
async fn beyond_the_number_that_is_kept_the_one_kept_longest_ends() {
    let folder = tempfile::tempdir().unwrap();
    let processes = KeptProcesses::default();
    let mut benches = Vec::new();
    for number in 0..=MOST_KEPT {
        let bench = Bench::new();
        processes.keep(session(&number.to_string()), bench.cat().await, LONG);
        benches.push(bench);
    }
    assert!(processes.take(&session("0")).await.is_none());
    assert!(processes.take(&session("1")).await.is_some());
    drop(folder);
}

#[tokio::test]
async fn what_cannot_start_or_ended_says_why() {
    let bench = Bench::new();
    let Err(TurnEnd::Failed { code, text }) = bench.start("/nowhere/cat", &[]).await else {
        panic!("it started")
    };
    assert_eq!(code, FailureCode::AgentUnavailable);
    assert_eq!(text, "engine_missing: Cat is not at /nowhere/cat. Install it: `get cat`");

    let mut child = bench.start("sh", &["-c", "echo bad flag >&2; exit 3"]).await.unwrap();
    assert_eq!(child.line().await.unwrap(), None);
    let program = EngineProgram { name: "Cat", path: Path::new("cat"), install: "get cat" };
    let expected = "Cat ended in the middle of a turn (exit code 3). It said: bad flag";
    let crashed = program.crashed(child).await;
    let code = RetryCode::EngineCrashed;
    assert_eq!(crashed, TurnEnd::Retry { code, text: expected.to_owned() });
}

#[test]
fn a_home_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = EngineHome::of(folder.path(), "claude", AgentId(3)).unwrap();
    assert!(home.folder.ends_with("claude/3"));
    let mode = std::fs::metadata(&home.folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

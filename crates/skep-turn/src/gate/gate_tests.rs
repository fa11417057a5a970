#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;
use skep_core::BoxFuture;
use skep_core::hook::{After, Before, HookedCall};
use skep_core::ids::{AgentId, AgentName, CallId, SessionKey, TurnId};
use skep_core::policy::{AgentReach, Class, ClassPolicy, Effect, Policy};
use skep_core::provider::ToolSpec;
use skep_core::settings::{
    Budgets, KnownModels, Profile, QueueMode, SandboxLevel, SandboxSettings,
};
use skep_core::tool::Manner;
use tokio_util::sync::CancellationToken;

use super::admission::{AT_ONCE, MOST_WAITING};
use super::run::{CALL_TIME, GRACE};
use super::*;
use crate::snapshot::Toolbox;

type Body = fn(ToolContext) -> BoxFuture<'static, ToolAnswer>;

struct TestTool(ToolSpec, Class, Body);

impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn manner(&self, _: &Value, _: AgentReach<'_>) -> Manner {
        match self.1 {
            Class::Read => Manner::READ,
            class => Manner::effect(class),
        }
    }

    fn aliases(&self) -> &[&'static str] {
        if self.0.name == "say" { &["Say"] } else { &[] }
    }

    fn prepare(&self, arguments: Value) -> Result<Prepared, String> {
        match self.0.name == "any" || arguments.as_object().is_some_and(|it| it.is_empty()) {
            true => Ok(Box::new(self.2)),
            false => Err("expected no arguments".to_owned()),
        }
    }
}

fn tool(name: &str, class: Class, body: Body) -> Arc<dyn Tool> {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
    };
    Arc::new(TestTool(spec, class, body))
}

fn done(_: ToolContext) -> BoxFuture<'static, ToolAnswer> {
    Box::pin(async { ToolAnswer::ok("done") })
}

fn toolbox() -> Toolbox {
    let tools = vec![
        tool("say", Class::Read, done),
        tool("flood", Class::Read, |_| Box::pin(async { ToolAnswer::ok("é".repeat(1000)) })),
        tool("any", Class::Read, done),
        tool("change", Class::Write, done),
        tool("start", Class::Run, done),
        tool("post", Class::Reach, done),
        tool("found", Class::Shape, done),
        tool("server.with.dots", Class::Read, done),
        tool("boom", Class::Read, |_| Box::pin(async { panic!("boom") })),
        tool("wait", Class::Read, |_| {
            Box::pin(async { ToolAnswer::Wait { reason: "a word".to_owned() } })
        }),
        tool("deaf", Class::Write, |_| Box::pin(std::future::pending())),
        tool("polite", Class::Read, |context| {
            Box::pin(async move {
                context.cancel.cancelled().await;
                ToolAnswer::ok("half done")
            })
        }),
    ];
    Toolbox::new(tools).unwrap()
}

/// What a hive says, and one agent in it.
pub(super) struct Scene {
    pub toolbox: Toolbox,
    admission: Admission,
    pub agent: AgentSettings,
    hooks: Vec<Hook>,
    turn: CancellationToken,
    bound: usize,
}

impl Scene {
    pub fn new(allowed: &[&str]) -> Self {
        let profile = Profile {
            name: "default".into(),
            provider: "rehearsal".into(),
            model: "rehearsal".into(),
            max_output_tokens: 1024,
            thinking: None,
            fallback: Vec::new(),
            temperature: None,
            context_window: None,
            price: None,
            sees_images: false,
            known: KnownModels::NONE,
        };
        let agent = AgentSettings {
            name: AgentName::new("main"),
            parent: None,
            manager: false,
            parallel: Default::default(),
            allowed_recipients: Vec::new(),
            description: String::new(),
            engine: "native".into(),
            engine_options: Default::default(),
            profile: Arc::new(profile),
            allowed_tools: allowed.iter().map(|name| (*name).to_owned()).collect(),
            max_steps: 50,
            budgets: Budgets::default(),
            think: None,
            queue_mode: QueueMode::Queue,
            workspace: "/nonexistent".into(),
            folder: "/nonexistent".into(),
            sandbox: SandboxSettings::default(),
            policy: Policy::default(),
            org_rules: Vec::new(),
            team_rules: Vec::new(),
            skills: Arc::default(),
            subagents: Arc::default(),
            role: None,
            left_out: Arc::default(),
        };
        let (admission, turn) = (Admission::default(), CancellationToken::new());
        Self { toolbox: toolbox(), admission, agent, hooks: Vec::new(), turn, bound: 1024 }
    }

    pub async fn call(&self, id: &str, name: &str, arguments: Value) -> CallOutcome {
        let Self { toolbox, admission, agent, bound, .. } = self;
        let call = call_of(&CallId::new(id), name, &arguments);
        let context = ToolContext {
            judged: Vec::new(),
            agent: agent.name.clone(),
            agent_id: AgentId(1),
            subagent: None,
            requester: None,
            session_key: SessionKey::new("main"),
            workspace: agent.workspace.clone(),
            outputs: agent.workspace.join("7/key"),
            folder: None,
            sandbox: agent.sandbox,
            network: Arc::clone(&agent.policy.network),
            reach: Arc::new(skep_core::tool::NoReach),
            turn: TurnId::new("t1"),
            call: call.id.clone(),
            decision: None,
            secrets: Default::default(),
            cancel: self.turn.clone(),
            lasting: Arc::default(),
        };
        let gate = GateEnv {
            toolbox,
            admission,
            hooks: &self.hooks,
            agent,
            policy: &agent.policy,
            records: None,
            approval_time: Duration::from_secs(60),
            bound: *bound,
        };
        let mut examined = gate.examine(&call, None, &context).await;
        if let Examination::Cleared(mut cleared) = examined {
            examined = match GateEnv::admit_now(admission, context.agent_id, None, &mut cleared) {
                true => Examination::Cleared(cleared),
                false => gate.admit(&call, cleared, None, &context).await,
            };
        }
        match examined {
            Examination::Cleared(cleared) => gate.run(&call, *cleared, context).await,
            Examination::Ended(ran) => *ran,
            Examination::Asks(question) => {
                let arguments = question.approval.arguments;
                let decision = "[]".to_owned();
                let answer = ToolAnswer::Wait { reason: question.reason };
                let audit = Audit { outcome: "waiting", decision, arguments, ..lost(&call) };
                CallOutcome { answer, audit, end: End::Answered, asked: None }
            }
        }
    }
}

/// `stage: word` for each stage of the row, in one line.
pub(super) fn chain(ran: &CallOutcome) -> String {
    let links: Vec<Value> = serde_json::from_str(&ran.audit.decision).unwrap();
    let word = |link: &Value, key: &str| link[key].as_str().unwrap().to_owned();
    let links = links.iter().map(|link| word(link, "stage") + ": " + &word(link, "word"));
    links.collect::<Vec<_>>().join(" | ")
}

fn text(ran: &CallOutcome) -> (&str, bool) {
    match &ran.answer {
        ToolAnswer::Done { text, is_error, .. } => (text, *is_error),
        ToolAnswer::Cut { text, .. } => (text, true),
        ToolAnswer::Wait { reason } => (reason, false),
    }
}

const LISTED: &str = "allow-list: listed";
const READS: &str = "allow-list: listed | arguments: fit | policy: read: allow | \
                     admission: at once | run: ";

/// The agent's list, the call, and what is to come: its answer, outcome and stages.
type Case<'a> = (&'a [&'a str], &'a str, &'a Value, String, &'a str, String);

#[tokio::test]
async fn gate_every_stage_has_its_answer_and_its_word_in_the_audit_row() {
    let all: &[&str] = &["*"];
    let one: &[&str] = &["boom"];
    let none: &[&str] = &[];
    let (good, odd) = (json!({}), json!({"a": 1}));
    let table: Vec<Case<'_>> = vec![
        (all, "say", &good, "done".into(), "ok", format!("{READS}answered | bound: whole")),
        (all, "Say", &good, "done".into(), "ok", format!("{READS}answered | bound: whole")),
        (
            all,
            "server_with_dots_2f0d8b0c",
            &good,
            "unknown_tool: ".into(),
            "refused",
            "allow-list: refused: unknown tool | bound: whole".into(),
        ),
        (
            none,
            "nope",
            &good,
            "unknown_tool: there is no tool `nope`. This agent has no tools.".into(),
            "refused",
            "allow-list: refused: unknown tool | bound: whole".into(),
        ),
        (
            one,
            "Say",
            &odd,
            "not_listed: the tool `Say` is not on this agent's list. This agent has: boom.".into(),
            "refused",
            "allow-list: refused: not listed | bound: whole".into(),
        ),
        (
            all,
            "say",
            &odd,
            "bad_arguments: the arguments of `say` do not fit: expected no arguments".into(),
            "refused",
            format!("{LISTED} | arguments: refused: do not fit | bound: whole"),
        ),
        (all, "post", &good, "approval of post".into(), "waiting", String::new()),
        (all, "found", &good, "approval of found".into(), "waiting", String::new()),
        (
            all,
            "boom",
            &good,
            "tool_failed: the tool failed inside; see the log".into(),
            "error",
            format!("{READS}answered | bound: whole"),
        ),
        (all, "wait", &good, "a word".into(), "waiting", format!("{READS}waits")),
    ];
    for (allowed, name, arguments, says, outcome, stages) in table {
        let ran = Scene::new(allowed).call("c1", name, arguments.clone()).await;
        let (said, is_error) = text(&ran);
        assert!(said.starts_with(&says), "{name}: {said}");
        assert_eq!(is_error, !matches!(outcome, "ok" | "waiting"), "{name}");
        assert_eq!((chain(&ran), ran.audit.outcome), (stages, outcome), "{name}");
        assert_eq!(ran.end == End::Refused, outcome == "refused", "{name}");
        assert_eq!((ran.audit.call.as_str(), &ran.audit.arguments), ("c1", arguments));
    }
}

#[tokio::test]
async fn gate_policy_is_decided_by_class_and_level() {
    let deny = ClassPolicy { write: Effect::Deny, ..ClassPolicy::default() };
    let open = ClassPolicy { run: Some(Effect::Allow), ..ClassPolicy::default() };
    let (confined, host) = (SandboxLevel::Confined, SandboxLevel::Host);
    let table = [
        ("start", confined, ClassPolicy::default(), "done", "run: allow"),
        ("start", host, ClassPolicy::default(), "approval of start", ""),
        ("start", host, open, "done", "run: allow"),
        ("change", confined, deny, "policy_deny: ", "refused: write: deny"),
        ("change", host, ClassPolicy::default(), "done", "write: allow"),
    ];
    for (name, level, policy, says, word) in table {
        let mut scene = Scene::new(&["*"]);
        (scene.agent.policy.classes, scene.agent.sandbox.level) = (policy, level);
        let ran = scene.call("c1", name, json!({})).await;
        assert!(text(&ran).0.starts_with(says), "{name}: {}", text(&ran).0);
        let wanted = format!(" | policy: {word} | ");
        assert!(word.is_empty() || chain(&ran).contains(&wanted), "{name}: {}", chain(&ran));
    }
}

#[tokio::test]
async fn gate_names_on_the_wire_lead_back_by_the_table() {
    let scene = Scene::new(&["server.*"]);
    let specs = scene.toolbox.specs(&scene.agent);
    assert_eq!(specs.len(), 1);
    assert_eq!(specs[0].name, "server__with__dots");
    let ran = scene.call("c1", &specs[0].name, json!({})).await;
    assert_eq!((text(&ran).0, ran.audit.tool.as_str()), ("done", "server.with.dots"));
    let twice = vec![tool("say", Class::Read, done), tool("Say", Class::Read, done)];
    let error = Toolbox::new(twice).err().unwrap();
    assert_eq!(error, "two tools have the name Say");
}

#[tokio::test]
async fn gate_long_answers_are_cut_and_kept_in_files_that_do_not_pile_up() {
    let work = tempfile::tempdir().unwrap();
    let mut scene = Scene::new(&["*"]);
    (scene.agent.workspace, scene.bound) = (work.path().to_path_buf(), 11);
    let ran = scene.call("c1", "flood", json!({})).await;
    let output = work.path().join("7/key");
    let file = output.join("t1-c1.txt");
    let note = format!("[1990 of 2000 bytes left out; they are in {}]", file.display());
    assert_eq!(text(&ran), (format!("ééé\n{note}\néé").as_str(), false));
    assert!(chain(&ran).ends_with(" | bound: cut from 2000 bytes; the rest in a file"));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "é".repeat(1000));
    // Another conversation of the agent, and the folder of one that has nothing any more.
    for (folder, files) in [("7/other", 470), ("7/empty", 0)] {
        std::fs::create_dir(work.path().join(folder)).unwrap();
        for count in 0..files {
            std::fs::write(work.path().join(format!("{folder}/{count}.txt")), "x").unwrap();
        }
    }
    for id in ["../../../up", "a/b", "", &"x".repeat(300), "..", "a\0b"] {
        let ran = scene.call(id, "flood", json!({})).await;
        assert!(chain(&ran).ends_with("the rest in a file"), "{id:?}: {}", chain(&ran));
    }
    for count in 0..60 {
        scene.call(&format!("n{count}"), "flood", json!({})).await;
    }
    let names = || std::fs::read_dir(&output).unwrap().map(|e| e.unwrap().file_name());
    assert_eq!(names().count(), 50);
    assert!(names().any(|name| name == "t1-n59.txt"));
    assert!(names().all(|name| name.to_str().unwrap().starts_with("t1-")));
    assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 1);
    let of_agent = |folder: &str| std::fs::read_dir(work.path().join(folder)).unwrap().count();
    assert_eq!((of_agent("7"), of_agent("7/other")), (2, 450), "500 of one agent");
}

#[tokio::test]
async fn gate_a_file_that_cannot_be_kept_is_told_and_nothing_outside_is_written() {
    let (work, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(work.path().join("7"), "no folder").unwrap();
    let mut scene = Scene::new(&["*"]);
    (scene.agent.workspace, scene.bound) = (work.path().to_path_buf(), 10);
    let ran = scene.call("c1", "flood", json!({})).await;
    let said = text(&ran).0;
    assert!(said.contains("they could not be kept in a file: io_error: "), "{said}");
    assert!(chain(&ran).ends_with("cut from 2000 bytes; no file"), "{}", chain(&ran));
    // A link in the place of the file is not followed.
    std::fs::remove_file(work.path().join("7")).unwrap();
    std::fs::create_dir_all(work.path().join("7/key")).unwrap();
    let link = work.path().join("7/key/t1-c1.txt");
    std::os::unix::fs::symlink(outside.path().join("x"), &link).unwrap();
    let ran = scene.call("c1", "flood", json!({})).await;
    let said = text(&ran).0;
    assert!(said.contains("they could not be kept in a file: is_link: "), "{said}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn gate_five_calls_of_an_agent_run_at_once_and_the_others_wait_within_bounds() {
    let scene = Arc::new(Scene::new(&["*"]));
    let call = |name: &'static str| {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move { scene.call("c", name, json!({})).await })
    };
    let first: Vec<_> = (0..AT_ONCE).map(|_| call("polite")).collect();
    tokio::task::yield_now().await;
    let waiting: Vec<_> = (0..MOST_WAITING).map(|_| call("say")).collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(waiting.iter().all(|task| !task.is_finished()));
    let ran = call("say").await.unwrap();
    assert!(text(&ran).0.starts_with("agent_busy: the call of `say` was not run: "));
    assert_eq!(ran.audit.outcome, "refused");
    let refused = "admission: refused: too many of its calls wait already | bound: whole";
    assert!(chain(&ran).ends_with(refused), "{}", chain(&ran));
    // Those that run end at their time limit; then the others have their turn.
    for task in first {
        assert_eq!(text(&task.await.unwrap()), ("half done", false));
    }
    for task in waiting {
        let ran = task.await.unwrap();
        assert_eq!(text(&ran), ("done", false), "{}", chain(&ran));
        assert!(chain(&ran).contains("admission: after "), "{}", chain(&ran));
    }
    let ran = call("say").await.unwrap();
    assert!(chain(&ran).contains("admission: at once"), "{}", chain(&ran));
}

#[tokio::test(start_paused = true)]
async fn gate_a_call_that_waits_ends_with_its_turn_and_never_runs() {
    let scene = Arc::new(Scene::new(&["*"]));
    let call = |name: &'static str| {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move { scene.call("c", name, json!({})).await })
    };
    let first: Vec<_> = (0..AT_ONCE).map(|_| call("polite")).collect();
    tokio::task::yield_now().await;
    let waiting = call("say");
    tokio::time::sleep(Duration::from_millis(1)).await;
    scene.turn.cancel();
    let ran = waiting.await.unwrap();
    assert_eq!((ran.end, ran.audit.outcome), (End::NotRun, "cancelled"));
    for task in first {
        assert_eq!(text(&task.await.unwrap()).0, "half done");
    }
}

#[tokio::test(start_paused = true)]
async fn gate_a_call_that_takes_too_long_is_ended_and_its_turn_is_not() {
    let table = [("deaf", End::Cut, "unknown"), ("polite", End::Answered, "ok")];
    for (name, end, outcome) in table {
        let (scene, begun) = (Scene::new(&["*"]), Instant::now());
        let ran = scene.call("c1", name, json!({})).await;
        assert_eq!((ran.end, ran.audit.outcome), (end, outcome), "{name}");
        assert!(begun.elapsed() >= CALL_TIME && begun.elapsed() < CALL_TIME + 2 * GRACE, "{name}");
        assert!(!scene.turn.is_cancelled(), "{name}: only the call is ended");
    }
}

#[tokio::test(start_paused = true)]
async fn gate_a_turn_that_ends_ends_its_calls_within_their_grace() {
    for (name, end) in [("deaf", End::Cut), ("polite", End::Answered)] {
        let (scene, begun) = (Scene::new(&["*"]), Instant::now());
        scene.turn.cancel();
        assert_eq!(scene.call("c1", name, json!({})).await.end, end, "{name}");
        assert!(begun.elapsed() <= GRACE + Duration::from_millis(1), "{name}");
    }
}

fn hook(name: &str, before: fn(Value) -> Result<Before, String>) -> Hook {
    Hook {
        before: Some(Arc::new(move |call: HookedCall| {
            assert_eq!(call.requester, None, "the call belongs to no session");
            Box::pin(async move { before(call.arguments) })
        })),
        ..Hook::new(name)
    }
}

fn after(name: &str, after: fn(String) -> Result<After, String>) -> Hook {
    let look = move |(_, text): (HookedCall, String)| -> BoxFuture<'static, _> {
        Box::pin(async move { after(text) })
    };
    Hook { after: Some(Arc::new(look)), ..Hook::new(name) }
}

/// Hooks, the call's arguments, what it says, its outcome, and a word in its chain.
type Hooked<'a> = (Vec<Hook>, Value, &'a str, &'a str, &'a str);

#[tokio::test(start_paused = true)]
async fn gate_hooks_veto_rewrite_and_fail_closed() {
    let (mut stuck, mut late) =
        (hook("stuck", |_| Ok(Before::Go)), after("late", |_| Ok(After::Keep)));
    stuck.before = Some(Arc::new(|_| Box::pin(std::future::pending())));
    late.after = Some(Arc::new(|_| Box::pin(std::future::pending())));
    let table: Vec<Hooked<'_>> = vec![
        (vec![hook("h", |_| Ok(Before::Go))], json!({}), "done", "ok", "policy: read: allow"),
        (
            vec![hook("h", |_| Ok(Before::Veto("no".into())))],
            json!({}),
            "hook_veto: the call of `say` was not run: h does not want it: no",
            "refused",
            "tool.before: refused: by h",
        ),
        // Rewritten arguments are checked like the model's own, and are those of the row.
        (
            vec![hook("h", |_| Ok(Before::Rewrite(json!({"x": 1}))))],
            json!({}),
            "bad_arguments: the arguments of `say` do not fit",
            "refused",
            "tool.before: rewritten by h",
        ),
        (
            vec![
                hook("one", |_| Ok(Before::Rewrite(json!({"x": 1})))),
                hook("two", |seen| match seen == json!({"x": 1}) {
                    true => Ok(Before::Rewrite(json!({}))),
                    false => Err("not seen".into()),
                }),
            ],
            json!({}),
            "done",
            "ok",
            "tool.before: rewritten by two",
        ),
        (
            vec![hook("h", |_| Err("lost its way".into()))],
            json!({}),
            "hook_failed: the call of `say` was not run: h looks at calls first, and it failed: \
             lost its way",
            "refused",
            "tool.before: refused: h failed",
        ),
        (
            vec![hook("h", |_| panic!("boom"))],
            json!({}),
            "hook_failed: the call of `say` was not run: h looks at calls first, and it broke",
            "refused",
            "tool.before: refused: h failed",
        ),
        (
            vec![stuck],
            json!({}),
            "hook_failed: the call of `say` was not run: stuck looks at calls first, and it did \
             not answer within 5 s",
            "refused",
            "tool.before: refused: stuck failed",
        ),
        (
            vec![after("h", |text| Ok(After::Replace(text + "!")))],
            json!({}),
            "done!",
            "ok",
            "tool.after: replaced by h",
        ),
        (
            vec![after("h", |_| Ok(After::Withhold("private".into())))],
            json!({}),
            "answer_withheld: the call of `say` ran, and h keeps its answer back: private",
            "error",
            "tool.after: withheld by h",
        ),
        (
            vec![after("h", |_| panic!("boom"))],
            json!({}),
            "answer_withheld: the call of `say` ran, and h keeps its answer back: it broke",
            "error",
            "tool.after: withheld by h",
        ),
        (
            vec![late],
            json!({}),
            "answer_withheld: the call of `say` ran, and late keeps its answer back: it did not",
            "error",
            "tool.after: withheld by late",
        ),
    ];
    for (hooks, arguments, says, outcome, word) in table {
        let mut scene = Scene::new(&["*"]);
        scene.hooks = hooks;
        let ran = scene.call("c1", "say", arguments).await;
        assert!(text(&ran).0.starts_with(says), "{says}: {}", text(&ran).0);
        assert_eq!(ran.audit.outcome, outcome, "{says}");
        assert!(chain(&ran).contains(word), "{says}: {}", chain(&ran));
    }
}

/// Policy sees what the hooks made of the call, not what the model wrote.
#[tokio::test]
async fn gate_policy_decides_on_rewritten_arguments() {
    use skep_core::policy::pattern::PathPattern;
    use skep_core::policy::rule::Rule;
    let deny = Rule {
        effect: Effect::Deny,
        tool: "any".into(),
        path: Some(PathPattern::parse("secrets/**").unwrap()),
        command: None,
        host: None,
        grants: Vec::new(),
        approvers: Vec::new(),
        place: "teams/main/config.yaml:3".into(),
    };
    let folder = tempfile::tempdir().unwrap();
    for (rewritten, outcome) in [("secrets/key", "refused"), ("other", "ok")] {
        let mut scene = Scene::new(&["*"]);
        scene.agent.workspace = folder.path().to_path_buf();
        scene.agent.policy.rules = vec![deny.clone()];
        let look = move |_| -> BoxFuture<'static, _> {
            Box::pin(async move { Ok(Before::Rewrite(json!({"path": rewritten}))) })
        };
        scene.hooks = vec![Hook { before: Some(Arc::new(look)), ..Hook::new("h") }];
        let ran = scene.call("c1", "any", json!({"path": "other"})).await;
        assert_eq!(ran.audit.outcome, outcome, "{rewritten}: {}", chain(&ran));
        assert_eq!(ran.audit.arguments, json!({"path": rewritten}));
    }
}

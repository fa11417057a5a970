//! Hooks through the whole program: they veto and rewrite before policy decides, look at the
//! answer after it, and whatever goes wrong with one is a no. The trail tells of each.

use serde_json::{Value, json};
use skep_testkit::Reply;
use skep_testkit::wait::{self, PATIENCE};

use crate::stage::Stage;

/// What two hooks do to one call, and what is to come of it.
struct Case {
    before: [Value; 2],
    after: [Value; 2],
    wanted: Value,
    /// The result as the model gets it; `...` stands for what is left out at the end.
    said: &'static str,
    /// As the trail has it.
    arguments: Value,
    outcome: &'static str,
    /// Every stage that spoke.
    chain: &'static [&'static str],
    runs: usize,
}

const LISTED: &str = "allow-list: listed";
const FIT: &str = "arguments: fit";
const ALLOWED: &str = "policy: write: allow";
const ADMITTED: &str = "admission: at once";
const ANSWERED: &str = "run: answered";
const WHOLE: &str = "bound: whole";

/// A call of `effect` that nothing is done to.
fn plain() -> Case {
    Case {
        before: [json!(null), json!(null)],
        after: [json!(null), json!(null)],
        wanted: json!({"text": "a"}),
        said: "result effect: done a",
        arguments: json!({"text": "a"}),
        outcome: "ok",
        chain: &[LISTED, FIT, ALLOWED, ADMITTED, ANSWERED, WHOLE],
        runs: 1,
    }
}

/// One that a hook keeps from running.
fn stopped(before: [Value; 2], said: &'static str, chain: &'static [&'static str]) -> Case {
    Case { before, said, chain, outcome: "refused", runs: 0, ..plain() }
}

/// One that ran, and whose answer is not given.
fn withheld(after: [Value; 2], said: &'static str, chain: &'static [&'static str]) -> Case {
    Case { after, said, chain, outcome: "error", ..plain() }
}

const WITHHELD: &[&str] =
    &[LISTED, FIT, ALLOWED, ADMITTED, ANSWERED, "tool.after: withheld by second", WHOLE];
const SECOND_FAILED: &[&str] = &[LISTED, FIT, "tool.before: refused: second failed", WHOLE];
const NO: Value = Value::Null;

fn cases() -> Vec<Case> {
    vec![
        plain(),
        Case {
            before: [json!({"rewrite": {"text": "b"}}), NO],
            said: "result effect: done b",
            arguments: json!({"text": "b"}),
            chain: &[
                LISTED,
                FIT,
                "tool.before: rewritten by first",
                FIT,
                ALLOWED,
                ADMITTED,
                ANSWERED,
                WHOLE,
            ],
            ..plain()
        },
        Case {
            before: [json!({"rewrite": {"text": "b"}}), json!({"rewrite": {"text": 7}})],
            said: "result! effect: bad_arguments: the arguments of `effect` do not fit: ...",
            arguments: json!({"text": 7}),
            outcome: "refused",
            chain: &[
                LISTED,
                FIT,
                "tool.before: rewritten by first",
                "tool.before: rewritten by second",
                "arguments: refused: do not fit",
                WHOLE,
            ],
            runs: 0,
            ..plain()
        },
        stopped(
            [NO, json!({"veto": "not on a Sunday"})],
            "result! effect: hook_veto: the call of `effect` was not run: second does not want \
             it: not on a Sunday",
            &[LISTED, FIT, "tool.before: refused: by second", WHOLE],
        ),
        stopped(
            [NO, json!({"fail": "no network"})],
            "result! effect: hook_failed: the call of `effect` was not run: second looks at calls \
             first, and it failed: no network. The operator has to mend it.",
            SECOND_FAILED,
        ),
        stopped(
            [NO, json!({"panic": "boom"})],
            "result! effect: hook_failed: the call of `effect` was not run: second looks at calls \
             first, and it broke. The operator has to mend it.",
            SECOND_FAILED,
        ),
        stopped(
            [NO, json!({"hang": 1})],
            "result! effect: hook_failed: the call of `effect` was not run: second looks at calls \
             first, and it did not answer within 5 s. The operator has to mend it.",
            SECOND_FAILED,
        ),
        Case {
            after: [json!({"replace": "something else"}), NO],
            said: "result effect: something else",
            chain: &[
                LISTED,
                FIT,
                ALLOWED,
                ADMITTED,
                ANSWERED,
                "tool.after: replaced by first",
                WHOLE,
            ],
            ..plain()
        },
        withheld(
            [NO, json!({"withhold": "too personal"})],
            "result! effect: answer_withheld: the call of `effect` ran, and second keeps its \
             answer back: too personal",
            WITHHELD,
        ),
        withheld(
            [NO, json!({"fail": "no network"})],
            "result! effect: answer_withheld: the call of `effect` ran, and second keeps its \
             answer back: it failed: no network",
            WITHHELD,
        ),
        withheld(
            [NO, json!({"panic": "boom"})],
            "result! effect: answer_withheld: the call of `effect` ran, and second keeps its \
             answer back: it broke",
            WITHHELD,
        ),
    ]
}

/// Each stage and its word.
fn chain(row: &Value) -> Vec<String> {
    let links = row["decision"].as_array().unwrap().iter();
    let word = |link: &Value, key: &str| link[key].as_str().unwrap().to_owned();
    links.map(|link| format!("{}: {}", word(link, "stage"), word(link, "word"))).collect()
}

fn hold(stage: &Stage, point: &str, wishes: &[Value; 2]) {
    for (name, wish) in ["first", "second"].into_iter().zip(wishes) {
        // A wish of nothing: goes, keeps.
        let wish = if wish.is_null() { json!({"go": true}) } else { wish.clone() };
        stage.hook(name, point, &wish);
    }
}

#[tokio::test]
async fn gate_hooks_veto_rewrite_and_fail_closed_and_the_trail_says_so() {
    let stage = Stage::new().await;
    let play = stage.run(stage.hooked()).await;
    let mut ran = 0;
    for (number, case) in cases().into_iter().enumerate() {
        hold(&stage, "before", &case.before);
        hold(&stage, "after", &case.after);
        stage.model.push(Reply::new().tool("effect", case.wanted));
        stage.model.push(Reply::say("so it is"));
        let session = format!("s{number}");
        let item = play.item("main", &session, "go").await;
        play.ended("main", &item).await;
        let told = play.told("main", &session).await;
        match case.said.strip_suffix("...") {
            Some(beginning) => assert!(told[2].starts_with(beginning), "{told:?}"),
            None => assert_eq!(told[2], case.said),
        }
        let row = play.audit("kind=call").await.remove(0);
        let found = (&row["tool"], &row["arguments"], &row["outcome"]);
        assert_eq!(found, (&json!("effect"), &case.arguments, &json!(case.outcome)), "{number}");
        assert_eq!(chain(&row), case.chain, "{number}: {}", case.said);
        ran += case.runs;
        assert_eq!(stage.effects.total().unwrap(), ran, "{number}: {}", case.said);
    }
    // A hook sees what the one before it left, and the answer of what ran; of what did not run
    // there is no answer to see.
    let wanted = |text: &str| json!({"before": {"text": text}, "agent": "main", "tool": "effect"});
    let answered = |text: &str| {
        let answer = format!("done {text}");
        json!({"after": {"text": text}, "answer": answer, "tool": "effect"})
    };
    let seen = stage.seen_by("second");
    let first = [wanted("a"), answered("a"), wanted("b"), answered("b"), wanted("b"), wanted("a")];
    assert_eq!(seen[..6], first, "{seen:?}");
    let other = json!({"after": {"text": "a"}, "answer": "something else", "tool": "effect"});
    assert!(seen.contains(&other), "{seen:?}");
    assert_eq!(stage.seen_by("first").iter().filter(|it| it["after"].is_object()).count(), ran);
}

/// Policy decides on what the hooks made of a call, in both directions.
#[tokio::test]
async fn gate_policy_decides_on_what_hooks_left() {
    let stage = Stage::new().await;
    stage.write(
        "teams/main/config.yaml",
        "allowed_tools: [bash]\npolicy:\n  - {effect: deny, tool: bash, command: touch}\n",
    );
    let play = stage.run(stage.hooked()).await;
    let work = stage.home().join("teams/main/work");
    for (wanted, made, word) in [
        ("echo", "touch sneaked", "policy: refused: deny by "),
        ("touch made", "mkdir fine", "policy: run: allow"),
    ] {
        stage.hook("first", "before", &json!({"rewrite": {"command": made}}));
        stage.model.push(Reply::new().tool("bash", json!({"command": wanted})));
        stage.model.push(Reply::say("so it is"));
        play.ask("main", "go").await;
        let row = play.audit("kind=call").await.remove(0);
        assert_eq!(row["arguments"], json!({"command": made}));
        let chain = chain(&row);
        assert!(chain.iter().any(|link| link.starts_with(word)), "{chain:?}");
    }
    let there = |name: &str| work.join(name).exists();
    assert_eq!((there("sneaked"), there("made"), there("fine")), (false, false, true));
}

/// A turn that is stopped does not wait for a hook, and its call does not run.
#[tokio::test]
async fn gate_a_hook_that_hangs_holds_no_turn_that_is_stopped() {
    let stage = Stage::new().await;
    stage.hook("first", "before", &json!({"hang": 1}));
    let play = stage.run(stage.hooked()).await;
    stage.model.push(Reply::new().tool("effect", json!({"text": "a"})));
    let item = play.item("main", "main", "go").await;
    let looks = || (!stage.seen_by("first").is_empty()).then_some(());
    wait::until("the hook to look", PATIENCE, looks).await.unwrap();
    assert!(play.stop("main", "main").await);
    assert_eq!(play.ended("main", &item).await["state"], "cancelled");
    assert_eq!(stage.effects.total().unwrap(), 0);
    let told = play.told("main", "main").await;
    assert!(told[2].starts_with("result! effect: cancelled: the call did not run"), "{told:?}");
}

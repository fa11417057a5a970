use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use skep_core::settings::SandboxLevel;
use skep_guard::sandbox::{Level, Sandbox, Settings};
use skep_scrub::Secret;
use skep_tools::BashTool;

use crate::lab::{Answer, call, context, hub, tool, use_tool};

#[tokio::test]
async fn bash_walls_run_a_command_and_tell_its_code() {
    let home = tempfile::tempdir().unwrap();
    let line = "echo out; echo err >&2; echo made > file; exit 3";
    let answer = use_tool("bash", home.path(), json!({"command": line})).await;
    assert_eq!((answer.text.as_str(), answer.is_error), ("out\nerr\n[exit code 3]", true));
    assert_eq!(answer.details, Some(json!({"exit_code": 3, "lines": 2})));
    assert_eq!(fs::read_to_string(home.path().join("file")).unwrap(), "made\n");
    let answer = use_tool("bash", home.path(), json!({"command": "cat file"})).await;
    assert_eq!((answer.text.as_str(), answer.is_error), ("made\n[exit code 0]", false));
}

/// What one tool makes, the others can use, whoever the sandbox runs as.
#[tokio::test]
async fn bash_walls_share_the_workspace_with_the_other_tools() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("old"), "1\n").unwrap();
    let run = |line: &str| {
        let (work, line) = (work.clone(), line.to_owned());
        async move { use_tool("bash", &work, json!({"command": line})).await.text }
    };
    assert_eq!(run("echo 2 >> old; mkdir dir; echo 3 > dir/new").await, "[exit code 0]");
    let arguments = json!({"file_path": "dir/deeper/w", "content": "4\n"});
    assert!(!use_tool("write", &work, arguments).await.is_error);
    let arguments = json!({"file_path": "dir/new", "old_string": "3", "new_string": "5"});
    assert!(!use_tool("edit", &work, arguments).await.is_error);
    let appending = "cd dir; echo 6 >> deeper/w; echo 7 >> new; cat ../old new deeper/w";
    assert_eq!(run(appending).await, "1\n2\n5\n7\n4\n6\n[exit code 0]");
    let owner = |path: &str| fs::metadata(work.join(path)).unwrap().uid();
    assert_eq!(owner("dir/deeper/w"), owner("dir/new"));
    assert_eq!(fs::metadata(home.path()).unwrap().uid(), rustix::process::geteuid().as_raw());
}

#[tokio::test]
async fn bash_walls_end_all_on_timeout_cancel_and_drop() {
    let home = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let arguments =
        json!({"command": "echo first; (setsid sleep 1000 &); sleep 1000", "timeout_ms": 3000});
    let answer = use_tool("bash", home.path(), arguments).await;
    assert_eq!(answer.text, "first\n[timed out; everything it had started was ended]");

    let line = "(setsid sleep 1000 &); touch started; sleep 1000";
    let mark = home.path().join("started");
    for dropped in [false, true] {
        let context = context(home.path());
        let cancel = context.cancel.clone();
        let running = tokio::spawn(async move {
            call(tool("bash").as_ref(), json!({"command": line}), context).await
        });
        while !mark.exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it does not start");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if dropped {
            running.abort();
            assert!(running.await.unwrap_err().is_cancelled());
        } else {
            cancel.cancel();
            let answer = running.await.unwrap();
            assert_eq!(answer.text, "[cancelled; everything it had started was ended]");
        }
        fs::remove_file(&mark).unwrap();
    }
    let work = home.path().canonicalize().unwrap();
    let runs = || {
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .any(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|folder| folder == work))
    };
    while runs() {
        assert!(begun.elapsed() < Duration::from_secs(30), "something still runs");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn bash_walls_bound_the_output_and_keep_both_ends() {
    let home = tempfile::tempdir().unwrap();
    let arguments = json!({"command": "echo begin; seq 1 1000000; echo end"});
    let answer = use_tool("bash", home.path(), arguments).await;
    assert!(answer.text.len() <= (4 << 20) + 256, "{}", answer.text.len());
    assert!(answer.text.starts_with("begin\n1\n2\n"));
    // Also where only its end is shown, it says that there is more than can be looked up.
    let whole =
        "begin\nend\n".len() + (1..=1_000_000).map(|n| format!("{n}\n").len()).sum::<usize>();
    let dropped = whole - (4 << 20);
    let end = format!("1000000\nend\n[{dropped} of {whole} bytes were not kept]\n[exit code 0]");
    assert!(answer.text.ends_with(&end), "{}", &answer.text[answer.text.len() - 200..]);
    let gap = format!("\n[{dropped} bytes and what is next to them are missing]\n");
    assert!(answer.text.contains(&gap));
}

/// Half of a value at either side of what was not kept would not be known for one.
#[tokio::test]
async fn bash_attack_a_cut_in_a_secret_shows_no_part_of_it() {
    let home = tempfile::tempdir().unwrap();
    let secret = "cut-canary-7f3a91c2d45e68b0a1f2";
    skep_scrub::known().add([Secret::new("vault.CUT", secret)]);
    // Both ends of the gap fall into a row of nothing but the value.
    let command = format!("yes {secret} | head -c 9000000");
    let answer = use_tool("bash", home.path(), json!({"command": command})).await;
    let shown = skep_scrub::known().clean(&answer.text).replace("[secret:vault.CUT]", "");
    for length in [6, 12, 24] {
        assert!(!shown.contains(&secret[..length]), "its first {length} letters");
        assert!(!shown.contains(&secret[secret.len() - length..]), "its last {length} letters");
    }
    assert!(answer.text.contains("are missing]"), "{}", answer.text.len());
}

#[tokio::test]
async fn bash_walls_that_are_missing_are_told_and_nothing_runs() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = Settings::new(Level::Confined, Vec::new());
    settings.bubblewrap = home.path().join("none");
    let tool = BashTool::new(Arc::new(Sandbox::new(settings)), hub());
    let arguments = json!({"command": format!("touch {}/ran", home.path().display())});
    let answer = call(&tool, arguments, context(home.path())).await;
    assert!(answer.is_error && answer.text.starts_with("sandbox_missing: "), "{answer:?}");
    assert!(answer.text.contains("apt-get install bubblewrap"), "{answer:?}");
    assert!(!home.path().join("ran").exists());
}

#[tokio::test]
async fn bash_on_the_host_is_only_what_was_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let settings = Settings::new(Level::Confined, Vec::new());
    let tool = BashTool::new(Arc::new(Sandbox::new(settings)), hub());
    let arguments = json!({"command": "pwd; echo $CARGO_MANIFEST_DIR; exit 4"});
    let mut context = context(home.path());
    context.sandbox.level = SandboxLevel::Host;
    let answer = call(&tool, arguments, context).await;
    let expected = format!("{}\n\n[exit code 4]", home.path().canonicalize().unwrap().display());
    assert_eq!(answer.text, expected);
}

/// Asks again until the answer is as wanted.
async fn until(ask: impl AsyncFn() -> Answer, wanted: impl Fn(&Answer) -> bool) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = ask().await;
        if wanted(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "it stays {answer:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn job_of(answer: &Answer) -> String {
    assert!(!answer.is_error, "{answer:?}");
    answer.details.as_ref().unwrap()["job"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn bash_walls_background_says_what_it_does_and_ends_when_told() {
    let home = tempfile::tempdir().unwrap();
    let (bash, context) = (tool("bash"), context(home.path()));
    let ask = async |arguments| call(bash.as_ref(), arguments, context.clone()).await;
    let line = "echo first; until [ -e go ]; do sleep 0.01; done; echo second; exit 3";
    let first = job_of(&ask(json!({"command": line, "background": true})).await);
    let look = async || ask(json!({"output_of": first})).await;
    let so_far = until(look, |answer| answer.text.contains("first")).await;
    assert_eq!((so_far.text, so_far.is_error), (format!("first\n[{first} still runs]"), false));
    fs::write(home.path().join("go"), "").unwrap();
    let ended = until(look, |answer| !answer.text.contains("still runs")).await;
    assert_eq!((ended.text.as_str(), ended.is_error), ("first\nsecond\n[exit code 3]", true));

    let line = "trap '' TERM; (setsid sleep 1000 &); echo up; while :; do sleep 1; done";
    let second = job_of(&ask(json!({"command": line, "background": true})).await);
    let look = async || ask(json!({"output_of": second})).await;
    until(look, |answer| answer.text.contains("up")).await;
    let stopped = ask(json!({"stop": second})).await;
    let expected = "up\n[cancelled; everything it had started was ended]";
    assert_eq!((stopped.text.as_str(), stopped.is_error), (expected, false));
    assert_eq!(ask(json!({"stop": second})).await.text, expected, "stopped is stopped");
    let work = home.path().canonicalize().unwrap();
    let runs = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .any(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|folder| folder == work));
    assert!(!runs, "something of the stopped job still runs");
}

#[tokio::test]
async fn bash_walls_background_shows_no_beginning_of_a_secret() {
    let home = tempfile::tempdir().unwrap();
    let (bash, context) = (tool("bash"), context(home.path()));
    let ask = async |arguments| call(bash.as_ref(), arguments, context.clone()).await;
    let secret = "Yb3cQv7xkR2mwZ9stJ4npL6y";
    skep_scrub::known().add([Secret::new("vault.SLOW", secret)]);
    fs::write(home.path().join("s"), secret).unwrap();
    // In one piece.
    let line = "printf 'up\\n%s' \"$(head -c 10 s)\"; until [ -e go ]; do sleep 0.01; done; \
                tail -c +11 s; echo; echo down";
    let job = job_of(&ask(json!({"command": line, "background": true})).await);
    let look = async || ask(json!({"output_of": job})).await;
    let so_far = until(look, |answer| answer.text.contains("up")).await;
    assert_eq!(so_far.text, format!("up\n[{job} still runs]"));
    fs::write(home.path().join("go"), "").unwrap();
    let ended = until(look, |answer| !answer.text.contains("still runs")).await;
    assert_eq!(ended.text, format!("up\n{secret}\ndown\n[exit code 0]"));
}

#[tokio::test]
async fn bash_walls_background_is_bounded_and_belongs_to_its_agent_and_session() {
    let home = tempfile::tempdir().unwrap();
    let (bash, context) = (tool("bash"), context(home.path()));
    let ask = async |arguments| call(bash.as_ref(), arguments, context.clone()).await;
    let wait = json!({"command": "sleep 1000", "background": true});
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(job_of(&ask(wait.clone()).await));
    }
    let refused = ask(wait.clone()).await;
    assert_eq!(refused.class(), "too_many_jobs", "{refused:?}");
    let mut other = context.clone();
    other.agent = skep_core::ids::AgentName::new("other");
    other.agent_id = skep_core::ids::AgentId(other.agent_id.0 + 1);
    for arguments in [json!({"output_of": jobs[0]}), json!({"stop": jobs[0]})] {
        let refused = call(bash.as_ref(), arguments, other.clone()).await;
        assert_eq!(refused.class(), "no_such_job", "{refused:?}");
        assert!(refused.text.contains("there are none"), "{refused:?}");
    }
    // The turn that started them ends, and they go on; the session ends, and so do they.
    context.cancel.cancel();
    assert!(ask(json!({"output_of": jobs[0]})).await.text.ends_with(" still runs]"));
    context.lasting.cancel();
    for job in &jobs {
        let look = async || ask(json!({"output_of": job})).await;
        let ended = until(look, |answer| !answer.text.contains("still runs")).await;
        assert_eq!(ended.text, "[cancelled; everything it had started was ended]");
    }
    let late = ask(wait).await;
    let job = job_of(&late);
    until(async || ask(json!({"output_of": job})).await, |answer| !answer.text.contains("still"))
        .await;
}

#[test]
fn bash_takes_one_wish_at_a_time() {
    let bash = tool("bash");
    for arguments in [
        json!({}),
        json!({"background": true}),
        json!({"command": "true", "stop": "job-1"}),
        json!({"output_of": "job-1", "stop": "job-1"}),
        json!({"output_of": "job-1", "background": true}),
        json!({"stop": "job-1", "timeout_ms": 5}),
        json!({"command": ""}),
        json!({"command": "true", "timeout_ms": 0, "background": true}),
        json!({"command": "true", "timeout_ms": 600_001}),
        json!({"command": "true", "background": "yes"}),
    ] {
        assert!(bash.prepare(arguments.clone()).is_err(), "{arguments}");
    }
}

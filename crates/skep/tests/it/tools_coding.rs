//! A small repository is mended by an agent with the six file tools, over ten turns.

use serde_json::{Value, json};
use skep_testkit::Reply;

use crate::stage::Stage;

const CHECK: &str = "set -e\n\
    . ./sum.sh\n\
    [ \"$(sum 2 3)\" = 5 ] || { echo 'sum is wrong'; exit 1; }\n\
    [ -f NOTES ] || { echo 'no NOTES'; exit 1; }\n\
    echo all passed\n";

/// What the person says and what the model does about it; a turn ends with its text.
fn turns() -> Vec<(&'static str, Option<(&'static str, Value)>)> {
    let bash = |command: &str| Some(("bash", json!({"command": command})));
    vec![
        ("what is here?", Some(("glob", json!({"pattern": "*"})))),
        ("show me the code", Some(("read", json!({"file_path": "sum.sh"})))),
        ("where is it used?", Some(("grep", json!({"pattern": "sum [0-9]"})))),
        ("run the check", bash("bash check.sh")),
        (
            "mend it",
            Some((
                "edit",
                json!({"file_path": "sum.sh", "old_string": "$1 - $2", "new_string": "$1 + $2"}),
            )),
        ),
        ("run the check again", bash("bash check.sh")),
        ("then write it", Some(("write", json!({"file_path": "NOTES", "content": "mended\n"})))),
        ("and again", bash("bash check.sh")),
        ("which files changed?", bash("find . -newer check.sh -type f ! -name welcome.md | sort")),
        ("thank you", None),
    ]
}

#[tokio::test]
async fn tools_mend_a_small_repository_in_ten_turns() {
    let stage = Stage::new().await;
    let six = "allowed_tools: [read, write, edit, glob, grep, bash]\n";
    stage.write("teams/main/config.yaml", six);
    stage.write("teams/main/work/sum.sh", "sum() { echo $(($1 - $2)); }\n");
    stage.write("teams/main/work/check.sh", CHECK);
    let play = stage.up().await;
    for (said, call) in turns() {
        if let Some((tool, arguments)) = call {
            stage.model.push(Reply::call(tool, arguments));
        }
        stage.model.push(Reply::say("so be it"));
        let answer = play.ask("main", said).await;
        assert_eq!(answer["state"], "done", "{said}: {answer}");
    }
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
    let history = play.history("main", "main").await;
    let results: Vec<&Value> = history.iter().filter(|row| row["role"] == "toolResult").collect();
    let texts: Vec<&str> =
        results.iter().map(|row| row["content"][0]["text"].as_str().unwrap().trim_end()).collect();
    assert!(texts[1].contains("echo $(($1 - $2))"), "{}", texts[1]);
    assert_eq!(texts[2], "check.sh:3:[ \"$(sum 2 3)\" = 5 ] || { echo 'sum is wrong'; exit 1; }");
    assert_eq!(texts[3], "sum is wrong\n[exit code 1]");
    assert_eq!(texts[5], "no NOTES\n[exit code 1]");
    assert_eq!(texts[7], "all passed\n[exit code 0]");
    assert_eq!(texts[8], "./NOTES\n./sum.sh\n[exit code 0]");
    let failed: Vec<usize> = (0..9).filter(|at| results[*at]["isError"] == true).collect();
    assert_eq!(failed, [3, 5]);
    let diff = results[4]["details"]["diff"].as_str().unwrap();
    assert!(diff.contains("-sum() { echo $(($1 - $2)); }"), "{diff}");
    assert!(diff.contains("+sum() { echo $(($1 + $2)); }"), "{diff}");
}

#[tokio::test]
async fn tools_that_are_not_listed_are_refused_and_named() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", "allowed_tools: [read]\n");
    stage.model.push(Reply::call("bash", json!({"command": "touch ran"})));
    stage.model.push(Reply::say("I may not"));
    let play = stage.up().await;
    play.ask("main", "try").await;
    let request = stage.model.wait_for_request(2).await.unwrap();
    assert_eq!(request.tool_names(), ["read"]);
    let history = play.history("main", "main").await;
    let text = history[2]["content"][0]["text"].as_str().unwrap();
    assert_eq!(
        text,
        "not_listed: the tool `bash` is not on this agent's list. This agent has: read."
    );
    assert!(!stage.home().join("teams/main/work/ran").exists());
}

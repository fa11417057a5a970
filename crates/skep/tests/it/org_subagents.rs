//! Subagents: a task for the agent itself in another role, in a session that sees nothing of the
//! caller's, whose last message is all that comes back.

use reqwest::Method;
use serde_json::{Value, json};
use skep_testkit::http;
use skep_testkit::wait::{self, PATIENCE};
use skep_testkit::{ModelRequest, Reply};

use crate::org_spawn::rows;
use crate::org_tasks::{agent, said};
use crate::stage::{Play, Stage};

const CRITIC: &str = "---\ndescription: Finds faults in texts.\n---\n# Role\nYou find faults.\n";

pub fn write_subagent(stage: &Stage, agent: &str, name: &str) {
    let text = format!("# Role\nYou are good as {name}.\n");
    stage.write(&format!("teams/{agent}/subagents/{name}.md"), &text);
}

/// Which subagent a request is of; nothing where it is the agent itself.
pub fn role(request: &ModelRequest) -> Option<String> {
    let text = request.system_text();
    let (_, after) = text.split_once("You work as the subagent `")?;
    Some(after.split_once('`').unwrap().0.to_owned())
}

/// The requests of a subagent.
fn requests_of(stage: &Stage, name: &str) -> Vec<ModelRequest> {
    let requests = stage.model.requests();
    requests.into_iter().filter(|request| role(request).as_deref() == Some(name)).collect()
}

async fn chain(play: &Play, item: &str) -> Vec<Value> {
    let item = play.api().get(&format!("/api/v1/inbox/{item}")).await.unwrap().good().unwrap();
    item["chain"].as_array().cloned().unwrap_or_default()
}

async fn keys(play: &Play, agent: &str) -> Vec<String> {
    let page = play.api().get(&format!("/api/v1/agents/{agent}/sessions")).await.unwrap();
    let page = page.good().unwrap();
    let sessions = page["sessions"].as_array().unwrap().iter();
    sessions.map(|session| session["session_key"].as_str().unwrap().to_owned()).collect()
}

/// `main` calls its critic once, with a text.
fn calls_critic(request: &ModelRequest) -> Reply {
    match (role(request), request.steps_done()) {
        (None, 0) => Reply::new().tool("critic", json!({"task": "Judge the second draft."})),
        (None, _) => {
            let result = &request.last_tool_results()[0];
            Reply::say(&format!("{}: {}", if result.is_error { "no" } else { "yes" }, result.text))
        }
        _ => Reply::say("It is too long."),
    }
}

#[tokio::test]
async fn org_a_subagent_sees_its_task_alone_and_only_its_last_words_come_back() {
    let stage = Stage::new().await;
    stage.write("teams/main/subagents/critic.md", CRITIC);
    stage.write("teams/main/team-rules/a.md", "Be polite to all.\n");
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match (role(request).as_deref(), request.steps_done()) {
            (None, 0) if text.ends_with("remember PLAN-7") => Reply::say("I keep PLAN-7 in mind."),
            (None, 0) => Reply::new()
                .text("I ask, because of PLAN-7.")
                .tool("critic", json!({"task": "Judge the second draft."})),
            (None, _) => Reply::say(&format!("heard: {}", request.last_tool_results()[0].text)),
            (_, 0) => Reply::new().text("Let me look.").tool("look", json!({"text": "draft"})),
            _ => Reply::new().thinking("INNER-9").text("It is too long."),
        }
    });
    let play = stage.up().await;
    play.ask("main", "remember PLAN-7").await;
    let answer = play.ask("main", "how is it?").await;
    assert_eq!(answer["response"]["content"], "heard: It is too long.");
    let [first, second] = &requests_of(&stage, "critic")[..] else { unreachable!() };
    for request in [first, second] {
        let body = request.body.to_string();
        for word in ["PLAN-7", "how is it", "remember", "I ask"] {
            assert!(!body.contains(word), "{word}: {body}");
        }
    }
    let said = first.messages();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(first.last_user_text().ends_with("\nJudge the second draft."), "{said:?}");
    let system = first.system_text();
    assert_eq!(agent(first), "main");
    assert!(
        system.contains("Be polite to all.") && system.contains("You find faults."),
        "{system}"
    );
    // No tool of the organisation, no subagent; the others are those of the agent.
    let own = stage.model.requests()[0].clone();
    let (all, inside) = (own.tool_names(), first.tool_names());
    for outside in ["critic", "delegate_task", "query_team", "escalate", "send_message", "recv"] {
        assert!(all.contains(&outside) && !inside.contains(&outside), "{outside}: {inside:?}");
    }
    for both in ["look", "read", "bash", "vault_get", "effect"] {
        assert!(all.contains(&both) && inside.contains(&both), "{both}: {inside:?}");
    }
    let description = |name: &str| {
        let tools = own.body["tools"].as_array().unwrap();
        tools.iter().find(|it| it["name"] == name).unwrap()["description"].clone()
    };
    let told = description("critic");
    assert!(
        told.as_str().unwrap().ends_with(r#"What it is for: "Finds faults in texts.""#),
        "{told}"
    );
    // People are shown the same prompt.
    let path = "/api/v1/agents/main/prompt?subagent=critic";
    let prompt = play.api().get(path).await.unwrap().good().unwrap();
    let parts = prompt["parts"].as_array().unwrap();
    let tools = parts[0]["text"].as_str().unwrap();
    assert!(tools.contains("\"read\"") && !tools.contains("delegate_task"), "{tools}");
    for part in &parts[1..] {
        let text = part["text"].as_str().unwrap();
        assert!(system.contains(text), "{text}");
    }
    let source = &parts.last().unwrap()["source"];
    assert_eq!(source, "teams/main/subagents/critic.md");
    // Nothing but the last words came back.
    let last = stage.model.requests().pop().unwrap().body.to_string();
    for inner in ["INNER-9", "Let me look", "looked at draft"] {
        assert!(!last.contains(inner), "{inner}: {last}");
    }
    // Its session is none of the person's, and is found by the chain of the message.
    let item = answer["item_id"].as_str().unwrap();
    let [task] = &chain(&play, item).await[..] else { unreachable!() };
    let key = task["session_key"].as_str().unwrap();
    assert_eq!((&task["kind"], &task["state"]), (&json!("subagent"), &json!("done")));
    assert_eq!(key, format!("sub:{}", task["item_id"].as_str().unwrap()));
    assert!(!keys(&play, "main").await.iter().any(|listed| listed.starts_with("sub:")));
    let told = play.told("main", key).await;
    assert_eq!(told.first().unwrap(), "user Judge the second draft.");
    // And nobody else writes into it.
    for text in ["hello", "/new", "/think high"] {
        let body = json!({"message": text, "session_key": key});
        let refused = play.api().post("/api/v1/agents/main/messages", &body).await.unwrap();
        let code = &refused.json["code"];
        assert_eq!((refused.status, code), (409, &json!("subagent_session")), "{text}");
    }
    // Nor does it become a conversation.
    let session = rows(&stage, "SELECT id FROM sessions WHERE apart = 1");
    let path = format!("/api/v1/agents/main/sessions/{session}");
    let fork = play.api().post(&format!("{path}/fork"), &json!({})).await.unwrap();
    assert_eq!((fork.status, &fork.json["code"]), (409, &json!("subagent_session")));
    let wish = play.api().request(Method::PATCH, &path).json(&json!({"title": "Mine"}));
    let titled = http::answer(wish).await.unwrap();
    assert_eq!(titled.status, 404, "{}", titled.json);
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn org_a_subagent_is_a_tool_of_its_agent_alone_where_the_list_names_it() {
    let stage = Stage::new().await;
    stage.write("teams/main/subagents/critic.md", CRITIC);
    stage.write("teams/main/subagents/read.md", CRITIC);
    stage.write("teams/main/subagents/look__at.md", CRITIC);
    write_subagent(&stage, "lister", "critic");
    write_subagent(&stage, "denied", "critic");
    for (agent, settings) in [
        ("plain2", "allowed_tools: ['*']\n"),
        ("lister", "allowed_tools: [look, critic]\n"),
        ("below", "parent: lister\nallowed_tools: ['@subagents', look]\n"),
        ("under", "parent: main\nallowed_tools: ['@subagents', look]\n"),
        ("denied", "allowed_tools: ['@subagents']\npolicy:\n  - {effect: deny, tool: critic}\n"),
        ("unlisted", "allowed_tools: [look]\n"),
    ] {
        stage.write(&format!("teams/{agent}/config.yaml"), settings);
    }
    for agent in ["below", "under", "unlisted"] {
        write_subagent(&stage, agent, "critic");
    }
    let play = stage.up().await;
    for (agent, has) in [
        ("main", true),
        ("plain2", false),
        ("lister", true),
        ("below", false),
        ("under", true),
        ("denied", false),
        ("unlisted", false),
    ] {
        stage.model.push_all([Reply::call("critic", json!({"task": "x"})), Reply::say("so")]);
        if has {
            stage.model.push(Reply::say("so"));
        }
        let before = stage.model.requests().len();
        assert_eq!(play.ask(agent, "go").await["state"], "done", "{agent}");
        let requests = stage.model.requests();
        let names = requests[before].tool_names();
        assert_eq!(names.contains(&"critic"), has, "{agent}: {names:?}");
        let told = requests.last().unwrap().last_tool_results().remove(0);
        assert_eq!(told.is_error, !has, "{agent}: {told:?}");
        if !has {
            let word = if agent == "denied" { "policy_deny: " } else { "not_listed: " };
            assert!(told.text.starts_with(word), "{agent}: {}", told.text);
        }
    }
    // What has the name of a tool took no tool's place, and is named with its line.
    let page = play.api().get("/api/v1/agents/main/skills").await.unwrap().good().unwrap();
    assert_eq!(page["subagents"].as_array().unwrap().len(), 1, "{page}");
    let told = &page["warnings"];
    let lines: Vec<_> = told.as_array().unwrap().iter().map(|it| it["line"].as_u64()).collect();
    assert_eq!(lines, [None, Some(1)], "{told}");
    let text = told[1]["text"].as_str().unwrap();
    assert!(text.starts_with("teams/main/subagents/read.md:1:1: there is a tool `read`"), "{text}");
    let first = stage.model.requests()[0].clone();
    assert_eq!(first.tool_names().iter().filter(|name| **name == "read").count(), 1);
    assert!(!first.tool_names().contains(&"look__at"));
    let looked = json!({"file_path": "none.txt"});
    stage.model.push_all([Reply::call("read", looked), Reply::say("so")]);
    play.ask("main", "read it").await;
    assert!(requests_of(&stage, "read").is_empty());
    // A file that comes later is a tool of the next turn, and one that goes is none.
    write_subagent(&stage, "plain2", "writer");
    let offered = async |wanted: bool| {
        let seen = wait::until_async("the subagent to come or go", PATIENCE, || async {
            stage.model.push(Reply::say("so"));
            play.ask("plain2", "go").await;
            let request = stage.model.requests().pop().unwrap();
            (request.tool_names().contains(&"writer") == wanted).then_some(())
        });
        seen.await.unwrap();
    };
    offered(true).await;
    stage.take_out("teams/plain2/subagents");
    offered(false).await;
    assert_eq!(stage.model.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn org_a_tool_that_comes_later_takes_the_place_of_no_subagent_and_is_not_refused() {
    let stage = Stage::new().await;
    let named = CRITIC.replace("---\n#", "name: critic\n---\n#");
    stage.write("teams/main/subagents/critic.md", &named);
    let play = stage.up().await;
    play.offer(&["critic"], json!([])).await;
    // The file is named as one that is left out, as long as the tool is there.
    let told = json!([{
        "file": "teams/main/subagents/critic.md",
        "line": 3,
        "text": "teams/main/subagents/critic.md:3:1: there is a tool `critic`, and a subagent may \
                 not take its place; expected another name",
    }]);
    let warned = async || {
        let get = async |path: &str| play.api().get(path).await.unwrap().good().unwrap();
        let prompt = get("/api/v1/agents/main/prompt").await;
        let skills = get("/api/v1/agents/main/skills").await;
        assert_eq!(prompt["warnings"], skills["warnings"]);
        (skills["warnings"].clone(), skills["subagents"].as_array().unwrap().len())
    };
    assert_eq!(warned().await, (told, 0));
    let shown = said(&stage, &["agent", "show", "main"]).await;
    assert!(shown.contains("teams/main/subagents/critic.md:3:1: there is a tool"), "{shown}");
    stage.model.push_all([Reply::call("critic", json!({"text": "x"})), Reply::say("so")]);
    play.ask("main", "go").await;
    let told = stage.model.requests().pop().unwrap().last_tool_results().remove(0);
    assert_eq!(told.text, "looked at x");
    play.offer(&[], json!([])).await;
    assert_eq!(warned().await, (json!([]), 1));
    stage.model.answer_with(calls_critic);
    let answer = play.ask("main", "go").await;
    assert_eq!(answer["response"]["content"], "yes: It is too long.");
}

#[tokio::test]
async fn org_two_subagents_work_at_the_same_time_and_in_one_slot_after_the_other() {
    for slots in [1, 8] {
        let stage = Stage::new().await;
        stage.write("skep.yaml", &format!("limits:\n  concurrent_turns: {slots}\n"));
        write_subagent(&stage, "main", "reader");
        write_subagent(&stage, "main", "critic");
        stage.model.answer_with(|request| match (role(request).as_deref(), request.steps_done()) {
            (None, 0) => Reply::new()
                .tool("reader", json!({"task": "read"}))
                .tool("critic", json!({"task": "judge"})),
            (None, _) => {
                let results = request.last_tool_results();
                let texts: Vec<&str> = results.iter().map(|it| it.text.as_str()).collect();
                Reply::say(&texts.join(" + "))
            }
            (Some(name), _) => Reply::new().gate("work").text(&format!("{name} is done")),
        });
        let play = stage.up().await;
        let item = play.item("main", "main", "both").await;
        let both = if slots == 1 { 1 } else { 2 };
        stage.model.gate("work").wait_arrived(both).await.unwrap();
        play.until_state("main", &item, "waiting").await;
        stage.model.gate("work").open();
        let answer = play.ended("main", &item).await;
        assert_eq!(answer["response"]["content"], "reader is done + critic is done", "{slots}");
        assert_eq!(stage.model.refusals(), Vec::<String>::new());
    }
}

/// It runs one turn at a time: a subagent begins beside the turn that runs, and what else comes
/// waits for that as ever.
#[tokio::test]
async fn org_subagents_run_beside_the_one_turn_of_their_agent() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", "allowed_tools: ['*']\nparallel: one\n");
    write_subagent(&stage, "main", "critic");
    stage.model.answer_with(|request| {
        let text = request.last_user_text();
        match (role(request), request.steps_done()) {
            (None, _) if text.ends_with("other") => {
                Reply::new().gate("other").text("other is done")
            }
            (None, 0) => {
                Reply::new().tool("critic", json!({"task": "judge"})).tool("hang", json!({}))
            }
            (None, _) => Reply::say(&request.last_tool_results()[0].text),
            _ => Reply::new().gate("judge").text("judged"),
        }
    });
    let play = stage.up().await;
    let first = play.item("main", "a", "ask the critic").await;
    // The turn of its caller has not ended its step yet.
    stage.model.gate("judge").wait_arrived(1).await.unwrap();
    assert_eq!(play.state().await["work"]["running"], 2);
    let second = play.item("main", "b", "other").await;
    assert_eq!(stage.model.gate("other").arrived(), 0, "one turn at a time");
    play.tell("main", "a", "/stop").await;
    stage.model.gate("other").wait_arrived(1).await.unwrap();
    stage.model.gate("other").open();
    assert_eq!(play.ended("main", &second).await["state"], "done");
    assert_eq!(play.ended("main", &first).await["state"], "cancelled");
    let none = wait::until_async("every turn to end", PATIENCE, || async {
        let turns = play.state().await["turns"].clone();
        turns.as_array().unwrap().is_empty().then_some(())
    });
    none.await.unwrap();
}

/// However its caller ends, a subagent ends too, and nobody hears of it.
#[tokio::test]
async fn org_a_subagent_ends_with_its_caller() {
    for way in ["stop", "cancel", "interrupt", "chain"] {
        let stage = Stage::new().await;
        write_subagent(&stage, "main", "critic");
        stage.model.answer_with(|request| {
            let later = request.last_user_text().ends_with("something else");
            match (role(request), request.steps_done()) {
                (None, 0) if later => Reply::say("else"),
                (None, 0) => Reply::new().tool("critic", json!({"task": "judge"})),
                (None, _) => Reply::say(&request.last_tool_results()[0].text),
                _ => Reply::new().gate("never").text("late"),
            }
        });
        let play = stage.up().await;
        let item = play.item("main", "main", "judge").await;
        stage.model.gate("never").wait_arrived(1).await.unwrap();
        play.until_state("main", &item, "waiting").await;
        let [task] = &chain(&play, &item).await[..] else { unreachable!() };
        let sub = task["item_id"].as_str().unwrap().to_owned();
        match way {
            "stop" => drop(play.tell("main", "main", "/stop").await),
            "interrupt" => {
                let body = json!({
                    "message": "something else", "session_key": "main", "mode": "interrupt",
                });
                play.api().post("/api/v1/agents/main/messages", &body).await.unwrap();
                play.tell("main", "main", "/stop").await;
            }
            "cancel" => {
                play.api()
                    .post(&format!("/api/v1/inbox/{item}/cancel"), &json!(null))
                    .await
                    .unwrap();
            }
            _ => {
                // The subagent alone: its caller hears why there is no answer.
                play.api()
                    .post(&format!("/api/v1/inbox/{sub}/cancel"), &json!(null))
                    .await
                    .unwrap();
            }
        }
        let ended = play.ended("main", &item).await;
        if way == "chain" {
            let text = ended["response"]["content"].as_str().unwrap();
            assert!(text.contains(r#""error":"cancelled""#), "{text}");
        } else {
            assert_eq!(ended["state"], "cancelled", "{way}: {ended}");
        }
        let path = format!("/api/v1/inbox/{sub}");
        let gone = wait::until_async("the subagent to end", PATIENCE, || async {
            let sub = play.api().get(&path).await.unwrap().good().unwrap();
            (sub["state"] == "cancelled").then_some(())
        });
        gone.await.unwrap();
        let told = play.told("main", "main").await;
        assert!(!told.iter().any(|row| row.contains("[event")), "{way}: {told:?}");
        assert_eq!(stage.model.refusals(), Vec::<String>::new());
    }
}

/// A turn that fails before it waits takes the subagent with it that it has begun.
#[tokio::test]
async fn org_a_subagent_ends_with_a_caller_that_runs_out_of_time() {
    let stage = Stage::new().await;
    let settings = "allowed_tools: ['*']\nbudgets: {turn_seconds: 2}\n";
    stage.write("teams/main/config.yaml", settings);
    write_subagent(&stage, "main", "critic");
    stage.model.answer_with(|request| match role(request) {
        None => Reply::new().tool("critic", json!({"task": "judge"})).tool("hang", json!({})),
        Some(_) => Reply::new().tool("ask_person", json!({"text": "for long"})),
    });
    let play = stage.up().await;
    let item = play.item("main", "main", "judge").await;
    let ended = play.ended("main", &item).await;
    assert_eq!(ended["error"]["code"], "limit_time", "{ended}");
    let [task] = &chain(&play, &item).await[..] else { unreachable!() };
    assert_eq!((&task["state"], &task["code"]), (&json!("cancelled"), &json!("cancelled")));
    let gone = wait::until_async("every turn to end", PATIENCE, || async {
        let turns = play.state().await["turns"].clone();
        turns.as_array().unwrap().is_empty().then_some(())
    });
    gone.await.unwrap();
}

#[tokio::test]
async fn org_a_subagent_has_the_steps_and_the_budget_of_its_agent() {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", "allowed_tools: ['*']\nmax_steps: 2\n");
    write_subagent(&stage, "main", "critic");
    stage.model.answer_with(|request| match role(request) {
        Some(_) => Reply::new().tool("look", json!({"text": format!("{}", request.nonce)})),
        None => calls_critic(request),
    });
    let play = stage.up().await;
    let answer = play.ask("main", "go").await;
    let text = answer["response"]["content"].as_str().unwrap();
    assert!(text.starts_with("no: ") && text.contains(r#""error":"limit_steps""#), "{text}");
    assert_eq!(requests_of(&stage, "critic").len(), 2);
    // What it uses is used by its agent: nothing is left for the caller.
    let budget = "allowed_tools: ['*']\nbudgets: {tokens_per_day: 50000}\n";
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", budget);
    write_subagent(&stage, "main", "critic");
    let used = skep_testkit::model::Usage {
        input_tokens: Some(49_000),
        output_tokens: Some(1000),
        ..Default::default()
    };
    stage.model.answer_with(move |request| match role(request) {
        Some(_) => Reply::say("dear").usage(used),
        None => calls_critic(request),
    });
    let play = stage.up().await;
    let ended = play.ask("main", "go").await;
    assert_eq!(ended["error"]["code"], "limit_tokens", "{ended}");
    assert_eq!(requests_of(&stage, "critic").len(), 1);
}

/// Inside it nothing leads further: neither another subagent nor the organisation.
#[tokio::test]
async fn org_a_subagent_calls_no_subagent_and_nobody_else() {
    let stage = Stage::new().await;
    write_subagent(&stage, "main", "critic");
    write_subagent(&stage, "main", "reader");
    stage.model.answer_with(|request| match (role(request), request.steps_done()) {
        (Some(_), 0) => Reply::new()
            .tool("reader", json!({"task": "x"}))
            .tool("critic", json!({"task": "x"}))
            .tool("delegate_task", json!({"team": "plain", "task": "x"}))
            .tool("ask_operator", json!({"question": "x"}))
            .tool("use_skill", json!({"name": "x"})),
        (Some(_), _) => {
            let results = request.last_tool_results();
            let refused = results.iter().filter(|it| it.text.starts_with("not_listed: "));
            Reply::say(&format!("{} of {}", refused.count(), results.len()))
        }
        _ => calls_critic(request),
    });
    let play = stage.up().await;
    let answer = play.ask("main", "go").await;
    assert_eq!(answer["response"]["content"], "yes: 5 of 5");
    assert!(requests_of(&stage, "reader").is_empty());
}

#[tokio::test]
async fn org_a_long_result_of_a_subagent_is_whole_in_a_file() {
    let stage = Stage::new().await;
    write_subagent(&stage, "main", "critic");
    let whole = format!("{}THE END", "0123456789\n".repeat(1500));
    stage.model.answer_with(move |request| match (role(request), request.steps_done()) {
        (None, 0) => Reply::new().tool("critic", json!({"task": "all"})),
        (None, 1) => {
            let text = request.last_tool_results().remove(0).text;
            let (_, file) = text.split_once("; the whole is in ").unwrap();
            let file = file.strip_suffix(']').unwrap();
            Reply::new().tool("grep", json!({"pattern": "THE END", "path": file}))
        }
        (None, _) => Reply::say(&request.last_tool_results()[0].text),
        _ => Reply::say(&whole),
    });
    let play = stage.up().await;
    let answer = play.ask("main", "tell me everything").await;
    assert!(answer["response"]["content"].as_str().unwrap().contains("THE END"), "{answer}");
}

/// The tasks of an agent below may use its subagents; whoever gave the task sees nothing of them
/// but in the chain.
#[tokio::test]
async fn org_a_team_with_a_subagent_answers_its_query() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "limits:\n  concurrent_turns: 1\n");
    stage.write("teams/research/config.yaml", "parent: main\nallowed_tools: ['*']\n");
    write_subagent(&stage, "research", "critic");
    stage.model.answer_with(|request| {
        match (agent(request).as_str(), role(request), request.steps_done()) {
            ("main", _, 0) => {
                Reply::new().tool("query_team", json!({"team": "research", "query": "how is it?"}))
            }
            ("main", _, 1) => Reply::new().tool("list_completed_tasks", json!({})),
            ("main", ..) => Reply::say(&request.last_tool_results()[0].text),
            _ => calls_critic(request),
        }
    });
    let mut play = stage.up().await;
    let answer = play.ask("main", "ask them").await;
    let text = answer["response"]["content"].as_str().unwrap();
    assert!(text.contains("yes: It is too long."), "{text}");
    assert!(!text.contains("subagent"), "{text}");
    let item = answer["item_id"].as_str().unwrap();
    let kinds: Vec<Value> =
        chain(&play, item).await.iter().map(|task| task["kind"].clone()).collect();
    assert_eq!(kinds, ["query", "subagent"]);
    let shown = said(&stage, &["task", "show", item]).await;
    assert!(shown.contains("subagent"), "{shown}");
    // What waits for a subagent survives a kill.
    stage.model.answer_with(|request| match role(request) {
        Some(_) => Reply::new().gate("held").text("It is too long."),
        None => calls_critic(request),
    });
    let item = play.item("research", "main", "judge").await;
    stage.model.gate("held").wait_arrived(1).await.unwrap();
    play.until_state("research", &item, "waiting").await;
    play.hive.kill().await.unwrap();
    let play = stage.up().await;
    stage.model.gate("held").open();
    let ended = play.ended("research", &item).await;
    assert_eq!(ended["response"]["content"], "yes: It is too long.");
    assert_eq!(chain(&play, &item).await.len(), 1, "it was called once");
}

/// It is found from the message that led to it, and never as one of the conversations.
#[tokio::test]
async fn org_what_a_subagent_says_is_in_no_search() {
    let stage = Stage::new().await;
    write_subagent(&stage, "main", "critic");
    stage.model.answer_with(|request| match (role(request), request.steps_done()) {
        (Some(_), _) => Reply::say("The heron is long."),
        (None, 1) => Reply::say("It is said that the heron is long."),
        (None, _) => calls_critic(request),
    });
    let play = stage.up().await;
    let body = json!({"name": "ann", "role": "user"});
    let token = play.api().post("/api/v1/tokens", &body).await.unwrap().good().unwrap();
    let user = play.hive.api(token["token"].as_str()).unwrap();
    let path = "/api/v1/agents/main/messages?wait=true&timeout=60";
    let answer = user.post(path, &json!({"message": "how is it?"})).await.unwrap().good().unwrap();
    let item = answer["item_id"].as_str().unwrap();
    let [task] = &chain(&play, item).await[..] else { unreachable!() };
    let key = task["session_key"].as_str().unwrap();
    assert!(play.told("main", key).await.last().unwrap().ends_with("The heron is long."));
    for reader in [&play.api(), &user] {
        for (word, hits) in [("heron", 1), ("draft", 0)] {
            let path = format!("/api/v1/search?q={word}");
            let page = reader.get(&path).await.unwrap().good().unwrap();
            let found = page["hits"].as_array().unwrap();
            assert_eq!(found.len(), hits, "{word}: {page}");
            assert!(found.iter().all(|hit| hit["session_key"] != key), "{page}");
            assert_eq!(page["conversations"], json!([]), "{word}");
        }
    }
    let shown = said(&stage, &["history", "search", "draft"]).await;
    assert!(!shown.contains("sub:"), "{shown}");
}

//! A person at a terminal decides: with `skep approve`, one question after the other, and in the
//! middle of `skep chat`.

use std::fs;

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::{Reply, Terminal, locate};

use crate::stage::{Play, Stage};

const ASKS: &str = "allowed_tools: ['*']\npolicy:\n  - {effect: ask, tool: bash}\n";
const CONTROL_D: &str = "\x04";

/// The message is the command; its answer is said.
async fn obeys() -> Stage {
    let stage = Stage::new().await;
    stage.write("teams/main/config.yaml", ASKS);
    stage.model.answer_with(|request| match request.last_tool_results().as_slice() {
        [] => {
            let said = request.last_user_text();
            Reply::new().tool("bash", json!({"command": said.rsplit('\n').next().unwrap()}))
        }
        [result, ..] => Reply::say(&format!("it said: {}", result.text)),
    });
    stage
}

fn terminal(stage: &Stage, command: &str) -> Terminal {
    terminal_of(stage, command, 120, 60)
}

fn terminal_of(stage: &Stage, command: &str, columns: u16, rows: u16) -> Terminal {
    let start = Start::new(&locate::rig().unwrap(), stage.home()).argument(command);
    start.on_terminal(columns, rows).unwrap()
}

async fn waits(play: &Play, session: &str, command: &str) -> String {
    let item = play.item("main", session, command).await;
    play.until_state("main", &item, "waiting").await;
    item
}

async fn answer(play: &Play, item: &str) -> String {
    let ended = play.ended("main", item).await;
    ended["response"]["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn channel_approve_asks_about_each_and_shows_what_a_lasting_yes_covers() {
    let stage = obeys().await;
    let play = stage.up().await;
    let one = waits(&play, "one", "echo a b").await;
    let two = waits(&play, "two", "echo c").await;
    let three = waits(&play, "three", "date +%Y").await;
    let four = waits(&play, "four", "rm important").await;
    let mut terminal = terminal(&stage, "approve");
    // What is typed before the question is thrown away.
    let asks = |session: &'static str| {
        move |text: &str| {
            let shown = text.rsplit_once(&format!("session  {session}\n"));
            shown.is_some_and(|(_, shown)| shown.contains("Enter to leave it:"))
        }
    };
    // The oldest first, whole.
    let shown = terminal.sees("Enter to leave it:").await.unwrap();
    for line in ["main wants to run echo a b\n  echo a b\n", "session  one", "no network"] {
        assert!(shown.contains(line), "{line} not in {shown}");
    }
    assert!(!shown.contains("echo c"), "one at a time: {shown}");
    terminal.press("a\r").unwrap();
    let patterns = terminal.sees("a pattern of your own, Enter to go back:").await.unwrap();
    assert!(patterns.contains("  1  echo a b $\n  2  echo a\n  3  echo\n"), "{patterns}");
    // One that would not answer it leads back to the question.
    terminal.press("ls\r").unwrap();
    terminal.sees("that does not cover this call").await.unwrap();
    terminal.press("a\r").unwrap();
    let twice = |text: &str| text.matches("Enter to go back:").count() == 2;
    terminal.until("the patterns again", twice).await.unwrap();
    terminal.press("3\r").unwrap();
    let covers = terminal.sees("is that what you want?").await.unwrap();
    let too = "it covers this call, and approves these that wait too:\n  bash in two: echo c";
    assert!(covers.contains(too), "{covers}");
    terminal.press("y\r").unwrap();
    terminal.sees("approved always: echo a b").await.unwrap();
    // The second is decided with it and not asked about.
    terminal.sees("main wants to run date +%Y\n  date +%Y\n").await.unwrap();
    let third = terminal.until("the third question", asks("three")).await.unwrap();
    assert!(third.contains("was decided meanwhile") && !third.contains("session  two"), "{third}");
    terminal.press("s\r").unwrap();
    terminal.sees("  2  date\n  e  exactly this call\n").await.unwrap();
    terminal.press("e\r").unwrap();
    terminal.sees("it covers this call, and nothing else that waits").await.unwrap();
    terminal.press("y\r").unwrap();
    terminal.sees("approved for this conversation: date +%Y").await.unwrap();
    terminal.until("the last question", asks("four")).await.unwrap();
    terminal.press("n\r").unwrap();
    terminal.sees("why, for the agent").await.unwrap();
    terminal.press("use the trash\r").unwrap();
    terminal.sees("denied: rm important").await.unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(0));

    assert_eq!(answer(&play, &one).await, "it said: a b\n[exit code 0]");
    assert_eq!(answer(&play, &two).await, "it said: c\n[exit code 0]");
    assert!(answer(&play, &three).await.ends_with("[exit code 0]"));
    let denied = answer(&play, &four).await;
    let no = "it said: approval_denied: the call of `bash` was not run: operator denied it and \
              says: use the trash";
    assert!(denied.starts_with(no), "{denied}");
    let config = fs::read_to_string(stage.home().join("teams/main/config.yaml")).unwrap();
    assert!(config.contains(r#"{effect: allow, tool: "bash", command: "echo"}"#), "{config}");
    assert_eq!(play.questions().await, Vec::<Value>::new());
}

#[tokio::test]
async fn channel_chat_decides_in_place() {
    let stage = obeys().await;
    let play = stage.up().await;
    let mut terminal = terminal(&stage, "chat");
    terminal.sees("/help for commands").await.unwrap();
    terminal.press("/approve\r").unwrap();
    terminal.sees("No approval waits here.").await.unwrap();
    let elsewhere = waits(&play, "elsewhere", "echo c").await;
    terminal.press("echo a b\r").unwrap();
    let shown = terminal.sees("n deny").await.unwrap();
    let first = "⬡ main wants to run echo a b\n  │ echo a b\n  sandbox  confined";
    assert!(shown.contains(first), "{shown}");
    assert!(!shown.contains("echo c"), "what waits in another conversation is not asked here");
    // Talk decides nothing; it waits to be heard.
    terminal.press("yes, do it\r").unwrap();
    terminal.sees("waiting: yes, do it").await.unwrap();
    assert_eq!(play.questions().await.len(), 2);
    terminal.press("/approve always echo\r").unwrap();
    let covers = terminal.sees("Also approves: echo c in elsewhere").await.unwrap();
    assert!(covers.contains("▌1 echo  "), "one's own pattern is marked: {covers}");
    assert_eq!(play.questions().await.len(), 2, "shown, not done");
    terminal.press("\r").unwrap();
    terminal.sees("✓ approved always: echo a b").await.unwrap();
    assert_eq!(answer(&play, &elsewhere).await, "it said: c\n[exit code 0]");
    // What was said meanwhile is heard now: asked about, and denied with a reason.
    let heard = terminal.sees("│ yes, do it").await.unwrap();
    assert!(heard.contains("● bash echo a b"), "{heard}");
    terminal.press("/deny use words\r").unwrap();
    terminal.sees("□ denied: yes, do it").await.unwrap();
    terminal.sees("operator denied it and says: use words").await.unwrap();
    // Whoever comes back finds what waits.
    terminal.press("date +%Y\r").unwrap();
    terminal.sees("│ date +%Y").await.unwrap();
    terminal.press(CONTROL_D).unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(0));
    let mut again = self::terminal(&stage, "chat");
    again.sees("│ date +%Y").await.unwrap();
    again.press("/approve\r").unwrap();
    again.sees("✓ approved once: date +%Y").await.unwrap();
    again.until("its answer", |text| text.contains("it said: 2")).await.unwrap();
    assert_eq!(play.questions().await, Vec::<Value>::new());
    let decided = play.api().get("/api/v1/approvals?state=decided").await.unwrap().good().unwrap();
    let here = decided["approvals"].as_array().unwrap().iter();
    let mut here = here.filter(|one| one["session_key"] == "main");
    assert!(here.all(|one| one["decision"]["from"] == "terminal"), "{decided}");
    again.press(CONTROL_D).unwrap();
    assert_eq!(again.wait().await.unwrap().code(), Some(0));
}

/// Asks for this command with these words, then says what came of it.
fn wants(stage: &Stage, words: &str, command: &str) {
    stage.model.push(Reply::new().text(words).tool("bash", json!({"command": command})));
}

#[tokio::test]
async fn channel_chat_approves_a_command_of_several_lines_by_one_key() {
    for (columns, rows) in [(80, 24), (40, 30)] {
        let stage = obeys().await;
        stage.write("teams/main/work/a.sh", "echo inside\n");
        let command = "sh a.sh \\\n  && echo \"$0\" \\\n  >> log";
        wants(&stage, "This moves the later booking.", command);
        let play = stage.up().await;
        let mut terminal = terminal_of(&stage, "chat", columns, rows);
        terminal.sees("/help").await.unwrap();
        terminal.press("go\r").unwrap();
        let shown = terminal.sees("n deny").await.unwrap();
        // What it is, then the command whole, then the facts, then the keys.
        let order = [
            "⬡ main wants to run sh a.sh …",
            "│ sh a.sh \\",
            "│   && echo \"$0\" \\",
            "│   >> log",
            "└ 3 lines",
            "no network",
            "rule ",
            "folder",
            "main: \"This moves the",
            "y once   s conversation   a always",
        ];
        let places: Vec<Option<usize>> = order.iter().map(|line| shown.find(line)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= columns.into()), "{shown}");
        terminal.press("v").unwrap();
        terminal.sees("│ echo inside").await.unwrap();
        terminal.press("d").unwrap();
        terminal.sees("decides  role:operator").await.unwrap();
        assert_eq!(play.questions().await.len(), 1, "neither decides");
        terminal.press("y").unwrap();
        terminal.sees("✓ approved once: sh a.sh …").await.unwrap();
        terminal.sees("it said: ").await.unwrap();
        assert!(stage.home().join("teams/main/work/log").exists());
        assert_eq!(play.questions().await, Vec::<Value>::new());
        terminal.press(CONTROL_D).unwrap();
        assert_eq!(terminal.wait().await.unwrap().code(), Some(0));
    }
}

#[tokio::test]
async fn channel_chat_reads_a_command_higher_than_the_screen_before_it_approves_it() {
    let stage = obeys().await;
    let lines: Vec<String> = (1..=60).map(|number| format!("echo step {number}")).collect();
    wants(&stage, "Sixty steps.", &format!("touch first\n{}", lines.join("\n")));
    let play = stage.up().await;
    let mut terminal = terminal_of(&stage, "chat", 80, 24);
    terminal.sees("/help").await.unwrap();
    terminal.press("go\r").unwrap();
    let shown = terminal.sees("lines, then approve   n deny").await.unwrap();
    assert!(!shown.contains("touch first") && !shown.contains("y once"), "{shown}");
    let rule = shown.lines().find(|line| line.contains("rule  ")).unwrap();
    assert!(rule.ends_with('…') && shown.contains(&format!("{rule}\n  folder")), "{shown}");
    terminal.press("v").unwrap();
    let shown = terminal.sees("lines 1-15 of ").await.unwrap();
    assert!(shown.contains("│ touch first"), "{shown}");
    // While it is read, no key decides.
    terminal.press("y").unwrap();
    assert_eq!(play.questions().await.len(), 1);
    for page in ["lines 16-30 of ", "lines 31-45 of ", "lines 46-60 of ", "lines 61-"] {
        terminal.press(" ").unwrap();
        terminal.sees(page).await.unwrap();
    }
    terminal.press(" ").unwrap();
    terminal.sees("y once").await.unwrap();
    terminal.press("y").unwrap();
    terminal.sees("✓ approved once: touch first").await.unwrap();
    terminal.sees("it said: ").await.unwrap();
    assert!(stage.home().join("teams/main/work/first").exists());
    terminal.press(CONTROL_D).unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn channel_chat_approves_a_compound_command_always_by_key() {
    for (columns, rows) in [(80, 24), (40, 40)] {
        let stage = obeys().await;
        let play = stage.up().await;
        let mut terminal = terminal_of(&stage, "chat", columns, rows);
        terminal.sees("/help").await.unwrap();
        terminal.press("echo a b && date +%Y\r").unwrap();
        terminal.sees("y once").await.unwrap();
        terminal.press("a").unwrap();
        terminal.until("patterns", |text| text.contains("  1 of 1")).await.unwrap();
        let shown = terminal.sees("Enter approve always").await.unwrap();
        assert!(shown.contains("▌1 echo a b $"), "{shown}");
        assert!(shown.contains("only exactly this call"), "{shown}");
        terminal.press("3").unwrap();
        terminal
            .until("the third", |text| text.contains("▌3 echo and date  1 of 1"))
            .await
            .unwrap();
        assert_eq!(play.questions().await.len(), 1, "shown, not done");
        terminal.press("\r").unwrap();
        terminal.sees("✓ approved always: echo a b && date").await.unwrap();
        terminal.sees("it said: ").await.unwrap();
        let config = fs::read_to_string(stage.home().join("teams/main/config.yaml")).unwrap();
        for rule in [r#"command: "echo"}"#, r#"command: "date"}"#] {
            assert!(config.contains(rule), "{config}");
        }
        // The next line of the same commands runs; one with another command asks, and is denied.
        terminal.press("date +%m; echo c\r").unwrap();
        terminal.until("its answer", |text| text.matches("it said: ").count() > 1).await.unwrap();
        terminal.press("echo c | cat\r").unwrap();
        terminal.sees("⬡ main wants to run echo c | cat").await.unwrap();
        let asks = |text: &str| text.matches("y once").count() > 0;
        terminal.until("the keys", asks).await.unwrap();
        terminal.press("n").unwrap();
        terminal.sees("Note to main (optional)").await.unwrap();
        terminal.press("use the copy\r").unwrap();
        terminal.sees("□ denied: echo c | cat").await.unwrap();
        terminal.sees("it said: approval_denied").await.unwrap();
        terminal.press(CONTROL_D).unwrap();
        assert_eq!(terminal.wait().await.unwrap().code(), Some(0));
    }
}

#[tokio::test]
async fn channel_chat_explains_a_typed_yes_and_sends_it_when_asked_twice() {
    let stage = obeys().await;
    let play = stage.up().await;
    let mut terminal = terminal_of(&stage, "chat", 80, 24);
    terminal.sees("/help").await.unwrap();
    terminal.press("echo a\r").unwrap();
    terminal.sees("y once").await.unwrap();
    for word in ["yes", "no", "ok"] {
        terminal.press(&format!("{word}\r")).unwrap();
        let shown = terminal.sees("Chat messages never approve anything.").await.unwrap();
        assert!(shown.contains(&format!("› {word}")), "it stays in the line: {shown}");
        assert!(shown.contains("press y to approve\n  echo a or n to deny it"), "{shown}");
        terminal.press("\u{3}").unwrap();
        terminal.until("an empty line", |text| !text.contains("Chat messages")).await.unwrap();
    }
    assert_eq!(play.questions().await.len(), 1);
    let said = play.history("main", "main").await;
    assert!(!json!(said).to_string().contains("\"text\":\"ok\""), "nothing was queued");
    terminal.press("ok\r").unwrap();
    terminal.sees("Chat messages never approve anything.").await.unwrap();
    terminal.press("\r").unwrap();
    terminal.sees("waiting: ok").await.unwrap();
    // An empty line, and the key decides.
    terminal.press("y").unwrap();
    terminal.sees("✓ approved once: echo a").await.unwrap();
    terminal.sees("⬡ main wants to run ok").await.unwrap();
    terminal.press(CONTROL_D).unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn channel_hostile_text_of_an_approval_reaches_no_terminal() {
    let stage = obeys().await;
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}\u{200b}";
    stage.write("teams/main/work/a.sh", &format!("echo {hostile}\n{}", "echo y\n".repeat(5000)));
    let many = "echo y\n".repeat(1500);
    let long = "x".repeat(3000);
    wants(
        &stage,
        &format!("Trust me.{hostile}\n└ 1 line\n  y once"),
        &format!("sh a.sh {hostile}{long}\n  └ 1 line\n{many}echo last"),
    );
    let _play = stage.up().await;
    let mut terminal = terminal_of(&stage, "chat", 80, 24);
    terminal.sees("/help").await.unwrap();
    terminal.press("go\r").unwrap();
    terminal.sees("lines, then approve   n deny").await.unwrap();
    let shown = terminal.everything();
    for line in [
        "│ echo last",
        "└ 1503 lines",
        "main: \"Trust me.‹U+001B›]0;owned‹U+0007›‹U+001B›[2J‹U+202E›",
    ] {
        assert!(shown.contains(line), "{line} not in the last part of {}", terminal.screen());
    }
    assert!(!shown.contains("\n  └ 1 line\n"), "no line of the call passes for one of ours");
    terminal.press("v").unwrap();
    let page = terminal.sees("lines 1-15 of ").await.unwrap();
    let count = page.split("lines 1-15 of ").nth(1).unwrap();
    let count: usize =
        count.split(|letter: char| !letter.is_numeric()).next().unwrap().parse().unwrap();
    for first in (16..=count).step_by(15) {
        terminal.press(" ").unwrap();
        terminal.sees(&format!("lines {first}-")).await.unwrap();
    }
    terminal.press(" ").unwrap();
    terminal.sees("y once   s conversation").await.unwrap();
    terminal.press("v").unwrap();
    terminal.sees("more lines").await.unwrap();
    let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
    for evil in ["\u{1b}]0;", "\u{1b}[2J", "\u{202e}", "\u{200b}"] {
        assert!(!raw.contains(evil), "{evil:?} reached the terminal");
    }
    terminal.press("n").unwrap();
    terminal.sees("Note to main").await.unwrap();
    terminal.press("\r").unwrap();
    terminal.sees("□ denied: sh a.sh").await.unwrap();
    terminal.press(CONTROL_D).unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(0));
}

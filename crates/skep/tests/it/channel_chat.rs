//! `skep chat` on a real terminal, as a person uses it and sees it; and through pipes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};
use skep_testkit::hive::Start;
use skep_testkit::{Reply, Terminal, WsClient, locate};

use crate::stage::Stage;

const ESCAPE: &str = "\x1b";
const CONTROL_C: &str = "\x03";
const CONTROL_D: &str = "\x04";
const CONTROL_O: &str = "\x0f";
const CONTROL_R: &str = "\x12";
const ALT_ENTER: &str = "\x1b\r";
const UP: &str = "\x1b[A";

// Words that are waited for while a model still speaks end with a full stop: of a letter that may
// begin a secret nothing is told before the next one.

/// A stage whose model may take its time: people do, and machines are shared.
async fn patient() -> Stage {
    let stage = Stage::new().await;
    let providers = format!(
        "profiles:\n  default:\n    provider: anthropic\n    model: scripted\n    api_url: {}\n    \
         api_key: ${{RIG_KEY}}\n    max_output_tokens: 1024\n",
        stage.model.base_url()
    );
    stage.write("providers.yaml", &providers);
    stage
}

fn chat(stage: &Stage, words: &[&str]) -> Start {
    let start = Start::new(&locate::rig().unwrap(), stage.home()).argument("chat");
    words.iter().fold(start, |start, word| start.argument(*word))
}

fn terminal(stage: &Stage) -> Terminal {
    chat(stage, &[]).on_terminal(80, 24).unwrap()
}

/// Waits until this many turns have ended.
async fn turns(terminal: &Terminal, count: usize) -> String {
    let over = |screen: &str| screen.matches(" out ").count() == count;
    terminal.until(&format!("{count} turns ended"), over).await.unwrap()
}

/// Times, token counts and the spinner are other ones every time.
fn masked(screen: &str) -> String {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mut text = String::new();
    for line in screen.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let masked = words.iter().enumerate().map(|(at, word)| {
            let halves = word.split_once('.').is_some_and(|(a, b)| is_digits(a) && is_digits(b));
            let tokens = matches!(words.get(at + 1), Some(&"in," | &"out"));
            if halves || tokens { "N" } else { word }
        });
        text.push_str(&masked.collect::<Vec<_>>().join(" "));
        text.push('\n');
    }
    text.replace(|letter| ('\u{2800}'..='\u{28ff}').contains(&letter), "*")
}

#[tokio::test]
async fn channel_chat_streams_markdown_and_shows_tools_with_their_diff() {
    let stage = patient().await;
    stage.write("teams/main/work/sum.sh", "sum() {\n  echo $(($1 - $2))\n}\n");
    stage.model.push(
        Reply::new().thinking("A minus stands where a plus belongs.\nI mend it.").tool(
            "edit",
            json!({"file_path": "sum.sh", "old_string": "$1 - $2", "new_string": "$1 + $2"}),
        ),
    );
    let answer = Reply::new().open_text().delta("# Mended\nThe **sign** is.").gate("half");
    stage
        .model
        .push(answer.delta(".. right:\n\n- `sum 2 3` is 5\n\n```sh\nsum 2 3\n```\n").close());
    let _play = stage.up().await;
    let mut terminal = terminal(&stage);
    terminal.sees("/help for commands").await.unwrap();
    terminal.press("mend sum.sh\r").unwrap();
    // Its last word waits for its end.
    let half = terminal.sees("The sign").await.unwrap();
    assert!(half.contains("working"), "{half}");
    stage.model.gate("half").release();
    let done = turns(&terminal, 1).await;
    insta::assert_snapshot!(masked(&done), @r"
    · main · scripted · /help for commands, Ctrl-D leaves

    › mend sum.sh

    ∴ A minus stands where a plus belongs. I mend it.
    ● edit sum.sh  +1 −1  N s
        @@ -1,3 +1,3 @@
         sum() {
        -  echo $(($1 - $2))
        +  echo $(($1 + $2))
         }

    Mended

    The sign is... right:

    • sum 2 3 is 5

      sh
      sum 2 3
      scripted · N in, N out · N s

    ›
    ");
    terminal.press(CONTROL_O).unwrap();
    let open = terminal.sees("  I mend it.").await.unwrap();
    assert!(open.contains("∴ A minus stands where a plus belongs.\n"), "{open}");
    terminal.press(CONTROL_D).unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(0));
    let left = terminal.everything();
    assert_eq!(left.matches("Mended").count(), 1, "painted anew, not again: {left}");
}

#[tokio::test]
async fn channel_chat_stops_a_turn_and_queues_what_is_typed_meanwhile() {
    let stage = patient().await;
    stage.model.push(Reply::new().open_text().delta("half of it.").gate("never").close());
    stage.model.push(Reply::say("the second answer"));
    let _play = stage.up().await;
    let mut terminal = terminal(&stage);
    terminal.sees("/help for commands").await.unwrap();
    terminal.press("first\r").unwrap();
    // The rest of it is shown with the end.
    terminal.sees("half of").await.unwrap();
    terminal.press("second\r").unwrap();
    let queued = terminal.sees("queued: second").await.unwrap();
    assert!(queued.contains("Esc stops"), "{queued}");
    terminal.press(ESCAPE).unwrap();
    terminal.sees("the second answer").await.unwrap();
    let done = turns(&terminal, 1).await;
    insta::assert_snapshot!(masked(&done), @r"
    · main · scripted · /help for commands, Ctrl-D leaves

    › first

    half of it.

    · Stopped. /retry
      scripted · N s

    › second

    the second answer
      scripted · N in, N out · N s

    ›
    ");
    assert!(!done.contains("queued"), "{done}");
    stage.model.push(Reply::new().open_text().delta("going on.").gate("never").close());
    terminal.press("third\r").unwrap();
    terminal.sees("going").await.unwrap();
    terminal.press(CONTROL_C).unwrap();
    terminal.until("the stop", |screen| screen.matches("Stopped.").count() == 2).await.unwrap();
    terminal.press(CONTROL_C).unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn channel_chat_takes_several_lines_as_one_message_and_remembers_it() {
    let stage = patient().await;
    stage.model.push_all([Reply::say("one"), Reply::say("two"), Reply::say("three")]);
    let play = stage.up().await;
    let mut terminal = terminal(&stage);
    terminal.sees("/help for commands").await.unwrap();
    terminal.press(&format!("first{ALT_ENTER}second\\")).unwrap();
    terminal.sees("  second\\").await.unwrap();
    terminal.press("\r").unwrap();
    terminal.until("the next line", |screen| screen.ends_with("  second")).await.unwrap();
    terminal.press("third").unwrap();
    terminal.sees("  third").await.unwrap();
    terminal.paste("\r\nfourth\r\n\tfifth").unwrap();
    terminal.sees("fifth").await.unwrap();
    terminal.press("\r").unwrap();
    terminal.sees("one").await.unwrap();
    // A terminal that does not bracket: everything is there at once, so it is a paste.
    terminal.press("raw\rpaste").unwrap();
    terminal.sees("  paste").await.unwrap();
    terminal.press("\r").unwrap();
    turns(&terminal, 2).await;
    terminal.press("/sta\t").unwrap();
    terminal.sees("› /status").await.unwrap();
    terminal.press("\r").unwrap();
    terminal.sees("\n  turn          none\n  queued        0 messages\n").await.unwrap();
    terminal.press(CONTROL_D).unwrap();
    terminal.wait().await.unwrap();

    let said: Vec<Value> = play.history("main", "main").await;
    let said: Vec<&str> = said
        .iter()
        .filter(|row| row["role"] == "user")
        .map(|row| row["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["first\nsecond\nthird\nfourth\n\tfifth", "raw\npaste"]);
    let file = stage.folder().join(".local/state/skep/chat_history");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let mut again = self::terminal(&stage);
    // What was said before is there again, and so is what was typed.
    again.sees("  fourth").await.unwrap();
    again.press(&format!("{UP}{UP}")).unwrap();
    again.until("the older message", |screen| screen.ends_with("› raw\n  paste")).await.unwrap();
    again.press(CONTROL_C).unwrap();
    again.press(&format!("{CONTROL_R}four")).unwrap();
    again.sees("search: four").await.unwrap();
    again.press("\r\r").unwrap();
    again.sees("three").await.unwrap();
}

#[tokio::test]
async fn channel_chat_goes_on_where_it_was_after_a_kill() {
    let stage = patient().await;
    stage.model.push(Reply::new().open_text().delta("words that are void. ").gate("never").close());
    let mut play = stage.up().await;
    let mut terminal = terminal(&stage);
    terminal.sees("/help for commands").await.unwrap();
    terminal.press("hello\r").unwrap();
    terminal.sees("words that are void").await.unwrap();
    play.hive.kill().await.unwrap();
    let lost = terminal.sees("no connection").await.unwrap();
    assert!(!lost.contains("words that are void"), "{lost}");
    terminal.press("said meanwhile\r").unwrap();
    terminal.sees("sending: said meanwhile").await.unwrap();
    stage.model.push_all([Reply::say("the answer that counts"), Reply::say("and the next")]);
    let play = stage.up().await;
    terminal.sees("and the next").await.unwrap();
    let done = turns(&terminal, 2).await;
    for (text, times) in [
        ("The connection to the hive is lost", 1),
        ("Connected again", 1),
        ("› hello", 1),
        ("the answer that counts", 1),
        ("› said meanwhile", 1),
        ("words that are void", 0),
    ] {
        assert_eq!(done.matches(text).count(), times, "{text}: {done}");
    }
    assert_eq!(play.history("main", "main").await.len(), 4);
}

#[tokio::test]
async fn channel_chat_shows_hostile_words_without_obeying_them() {
    let stage = patient().await;
    let hostile = "\x1b]0;title\x07\x1b]52;c;aGk=\x07\x1b]8;;http://evil\x1b\\link\x1b[2J\u{9b}2J\
                   \u{202e}turned\u{2066} \x08\x08\r**bold**";
    stage.write("teams/main/work/bad.txt", hostile);
    stage.write("teams/main/work/\u{1b}[31mname.txt", "x");
    stage.model.push(Reply::new().thinking(hostile).tool("glob", json!({"pattern": "*.txt"})));
    stage.model.push(Reply::call("grep", json!({"pattern": "turned", "path": hostile})));
    stage.model.push(Reply::say(&format!("{hostile}\n\n```\n{hostile}\n```\n[x]({hostile})")));
    let _play = stage.up().await;
    let mut terminal = terminal(&stage);
    terminal.sees("/help for commands").await.unwrap();
    terminal.press("go\r").unwrap();
    turns(&terminal, 1).await;
    terminal.press(&format!("{CONTROL_O}{CONTROL_D}")).unwrap();
    terminal.wait().await.unwrap();
    let raw = String::from_utf8(terminal.raw()).unwrap();
    for bad in ["\x1b]", "\u{9b}", "\x08", "\u{202e}", "\u{2066}", "\x1b[2J", "\x1b[31mname"] {
        assert!(!raw.contains(bad), "{bad:?} reached the terminal");
    }
    // Every sequence is one of ours: style, cursor, erasing below, and the modes of painting.
    for after in raw.split('\x1b').skip(1) {
        let end = after.find(|letter: char| letter.is_ascii_alphabetic()).unwrap();
        let (arguments, kind) = (&after[1..end], &after[end..=end]);
        let fine = match kind {
            "m" | "A" | "C" => arguments.bytes().all(|b| b.is_ascii_digit() || b == b';'),
            "J" | "H" => arguments.is_empty(),
            "h" | "l" => ["?2026", "?25", "?7", "?2004"].contains(&arguments),
            _ => false,
        };
        assert!(after.starts_with('[') && fine, "{:?}", &after[..=end]);
    }
}

#[tokio::test]
async fn channel_chat_fits_narrow_plain_and_changing_terminals() {
    let stage = patient().await;
    let text = "A **rather** long line of words – so that it has to be wrapped.\n\n\
                | name | what it is |\n|---|---|\n| a | one of the first things |\n";
    stage.model.push(Reply::say(text));
    let _play = stage.up().await;
    let start = chat(&stage, &[]).env("NO_COLOR", "1").env("LC_ALL", "C");
    let mut terminal = start.on_terminal(40, 20).unwrap();
    terminal.sees("/help for").await.unwrap();
    terminal.press("go\r").unwrap();
    let narrow = turns(&terminal, 1).await;
    insta::assert_snapshot!(masked(&narrow), @r"
    - main * scripted * /help for commands,
      Ctrl-D leaves

    > go

    A rather long line of words - so that it
    has to be wrapped.

    name  what it is
    ----  -----------------------
    a     one of the first things
      scripted * N in, N out * N s

    >
    ");
    let raw = String::from_utf8(terminal.raw()).unwrap();
    assert!(raw.is_ascii() && !raw.contains("[1m") && !raw.contains("[2m"), "{raw}");
    terminal.resize(70, 20).unwrap();
    let wide = terminal.sees("A rather long line of words - so that it has").await.unwrap();
    assert_eq!(wide.matches("one of the first things").count(), 1, "{wide}");
    terminal.press("typed after").unwrap();
    terminal.sees("> typed after").await.unwrap();
}

#[tokio::test]
async fn channel_chat_long_answers_scroll_up_once_and_whole() {
    let stage = patient().await;
    let lines: Vec<String> = (1..=60).map(|n| format!("- line number {n};\n")).collect();
    let (head, tail) = lines.split_at(40);
    let reply = Reply::new().open_text().delta(&head.concat()).gate("half");
    stage.model.push(reply.delta(&tail.concat()).close());
    let _play = stage.up().await;
    let mut terminal = terminal(&stage);
    terminal.sees("/help for commands").await.unwrap();
    terminal.press("count\r").unwrap();
    terminal.sees("number 40;").await.unwrap();
    assert!(terminal.everything().contains("number 1;"), "what has no room below is above");
    stage.model.gate("half").release();
    turns(&terminal, 1).await;
    let everything = terminal.everything();
    let shown: Vec<&str> = everything.lines().filter(|line| line.contains("number")).collect();
    let expected: Vec<String> = (1..=60).map(|n| format!("• line number {n};")).collect();
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn channel_chat_takes_back_words_of_a_call_that_is_repeated() {
    let stage = patient().await;
    let many: String = (1..=60).map(|n| format!("- void line {n};\n")).collect();
    stage.model.push(Reply::new().open_text().delta("void words. ").gate("one").cut());
    stage.model.push(Reply::new().open_text().delta(&many).gate("two").cut());
    stage.model.push(Reply::say("the words that count"));
    let _play = stage.up().await;
    let mut terminal = terminal(&stage);
    terminal.sees("/help for commands").await.unwrap();
    terminal.press("go\r").unwrap();
    terminal.sees("void words").await.unwrap();
    stage.model.gate("one").release();
    let second = terminal.sees("void line 60;").await.unwrap();
    assert!(!second.contains("void words"), "{second}");
    stage.model.gate("two").release();
    let done = turns(&terminal, 1).await;
    assert!(!done.contains("void"), "{done}");
    assert_eq!(done.matches("the words that count").count(), 1, "{done}");
    assert_eq!(done.matches("› go").count(), 1, "{done}");
}

#[tokio::test]
async fn channel_chat_with_a_message_answers_and_leaves() {
    let stage = patient().await;
    stage.model.push_all([Reply::say("a *short* answer"), Reply::unauthorized()]);
    let _play = stage.up().await;
    let mut asked = chat(&stage, &["-m", "well?"]).on_terminal(80, 24).unwrap();
    assert_eq!(asked.wait().await.unwrap().code(), Some(0));
    insta::assert_snapshot!(masked(&turns(&asked, 1).await), @r"
    · main · scripted · /help for commands, Ctrl-D leaves

    › well?

    a short answer
      scripted · N in, N out · N s
    ");
    let mut failed = chat(&stage, &["-m", "and now?"]).on_terminal(80, 24).unwrap();
    assert_eq!(failed.wait().await.unwrap().code(), Some(1));
    failed.sees("(provider_auth)").await.unwrap();
}

#[tokio::test]
async fn channel_chat_through_pipes_is_plain_text_or_json() {
    let stage = patient().await;
    stage.model.push_all([
        Reply::say("**one**"),
        Reply::say("two"),
        Reply::say("three"),
        Reply::say("four"),
        Reply::unauthorized(),
    ]);
    let play = stage.up().await;
    let asked = chat(&stage, &["-m", "hello"]).finish().await.unwrap();
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(0), "**one**\n"), "{asked:?}");

    let mut piped = std::process::Command::new(locate::rig().unwrap())
        .args(["chat", "--session", "pipe"])
        .env("SKEP_HOME", stage.home())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    use std::io::Write as _;
    let mut input = piped.stdin.take().unwrap();
    input.write_all(b"first \\\nhalf\n\nsecond\n/status\n/quit\nnever\n").unwrap();
    let ended = tokio::task::spawn_blocking(move || piped.wait_with_output()).await.unwrap();
    let ended = ended.unwrap();
    let told = String::from_utf8(ended.stdout).unwrap();
    let status = "two\nthree\nStatus\n  agent         main\n  conversation  pipe\n";
    assert!(told.starts_with(status), "{told}");
    let history = play.history("main", "pipe").await;
    assert_eq!(history[0]["content"][0]["text"], "first \nhalf");

    let url = play.hive.url().unwrap();
    let remote = chat(&stage, &["--json", "-m", "hi", "--url", url]).env("SKEP_TOKEN", &play.token);
    let remote = remote.finish().await.unwrap();
    let frames: Vec<Value> =
        remote.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = frames.iter().filter_map(|frame| frame["type"].as_str()).collect();
    assert_eq!(kinds.first(), Some(&"hello"), "{kinds:?}");
    let ends = frames.iter().filter(|frame| frame["event"]["type"] == "turn_end");
    assert_eq!(ends.count(), 1, "{kinds:?}");
    assert!(frames.iter().any(|frame| frame["type"] == "response" && frame["content"] == "four"));

    let failed = chat(&stage, &["-m", "hello"]).finish().await.unwrap();
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""));
    assert!(failed.stderr.contains("(provider_auth)"), "{}", failed.stderr);
    let nobody = chat(&stage, &["nobody"]).finish().await.unwrap();
    assert_eq!(nobody.code, Some(1));
    assert!(nobody.stderr.contains("could not chat with nobody"), "{}", nobody.stderr);
}

#[tokio::test]
async fn channel_chat_sees_what_others_say_in_the_same_conversation() {
    let stage = patient().await;
    stage.model.push(Reply::say("to whom it may concern"));
    let play = stage.up().await;
    let terminal = terminal(&stage);
    terminal.sees("/help for commands").await.unwrap();
    let mut other = WsClient::connect(&play.target()).await.unwrap();
    let said = json!({"content": "from elsewhere", "session": "main", "id": "x"});
    other.send(&said).await.unwrap();
    let screen = terminal.sees("to whom it may concern").await.unwrap();
    assert!(screen.contains("› from elsewhere"), "{screen}");
}

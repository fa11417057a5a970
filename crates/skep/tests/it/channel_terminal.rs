//! `skep chat` day by day: lists, large pastes, earlier conversations, another try.

use skep_testkit::hive::Start;
use skep_testkit::{Reply, Terminal, locate};

use crate::stage::Stage;

const CONTROL_D: &str = "\x04";
const DOWN: &str = "\x1b[B";

fn chat(stage: &Stage, words: &[&str], columns: u16, rows: u16) -> Terminal {
    let start = Start::new(&locate::rig().unwrap(), stage.home()).argument("chat");
    let start = words.iter().fold(start, |start, word| start.argument(*word));
    start.on_terminal(columns, rows).unwrap()
}

async fn leave(mut terminal: Terminal) {
    terminal.press(CONTROL_D).unwrap();
    assert_eq!(terminal.wait().await.unwrap().code(), Some(0));
}

/// The lines from this one on, without the empty ones and the input at the end.
fn from<'a>(screen: &'a str, line: &str) -> &'a str {
    let at = screen.find(&format!("\n{line}\n")).unwrap() + 1;
    screen[at..].trim_end_matches(['›', '\n'])
}

#[tokio::test]
async fn channel_chat_help_and_model_are_lists() {
    let stage = Stage::new().await;
    let _play = stage.up().await;
    let mut wide = chat(&stage, &[], 80, 60);
    wide.sees("/help for commands").await.unwrap();
    wide.press("/help\r").unwrap();
    let shown = wide.sees("Ctrl-D leave\n").await.unwrap();
    insta::assert_snapshot!(from(&shown, "Commands"), @r"
    Commands
      /new [message]                new conversation
      /model [name]                 show or change the model
      /think [off|low|medium|high]  show or change thinking
      /compact [what to keep]       summarise older messages
      /skill [name] [message]       use a skill, or list them
      /status                       turn, queue, model, cost
      /stop                         stop the turn; queued messages stay
      /help                         this list
      /resume                       choose an earlier conversation
      /rename [name]                rename this conversation
      /retry                        try the last message again
      /approve [session|always]     approve the waiting tool call (y, s, a)
      /deny [note]                  deny the waiting tool call (n)
      /answer [text]                answer what the agent asks the operator
      /thinking                     show or fold thinking (Ctrl-O)
      /quit                         leave (Ctrl-D); a running turn goes on
      //text                        send text that begins with a slash

    Keys
      Enter send   Alt-Enter new line   Esc stop   Up earlier message   @ file
      Tab complete   Ctrl-R search   Ctrl-O thinking   Ctrl-L redraw   Ctrl-D leave
    ");
    wide.press("/model\r").unwrap();
    let shown = wide.sees("default the agent's own.\n").await.unwrap();
    insta::assert_snapshot!(from(&shown, "Model"), @r"
    Model
      now      anthropic scripted (profile default)
      default  anthropic scripted, the agent's own
    /model NAME changes it from the next turn. PROVIDER:MODEL names another model of
    one of these providers, default the agent's own.
    ");
    wide.press("/nothing\r").unwrap();
    wide.sees("✗ There is no command `/nothing`. (unknown_command)\n\nCommands\n").await.unwrap();
    leave(wide).await;
}

#[tokio::test]
async fn channel_chat_help_and_status_fit_a_narrow_terminal() {
    let stage = Stage::new().await;
    let _play = stage.up().await;
    let mut narrow = chat(&stage, &[], 40, 60);
    narrow.sees("/help for commands").await.unwrap();
    narrow.press("/help\r").unwrap();
    let shown = narrow.sees("Ctrl-D leave\n").await.unwrap();
    insta::assert_snapshot!(from(&shown, "Commands"), @r"
    Commands
      /new [message]
        new conversation
      /model [name]
        show or change the model
      /think [off|low|medium|high]
        show or change thinking
      /compact [what to keep]
        summarise older messages
      /skill [name] [message]
        use a skill, or list them
      /status
        turn, queue, model, cost
      /stop
        stop the turn; queued messages stay
      /help
        this list
      /resume
        choose an earlier conversation
      /rename [name]
        rename this conversation
      /retry
        try the last message again
      /approve [session|always]
        approve the waiting tool call (y, s,
        a)
      /deny [note]
        deny the waiting tool call (n)
      /answer [text]
        answer what the agent asks the
        operator
      /thinking
        show or fold thinking (Ctrl-O)
      /quit
        leave (Ctrl-D); a running turn goes
        on
      //text
        send text that begins with a slash

    Keys
      Enter send   Alt-Enter new line
      Esc stop   Up earlier message
      @ file
      Tab complete   Ctrl-R search
      Ctrl-O thinking   Ctrl-L redraw
      Ctrl-D leave
    ");
    narrow.press("/status\r").unwrap();
    let shown = narrow.sees("\n  store").await.unwrap();
    insta::assert_snapshot!(from(&shown, "Status"), @r"
    Status
      agent         main
      conversation  main
      turn          none
      queued        0 messages
      model         anthropic scripted
                    (profile default)
      hive's model  anthropic scripted
                    (profile default of
                    providers.yaml)
      today         $0
      store         ok
    ");
    leave(narrow).await;
}

#[tokio::test]
async fn channel_chat_counts_down_to_the_next_try_and_tries_again() {
    let stage = Stage::new().await;
    let busy = || Reply::error(529, "overloaded_error", "Overloaded", Some("600"));
    stage.model.push_all([busy(), Reply::say("at last"), Reply::unauthorized(), Reply::say("hi")]);
    let play = stage.up().await;
    let mut terminal = chat(&stage, &[], 80, 24);
    terminal.sees("/help for commands").await.unwrap();
    terminal.press("first\r").unwrap();
    let paused = |screen: &str| {
        let line = screen.lines().find(|line| line.contains("overloaded, next in 9m "))?;
        assert!(line.ends_with("Esc stops · Enter tries now"), "{screen}");
        Some(line.chars().skip(2).collect::<String>())
    };
    let shown = terminal.until("the pause", |screen| paused(screen).is_some()).await.unwrap();
    let first = paused(&shown);
    let fewer = |screen: &str| paused(screen).is_some_and(|line| Some(line) != first);
    let shown = terminal.until("fewer seconds", fewer).await.unwrap();
    assert_eq!(shown.matches("overloaded").count(), 1, "in its place: {shown}");
    terminal.press("\r").unwrap();
    terminal.sees("at last").await.unwrap();
    let done = terminal.until("its end", |screen| screen.contains(" out · ")).await.unwrap();
    assert!(!terminal.everything().contains("overloaded"), "replaced by the answer: {done}");

    terminal.press("/retry\r").unwrap();
    terminal.sees("The last message was answered").await.unwrap();
    terminal.press("second\r").unwrap();
    terminal.sees("(provider_auth)   /retry").await.unwrap();
    terminal.press("/retry\r").unwrap();
    terminal.sees("\n\nhi\n").await.unwrap();
    leave(terminal).await;
    let said = play.history("main", "main").await;
    let said = said.iter().filter(|row| row["role"] == "user");
    let said: Vec<&str> = said.map(|row| row["content"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(said, ["first", "second", "second"]);
}

#[tokio::test]
async fn channel_chat_takes_back_a_try_that_broke_off_and_says_so_on_a_narrow_terminal() {
    let stage = Stage::new().await;
    stage.model.push(Reply::new().open_text().delta("half an answer ").gate("cut").cut());
    stage.model.push(Reply::error(529, "overloaded_error", "Overloaded", Some("600")));
    stage.model.push(Reply::say("whole"));
    let _play = stage.up().await;
    let mut terminal = chat(&stage, &[], 40, 24);
    terminal.sees("/help for").await.unwrap();
    terminal.press("first\r").unwrap();
    terminal.sees("half an answer").await.unwrap();
    stage.model.gate("cut").open();
    let shown = terminal.sees("overloaded, ").await.unwrap();
    assert!(!shown.contains("half an answer"), "{shown}");
    let shown = terminal.sees("tries now").await.unwrap();
    let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("next in ") && flat.contains("Esc stops · Enter tries now"), "{shown}");
    terminal.press("\r").unwrap();
    terminal.sees("\nwhole\n").await.unwrap();
    leave(terminal).await;
}

#[tokio::test]
async fn channel_chat_folds_a_paste_of_500_lines_and_sends_it_whole() {
    let stage = Stage::new().await;
    stage.model.push_all([Reply::say("read"), Reply::say("read again")]);
    let play = stage.up().await;
    let mut terminal = chat(&stage, &[], 80, 24);
    terminal.sees("/help for commands").await.unwrap();
    let line = |number: usize| format!("{number}: thread 'main' panicked at x");
    let lines: Vec<String> = (1..=500).map(line).collect();
    let (paste, sign) =
        (lines.join("\n"), "[pasted 500 lines, 16 kB: \"1: thread 'main' panicked a…\"]");
    terminal.press("Why? ").unwrap();
    terminal.paste(&paste).unwrap();
    let shown = terminal.sees(&format!("› Why? {sign}\n  Ctrl-O show   Backspace remove")).await;
    assert!(!shown.unwrap().contains("\n  2: thread"));
    terminal.press("\x7f").unwrap();
    terminal.until("no paste", |screen| screen.ends_with("› Why?")).await.unwrap();
    terminal.paste(&paste).unwrap();
    terminal.sees(sign).await.unwrap();
    terminal.resize(40, 24).unwrap();
    terminal.sees("\n› Why? [pasted 500 lines, 16 kB]\n").await.unwrap();
    terminal.resize(80, 24).unwrap();
    terminal.sees(sign).await.unwrap();
    terminal.press("\r").unwrap();
    let sent = terminal.sees("\nread\n").await.unwrap();
    assert!(sent.contains("› Why? 1: thread") && sent.contains("… 497 more lines"), "{sent}");
    // Recalled folded; shown whole, and sent once more.
    terminal.press("\x1b[A").unwrap();
    terminal.sees(&format!("› Why? {sign}")).await.unwrap();
    terminal.press("\x0f").unwrap();
    terminal.sees("500: thread 'main' panicked at x").await.unwrap();
    terminal.press("\r").unwrap();
    terminal.sees("\nread again\n").await.unwrap();
    leave(terminal).await;
    let said = play.history("main", "main").await;
    let said = said.iter().filter(|row| row["role"] == "user");
    for row in said {
        assert_eq!(row["content"][0]["text"], format!("Why? {paste}"));
    }
}

#[tokio::test]
async fn channel_chat_starts_the_hive_when_none_runs() {
    let stage = Stage::new().await;
    stage.write("skep.yaml", "server: {port: 0}\n");
    stage.model.push(Reply::say("awake"));
    let skep = |words: &[&str]| {
        let start = Start::new(&locate::rig().unwrap(), stage.home()).env("RIG_KEY", "rig-key");
        words.iter().fold(start, |start, word| start.argument(*word))
    };
    let piped = skep(&["chat", "-m", "hello"]).finish().await.unwrap();
    assert_eq!((piped.code, piped.stdout.as_str()), (Some(1), ""), "nobody is asked");
    assert!(piped.stderr.contains("next: skep up"), "{}", piped.stderr);
    let question = format!("No hive is running for {}.", stage.home().display());
    let mut no = skep(&["chat"]).on_terminal(200, 24).unwrap();
    no.sees(&format!("{question} Start it now? [Y/n]")).await.unwrap();
    no.press("n\r").unwrap();
    assert_eq!(no.wait().await.unwrap().code(), Some(1));
    no.sees("next: skep up").await.unwrap();

    let mut yes = skep(&["chat"]).on_terminal(200, 24).unwrap();
    yes.sees("Start it now? [Y/n]").await.unwrap();
    yes.press("\r").unwrap();
    yes.sees("/help for commands").await.unwrap();
    yes.press("hello\r").unwrap();
    yes.sees("\nawake\n").await.unwrap();
    leave(yes).await;
    // It outlives the chat, and the next one asks nothing.
    let mut again = skep(&["chat"]).on_terminal(200, 24).unwrap();
    let shown = again.sees("awake").await.unwrap();
    assert!(!shown.contains("Start it now?"), "{shown}");
    again.press(CONTROL_D).unwrap();
    again.wait().await.unwrap();
    assert_eq!(skep(&["down"]).finish().await.unwrap().code, Some(0));
}

#[tokio::test]
async fn channel_chat_resumes_an_earlier_conversation() {
    let stage = Stage::new().await;
    stage.model.answer_with(|request| {
        let said = request.last_user_text();
        Reply::say(&format!("heard: {}", said.rsplit('\n').next().unwrap()))
    });
    let play = stage.up().await;
    let mut shop = chat(&stage, &["--session", "shop"], 80, 24);
    shop.sees("main / shop · ").await.unwrap();
    shop.press("Prices of the shop\r").unwrap();
    shop.sees("\nheard: Prices of the shop\n").await.unwrap();
    leave(shop).await;
    let mut terminal = chat(&stage, &[], 80, 24);
    terminal.sees("/help for commands").await.unwrap();
    terminal.press("The winter price list\r").unwrap();
    terminal.sees("\nheard: The winter price list\n").await.unwrap();
    terminal.press("/new\r").unwrap();
    terminal.until("its answer", |text| text.matches("/new").count() > 0).await.unwrap();
    terminal.press("Summer in the huts\r").unwrap();
    terminal.sees("\nheard: Summer in the huts\n").await.unwrap();
    let ended = |text: &str| text.matches(" out · ").count() == 2;
    terminal.until("the end of the second turn", ended).await.unwrap();

    terminal.press("/resume\r").unwrap();
    let shown = terminal.sees("Resume   filter:    3 of 3, main").await.unwrap();
    assert!(shown.contains("\n ▌  Summer in the huts "), "{shown}");
    terminal.press("pri").unwrap();
    terminal.sees("Resume   filter: pri   2 of 3, main").await.unwrap();
    terminal.resize(40, 24).unwrap();
    let shown = terminal.sees("▌  The winter price list").await.unwrap();
    assert!(shown.lines().all(|line| line.chars().count() <= 40), "{shown}");
    terminal.resize(80, 24).unwrap();
    terminal.sees("Up Down select   Enter open   Tab all agents").await.unwrap();
    terminal.press(DOWN).unwrap();
    terminal.sees("▌  Prices of the shop").await.unwrap();
    terminal.press("\r").unwrap();
    terminal.sees("main / shop · ").await.unwrap();
    terminal.press("more\r").unwrap();
    terminal.sees("\nheard: more\n").await.unwrap();
    terminal.press("/rename Hut prices\r").unwrap();
    terminal.sees("Renamed: Hut prices").await.unwrap();
    leave(terminal).await;
    assert_eq!(play.history("main", "shop").await.len(), 4);

    // The key of this one leads to a newer conversation: a copy goes on.
    let mut again = chat(&stage, &["--resume"], 80, 24);
    again.sees("▌  Hut prices").await.unwrap();
    again.press("winter\r").unwrap();
    again.sees("\nheard: The winter price list\n").await.unwrap();
    again.press("and now?\r").unwrap();
    again.sees("\nheard: and now?\n").await.unwrap();
    again.press("/resume\r").unwrap();
    let shown = again.sees("4 of 4, main").await.unwrap();
    assert!(shown.contains("▌  The winter price list "), "{shown}");
    again.press("\x1b").unwrap();
    again.until("the list is gone", |text| !text.contains("4 of 4")).await.unwrap();
    leave(again).await;
    assert_eq!(play.history("main", "main").await.len(), 2, "only the summer");
}

#[tokio::test]
async fn channel_chat_completes_files_of_the_agent_and_sends_their_names() {
    let stage = Stage::new().await;
    stage.write("teams/main/work/prices.toml", "a = 1\n");
    stage.write("teams/main/work/prices-2025.toml", "a = 2\n");
    stage.write("teams/main/work/docs/year.md", "# 2025\n");
    stage.model.push(Reply::say("compared"));
    let play = stage.up().await;
    let mut terminal = chat(&stage, &[], 80, 24);
    terminal.sees("/help for commands").await.unwrap();
    terminal.press("Compare @pri\t").unwrap();
    let shown = terminal.sees("› Compare @prices\n").await.unwrap();
    assert!(shown.contains("  @prices-2025.toml  6 B"), "{shown}");
    terminal.press("\t").unwrap();
    terminal.sees("› Compare @prices-2025.toml").await.unwrap();
    terminal.press(" with @d\t").unwrap();
    terminal.sees(" with @docs/").await.unwrap();
    terminal.press("y\t").unwrap();
    terminal.sees(" with @docs/year.md").await.unwrap();
    terminal.press("and @../\t\r").unwrap();
    terminal.sees("\ncompared\n").await.unwrap();
    leave(terminal).await;
    let said = play.history("main", "main").await;
    let text = "Compare @prices-2025.toml with @docs/year.md and @../";
    assert_eq!(said[0]["content"], serde_json::json!([{"type": "text", "text": text}]));
}

//! `skep tour`: a team at work, shown step by step: delegation, a question, an approval.
//! It uses the routes that everybody has; where the hive comes from is the caller's part.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use skep_core::visible::bounded_text;
use tokio::time::{Instant, sleep};

use super::agent::CreatedAgents;
use super::approve;
use crate::failure::{Exit, Failure};
use crate::hive::{Client, Globals, escaped, with_query};
use crate::print::{Tone, foreign, items, output, table, text, toned};

const ATTEMPTED: &str = "show the tour";
pub const SESSION: &str = "tour";
const QUESTIONS: &str = "/api/v1/questions";
const APPROVALS: &str = "/api/v1/approvals?limit=200";
/// Without any progress of the agents.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
/// Characters of a task or a result.
const SHOWN: usize = 200;

#[derive(Args)]
#[command(after_help = "Examples:
  skep tour                 with the running hive, or a temporary one
  skep tour --yes           answer and approve without asking; no terminal is needed

A team handles a request: one agent gives work to others, asks you a question, and waits for an
approval. Everything stands on the dashboard too; the tour prints a link, unless --yes plays with a
temporary hive. The rehearsal model plays the agents: no key, no cost. At its end the tour removes
what it made.")]
pub struct TourArgs {
    /// Answer and approve without asking
    #[arg(long)]
    pub yes: bool,
}

/// What the tour plays with.
pub struct TourStage {
    /// Names the hive in the commands that are shown.
    pub globals: Globals,
    /// Which hive it is, for people.
    pub place: String,
    /// How the team came to be, as a command.
    pub command: String,
    pub team: CreatedAgents,
    pub workspace: PathBuf,
    /// Asks the person at the terminal.
    pub asks: bool,
    /// The hive is gone when the tour is over.
    pub temporary: bool,
}

/// Plays the tour with a hive that runs.
pub async fn play(stage: TourStage) -> Result<(), Failure> {
    let client = Client::open(&stage.globals)?;
    let (seen, approved) = (HashSet::new(), Vec::new());
    let mut tour = Tour { stage: &stage, client: &client, seen, approved, scenes: 0 };
    tour.show_hive().await?;
    tour.show_team()?;
    let root = tour.send().await?;
    tour.follow(&root).await?;
    tour.show_answer(&root).await
}

struct Tour<'a> {
    stage: &'a TourStage,
    client: &'a Client,
    /// Tasks, ends of tasks and decisions that were shown.
    seen: HashSet<String>,
    /// Files whose change was approved.
    approved: Vec<String>,
    scenes: usize,
}

impl Tour<'_> {
    async fn show_hive(&mut self) -> Result<(), Failure> {
        self.scene("The hive");
        say(&self.stage.place);
        if !self.lasts() {
            return Ok(());
        }
        let wanted = json!({ "role": "operator" });
        let link = self.client.submit("/api/v1/links", &wanted, "make a sign-in link").await?;
        say("dashboard, this link works once:");
        say(text(&link["link"]));
        say("open it now, if you like: everything below is shown there too");
        self.pause("   Enter goes on ")
    }

    fn show_team(&mut self) -> Result<(), Failure> {
        self.scene("A team");
        say(format!("made with: {}", self.stage.command));
        let agents = &self.stage.team.agents;
        let rows = agents.iter().map(|agent| [agent.name.clone(), agent.about.clone()]);
        table(["agent", "what it is for"], rows).into_iter().for_each(say);
        say("each agent is a folder with settings, rules and skills; this one leads the others:");
        say(agents.first().map_or_else(String::new, |lead| lead.folder.display().to_string()));
        self.see("skep agent list", "Team");
        self.pause("   Enter goes on ")
    }

    /// The request; the id of its item.
    async fn send(&mut self) -> Result<String, Failure> {
        self.scene("Delegation");
        let request = self.stage.team.request.as_deref().unwrap_or_default();
        say(format!("you to {}: {}", self.lead(), toned(request, Tone::Strong)));
        let path = format!("/api/v1/agents/{}/messages", escaped(self.lead()));
        let body = json!({ "message": request, "session_key": SESSION });
        let receipt = self.client.submit(&path, &body, ATTEMPTED).await?;
        Ok(text(&receipt["item_id"]))
    }

    /// Shows what happens until nothing is open any more.
    async fn follow(&mut self, root: &str) -> Result<(), Failure> {
        let mut since = Instant::now();
        let mut was_over = false;
        loop {
            let before = self.seen.len();
            let path = format!("/api/v1/inbox/{}", escaped(root));
            let item = self.client.fetch(&path, ATTEMPTED).await?;
            self.show_tasks(items(&item["chain"]));
            self.answer_questions(items(&item["chain"])).await?;
            self.decide_approvals(items(&item["approvals"])).await?;
            let ended = items(&item["chain"]).iter().all(|task| task["ended_at"].is_i64());
            let is_over = ended && !self.works().await?;
            let is_new = self.seen.len() > before;
            // Between the two answers the lead may have given work: a second look has it.
            if is_over && was_over && !is_new {
                return Ok(());
            }
            was_over = is_over;
            if is_new {
                since = Instant::now();
            }
            if since.elapsed() > PATIENCE {
                let why = format!("nothing has happened for {} s", PATIENCE.as_secs());
                return Err(self.failed(why, root));
            }
            sleep(LOOK).await;
        }
    }

    /// Whether the lead has something to do or to come.
    async fn works(&self) -> Result<bool, Failure> {
        let parts = [("agent", Some(self.lead().to_owned())), ("limit", Some("100".to_owned()))];
        let page = self.client.fetch(&with_query("/api/v1/inbox", parts), ATTEMPTED).await?;
        let open = |item: &Value| {
            matches!(item["state"].as_str(), Some("pending" | "running" | "waiting"))
        };
        Ok(items(&page["items"]).iter().any(open))
    }

    fn show_tasks(&mut self, chain: &[Value]) {
        for task in chain.iter().filter(|task| task["agent"] != "operator") {
            let id = text(&task["item_id"]);
            let (from, to) = (text(&task["from"]), text(&task["agent"]));
            if self.seen.insert(format!("begun {id}")) {
                say(format!("{from} gives work to {to}: {}", shortened(&task["preview"])));
            }
            if !task["ended_at"].is_i64() || !self.seen.insert(format!("ended {id}")) {
                continue;
            }
            match task["state"] == "done" {
                true => say(format!("{to} answers {from}: {}", shortened(&task["result"]))),
                false => say(format!("{to} did not do it: {}", text(&task["code"]))),
            }
        }
    }

    async fn answer_questions(&mut self, chain: &[Value]) -> Result<(), Failure> {
        let list = self.client.fetch(QUESTIONS, ATTEMPTED).await?;
        for asked in items(&list["questions"]) {
            let is_ours = chain.iter().any(|task| task["item_id"] == asked["id"]);
            if is_ours && self.seen.insert(format!("asked {}", text(&asked["id"]))) {
                self.answer(asked).await?;
            }
        }
        Ok(())
    }

    async fn answer(&mut self, asked: &Value) -> Result<(), Failure> {
        self.scene("A question");
        let options: Vec<String> = items(&asked["options"]).iter().map(text).collect();
        let words = toned(&text(&asked["text"]), Tone::Strong);
        say(format!("{} asks you: {words}", text(&asked["agent"])));
        for (number, option) in options.iter().enumerate() {
            say(format!("  {}  {option}", number + 1));
        }
        self.see("skep ask", "Home");
        let prompt = "   a number, or your own words (Enter: it was answered elsewhere): ";
        let typed = loop {
            let typed = match (self.stage.asks, options.first()) {
                (true, _) => output::ask(prompt).ok_or_else(input_ended)?,
                (false, Some(first)) => first.clone(),
                (false, None) => "yes".to_owned(),
            };
            if !typed.is_empty() || !self.is_open(QUESTIONS, "questions", asked).await? {
                break typed;
            }
        };
        let number = typed.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let answer = match number.and_then(|at| options.get(at)) {
            Some(option) => json!({ "options": [option] }),
            None if options.contains(&typed) => json!({ "options": [typed] }),
            None if typed.is_empty() => return Ok(()),
            None => json!({ "answer": typed }),
        };
        let path = format!("/api/v1/questions/{}/answer", escaped(&text(&asked["id"])));
        match self.client.post(&path, &answer, None).await {
            Ok(_) => {
                let words = answer["options"][0].as_str().or(answer["answer"].as_str());
                say(format!("you: {}", foreign(words.unwrap_or_default())));
            }
            // Somebody else was faster.
            Err(error) => say(error.to_string()),
        }
        Ok(())
    }

    /// `chain`: the approvals of this request. What others have the agents do is not decided here.
    async fn decide_approvals(&mut self, chain: &[Value]) -> Result<(), Failure> {
        if chain.iter().all(|approval| approval["state"] != "open") {
            return Ok(());
        }
        let list = self.client.fetch(APPROVALS, ATTEMPTED).await?;
        for asked in items(&list["approvals"]) {
            let is_ours = chain.iter().any(|approval| approval["id"] == asked["id"]);
            if is_ours && self.seen.insert(format!("approval {}", text(&asked["id"]))) {
                self.decide(asked).await?;
            }
        }
        Ok(())
    }

    async fn decide(&mut self, asked: &Value) -> Result<(), Failure> {
        self.scene("An approval");
        say(toned(&foreign(&approve::title(asked)), Tone::Strong));
        for line in approve::call(asked) {
            say(format!("  {}", foreign(&line)));
        }
        say(format!("why it waits: {}", text(&asked["why"]["why"])));
        self.see("skep approve", "Approvals");
        let decision = loop {
            let prompt = "   approve? [y]es once, [n]o (Enter: it was decided elsewhere): ";
            let typed = match self.stage.asks {
                true => output::ask(prompt).ok_or_else(input_ended)?,
                false => "y".to_owned(),
            };
            match typed.as_str() {
                "y" | "yes" => break "approve",
                "n" | "no" => break "deny",
                "" => {
                    if !self.is_open(APPROVALS, "approvals", asked).await? {
                        return Ok(());
                    }
                }
                other => say(format!("{} is none of these", foreign(other))),
            }
        };
        let path = format!("/api/v1/approvals/{}/decision", escaped(&text(&asked["id"])));
        let body = json!({ "decision": decision, "hash": asked["hash"] });
        match self.client.post(&path, &body, None).await {
            Ok(_) if decision == "approve" => {
                self.approved.extend(asked["arguments"]["file_path"].as_str().map(str::to_owned));
                say("you: approved, this call only");
            }
            Ok(_) => say("you: denied"),
            Err(error) => say(error.to_string()),
        }
        Ok(())
    }

    /// Whether it still waits for the person, who is told so.
    async fn is_open(&self, path: &str, list: &str, asked: &Value) -> Result<bool, Failure> {
        let page = self.client.fetch(path, ATTEMPTED).await?;
        let is_open = items(&page[list]).iter().any(|it| it["id"] == asked["id"]);
        if is_open {
            say("it still waits for you");
        }
        Ok(is_open)
    }

    async fn show_answer(&mut self, root: &str) -> Result<(), Failure> {
        self.scene("The answer");
        let path = format!("/api/v1/agents/{}/history", escaped(self.lead()));
        let parts = [("session_key", Some(SESSION.to_owned())), ("limit", Some("20".to_owned()))];
        let page = self.client.fetch(&with_query(&path, parts), ATTEMPTED).await?;
        let said = items(&page["messages"]).iter().filter(|row| row["role"] == "assistant");
        let words = said.flat_map(|row| items(&row["content"]));
        let Some(words) = words.filter_map(|it| it["text"].as_str()).next_back() else {
            return Err(self.failed("the agent has said nothing", root));
        };
        say(format!("{}: {}", self.lead(), toned(&foreign(words), Tone::Strong)));
        let workspace = &self.stage.workspace;
        if let Some(file) = self.approved.iter().find(|file| !workspace.join(file).is_file()) {
            let why = format!("{file} was approved, and is not in {}", workspace.display());
            return Err(self.failed(why, root));
        }
        if self.lasts() {
            say(format!("files of the team: {}", workspace.display()));
        }
        self.see(&format!("skep history show {} --session {SESSION}", self.lead()), "Chat");
        self.see(&format!("skep task show {root}"), "Work");
        self.see("skep audit list", "Log & audit");
        self.pause("   Enter ends the tour ")
    }

    /// The hive is there for whoever reads: it is told where to look.
    fn lasts(&self) -> bool {
        self.stage.asks || !self.stage.temporary
    }

    fn failed(&self, why: impl Into<String>, root: &str) -> Failure {
        let failure = Failure::new(Exit::Failed, ATTEMPTED, why);
        match self.stage.temporary {
            true => failure,
            false => failure.next(format!("skep task show {root}")),
        }
    }

    fn lead(&self) -> &str {
        self.stage.team.agents.first().map_or("", |lead| &lead.name)
    }

    fn scene(&mut self, title: &str) {
        self.scenes += 1;
        output::line("");
        output::line(toned(&format!("{}  {title}", self.scenes), Tone::Strong));
    }

    /// Where the same can be looked up.
    fn see(&self, command: &str, page: &str) {
        if !self.lasts() {
            return;
        }
        let command = self.stage.globals.commands(command);
        say(toned(&format!("see: {command}, or {page} on the dashboard"), Tone::Faint));
    }

    fn pause(&self, prompt: &str) -> Result<(), Failure> {
        match self.stage.asks {
            true => output::ask(prompt).map(drop).ok_or_else(input_ended),
            false => Ok(()),
        }
    }
}

fn say(line: impl AsRef<str>) {
    output::line(format!("   {}", line.as_ref()).trim_end());
}

/// Words of an agent on one line.
fn shortened(words: &Value) -> String {
    let words = words.as_str().unwrap_or_default().replace('\n', " ");
    foreign(&bounded_text(&words, SHOWN))
}

fn input_ended() -> Failure {
    Failure::new(Exit::Failed, ATTEMPTED, "the input ended").next("skep tour --yes")
}

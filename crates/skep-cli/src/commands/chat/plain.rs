//! The conversation through pipes: a message per line in, answers as plain text out; or, for
//! programs, every frame as a line of JSON.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;
use skep_guard::random;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::time::{Instant, timeout_at};

use super::commands::{self, LocalCommand};
use super::connection::{ChatCommand, ChatConnection, ChatUpdate, speaks_of};
use super::questions;
use crate::failure::{Exit, Failure};
use crate::hive::{Globals, tell_approval};
use crate::print::outcome;
use crate::print::output::{self, foreign};

/// How long the end of a turn may arrive after its answer.
const LAST_EVENTS: Duration = Duration::from_secs(2);

pub struct PlainChat<'a> {
    connection: ChatConnection,
    /// Frames as JSON instead of text.
    globals: &'a Globals,
    /// Print a prompt: a person types here.
    prompt: bool,
    /// The turn whose end came last.
    ended_turn: Value,
    /// Approvals and questions that were named.
    named: HashSet<String>,
}

impl<'a> PlainChat<'a> {
    pub fn new(connection: ChatConnection, globals: &'a Globals, prompt: bool) -> Self {
        Self { connection, globals, prompt, ended_turn: Value::Null, named: HashSet::new() }
    }

    /// One message and its answer; else a message per line until the end, where a line that ends
    /// with a backslash goes on in the next.
    pub async fn run(mut self, message: Option<String>) -> Result<(), Failure> {
        if let Some(text) = message {
            return self.ask(text).await;
        }
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let (mut asked, mut failed) = (0, 0);
        while let Some(text) = self.next(&mut lines).await? {
            if text.trim().is_empty() {
                continue;
            }
            if commands::local(&text) == Some(LocalCommand::Quit) {
                break;
            }
            asked += 1;
            if let Err(failure) = self.ask(text).await {
                failed += 1;
                output::note(format!("skep: {failure}"));
                if failure.exit != Exit::Failed || self.connection.commands.is_closed() {
                    return Err(failure);
                }
            }
        }
        match failed {
            0 => Ok(()),
            _ => {
                let why = format!("{failed} of {asked} messages ended without an answer");
                Err(Failure::new(Exit::Failed, "answer everything", why))
            }
        }
    }

    async fn next(
        &mut self,
        lines: &mut Lines<BufReader<Stdin>>,
    ) -> Result<Option<String>, Failure> {
        let mut text = String::new();
        loop {
            if self.prompt {
                output::piece("> ");
            }
            let line = loop {
                tokio::select! {
                    line = lines.next_line() => break line,
                    // Updates are read while waiting for input, so that the connection stays open.
                    Some(update) = self.connection.updates.recv() => drop(self.show(update)?),
                }
            };
            let line = line.map_err(|error| {
                Failure::new(Exit::Usage, "read a message", format!("standard input: {error}"))
            })?;
            let Some(line) = line else { return Ok((!text.is_empty()).then_some(text)) };
            match line.strip_suffix('\\') {
                Some(line) => text = text + line + "\n",
                None => return Ok(Some(text + &line)),
            }
        }
    }

    async fn ask(&mut self, text: String) -> Result<(), Failure> {
        let id = random::uuid().to_string();
        let command = ChatCommand::Say { id: id.clone(), text };
        // Without a listener the connection is over, and an update says so.
        let _ = self.connection.commands.send(command).await;
        while let Some(update) = self.connection.updates.recv().await {
            let Some(frame) = self.show(update)? else { continue };
            let ends = frame["type"] == "response" || frame["type"] == "error";
            if ends && speaks_of(&frame, &id) {
                self.see_out(&frame).await?;
                return self.finish(&frame);
            }
        }
        let why = "the connection ended";
        Err(Failure::new(Exit::Failed, "get an answer", why).next("skep chat"))
    }

    /// An answer may arrive before the last events of its turn; with `--json` those are printed
    /// too.
    async fn see_out(&mut self, answer: &Value) -> Result<(), Failure> {
        let until = Instant::now() + LAST_EVENTS;
        while self.globals.json && answer["turn"].is_string() && answer["turn"] != self.ended_turn {
            let Ok(Some(update)) = timeout_at(until, self.connection.updates.recv()).await else {
                break;
            };
            self.show(update)?;
        }
        Ok(())
    }

    /// Prints what is due at once; returns a frame.
    fn show(&mut self, update: ChatUpdate) -> Result<Option<Value>, Failure> {
        match update {
            ChatUpdate::Frame(frame) => {
                if self.globals.json {
                    output::json(&frame);
                }
                let event = &frame["event"];
                if event["type"] == "model_retry" && !self.globals.json {
                    let words = outcome::retry(event, event["at"].as_i64().unwrap_or(0));
                    output::note(format!("skep: {words}"));
                }
                if frame["event"]["type"] == "turn_end" {
                    self.ended_turn = frame["event"]["turn"].clone();
                }
                return Ok(Some(frame));
            }
            ChatUpdate::Lost { why } => {
                let why = foreign(&why);
                output::note(format!("skep: the connection is lost ({why}); trying again"));
            }
            ChatUpdate::Back => output::note("skep: connected again; nothing was lost"),
            ChatUpdate::Ended(failure) => return Err(failure),
            ChatUpdate::Questions(open) => {
                for question in open.iter().filter(|_| !self.globals.json) {
                    if self.named.insert(question["id"].to_string()) {
                        tell_approval(self.globals, question);
                    }
                }
            }
            ChatUpdate::Asked(open) => {
                for question in open.iter().filter(|_| !self.globals.json) {
                    if self.named.insert(question["id"].to_string()) {
                        output::note(self.globals.commands(&questions::notice(question)));
                    }
                }
            }
            ChatUpdate::Opened { .. }
            | ChatUpdate::Rows(_)
            | ChatUpdate::Read(..)
            | ChatUpdate::Told(_) => {}
        }
        Ok(None)
    }

    fn finish(&self, frame: &Value) -> Result<(), Failure> {
        if frame["type"] == "response" {
            if !self.globals.json {
                output::line(foreign(frame["content"].as_str().unwrap_or_default()));
                outcome::incomplete(&frame["stop_reason"]).into_iter().for_each(output::note);
            }
            return Ok(());
        }
        let text = frame["error"].as_str().unwrap_or("no reason was given");
        let code = frame["code"].as_str().unwrap_or("?");
        let why = format!("{} ({code})", foreign(text));
        Err(Failure::new(Exit::Failed, "get an answer", why))
    }
}

//! The conversation through pipes: a message per line in, answers as plain text out; or, for
//! programs, every frame as a line of JSON.

use std::time::Duration;

use serde_json::Value;
use skep_guard::random;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::time::{Instant, timeout_at};

use super::commands::{self, Local};
use super::connection::{Connection, News, Order, speaks_of};
use crate::failure::{Exit, Failure};
use crate::print::output::{self, foreign};

/// How far the end of a turn may be behind its answer.
const LAST_EVENTS: Duration = Duration::from_secs(2);

pub struct Plain {
    pub connection: Connection,
    /// Frames as JSON instead of text.
    pub json: bool,
    /// A person types here; shown where to.
    pub prompt: bool,
    /// The turn whose end was told last.
    pub ended_turn: Value,
}

impl Plain {
    /// One message and its answer.
    pub async fn once(mut self, text: String) -> Result<(), Failure> {
        self.ask(text).await
    }

    /// A message per line until the end; a line that ends with a backslash goes on in the next.
    pub async fn converse(mut self) -> Result<(), Failure> {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let (mut asked, mut failed) = (0, 0);
        while let Some(text) = self.next(&mut lines).await? {
            if text.trim().is_empty() {
                continue;
            }
            if commands::local(&text) == Some(Local::Quit) {
                break;
            }
            asked += 1;
            if let Err(failure) = self.ask(text).await {
                failed += 1;
                output::note(format!("skep: {failure}"));
                if failure.exit != Exit::Failed || self.connection.orders.is_closed() {
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
                    // Taken all the time: a line that nobody reads breaks.
                    Some(news) = self.connection.news.recv() => drop(self.show(news)?),
                }
            };
            let line = line.map_err(|error| {
                Failure::new(Exit::Usage, "read a message", format!("standard input: {error}"))
            })?;
            let Some(line) = line else {
                return Ok((!text.is_empty()).then_some(text));
            };
            match line.strip_suffix('\\') {
                Some(line) => text = text + line + "\n",
                None => return Ok(Some(text + &line)),
            }
        }
    }

    async fn ask(&mut self, text: String) -> Result<(), Failure> {
        let id = random::uuid().to_string();
        let order = Order::Say { id: id.clone(), text };
        // Without a listener the connection is over, which its news tell.
        let _ = self.connection.orders.send(order).await;
        while let Some(news) = self.connection.news.recv().await {
            let Some(frame) = self.show(news)? else { continue };
            let ends = frame["type"] == "response" || frame["type"] == "error";
            if ends && speaks_of(&frame, &id) {
                self.see_out(&frame).await?;
                return self.told(&frame);
            }
        }
        let why = "the connection ended";
        Err(Failure::new(Exit::Failed, "get an answer", why).next("skep chat"))
    }

    /// An answer may overtake the events of its turn; whoever wants all frames gets those too.
    async fn see_out(&mut self, answer: &Value) -> Result<(), Failure> {
        let until = Instant::now() + LAST_EVENTS;
        while self.json && answer["turn"].is_string() && answer["turn"] != self.ended_turn {
            let Ok(Some(news)) = timeout_at(until, self.connection.news.recv()).await else {
                break;
            };
            self.show(news)?;
        }
        Ok(())
    }

    /// Tells what is to be told at once; gives back a frame.
    fn show(&mut self, news: News) -> Result<Option<Value>, Failure> {
        match news {
            News::Frame(frame) => {
                if self.json {
                    output::json(&frame);
                }
                let event = &frame["event"];
                if event["type"] == "approval_asked" && !self.json {
                    let text = |key: &str| foreign(event[key].as_str().unwrap_or_default());
                    let (tool, id) = (text("tool"), text("approval"));
                    output::note(format!(
                        "skep: {tool} waits for a person; see and decide with: skep approve; or: \
                         skep approve {id}, skep deny {id}"
                    ));
                }
                if frame["event"]["type"] == "turn_end" {
                    self.ended_turn = frame["event"]["turn"].clone();
                }
                return Ok(Some(frame));
            }
            News::Lost { why } => {
                let why = foreign(&why);
                output::note(format!("skep: the connection is lost ({why}); trying again"));
            }
            News::Back => output::note("skep: connected again; nothing was lost"),
            News::Ended(failure) => return Err(failure),
            News::Opened { .. } | News::Rows(_) | News::Questions(_) | News::Covers { .. } => {}
        }
        Ok(None)
    }

    fn told(&self, frame: &Value) -> Result<(), Failure> {
        if frame["type"] == "response" {
            if !self.json {
                output::line(foreign(frame["content"].as_str().unwrap_or_default()));
            }
            return Ok(());
        }
        let text = frame["error"].as_str().unwrap_or("no reason was given");
        let code = frame["code"].as_str().unwrap_or("?");
        let why = format!("{} ({code})", foreign(text));
        Err(Failure::new(Exit::Failed, "get an answer", why))
    }
}

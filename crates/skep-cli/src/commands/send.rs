//! `skep send`: a message to an agent, and on request the wait for its answer.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use skep_core::file::{FileData, IMAGE_BYTES};
use tokio::signal::ctrl_c;
use tokio::time::{Instant, sleep};

use crate::failure::{Exit, Failure};
use crate::hive::{CallError, Client, EventReader, Globals, MessageWatch, escaped};
use crate::print::outcome;
use crate::print::output::{self, foreign};

/// How long to wait for a hive that disconnected.
const RECONNECT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);
/// One round of waiting at the hive; there are as many rounds as it takes.
const ROUND: Duration = Duration::from_secs(120);
/// Upper bound for reading; the hive has its own, smaller limit.
const MESSAGE_BYTES: u64 = 16 << 20;

#[derive(Args)]
#[command(after_help = "Examples:
  skep send main \"hello\" --wait
  skep send main \"long story\" --stream
  git diff | skep send main - --wait          the message comes from standard input
  skep send main \"once\" --id job-17           sent again with the same id, it counts once
  skep send main \"what is this?\" --attach bee.png --attach notes.txt --wait

With --wait the exit code is 0 when the agent answered and 1 when the turn failed.")]
pub struct SendArgs {
    /// The agent
    agent: String,
    /// The message; - reads it from standard input
    message: String,
    /// Wait for the answer and print it
    #[arg(long)]
    wait: bool,
    /// Print the answer while it is being written, then as --wait
    #[arg(long)]
    stream: bool,
    /// Session key of the conversation
    #[arg(long, default_value = "main", value_name = "KEY")]
    session: String,
    /// Idempotency key: the same key and message are accepted only once
    #[arg(long, value_name = "KEY")]
    id: Option<String>,
    /// A picture (PNG, JPEG, GIF, WebP) or text file to go with the message; may be repeated
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
}

pub async fn run(command: SendArgs, globals: &Globals) -> Result<(), Failure> {
    if command.stream && globals.json {
        let attempted = format!("send the message to {}", command.agent);
        let why = "--stream prints text, and --json is for programs; with --json use --wait";
        return Err(Failure::new(Exit::Usage, attempted, why));
    }
    let message = if command.message == "-" { read_stdin()? } else { command.message.clone() };
    let attachments = command.attach.iter().map(|file| read_file(file));
    let attachments: Vec<Value> = attachments.collect::<Result<_, _>>()?;
    let client = Client::open(globals)?;
    let key = command.id.clone().unwrap_or_else(|| skep_guard::random::uuid().to_string());
    let mut sending = MessageSender { client: &client, command: &command, key: &key, lost: None };
    let (receipt, events) = sending.submit(&message, &attachments).await?;
    if !(command.wait || command.stream) {
        accepted(globals, &receipt);
        return Ok(());
    }
    if let Some(note) = receipt["note"].as_str() {
        output::note(foreign(note));
    }
    let item = receipt["item_id"].as_str().unwrap_or_default();
    let mut watch = MessageWatch::new(&client, globals, &command.agent);
    let end = async {
        if let Some(events) = events {
            watch.show(events).await;
        }
        tokio::select! {
            followed = sending.follow(&receipt) => followed,
            never = watch.tell_waits(item), if !globals.json => match never {},
        }
    };
    let followed = tokio::select! {
        followed = end => followed?,
        _ = ctrl_c() => {
            let why = format!("the message goes on in the hive; `skep task cancel {item}` ends it");
            let attempted = format!("wait for the answer of {}", command.agent);
            return Err(Failure::new(Exit::Failed, attempted, why)
                .headline("stopped waiting")
                .next(format!("skep task show {item}")));
        }
    };
    finish(globals, &command, &followed, &watch.shown)
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(MESSAGE_BYTES + 1).read_to_string(&mut text);
    let attempted = "read the message from standard input";
    match read {
        Ok(size) if size as u64 > MESSAGE_BYTES => {
            Err(Failure::new(Exit::Usage, attempted, "it is longer than 16 MiB"))
        }
        // The final line end from `echo` or an editor is not part of the message.
        Ok(_) => Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned()),
        Err(error) => Err(Failure::new(Exit::Usage, attempted, error.to_string())),
    }
}

/// The file as an attachment. The hive checks its type.
fn read_file(path: &Path) -> Result<Value, Failure> {
    let attempted = format!("attach {}", path.display());
    let failed = |why: String| Failure::new(Exit::Usage, &attempted, why);
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| failed("its name is no text".to_owned()))?;
    // A pipe or a device could block or never end.
    let kind = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if !kind.is_file() {
        return Err(failed("it is not a file".to_owned()));
    }
    let most = IMAGE_BYTES as u64;
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > most {
        return Err(failed(format!("it is larger than {most} bytes")));
    }
    Ok(json!({ "name": name, "data": FileData(bytes.into()) }))
}

/// The receipt, and with `--stream` what follows it.
type AcceptedMessage = (Value, Option<EventReader>);

struct MessageSender<'a> {
    client: &'a Client,
    command: &'a SendArgs,
    key: &'a str,
    /// When the hive stopped answering.
    lost: Option<Instant>,
}

impl MessageSender<'_> {
    /// Submits the message. The idempotency key makes a retry safe; it is retried only with
    /// `--wait` or `--stream`, and not if the first connection failed.
    async fn submit(&mut self, message: &str, files: &[Value]) -> Result<AcceptedMessage, Failure> {
        let mut body = json!({ "message": message, "session_key": self.command.session });
        if !files.is_empty() {
            body["attachments"] = files.into();
        }
        let waits = self.command.wait || self.command.stream;
        loop {
            match self.post(&body).await {
                Ok(accepted) => return Ok(accepted),
                Err(CallError::Unreachable { connected: false, why }) if self.lost.is_none() => {
                    return Err(self.failed(CallError::Unreachable { connected: false, why }));
                }
                Err(error) if waits && passes(&error) => self.pause(error).await?,
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    async fn post(&self, body: &Value) -> Result<AcceptedMessage, CallError> {
        let path = format!("/api/v1/agents/{}/messages", escaped(&self.command.agent));
        if !self.command.stream {
            return Ok((self.client.post(&path, body, Some(self.key)).await?, None));
        }
        let path = format!("{path}?stream=true");
        let mut events =
            EventReader::new(self.client.post_for_stream(&path, body, self.key).await?);
        let broke = || CallError::Unreachable { connected: true, why: "it broke off".to_owned() };
        let (_, receipt) = events.next().await.ok_or_else(broke)?;
        Ok((receipt, Some(events)))
    }

    /// Waits until an accepted message has ended, also across restarts of the hive.
    async fn follow(&mut self, receipt: &Value) -> Result<Value, Failure> {
        let id = receipt["item_id"].as_str().unwrap_or(self.key);
        let path = format!(
            "/api/v1/agents/{}/messages/{}?wait=true&timeout={}",
            escaped(&self.command.agent),
            escaped(id),
            ROUND.as_secs()
        );
        loop {
            let asked = Instant::now();
            match self.client.get_waiting(&path, ROUND).await {
                Ok(followed) if has_ended(&followed) => return Ok(followed),
                Ok(_) => {
                    self.lost = None;
                    sleep(PAUSE).await;
                }
                Err(CallError::Problem { status: 504, .. }) => self.lost = None,
                Err(error) if passes(&error) => {
                    self.lost = self.lost.filter(|_| !was_there(&error, asked.elapsed()));
                    self.pause(error).await?;
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    async fn pause(&mut self, error: CallError) -> Result<(), Failure> {
        let lost = *self.lost.get_or_insert_with(Instant::now);
        if lost.elapsed() < RECONNECT {
            sleep(PAUSE).await;
            return Ok(());
        }
        let why = format!(
            "{} went away and did not come back within {} s: {error}\n\
             what was accepted is kept and goes on by itself; the id is {}",
            self.client.hive,
            RECONNECT.as_secs(),
            self.key
        );
        let SendArgs { agent, .. } = self.command;
        let next = format!("skep send {agent} … --wait --id {} (the same message)", self.key);
        let attempted = format!("wait for the answer of {agent}");
        Err(Failure::new(Exit::Failed, attempted, why).next(next))
    }

    fn failed(&self, error: CallError) -> Failure {
        let unknown = matches!(error, CallError::Unreachable { connected: true, .. });
        let attempted = format!("send the message to {}", self.command.agent);
        let mut failure = self.client.failure(attempted, error);
        if unknown {
            failure.why.push_str("\nwhether the message was accepted is not known");
            let agent = &self.command.agent;
            let next = format!("skep send {agent} … --id {} (the same message)", self.key);
            failure.next = Some(next);
        }
        failure
    }
}

/// Whether a retry of the same call may succeed.
fn passes(error: &CallError) -> bool {
    matches!(error, CallError::Unreachable { .. } | CallError::Problem { status: 503, .. })
}

/// Whether the hive was back before this call failed: a restart after another has its own time.
fn was_there(error: &CallError, after: Duration) -> bool {
    !matches!(error, CallError::Unreachable { connected: false, .. }) && after > PAUSE
}

fn has_ended(followed: &Value) -> bool {
    !matches!(followed["state"].as_str(), Some("pending" | "running" | "waiting"))
}

fn accepted(globals: &Globals, receipt: &Value) {
    let text = |key: &str| receipt[key].as_str().unwrap_or("?").to_owned();
    let before = if receipt["joined"] == true { " before" } else { "" };
    let (state, id) = (text("state"), text("message_id"));
    let mut lines = vec![format!("accepted{before} ({state}), message {id}")];
    lines.extend(receipt["note"].as_str().map(foreign));
    globals.print(receipt, lines);
}

/// Prints the part of the answer that was not streamed.
fn finish(
    globals: &Globals,
    SendArgs { agent, session, .. }: &SendArgs,
    followed: &Value,
    shown: &str,
) -> Result<(), Failure> {
    if globals.json {
        output::json(followed);
    }
    let content = followed["response"]["content"].as_str();
    if followed["state"] == "done" {
        let content = content.unwrap_or_default();
        match content.trim() {
            _ if globals.json => {}
            "" => output::note("the answer is empty"),
            whole if whole != shown.trim() => output::line(foreign(content)),
            _ => {}
        }
        let incomplete = outcome::incomplete(&followed["response"]["stop_reason"]);
        incomplete.filter(|_| !globals.json).into_iter().for_each(output::note);
        return Ok(());
    }
    let state = followed["state"].as_str().unwrap_or("?");
    let text = followed["error"]["error"].as_str().unwrap_or("no reason was given");
    let code = followed["error"]["code"].as_str().unwrap_or(state);
    let attempted = format!("wait for the answer of {agent}");
    let why = format!("{} ({code})", foreign(text));
    let failure =
        Failure::new(Exit::Failed, attempted, why).headline(format!("{agent} could not answer"));
    let session = match session.as_str() {
        "main" => String::new(),
        session => format!(" --session {session}"),
    };
    Err(failure.next(format!("skep history show {agent}{session} --view full")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_after_another_has_its_own_time() {
        let away = |connected| CallError::Unreachable { connected, why: String::new() };
        let minute = Duration::from_secs(60);
        let cases = [
            (away(true), minute, true),
            (away(true), Duration::ZERO, false),
            // Nothing answered for a minute: it was not there.
            (away(false), minute, false),
        ];
        for (error, after, expected) in cases {
            assert_eq!(was_there(&error, after), expected, "{error} {after:?}");
        }
    }
}

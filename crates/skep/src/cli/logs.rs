//! `skep logs`: shows the log. For a home on this machine it reads the files, so that it also works
//! without a running hive; a remote hive is asked.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use skep_cli::hive::Globals;
use skep_cli::hive::client::{Client, with_query};
use skep_cli::print::output::{self, Tone, foreign, toned};
use skep_cli::print::time;
use skep_cli::{Exit, Failure};
use skep_core::{Millis, time as utc};
use skep_guard::clock;
use skep_runtime::logs::{self, LogLevel, LogLine, LogPage, LogPlace, LogQuery};

const ATTEMPTED: &str = "read the log";
/// Polling interval for new lines.
const PAUSE: Duration = Duration::from_millis(300);

#[derive(Args)]
#[command(after_help = "Examples:
  skep logs                       the last 100 lines
  skep logs -f --agent main       what one agent does, as it happens
  skep logs --level warn --since 2h
  skep logs --turn 0199c1d2-… --json")]
pub struct LogsArgs {
    /// Keep showing new lines as they are written
    #[arg(short, long)]
    follow: bool,
    /// This level and above: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL")]
    level: Option<LogLevel>,
    /// Lines about this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Lines about this turn: its id, or the beginning of it
    #[arg(long, value_name = "ID")]
    turn: Option<String>,
    /// Lines since a time (2026-02-03T04:05:06Z) or of the last 30s, 15m, 2h, 7d
    #[arg(long, value_name = "WHEN", value_parser = when)]
    since: Option<Millis>,
    /// How many of the newest lines
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    lines: u16,
}

/// Where lines come from.
enum LogSource {
    Folder(std::path::PathBuf),
    Hive(Client),
}

pub async fn run(command: LogsArgs, globals: &Globals) -> Result<(), Failure> {
    let source = match &globals.url {
        Some(_) => LogSource::Hive(Client::open(globals)?),
        None => {
            let home = globals.home()?;
            if !home.logs().is_dir() {
                let why = format!("there is no log in {}", home.root().display());
                return Err(Failure::new(Exit::Failed, ATTEMPTED, why).next("skep up"));
            }
            LogSource::Folder(home.logs())
        }
    };
    let mut query = LogQuery {
        level: command.level,
        agent: command.agent,
        turn: command.turn,
        since: command.since,
        limit: usize::from(command.lines),
        after: None,
    };
    loop {
        let page = source.read(&query).await?;
        for line in &page.lines {
            show(line, globals.json);
        }
        if !command.follow || output::reader_left() {
            return Ok(());
        }
        let whole = page.lines.len() == logs::MOST_LINES;
        query.after = page.next.or(query.after);
        query.limit = logs::MOST_LINES;
        if !whole {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl LogSource {
    async fn read(&self, query: &LogQuery) -> Result<LogPage, Failure> {
        match self {
            Self::Folder(folder) => logs::read(folder, query).map_err(|error| {
                let why = format!("{}: {error}", folder.display());
                Failure::new(Exit::Failed, ATTEMPTED, why).next("skep doctor")
            }),
            Self::Hive(client) => {
                let answer = client.fetch(&path(query), ATTEMPTED).await?;
                page_of(answer).ok_or_else(|| {
                    Failure::new(Exit::Failed, ATTEMPTED, "the answer is not a page of log lines")
                })
            }
        }
    }
}

fn path(query: &LogQuery) -> String {
    let parts = [
        ("limit", Some(query.limit.to_string())),
        ("level", query.level.map(|level| format!("{level:?}").to_lowercase())),
        ("agent", query.agent.clone()),
        ("turn", query.turn.clone()),
        ("since", query.since.map(|since| since.to_string())),
        ("after", query.after.map(|place| place.to_string())),
    ];
    with_query("/api/v1/logs", parts)
}

fn page_of(mut answer: Value) -> Option<LogPage> {
    let lines: Vec<LogLine> = serde_json::from_value(answer["lines"].take()).ok()?;
    let next = answer["next"].as_str().and_then(|place| place.parse::<LogPlace>().ok());
    Some(LogPage { lines, next })
}

fn show(line: &LogLine, json: bool) {
    if json {
        if let Ok(value) = serde_json::to_value(line) {
            output::json(&value);
        }
        return;
    }
    output::line(text_of(line));
}

fn text_of(line: &LogLine) -> String {
    let tone = match line.level.as_str() {
        "ERROR" | "WARN" => Tone::Bad,
        _ => Tone::Good,
    };
    let level = toned(&format!("{:5}", line.level), tone);
    let at = utc::parse(&line.time).map(time::stamp).unwrap_or_else(|| foreign(&line.time));
    let mut text = format!("{} {level} {}", toned(&at, Tone::Faint), foreign(&line.message));
    let places = [
        ("agent", &line.agent),
        ("session", &line.session),
        ("turn", &line.turn),
        ("tool", &line.tool),
    ];
    for (name, value) in places {
        if let Some(value) = value {
            text.push_str(&format!(" {name}={}", foreign(value)));
        }
    }
    for (name, value) in &line.more {
        let value = value.as_str().map_or_else(|| value.to_string(), foreign);
        text.push_str(&format!(" {}={value}", foreign(name)));
    }
    text
}

/// Parses a time, or a span before now.
fn when(text: &str) -> Result<Millis, String> {
    if let Some(at) = utc::parse(text) {
        return Ok(at);
    }
    let split = text.len().saturating_sub(1);
    let seconds = match text.get(split..) {
        Some("s") => 1,
        Some("m") => 60,
        Some("h") => 3600,
        Some("d") => 86_400,
        _ => 0,
    };
    let count: Option<Millis> = text.get(..split).and_then(|number| number.parse().ok());
    match count.filter(|count| *count >= 0).and_then(|count| count.checked_mul(seconds * 1000)) {
        Some(span) if seconds > 0 => Ok(clock::now_ms().saturating_sub(span)),
        _ => Err("write a time like 2026-02-03T04:05:06Z, or a span like 30s, 15m, 2h, 7d".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_or_a_span() {
        assert_eq!(when("1970-01-01T00:00:01Z"), Ok(1000));
        let hour_ago = clock::now_ms() - 3_600_000;
        assert!(when("1h").is_ok_and(|at| (hour_ago..hour_ago + 60_000).contains(&at)));
        for wrong in ["", "h", "1", "-1h", "1w", "ü", "99999999999999999d"] {
            assert!(when(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_question_to_a_hive_elsewhere() {
        let query = LogQuery {
            level: Some(LogLevel::Warn),
            agent: Some("a&b".to_owned()),
            since: Some(7),
            limit: 3,
            after: "5-9".parse().ok(),
            ..LogQuery::default()
        };
        let expected = "/api/v1/logs?limit=3&level=warn&agent=a%26b&since=7&after=5-9";
        assert_eq!(path(&query), expected);
    }
}

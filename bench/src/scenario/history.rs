//! The newest page of a session, and search: neither may cost more because there is much.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::client;
use crate::hive::{self, MeasuredHive};
use crate::report::{Goal, ReportRow};
use crate::stats::{self, ms};

const LARGE: usize = 100_000;
const SMALL: usize = 10;

/// The newest 50 messages of a long session against those of a short one.
pub async fn page(bench: &Bench) -> Result<Vec<ReportRow>> {
    let hive = bench.start_hive(1).await?;
    let folder = hive::scratch()?;
    for (name, messages) in [("small", SMALL), ("large", LARGE)] {
        let file = folder.path().join(format!("{name}.jsonl"));
        write_session(&file, name, messages)?;
        hive.import(&bench.program(), &file).await?;
    }
    let http = client::http()?;
    let times = if bench.options.quick { 60 } else { 200 };
    let (mut short, mut long) = (Vec::new(), Vec::new());
    let (mut all_short, mut all_long) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds() {
        let (mut of_short, mut of_long) = (Vec::new(), Vec::new());
        for _ in 0..times {
            of_short.push(newest(&http, &hive, "small", SMALL).await?);
            of_long.push(newest(&http, &hive, "large", 50).await?);
        }
        short.push(stats::median(&of_short));
        long.push(stats::median(&of_long));
        all_short.append(&mut of_short);
        all_long.append(&mut of_long);
    }
    hive.child.stop().await?;
    let (low, high) = stats::spread(&long);
    let what = format!("newest 50 of {LARGE} messages, against a session of {SMALL}");
    let slowest = stats::percentile(&mut all_long, 0.99);
    Ok(vec![
        ReportRow::new("history_page", what, stats::median(&long), "ms")
            .floor(stats::median(&short))
            .goal(Goal::Times(1.5))
            .note(format!("over HTTP, rounds {low:.3}–{high:.3}; the floor is the short session")),
        ReportRow::new("history_page_p99", "the same, p99", slowest, "ms")
            .floor(stats::percentile(&mut all_short, 0.99))
            .note(format!("of {} pages", all_long.len())),
    ])
}

async fn newest(
    http: &reqwest::Client,
    hive: &MeasuredHive,
    name: &str,
    rows: usize,
) -> Result<f64> {
    let url = format!(
        "{}/api/v1/agents/main/history?session=bench-{name}&view=full&limit=50",
        hive.target.url
    );
    let begun = Instant::now();
    let text = get(http, hive, &url).await?;
    let took = ms(begun.elapsed());
    ensure!(text.matches("\"seq\":").count() >= rows, "a short page: {text}");
    Ok(took)
}

/// Words found among a million messages.
pub async fn search(bench: &Bench) -> Result<Vec<ReportRow>> {
    let sessions = if bench.options.full { 10 } else { 1 };
    let hive = bench.start_hive(1).await?;
    let folder = hive::scratch()?;
    for number in 0..sessions {
        let name = format!("search-{number}");
        let file = folder.path().join(format!("{name}.jsonl"));
        write_session(&file, &name, LARGE)?;
        hive.import(&bench.program(), &file).await?;
        std::fs::remove_file(&file)?;
    }
    let http = client::http()?;
    indexed(&http, &hive).await?;
    let mut times = Vec::new();
    for query in queries() {
        let url = format!("{}/api/v1/search?q={query}&limit=20", hive.target.url);
        let begun = Instant::now();
        let text = get(&http, &hive, &url).await?;
        times.push(ms(begun.elapsed()));
        let found: Value = serde_json::from_str(&text)?;
        ensure!(found["hits"].as_array().is_some_and(|hits| !hits.is_empty()), "{query}: {text}");
    }
    hive.child.stop().await?;
    let half = stats::percentile(&mut times, 0.5);
    let messages = sessions * LARGE;
    let note =
        format!("{} queries, p50 {half:.2} ms; rare, common, two words, prefix", times.len());
    let mut row = |part: f64| {
        let (key, value) = (format!("p{:.0}", part * 100.0), stats::percentile(&mut times, part));
        let what = format!("search over {messages} messages, {key}");
        ReportRow::new(format!("search_{key}"), what, value, "ms")
    };
    Ok(vec![row(0.95).goal(Goal::Most(50.0)).note(note), row(0.99)])
}

fn queries() -> impl Iterator<Item = String> {
    (0..50).flat_map(|number| {
        let rare = format!("rare{}", number * 1997 + 1);
        let common = WORDS[number % WORDS.len()];
        let other = WORDS[(number + 3) % WORDS.len()];
        [rare, common.to_owned(), format!("{common}%20{other}"), format!("rare{}*", number + 10)]
    })
}

/// Waits until everything said stands in the index.
async fn indexed(http: &reqwest::Client, hive: &MeasuredHive) -> Result<()> {
    let url = format!("{}/api/v1/search?q=rare1&limit=1", hive.target.url);
    let begun = Instant::now();
    loop {
        let found: Value = serde_json::from_str(&get(http, hive, &url).await?)?;
        if found["unindexed"].is_null() {
            return Ok(());
        }
        ensure!(begun.elapsed().as_secs() < 600, "the index does not get there: {found}");
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    }
}

async fn get(http: &reqwest::Client, hive: &MeasuredHive, url: &str) -> Result<String> {
    let token = hive.target.token.as_deref().context("no token")?;
    let response = http.get(url).bearer_auth(token).send().await?;
    let status = response.status();
    let text = response.text().await?;
    ensure!(status.is_success(), "{status} {url}: {text}");
    Ok(text)
}

const WORDS: [&str; 16] = [
    "harvest", "window", "ledger", "orchard", "signal", "copper", "meadow", "engine", "lantern",
    "harbour", "granite", "saffron", "timber", "compass", "velvet", "thunder",
];

/// A session as `skep history export` writes it: a person and an agent in turns.
fn write_session(file: &Path, name: &str, messages: usize) -> Result<()> {
    let mut text = String::new();
    for number in 1..=messages {
        let mut words = String::new();
        for at in 0..12 {
            let word = WORDS[(number * 7 + at * at * 3 + number / 11) % WORDS.len()];
            let _ = write!(words, "{word} ");
        }
        let _ = write!(words, "rare{number}");
        let line = json!({
            "type": "history", "id": format!("{name}-{number}"), "seq": number,
            "turn": format!("{name}-turn-{}", number.div_ceil(2)), "agentId": "main",
            "sessionId": format!("bench-{name}"),
            "timestamp": 1_767_225_600_000_u64 + number as u64,
            "role": if number % 2 == 1 { "user" } else { "assistant" },
            "content": [{ "type": "text", "text": words }],
        });
        text.push_str(&line.to_string());
        text.push('\n');
    }
    std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

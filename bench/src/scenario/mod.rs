//! The scenarios, in the order of the report. Floors and hive take turns inside each round.

mod against;
mod delegate;
mod fanout;
mod history;
mod idle;
mod inbox;
mod peers;
mod prompt;
mod size;
mod soak;
mod start;
mod throughput;
mod turn;

use anyhow::{Context, Result};
use serde_json::json;

use crate::bench::Bench;
use crate::options::RunOptions;
use crate::report::{self, ReportRow};

pub async fn run(options: RunOptions) -> Result<()> {
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut rows: Vec<ReportRow> = Vec::new();
    let mut bench = Bench::start(options.clone()).await?;
    macro_rules! scenario {
        ($name:literal, $measure:expr) => {
            if wanted($name) {
                eprintln!("measuring {}", $name);
                let measured = $measure.await;
                rows.extend(measured.with_context(|| format!("scenario {}", $name))?);
            }
        };
    }
    if options.against.is_some() {
        rows = against::measure(&mut bench).await.context("comparing two builds")?;
        return print(&options, &rows);
    }
    scenario!("turn", turn::one_token(&bench));
    scenario!("stream", turn::stream(&bench));
    scenario!("tools", turn::tools(&bench));
    scenario!("throughput", throughput::measure(&bench));
    scenario!("delegate", delegate::measure(&bench));
    scenario!("fanout", fanout::measure(&bench));
    scenario!("idle", idle::measure(&mut bench));
    scenario!("start", start::measure(&bench));
    scenario!("inbox", inbox::measure(&bench));
    scenario!("history", history::page(&bench));
    scenario!("search", history::search(&bench));
    scenario!("prompt", prompt::measure(&bench));
    scenario!("size", size::measure(&bench));
    if options.full {
        scenario!("soak", soak::measure(&bench));
    }
    if let Some(cache) = &options.peers {
        scenario!("peers", peers::measure(&bench, cache));
    }
    print(&options, &rows)
}

fn print(options: &RunOptions, rows: &[ReportRow]) -> Result<()> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?").to_owned();
    if options.json {
        let mut json = report::json(rows);
        json["_machine"] = json!({ "cores": cores(), "load": load });
        println!("{json:#}");
    } else {
        print!("{}", report::text(rows));
        println!("{} cores, load at the end {load}", cores());
    }
    Ok(())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}

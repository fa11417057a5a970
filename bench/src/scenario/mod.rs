//! The scenarios, in the order of the report. Floors and hive take turns inside each round.

mod against;
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

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;

use crate::Run;
use crate::child::Child;
use crate::client::Target;
use crate::hive::{self, Hive, Home};
use crate::report::{self, Row};
use crate::stats;

/// Everything that stays up during the run.
pub struct Bench {
    pub options: Run,
    pub model: Child,
    pub floor_a: Child,
    pub floor_b: Child,
    pub hive: Hive,
    /// The other build, where the run only compares two.
    before: Option<Hive>,
    _scratch: tempfile::TempDir,
}

impl Bench {
    async fn start(options: Run) -> Result<Self> {
        let model = Child::part(&["model"]).await?;
        let floor_a = Child::part(&["floor-a", &model.url]).await?;
        let scratch = hive::scratch()?;
        std::fs::write(scratch.path().join("note.txt"), "one line\n")?;
        let folder = scratch.path().to_str().context("a folder with a strange name")?.to_owned();
        let floor_b = Child::part(&["floor-b", &model.url, &folder]).await?;
        let home = Home::new(&model.url, 10)?;
        let hive = Hive::start(&options.skep, home).await?;
        Ok(Self { options, model, floor_a, floor_b, hive, before: None, _scratch: scratch })
    }

    /// Two new processes with new homes, so that the luck of one start is not taken for the
    /// build's; each is as often the first.
    pub async fn start_pair(&mut self, round: usize) -> Result<()> {
        let builds = [self.options.against.clone(), Some(self.options.skep.clone())];
        let mut pair = [None, None];
        for at in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let program = builds[at].as_ref().context("`--against` names no program")?;
            pair[at] = Some(Hive::start(program, Home::new(&self.model.url, 10)?).await?);
        }
        let [before, hive] = pair;
        let old = [self.before.take(), hive.map(|hive| std::mem::replace(&mut self.hive, hive))];
        self.before = before;
        for hive in old.into_iter().flatten() {
            hive.child.stop().await?;
        }
        Ok(())
    }

    pub fn rounds(&self) -> usize {
        match self.options {
            Run { against: Some(_), .. } => 1,
            Run { quick: true, .. } => 5,
            _ => 9,
        }
    }

    pub fn side(&self, side: Side) -> (&Child, Target) {
        match side {
            Side::A => (&self.floor_a, plain(&self.floor_a)),
            Side::B => (&self.floor_b, plain(&self.floor_b)),
            Side::Hive => hive_side(&self.hive),
            Side::Before => hive_side(self.before.as_ref().unwrap_or(&self.hive)),
        }
    }

    pub fn program(&self) -> PathBuf {
        self.options.skep.clone()
    }
}

fn hive_side(hive: &Hive) -> (&Child, Target) {
    (&hive.child, hive.target.clone())
}

fn plain(child: &Child) -> Target {
    Target { url: child.url.clone(), token: None }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    A,
    B,
    Hive,
    /// The build that `--against` names.
    Before,
}

impl Side {
    /// A hive has sessions; a floor has none.
    pub fn is_hive(self) -> bool {
        matches!(self, Self::Hive | Self::Before)
    }
}

/// Figures of one side, one value a round.
#[derive(Default)]
pub struct Rounds {
    pub time: Vec<f64>,
    pub cpu: Vec<f64>,
    /// Every turn of every round: a round alone has too few for its slowest hundredth.
    pub turns: Vec<f64>,
}

impl Rounds {
    fn append(&mut self, mut other: Self) {
        self.time.append(&mut other.time);
        self.cpu.append(&mut other.cpu);
        self.turns.append(&mut other.turns);
    }

    pub fn time(&self) -> f64 {
        stats::median(&self.time)
    }

    pub fn cpu(&self) -> f64 {
        stats::median(&self.cpu)
    }

    pub fn p99(&self) -> f64 {
        stats::percentile(&mut self.turns.clone(), 0.99)
    }

    pub fn said(&self) -> String {
        let (low, high) = stats::spread(&self.time);
        format!("{low:.3}–{high:.3}")
    }
}

pub async fn run(options: Run) -> Result<()> {
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut rows: Vec<Row> = Vec::new();
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

fn print(options: &Run, rows: &[Row]) -> Result<()> {
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

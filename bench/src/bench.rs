//! What is measured: the parts that stay up during a run, and the figures of a side of it.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::child::Child;
use crate::client::Endpoint;
use crate::hive::{self, BenchHome, MeasuredHive};
use crate::options::RunOptions;
use crate::stats;

/// Everything that stays up during the run.
pub struct Bench {
    pub options: RunOptions,
    pub model: Child,
    pub floor_a: Child,
    pub floor_b: Child,
    pub hive: MeasuredHive,
    /// The other build, where the run only compares two.
    before: Option<MeasuredHive>,
    _scratch: tempfile::TempDir,
}

impl Bench {
    pub async fn start(options: RunOptions) -> Result<Self> {
        let model = Child::part(&["model"]).await?;
        let floor_a = Child::part(&["floor-a", &model.url]).await?;
        let scratch = hive::scratch()?;
        std::fs::write(scratch.path().join("note.txt"), "one line\n")?;
        let folder = scratch.path().to_str().context("a folder with a strange name")?.to_owned();
        let floor_b = Child::part(&["floor-b", &model.url, &folder]).await?;
        let hive = MeasuredHive::start(&options.skep, BenchHome::new(&model.url, 10)?).await?;
        Ok(Self { options, model, floor_a, floor_b, hive, before: None, _scratch: scratch })
    }

    /// Two new processes with new homes, so that the luck of one start is not taken for the
    /// build's; each is as often the first.
    pub async fn start_pair(&mut self, round: usize) -> Result<()> {
        let builds = [self.options.against.clone(), Some(self.options.skep.clone())];
        let mut pair = [None, None];
        for at in if round.is_multiple_of(2) { [0, 1] } else { [1, 0] } {
            let program = builds[at].as_ref().context("`--against` names no program")?;
            pair[at] =
                Some(MeasuredHive::start(program, BenchHome::new(&self.model.url, 10)?).await?);
        }
        let [before, hive] = pair;
        let old = [self.before.take(), hive.map(|hive| std::mem::replace(&mut self.hive, hive))];
        self.before = before;
        for hive in old.into_iter().flatten() {
            hive.child.stop().await?;
        }
        Ok(())
    }

    /// Another hive of the program under measure, with a home of its own.
    pub async fn start_hive(&self, agents: usize) -> Result<MeasuredHive> {
        MeasuredHive::start(&self.options.skep, BenchHome::new(&self.model.url, agents)?).await
    }

    pub fn rounds(&self) -> usize {
        match self.options {
            RunOptions { against: Some(_), .. } => 1,
            RunOptions { quick: true, .. } => 5,
            _ => 9,
        }
    }

    pub fn side(&self, side: Side) -> (&Child, Endpoint) {
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

fn hive_side(hive: &MeasuredHive) -> (&Child, Endpoint) {
    (&hive.child, hive.target.clone())
}

fn plain(child: &Child) -> Endpoint {
    Endpoint { url: child.url.clone(), token: None }
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
    /// One value a bout where a round has several: a machine is slower and faster within a round.
    pub cpu: Vec<f64>,
    /// Every turn of every round: a round alone has too few for its slowest hundredth.
    pub turns: Vec<f64>,
}

impl Rounds {
    pub fn append(&mut self, mut other: Self) {
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

//! Measures Skep next to floors in the same run, interleaved, by the same client (see README.md).
//!
//! Every peer is a process of its own: the model, floor A, floor B, Skep. This one is the client.

mod child;
mod client;
mod floor;
mod floor_store;
mod hive;
mod model;
mod peer;
mod report;
mod scenario;
mod stats;
mod tree;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "skep-bench", about = "Measures Skep next to bare floors in the same run")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the scenarios and reports
    Run(Run),
    /// The instant model: answers at once, over the Anthropic wire
    #[command(hide = true)]
    Model,
    /// Floor A: a bare proxy from a WebSocket to the model
    #[command(hide = true)]
    FloorA { model: String },
    /// Floor B: floor A with two durable commits a turn
    #[command(hide = true)]
    FloorB { model: String, folder: PathBuf },
}

#[derive(Parser, Clone)]
pub struct Run {
    /// Fewer rounds: under five minutes
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Also 10 000 sockets, a million messages to search, and the soak
    #[arg(long)]
    pub full: bool,
    /// How long the soak takes
    #[arg(long, default_value_t = 30.0, value_name = "MINUTES")]
    pub soak_minutes: f64,
    /// JSON with one key per scenario
    #[arg(long)]
    pub json: bool,
    /// Also the peers in this folder, put there by `bench/peers/install`
    #[arg(long, value_name = "FOLDER")]
    pub peers: Option<PathBuf>,
    /// Only scenarios with this word in their name
    #[arg(long)]
    pub only: Option<String>,
    /// The program to measure
    #[arg(long, value_name = "PROGRAM")]
    pub skep: PathBuf,
    /// Only compare with this other build of the program, in ten interleaved rounds
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["full", "peers", "only"])]
    pub against: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match arguments.command {
            Command::Run(run) => scenario::run(run).await,
            Command::Model => model::serve().await,
            Command::FloorA { model } => floor::serve(model, None).await,
            Command::FloorB { model, folder } => floor::serve(model, Some(folder)).await,
        }
    })
}

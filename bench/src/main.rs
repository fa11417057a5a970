//! Measures Skep next to floors in the same run, interleaved, by the same client (see README.md).
//!
//! Every peer is a process of its own: the model, floor A, floor B, Skep. This one is the client.

mod bench;
mod child;
mod client;
mod floor;
mod floor_store;
mod hive;
mod model;
mod options;
mod peer;
mod report;
mod scenario;
mod stats;
mod tree;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use options::RunOptions;

#[derive(Parser)]
#[command(name = "skep-bench", about = "Measures Skep next to bare floors in the same run")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the scenarios and reports
    Run(RunOptions),
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

//! What a run is asked for.

use std::path::PathBuf;

use clap::Parser;

#[derive(Parser, Clone)]
pub struct RunOptions {
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

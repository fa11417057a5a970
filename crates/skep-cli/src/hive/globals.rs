//! The options of every command: which hive, and the output format.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::failure::{Exit, Failure};
use crate::hive::Home;
use crate::print::output;

/// Which hive to use, and the output format.
#[derive(Args, Clone)]
pub struct Globals {
    /// Home folder of the hive (default: $SKEP_HOME, else ~/.skep)
    #[arg(long, global = true, value_name = "FOLDER")]
    home: Option<PathBuf>,
    /// Address of a hive elsewhere; needs a token in SKEP_TOKEN
    #[arg(long, global = true, value_name = "URL")]
    pub url: Option<String>,
    /// Print JSON for programs
    #[arg(long, global = true)]
    pub json: bool,
}

impl Globals {
    pub fn home(&self) -> Result<Home, Failure> {
        Home::locate(self.home.as_deref()).map_err(|error| {
            Failure::new(Exit::Usage, "find the home folder", error.to_string())
                .next("skep --home FOLDER …")
        })
    }

    /// Prints a result: JSON for programs, lines for people.
    pub fn print(&self, result: &Value, lines: impl IntoIterator<Item = String>) {
        match self.json {
            true => output::json(result),
            false => lines.into_iter().for_each(output::line),
        }
    }
}

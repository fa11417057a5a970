//! Which hive is meant, and how it is shown: the options of every command.

use std::path::PathBuf;

use clap::Args;

use crate::failure::{Exit, Failure};
use crate::hive::Home;

/// Which hive is meant, and how it is shown.
#[derive(Args, Clone)]
pub struct Place {
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

impl Place {
    pub fn home(&self) -> Result<Home, Failure> {
        Home::locate(self.home.as_deref()).map_err(|error| {
            Failure::new(Exit::Usage, "find the home folder", error.to_string())
                .next("skep --home FOLDER …")
        })
    }
}

use std::process::ExitCode;

use skep::cli::{self, Program};
use skep::compose::{self, Extras};

fn main() -> ExitCode {
    cli::main(Program {
        known: compose::known(),
        serve: async |home, loaded| compose::serve(home, loaded, Extras::default()).await,
    })
}

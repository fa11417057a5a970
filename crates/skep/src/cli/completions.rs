//! `skep completions`: what a shell needs to complete this command line.

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};
use skep_cli::Failure;
use skep_cli::print::output;

use super::Arguments;

#[derive(Args)]
#[command(after_help = "Examples:
  skep completions bash > ~/.local/share/bash-completion/completions/skep
  skep completions zsh > ~/.zfunc/_skep          with ~/.zfunc in fpath
  skep completions fish > ~/.config/fish/completions/skep.fish")]
pub struct Completions {
    shell: Known,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Known {
    Bash,
    Zsh,
    Fish,
}

pub fn run(command: &Completions) -> Result<(), Failure> {
    let shell = match command.shell {
        Known::Bash => Shell::Bash,
        Known::Zsh => Shell::Zsh,
        Known::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "skep", &mut script);
    output::piece(&String::from_utf8_lossy(&script));
    Ok(())
}

//! `skep completions`: what a shell needs to complete this command line.

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use skep_cli::print::output;
use skep_cli::{Exit, Failure};

#[derive(Args)]
#[command(after_help = "Examples:
  skep completions bash > ~/.local/share/bash-completion/completions/skep
  skep completions zsh > ~/.zfunc/_skep          with ~/.zfunc in fpath
  skep completions fish > ~/.config/fish/completions/skep.fish")]
pub struct CompletionsArgs {
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

/// `tree` is the whole command line.
pub fn run(command: &CompletionsArgs, mut tree: Command) -> Result<(), Failure> {
    let shell: Shell = command
        .shell
        .parse()
        .map_err(|why: String| Failure::new(Exit::Usage, "write the completions", why))?;
    let mut script = Vec::new();
    generate(shell, &mut tree, "skep", &mut script);
    if shell == Shell::Fish {
        // The generator leaves the values of arguments without a name out.
        let shells = "__fish_skep_using_subcommand completions\" -f -a \"bash zsh fish\"\n";
        script.extend(format!("complete -c skep -n \"{shells}").bytes());
    }
    output::piece(&String::from_utf8_lossy(&script));
    Ok(())
}

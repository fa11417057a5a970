//! `skep config`: checks the files of a home without a hive.

use clap::Subcommand;
use serde_json::{Value, json};
use skep_cli::hive::Globals;
use skep_cli::print::output::{self, Tone, toned};
use skep_cli::{Exit, Failure};
use skep_guard::environment;

use crate::home::{CheckReport, KnownNames, check, schema};

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Check every file and list its first error
    #[command(after_help = "Examples:
  skep config check
  skep config check --home /srv/hive --json

Nothing is started or changed. The exit code is 0 without errors, else 2.")]
    Check,
    /// Print the JSON Schema of a file, or of all of them by name
    #[command(after_help = "Examples:
  skep config schema
  skep config schema providers > providers.json")]
    Schema {
        /// Which file
        #[arg(value_enum)]
        file: Option<ConfigFile>,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub enum ConfigFile {
    Skep,
    Providers,
    Channels,
    /// teams/NAME/config.yaml
    Agent,
}

impl ConfigFile {
    fn schema(self) -> &'static str {
        match self {
            Self::Skep => "skep.json",
            Self::Providers => "providers.json",
            Self::Channels => "channels.json",
            Self::Agent => "agent.json",
        }
    }
}

pub fn run(command: ConfigCommand, globals: &Globals, known: &KnownNames) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check => examine(globals, known),
        ConfigCommand::Schema { file } => {
            show_schema(globals, file);
            Ok(())
        }
    }
}

fn examine(globals: &Globals, known: &KnownNames) -> Result<(), Failure> {
    let attempted = "check the configuration";
    if globals.url.is_some() {
        let why = "it looks at a home folder, and --url names a hive elsewhere";
        return Err(Failure::new(Exit::Usage, attempted, why).next("skep status"));
    }
    let home = globals.home()?;
    if !home.root().is_dir() {
        let why = format!("{} is not there", home.root().display());
        return Err(Failure::new(Exit::Usage, attempted, why).next("skep up"));
    }
    let CheckReport { mistakes, warnings, agents } = check(&home, known, &environment::var);
    if globals.json {
        let told: Vec<Value> = mistakes
            .iter()
            .map(|mistake| {
                json!({
                    "file": mistake.file, "line": mistake.at.map(|at| at.0),
                    "column": mistake.at.map(|at| at.1), "key": mistake.key,
                    "what": mistake.what, "expected": mistake.expected,
                    "nearest": mistake.nearest, "text": mistake.to_string(),
                })
            })
            .collect();
        let ok = told.is_empty();
        output::json(&json!({ "ok": ok, "problems": told, "warnings": warnings }));
    } else {
        for mistake in &mistakes {
            output::line(format!("{}  {mistake}", toned("bad ", Tone::Bad)));
        }
        for warning in &warnings {
            output::line(format!("{}  {warning}", toned("look", Tone::Strong)));
        }
        if mistakes.is_empty() {
            let good = toned("ok  ", Tone::Good);
            output::line(format!("{good}  no errors; agents: {}", agents.join(", ")));
        }
    }
    match mistakes.len() {
        0 => Ok(()),
        count => {
            let errors = if count == 1 { "error" } else { "errors" };
            Err(Failure::new(Exit::Usage, attempted, "the first one of each file is listed above")
                .headline(format!("configuration: {count} {errors}"))
                .next("correct the files, then skep config check"))
        }
    }
}

/// Always JSON: `--json` only puts it on one line.
fn show_schema(globals: &Globals, file: Option<ConfigFile>) {
    let all = schema::all();
    let value = match file {
        Some(file) => {
            let found = all.into_iter().find(|(name, _)| *name == file.schema());
            found.map(|(_, schema)| schema).unwrap_or_default()
        }
        None => {
            let named = all.into_iter().map(|(name, schema)| (name.to_owned(), schema));
            Value::Object(named.collect())
        }
    };
    globals.print(&value, [format!("{value:#}")]);
}

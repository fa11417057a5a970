//! `skep secrets scan`: which files and rows of a home hold a key or token in the clear, and who
//! can make it void. Never shows one.

use clap::Subcommand;
use serde_json::{Value, json};
use skep_cli::hive::Globals;
use skep_cli::hive::client::Client;
use skep_cli::print::{output, table};
use skep_cli::{Exit, Failure};
use skep_guard::environment;

use crate::home::{KnownNames, load};
use crate::secret_scan;

const ATTEMPTED: &str = "look for secrets";

#[derive(Subcommand)]
pub enum SecretsCommand {
    /// List what looks like a secret, or is one of this hive, in files and rows of the home
    #[command(after_help = "Examples:
  skep secrets scan
  skep secrets scan --home /srv/hive --json

Whatever it lists was readable for whoever can read the home, its copies and backups: have it
replaced where the last column says, then remove it. The values are not shown. A hive that serves
the home does the search: it knows the values in the vault, too. keys.env is not looked at.
The exit code is 0 when nothing was found, else 1.")]
    Scan,
}

pub async fn run(_: &SecretsCommand, globals: &Globals, known: &KnownNames) -> Result<(), Failure> {
    if let Ok(client) = Client::open(globals)
        && (globals.url.is_some() || client.get("/health").await.is_ok())
    {
        let scan = client.submit("/api/v1/secrets/scan", &Value::Null, ATTEMPTED).await?;
        return show(&scan, globals);
    }
    let home = globals.home()?;
    if !home.root().is_dir() {
        let why = format!("{} is not there", home.root().display());
        return Err(Failure::new(Exit::Failed, ATTEMPTED, why).next("skep up"));
    }
    // For the values that the configuration names; without them formats are still found.
    if let Err(error) = load(&home, known, &environment::var) {
        output::note(format!("the configuration does not load; its values are unknown: {error}"));
    }
    let scan = json!(secret_scan::at_rest(&home).await);
    output::note("no hive serves this home: values in the vault were not looked for");
    show(&scan, globals)
}

fn show(scan: &Value, globals: &Globals) -> Result<(), Failure> {
    let found = scan["found"].as_array().map(Vec::as_slice).unwrap_or_default();
    if globals.json {
        output::json(scan);
    } else {
        let field = |it: &Value| output::foreign(it.as_str().unwrap_or_default());
        let row = |it: &Value| ["file", "place", "secret", "rotate"].map(|name| field(&it[name]));
        let rows: Vec<[String; 4]> = found.iter().map(row).collect();
        if !rows.is_empty() {
            let heads = ["FILE", "LINE OR ROW", "SECRET", "HAVE IT REPLACED BY"];
            table(heads, rows).into_iter().for_each(output::line);
        }
        let skipped = scan["skipped"].as_array().into_iter().flatten();
        skipped.for_each(|why| output::note(format!("not read: {}", field(why))));
    }
    match found.len() {
        0 => {
            if !globals.json {
                output::line(format!("no secrets in {} files", scan["files"]));
            }
            Ok(())
        }
        count => Err(Failure::new(Exit::Failed, ATTEMPTED, "each is listed above")
            .headline(format!("{count} secrets lie in the clear"))
            .next("have each replaced by who gave it, then remove it")),
    }
}

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
    /// List where keys, tokens and values of the vault can be read in files and rows of the home
    #[command(after_help = "Examples:
  skep secrets scan
  skep secrets scan --home /srv/hive --json

Whoever can read the home, a copy or a backup of it can read what is listed. Have each replaced by
whom the last column names, so that the old one is worth nothing, then remove it from its place.
The values are not shown. While `skep up` serves the home, values of the vault are looked for, too.
keys.env is not looked at: `skep vault move` empties it. The exit code is 0 when nothing was found,
else 1.")]
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
                output::line(format!("no secrets in {} files and the database", scan["files"]));
            }
            Ok(())
        }
        count => {
            let many = if count == 1 { "1 secret".to_owned() } else { format!("{count} secrets") };
            Err(Failure::new(Exit::Failed, ATTEMPTED, "each is listed above")
                .headline(format!("{many} can be read in plain text"))
                .next("have each replaced by whom its line names, then remove it"))
        }
    }
}

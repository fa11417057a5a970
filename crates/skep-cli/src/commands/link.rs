//! `skep link`: signs a browser in. The link works once, for ten minutes.

use clap::Args;
use serde_json::json;

use crate::failure::Failure;
use crate::hive::{Client, Globals};
use crate::print::{output, text_or_empty};

#[derive(Args)]
#[command(after_help = "Examples:
  skep link                            sign in as operator
  skep link --role viewer --name Ines  let somebody view")]
pub struct LinkArgs {
    /// What the person may do
    #[arg(long, value_parser = ["operator", "user", "viewer"], default_value = "operator")]
    role: String,
    /// Whose browser it is
    #[arg(long)]
    name: Option<String>,
}

pub async fn run(command: LinkArgs, globals: &Globals) -> Result<(), Failure> {
    let client = Client::open(globals)?;
    let wanted = json!({ "role": command.role, "name": command.name });
    let made = client.submit("/api/v1/links", &wanted, "make a sign-in link").await?;
    globals.print(&made, [text_or_empty(&made["link"])]);
    if !globals.json {
        output::note("open it within ten minutes; it works once");
    }
    Ok(())
}

//! `skep link`: signs a browser in. The link works once, for ten minutes.

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::failure::Failure;
use crate::hive::Place;
use crate::hive::client::Client;
use crate::print::output::{self, foreign};

#[derive(Args)]
#[command(after_help = "Examples:
  skep link                            sign in as operator
  skep link --role viewer --name Ines  let somebody look")]
pub struct Link {
    /// What the person may do
    #[arg(long, value_enum, default_value = "operator")]
    role: LinkRole,
    /// Whose browser it is
    #[arg(long)]
    name: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LinkRole {
    Operator,
    User,
    Viewer,
}

pub async fn run(command: Link, place: &Place) -> Result<(), Failure> {
    let client = Client::open(place)?;
    let role = match command.role {
        LinkRole::Operator => "operator",
        LinkRole::User => "user",
        LinkRole::Viewer => "viewer",
    };
    let mut wanted = json!({ "role": role });
    if let Some(name) = command.name {
        wanted["name"] = json!(name);
    }
    let made = client.post("/api/v1/links", &wanted, None).await;
    let made = made.map_err(|error| client.failure("make a sign-in link", error))?;
    if place.json {
        output::json(&made);
        return Ok(());
    }
    output::line(made["link"].as_str().map(foreign).unwrap_or_default());
    output::note("open it within ten minutes; it works once");
    Ok(())
}

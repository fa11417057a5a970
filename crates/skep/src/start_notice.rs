//! What `skep up` prints once the hive is reachable.

use std::net::SocketAddr;

use serde_json::json;
use skep_cli::hive::Home;
use skep_cli::print::output;
use skep_core::settings::AgentState;

use crate::home::{LoadedHome, NoticeForm};

/// Programs parse this line.
const LISTENING: &str = "listening on ";

/// The notice printed once the hive is reachable.
pub struct StartNotice<'a> {
    pub address: SocketAddr,
    /// Signs one browser in, once.
    pub link: &'a str,
    /// The operator token of a first start: this is the only time it is shown.
    pub token: Option<&'a str>,
}

pub fn announce(home: &Home, loaded: &LoadedHome, plate: &StartNotice) {
    let StartNotice { address, link, token } = plate;
    match loaded.notice {
        NoticeForm::People => {}
        NoticeForm::Hidden => return,
        NoticeForm::Programs => {
            return output::json(&json!({
                "listening": format!("http://{address}"),
                "pid": std::process::id(),
                "home": home.root(),
                "link": link,
                "model": loaded.settings.model_note,
                "token": token,
            }));
        }
    }
    let usual = Home::locate(None).is_ok_and(|usual| usual == *home);
    let flag = if usual { String::new() } else { format!(" --home {}", home.root().display()) };
    let agents = || loaded.settings.agents.iter();
    let able = |name: &str| {
        agents().any(|(it, state)| it.as_str() == name && matches!(state, AgentState::Active(_)))
    };
    let first = agents().map(|(name, _)| name.as_str()).find(|name| able(name));
    let first = if able("main") { Some("main") } else { first };
    let send = first.map_or_else(String::new, |name| {
        format!("send a message: skep{flag} send {name} \"hello\" --wait\n")
    });
    let mut text = format!(
        "{LISTENING}http://{address}\n\
         dashboard, this link works once: {link}\n\
         model: {}\n\
         {send}settings and files: {}",
        loaded.settings.model_note,
        home.root().display()
    );
    if let (Some(limit), Some(_)) = (loaded.settings.limits.cost_per_day, token) {
        text.push_str(&format!(
            "\nmodel calls may cost {limit} a day: limits.cost_per_day in skep.yaml"
        ));
    }
    if let Some(token) = token {
        text.push_str(&format!("\noperator token for other machines, shown this once: {token}"));
    }
    // One write: a reader of the first line has all of it.
    output::line(text);
}

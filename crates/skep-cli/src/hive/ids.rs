//! Ids may be shortened to a beginning that only one has.

use serde_json::{Value, json};

use super::client::{Client, escaped, with_query};
use super::globals::Globals;
use crate::failure::{Exit, Failure};
use crate::print::{foreign, items};

/// An id as the hive makes them has this many characters.
const WHOLE: usize = 36;
/// As many as a page may have.
const PAGE: &str = "200";
/// A decision is about one call: a slip of the finger must not be the beginning of its id.
const LEAST_OF_APPROVAL: usize = 8;
/// Also those nobody asks about any more: what meant one of them means no other.
const STATES_OF_APPROVAL: &[Option<&str>] = &[Some("open"), Some("decided"), Some("expired")];
/// Pages that are looked through for an id that was shortened.
const MOST_PAGES: usize = 50;

/// Where ids of one kind are listed.
pub struct IdList {
    path: String,
    /// The list in the answer, and the id in each of its entries.
    entries: (&'static str, &'static str),
    /// Each of these states has some of the ids; `None` has all.
    states: &'static [Option<&'static str>],
    /// Characters that a beginning has at least.
    least: usize,
    /// Shows such ids.
    shown_by: String,
}

impl IdList {
    pub fn items() -> Self {
        Self::at("/api/v1/inbox", ("items", "item_id"), "skep inbox")
    }

    pub fn turns() -> Self {
        Self::at("/api/v1/inbox", ("items", "turn"), "skep inbox")
    }

    pub fn approvals() -> Self {
        let list = Self::at("/api/v1/approvals", ("approvals", "id"), "skep approve");
        Self { states: STATES_OF_APPROVAL, least: LEAST_OF_APPROVAL, ..list }
    }

    pub fn grants() -> Self {
        Self::at("/api/v1/grants", ("grants", "id"), "skep grant list")
    }

    pub fn tokens() -> Self {
        Self::at("/api/v1/tokens", ("tokens", "id"), "skep token list")
    }

    pub fn unknown_calls() -> Self {
        Self::at("/api/v1/calls/unknown", ("calls", "turn"), "skep calls list")
    }

    pub fn questions() -> Self {
        Self::at("/api/v1/questions", ("questions", "id"), "skep ask")
    }

    fn sessions(agent: &str) -> Self {
        let path = format!("/api/v1/agents/{}/sessions", escaped(agent));
        Self::at(&path, ("sessions", "id"), &format!("skep session list {agent}"))
    }

    /// The id of a conversation of the agent, by its key, its id or a beginning of that.
    pub async fn session(client: &Client, agent: &str, given: &str) -> Result<String, Failure> {
        let path = format!("/api/v1/agents/{}/history", escaped(agent));
        let key = ("session_key", Some(given.to_owned()));
        let path = with_query(&path, [key, ("limit", Some("1".to_owned()))]);
        // What cannot be a key is refused; it may be an id all the same.
        let page = client.get(&path).await.unwrap_or_default();
        if let Some(id) = page["session"].as_str() {
            return Ok(id.to_owned());
        }
        let list = Self::sessions(agent);
        let id = list.whole(client, given).await?;
        match id.len() >= WHOLE {
            true => Ok(id),
            false => {
                let why = format!("{agent} has no conversation with this key or id");
                let failure = Failure::new(Exit::Failed, format!("find '{given}'"), why);
                Err(failure.next(list.shown_by))
            }
        }
    }

    /// Revokes the one with this id.
    pub async fn revoke(
        &self,
        client: &Client,
        globals: &Globals,
        given: &str,
    ) -> Result<(), Failure> {
        let id = self.whole(client, given).await?;
        let path = format!("{}/{}", self.path, escaped(&id));
        let kind = self.entries.0.trim_end_matches('s');
        let gone = client.delete(&path, format!("revoke the {kind} {id}")).await;
        gone.map_err(|failure| failure.or_next(&self.shown_by))?;
        globals.print(&json!({ "revoked": id }), [format!("revoked {}", foreign(&id))]);
        Ok(())
    }

    fn at(path: &str, entries: (&'static str, &'static str), shown_by: &str) -> Self {
        let (path, shown_by) = (path.to_owned(), shown_by.to_owned());
        Self { path, entries, states: &[None], least: 1, shown_by }
    }

    /// The whole id. What no id begins with is returned as it is: the hive says that it does not
    /// know it.
    pub async fn whole(&self, client: &Client, given: &str) -> Result<String, Failure> {
        if given.len() >= WHOLE {
            return Ok(given.to_owned());
        }
        let failed = |why: String| {
            let failure = Failure::new(Exit::Usage, format!("find '{given}'"), why);
            Err(failure.next(self.shown_by.clone()))
        };
        if given.is_empty() {
            return failed("the id is empty".to_owned());
        }
        if given.len() < self.least {
            return failed(format!("give {} characters of the id or more", self.least));
        }
        let mut found: Vec<String> = Vec::new();
        for state in self.states {
            self.find(client, given, *state, &mut found).await?;
        }
        found.sort();
        found.dedup();
        match found.as_slice() {
            [] => Ok(given.to_owned()),
            [only] => Ok(only.clone()),
            several => {
                let first = several.iter().take(5).map(|id| foreign(id)).collect::<Vec<_>>();
                let (count, first) = (several.len(), first.join(", "));
                let more = if count > 5 { ", …" } else { "" };
                failed(format!("{count} ids begin with {given}: {first}{more}"))
            }
        }
    }

    /// Adds the ids of a list that begin so.
    async fn find(
        &self,
        client: &Client,
        given: &str,
        state: Option<&str>,
        found: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let mut after = None;
        for _ in 0..MOST_PAGES {
            let limit = self.pages().then(|| PAGE.to_owned());
            let state = state.map(str::to_owned);
            let query = [("state", state), ("limit", limit), ("after", after)];
            let path = with_query(&self.path, query);
            let page = client.fetch(&path, format!("find {given}")).await?;
            let ids = items(&page[self.entries.0]).iter();
            let ids = ids.filter_map(|entry| entry[self.entries.1].as_str());
            found.extend(ids.filter(|id| id.starts_with(given)).map(str::to_owned));
            after = page["after"].as_str().map(str::to_owned);
            if after.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Lists that come whole take no limit.
    fn pages(&self) -> bool {
        matches!(self.entries.0, "items" | "approvals" | "sessions")
    }
}

/// The call of a turn whose outcome is unknown, by a beginning of its id.
pub fn call_of(list: &Value, turn: &str, given: &str) -> String {
    let calls = items(&list["calls"]).iter().filter(|call| call["turn"] == turn);
    let ids: Vec<&str> = calls.filter_map(|call| call["call_id"].as_str()).collect();
    let mut begun = ids.iter().filter(|id| id.starts_with(given));
    match (ids.contains(&given), begun.next(), begun.next()) {
        (false, Some(only), None) => (*only).to_owned(),
        _ => given.to_owned(),
    }
}

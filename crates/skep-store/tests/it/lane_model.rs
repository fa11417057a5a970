//! The rules of lanes said once more, slowly: plain lists, scanned anew for every answer.

use crate::lab::{
    AGENTS, AgentSeen, CHANNELS, CallSeen, FrameSeen, ItemSeen, LaneSeen, Tables, TurnSeen,
};

pub const IDLE_MS: i64 = 400;
const NORMAL: i64 = 2;

/// What a command answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    Started(Held),
    Queued { ack: String, note: Option<String>, ready: bool, ended: Option<(String, bool)> },
    Repeated(String),
    Reused,
    Ended(Option<(String, bool)>),
    Taken(Option<Held>),
    /// How many rows, and which items joined.
    Journalled(usize, Vec<String>),
    Parked(bool),
    Attempts(i64),
    More(bool),
    Count(usize),
    Done,
    Stale,
    Missing,
}

/// A lease, as far as it can differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub turn: String,
    pub token: i64,
    pub session: String,
    pub resumed: bool,
    pub cancel: Option<String>,
    pub attempts: i64,
    pub steps: i64,
}

#[derive(Clone, Debug)]
pub struct Mail {
    pub item: String,
    pub message_id: String,
    pub agent: usize,
    pub key: String,
    pub channel: Option<usize>,
    /// Scope, id, and what the body was.
    pub request: Option<(String, String, u8)>,
}

/// One entry of a journal, with its names.
#[derive(Clone, Debug)]
pub enum Doing {
    Say { id: String, calls: Vec<(String, bool)> },
    Start { call: String },
    Finish { id: String, call: String, unknown: bool },
}

#[derive(Clone, Debug)]
pub struct Item {
    pub id: String,
    pub ord: i64,
    pub lane: usize,
    pub message: bool,
    pub priority: i64,
    message_id: String,
    channel: Option<usize>,
    ack: String,
    pub state: &'static str,
    pub turn: Option<usize>,
    fresh: bool,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub id: String,
    pub safe: bool,
    pub state: &'static str,
    decided: bool,
}

impl Call {
    pub fn is_open(&self) -> bool {
        self.state != "done" && self.state != "unknown"
    }
}

#[derive(Clone, Debug)]
pub struct Turn {
    pub id: String,
    pub lane: usize,
    session: usize,
    pub token: i64,
    priority: i64,
    ord: i64,
    pub state: &'static str,
    cancel: Option<&'static str>,
    steps: i64,
    /// Rows written under the present lease.
    progress: bool,
    attempts: i64,
    at: Option<i64>,
    /// Its time has been noticed.
    woken: bool,
    waits: Option<String>,
    outcome: Option<&'static str>,
    pub calls: Vec<Call>,
}

#[derive(Clone, Debug)]
struct Lane {
    agent: usize,
    key: String,
    session: Option<usize>,
    fresh: bool,
    token: i64,
}

#[derive(Clone, Debug)]
struct Session {
    id: String,
    last_at: i64,
    rows: Vec<(String, usize)>,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub now: i64,
    ord: i64,
    served: [i64; AGENTS.len()],
    lanes: Vec<Lane>,
    pub items: Vec<Item>,
    pub turns: Vec<Turn>,
    sessions: Vec<Session>,
    frames: Vec<FrameSeen>,
    requests: Vec<(String, String, u8, usize)>,
}

/// Questions.
impl Model {
    fn lane(&mut self, agent: usize, key: &str) -> usize {
        if let Some(found) = self.find_lane(agent, key) {
            return found;
        }
        let key = key.to_owned();
        self.lanes.push(Lane { agent, key, session: None, fresh: false, token: 0 });
        self.lanes.len() - 1
    }

    fn find_lane(&self, agent: usize, key: &str) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.agent == agent && lane.key == key)
    }

    pub fn open_turn(&self, lane: usize) -> Option<usize> {
        self.turns.iter().position(|turn| turn.lane == lane && turn.state != "ended")
    }

    /// Items without a turn, best first.
    fn waiting_items(&self, lane: usize) -> Vec<usize> {
        let mut found: Vec<usize> = (0..self.items.len())
            .filter(|&n| {
                let item = &self.items[n];
                item.lane == lane && item.state == "pending" && item.turn.is_none()
            })
            .collect();
        found.sort_by_key(|&n| (self.items[n].priority, self.items[n].ord));
        found
    }

    /// Where the lane stands in the order of ready ones, or when it will.
    fn readiness(&self, lane: usize) -> (Option<(i64, i64)>, Option<i64>) {
        match self.open_turn(lane).map(|turn| &self.turns[turn]) {
            None => {
                let head = self.waiting_items(lane).first().map(|&n| &self.items[n]);
                (head.map(|item| (item.priority, item.ord)), None)
            }
            Some(turn) if turn.state == "running" => (None, None),
            Some(turn) => match turn.at {
                None if turn.state == "ready" => (Some((turn.priority, turn.ord)), None),
                None => (None, None),
                Some(_) if turn.woken => (Some((turn.priority, turn.ord)), None),
                Some(at) => (None, Some(at)),
            },
        }
    }

    /// The lane that is to be served next: agents take turns inside a priority.
    fn next_lane(&self) -> Option<usize> {
        let ready = (0..self.lanes.len()).filter_map(|n| Some((self.readiness(n).0?, n)));
        let ready: Vec<_> = ready.collect();
        let best_of_agent = |agent: usize| {
            let own = ready.iter().filter(|(_, lane)| self.lanes[*lane].agent == agent);
            own.min().map(|&((priority, _), lane)| (priority, self.served[agent], agent, lane))
        };
        (0..AGENTS.len()).filter_map(best_of_agent).min().map(|(.., lane)| lane)
    }

    pub fn holds(&self, turn: usize, token: i64) -> bool {
        self.turns[turn].state == "running" && self.turns[turn].token == token
    }

    fn repeated(&self, mail: &Mail) -> Option<Told> {
        let (scope, id, body) = mail.request.as_ref()?;
        let known = self.requests.iter().find(|known| (&known.0, &known.1) == (scope, id))?;
        match known.2 == *body {
            true => Some(Told::Repeated(self.items[known.3].id.clone())),
            false => Some(Told::Reused),
        }
    }
}

/// Commands.
impl Model {
    pub fn accept(
        &mut self,
        mail: &Mail,
        slot: Option<(&str, &str)>,
        (interrupts, steers, fresh): (bool, bool, bool),
    ) -> Told {
        if let Some(told) = self.repeated(mail) {
            return told;
        }
        let _ = steers;
        let lane = self.lane(mail.agent, &mail.key);
        let fresh = fresh || self.lanes[lane].fresh;
        let free = self.open_turn(lane).is_none();
        let first = free && self.waiting_items(lane).is_empty();
        self.ord += 1;
        self.lanes[lane].fresh = false;
        if let (true, Some(slot)) = (first, slot) {
            let item = self.add_item(mail, lane, "message", "started", fresh);
            self.served[mail.agent] = self.ord;
            return Told::Started(self.begin(lane, item, slot));
        }
        let open = self.open_turn(lane);
        let waiting = open.filter(|&turn| self.turns[turn].state == "waiting");
        let own_fresh = fresh && interrupts_waiting(mail, fresh);
        let _ = own_fresh;
        let ack = if waiting.is_some() { "waiting" } else { "queued" };
        let note = waiting.and_then(|turn| self.turns[turn].waits.clone());
        self.add_item(mail, lane, "message", ack, fresh);
        let ended = match open {
            Some(turn) if waiting.is_none() && interrupts => Some(self.cancel(turn, "interrupt")),
            _ => None,
        };
        Told::Queued { ack: ack.to_owned(), note, ready: free, ended }
    }
}

fn interrupts_waiting(_: &Mail, _: bool) -> bool {
    false
}

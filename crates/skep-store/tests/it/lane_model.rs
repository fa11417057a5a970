//! The rules of lanes said once more, slowly: plain lists, scanned anew for every answer.

mod steps;
mod tables;

use crate::lab::{AGENTS, CHANNELS, FrameSeen};

pub const IDLE_MS: i64 = 400;

/// What a command answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    Started(Held),
    Queued {
        ack: String,
        note: Option<String>,
        ready: bool,
        ended: Option<(String, bool)>,
    },
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
    Over,
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
    /// More is ready.
    pub others: bool,
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
    pub fn new(id: &str, safe: bool) -> Self {
        Self { id: id.to_owned(), safe, state: "planned", decided: false }
    }

    pub fn is_undecided(&self) -> bool {
        self.state == "waiting" && !self.decided
    }

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

impl Turn {
    pub fn waits_for_a_decision(&self) -> bool {
        self.calls.iter().any(Call::is_undecided)
    }
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
        match known.2 == *body && self.lanes[self.items[known.3].lane].agent == mail.agent {
            true => Some(Told::Repeated(self.items[known.3].id.clone())),
            false => Some(Told::Reused),
        }
    }
}

/// Commands.
impl Model {
    /// `interrupts`: the sender wants it and the engine can. `new`: it came with `/new`.
    pub fn accept(
        &mut self,
        mail: &Mail,
        slot: Option<(&str, &str)>,
        interrupts: bool,
        new: bool,
    ) -> Told {
        if let Some(told) = self.repeated(mail) {
            return told;
        }
        let lane = self.lane(mail.agent, &mail.key);
        let open = self.open_turn(lane);
        let first = open.is_none() && self.waiting_items(lane).is_empty();
        let fresh = new || self.lanes[lane].fresh;
        self.lanes[lane].fresh = false;
        self.ord += 1;
        if let (true, Some(slot)) = (first, slot) {
            if fresh {
                self.lanes[lane].session = None;
            }
            let item = self.add_item(mail, lane, "message", "started", fresh);
            self.served[mail.agent] = self.ord;
            return Told::Started(self.begin(lane, item, slot));
        }
        let waits = open.filter(|&turn| self.turns[turn].state == "waiting");
        let (ack, note) = match waits {
            Some(turn) if !new => ("waiting", self.turns[turn].waits.clone()),
            _ => ("queued", None),
        };
        self.add_item(mail, lane, "message", ack, fresh);
        let ended = match (open, waits) {
            (Some(turn), None) if interrupts => Some(self.cancel(turn, "interrupt")),
            (Some(turn), Some(_)) if new => Some(self.cancel(turn, "stop")),
            _ => None,
        };
        Told::Queued { ack: ack.to_owned(), note, ready: open.is_none(), ended }
    }

    pub fn order(&mut self, mail: &Mail, what: Order) -> Told {
        if let Some(told) = self.repeated(mail) {
            return told;
        }
        let lane = self.lane(mail.agent, &mail.key);
        let open = self.open_turn(lane);
        self.ord += 1;
        let ended = match (what, open) {
            (Order::Stop, Some(turn)) => Some(self.cancel(turn, "stop")),
            (Order::New, Some(turn)) if self.turns[turn].state == "waiting" => {
                Some(self.cancel(turn, "stop"))
            }
            _ => None,
        };
        if what == Order::New {
            let idle = open.is_none() && self.waiting_items(lane).is_empty();
            self.lanes[lane].fresh = !idle;
            if idle {
                self.lanes[lane].session = None;
            }
        }
        let item = self.add_item(mail, lane, "command", "done", false);
        let (state, kind) = match what {
            Order::Fail => ("failed", "error"),
            _ => ("done", "response"),
        };
        self.items[item].state = state;
        if let Some(channel) = mail.channel {
            self.push(channel, kind, item, vec![mail.message_id.clone()]);
        }
        Told::Ended(ended)
    }

    pub fn stop(&mut self, agent: usize, key: &str) -> Told {
        let open = self.find_lane(agent, key).and_then(|lane| self.open_turn(lane));
        Told::Ended(open.map(|turn| self.cancel(turn, "stop")))
    }

    pub fn cancel_item(&mut self, item: usize) -> Told {
        if !["pending", "running", "waiting"].contains(&self.items[item].state) {
            return Told::Over;
        }
        if let Some(turn) = self.items[item].turn {
            return Told::Ended(Some(self.cancel(turn, "stop")));
        }
        self.items[item].state = "cancelled";
        if let Some(channel) = self.items[item].channel {
            self.push(channel, "error", item, vec![self.items[item].message_id.clone()]);
        }
        Told::Ended(None)
    }

    pub fn take(&mut self, only: Option<usize>, slot: (&str, &str)) -> Told {
        let lane = match only {
            None => self.next_lane(),
            Some(turn) => {
                let idle = ["ready", "waiting"].contains(&self.turns[turn].state);
                idle.then(|| self.turns[turn].lane)
            }
        };
        let Some(lane) = lane else {
            return Told::Taken(None);
        };
        self.ord += 1;
        self.served[self.lanes[lane].agent] = self.ord;
        let mut held = match self.open_turn(lane) {
            Some(turn) => self.resume(turn),
            None => self.begin(lane, self.waiting_items(lane)[0], slot),
        };
        held.others = self.next_lane().is_some();
        Told::Taken(Some(held))
    }

    pub fn journal(&mut self, turn: usize, token: i64, doings: &[Doing], steer: bool) -> Told {
        if !self.holds(turn, token) {
            return Told::Stale;
        }
        let before = self.clone();
        let Some(rows) = self.write(turn, doings) else {
            *self = before;
            return Told::Missing;
        };
        let mut joined = Vec::new();
        if steer && self.turns[turn].cancel.is_none() {
            for item in self.waiting_items(self.turns[turn].lane).into_iter().take(32) {
                if self.items[item].fresh {
                    break;
                }
                self.items[item].state = "running";
                self.items[item].turn = Some(turn);
                joined.push(self.items[item].id.clone());
                self.append(turn, self.items[item].id.clone());
            }
        }
        Told::Journalled(rows, joined)
    }

    pub fn park(&mut self, turn: usize, token: i64, calls: &[String], at: Option<i64>) -> Told {
        if !self.holds(turn, token) {
            return Told::Stale;
        }
        let named = |call: &&mut Call| calls.contains(&call.id);
        if self.turns[turn].calls.iter_mut().filter(named).any(|call| !call.is_open()) {
            return Told::Missing;
        }
        let mut goes_on = self.turns[turn].cancel.is_some();
        for call in self.turns[turn].calls.iter_mut().filter(named) {
            call.decided &= call.state == "waiting";
            call.state = "waiting";
            goes_on |= call.decided;
        }
        self.turns[turn].attempts = 0;
        if goes_on {
            self.ready(turn, None);
            return Told::Parked(false);
        }
        let now = self.now;
        let parked = &mut self.turns[turn];
        (parked.state, parked.at, parked.waits) = ("waiting", at, Some("a person".to_owned()));
        parked.woken = at.is_some_and(|at| at <= now);
        self.set_items(turn, "waiting");
        Told::Parked(true)
    }

    pub fn release(&mut self, turn: usize, token: i64, at: Option<i64>, counts: bool) -> Told {
        if !self.holds(turn, token) {
            return Told::Stale;
        }
        self.turns[turn].attempts += i64::from(counts);
        let at = at.filter(|_| self.turns[turn].cancel.is_none());
        self.ready(turn, at);
        Told::Attempts(self.turns[turn].attempts)
    }

    pub fn close(
        &mut self,
        turn: usize,
        token: i64,
        doings: &[Doing],
        (state, outcome): (&'static str, &'static str),
    ) -> Told {
        if !self.holds(turn, token) {
            return Told::Stale;
        }
        let before = self.clone();
        if self.write(turn, doings).is_none() {
            *self = before;
            return Told::Missing;
        }
        // What the last entries did to the attempts of an ended turn is nobody's business.
        self.turns[turn].attempts = before.turns[turn].attempts;
        self.turns[turn].state = "ended";
        self.turns[turn].outcome = Some(outcome);
        self.set_items(turn, state);
        for channel in 0..CHANNELS.len() {
            let own = |item: &&Item| item.turn == Some(turn) && item.channel == Some(channel);
            let to: Vec<_> = self.items.iter().filter(own).collect();
            if let Some(first) = to.first() {
                let first = self.items.iter().position(|item| item.id == first.id).unwrap();
                let to = to.iter().map(|item| item.message_id.clone()).collect();
                let kind = if outcome == "done" { "response" } else { "error" };
                self.push(channel, kind, first, to);
            }
        }
        Told::More(!self.waiting_items(self.turns[turn].lane).is_empty())
    }

    pub fn decide(&mut self, turn: usize, call: usize) -> Told {
        let waiting = self.turns[turn].state == "waiting";
        let open = self.turns[turn].state != "ended";
        let call = &mut self.turns[turn].calls[call];
        if !open || call.state != "waiting" || call.decided {
            return Told::Missing;
        }
        call.decided = true;
        if waiting {
            self.ready(turn, None);
        }
        Told::Done
    }

    pub fn recover(&mut self) -> Told {
        let running = |&turn: &usize| self.turns[turn].state == "running";
        let running: Vec<usize> = (0..self.turns.len()).filter(running).collect();
        for &turn in &running {
            let lost = &mut self.turns[turn];
            lost.attempts = if lost.progress { 0 } else { lost.attempts + 1 };
            self.ready(turn, None);
        }
        Told::Count(running.len())
    }

    pub fn wake(&mut self) -> Told {
        let due = |&lane: &usize| self.readiness(lane).1.is_some_and(|at| at <= self.now);
        let due: Vec<usize> = (0..self.lanes.len()).filter(due).collect();
        for &lane in &due {
            let turn = self.open_turn(lane).unwrap();
            self.turns[turn].woken = true;
        }
        Told::Count(due.len())
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    Stop,
    New,
    Say,
    Fail,
}

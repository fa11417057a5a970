//! What the commands of the model are made of.

use super::{Call, Doing, Held, IDLE_MS, Item, Mail, Model, Session, Turn};
use crate::lab::{CHANNELS, FrameSeen};

const NORMAL: i64 = 2;

impl Model {
    pub(super) fn add_item(
        &mut self,
        mail: &Mail,
        lane: usize,
        kind: &str,
        ack: &str,
        fresh: bool,
    ) -> usize {
        let item = self.items.len();
        self.items.push(Item {
            id: mail.item.clone(),
            ord: self.ord,
            lane,
            message: kind == "message",
            priority: NORMAL,
            message_id: mail.message_id.clone(),
            channel: mail.channel,
            ack: ack.to_owned(),
            state: "pending",
            turn: None,
            fresh,
        });
        if let Some((scope, id, body)) = mail.request.clone() {
            self.requests.push((scope, id, body, item));
        }
        if let Some(channel) = mail.channel {
            self.push(channel, "ack", item, Vec::new());
        }
        item
    }

    pub(super) fn push(
        &mut self,
        channel: usize,
        kind: &str,
        item: usize,
        in_reply_to: Vec<String>,
    ) {
        let channel = CHANNELS[channel].to_owned();
        let before = self.frames.iter().filter(|frame| frame.channel == channel).count();
        self.frames.push(FrameSeen {
            channel,
            seq: before as i64 + 1,
            kind: kind.to_owned(),
            item: self.items[item].id.clone(),
            in_reply_to,
        });
    }

    pub(super) fn begin(&mut self, lane: usize, item: usize, (id, session): (&str, &str)) -> Held {
        let kept = self.lanes[lane].session.filter(|&session| {
            !self.items[item].fresh && self.sessions[session].last_at + IDLE_MS > self.now
        });
        let session = kept.unwrap_or_else(|| {
            let (id, last_at) = (session.to_owned(), self.now);
            self.sessions.push(Session { id, last_at, rows: Vec::new() });
            self.sessions.len() - 1
        });
        self.lanes[lane].session = Some(session);
        self.lanes[lane].token += 1;
        let turn = self.turns.len();
        self.turns.push(Turn {
            id: id.to_owned(),
            lane,
            session,
            token: self.lanes[lane].token,
            priority: self.items[item].priority,
            ord: self.items[item].ord,
            state: "running",
            cancel: None,
            steps: 0,
            progress: false,
            attempts: 0,
            at: None,
            woken: false,
            waits: None,
            outcome: None,
            calls: Vec::new(),
        });
        self.items[item].state = "running";
        self.items[item].turn = Some(turn);
        self.append(turn, self.items[item].id.clone());
        self.held(turn, false)
    }

    pub(super) fn resume(&mut self, turn: usize) -> Held {
        let lane = self.turns[turn].lane;
        self.lanes[lane].token += 1;
        let resumed = &mut self.turns[turn];
        resumed.token = self.lanes[lane].token;
        (resumed.state, resumed.at, resumed.waits) = ("running", None, None);
        resumed.progress = false;
        self.set_items(turn, "running");
        self.held(turn, true)
    }

    pub(super) fn held(&self, turn: usize, resumed: bool) -> Held {
        let turn = &self.turns[turn];
        Held {
            turn: turn.id.clone(),
            token: turn.token,
            session: self.sessions[turn.session].id.clone(),
            resumed,
            cancel: turn.cancel.map(str::to_owned),
            attempts: turn.attempts,
            steps: turn.steps,
            others: false,
        }
    }

    /// Nothing where an entry is about a call that is over.
    pub(super) fn write(&mut self, turn: usize, doings: &[Doing]) -> Option<usize> {
        let mut rows = 0;
        for doing in doings {
            let over = |call: &Call| !call.is_open();
            match doing {
                Doing::Say { id, calls } => {
                    self.turns[turn].steps += 1;
                    let planned = calls.iter().map(|(id, safe)| Call::new(id, *safe));
                    self.turns[turn].calls.extend(planned);
                    self.append(turn, id.clone());
                    rows += 1;
                }
                Doing::Start { call } => {
                    let call = self.turns[turn].calls.iter_mut().find(|one| one.id == *call)?;
                    if over(call) {
                        return None;
                    }
                    call.state = "started";
                }
                Doing::Finish { id, call, unknown } => {
                    let call = self.turns[turn].calls.iter_mut().find(|one| one.id == *call)?;
                    if over(call) {
                        return None;
                    }
                    call.state = if *unknown { "unknown" } else { "done" };
                    self.append(turn, id.clone());
                    rows += 1;
                }
            }
        }
        if rows > 0 {
            self.turns[turn].attempts = 0;
            self.turns[turn].progress = true;
        }
        Some(rows)
    }

    pub(super) fn append(&mut self, turn: usize, id: String) {
        let session = &mut self.sessions[self.turns[turn].session];
        session.rows.push((id, turn));
        session.last_at = self.now;
    }

    pub(super) fn cancel(&mut self, turn: usize, reason: &'static str) -> (String, bool) {
        self.turns[turn].cancel.get_or_insert(reason);
        let idle = self.turns[turn].state != "running";
        if idle {
            self.ready(turn, None);
        }
        (self.turns[turn].id.clone(), idle)
    }

    pub(super) fn ready(&mut self, turn: usize, at: Option<i64>) {
        let now = self.now;
        let turn_row = &mut self.turns[turn];
        (turn_row.state, turn_row.at, turn_row.waits) = ("ready", at, None);
        turn_row.woken = at.is_some_and(|at| at <= now);
        self.set_items(turn, "pending");
    }

    pub(super) fn set_items(&mut self, turn: usize, state: &'static str) {
        for item in self.items.iter_mut().filter(|item| item.turn == Some(turn)) {
            item.state = state;
        }
    }
}

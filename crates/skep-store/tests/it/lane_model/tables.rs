//! The tables as they must be.

use super::{Item, Model, Turn};
use crate::lab::{AGENTS, AgentSeen, CHANNELS, CallSeen, ItemSeen, LaneSeen, Tables, TurnSeen};

impl Model {
    pub fn tables(&self) -> Tables {
        let mut frames = self.frames.clone();
        frames.sort_by(|a, b| (&a.channel, a.seq).cmp(&(&b.channel, b.seq)));
        let turn_id = |turn: usize| self.turns[turn].id.clone();
        let history = self.sessions.iter().flat_map(|session| {
            let rows = (1..).zip(&session.rows);
            rows.map(|(seq, (id, turn))| (session.id.clone(), seq, id.clone(), turn_id(*turn)))
        });
        let calls = self.turns.iter().flat_map(|turn| {
            turn.calls.iter().map(|call| CallSeen {
                turn: turn.id.clone(),
                call: call.id.clone(),
                state: call.state.to_owned(),
                decided: call.decided,
            })
        });
        let mut calls: Vec<CallSeen> = calls.collect();
        calls.sort_by(|a, b| (&a.turn, &a.call).cmp(&(&b.turn, &b.call)));
        Tables {
            agents: (0..AGENTS.len()).map(|agent| self.agent_seen(agent)).collect(),
            lanes: (0..self.lanes.len()).map(|lane| self.lane_seen(lane)).collect(),
            turns: self.turns.iter().map(|turn| self.turn_seen(turn)).collect(),
            items: self.items.iter().map(|item| self.item_seen(item)).collect(),
            calls,
            frames,
            history: history.collect(),
        }
    }

    fn agent_seen(&self, agent: usize) -> AgentSeen {
        let own = |lane: usize| self.lanes[lane].agent == agent;
        let items = |state: &str| {
            self.items.iter().filter(|item| own(item.lane) && item.state == state).count() as i64
        };
        let open = self.turns.iter().filter(|turn| own(turn.lane) && turn.state != "ended");
        let ready = (0..self.lanes.len()).filter(|&lane| own(lane));
        AgentSeen {
            pending: items("pending"),
            running: items("running"),
            waiting: items("waiting"),
            turns: open.count() as i64,
            served: self.served[agent],
            ready: ready.filter_map(|lane| self.readiness(lane).0).min().map(|ready| ready.0),
        }
    }

    fn lane_seen(&self, lane: usize) -> LaneSeen {
        let row = &self.lanes[lane];
        let (ready, due) = self.readiness(lane);
        LaneSeen {
            agent: row.agent as i64 + 1,
            key: row.key.clone(),
            session: row.session.map(|session| self.sessions[session].id.clone()),
            fresh: row.fresh,
            token: row.token,
            pending: self.waiting_items(lane).len() as i64,
            ready,
            due,
        }
    }

    fn turn_seen(&self, turn: &Turn) -> TurnSeen {
        TurnSeen {
            id: turn.id.clone(),
            lane: turn.lane as i64 + 1,
            session: self.sessions[turn.session].id.clone(),
            token: turn.token,
            state: turn.state.to_owned(),
            cancel: turn.cancel.map(str::to_owned),
            steps: turn.steps,
            attempts: turn.attempts,
            available_at: turn.at,
            waiting_for: turn.waits.clone(),
            outcome: turn.outcome.map(str::to_owned),
        }
    }

    fn item_seen(&self, item: &Item) -> ItemSeen {
        ItemSeen {
            id: item.id.clone(),
            ord: item.ord,
            lane: item.lane as i64 + 1,
            message_id: item.message_id.clone(),
            channel: item.channel.map(|channel| CHANNELS[channel].to_owned()),
            ack: item.ack.clone(),
            state: item.state.to_owned(),
            turn: item.turn.map(|turn| self.turns[turn].id.clone()),
            fresh: item.fresh,
        }
    }
}

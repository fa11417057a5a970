//! What must hold whatever happened, read from the tables alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::lab::{CHANNELS, ItemSeen, Tables};

pub fn hold(tables: &Tables) {
    one_open_turn_per_lane(tables);
    frames_are_dense_and_tell_each_end_once(tables);
    history_has_each_message_once(tables);
    every_call_of_an_ended_turn_has_one_result(tables);
}

/// Nothing is left: every message was answered and every counter is back.
pub fn all_ended(tables: &Tables) {
    for item in &tables.items {
        assert!(is_ended(item), "{item:?}");
    }
    for agent in &tables.agents {
        let counts = (agent.pending, agent.running, agent.waiting, agent.turns, agent.ready);
        assert_eq!(counts, (0, 0, 0, 0, None));
    }
    for lane in &tables.lanes {
        assert_eq!((lane.pending, lane.ready, lane.due), (0, None, None));
    }
}

fn is_ended(item: &ItemSeen) -> bool {
    ["done", "failed", "cancelled", "dead"].contains(&item.state.as_str())
}

fn one_open_turn_per_lane(tables: &Tables) {
    let mut lanes = BTreeSet::new();
    for turn in tables.turns.iter().filter(|turn| turn.state != "ended") {
        assert!(lanes.insert(turn.lane), "lane {} has two open turns", turn.lane);
    }
}

fn frames_are_dense_and_tell_each_end_once(tables: &Tables) {
    for channel in CHANNELS {
        let frames: Vec<_> = tables.frames.iter().filter(|f| f.channel == channel).collect();
        let seqs: Vec<i64> = frames.iter().map(|frame| frame.seq).collect();
        assert_eq!(seqs, (1..=frames.len() as i64).collect::<Vec<_>>());
        let own = |item: &&ItemSeen| item.channel.as_deref() == Some(channel);
        for item in tables.items.iter().filter(own) {
            let acks = frames.iter().filter(|f| f.kind == "ack" && f.item == item.id);
            let ends = frames.iter().flat_map(|frame| &frame.in_reply_to);
            let ends = ends.filter(|id| **id == item.message_id);
            let told = (acks.count(), ends.count());
            assert_eq!(told, (1, usize::from(is_ended(item))), "{item:?}");
        }
    }
}

fn history_has_each_message_once(tables: &Tables) {
    let mut seqs: BTreeMap<&str, i64> = BTreeMap::new();
    let mut times: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (session, seq, id, turn) in &tables.history {
        let last = seqs.entry(session).or_default();
        *last += 1;
        assert_eq!(seq, last, "session {session}");
        let time = times.entry(id).or_insert((0, turn));
        time.0 += 1;
    }
    for (id, (times, _)) in &times {
        assert_eq!(*times, 1, "{id} stands in history {times} times");
    }
    for item in &tables.items {
        let stands = times.get(item.id.as_str()).map(|(_, turn)| *turn);
        assert_eq!(stands, item.turn.as_deref(), "{item:?}");
    }
}

fn every_call_of_an_ended_turn_has_one_result(tables: &Tables) {
    let ended = tables.turns.iter().filter(|turn| turn.state == "ended");
    let ended: BTreeSet<&str> = ended.map(|turn| turn.id.as_str()).collect();
    for call in &tables.calls {
        let result = format!("r-{}", call.call);
        let results = tables.history.iter().filter(|row| row.2 == result && row.3 == call.turn);
        let over = call.state == "done" || call.state == "unknown";
        assert_eq!(results.count(), usize::from(over), "{call:?}");
        assert!(over || !ended.contains(call.turn.as_str()), "{call:?} is open for ever");
    }
}

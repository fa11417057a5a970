//! What a story of lanes is made of. Numbers pick among what there is when the time comes, so
//! that a story stays a story when steps are taken out of it.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::lab::{AGENTS, CHANNELS};
use crate::lane_model as model;

#[derive(Clone, Debug)]
pub enum Op {
    Accept { to: Address, slot: bool, interrupt: bool, engine: (bool, bool), new: bool },
    Order { to: Address, what: model::Order },
    StopLane { agent: usize, key: usize },
    Cancel { item: usize },
    Take,
    TakeOnly { turn: usize },
    Journal { lease: Pick, steps: Vec<Step>, steer: bool },
    Park { lease: Pick, calls: usize, wait: Option<i64> },
    Release { lease: Pick, wait: Option<i64>, counts: bool },
    Close { lease: Pick, how: usize, word: bool },
    Decide { turn: usize, call: usize },
    Prioritise { item: usize, priority: i64 },
    Wake { after: i64 },
    Crash { clean: bool },
}

#[derive(Clone, Debug)]
pub struct Address {
    pub agent: usize,
    pub key: usize,
    pub channel: Option<usize>,
    /// The sender's id, and which of two bodies it is for.
    pub id: Option<(u8, u8)>,
}

/// A lease: one that holds, or any that was ever given.
#[derive(Clone, Debug)]
pub struct Pick {
    pub live: bool,
    pub n: usize,
}

#[derive(Clone, Debug)]
pub enum Step {
    /// A message that asks for calls; each is safe to repeat or not.
    Say(Vec<bool>),
    Start(usize),
    Finish(usize),
}

pub fn op() -> impl Strategy<Value = Op> {
    let wait = || prop_oneof![Just(None), (0..300_i64).prop_map(Some)];
    let flag = prop::bool::weighted;
    let order = prop_oneof![
        3 => Just(model::Order::Stop),
        3 => Just(model::Order::New),
        1 => Just(model::Order::Say),
        1 => Just(model::Order::Fail),
    ];
    let accept = (address(), flag(0.5), flag(0.4), any::<(bool, bool)>(), flag(0.1)).prop_map(
        |(to, slot, interrupt, engine, new)| Op::Accept { to, slot, interrupt, engine, new },
    );
    let journal = (pick(), vec(step(), 1..6), any::<bool>());
    let park = (pick(), 0..3_usize, wait());
    let release = (pick(), wait(), any::<bool>());
    let close = (pick(), 0..4_usize, any::<bool>());
    prop_oneof![
        14 => accept,
        5 => (address(), order).prop_map(|(to, what)| Op::Order { to, what }),
        2 => lane().prop_map(|(agent, key)| Op::StopLane { agent, key }),
        4 => (0..64_usize).prop_map(|item| Op::Cancel { item }),
        10 => Just(Op::Take),
        2 => (0..64_usize).prop_map(|turn| Op::TakeOnly { turn }),
        18 => journal.prop_map(|(lease, steps, steer)| Op::Journal { lease, steps, steer }),
        6 => park.prop_map(|(lease, calls, wait)| Op::Park { lease, calls, wait }),
        6 => release.prop_map(|(lease, wait, counts)| Op::Release { lease, wait, counts }),
        8 => close.prop_map(|(lease, how, word)| Op::Close { lease, how, word }),
        8 => (0..64_usize, 0..8_usize).prop_map(|(turn, call)| Op::Decide { turn, call }),
        2 => (0..64_usize, 0..4_i64).prop_map(|(item, priority)| Op::Prioritise { item, priority }),
        4 => (0..250_i64).prop_map(|after| Op::Wake { after }),
        2 => flag(0.5).prop_map(|clean| Op::Crash { clean }),
    ]
}

fn address() -> impl Strategy<Value = Address> {
    let channel = prop_oneof![1 => Just(None), 3 => (0..CHANNELS.len()).prop_map(Some)];
    let id = prop_oneof![1 => Just(None), 1 => (0..6_u8, 0..8_u8).prop_map(Some)];
    (lane(), channel, id).prop_map(|((agent, key), channel, id)| {
        let id = id.map(|(id, body)| (id, u8::from(body == 0)));
        Address { agent, key, channel, id }
    })
}

/// Mostly the same few, so that much happens in each.
fn lane() -> impl Strategy<Value = (usize, usize)> {
    let agent = prop_oneof![4 => Just(0), 2 => Just(1), 1 => Just(AGENTS.len() - 1)];
    (agent, prop_oneof![3 => Just(0), 1 => Just(1)])
}

fn pick() -> impl Strategy<Value = Pick> {
    (prop::bool::weighted(0.85), 0..64_usize).prop_map(|(live, n)| Pick { live, n })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => vec(any::<bool>(), 0..4).prop_map(Step::Say),
        2 => (0..32_usize).prop_map(Step::Start),
        2 => (0..32_usize).prop_map(Step::Finish),
    ]
}

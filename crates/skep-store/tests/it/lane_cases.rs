//! Stories that once went wrong. The model says what is right; each needs several steps in a
//! row that chance seldom gives.

use crate::lane_model::Order;
use crate::lane_ops::{Address, Op, Pick, Step};
use crate::lane_story::tell;

fn to(id: Option<u8>) -> Address {
    Address { agent: 0, key: 0, channel: Some(0), id: id.map(|id| (id, 0)) }
}

fn accept(interrupt: bool, new: bool) -> Op {
    Op::Accept { to: to(None), slot: true, interrupt, engine: (true, true), new }
}

fn message() -> Op {
    accept(false, false)
}

fn order(what: Order) -> Op {
    Op::Order { to: to(None), what }
}

fn live() -> Pick {
    Pick { live: true, n: 0 }
}

fn journal(steps: Vec<Step>) -> Op {
    Op::Journal { lease: live(), steps, steer: true }
}

fn park(calls: usize) -> Op {
    Op::Park { lease: live(), calls, wait: None }
}

fn close() -> Op {
    Op::Close { lease: live(), how: 0, word: true }
}

fn decide() -> Op {
    Op::Decide { turn: 0, call: 0 }
}

async fn one_by_one(ops: Vec<Op>) {
    tell(ops.into_iter().map(|op| (op, false)).collect()).await;
}

#[tokio::test]
async fn a_message_that_interrupts_does_not_join_the_turn_it_ends() {
    let steps = vec![Step::Say(Vec::new())];
    one_by_one(vec![message(), accept(true, false), journal(steps), close(), Op::Take]).await;
}

#[tokio::test]
async fn a_stop_leaves_the_queue_alone() {
    let steps = vec![Step::Say(vec![true])];
    let stop = order(Order::Stop);
    one_by_one(vec![message(), message(), stop, journal(steps), close(), Op::Take]).await;
}

#[tokio::test]
async fn a_message_after_new_does_not_join_the_old_session() {
    let steps = || vec![Step::Say(vec![])];
    let ops = [message(), message(), order(Order::New), message(), journal(steps()), close()];
    one_by_one(ops.into_iter().chain([Op::Take, journal(steps()), close(), Op::Take]).collect())
        .await;
}

#[tokio::test]
async fn new_with_a_message_ends_a_turn_that_waits() {
    let steps = vec![Step::Say(vec![false])];
    one_by_one(vec![message(), journal(steps), park(1), accept(false, true), Op::Take]).await;
}

#[tokio::test]
async fn a_decision_that_comes_while_the_turn_runs_is_not_lost() {
    let steps = vec![Step::Say(vec![false, false])];
    let ops = [message(), journal(steps), park(2), decide(), Op::Take, decide(), park(2)];
    one_by_one(ops.into_iter().chain([Op::Take]).collect()).await;
}

#[tokio::test]
async fn a_decision_is_used_once() {
    let steps = vec![Step::Say(vec![false])];
    let again = vec![Step::Start(0)];
    let ops = [message(), journal(steps), park(1), decide(), Op::Take, journal(again), park(1)];
    one_by_one(ops.into_iter().chain([Op::Take, decide(), Op::Take]).collect()).await;
}

#[tokio::test]
async fn a_call_that_is_over_is_not_decided_started_or_answered_again() {
    let steps = vec![Step::Say(vec![false]), Step::Finish(0)];
    let again = |step| journal(vec![step]);
    let ops = vec![message(), journal(steps), again(Step::Finish(7)), again(Step::Start(7))];
    one_by_one(ops.into_iter().chain([decide(), close(), decide()]).collect()).await;
}

#[tokio::test]
async fn a_turn_that_was_stopped_is_not_held_back_by_a_retry() {
    let release = Op::Release { lease: live(), wait: Some(200), counts: true };
    one_by_one(vec![message(), order(Order::Stop), release, Op::Take]).await;
}

#[tokio::test]
async fn a_better_message_lifts_the_lane_of_a_lesser_one() {
    let other = Op::Accept {
        to: Address { agent: 1, ..to(None) },
        slot: false,
        interrupt: false,
        engine: (true, true),
        new: false,
    };
    let low = Op::Prioritise { item: 0, priority: 3 };
    let ops = [message(), message(), low, close(), message(), other, Op::Take, Op::Take];
    one_by_one(ops.into()).await;
}

//! What happens to a message that arrives: start, queue, steer or interrupt (spec 03 §2, 13 D).

use crate::settings::QueueMode;
use crate::traits::engine::Capabilities;

/// What the message's lane is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneActivity {
    /// No open turn.
    Free,
    /// A turn runs.
    Running,
    /// A turn is open and waits for a decision or for time.
    Waiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A turn may begin with it as soon as a slot is free.
    Start,
    /// The running turn takes it in at its next step.
    Steer,
    /// It stays in the inbox for the next turn.
    Queue,
    /// The running turn is ended; lane order stays.
    Interrupt,
    /// A waiting turn holds the lane; the sender learns what it waits for.
    Hold,
}

/// `mode` is the message's own wish, else the agent's. Nothing here depends on timing: the queue
/// is the durable inbox, and this only says what to do about the turn that is in its way.
pub fn decide(mode: QueueMode, engine: Capabilities, lane: LaneActivity) -> Arrival {
    match (lane, mode) {
        (LaneActivity::Free, _) => Arrival::Start,
        (LaneActivity::Waiting, _) => Arrival::Hold,
        (LaneActivity::Running, QueueMode::Interrupt) if engine.interrupt => Arrival::Interrupt,
        (LaneActivity::Running, _) if engine.queue_while_streaming => Arrival::Steer,
        (LaneActivity::Running, _) => Arrival::Queue,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(queue_while_streaming: bool, interrupt: bool) -> Capabilities {
        Capabilities {
            queue_while_streaming,
            interrupt,
            tool_events: true,
            full_history: true,
            approvals: false,
            own_tools: false,
        }
    }

    #[test]
    fn the_whole_table() {
        use Arrival::*;
        use LaneActivity::*;
        use QueueMode::{Interrupt as I, Queue as Q};
        let both = engine(true, true);
        let neither = engine(false, false);
        let only_queue = engine(true, false);
        let only_interrupt = engine(false, true);
        let cases = [
            (Q, both, Free, Start),
            (I, neither, Free, Start),
            (Q, both, Running, Steer),
            (Q, neither, Running, Queue),
            (Q, only_interrupt, Running, Queue),
            (I, both, Running, Interrupt),
            (I, only_interrupt, Running, Interrupt),
            (I, only_queue, Running, Steer),
            (I, neither, Running, Queue),
            (Q, both, Waiting, Hold),
            (I, both, Waiting, Hold),
        ];
        for (mode, engine, lane, expected) in cases {
            assert_eq!(decide(mode, engine, lane), expected, "{mode:?} {engine:?} {lane:?}");
        }
    }
}

//! Tasks: work that one agent gives another.

use crate::vocab::words::words;

words! {
    /// How it was given.
    TaskKind {
        /// To an agent below, which tells the end by itself.
        Delegate = "delegate",
        /// To an agent below; the call waits for the answer.
        Query = "query",
        /// To the agent above, which is to help.
        Escalate = "escalate",
        /// To the agent above, which is to go on with it alone.
        HandUp = "hand_up",
        /// To the operator, who is to approve a change of the hive. Its id is the approval's.
        Shape = "shape",
    }
    /// open → done | failed | cancelled.
    TaskState {
        Open = "open", Done = "done", Failed = "failed", Cancelled = "cancelled",
    }
}

impl TaskKind {
    /// Whoever gave it hears of its end, and has not ended before.
    pub fn is_awaited(self) -> bool {
        self != Self::HandUp
    }
}

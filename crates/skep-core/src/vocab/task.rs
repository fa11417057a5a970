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
        /// To the operator or another agent, which is to answer.
        Question = "question",
        /// To the agent itself, as one of its subagents; the call waits for the answer.
        Subagent = "subagent",
        /// To the operator, who is to approve a change of the hive. Its id is the approval's.
        Shape = "shape",
    }
    /// open → done | failed | cancelled.
    TaskState {
        Open = "open", Done = "done", Failed = "failed", Cancelled = "cancelled",
    }
    /// What the operator is asked.
    QuestionKind {
        Question = "question",
        /// By an agent that has none above it.
        Escalation = "escalation",
        /// It is told something, and may reply.
        Message = "message",
    }
    /// A sort of work. Commands are none, and neither is what only brings a chain forward: events,
    /// turns that go on, calls that were approved late.
    WorkKind {
        /// What a person wrote.
        Message = "message",
        /// What another agent gave it or asks.
        Task = "task",
        /// What agents write to each other.
        Peer = "peer",
        Reminder = "reminder",
        Trigger = "trigger",
        /// Everything in the inbox, also what is no work.
        Any = "any",
    }
    /// What became of a question.
    QuestionEnd {
        Answered = "answered",
        /// Nobody answered in time.
        Expired = "expired",
        /// Nobody waits for an answer any more.
        Withdrawn = "withdrawn",
        /// Whoever was asked could not answer.
        Failed = "failed",
    }
}

impl TaskKind {
    /// Whoever gave it hears of its end, and has not ended before.
    pub fn is_awaited(self) -> bool {
        self != Self::HandUp
    }
}

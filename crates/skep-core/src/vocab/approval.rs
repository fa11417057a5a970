//! Words of approvals: a person's decision on one call.

use crate::vocab::words::words;

words! {
    /// open → approved | denied | withdrawn | expired; an expired one can be opened again.
    ApprovalState {
        Open = "open",
        Approved = "approved",
        Denied = "denied",
        /// Nobody decided in time. The agent sees that, and it is not a denial.
        Expired = "expired",
        /// Its turn ended first.
        Withdrawn = "withdrawn",
    }
    /// What waits for the decision.
    ApprovalKind {
        /// The call itself.
        Call = "call",
        /// Nobody: the call has its answer, and runs by itself once it is approved.
        Shape = "shape",
    }
    /// The scope of an approval.
    Scope {
        /// This call.
        Once = "once",
        /// Calls like it in this session.
        Session = "session",
        /// Calls like it from now on: a rule of the agent.
        Always = "always",
    }
}

//! Why a session was compacted, in the words of rows and of the wire.

use crate::vocab::words::words;

words! {
    Reason {
        /// The window was nearly full.
        Full = "full",
        /// The vendor refused the request for its length.
        Overflow = "overflow",
        /// A person asked for it.
        Asked = "asked",
    }
}

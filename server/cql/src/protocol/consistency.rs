//! Consistency levels.

use super::codes::codes;
use super::fault::{ProtocolError, Result};

codes! {
    /// A consistency level, by its number on the wire.
    #[derive(Default)]
    Consistency: u16, "consistency level",
    Any = 0 "ANY",
    #[default]
    One = 1 "ONE",
    Two = 2 "TWO",
    Three = 3 "THREE",
    Quorum = 4 "QUORUM",
    All = 5 "ALL",
    LocalQuorum = 6 "LOCAL_QUORUM",
    EachQuorum = 7 "EACH_QUORUM",
    Serial = 8 "SERIAL",
    LocalSerial = 9 "LOCAL_SERIAL",
    LocalOne = 10 "LOCAL_ONE",
}

impl Consistency {
    pub fn code(self) -> u16 {
        self as u16
    }

    /// Returns whether the level is `SERIAL` or `LOCAL_SERIAL`: the levels of serial reads, and of
    /// the conditions of conditional writes.
    pub fn is_serial(self) -> bool {
        matches!(self, Self::Serial | Self::LocalSerial)
    }
}

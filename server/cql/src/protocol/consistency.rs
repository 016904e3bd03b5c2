//! How many replicas must agree.

use super::fault::{ProtocolError, Result};

/// A consistency level, by its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
#[expect(missing_docs, reason = "Cassandra's names")]
pub enum Consistency {
    Any = 0,
    One = 1,
    Two = 2,
    Three = 3,
    Quorum = 4,
    All = 5,
    LocalQuorum = 6,
    EachQuorum = 7,
    Serial = 8,
    LocalSerial = 9,
    LocalOne = 10,
}

impl Consistency {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Any,
        Self::One,
        Self::Two,
        Self::Three,
        Self::Quorum,
        Self::All,
        Self::LocalQuorum,
        Self::EachQuorum,
        Self::Serial,
        Self::LocalSerial,
        Self::LocalOne,
    ];

    /// As Cassandra writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "ANY",
            Self::One => "ONE",
            Self::Two => "TWO",
            Self::Three => "THREE",
            Self::Quorum => "QUORUM",
            Self::All => "ALL",
            Self::LocalQuorum => "LOCAL_QUORUM",
            Self::EachQuorum => "EACH_QUORUM",
            Self::Serial => "SERIAL",
            Self::LocalSerial => "LOCAL_SERIAL",
            Self::LocalOne => "LOCAL_ONE",
        }
    }

    /// The level with a number.
    ///
    /// # Errors
    /// When no level has it.
    pub fn from_code(code: u16) -> Result<Self> {
        let level = Self::ALL.get(usize::from(code));
        level.copied().ok_or(ProtocolError::UnknownCode {
            what: "consistency level",
            code: code.into(),
        })
    }

    /// Its number on the wire.
    pub fn code(self) -> u16 {
        self as u16
    }

    /// `SERIAL` or `LOCAL_SERIAL`: levels of conditional writes alone.
    pub fn is_serial(self) -> bool {
        matches!(self, Self::Serial | Self::LocalSerial)
    }
}

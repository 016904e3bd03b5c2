//! The durability of writes: when they are acknowledged, and the reaction to a failed one.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The time at which a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A write is acknowledged after an fsync, which concurrent writes share.
    Sync,
    /// A write is acknowledged before its fsync, which follows within this time.
    Interval(Duration),
    /// A write is acknowledged when the operating system has it, which decides when the write
    /// reaches the disk.
    Os,
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sync" => Ok(Self::Sync),
            "os" => Ok(Self::Os),
            text => match humantime::parse_duration(text) {
                Ok(time) if !time.is_zero() => Ok(Self::Interval(time)),
                _ => Err(format!("{text:?} is not sync, os, or a time as in 100ms")),
            },
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sync => f.pad("sync"),
            Self::Os => f.pad("os"),
            Self::Interval(time) => f.pad(&humantime::format_duration(*time).to_string()),
        }
    }
}

/// The reaction to a failed write, after which the store takes no more writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnFailedWrite {
    /// The server stops, and its process starts it again: only a start can find out what is on the disk. It
    /// exits if this was too often.
    Reopen,
    /// The server stops, and a supervisor may start it again.
    Exit,
    /// The server answers reads until it is stopped.
    ReadOnly,
}

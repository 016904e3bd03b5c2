//! The versions of the protocol, and the properties of a connection that encoders need.

use super::compression::Compression;

/// A version of the native protocol that ebb supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Version {
    /// Version 4, of Cassandra 2.2 and 3.
    #[default]
    V4 = 4,
    /// Version 5, of Cassandra 4. After the response to STARTUP, frames are sent in
    /// [segments](super::Segments).
    V5 = 5,
}

impl Version {
    /// All versions, the oldest first.
    pub const ALL: [Self; 2] = [Self::V4, Self::V5];

    /// Returns the version with a number, if ebb supports it.
    pub fn from_number(number: u8) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|version| version.number() == number)
    }

    pub fn number(self) -> u8 {
        self as u8
    }
}

/// The encoding of a connection's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coding {
    /// The version in the headers, which determines the encoding of the bodies.
    pub version: Version,
    /// The compression of the bodies. Always `None` in version 5, which compresses segments instead.
    pub compression: Compression,
}

impl From<Compression> for Coding {
    /// Returns the encoding of version 4 with this compression.
    fn from(compression: Compression) -> Self {
        Self {
            version: Version::V4,
            compression,
        }
    }
}

impl From<Version> for Coding {
    /// Returns the encoding of frames in this version, without compression.
    fn from(version: Version) -> Self {
        Self {
            version,
            compression: Compression::None,
        }
    }
}

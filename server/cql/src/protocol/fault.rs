//! What is wrong with bytes that claim to follow the protocol.

/// Bytes that do not say what the protocol wants at that place.
///
/// It is the sender's fault and ends one request, not the connection: the frame
/// around the bytes was sound. As an answer it is a protocol error (0x000A).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The body ends inside of an item.
    #[error("the body ends in {what}: {needed_bytes} bytes needed, {left_bytes} left")]
    Truncated {
        what: &'static str,
        /// What the item takes, as far as it says.
        needed_bytes: usize,
        /// What the body still has.
        left_bytes: usize,
    },
    /// A length or a count that no item of this kind can have.
    #[error("{what} cannot have the length {length}")]
    Length { what: &'static str, length: i64 },
    /// Text that is not UTF-8.
    #[error("{what} is not UTF-8")]
    NotUtf8 { what: &'static str },
    /// A number that stands for nothing.
    #[error("{code:#06x} is no {what}")]
    UnknownCode {
        /// What it should name.
        what: &'static str,
        code: u32,
    },
    /// A word that stands for nothing.
    #[error("{word:?} is no {what}")]
    UnknownWord {
        /// What it should name.
        what: &'static str,
        /// As it was sent; long ones are cut.
        word: String,
    },
    /// A flag that this message cannot have.
    #[error("{what} cannot have the flags {flags:#04x}")]
    Flags {
        what: &'static str,
        /// Those that do not fit.
        flags: u32,
    },
    /// A message of the other direction: a request where a response is due, or the
    /// other way round.
    #[error("{opcode} does not go in this direction")]
    Direction {
        /// Its name in the specification.
        opcode: &'static str,
    },
    /// Well formed, but not to be.
    #[error("{0}")]
    Forbidden(&'static str),
}

impl ProtocolError {
    pub(super) fn unknown_code(what: &'static str, code: impl Into<u32>) -> Self {
        let code = code.into();
        Self::UnknownCode { what, code }
    }

    pub(super) fn length(what: &'static str, length: impl Into<i64>) -> Self {
        let length = length.into();
        Self::Length { what, length }
    }

    pub(super) fn unknown_word(what: &'static str, word: &str) -> Self {
        let word = word.chars().take(64).collect();
        Self::UnknownWord { what, word }
    }
}

pub type Result<T> = std::result::Result<T, ProtocolError>;

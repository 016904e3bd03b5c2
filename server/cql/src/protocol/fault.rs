//! Errors in bytes that should follow the protocol.

/// Bytes of a received message that violate the protocol, or a message that is too long for a
/// frame.
///
/// An error in received bytes ends one request, not the connection, because the frame around the
/// bytes was valid; the server responds with a protocol error (0x000A).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The body ends within an item, such as a string or a list.
    #[error("the body ends in {what}: {needed_bytes} bytes needed, {left_bytes} left")]
    Truncated {
        what: &'static str,
        /// The length, in bytes, of the part that could not be read: of the item's length field, or
        /// of the content after it.
        needed_bytes: usize,
        /// The number of bytes that were left in the body for this part.
        left_bytes: usize,
    },
    /// A length or a count that is invalid for the item `what`.
    #[error("{what} cannot have the length {length}")]
    Length { what: &'static str, length: i64 },
    /// Text, in the item `what`, that is not UTF-8.
    #[error("{what} is not UTF-8")]
    NotUtf8 { what: &'static str },
    /// A number that the protocol does not define.
    #[error("{code:#06x} is no {what}")]
    UnknownCode {
        /// The name for such numbers in messages, as in `kind of a batch`.
        what: &'static str,
        code: u32,
    },
    /// A word that the protocol does not define, where only certain words are valid.
    #[error("{word:?} is no {what}")]
    UnknownWord {
        /// The name for such words in messages, as in `type of an event`.
        what: &'static str,
        /// The word as sent, cut after 64 characters.
        word: String,
    },
    /// A flag that is invalid in this message.
    #[error("{what} cannot have the flags {flags:#04x}")]
    Flags {
        what: &'static str,
        /// The invalid flags.
        flags: u32,
    },
    /// A message of the other direction: a request in place of a response, or vice versa.
    #[error("{opcode} does not go in this direction")]
    Direction {
        /// The name of the message in the specification.
        opcode: &'static str,
    },
    /// Another violation, which the text describes.
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

//! Bytes in error messages.

use std::fmt;

/// The hex digits of bytes in a message, cut after [`SHOWN_MAX`](Self::SHOWN_MAX) bytes.
#[derive(Debug, Clone, Copy)]
pub struct Hex<'b>(pub &'b [u8]);

impl Hex<'_> {
    /// The most bytes that a message shows. A client may send millions of them.
    pub const SHOWN_MAX: usize = 256;
}

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.iter().take(Self::SHOWN_MAX) {
            write!(f, "{byte:02x}")?;
        }
        if self.0.len() > Self::SHOWN_MAX {
            f.write_str("...")?;
        }
        Ok(())
    }
}

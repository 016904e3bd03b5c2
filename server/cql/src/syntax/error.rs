//! What is wrong with a statement, in Cassandra's form, and where.

use std::fmt;

/// A text that is no statement.
///
/// It prints as Cassandra's messages do, since drivers and people look for those:
/// `line 1:9 no viable alternative at input 'FORM' (SELECT * [FORM] t...)`. Lines count
/// from 1, columns from 0, in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    kind: ParseErrorKind,
    line: u32,
    column: u32,
    message: String,
}

/// Which of CQL's errors a [`ParseError`] is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// `SyntaxError`, 0x2000.
    Syntax,
    /// `Invalid`, 0x2200: well formed, and yet never right, whatever the schema.
    Invalid,
}

impl ParseError {
    /// A syntax error at a byte of `text`, which must be where a character begins.
    pub(super) fn syntax(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ParseError {
            kind: ParseErrorKind::Syntax,
            line: 1 + before.bytes().filter(|&byte| byte == b'\n').count() as u32,
            column: before[line_start..].chars().count() as u32,
            message: message.into(),
        }
    }

    /// A statement that is never right.
    pub(super) fn invalid(text: &str, offset: usize, message: impl Into<String>) -> Self {
        ParseError {
            kind: ParseErrorKind::Invalid,
            ..Self::syntax(text, offset, message)
        }
    }

    pub fn kind(&self) -> ParseErrorKind {
        self.kind
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == ParseErrorKind::Syntax {
            write!(f, "line {}:{} ", self.line, self.column)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ParseError {}

//! Errors of statements, with Cassandra's message and the place.

use std::fmt;

/// The error of a text that is not a valid statement.
///
/// It is printed like Cassandra's messages, which drivers and people search for:
/// `line 1:9 mismatched input 'FORM' expecting K_FROM (SELECT * [FORM]...)`. Lines count from 1,
/// columns from 0, in characters. Only syntax errors print the line and the column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    kind: ParseErrorKind,
    line: u32,
    column: u32,
    message: String,
}

/// The CQL error code of a [`ParseError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// `SyntaxError`, 0x2000.
    Syntax,
    /// `Invalid`, 0x2200: the syntax is right, but the statement is invalid whatever the schema is.
    Invalid,
}

impl ParseError {
    /// Returns a syntax error at the byte `offset` of `text`, where a character must begin.
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

    /// Returns the error of a statement that is invalid whatever the schema is. Its position, the
    /// byte `offset` of `text`, is not printed.
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

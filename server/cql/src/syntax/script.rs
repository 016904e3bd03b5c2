//! A text of many statements, cut at their semicolons.

use super::ParseError;
use super::lexer::{Lexer, Token, TokenKind};

/// The statements of a text, one after the other, as an iterator.
///
/// Semicolons in strings, quoted names and comments do not count, and those between
/// `BEGIN BATCH` and `APPLY BATCH` belong to the batch. What holds nothing but white
/// space and comments is left out. After an error there is nothing more: where a string
/// is not closed, no later semicolon means anything.
///
/// ```
/// use ebb_cql::syntax::Script;
///
/// let text = "USE ks; -- one; two\nINSERT INTO t (a) VALUES (';');";
/// let statements: Vec<_> = Script::new(text).map(|s| s.map(|s| s.text)).collect::<Result<_, _>>()?;
/// assert_eq!(statements, ["USE ks", "INSERT INTO t (a) VALUES (';')"]);
/// # Ok::<(), ebb_cql::syntax::ParseError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Script<'a> {
    text: &'a str,
    at: usize,
}

/// One statement of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptStatement<'a> {
    /// From its first word to its last token, without the semicolon.
    pub text: &'a str,
    /// Where it begins in the script, in bytes.
    pub offset: usize,
    /// Whether a semicolon ended it. The last one may lack it.
    pub closed: bool,
}

impl<'a> Script<'a> {
    /// The statements of `text`.
    pub fn new(text: &'a str) -> Self {
        Script { text, at: 0 }
    }

    fn cut(&mut self) -> Result<Option<ScriptStatement<'a>>, ParseError> {
        let mut lexer = Lexer::from_offset(self.text, self.at);
        let mut statement: Option<(usize, usize)> = None;
        let mut batch = false;
        let mut applied = false;
        loop {
            let token = lexer.next()?;
            self.at = token.end;
            match token.kind {
                TokenKind::Semicolon if !batch => {
                    if let Some((start, end)) = statement {
                        return Ok(Some(self.statement(start, end, true)));
                    }
                    continue;
                }
                TokenKind::End => {
                    return Ok(statement.map(|(start, end)| self.statement(start, end, false)));
                }
                _ => {}
            }
            if statement.is_none() {
                batch = self.is_word(token, "BEGIN");
            }
            if applied && self.is_word(token, "BATCH") {
                batch = false;
            }
            applied = self.is_word(token, "APPLY");
            let start = statement.map_or(token.start, |(start, _)| start);
            statement = Some((start, token.end));
        }
    }

    fn statement(&self, start: usize, end: usize, closed: bool) -> ScriptStatement<'a> {
        ScriptStatement {
            text: &self.text[start..end],
            offset: start,
            closed,
        }
    }

    fn is_word(&self, token: Token, word: &str) -> bool {
        token.kind == TokenKind::Word
            && self.text[token.start..token.end].eq_ignore_ascii_case(word)
    }
}

impl<'a> Iterator for Script<'a> {
    type Item = Result<ScriptStatement<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let cut = self.cut();
        if cut.is_err() {
            self.at = self.text.len();
        }
        cut.transpose()
    }
}

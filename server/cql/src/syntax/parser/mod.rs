//! The parser, by recursive descent over tokens.
//!
//! There is one file per family of statements, each with an `impl Parser`. Nesting and sequences of
//! operators are limited, so that no statement exhausts the stack of a thread that parses,
//! compares, prints or drops its tree.

mod definition;
mod name;
mod permission;
mod relation;
mod role;
mod schema;
mod select;
mod statement;
mod term;
mod types;
mod write;

use super::ast::{Marker, Name, Parsed, Statement};
use super::lexer::{Lexer, Token, TokenKind};
use super::{NESTING_MAX, OPERATORS_MAX, ParseError, ParseErrorKind, TOKENS_MAX};

type Result<T> = std::result::Result<T, Fault>;

/// An error at a token. Its line and column are computed only when it is reported. Most of these
/// errors are never reported: the parser drops them and tries another alternative of the grammar.
struct Fault {
    kind: ParseErrorKind,
    /// The index of the token at which the error is. The error gets the position of this token.
    at: usize,
    /// The index of the token that is in brackets in the message, as in `(SELECT * [FORM]...)`.
    marked: usize,
    message: String,
}

/// The number of tokens before the marked one that an error shows.
const SNIPPET_TOKENS: usize = 5;
/// The maximal number of bytes that an error shows of the marked token, and of the text before it.
const SNIPPET_BYTES_MAX: usize = 256;

/// Parses the statement in `text`, and returns the number of its tokens, too.
pub(super) fn parse(text: &str) -> std::result::Result<(Parsed, usize), ParseError> {
    let mut parser = Parser::new(text)?;
    match parser.whole_statement() {
        Ok(statement) => {
            let parsed = Parsed {
                statement,
                markers: parser.markers,
            };
            Ok((parsed, parser.tokens.len()))
        }
        Err(fault) => Err(parser.report(fault)),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// The tokens. The last one is [`TokenKind::End`].
    tokens: Vec<Token>,
    at: usize,
    markers: Vec<Option<Name>>,
    depth: usize,
    /// The number of operators since the outermost expression began.
    operators: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> std::result::Result<Self, ParseError> {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::with_capacity((text.len() / 6 + 1).min(TOKENS_MAX));
        loop {
            let token = lexer.next()?;
            if tokens.len() > TOKENS_MAX {
                let message = format!("a statement has at most {TOKENS_MAX} words and signs");
                return Err(ParseError::syntax(text, token.start, message));
            }
            tokens.push(token);
            if token.kind == TokenKind::End {
                break;
            }
        }
        Ok(Parser {
            text,
            tokens,
            at: 0,
            markers: Vec::new(),
            depth: 0,
            operators: 0,
        })
    }

    fn whole_statement(&mut self) -> Result<Statement> {
        let statement = self.statement()?;
        self.eat(TokenKind::Semicolon);
        if self.kind() != TokenKind::End {
            let message = format!("missing EOF at '{}'", self.shown(self.here()));
            return Err(self.error(message));
        }
        // A request contains at most this many values. Checked at the end, because Cassandra's message
        // has the number of all markers.
        let (count, count_max) = (self.markers.len(), u16::MAX);
        if count > usize::from(count_max) {
            let message = format!(
                "Too many markers(?). {count} markers exceed the allowed maximum of {count_max}"
            );
            return Err(self.invalid_at(self.at, message));
        }
        Ok(statement)
    }

    /// Returns the token that comes `ahead` tokens after the next one; beyond the last token,
    /// [`TokenKind::End`].
    fn ahead(&self, ahead: usize) -> Token {
        let last = self.tokens.len() - 1;
        self.tokens[(self.at + ahead).min(last)]
    }

    fn here(&self) -> Token {
        self.ahead(0)
    }

    fn kind(&self) -> TokenKind {
        self.here().kind
    }

    fn source(&self, token: Token) -> &'a str {
        &self.text[token.start..token.end]
    }

    fn advance(&mut self) -> Token {
        let token = self.here();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.kind() == kind;
        if found {
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, kind: TokenKind) -> Result<()> {
        if self.eat(kind) {
            Ok(())
        } else {
            Err(self.mismatched(kind.expected()))
        }
    }

    fn word_ahead(&self, ahead: usize, word: &str) -> bool {
        let token = self.ahead(ahead);
        token.kind == TokenKind::Word && self.source(token).eq_ignore_ascii_case(word)
    }

    fn at_word(&self, word: &str) -> bool {
        self.word_ahead(0, word)
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.at += 1;
        }
        found
    }

    /// Consumes the next words if they are `words`, which has spaces between the words, and returns
    /// true. Otherwise consumes nothing.
    fn eat_words(&mut self, words: &str) -> bool {
        let mut each = words.split(' ').enumerate();
        let found = each.all(|(ahead, word)| self.word_ahead(ahead, word));
        if found {
            self.at += words.split(' ').count();
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.eat_word(word) {
            Ok(())
        } else {
            Err(self.mismatched(&format!("K_{word}")))
        }
    }

    fn expect_words(&mut self, words: &str) -> Result<()> {
        words.split(' ').try_for_each(|word| self.expect_word(word))
    }

    /// Parses `word` and then `inner`. Returns `None`, and consumes nothing, if the next token is
    /// not `word`.
    fn after_word<T>(
        &mut self,
        word: &str,
        inner: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        self.eat_word(word).then(|| inner(self)).transpose()
    }

    fn if_not_exists(&mut self) -> Result<bool> {
        let found = self.eat_word("IF");
        if found {
            self.expect_words("NOT EXISTS")?;
        }
        Ok(found)
    }

    fn if_exists(&mut self) -> Result<bool> {
        let found = self.eat_word("IF");
        if found {
            self.expect_word("EXISTS")?;
        }
        Ok(found)
    }

    /// Parses one or more items with commas between them.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(TokenKind::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Parses one or more items in parentheses, with commas between them.
    fn parenthesized<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect(TokenKind::OpenParen)?;
        let items = self.list(item)?;
        self.expect(TokenKind::CloseParen)?;
        Ok(items)
    }

    /// Parses any number of items with commas between them, and the token `close` after them.
    fn until<T>(
        &mut self,
        close: TokenKind,
        item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        if self.eat(close) {
            return Ok(Vec::new());
        }
        let items = self.list(item)?;
        self.expect(close)?;
        Ok(items)
    }

    /// Parses `inner` one nesting level deeper. Fails if there are more than [`NESTING_MAX`]
    /// levels.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == 0 {
            self.operators = 0;
        }
        if self.depth == NESTING_MAX {
            return Err(self.error(format!("nested deeper than {NESTING_MAX} levels")));
        }
        self.depth += 1;
        let read = inner(self);
        self.depth -= 1;
        read
    }

    /// Counts an operator of an expression, up to a limit: each one adds a level to the syntax
    /// tree.
    fn operator(&mut self) -> Result<()> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            let message = format!("more than {OPERATORS_MAX} operators in one expression");
            return Err(self.error(message));
        }
        Ok(())
    }

    /// Creates the next marker with this name. Its index is wrong if there are more markers than a
    /// statement may have: [`whole_statement`](Self::whole_statement) then returns an error.
    fn new_marker(&mut self, name: Option<Name>) -> Marker {
        let index = u16::try_from(self.markers.len()).unwrap_or(u16::MAX);
        self.markers.push(name.clone());
        Marker { index, name }
    }

    /// Tries to parse `inner`; restores the state if that fails.
    fn attempt<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        let (at, markers, depth) = (self.at, self.markers.len(), self.depth);
        let read = inner(self).ok();
        if read.is_none() {
            self.at = at;
            self.markers.truncate(markers);
            self.depth = depth;
        }
        read
    }

    /// Returns a token as error messages show it.
    fn shown(&self, token: Token) -> String {
        match token.kind {
            TokenKind::End => "<EOF>".to_owned(),
            _ => cut(self.source(token)).to_owned(),
        }
    }

    /// Returns the error for the next token if no alternative of the grammar begins with it.
    fn no_viable(&self) -> Fault {
        self.no_viable_after(0)
    }

    /// Returns the error for the token after the next `tokens` tokens, if no alternative of the
    /// grammar continues with it. As in Cassandra, the brackets in the message mark another token:
    /// the next one, because the alternatives begin there.
    fn no_viable_after(&self, tokens: usize) -> Fault {
        let at = (self.at + tokens).min(self.tokens.len() - 1);
        let input = self.shown(self.tokens[at]);
        Fault {
            marked: self.at,
            ..self.error_at(at, format!("no viable alternative at input '{input}'"))
        }
    }

    /// Returns the error for a token other than the only expected one.
    fn mismatched(&self, expected: &str) -> Fault {
        let input = self.shown(self.here());
        self.error(format!("mismatched input '{input}' expecting {expected}"))
    }

    /// Returns a syntax error at the next token.
    fn error(&self, message: impl Into<String>) -> Fault {
        self.error_at(self.at, message)
    }

    /// Returns a syntax error at the token `at`.
    fn error_at(&self, at: usize, message: impl Into<String>) -> Fault {
        Fault {
            kind: ParseErrorKind::Syntax,
            at,
            marked: at,
            message: message.into(),
        }
    }

    /// Returns the error of a well-formed but always invalid statement, at the token `at`.
    fn invalid_at(&self, at: usize, message: impl Into<String>) -> Fault {
        Fault {
            kind: ParseErrorKind::Invalid,
            ..self.error_at(at, message)
        }
    }

    /// Adds the position to an error, and the [snippet](Self::snippet) to the message of a syntax
    /// error.
    fn report(&self, fault: Fault) -> ParseError {
        let Fault {
            kind,
            at,
            marked,
            message,
        } = fault;
        let token = self.tokens[at];
        match kind {
            ParseErrorKind::Invalid => ParseError::invalid(self.text, token.start, message),
            ParseErrorKind::Syntax => {
                let message = message + &self.snippet(marked);
                ParseError::syntax(self.text, token.start, message)
            }
        }
    }

    /// Returns the token `at` in brackets, with the tokens before it, in the form ` (...a = [b]...)`;
    /// empty if it is the end of the text.
    fn snippet(&self, at: usize) -> String {
        let token = self.tokens[at];
        if token.kind == TokenKind::End {
            return String::new();
        }
        let first = at.saturating_sub(SNIPPET_TOKENS);
        let before = &self.text[self.tokens[first].start..token.start];
        // The start of long literals does not help, so only their end is shown.
        let start = before.ceil_char_boundary(before.len().saturating_sub(SNIPPET_BYTES_MAX));
        let cut_before = first > 0 || start > 0;
        let cut_behind = self.tokens[at + 1].kind != TokenKind::End;
        format!(
            " ({}{}[{}]{})",
            if cut_before { "..." } else { "" },
            &before[start..],
            cut(self.source(token)),
            if cut_behind { "..." } else { "" },
        )
    }
}

/// Returns the start of `text`: at most [`SNIPPET_BYTES_MAX`] bytes, and no part of a character.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(SNIPPET_BYTES_MAX)]
}

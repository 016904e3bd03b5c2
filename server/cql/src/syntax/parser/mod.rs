//! Tokens to statements, by recursive descent.
//!
//! One file per family of statements, each an `impl Parser`. What is nested is bounded,
//! by depth and by operators in a row, so that no statement takes the stack of the
//! thread that reads, compares, prints or drops its tree.

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

/// What is wrong at which token. The place in the text is looked for only when the fault
/// is reported: most are of attempts that may fail.
struct Fault {
    kind: ParseErrorKind,
    at: usize,
    message: String,
}

/// Tokens before the wrong one that an error shows.
const SNIPPET_TOKENS: usize = 5;
/// The longest token that an error shows in full, in bytes.
const SNIPPET_BYTES_MAX: usize = 256;

/// Reads the statement that `text` holds.
pub(super) fn parse(text: &str) -> std::result::Result<Parsed, ParseError> {
    let mut parser = Parser::new(text)?;
    match parser.whole_statement() {
        Ok(statement) => Ok(Parsed {
            statement,
            markers: parser.markers,
        }),
        Err(fault) => Err(parser.report(fault)),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// Ends with [`TokenKind::End`].
    tokens: Vec<Token>,
    at: usize,
    markers: Vec<Option<Name>>,
    depth: usize,
    /// Since the outermost expression began.
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
        match self.kind() {
            TokenKind::End => Ok(statement),
            _ => Err(self.error(format!("missing EOF at '{}'", self.shown(self.here())))),
        }
    }

    /// The token `ahead` of the next one; behind the last it is the end.
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
        match self.eat(kind) {
            true => Ok(()),
            false => Err(self.mismatched(kind.expected())),
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

    /// Eats all of these words, which spaces separate, or none.
    fn eat_words(&mut self, words: &str) -> bool {
        let mut each = words.split(' ').enumerate();
        let found = each.all(|(ahead, word)| self.word_ahead(ahead, word));
        if found {
            self.at += words.split(' ').count();
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        match self.eat_word(word) {
            true => Ok(()),
            false => Err(self.mismatched(&format!("K_{word}"))),
        }
    }

    fn expect_words(&mut self, words: &str) -> Result<()> {
        words.split(' ').try_for_each(|word| self.expect_word(word))
    }

    /// Reads `inner` behind `word`, if that word stands here.
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

    /// `item, item`: at least one.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(TokenKind::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `(item, item)`: at least one.
    fn parenthesized<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect(TokenKind::OpenParen)?;
        let items = self.list(item)?;
        self.expect(TokenKind::CloseParen)?;
        Ok(items)
    }

    /// `item, item` up to `close`: perhaps none.
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

    /// Goes one level deeper for what `inner` reads.
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

    /// Counts an operator: each makes the tree one level higher.
    fn operator(&mut self) -> Result<()> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            let message = format!("more than {OPERATORS_MAX} operators in one expression");
            return Err(self.error(message));
        }
        Ok(())
    }

    /// The next marker, called so.
    fn new_marker(&mut self, name: Option<Name>) -> Result<Marker> {
        let index = self.markers.len();
        // A request brings at most so many values.
        if index == usize::from(u16::MAX) {
            let message = format!("Too many markers(?): the allowed maximum is {index}");
            return Err(self.invalid_at(self.at, message));
        }
        let index = index as u16;
        self.markers.push(name.clone());
        Ok(Marker { index, name })
    }

    /// Reads `inner`; what it read is forgotten where it fails.
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

    /// A token as messages show it.
    fn shown(&self, token: Token) -> String {
        match token.kind {
            TokenKind::End => "<EOF>".to_owned(),
            _ => cut(self.source(token)).to_owned(),
        }
    }

    /// Nothing that could stand here begins with the next token.
    fn no_viable(&self) -> Fault {
        let input = self.shown(self.here());
        self.error(format!("no viable alternative at input '{input}'"))
    }

    /// Only one thing could stand here, and the next token is another.
    fn mismatched(&self, expected: &str) -> Fault {
        let input = self.shown(self.here());
        self.error(format!("mismatched input '{input}' expecting {expected}"))
    }

    /// At the next token.
    fn error(&self, message: impl Into<String>) -> Fault {
        self.error_at(self.at, message)
    }

    /// At the token at `at`.
    fn error_at(&self, at: usize, message: impl Into<String>) -> Fault {
        Fault {
            kind: ParseErrorKind::Syntax,
            at,
            message: message.into(),
        }
    }

    /// At the token at `at`: well formed, and never right.
    fn invalid_at(&self, at: usize, message: impl Into<String>) -> Fault {
        Fault {
            kind: ParseErrorKind::Invalid,
            ..self.error_at(at, message)
        }
    }

    /// The error with its place; one of syntax shows the token among its neighbours.
    fn report(&self, fault: Fault) -> ParseError {
        let Fault { kind, at, message } = fault;
        let token = self.tokens[at];
        match kind {
            ParseErrorKind::Invalid => ParseError::invalid(self.text, token.start, message),
            ParseErrorKind::Syntax => {
                let message = message + &self.snippet(at);
                ParseError::syntax(self.text, token.start, message)
            }
        }
    }

    /// ` (...the tokens before [the token at fault]...)`.
    fn snippet(&self, at: usize) -> String {
        let token = self.tokens[at];
        if token.kind == TokenKind::End {
            return String::new();
        }
        let first = at.saturating_sub(SNIPPET_TOKENS);
        let before = &self.text[self.tokens[first].start..token.start];
        // Long literals say nothing about what stands behind them.
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

/// The front of a token that may be long.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(SNIPPET_BYTES_MAX)]
}

//! Parsers of names.

use ebb_model::types::identifier::is_reserved;

use super::{Parser, Result};
use crate::syntax::ast::{Name, QualifiedName};
use crate::syntax::lexer::{Token, TokenKind};
use crate::syntax::words;

impl Parser<'_> {
    /// Returns whether a token is a name: a word that is not reserved, or a quoted name.
    pub(super) fn is_name(&self, token: Token) -> bool {
        match token.kind {
            TokenKind::Word => !is_reserved(self.source(token)),
            TokenKind::QuotedName => true,
            _ => false,
        }
    }

    pub(super) fn at_name(&self) -> bool {
        self.is_name(self.here())
    }

    /// Returns the name in a token for which [`Self::is_name`] is true.
    pub(super) fn name_of(&self, token: Token) -> Name {
        let source = self.source(token);
        match token.kind {
            TokenKind::QuotedName => Name::new(source[1..source.len() - 1].replace("\"\"", "\"")),
            _ => Name::new(source.to_ascii_lowercase()),
        }
    }

    /// Parses a name that is not empty.
    pub(super) fn name(&mut self) -> Result<Name> {
        let token = self.here();
        if !self.is_name(token) || self.source(token) == "\"\"" {
            return Err(self.no_viable());
        }
        self.at += 1;
        Ok(self.name_of(token))
    }

    /// Parses the name of an existing column, in statements that do not define, rename or drop it.
    /// The name may be empty, because columns of old tables may have such a name.
    pub(super) fn column(&mut self) -> Result<Name> {
        if !self.at_name() {
            return Err(self.no_viable());
        }
        let token = self.advance();
        Ok(self.name_of(token))
    }

    /// Parses `[ks.]name`. `what` is the kind of the object. It is part of the error for a bind
    /// marker in place of the name.
    pub(super) fn qualified(&mut self, what: &str) -> Result<QualifiedName> {
        self.refuse_marker(match self.ahead(1).kind {
            TokenKind::Dot => "keyspace",
            _ => what,
        })?;
        let name = self.name()?;
        if !self.eat(TokenKind::Dot) {
            return Ok(name.into());
        }
        self.refuse_marker(what)?;
        Ok(QualifiedName {
            keyspace: Some(name),
            name: self.name()?,
        })
    }

    pub(super) fn table(&mut self) -> Result<QualifiedName> {
        self.qualified("table")
    }

    pub(super) fn keyspace(&mut self) -> Result<Name> {
        self.refuse_marker("keyspace")?;
        self.name()
    }

    fn refuse_marker(&self, what: &str) -> Result<()> {
        if self.kind() == TokenKind::Question {
            let message = format!("Bind variables cannot be used for {what} names");
            return Err(self.error(message));
        }
        Ok(())
    }

    /// Counts the tokens of a function's name, 1 for `f` and 3 for `ks.f`, if the name of a
    /// function and an opening parenthesis come next.
    ///
    /// # Errors
    /// If no call comes next: the number of the next tokens that could be the start of a call, from
    /// 0 to 3. The token after them is the first one that does not fit a call, and a syntax error
    /// names it.
    pub(super) fn function_tokens(&self) -> std::result::Result<usize, usize> {
        let is_function = |ahead: usize| {
            let token = self.ahead(ahead);
            match token.kind {
                TokenKind::Word => words::is_function(self.source(token)),
                TokenKind::QuotedName => self.source(token) != "\"\"",
                _ => false,
            }
        };
        let tokens = if self.at_name() && self.ahead(1).kind == TokenKind::Dot {
            if !is_function(2) {
                return Err(2);
            }
            3
        } else if is_function(0) {
            1
        } else {
            // A word that is no function's name could be the keyspace of a function.
            let is_keyspace = self.kind() == TokenKind::Word && self.at_name();
            return Err(usize::from(is_keyspace));
        };
        if self.ahead(tokens).kind == TokenKind::OpenParen {
            Ok(tokens)
        } else {
            Err(tokens)
        }
    }

    /// Parses a function's name of `tokens` tokens, as counted by [`Self::function_tokens`], and
    /// the opening parenthesis after it.
    pub(super) fn function_name(&mut self, tokens: usize) -> QualifiedName {
        let name = self.name_of(self.ahead(tokens - 1));
        let keyspace = (tokens == 3).then(|| self.name_of(self.here()));
        self.at += tokens + 1;
        QualifiedName { keyspace, name }
    }
}

//! Parsers of values: constants, markers, literals, calls, arithmetic.

use super::{Parser, Result};
use crate::syntax::ast::{ArithmeticOperator, Constant, ConstantKind, Marker, Term};
use crate::syntax::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn term(&mut self) -> Result<Term> {
        self.nested(Self::sum)
    }

    fn sum(&mut self) -> Result<Term> {
        let mut left = self.product()?;
        loop {
            let operator = match self.kind() {
                // `l = [1] + l` ends before the `+`: a column is not a value.
                TokenKind::Plus if !self.prepends() => ArithmeticOperator::Add,
                TokenKind::Minus => ArithmeticOperator::Subtract,
                _ => return Ok(left),
            };
            self.operator()?;
            self.at += 1;
            let right = self.product()?;
            left = arithmetic(left, operator, right);
        }
    }

    /// Returns whether `+ column` comes next, as in `SET l = [1] + l`, which prepends to a list.
    pub(super) fn prepends(&self) -> bool {
        self.kind() == TokenKind::Plus
            && self.is_name(self.ahead(1))
            && !matches!(self.ahead(2).kind, TokenKind::OpenParen | TokenKind::Dot)
    }

    fn product(&mut self) -> Result<Term> {
        let mut left = self.signed()?;
        while let Some(operator) = self.product_operator() {
            self.operator()?;
            self.at += 1;
            let right = self.signed()?;
            left = arithmetic(left, operator, right);
        }
        Ok(left)
    }

    pub(super) fn product_operator(&self) -> Option<ArithmeticOperator> {
        match self.kind() {
            TokenKind::Star => Some(ArithmeticOperator::Multiply),
            TokenKind::Slash => Some(ArithmeticOperator::Divide),
            TokenKind::Percent => Some(ArithmeticOperator::Remainder),
            _ => None,
        }
    }

    fn signed(&mut self) -> Result<Term> {
        if self.kind() == TokenKind::Minus && !self.negative_ahead() {
            self.at += 1;
            let term = self.nested(Self::signed)?;
            return Ok(Term::Negation(Box::new(term)));
        }
        self.simple_term()
    }

    fn simple_term(&mut self) -> Result<Term> {
        if let Some(constant) = self.constant() {
            return Ok(Term::Constant(constant));
        }
        let before_wrong = match self.function_tokens() {
            Ok(tokens) => {
                let function = self.function_name(tokens);
                let args = self.until(TokenKind::CloseParen, Self::term)?;
                return Ok(Term::Call { function, args });
            }
            Err(tokens) => tokens,
        };
        match self.kind() {
            TokenKind::Question | TokenKind::Colon => Ok(Term::Marker(self.marker()?)),
            TokenKind::OpenBracket => {
                self.at += 1;
                Ok(Term::List(self.until(TokenKind::CloseBracket, Self::term)?))
            }
            TokenKind::OpenBrace => self.braces(),
            TokenKind::OpenParen => match self.attempt(Self::type_before_term) {
                Some(to) => {
                    let term = Box::new(self.nested(Self::simple_term)?);
                    Ok(Term::Hint { to, term })
                }
                None => Ok(Term::Tuple(self.parenthesized(Self::term)?)),
            },
            _ if self.eat_word("NULL") => Ok(Term::Null),
            // Without a parenthesis, the word could only be the keyspace of a function.
            _ if self.at_word("CAST") && self.ahead(1).kind == TokenKind::OpenParen => {
                self.at += 2;
                let term = Box::new(self.term()?);
                self.expect_word("AS")?;
                let to = self.type_name()?;
                self.expect(TokenKind::CloseParen)?;
                Ok(Term::Cast { term, to })
            }
            _ => Err(self.no_viable_after(before_wrong)),
        }
    }

    /// Parses the `(type)` of a type hint. It is an error if no value follows it.
    fn type_before_term(&mut self) -> Result<crate::syntax::ast::TypeName> {
        self.expect(TokenKind::OpenParen)?;
        let to = self.type_name()?;
        self.expect(TokenKind::CloseParen)?;
        if self.begins_literal() || self.function_tokens().is_ok() {
            Ok(to)
        } else {
            Err(self.no_viable())
        }
    }

    /// Returns whether the next token begins a value other than a column or the call of a function.
    /// A minus sign begins a number only if no space follows it: `(a) - 1` is a subtraction.
    pub(super) fn begins_literal(&self) -> bool {
        match self.kind() {
            TokenKind::Minus => self.negative_ahead() && self.here().end == self.ahead(1).start,
            TokenKind::OpenParen
            | TokenKind::OpenBracket
            | TokenKind::OpenBrace
            | TokenKind::Question => true,
            // In a map, `(a): b` is an entry; `(a) :b` contains a marker.
            TokenKind::Colon => {
                self.is_name(self.ahead(1)) && self.here().end == self.ahead(1).start
            }
            TokenKind::Word => {
                let words = ["NULL", "NAN", "INFINITY"];
                words.iter().any(|word| self.at_word(word))
                    || (self.at_word("CAST") && self.ahead(1).kind == TokenKind::OpenParen)
            }
            kind => kind.constant().is_some(),
        }
    }

    /// Parses a set, a map or a user-defined type, from `{` on.
    fn braces(&mut self) -> Result<Term> {
        self.at += 1;
        if self.eat(TokenKind::CloseBrace) {
            return Ok(Term::Set(Vec::new()));
        }
        if self.at_name() && self.ahead(1).kind == TokenKind::Colon {
            let fields = self.until(TokenKind::CloseBrace, |parser| {
                let field = parser.name()?;
                parser.expect(TokenKind::Colon)?;
                Ok((field, parser.term()?))
            })?;
            return Ok(Term::Udt(fields));
        }
        let first = self.term()?;
        if self.kind() != TokenKind::Colon {
            let mut elements = vec![first];
            while self.eat(TokenKind::Comma) {
                elements.push(self.term()?);
            }
            self.expect(TokenKind::CloseBrace)?;
            return Ok(Term::Set(elements));
        }
        let mut first = Some(first);
        let entries = self.until(TokenKind::CloseBrace, |parser| {
            let key = match first.take() {
                Some(key) => key,
                None => parser.term()?,
            };
            parser.expect(TokenKind::Colon)?;
            Ok((key, parser.term()?))
        })?;
        Ok(Term::Map(entries))
    }

    pub(super) fn marker(&mut self) -> Result<Marker> {
        let name = match self.kind() {
            TokenKind::Question => {
                self.at += 1;
                None
            }
            TokenKind::Colon => {
                self.at += 1;
                Some(self.name()?)
            }
            _ => return Err(self.no_viable()),
        };
        Ok(self.new_marker(name))
    }

    /// Returns whether the token after the next one begins a constant that can be negative. The
    /// next token is a minus sign. Consumes no token.
    pub(super) fn negative_ahead(&self) -> bool {
        let kind = self.ahead(1).kind;
        let number = matches!(
            kind,
            TokenKind::Integer | TokenKind::Float | TokenKind::Duration
        );
        let word = || self.word_ahead(1, "NAN") || self.word_ahead(1, "INFINITY");
        number || word()
    }

    /// Parses a constant with its sign, if one comes next.
    pub(super) fn constant(&mut self) -> Option<Constant> {
        let negative = self.kind() == TokenKind::Minus;
        if negative && !self.negative_ahead() {
            return None;
        }
        let token = self.ahead(usize::from(negative));
        let source = self.source(token);
        let (kind, text) = match token.kind {
            TokenKind::Word if source.eq_ignore_ascii_case("NAN") => {
                // The sign is ignored, as in Cassandra.
                self.at += 1 + usize::from(negative);
                return Some(Constant {
                    kind: ConstantKind::Float,
                    text: "NaN".to_owned(),
                });
            }
            TokenKind::Word if source.eq_ignore_ascii_case("INFINITY") => {
                (ConstantKind::Float, "Infinity".to_owned())
            }
            TokenKind::Boolean => (ConstantKind::Boolean, source.to_ascii_lowercase()),
            TokenKind::String => {
                let inner = &source[1..source.len() - 1];
                (ConstantKind::String, inner.replace("''", "'"))
            }
            TokenKind::DollarString => {
                let inner = &source[2..source.len() - 2];
                (ConstantKind::String, inner.to_owned())
            }
            kind => (kind.constant()?, source.to_owned()),
        };
        self.at += 1 + usize::from(negative);
        let text = if negative { format!("-{text}") } else { text };
        Some(Constant { kind, text })
    }

    pub(super) fn string(&mut self) -> Result<String> {
        let is_string = matches!(self.kind(), TokenKind::String | TokenKind::DollarString);
        match self.constant() {
            Some(constant) if is_string => Ok(constant.text),
            _ => Err(self.mismatched(TokenKind::String.expected())),
        }
    }

    pub(super) fn integer(&mut self) -> Result<Constant> {
        let signed = usize::from(self.kind() == TokenKind::Minus);
        if self.ahead(signed).kind == TokenKind::Integer
            && let Some(constant) = self.constant()
        {
            return Ok(constant);
        }
        Err(self.mismatched(TokenKind::Integer.expected()))
    }

    pub(super) fn integer_or_marker(&mut self) -> Result<Term> {
        match self.kind() {
            TokenKind::Question | TokenKind::Colon => Ok(Term::Marker(self.marker()?)),
            TokenKind::Integer | TokenKind::Minus => Ok(Term::Constant(self.integer()?)),
            _ => Err(self.no_viable()),
        }
    }
}

fn arithmetic(left: Term, operator: ArithmeticOperator, right: Term) -> Term {
    Term::Arithmetic {
        left: Box::new(left),
        operator,
        right: Box::new(right),
    }
}

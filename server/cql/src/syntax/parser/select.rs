//! Parsers of SELECT and its selectors.

use super::{Parser, Result};
use crate::syntax::ast::{
    ArithmeticOperator, Name, Order, Select, Selected, Selection, Selector, TypeName,
};
use crate::syntax::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Result<Select> {
        let json = self.eat_modifier("JSON");
        let distinct = self.eat_modifier("DISTINCT");
        let selection = self.selection()?;
        self.expect_word("FROM")?;
        let from = self.table()?;
        let snapshot = if self.eat_words("USING SNAPSHOT") {
            Some(self.name()?)
        } else {
            None
        };
        let relations = self.after_word("WHERE", Self::relations)?;
        let group_by = self.after_word("GROUP", |parser| {
            parser.expect_word("BY")?;
            parser.list(Self::selector)
        })?;
        let order_by = self.after_word("ORDER", |parser| {
            parser.expect_word("BY")?;
            parser.list(Self::ordering)
        })?;
        let per_partition_limit = self.after_word("PER", |parser| {
            parser.expect_words("PARTITION LIMIT")?;
            parser.integer_or_marker()
        })?;
        let limit = self.after_word("LIMIT", Self::integer_or_marker)?;
        let allow_filtering = self.eat_word("ALLOW");
        if allow_filtering {
            self.expect_word("FILTERING")?;
        }
        Ok(Select {
            json,
            distinct,
            selection,
            from,
            snapshot,
            relations: relations.unwrap_or_default(),
            group_by: group_by.unwrap_or_default(),
            order_by: order_by.unwrap_or_default(),
            per_partition_limit,
            limit,
            allow_filtering,
        })
    }

    /// Consumes `word`, `JSON` or `DISTINCT`, if it comes next as a modifier of SELECT, and returns
    /// whether it did. If no selector can begin after the word, as in `SELECT json, a`, the word is
    /// the name of a selected column, and is not consumed.
    fn eat_modifier(&mut self, word: &str) -> bool {
        let column = match self.ahead(1).kind {
            TokenKind::Star => !self.word_ahead(2, "FROM"),
            TokenKind::Comma
            | TokenKind::Dot
            | TokenKind::Plus
            | TokenKind::Slash
            | TokenKind::Percent => true,
            _ if self.word_ahead(1, "AS") => self.is_name(self.ahead(2)),
            _ => self.word_ahead(1, "FROM"),
        };
        !column && self.eat_word(word)
    }

    fn selection(&mut self) -> Result<Selection> {
        if self.eat(TokenKind::Star) {
            return Ok(Selection::All);
        }
        Ok(Selection::Some(self.list(|parser| {
            let selector = parser.selector()?;
            let alias = parser.after_word("AS", Self::name)?;
            Ok(Selected { selector, alias })
        })?))
    }

    fn ordering(&mut self) -> Result<(Name, Order)> {
        let column = self.column()?;
        if self.eat_word("DESC") {
            return Ok((column, Order::Desc));
        }
        self.eat_word("ASC");
        Ok((column, Order::Asc))
    }

    fn selector(&mut self) -> Result<Selector> {
        self.nested(Self::selector_sum)
    }

    fn selector_sum(&mut self) -> Result<Selector> {
        let mut left = self.selector_product()?;
        loop {
            let operator = match self.kind() {
                TokenKind::Plus => ArithmeticOperator::Add,
                TokenKind::Minus => ArithmeticOperator::Subtract,
                _ => return Ok(left),
            };
            self.operator()?;
            self.at += 1;
            let right = self.selector_product()?;
            left = arithmetic(left, operator, right);
        }
    }

    fn selector_product(&mut self) -> Result<Selector> {
        let mut left = self.selector_signed()?;
        while let Some(operator) = self.product_operator() {
            self.operator()?;
            self.at += 1;
            let right = self.selector_signed()?;
            left = arithmetic(left, operator, right);
        }
        Ok(left)
    }

    fn selector_signed(&mut self) -> Result<Selector> {
        if self.kind() == TokenKind::Minus && !self.negative_ahead() {
            self.at += 1;
            let selector = self.nested(Self::selector_signed)?;
            return Ok(Selector::Negation(Box::new(selector)));
        }
        let selector = self.simple_selector()?;
        self.parts_of(selector)
    }

    /// Parses `.field`, `[key]` and `[from..to]` after a selector, any number of them.
    fn parts_of(&mut self, mut selector: Selector) -> Result<Selector> {
        loop {
            let of = match self.kind() {
                TokenKind::Dot | TokenKind::OpenBracket => Box::new(selector),
                _ => return Ok(selector),
            };
            self.operator()?;
            if self.eat(TokenKind::Dot) {
                let field = self.name()?;
                selector = Selector::Field { of, field };
                continue;
            }
            self.at += 1;
            let from = match self.kind() {
                TokenKind::Range => None,
                _ => Some(self.term()?),
            };
            selector = match (self.eat(TokenKind::Range), from) {
                (false, Some(key)) => Selector::Element { of, key },
                (_, from) => {
                    let open = from.is_some() && self.kind() == TokenKind::CloseBracket;
                    let to = if open { None } else { Some(self.term()?) };
                    Selector::Slice { of, from, to }
                }
            };
            self.expect(TokenKind::CloseBracket)?;
        }
    }

    fn simple_selector(&mut self) -> Result<Selector> {
        if let Some(constant) = self.constant() {
            return Ok(Selector::Constant(constant));
        }
        match self.kind() {
            TokenKind::Question | TokenKind::Colon => {
                return Ok(Selector::Marker(self.marker()?));
            }
            TokenKind::OpenBracket => {
                self.at += 1;
                let items = self.until(TokenKind::CloseBracket, Self::selector)?;
                return Ok(Selector::List(items));
            }
            TokenKind::OpenBrace => return self.selector_braces(),
            TokenKind::OpenParen => {
                return match self.attempt(Self::type_before_selector) {
                    Some(to) => {
                        let selector = Box::new(self.nested(Self::simple_selector)?);
                        Ok(Selector::Hint { to, selector })
                    }
                    None => Ok(Selector::Tuple(self.parenthesized(Self::selector)?)),
                };
            }
            _ => {}
        }
        if self.eat_word("NULL") {
            return Ok(Selector::Null);
        }
        if let Ok(tokens) = self.function_tokens() {
            return self.selector_call(tokens);
        }
        if self.kind() == TokenKind::Word && self.ahead(1).kind == TokenKind::OpenParen {
            return self.special_call();
        }
        Ok(Selector::Column(self.column()?))
    }

    fn selector_call(&mut self, tokens: usize) -> Result<Selector> {
        let function = self.function_name(tokens);
        let count = function.keyspace.is_none() && function.name == "count";
        if count && self.eat(TokenKind::Star) {
            self.expect(TokenKind::CloseParen)?;
            return Ok(Selector::CountRows);
        }
        let args = self.until(TokenKind::CloseParen, Self::selector)?;
        if count && matches!(args[..], [Selector::Constant(_)]) {
            return Ok(Selector::CountRows);
        }
        Ok(Selector::Call { function, args })
    }

    /// Parses CAST, WRITETIME, MAXWRITETIME or TTL, which look like calls of functions.
    fn special_call(&mut self) -> Result<Selector> {
        if self.eat_word("CAST") {
            self.at += 1;
            let selector = Box::new(self.selector()?);
            self.expect_word("AS")?;
            let to = self.type_name()?;
            self.expect(TokenKind::CloseParen)?;
            return Ok(Selector::Cast { selector, to });
        }
        let kind: fn(Box<Selector>) -> Selector = if self.at_word("WRITETIME") {
            Selector::WriteTime
        } else if self.at_word("MAXWRITETIME") {
            Selector::MaxWriteTime
        } else if self.at_word("TTL") {
            Selector::Ttl
        } else {
            return Err(self.no_viable());
        };
        self.at += 2;
        let column = Selector::Column(self.column()?);
        let of = self.nested(|parser| parser.parts_of(column))?;
        self.expect(TokenKind::CloseParen)?;
        Ok(kind(Box::new(of)))
    }

    /// Parses the `(type)` of a type hint. It is an error if no value follows it.
    fn type_before_selector(&mut self) -> Result<TypeName> {
        self.expect(TokenKind::OpenParen)?;
        let to = self.type_name()?;
        self.expect(TokenKind::CloseParen)?;
        // Neither an alias nor the clause after GROUP BY is a value.
        let clause = self.at_word("AS") || (self.at_word("PER") && self.word_ahead(1, "PARTITION"));
        let value = self.begins_literal() || (self.at_name() && !clause);
        if value || self.function_tokens().is_ok() {
            Ok(to)
        } else {
            Err(self.no_viable())
        }
    }

    /// Parses a set, or a map or user-defined type, from `{` on.
    fn selector_braces(&mut self) -> Result<Selector> {
        self.at += 1;
        if self.eat(TokenKind::CloseBrace) {
            return Ok(Selector::Set(Vec::new()));
        }
        let first = self.selector()?;
        if self.kind() != TokenKind::Colon {
            let mut elements = vec![first];
            while self.eat(TokenKind::Comma) {
                elements.push(self.selector()?);
            }
            self.expect(TokenKind::CloseBrace)?;
            return Ok(Selector::Set(elements));
        }
        let mut first = Some(first);
        let entries = self.until(TokenKind::CloseBrace, |parser| {
            let key = match first.take() {
                Some(key) => key,
                None => parser.selector()?,
            };
            parser.expect(TokenKind::Colon)?;
            Ok((key, parser.selector()?))
        })?;
        Ok(Selector::Map(entries))
    }
}

fn arithmetic(left: Selector, operator: ArithmeticOperator, right: Selector) -> Selector {
    Selector::Arithmetic {
        left: Box::new(left),
        operator,
        right: Box::new(right),
    }
}

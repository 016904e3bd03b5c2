//! Parsers of the relations of WHERE and the conditions of IF.

use super::{Parser, Result};
use crate::syntax::ast::{
    ColumnCondition, ColumnTest, Condition, InValues, Name, Operator, Part, Relation, Term,
};
use crate::syntax::lexer::TokenKind;

impl Parser<'_> {
    /// Parses the relations after `WHERE`.
    pub(super) fn relations(&mut self) -> Result<Vec<Relation>> {
        let mut relations = vec![self.relation()?];
        while self.eat_word("AND") {
            relations.push(self.relation()?);
        }
        Ok(relations)
    }

    fn relation(&mut self) -> Result<Relation> {
        if self.kind() == TokenKind::OpenParen {
            let columns = self.is_name(self.ahead(1))
                && matches!(self.ahead(2).kind, TokenKind::Comma | TokenKind::CloseParen);
            if columns {
                return self.tuple_relation();
            }
            self.at += 1;
            let relation = self.nested(Self::relation)?;
            self.expect(TokenKind::CloseParen)?;
            return Ok(relation);
        }
        if self.eat_word("TOKEN") {
            return Ok(Relation::Token {
                columns: self.parenthesized(Self::column)?,
                operator: self.comparison()?,
                value: self.term()?,
            });
        }
        let column = self.column()?;
        if self.eat(TokenKind::OpenBracket) {
            let key = self.term()?;
            self.expect(TokenKind::CloseBracket)?;
            return Ok(Relation::Element {
                column,
                key,
                operator: self.comparison()?,
                value: self.term()?,
            });
        }
        if self.eat_word("IN") {
            let values = self.in_values(Self::term)?;
            return Ok(Relation::In { column, values });
        }
        if self.eat_word("IS") {
            self.expect_words("NOT NULL")?;
            return Ok(Relation::IsNotNull(column));
        }
        let operator = if self.eat_word("LIKE") {
            Operator::Like
        } else {
            self.contains_or_comparison()?
        };
        Ok(Relation::Column {
            column,
            operator,
            value: self.term()?,
        })
    }

    fn tuple_relation(&mut self) -> Result<Relation> {
        let columns: Vec<Name> = self.parenthesized(Self::column)?;
        if self.eat_word("IN") {
            let values = self.in_values(Self::tuple_value)?;
            return Ok(Relation::TupleIn { columns, values });
        }
        Ok(Relation::Tuple {
            columns,
            operator: self.comparison()?,
            value: self.tuple_value()?,
        })
    }

    /// Parses `(1, 2)` or a marker.
    fn tuple_value(&mut self) -> Result<Term> {
        match self.kind() {
            TokenKind::OpenParen => Ok(Term::Tuple(self.parenthesized(Self::term)?)),
            _ => Ok(Term::Marker(self.marker()?)),
        }
    }

    /// Parses the values after `IN`.
    fn in_values(&mut self, value: impl FnMut(&mut Self) -> Result<Term>) -> Result<InValues> {
        match self.kind() {
            TokenKind::OpenParen => {
                self.at += 1;
                Ok(InValues::List(self.until(TokenKind::CloseParen, value)?))
            }
            _ => Ok(InValues::Marker(self.marker()?)),
        }
    }

    fn contains_or_comparison(&mut self) -> Result<Operator> {
        if !self.eat_word("CONTAINS") {
            return self.comparison();
        }
        // A function's keyspace may have this name.
        if self.ahead(1).kind != TokenKind::Dot && self.eat_word("KEY") {
            Ok(Operator::ContainsKey)
        } else {
            Ok(Operator::Contains)
        }
    }

    /// Parses a comparison by order or equality.
    fn comparison(&mut self) -> Result<Operator> {
        let Some(operator) = comparison(self.kind()) else {
            return Err(self.no_viable());
        };
        self.at += 1;
        Ok(operator)
    }

    /// Parses `[IF ...]` of UPDATE and DELETE.
    pub(super) fn condition(&mut self) -> Result<Condition> {
        if !self.eat_word("IF") {
            return Ok(Condition::None);
        }
        // A column may have the name `exists`.
        let column_behind = comparison(self.ahead(1).kind).is_some()
            || matches!(self.ahead(1).kind, TokenKind::OpenBracket | TokenKind::Dot)
            || self.word_ahead(1, "IN")
            || self.word_ahead(1, "CONTAINS");
        if !column_behind && self.eat_word("EXISTS") {
            return Ok(Condition::Exists);
        }
        let mut all = vec![self.column_condition()?];
        while self.eat_word("AND") {
            all.push(self.column_condition()?);
        }
        Ok(Condition::All(all))
    }

    fn column_condition(&mut self) -> Result<ColumnCondition> {
        let column = self.column()?;
        let part = self.part()?;
        let test = if self.eat_word("IN") {
            ColumnTest::In(self.in_values(Self::term)?)
        } else {
            let operator = match part {
                Part::Whole => self.contains_or_comparison()?,
                _ => self.comparison()?,
            };
            ColumnTest::Compare(operator, self.term()?)
        };
        Ok(ColumnCondition { column, part, test })
    }

    /// Parses `[key]` or `.field` after the name of a column. Without either, the part is the whole
    /// column.
    pub(super) fn part(&mut self) -> Result<Part> {
        if self.eat(TokenKind::OpenBracket) {
            let key = self.term()?;
            self.expect(TokenKind::CloseBracket)?;
            return Ok(Part::Element(key));
        }
        if self.eat(TokenKind::Dot) {
            return Ok(Part::Field(self.name()?));
        }
        Ok(Part::Whole)
    }
}

fn comparison(kind: TokenKind) -> Option<Operator> {
    match kind {
        TokenKind::Equal => Some(Operator::Equal),
        TokenKind::NotEqual => Some(Operator::NotEqual),
        TokenKind::Less => Some(Operator::Less),
        TokenKind::LessOrEqual => Some(Operator::LessOrEqual),
        TokenKind::Greater => Some(Operator::Greater),
        TokenKind::GreaterOrEqual => Some(Operator::GreaterOrEqual),
        _ => None,
    }
}

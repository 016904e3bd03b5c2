//! Parsers of INSERT, UPDATE, DELETE, BATCH.

use std::collections::{HashMap, HashSet};

use super::{Parser, Result};
use crate::syntax::ast::{
    Assignment, Batch, BatchKind, Change, Constant, ConstantKind, Delete, DeleteTarget, Insert,
    InsertSource, Name, Term, Update, Using, Write,
};
use crate::syntax::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn insert(&mut self) -> Result<Insert> {
        self.expect_word("INTO")?;
        let table = self.table()?;
        let source = if self.eat_word("JSON") {
            self.json_source()?
        } else {
            let columns = self.parenthesized(Self::column)?;
            self.expect_word("VALUES")?;
            let values = self.parenthesized(Self::term)?;
            InsertSource::Values { columns, values }
        };
        Ok(Insert {
            table,
            source,
            if_not_exists: self.if_not_exists()?,
            using: self.using()?,
        })
    }

    fn json_source(&mut self) -> Result<InsertSource> {
        let value = match self.kind() {
            TokenKind::String | TokenKind::DollarString => Term::Constant(Constant {
                kind: ConstantKind::String,
                text: self.string()?,
            }),
            _ => Term::Marker(self.marker()?),
        };
        let mut default_unset = false;
        if self.eat_word("DEFAULT") {
            default_unset = self.eat_word("UNSET");
            if !default_unset {
                self.expect_word("NULL")?;
            }
        }
        Ok(InsertSource::Json {
            value,
            default_unset,
        })
    }

    /// Parses `[USING ...]`.
    fn using(&mut self) -> Result<Using> {
        let mut using = Using::default();
        if !self.eat_word("USING") {
            return Ok(using);
        }
        loop {
            let at = self.at;
            let what = if self.eat_word("TTL") {
                &mut using.ttl
            } else {
                self.expect_word("TIMESTAMP")?;
                &mut using.timestamp
            };
            if what.replace(self.integer_or_marker()?).is_some() {
                let word = self.source(self.tokens[at]);
                return Err(self.error_at(at, format!("Multiple definition for {word}")));
            }
            if !self.eat_word("AND") {
                return Ok(using);
            }
        }
    }

    pub(super) fn update(&mut self) -> Result<Update> {
        let table = self.table()?;
        let using = self.using()?;
        self.expect_word("SET")?;
        let at = self.at;
        let assignments = self.list(Self::assignment)?;
        if let Some(column) = set_twice(&assignments) {
            let message = format!("Multiple incompatible setting of column {column}");
            return Err(self.error_at(at, message));
        }
        self.expect_word("WHERE")?;
        Ok(Update {
            table,
            using,
            assignments,
            relations: self.relations()?,
            condition: self.condition()?,
        })
    }

    fn assignment(&mut self) -> Result<Assignment> {
        let column = self.column()?;
        let change = match self.kind() {
            TokenKind::PlusEqual => {
                self.at += 1;
                Change::Add(self.term()?)
            }
            TokenKind::MinusEqual => {
                self.at += 1;
                Change::Subtract(self.term()?)
            }
            TokenKind::OpenBracket => {
                self.at += 1;
                let key = self.term()?;
                self.expect(TokenKind::CloseBracket)?;
                self.expect(TokenKind::Equal)?;
                let value = self.term()?;
                Change::Element { key, value }
            }
            TokenKind::Dot => {
                self.at += 1;
                let field = self.name()?;
                self.expect(TokenKind::Equal)?;
                let value = self.term()?;
                Change::Field { field, value }
            }
            _ => {
                self.expect(TokenKind::Equal)?;
                self.change_of(column.as_str())?
            }
        };
        Ok(Assignment { column, change })
    }

    /// Parses the change after `column =`.
    fn change_of(&mut self, column: &str) -> Result<Change> {
        let at = self.at;
        let operator = self.ahead(1).kind;
        let add = operator == TokenKind::Plus;
        if self.at_name() && (add || operator == TokenKind::Minus) {
            if self.column()? != *column {
                let sign = if add { '+' } else { '-' };
                let message =
                    format!("Only expressions of the form X = X {sign} <value> are supported.");
                return Err(self.error_at(at, message));
            }
            self.at += 1;
            let value = self.term()?;
            return Ok(if add {
                Change::Add(value)
            } else {
                Change::Subtract(value)
            });
        }
        let value = self.term()?;
        if !self.prepends() {
            return Ok(Change::Set(value));
        }
        self.at += 1;
        let at = self.at;
        if self.column()? != *column {
            let message = "Only expressions of the form X = <value> + X are supported.";
            return Err(self.error_at(at, message));
        }
        Ok(Change::Prepend(value))
    }

    pub(super) fn delete(&mut self) -> Result<Delete> {
        let targets = if self.at_word("FROM") {
            Vec::new()
        } else {
            self.list(|parser| {
                Ok(DeleteTarget {
                    column: parser.column()?,
                    part: parser.part()?,
                })
            })?
        };
        self.expect_word("FROM")?;
        let table = self.table()?;
        let timestamp = self.after_word("USING", |parser| {
            parser.expect_word("TIMESTAMP")?;
            parser.integer_or_marker()
        })?;
        self.expect_word("WHERE")?;
        Ok(Delete {
            targets,
            table,
            timestamp,
            relations: self.relations()?,
            condition: self.condition()?,
        })
    }

    /// Parses the rest after `BEGIN`.
    pub(super) fn batch(&mut self) -> Result<Batch> {
        let kind = if self.eat_word("UNLOGGED") {
            BatchKind::Unlogged
        } else if self.eat_word("COUNTER") {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        self.expect_word("BATCH")?;
        let using = self.using()?;
        let mut writes = Vec::new();
        loop {
            let write = if self.eat_word("INSERT") {
                Write::Insert(self.insert()?)
            } else if self.eat_word("UPDATE") {
                Write::Update(self.update()?)
            } else if self.eat_word("DELETE") {
                Write::Delete(self.delete()?)
            } else {
                break;
            };
            writes.push(write);
            self.eat(TokenKind::Semicolon);
        }
        self.expect_words("APPLY BATCH")?;
        Ok(Batch {
            kind,
            using,
            writes,
        })
    }
}

/// Returns a column that has conflicting assignments: it is set as a whole and in another
/// assignment, or one of its fields is set twice.
fn set_twice(assignments: &[Assignment]) -> Option<&Name> {
    let mut fields = HashSet::new();
    let mut is_set: HashMap<&Name, bool> = HashMap::new();
    for Assignment { column, change } in assignments {
        let sets = matches!(change, Change::Set(_));
        if is_set
            .insert(column, sets)
            .is_some_and(|was_set| was_set || sets)
        {
            return Some(column);
        }
        if let Change::Field { field, .. } = change
            && !fields.insert((column, field))
        {
            return Some(column);
        }
    }
    None
}

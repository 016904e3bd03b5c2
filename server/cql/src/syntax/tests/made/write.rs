//! Random INSERTs, UPDATEs and DELETEs.

use rand::{Rng, RngExt};

use super::Maker;
use crate::syntax::ast::*;

impl<R: Rng> Maker<R> {
    pub(super) fn using(&mut self) -> Using {
        if self.chance(2) {
            let ttl = Some(Term::Marker(self.marker()));
            let timestamp = Some(Term::Marker(self.marker()));
            Using { timestamp, ttl }
        } else {
            Using {
                timestamp: self.maybe(Self::integer_or_marker),
                ttl: self.maybe(Self::integer_or_marker),
            }
        }
    }

    pub(super) fn condition(&mut self) -> Condition {
        match self.rng.random_range(0..3) {
            0 => Condition::None,
            1 => Condition::Exists,
            _ => Condition::All(self.many(1, |make| {
                let column = make.column();
                let part = make.part();
                let test = if make.chance(2) {
                    ColumnTest::In(make.in_values(|make| make.term(1)))
                } else if part == Part::Whole && make.chance(3) {
                    ColumnTest::Compare(Operator::ContainsKey, make.term(1))
                } else {
                    ColumnTest::Compare(make.comparison(), make.term(1))
                };
                ColumnCondition { column, part, test }
            })),
        }
    }

    pub(super) fn part(&mut self) -> Part {
        match self.rng.random_range(0..3) {
            0 => Part::Element(self.term(1)),
            1 => Part::Field(self.name()),
            _ => Part::Whole,
        }
    }

    pub(super) fn assignments(&mut self) -> Vec<Assignment> {
        // A column in two assignments is usually an error, which another test covers.
        let mut assignments = self.many(1, |make| Assignment {
            column: make.column(),
            change: match make.rng.random_range(0..6) {
                0 => Change::Set(make.term(3)),
                1 => Change::Add(make.term(2)),
                2 => Change::Subtract(make.term(2)),
                3 => Change::Prepend(make.term(2)),
                4 => Change::Element {
                    key: make.term(1),
                    value: make.term(2),
                },
                _ => Change::Field {
                    field: make.name(),
                    value: make.term(2),
                },
            },
        });
        for (at, assignment) in assignments.iter_mut().enumerate() {
            assignment.column = Name::new(format!("{}{at}", assignment.column.as_str()));
        }
        assignments
    }

    pub(super) fn write(&mut self) -> Write {
        match self.rng.random_range(0..3) {
            0 => Write::Insert(Insert {
                table: self.qualified(),
                source: if self.chance(4) {
                    InsertSource::Json {
                        value: Term::Marker(self.marker()),
                        default_unset: self.chance(2),
                    }
                } else {
                    InsertSource::Values {
                        columns: self.many(1, Self::column),
                        values: self.many(1, |make| make.term(3)),
                    }
                },
                if_not_exists: self.chance(2),
                using: self.using(),
            }),
            1 => Write::Update(Update {
                table: self.qualified(),
                using: self.using(),
                assignments: self.assignments(),
                relations: self.many(1, Self::relation),
                condition: self.condition(),
            }),
            _ => Write::Delete(Delete {
                targets: self.many(0, |make| DeleteTarget {
                    column: make.column(),
                    part: make.part(),
                }),
                table: self.qualified(),
                timestamp: self.maybe(Self::integer_or_marker),
                relations: self.many(1, Self::relation),
                condition: self.condition(),
            }),
        }
    }
}

//! Random relations and conditions.

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use super::Maker;
use crate::syntax::ast::*;

impl<R: Rng> Maker<R> {
    pub(super) fn comparison(&mut self) -> Operator {
        use Operator::*;
        let all = [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual];
        *all.choose(&mut self.rng).unwrap()
    }

    pub(super) fn in_values(&mut self, mut value: impl FnMut(&mut Self) -> Term) -> InValues {
        if self.chance(2) {
            InValues::Marker(self.marker())
        } else {
            InValues::List(self.many(0, &mut value))
        }
    }

    pub(super) fn tuple_value(&mut self) -> Term {
        if self.chance(2) {
            Term::Marker(self.marker())
        } else {
            Term::Tuple(self.many(1, |make| make.term(1)))
        }
    }

    pub(super) fn relation(&mut self) -> Relation {
        match self.rng.random_range(0..9) {
            0 | 1 => Relation::Column {
                column: self.column(),
                operator: self.comparison(),
                value: self.term(2),
            },
            2 => {
                let others = [Operator::Contains, Operator::ContainsKey, Operator::Like];
                Relation::Column {
                    column: self.column(),
                    operator: *others.choose(&mut self.rng).unwrap(),
                    value: self.term(1),
                }
            }
            3 => Relation::In {
                column: self.column(),
                values: self.in_values(|make| make.term(1)),
            },
            4 => Relation::IsNotNull(self.column()),
            5 => Relation::Element {
                column: self.column(),
                key: self.term(1),
                operator: self.comparison(),
                value: self.term(1),
            },
            6 => Relation::Token {
                columns: self.many(1, Self::column),
                operator: self.comparison(),
                value: self.term(2),
            },
            7 => Relation::Tuple {
                columns: self.many(1, Self::column),
                operator: self.comparison(),
                value: self.tuple_value(),
            },
            _ => Relation::TupleIn {
                columns: self.many(1, Self::column),
                values: self.in_values(Self::tuple_value),
            },
        }
    }
}

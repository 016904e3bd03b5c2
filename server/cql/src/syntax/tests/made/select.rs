//! Random SELECTs.

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use super::{Maker, is_number};
use crate::syntax::ast::*;

impl<R: Rng> Maker<R> {
    pub(super) fn selector(&mut self, height: u32) -> Selector {
        if height > 0 && self.chance(6) {
            let product = self.chance(2);
            let left = Box::new(self.signed_selector(height - 1));
            let operator = self.operator(product);
            let right = Box::new(self.signed_selector(height - 1));
            return Selector::Arithmetic {
                left,
                operator,
                right,
            };
        }
        self.signed_selector(height)
    }

    pub(super) fn signed_selector(&mut self, height: u32) -> Selector {
        if height == 0 || !self.chance(10) {
            return self.selector_with_parts(height);
        }
        match self.selector_with_parts(height - 1) {
            selector if begins_with_number(&selector) => selector,
            selector => Selector::Negation(Box::new(selector)),
        }
    }

    pub(super) fn selector_with_parts(&mut self, height: u32) -> Selector {
        if height == 0 || !self.chance(4) {
            return self.simple_selector(height);
        }
        let of = if self.chance(3) {
            // In parentheses a name would be a type.
            match self.simple_selector(height - 1) {
                Selector::Tuple(items) => Selector::List(items),
                hint @ Selector::Hint { .. } => Selector::List(vec![hint]),
                selector => selector,
            }
        } else {
            Selector::Column(self.column())
        };
        self.part_of(of)
    }

    pub(super) fn part_of(&mut self, of: Selector) -> Selector {
        let of = Box::new(of);
        match self.rng.random_range(0..3) {
            0 => Selector::Field {
                of,
                field: self.name(),
            },
            1 => Selector::Element {
                of,
                key: self.term(1),
            },
            _ => {
                let from = self.maybe(|make| make.term(1));
                let to = if from.is_some() && self.chance(2) {
                    None
                } else {
                    Some(self.term(1))
                };
                Selector::Slice { of, from, to }
            }
        }
    }

    /// Returns a random argument for `ttl`: a column, or a part of one.
    pub(super) fn column_or_part(&mut self) -> Box<Selector> {
        let column = Selector::Column(self.column());
        Box::new(if self.chance(3) {
            self.part_of(column)
        } else {
            column
        })
    }

    pub(super) fn simple_selector(&mut self, height: u32) -> Selector {
        let below = height.saturating_sub(1);
        let selector = |make: &mut Self| make.selector(below);
        match self.rng.random_range(0..if height == 0 { 9 } else { 16 }) {
            0..=2 => Selector::Column(self.column()),
            3 => Selector::Constant(self.constant()),
            4 => Selector::Null,
            5 => Selector::Marker(self.marker()),
            6 => Selector::CountRows,
            7 => Selector::WriteTime(self.column_or_part()),
            8 => {
                if self.chance(2) {
                    Selector::MaxWriteTime(self.column_or_part())
                } else {
                    Selector::Ttl(self.column_or_part())
                }
            }
            9 => {
                let function = self.function();
                let args = self.many(0, selector);
                let count = function.keyspace.is_none() && function.name == "count";
                if count && matches!(args[..], [Selector::Constant(_)]) {
                    Selector::CountRows
                } else {
                    Selector::Call { function, args }
                }
            }
            10 => Selector::Cast {
                selector: Box::new(self.selector(below)),
                to: TypeName::Native(self.native()),
            },
            11 => {
                let to = self.type_name(2);
                let selector = match self.simple_selector(below) {
                    // This would be an alias.
                    Selector::Column(name) if name == "as" => Selector::Null,
                    selector => selector,
                };
                Selector::Hint {
                    to,
                    selector: Box::new(selector),
                }
            }
            12 => Selector::Tuple(self.many(1, selector)),
            13 => Selector::List(self.many(0, selector)),
            14 => Selector::Set(self.many(0, selector)),
            _ => Selector::Map(self.many(1, |make| (make.selector(below), make.selector(below)))),
        }
    }

    pub(super) fn integer_or_marker(&mut self) -> Term {
        if self.chance(2) {
            Term::Marker(self.marker())
        } else {
            Term::Constant(Constant {
                kind: ConstantKind::Integer,
                text: ["10", "-1", "0"].choose(&mut self.rng).unwrap().to_string(),
            })
        }
    }

    pub(super) fn order(&mut self) -> Order {
        if self.chance(2) {
            Order::Asc
        } else {
            Order::Desc
        }
    }

    pub(super) fn select(&mut self) -> Select {
        Select {
            json: self.chance(3),
            distinct: self.chance(3),
            selection: if self.chance(3) {
                Selection::All
            } else {
                Selection::Some(self.many(1, |make| Selected {
                    selector: make.selector(3),
                    alias: make.maybe(Self::name),
                }))
            },
            from: self.qualified(),
            snapshot: self.maybe(Self::name),
            relations: self.many(0, Self::relation),
            group_by: self.many(0, |make| make.selector(1)),
            order_by: self.many(0, |make| (make.column(), make.order())),
            per_partition_limit: self.maybe(Self::integer_or_marker),
            limit: self.maybe(Self::integer_or_marker),
            allow_filtering: self.chance(2),
        }
    }
}

fn begins_with_number(selector: &Selector) -> bool {
    match selector {
        Selector::Constant(constant) => is_number(constant),
        Selector::Field { of, .. } | Selector::Element { of, .. } | Selector::Slice { of, .. } => {
            begins_with_number(of)
        }
        _ => false,
    }
}

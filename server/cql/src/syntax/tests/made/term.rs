//! Random terms.

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use super::{Maker, is_number};
use crate::syntax::ast::*;

impl<R: Rng> Maker<R> {
    /// Returns `*`, `/` or `%` if `product`, otherwise `+` or `-`. Trees are printed without
    /// parentheses, so all operators of a chain such as `a + b - c` must have the same `product`,
    /// and no right operand may be a chain.
    pub(super) fn operator(&mut self, product: bool) -> ArithmeticOperator {
        use ArithmeticOperator::*;
        let of: &[_] = if product {
            &[Multiply, Divide, Remainder]
        } else {
            &[Add, Subtract]
        };
        *of.choose(&mut self.rng).unwrap()
    }

    pub(super) fn term(&mut self, height: u32) -> Term {
        if height > 0 && self.chance(8) {
            let product = self.chance(2);
            let left = Box::new(self.signed_term(height - 1));
            let operator = self.operator(product);
            let right = Box::new(self.signed_term(height - 1));
            let sum = Term::Arithmetic {
                left,
                operator,
                right,
            };
            if self.chance(2) {
                return sum;
            }
            return Term::Arithmetic {
                left: Box::new(sum),
                operator: self.operator(product),
                right: Box::new(self.signed_term(height - 1)),
            };
        }
        self.signed_term(height)
    }

    pub(super) fn signed_term(&mut self, height: u32) -> Term {
        if height == 0 || !self.chance(10) {
            return self.simple_term(height);
        }
        match self.signed_term(height - 1) {
            // A sign and a number together are a number.
            Term::Constant(constant) if is_number(&constant) => Term::Constant(constant),
            term => Term::Negation(Box::new(term)),
        }
    }

    pub(super) fn simple_term(&mut self, height: u32) -> Term {
        let below = height.saturating_sub(1);
        let term = |make: &mut Self| make.term(below);
        match self.rng.random_range(0..if height == 0 { 5 } else { 13 }) {
            0 | 1 => Term::Constant(self.constant()),
            2 => Term::Null,
            3 | 4 => Term::Marker(self.marker()),
            5 => Term::List(self.many(0, term)),
            6 => Term::Set(self.many(0, term)),
            7 => Term::Map(self.many(1, |make| (make.term(below), make.term(below)))),
            8 => Term::Udt(self.many(1, |make| (make.name(), make.term(below)))),
            9 => Term::Tuple(self.many(1, term)),
            10 => Term::Call {
                function: self.function(),
                args: self.many(0, term),
            },
            11 => Term::Hint {
                to: self.type_name(2),
                term: Box::new(self.simple_term(below)),
            },
            _ => Term::Cast {
                term: Box::new(self.term(below)),
                to: self.type_name(1),
            },
        }
    }
}

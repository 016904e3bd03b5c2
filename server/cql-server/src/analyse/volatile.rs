//! Volatile functions: those that give another value at each call, such as `uuid()` and `now()`.
//!
//! A statement calls one once for each place where it stands, when its values are bound and before
//! any term is evaluated. So the value is the same wherever the statement uses it: in the key that
//! it reads and in the key that it writes, in an attempt that conflicted and in the next one.

use crate::error::Result;
use crate::functions::Function;

/// The calls of volatile functions in one statement, by their places.
#[derive(Debug, Clone, Default)]
pub struct VolatileCalls(Vec<Function>);

impl VolatileCalls {
    /// Returns whether a function is volatile: one without arguments has nothing else to give.
    pub fn is_volatile(function: &Function) -> bool {
        function.args().is_empty()
    }

    /// Adds a call, and returns its place.
    pub fn push(&mut self, function: Function) -> usize {
        self.0.push(function);
        self.0.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls all functions at `now_us`, microseconds since 1970, and returns their values by place.
    ///
    /// # Errors
    /// The time-out of the statement.
    pub fn call(&self, now_us: i64) -> Result<Vec<Option<Vec<u8>>>> {
        let one = |function: &Function| function.call(&[], now_us);
        self.0.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use ebb_cql::syntax::ast::{self, Name, QualifiedName};
    use ebb_model::types::CqlType;

    use crate::analyse::markers::{Bound, Markers, Receiver};
    use crate::analyse::term::{self, Evaluated, Term};
    use crate::executor::harness::Server;

    fn value(term: &Term, bound: &Bound<'_>) -> Vec<u8> {
        match term.evaluate(bound).unwrap() {
            Evaluated::Value(value) => value.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    /// A statement may evaluate a term any number of times, and in each attempt that conflicts.
    #[test]
    fn a_place_has_one_value_in_an_execution_and_for_a_row() {
        let server = Server::with(&["CREATE TABLE t (k uuid PRIMARY KEY)"]);
        let state = server.executor.catalog().state();
        let table = state.table("ks", "t").unwrap();
        let mut markers = Markers::new(table.schema(), &[]);
        let receiver = Receiver::new("k", CqlType::Uuid);
        let call = ast::Term::Call {
            function: QualifiedName::from(Name::new("uuid")),
            args: Vec::new(),
        };
        let [a, b] = [(); 2].map(|()| term::prepare(&call, &receiver, &mut markers).unwrap());
        let calls = markers.take_volatile();
        let bound = Bound::default().calling(&calls).unwrap();
        let first = value(&a, &bound);
        assert_eq!(value(&a, &bound), first);
        assert_ne!(value(&b, &bound), first);
        assert_eq!(value(&a, &bound.for_row(0).unwrap()), first);
        let next = bound.for_row(1).unwrap();
        assert_ne!(value(&a, &next), first);
        assert_eq!(value(&a, &next), value(&a, &next));
        assert_ne!(value(&a, &Bound::default().calling(&calls).unwrap()), first);
        // Those of the next statement in a batch begin anew.
        assert!(markers.take_volatile().is_empty());
    }
}

//! Volatile functions, such as `uuid()` and `now()`, whose result differs from call to call.
//!
//! Each call in the text of a statement is computed once in an execution (again for each further
//! row that the statement changes), when the statement's values are bound and before any term is
//! evaluated. So its value is the same wherever the statement uses the term: in the key that is
//! read and in the key that is written, in an attempt that conflicts and in its retry.

use crate::error::Result;
use crate::functions::{Conditions, Function};

/// The calls of volatile functions in one statement, in order.
#[derive(Debug, Clone, Default)]
pub struct VolatileCalls(Vec<Function>);

impl VolatileCalls {
    /// Returns whether a function is volatile: its result differs from call to call. These are the
    /// functions without arguments.
    pub fn is_volatile(function: &Function) -> bool {
        function.args().is_empty()
    }

    /// Adds a call of a volatile function to the calls of the statement, and returns its index.
    pub fn push(&mut self, function: Function) -> usize {
        self.0.push(function);
        self.0.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls all functions at `now_us`, microseconds since 1970, and returns their results in the
    /// order of the calls.
    ///
    /// # Errors
    /// If the statement's time is over.
    pub fn call(&self, now_us: i64) -> Result<Vec<Option<Vec<u8>>>> {
        let one = |function: &Function| function.call(&[], Conditions::at(now_us));
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

    /// A term may be evaluated several times in an execution, and again after each conflict with
    /// another write: a call of `uuid()` in it must have the same value each time.
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
        // Places are counted anew for the next statement in a batch.
        assert!(markers.take_volatile().is_empty());
    }
}

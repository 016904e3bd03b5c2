//! Calls of functions and aggregates in a SELECT clause.

use ebb_cql::syntax::ast::{QualifiedName, Selector};
use ebb_model::types::CqlType;

use super::{Output, Outputs, bare, cannot_infer};
use crate::analyse::literal;
use crate::analyse::markers::{Markers, Receiver};
use crate::analyse::term::is_value_compatible;
use crate::error::{Result, invalid};
use crate::functions::{self, Aggregate};

impl Outputs {
    /// Prepares a call of a function or an aggregate.
    pub(super) fn call(
        &mut self,
        function: &QualifiedName,
        args: &[Selector],
        markers: &mut Markers,
    ) -> Result<(Output, CqlType)> {
        let schema = markers.schema().clone();
        // More aggregates after the arguments are prepared: one of the arguments contains an aggregate.
        let before = self.aggregates.len();
        // The types of the arguments choose the function, and the function gives types to markers,
        // nulls and constants. So these are prepared last. No argument is prepared twice, because
        // each level of calls within calls would double the work.
        let (mut types, mut prepared) = (Vec::new(), Vec::new());
        for arg in args {
            let (output, ty) = match bare(arg) {
                Selector::Constant(constant) => {
                    let ty = literal::own_type(constant.kind, &constant.text)?;
                    (None, Some(ty))
                }
                Selector::Null | Selector::Marker(_) => (None, None),
                arg => {
                    let (output, ty) = self.prepare(arg, None, markers)?;
                    (Some(output), Some(ty))
                }
            };
            types.push(ty);
            prepared.push(output);
        }
        if let Some(aggregate) = Aggregate::named(function, &types)? {
            if self.aggregates.len() > before {
                return invalid(
                    "aggregate functions cannot be used as arguments of aggregate functions",
                );
            }
            // No receiver: an aggregate takes its argument as it is, and a constant has its own type.
            let outputs = self.arguments(args, prepared, |_| None, markers)?;
            let returns = aggregate.returns().clone();
            return Ok((self.aggregate(aggregate, outputs), returns));
        }
        // Its result has the type of the receiver, and a selection has no receiver.
        if functions::is_named(function, "fromjson") {
            return invalid(
                "fromJson() cannot be used in the selection clause of a SELECT statement",
            );
        }
        if functions::is_named(function, "tojson") {
            // The text depends on the type, which a marker or null does not have.
            let function = match (args, &types[..]) {
                (_, [Some(ty)]) => functions::to_json_of(ty),
                ([arg], _) => return cannot_infer(arg),
                _ => {
                    let count = args.len();
                    return invalid(format!("toJson() only accepts one argument (got {count})"));
                }
            };
            let outputs = self.arguments(args, prepared, |_| None, markers)?;
            return Ok((Output::Call(function, outputs), CqlType::Text));
        }
        // An argument without a type fits every parameter.
        let exact = |at: usize, ty: &CqlType| Ok(types[at].as_ref().is_none_or(|own| own == ty));
        let accepts = |at: usize, ty: &CqlType| {
            let literal_fits = match bare(&args[at]) {
                Selector::Constant(constant) => constant.kind.fits(ty),
                _ => false,
            };
            let own = types[at].as_ref();
            Ok(literal_fits || own.is_none_or(|own| is_value_compatible(own, ty)))
        };
        let found = functions::find(function, &schema, args, accepts, exact)?;
        let receiver = |at: usize| {
            let name = format!("arg{at}({})", found.name());
            Some(Receiver::new(name, found.args()[at].clone()))
        };
        let outputs = self.arguments(args, prepared, receiver, markers)?;
        let returns = found.returns().clone();
        Ok((Output::Call(found, outputs), returns))
    }

    /// Returns the expressions of a call's arguments. `prepared` has the expressions of the
    /// arguments that were analysed before, to find their types. It has `None` for the other
    /// arguments (constants, nulls and markers). Analyses these here, as values of the receiver
    /// that `receiver` returns for the position of the argument.
    fn arguments(
        &mut self,
        args: &[Selector],
        prepared: Vec<Option<Output>>,
        receiver: impl Fn(usize) -> Option<Receiver>,
        markers: &mut Markers,
    ) -> Result<Vec<Output>> {
        let mut outputs = Vec::with_capacity(args.len());
        for (at, (arg, prepared)) in args.iter().zip(prepared).enumerate() {
            outputs.push(match prepared {
                Some(output) => output,
                None => self.prepare(arg, receiver(at).as_ref(), markers)?.0,
            });
        }
        Ok(outputs)
    }
}

#[cfg(test)]
mod tests {
    use ebb_cql::syntax::ast::{Name, QualifiedName, Selected, Selection, Selector};

    use crate::analyse::markers::Markers;
    use crate::analyse::selection::Outputs;
    use crate::executor::harness::Server;
    use crate::interrupt::tests::charged;

    /// Regression: each call prepared its arguments twice, the first time in a copy of all selectors
    /// before it.
    #[test]
    fn each_selector_is_prepared_once() {
        let server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY)"]);
        let state = server.executor.catalog().state();
        let table = state.table("ks", "t").unwrap();
        let call = |function: &str, arg: Selector| Selector::Call {
            function: QualifiedName::from(Name::new(function)),
            args: vec![arg],
        };
        let (levels, count) = (3, 1000);
        let column = Selector::Column(Name::new("k"));
        let nested = (0..levels).fold(column, |of, _| call("blobasint", call("intasblob", of)));
        let selected = |_| Selected {
            selector: call("tojson", nested.clone()),
            alias: None,
        };
        let selection = Selection::Some((0..count).map(selected).collect());
        let mut markers = Markers::new(table.schema(), &[]);
        let (outputs, units) = charged(|| Outputs::new(&selection, &mut markers));
        assert_eq!(outputs.unwrap().columns.len() as u64, count);
        // One unit for the column and for each call.
        assert_eq!(units, count * (2 + 2 * levels));
    }
}

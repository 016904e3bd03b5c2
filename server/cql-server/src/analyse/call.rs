//! Calls of functions, casts and arithmetic as terms. The receiver of a term is the column, field
//! or argument that its value is for.

use std::fmt::Display;

use ebb_cql::protocol::ErrorKind;
use ebb_cql::syntax::ast::{self, QualifiedName};
use ebb_model::types::CqlType;

use super::markers::{Markers, Receiver};
use super::term::{self, Term};
use super::volatile::VolatileCalls;
use super::{literal, types};
use crate::error::{Result, invalid};
use crate::functions::{
    Aggregate, Function, cast, cast_name, find, from_json_of, is_named, negation, operation,
    wrong_count,
};
use crate::interrupt;

/// Prepares a function call whose result is a value of `receiver`.
pub fn prepare_call(
    name: &QualifiedName,
    args: &[ast::Term],
    receiver: &Receiver,
    markers: &mut Markers,
) -> Result<Term> {
    if is_named(name, "tojson") {
        return invalid(
            "toJson() may only be used within the selection clause of SELECT statements",
        );
    }
    if is_named(name, "fromjson") {
        let function = from_json_of(&receiver.ty);
        let [json] = args else {
            return wrong_count(function.name(), function.args().len(), args.len());
        };
        let receiver = Receiver::new("arg0(system.fromjson)", CqlType::Text);
        let json = term::prepare(json, &receiver, markers)?;
        return Ok(Term::Call(function, vec![json]));
    }
    let function = called(name, args, markers)?;
    check_result(&function, None, receiver)?;
    call(function, args, markers)
}

/// Returns the function that a call means. Of several functions with this name, one whose
/// parameters have exactly the types of the arguments is preferred: `floor(toDate(now()), 1mo,
/// '2016-01-01')` calls the `floor` of dates.
///
/// # Errors
/// Cassandra's errors, or the timeout of the statement.
fn called(name: &QualifiedName, args: &[ast::Term], markers: &Markers) -> Result<Function> {
    if Aggregate::has_name(name) {
        // Cassandra's message, also for values that are written.
        return invalid("Aggregation function are not supported in the where clause");
    }
    let own = |arg: &ast::Term| {
        if is_constant(arg) {
            // Constants take the type of the parameter.
            return Ok(None);
        }
        own_type(arg, markers).or_else(|error| match error.kind {
            // The error comes again when the argument is prepared, in more precise words.
            ErrorKind::Invalid => Ok(None),
            // The statement's time is over.
            _ => Err(error),
        })
    };
    let types: Vec<Option<CqlType>> = args.iter().map(own).collect::<Result<_>>()?;
    let accepts = |at: usize, ty: &CqlType| term::fits(&args[at], ty);
    let exact = |at: usize, ty: &CqlType| match &types[at] {
        Some(own) => Ok(own == ty),
        None => term::fits(&args[at], ty),
    };
    find(name, markers.schema(), args, accepts, exact)
}

/// Prepares a cast or an arithmetic expression whose result is a value of `receiver`.
pub fn prepare_expression(
    term: &ast::Term,
    receiver: &Receiver,
    markers: &mut Markers,
) -> Result<Term> {
    let (function, args): (_, Vec<&ast::Term>) = match term {
        ast::Term::Cast { term: of, to } => {
            let to = types::resolve(to, markers.schema())?;
            let Some(from) = own_type(of, markers)? else {
                return invalid(format!(
                    "Ambiguous call to function {}: use type casts to disambiguate",
                    cast_name(&to)
                ));
            };
            let Some(function) = cast(&from, &to)? else {
                return invalid(format!("Unknown function {} called", cast_name(&to)));
            };
            (function, vec![of])
        }
        ast::Term::Negation(of) => {
            // Constants fit several types, and a marker has none: both take the type of the receiver.
            let ty = match own_type(of, markers)? {
                Some(ty) if !is_constant(of) => ty,
                _ => receiver.ty.clone(),
            };
            (negation(&ty)?, vec![of])
        }
        ast::Term::Arithmetic {
            left,
            operator,
            right,
        } => {
            let of_right = own_type(right, markers)?;
            let is_time = matches!(receiver.ty, CqlType::Timestamp | CqlType::Date);
            let types = if is_constant(left) && is_constant(right) && fits_all(term, receiver) {
                // An expression of constants alone has the type of the receiver.
                Some((receiver.ty.clone(), receiver.ty.clone()))
            } else if is_time
                && of_right == Some(CqlType::Duration)
                && term::fits(left, &receiver.ty)?
            {
                // A marker, or a constant such as '2020-01-01', is a time beside a duration.
                Some((receiver.ty.clone(), CqlType::Duration))
            } else {
                // Only two tinyints have a tinyint result, so a marker beside them has that type
                // too.
                let tinyints = || (CqlType::Tinyint, CqlType::Tinyint);
                let of_both = own_type(left, markers)?.zip(of_right);
                of_both.or_else(|| (receiver.ty == CqlType::Tinyint).then(tinyints))
            };
            let Some((of_left, of_right)) = types else {
                return ambiguous(*operator, left, right);
            };
            let Some(function) = operation(*operator, &of_left, &of_right) else {
                return unsupported(*operator, left, right);
            };
            (function, vec![left, right])
        }
        // `term::prepare` passes none of these.
        other => return invalid(format!("Cannot infer type of term {other}")),
    };
    // The operator in the error; for casts and the minus sign it names the function instead.
    let operator = match term {
        ast::Term::Arithmetic { operator, .. } => Some(*operator),
        _ => None,
    };
    check_result(&function, operator, receiver)?;
    call(function, args, markers)
}

/// Prepares a call of `function`. Each argument is prepared as a value of the type of its
/// parameter.
fn call<'a>(
    function: Function,
    args: impl IntoIterator<Item = &'a ast::Term>,
    markers: &mut Markers,
) -> Result<Term> {
    if VolatileCalls::is_volatile(&function) {
        return Ok(Term::Volatile(markers.call_volatile(function)));
    }
    let arg = |(at, arg): (usize, &ast::Term)| {
        let name = format!("arg{at}({})", function.name());
        let receiver = Receiver::new(name, function.args()[at].clone());
        term::prepare(arg, &receiver, markers)
    };
    let args = args.into_iter().enumerate().map(arg);
    let args = args.collect::<Result<_>>()?;
    Ok(Term::Call(function, args))
}

/// Returns the error of an operator with an operand of unknown type.
pub fn ambiguous<T>(
    operator: ast::ArithmeticOperator,
    left: impl Display,
    right: impl Display,
) -> Result<T> {
    let operator = operator.symbol();
    invalid(format!(
        "Ambiguous '{operator}' operation with args {left} and {right}: use type hint to \
         disambiguate, example '(int) ?'"
    ))
}

/// Returns the error of an operator that is not defined for the types of its operands.
pub fn unsupported<T>(
    operator: ast::ArithmeticOperator,
    left: impl Display,
    right: impl Display,
) -> Result<T> {
    let operator = operator.symbol();
    invalid(format!(
        "the '{operator}' operation is not supported between {left} and {right}"
    ))
}

/// Checks that the receiver accepts the result of a function, or of the operator that the function
/// computes.
fn check_result(
    function: &Function,
    operator: Option<ast::ArithmeticOperator>,
    receiver: &Receiver,
) -> Result<()> {
    if term::is_value_compatible(function.returns(), &receiver.ty) {
        return Ok(());
    }
    let what = match operator {
        Some(operator) => format!("operation {}", operator.symbol()),
        None => format!("function {}", function.name()),
    };
    invalid(format!(
        "Type error: cannot assign result of {what} (type {}) to {} (type {})",
        function.returns(),
        receiver.name,
        receiver.ty
    ))
}

/// Returns whether a term consists only of constants and operators between them, also in
/// parentheses. Such a term has no type of its own.
fn is_constant(term: &ast::Term) -> bool {
    match term {
        ast::Term::Constant(_) => true,
        ast::Term::Negation(of) => is_constant(of),
        ast::Term::Arithmetic { left, right, .. } => is_constant(left) && is_constant(right),
        ast::Term::Tuple(items) => matches!(&items[..], [one] if is_constant(one)),
        _ => false,
    }
}

/// Returns whether a term consists only of constants, and of operators and tuples of them, and the
/// kind of each constant (string, integer and so on) fits the receiver's type. The values of the
/// constants are not checked.
fn fits_all(term: &ast::Term, receiver: &Receiver) -> bool {
    match term {
        ast::Term::Constant(constant) => constant.kind.fits(&receiver.ty),
        ast::Term::Negation(of) => fits_all(of, receiver),
        ast::Term::Arithmetic { left, right, .. } => {
            fits_all(left, receiver) && fits_all(right, receiver)
        }
        ast::Term::Tuple(items) => items.iter().all(|item| fits_all(item, receiver)),
        _ => false,
    }
}

/// Returns the type that a term has independently of its receiver; `None` for markers, null, and
/// literals of collections, tuples and user-defined types. Each operator and each call in an
/// expression calls this function for its operands. So the work is quadratic in the number of
/// operators and in the nesting depth, both of which the parser limits.
///
/// # Errors
/// Cassandra's errors, or the timeout of the statement.
fn own_type(term: &ast::Term, markers: &Markers) -> Result<Option<CqlType>> {
    interrupt::charge(1)?;
    Ok(match term {
        ast::Term::Constant(constant) => Some(literal::own_type(constant.kind, &constant.text)?),
        ast::Term::Hint { to, .. } | ast::Term::Cast { to, .. } => {
            Some(types::resolve(to, markers.schema())?)
        }
        ast::Term::Call { function, args } => {
            Some(called(function, args, markers)?.returns().clone())
        }
        ast::Term::Negation(of) => own_type(of, markers)?,
        ast::Term::Arithmetic {
            left,
            operator,
            right,
        } => match own_type(left, markers)?.zip(own_type(right, markers)?) {
            Some((of_left, of_right)) => match operation(*operator, &of_left, &of_right) {
                Some(function) => Some(function.returns().clone()),
                None => return unsupported(*operator, left, right),
            },
            None => return ambiguous(*operator, left, right),
        },
        ast::Term::Tuple(items) => match &items[..] {
            [one] => own_type(one, markers)?,
            _ => None,
        },
        _ => None,
    })
}

//! Functions of values, and the resolution of calls to them.
//!
//! ```text
//! scalar    now(), toDate(), blobAsInt(), token(), ...
//! aggregate count, min, max, sum, avg
//! arithmetic + - * / %
//! cast      CAST(x AS type)
//! json      toJson(x), SELECT JSON
//! from_json fromJson(x), INSERT JSON; parsed_json prints JSON in error messages
//! printed   values as text, as Java prints them
//! time_floor floor(time, duration)
//! times     toDate(x), toTimestamp(x) and the like
//! uuids     new uuids, and the times in them
//! ```
//!
//! Each call is charged to the statement (`interrupt`), and its result has a greatest length
//! ([`Conditions`]). The size of numbers is checked (`number_size`) before anything is computed from
//! them.

mod aggregate;
mod arithmetic;
mod cast;
mod from_json;
pub mod json;
mod number_size;
mod parsed_json;
mod printed;
mod scalar;
mod time_floor;
mod times;
mod uuids;

use std::fmt;
use std::sync::Arc;

use ebb_cql::protocol::{ErrorKind, ErrorResponse};
use ebb_cql::syntax::ast::QualifiedName;
use ebb_model::schema::TableSchema;
use ebb_model::types::CqlType;

pub use self::aggregate::{Aggregate, State};
pub use self::arithmetic::{negation, operation};
pub use self::cast::{cast, cast_name};
pub use self::from_json::row as json_row;
pub use self::number_size::digits_units;
pub use self::uuids::TimeUuids;
use super::error::{Result, invalid, result_too_large};
use super::interrupt;

/// The code of a function. The parameters are the arguments (`None` is null) and the [`Conditions`]
/// of the call. Returns the result; `None` is null.
type Body = dyn Fn(&[Option<&[u8]>], Conditions) -> Result<Option<Vec<u8>>> + Send + Sync;

/// A test of a call's arguments: returns whether the argument at this position can be passed for a
/// parameter of this type.
type Test<'t> = dyn Fn(usize, &CqlType) -> Result<bool> + 't;

/// The data besides the arguments on which the result of a call may depend: the time, and the limit
/// on the result.
#[derive(Debug, Clone, Copy)]
pub struct Conditions {
    /// The time of the call, in microseconds since 1970.
    pub now_us: i64,
    /// The greatest length of the function's result in bytes.
    pub bytes_max: usize,
}

impl Conditions {
    /// Returns the conditions of a call whose result is no part of a response to a SELECT, for
    /// example of a call in an INSERT. `now_us` is the time of the request.
    pub fn at(now_us: i64) -> Self {
        Self {
            now_us,
            bytes_max: json::TEXT_BYTES_MAX,
        }
    }
}

#[derive(Clone)]
pub struct Function {
    name: String,
    args: Vec<CqlType>,
    returns: CqlType,
    is_monotonic: bool,
    body: Arc<Body>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: Vec<String> = self.args.iter().map(ToString::to_string).collect();
        write!(
            f,
            "{} : ({}) -> {}",
            self.name,
            args.join(", "),
            self.returns
        )
    }
}

impl Function {
    fn new(
        name: impl Into<String>,
        args: impl IntoIterator<Item = CqlType>,
        returns: CqlType,
        body: impl Fn(&[Option<&[u8]>], Conditions) -> Result<Option<Vec<u8>>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            args: args.into_iter().collect(),
            returns,
            is_monotonic: false,
            body: Arc::new(body),
        }
    }

    /// Marks the function as monotonic: see [`is_monotonic`](Self::is_monotonic).
    fn monotonic(self) -> Self {
        Self {
            is_monotonic: true,
            ..self
        }
    }

    /// Returns the qualified name, for example `system.now`.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn args(&self) -> &[CqlType] {
        &self.args
    }

    pub fn returns(&self) -> &CqlType {
        &self.returns
    }

    /// Returns whether the function is monotonic in its first argument, as Cassandra declares it:
    /// while that argument increases and the others stay the same, the result never decreases.
    pub fn is_monotonic(&self) -> bool {
        self.is_monotonic
    }

    /// Calls the function.
    ///
    /// # Errors
    /// The function's error for these arguments, a result that is too long, or a statement whose time
    /// is over.
    pub fn call(&self, args: &[Option<&[u8]>], conditions: Conditions) -> Result<Option<Vec<u8>>> {
        interrupt::charge_bytes(args.iter().flatten().map(|arg| arg.len()).sum())?;
        let result = (self.body)(args, conditions)?;
        match &result {
            Some(bytes) if bytes.len() > conditions.bytes_max => {
                Err(result_too_large(conditions.bytes_max))
            }
            _ => Ok(result),
        }
    }
}

/// Returns the function for a call with this name. `accepts` returns whether the argument at a
/// position can be converted to a type, `exact` whether it needs no conversion. Functions for which
/// all arguments are `exact` are preferred.
///
/// # Errors
/// Cassandra's errors, if no function fits, or the error of `accepts` or `exact`.
pub fn find(
    name: &QualifiedName,
    schema: &TableSchema,
    args: &[impl fmt::Display],
    accepts: impl Fn(usize, &CqlType) -> Result<bool>,
    exact: impl Fn(usize, &CqlType) -> Result<bool>,
) -> Result<Function> {
    let count = args.len();
    let is_system = name.keyspace.as_ref().is_none_or(|k| *k == "system");
    let known = if is_system {
        scalar::named(name.name.as_str(), schema)
    } else {
        Vec::new()
    };
    if known.is_empty() {
        return invalid(format!("Unknown function '{name}'"));
    }
    let tests: [&Test<'_>; 2] = [&exact, &accepts];
    for test in tests {
        for function in known.iter().filter(|function| function.args.len() == count) {
            if first_failing(&function.args, test)?.is_none() {
                return Ok(function.clone());
            }
        }
    }
    if let [one] = &known[..] {
        if one.args.len() != count {
            return wrong_count(&one.name, one.args.len(), count);
        }
        let wrong = first_failing(&one.args, &accepts)?.unwrap_or(0);
        return invalid(format!(
            "Type error: {} cannot be passed as argument {wrong} of function {} of type {}",
            args[wrong], one.name, one.args[wrong]
        ));
    }
    let signatures: Vec<String> = known.iter().map(ToString::to_string).collect();
    invalid(format!(
        "Invalid call to function {}, none of its type signatures match (known type signatures: {})",
        name.name,
        signatures.join(", ")
    ))
}

/// Returns the position of the first parameter type that fails `test`; `None` if all types pass.
fn first_failing(types: &[CqlType], test: &Test<'_>) -> Result<Option<usize>> {
    for (at, ty) in types.iter().enumerate() {
        if !test(at, ty)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

pub fn wrong_count<T>(function: &str, required: usize, provided: usize) -> Result<T> {
    invalid(format!(
        "Invalid number of arguments in call to function {function}: {required} required but \
         {provided} provided"
    ))
}

/// Returns whether `name` is the name of the system's function `function`, qualified or not.
pub fn is_named(name: &QualifiedName, function: &str) -> bool {
    name.keyspace.as_ref().is_none_or(|k| *k == "system") && name.name == function
}

/// Returns the error of a function that rejects values although their types are permitted: code
/// 0x1400.
fn failure(name: &str, types: &[CqlType], message: impl Into<String>) -> ErrorResponse {
    let kind = ErrorKind::FunctionFailure {
        keyspace: "system".to_owned(),
        function: name.to_owned(),
        argument_types: types.iter().map(ToString::to_string).collect(),
    };
    ErrorResponse::new(kind, message)
}

pub fn to_json_of(ty: &CqlType) -> Function {
    let of = ty.clone();
    Function::new(
        "system.tojson",
        [ty.clone()],
        CqlType::Text,
        move |args, conditions| {
            let mut out = String::new();
            json::value(&of, args[0], &mut out, conditions.bytes_max)?;
            Ok(Some(out.into_bytes()))
        },
    )
}

/// Returns the function `fromJson`, for a context that requires a value of type `ty`.
pub fn from_json_of(ty: &CqlType) -> Function {
    let returns = ty.clone();
    Function::new(
        "system.fromjson",
        [CqlType::Text],
        ty.clone(),
        move |args, _| match args[0].map(std::str::from_utf8) {
            None => Ok(None),
            Some(Ok(text)) => {
                from_json::value(&returns, text).map_err(|error| match error.kind {
                    ErrorKind::Invalid => failure("fromjson", &[CqlType::Text], error.message),
                    // The statement's time is over.
                    _ => error,
                })
            }
            Some(Err(_)) => invalid("String didn't validate."),
        },
    )
}

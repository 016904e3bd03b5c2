//! Functions of values: which there are, and which of one name a call means.
//!
//! ```text
//! scalar    now(), toDate(), blobAsInt(), token(), ...
//! aggregate count, min, max, sum, avg
//! arithmetic + - * / %
//! cast      CAST(x AS type)
//! json      toJson(x), SELECT JSON
//! from_json fromJson(x), INSERT JSON; parsed_json shows in errors what was read
//! printed   values as text, as Java prints them
//! uuids     new uuids, and the times in them
//! ```
//!
//! Each call is charged to the statement (`interrupt`), and the size of numbers is checked before anything
//! is computed of them (`number_size`).

mod aggregate;
mod arithmetic;
mod cast;
mod from_json;
pub mod json;
mod number_size;
mod parsed_json;
mod printed;
mod scalar;
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
use super::error::{Result, invalid};
use super::interrupt;

/// What computes a function: its arguments, and the microseconds since 1970 of the call.
type Body = dyn Fn(&[Option<&[u8]>], i64) -> Result<Option<Vec<u8>>> + Send + Sync;

#[derive(Clone)]
pub struct Function {
    name: String,
    args: Vec<CqlType>,
    returns: CqlType,
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
        body: impl Fn(&[Option<&[u8]>], i64) -> Result<Option<Vec<u8>>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            args: args.into_iter().collect(),
            returns,
            body: Arc::new(body),
        }
    }

    /// As it is called: `system.now`.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn args(&self) -> &[CqlType] {
        &self.args
    }

    pub fn returns(&self) -> &CqlType {
        &self.returns
    }

    /// Calls it at `now_us`, microseconds since 1970.
    ///
    /// # Errors
    /// The function's error for these arguments; the time-out of the statement.
    pub fn call(&self, args: &[Option<&[u8]>], now_us: i64) -> Result<Option<Vec<u8>>> {
        interrupt::charge_bytes(args.iter().flatten().map(|arg| arg.len()).sum())?;
        (self.body)(args, now_us)
    }
}

/// The function of a name which takes `args`, that `accepts` by place and type; `exact` tells
/// those that need no conversion, which are preferred.
pub fn find(
    name: &QualifiedName,
    schema: &TableSchema,
    args: &[impl fmt::Display],
    accepts: impl Fn(usize, &CqlType) -> bool,
    exact: impl Fn(usize, &CqlType) -> bool,
) -> Result<Function> {
    let count = args.len();
    let is_system = name.keyspace.as_ref().is_none_or(|k| *k == "system");
    let known = match is_system {
        true => scalar::named(name.name.as_str(), schema),
        false => Vec::new(),
    };
    if known.is_empty() {
        return invalid(format!("Unknown function '{name}'"));
    }
    let matching = |function: &&Function, test: &dyn Fn(usize, &CqlType) -> bool| {
        function.args.len() == count && function.args.iter().enumerate().all(|(i, t)| test(i, t))
    };
    let found = (known.iter().find(|f| matching(f, &exact)))
        .or_else(|| known.iter().find(|f| matching(f, &accepts)));
    if let Some(function) = found {
        return Ok(function.clone());
    }
    if let [one] = &known[..] {
        if one.args.len() != count {
            return wrong_count(&one.name, one.args.len(), count);
        }
        let wrong = (0..count).find(|&i| !accepts(i, &one.args[i])).unwrap_or(0);
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

pub fn wrong_count<T>(function: &str, required: usize, provided: usize) -> Result<T> {
    invalid(format!(
        "Invalid number of arguments in call to function {function}: {required} required but \
         {provided} provided"
    ))
}

/// Whether a call means the system's function of this name.
pub fn is_named(name: &QualifiedName, function: &str) -> bool {
    name.keyspace.as_ref().is_none_or(|k| *k == "system") && name.name == function
}

/// What a function says of values that its types allow and that it cannot take: code 0x1400.
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
        move |args, _| {
            let mut out = String::new();
            json::value(&of, args[0], &mut out, json::TEXT_BYTES_MAX)?;
            Ok(Some(out.into_bytes()))
        },
    )
}

/// `fromJson` where a value of a type is wanted.
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
                    // Its time is over.
                    _ => error,
                })
            }
            Some(Err(_)) => invalid("String didn't validate."),
        },
    )
}

//! Functions of values: which there are, and which of one name a call means.
//!
//! ```text
//! scalar    now(), toDate(), blobAsInt(), token(), ...
//! aggregate count, min, max, sum, avg
//! cast      CAST(x AS type)
//! uuids     new uuids, and the times in them
//! ```

mod aggregate;
mod cast;
pub mod json;
mod scalar;
mod text;
mod uuids;

use std::fmt;
use std::sync::Arc;

use ebb_catalog::schema::TableSchema;
use ebb_catalog::types::CqlType;
use ebb_cql::syntax::ast::{self, QualifiedName};

pub use self::aggregate::{Aggregate, State};
pub use self::cast::cast;
use super::analyse::markers::{Markers, Receiver};
use super::analyse::term::{self, Term};
use super::analyse::{literal, types};
use super::error::{Result, invalid};

/// What computes a function: its arguments, and the microseconds since 1970 of the call.
type Body = dyn Fn(&[Option<&[u8]>], i64) -> Result<Option<Vec<u8>>> + Send + Sync;

/// One function with its types.
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

    /// The types of its arguments.
    pub fn args(&self) -> &[CqlType] {
        &self.args
    }

    /// The type of what it gives.
    pub fn returns(&self) -> &CqlType {
        &self.returns
    }

    /// Calls it at `now_us`, microseconds since 1970.
    ///
    /// # Errors
    /// What it says of its arguments.
    pub fn call(&self, args: &[Option<&[u8]>], now_us: i64) -> Result<Option<Vec<u8>>> {
        (self.body)(args, now_us)
    }
}

/// The function of a name whose arguments `accepts`, by place and type; `exact` tells
/// those that need no conversion, which are preferred.
///
/// # Errors
/// In Cassandra's words, where there is none.
pub fn find(
    name: &QualifiedName,
    schema: &TableSchema,
    count: usize,
    accepts: impl Fn(usize, &CqlType) -> bool,
    exact: impl Fn(usize, &CqlType) -> bool,
) -> Result<Function> {
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
            return invalid(format!(
                "Invalid number of arguments in call to function {}: {} required but {count} provided",
                one.name,
                one.args.len()
            ));
        }
        let wrong = (0..count).find(|&i| !accepts(i, &one.args[i])).unwrap_or(0);
        return invalid(format!(
            "Type error: argument {} of function {} must be of type {}",
            wrong + 1,
            one.name,
            one.args[wrong]
        ));
    }
    let signatures: Vec<String> = known.iter().map(ToString::to_string).collect();
    invalid(format!(
        "Invalid call to function {}, none of its type signatures match (known type signatures: {})",
        name.name,
        signatures.join(", ")
    ))
}

/// A call where a value of `receiver` is wanted.
///
/// # Errors
/// In Cassandra's words: no such function, or of other types.
pub fn prepare_call(
    name: &QualifiedName,
    args: &[ast::Term],
    receiver: &Receiver,
    markers: &mut Markers,
) -> Result<Term> {
    let schema = markers.schema().clone();
    let accepts = |at: usize, ty: &CqlType| term::fits(&args[at], ty);
    let exact = |at: usize, ty: &CqlType| match &args[at] {
        ast::Term::Constant(c) => literal::own_type(c.kind, &c.text) == *ty,
        ast::Term::Call { function, args } => {
            let nested = find(
                function,
                &schema,
                args.len(),
                |i, t| term::fits(&args[i], t),
                |_, _| false,
            );
            nested.is_ok_and(|nested| nested.returns == *ty)
        }
        _ => false,
    };
    let function = find(name, &schema, args.len(), accepts, exact)?;
    if !term::is_value_compatible(&function.returns, &receiver.ty) {
        return invalid(format!(
            "Type error: cannot assign result of function {} (type {}) to {} (type {})",
            function.name, function.returns, receiver.name, receiver.ty
        ));
    }
    let arg = |(at, arg): (usize, &ast::Term)| {
        let receiver = Receiver::new(
            format!("arg{at}({})", function.name),
            function.args[at].clone(),
        );
        term::prepare(arg, &receiver, markers)
    };
    let args = args.iter().enumerate().map(arg).collect::<Result<_>>()?;
    Ok(Term::Call(function, args))
}

/// A cast of a constant where a value of `receiver` is wanted. Arithmetic is refused.
///
/// # Errors
/// In Cassandra's words, where the types do not fit.
pub fn prepare_expression(
    term: &ast::Term,
    receiver: &Receiver,
    markers: &mut Markers,
) -> Result<Term> {
    let ast::Term::Cast { term: of, to } = term else {
        return invalid(format!("Arithmetic is not supported: {term}"));
    };
    let to = types::resolve_native(to)?;
    let from = match &**of {
        ast::Term::Constant(constant) => literal::own_type(constant.kind, &constant.text),
        ast::Term::Call { function, args } => {
            let accepts = |i: usize, t: &CqlType| term::fits(&args[i], t);
            find(function, markers.schema(), args.len(), accepts, |_, _| {
                false
            })?
            .returns
        }
        other => return invalid(format!("Cannot infer type of term {other}")),
    };
    if !term::is_value_compatible(&to, &receiver.ty) {
        return invalid(format!(
            "Type error: cannot assign result of function castAs{to} (type {to}) to {} (type {})",
            receiver.name, receiver.ty
        ));
    }
    let function = cast(&from, &to)?;
    let arg = term::prepare(of, &Receiver::new("arg0", from), markers)?;
    Ok(Term::Call(function, vec![arg]))
}

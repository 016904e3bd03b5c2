//! Typed terms: prepared from the syntax, evaluated to bytes with the bound values.
//!
//! ```text
//! ast::Term + Receiver ──prepare──> Term ──evaluate (Bound)──> Evaluated: bytes, null, unset
//! ```
//!
//! Which terms fit which types, and the errors if they do not, are those of Cassandra 4.1. The
//! bytes of an evaluated term are always valid for its type.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use ebb_cql::protocol::{ErrorKind, Value};
use ebb_cql::syntax::ast;
use ebb_model::types::{CqlType, UserType, elements, sort_once};

use super::markers::{Bound, Markers, Receiver};
use super::{call, literal, types};
use crate::error::{Result, invalid, of_type};
use crate::functions::{Conditions, Function};
use crate::interrupt;

/// A value that is constant, or computed from the bound values.
#[derive(Debug, Clone)]
pub enum Term {
    /// A constant, or a literal of constants alone.
    Value(Vec<u8>),
    Null,
    Marker {
        index: u16,
        ty: CqlType,
    },
    /// The value bound to the marker of `IN ?`: a list of values.
    InMarker {
        index: u16,
        /// The type of the list of values. Unlike other lists, a list behind IN may contain nulls.
        ty: CqlType,
    },
    List(Vec<Term>),
    /// `{a, b}`: the type of the elements, and the elements. Evaluation sorts them and removes
    /// duplicates.
    Set(CqlType, Vec<Term>),
    /// `{a: b}`: the type of the keys, and the entries. Evaluation sorts the entries by key, and
    /// keeps the last of those with equal keys.
    Map(CqlType, Vec<(Term, Term)>),
    Tuple(Vec<Term>),
    /// The fields of a user-defined type that the literal has, by their indexes in ascending order.
    /// Fields that it omits are null.
    Udt(Arc<UserType>, Vec<(usize, Term)>),
    Call(Function, Vec<Term>),
    /// The result of a call of a volatile function such as `uuid()`, by the index of the call in
    /// the statement.
    Volatile(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evaluated<'v> {
    Null,
    /// An unset value: the column keeps its present value.
    Unset,
    Value(Cow<'v, [u8]>),
}

impl<'v> Evaluated<'v> {
    /// Returns the value to write: `None` if the term is unset, `Some(None)` if the term is null.
    pub fn unless_unset(self) -> Option<Option<Cow<'v, [u8]>>> {
        match self {
            Self::Unset => None,
            Self::Null => Some(None),
            Self::Value(bytes) => Some(Some(bytes)),
        }
    }

    /// Returns the bytes of a value in a condition or key.
    ///
    /// # Errors
    /// Cassandra's error if the value of `column` is null or unset.
    pub fn condition(self, column: &str) -> Result<Cow<'v, [u8]>> {
        match self {
            Self::Value(bytes) => Ok(bytes),
            Self::Null => invalid(format!(
                "Invalid null value in condition for column {column}"
            )),
            Self::Unset => invalid(format!("Invalid unset value for column {column}")),
        }
    }

    /// Returns the bytes of a value.
    ///
    /// # Errors
    /// If there is no value. `error` makes the message from the word `null` or `unset`.
    pub fn required(self, error: impl FnOnce(&str) -> String) -> Result<Cow<'v, [u8]>> {
        match self {
            Self::Value(bytes) => Ok(bytes),
            Self::Null => invalid(error("null")),
            Self::Unset => invalid(error("unset")),
        }
    }
}

/// The number of fields of a user-defined type, or parts of a literal, that the analysis checks in
/// about a microsecond, the unit that [`interrupt::charge`] counts.
const PARTS_PER_UNIT: usize = 16;

/// Prepares a term whose value is for `receiver`. The parts of a literal are checked before they
/// are prepared, so that an error in a nested literal is reported for the outermost one, as in
/// Cassandra.
///
/// # Errors
/// Cassandra's errors, if the receiver does not accept the term, or the timeout of the statement.
pub fn prepare(term: &ast::Term, receiver: &Receiver, markers: &mut Markers) -> Result<Term> {
    prepare_part(term, receiver, false, markers)
}

/// Prepares a term that may be part of a literal. `is_checked` is true if [`fits`] accepted the
/// literal around the term, and with it all parts of the term that are prepared. A check of all
/// parts at each level of nesting would make the analysis quadratic.
fn prepare_part(
    term: &ast::Term,
    receiver: &Receiver,
    is_checked: bool,
    markers: &mut Markers,
) -> Result<Term> {
    // A literal may have hundreds of thousands of parts, so each counts for the statement's time limit.
    interrupt::charge(1)?;
    let (name, ty) = (&receiver.name, &receiver.ty);
    match term {
        ast::Term::Constant(constant) => literal::value(constant, ty, name).map(Term::Value),
        ast::Term::Null if *ty == CqlType::Counter => {
            invalid("Invalid null value for counter increment/decrement")
        }
        ast::Term::Null => Ok(Term::Null),
        ast::Term::Marker(marker) => {
            markers.set(marker, receiver)?;
            Ok(Term::Marker {
                index: marker.index,
                ty: ty.clone(),
            })
        }
        ast::Term::List(items) => {
            let CqlType::List { element, .. } = ty else {
                return invalid(format!("Invalid list literal for {name} of type {ty}"));
            };
            let items = prepare_items("list", items, element, name, is_checked, markers)?;
            folded(Term::List(items))
        }
        ast::Term::Set(items) => {
            // The parser reads `{}` as a set.
            if let CqlType::Map { key, .. } = ty
                && items.is_empty()
            {
                return folded(Term::Map((**key).clone(), Vec::new()));
            }
            let CqlType::Set { element, .. } = ty else {
                return invalid(format!("Invalid set literal for {name} of type {ty}"));
            };
            let items = prepare_items("set", items, element, name, is_checked, markers)?;
            folded(Term::Set((**element).clone(), items))
        }
        ast::Term::Map(entries) => {
            let CqlType::Map { key, value, .. } = ty else {
                return invalid(format!("Invalid map literal for {name} of type {ty}"));
            };
            let keys = Receiver::new(format!("key({name})"), (**key).clone());
            let values = Receiver::new(format!("value({name})"), (**value).clone());
            let entry = |(k, v): &(ast::Term, ast::Term)| {
                for (part, what, of) in [(k, "key", &keys), (v, "value", &values)] {
                    check_item(part, ("map", what), of, name, is_checked)?;
                }
                Ok((
                    prepare_part(k, &keys, true, markers)?,
                    prepare_part(v, &values, true, markers)?,
                ))
            };
            let entries = entries.iter().map(entry).collect::<Result<_>>()?;
            folded(Term::Map((**key).clone(), entries))
        }
        ast::Term::Tuple(items) => match (ty, items.as_slice()) {
            (CqlType::Tuple(types), _) => {
                // Elements that the literal omits at the end are null.
                if items.len() > types.len() {
                    return invalid(format!(
                        "Invalid tuple literal for {name}: too many elements. Type {ty} expects \
                         {} but got {}",
                        types.len(),
                        items.len()
                    ));
                }
                let item = |(at, (item, ty)): (usize, (&ast::Term, &CqlType))| {
                    check_part(item, ty, is_checked, || {
                        format!(
                            "Invalid tuple literal for {name}: component {at} is not of type {ty}"
                        )
                    })?;
                    let inner = Receiver::new(format!("{name}[{at}]"), ty.clone());
                    prepare_part(item, &inner, true, markers)
                };
                let items = items.iter().zip(types.iter()).enumerate().map(item);
                folded(Term::Tuple(items.collect::<Result<_>>()?))
            }
            // Parentheses around a single value make no tuple.
            (_, [one]) => prepare_part(one, receiver, is_checked, markers),
            _ => invalid(format!(
                "Invalid tuple type literal for {name} of type {ty}"
            )),
        },
        ast::Term::Udt(given) => {
            let CqlType::Udt { definition, .. } = ty else {
                return invalid(format!("Invalid user type literal for {name} of type {ty}"));
            };
            prepare_fields(given, definition, receiver, is_checked, markers)
        }
        ast::Term::Hint { to, term: of } => {
            let hinted = types::resolve_within(to, ty)?;
            // This check is needed even if `is_checked`: `fits` compared only the type of the hint.
            if !fits(of, &hinted)? {
                return invalid(format!("Cannot cast value {of} to type {to}"));
            }
            if !is_value_compatible(&hinted, ty) {
                return invalid(format!("Cannot assign value {term} to {name} of type {ty}"));
            }
            prepare_part(of, &Receiver::new(name, hinted), true, markers)
        }
        ast::Term::Call { function, args } => call::prepare_call(function, args, receiver, markers),
        ast::Term::Cast { .. } | ast::Term::Negation(_) | ast::Term::Arithmetic { .. } => {
            call::prepare_expression(term, receiver, markers)
        }
    }
}

/// Prepares the marker of `IN ?`. `receiver` stands for the whole list of values, and has its type.
///
/// # Errors
/// If the names of the statement's receivers take too much memory.
pub fn prepare_in(
    marker: &ast::Marker,
    receiver: &Receiver,
    markers: &mut Markers,
) -> Result<Term> {
    markers.set(marker, receiver)?;
    Ok(Term::InMarker {
        index: marker.index,
        ty: receiver.ty.clone(),
    })
}

/// Replaces the empty elements of a valid list behind IN by nulls, unless their type has an empty
/// value. Python's driver sends a null as an empty element, and Cassandra reads such an element (of
/// numbers, uuids or addresses, for example) as null.
fn with_nulls<'v>(list: &CqlType, bytes: Cow<'v, [u8]>) -> Result<Cow<'v, [u8]>> {
    use CqlType::{Ascii, Blob, List, Text, Tuple, Udt};
    let is_any_null = match list {
        List { element, .. }
            if !matches!(**element, Ascii | Blob | Text | Tuple(_) | Udt { .. }) =>
        {
            let mut all = elements::elements(&bytes).map_err(of_type)?;
            all.any(|element| matches!(element, Ok(Some([]))))
        }
        _ => false,
    };
    if !is_any_null {
        return Ok(bytes);
    }
    // The number of elements remains.
    let mut out = bytes[..4].to_vec();
    for element in elements::elements(&bytes).map_err(of_type)? {
        let element = element.map_err(of_type)?;
        elements::write_element(element.filter(|element| !element.is_empty()), &mut out);
    }
    Ok(Cow::Owned(out))
}

/// Returns the values that the literal of a user-defined type gives to fields of the type, by the
/// indexes of the fields. The type may have thousands of other fields. Names that are no fields of
/// the type are left out. If a field is given twice, the last value is used, as in Cassandra, whose
/// parser puts the fields into a map.
///
/// # Errors
/// The timeout of the statement.
fn given_fields<'t>(
    given: &'t [(ast::Name, ast::Term)],
    definition: &UserType,
) -> Result<BTreeMap<usize, &'t ast::Term>> {
    interrupt::charge((given.len() / PARTS_PER_UNIT) as u64)?;
    let mut terms = BTreeMap::new();
    for (field, term) in given {
        if let Some(place) = definition.field(field.as_str()) {
            terms.insert(place, term);
        }
    }
    Ok(terms)
}

/// Prepares the literal of a user-defined type. An unknown field is reported after the errors of
/// other fields, as in Cassandra.
fn prepare_fields(
    given: &[(ast::Name, ast::Term)],
    definition: &Arc<UserType>,
    receiver: &Receiver,
    is_checked: bool,
    markers: &mut Markers,
) -> Result<Term> {
    let name = &receiver.name;
    interrupt::charge((definition.fields().len() / PARTS_PER_UNIT) as u64)?;
    let terms = given_fields(given, definition)?;
    // The value has a null for each omitted field.
    let omitted = definition.fields().len() - terms.len();
    markers.memory().take_nulls(omitted)?;
    let field = |(place, term): (usize, &ast::Term)| {
        let (field, ty) = &definition.fields()[place];
        check_part(term, ty, is_checked, || {
            format!("Invalid user type literal for {name}: field {field} is not of type {ty}")
        })?;
        let inner = Receiver::new(format!("{name}.{field}"), ty.clone());
        Ok((place, prepare_part(term, &inner, true, markers)?))
    };
    let fields = terms.into_iter().map(field).collect::<Result<_>>()?;
    let mut names = given.iter().map(|(field, _)| field.as_str());
    if let Some(unknown) = names.find(|name| definition.field(name).is_none()) {
        return invalid(format!(
            "Unknown field '{unknown}' in value of user defined type {}",
            definition.name()
        ));
    }
    folded(Term::Udt(definition.clone(), fields))
}

/// Returns whether the syntax of a term permits a value of this type. Always true for calls, casts
/// and arithmetic, whose types are checked later. Unknown fields of a user-defined type make no
/// difference: [`prepare`] refuses them, as in Cassandra.
///
/// # Errors
/// The timeout of the statement.
pub fn fits(term: &ast::Term, ty: &CqlType) -> Result<bool> {
    match (term, ty) {
        (ast::Term::Constant(constant), _) => Ok(constant.kind.fits(ty)),
        (ast::Term::Null | ast::Term::Marker(_), _) => Ok(true),
        (ast::Term::List(items), CqlType::List { element, .. })
        | (ast::Term::Set(items), CqlType::Set { element, .. }) => {
            let element = Some(&**element);
            all_fit(items.iter().map(|item| (item, element)))
        }
        (ast::Term::Set(items), CqlType::Map { .. }) => Ok(items.is_empty()),
        (ast::Term::Map(entries), CqlType::Map { key, value, .. }) => {
            let (key, value) = (Some(&**key), Some(&**value));
            all_fit(entries.iter().flat_map(|(k, v)| [(k, key), (v, value)]))
        }
        (ast::Term::Tuple(items), CqlType::Tuple(types)) => {
            let types = types.iter().map(Some).chain(iter::repeat(None));
            all_fit(items.iter().zip(types))
        }
        (ast::Term::Tuple(items), _) => match &items[..] {
            [one] => fits(one, ty),
            _ => Ok(false),
        },
        (ast::Term::Udt(given), CqlType::Udt { definition, .. }) => {
            let terms = given_fields(given, definition)?.into_iter();
            let fields = definition.fields();
            all_fit(terms.map(|(place, term)| (term, Some(&fields[place].1))))
        }
        (ast::Term::Hint { to, .. }, _) => match types::resolve_within(to, ty) {
            Ok(hinted) => Ok(is_value_compatible(&hinted, ty)),
            Err(error) => match error.kind {
                ErrorKind::Invalid => Ok(false),
                // The statement's time is over.
                _ => Err(error),
            },
        },
        // The result type of a call is known after its resolution, whose error is more precise.
        (ast::Term::Call { .. } | ast::Term::Cast { .. }, _) => Ok(true),
        (ast::Term::Negation(_) | ast::Term::Arithmetic { .. }, _) => Ok(true),
        _ => Ok(false),
    }
}

/// Returns whether each part of a literal fits the type beside it. A part without a type (`None`)
/// does not fit: it is an element of a tuple whose type has fewer elements.
fn all_fit<'t>(parts: impl Iterator<Item = (&'t ast::Term, Option<&'t CqlType>)>) -> Result<bool> {
    for (number, (part, ty)) in parts.enumerate() {
        if number.is_multiple_of(PARTS_PER_UNIT) {
            interrupt::charge(1)?;
        }
        if !ty.map_or(Ok(false), |ty| fits(part, ty))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether a value of type `from` may stand where a value of type `to` is expected, because
/// its bytes are a valid value of `to`, too. Except for `frozen`, types of elements and fields must
/// be equal.
pub fn is_value_compatible(from: &CqlType, to: &CqlType) -> bool {
    let same = || from.clone().freeze() == to.clone().freeze();
    *to == CqlType::Blob
        || matches!(
            (from, to),
            (CqlType::Ascii, CqlType::Text)
                | (CqlType::Timeuuid, CqlType::Uuid)
                | (
                    CqlType::Int | CqlType::Bigint | CqlType::Timestamp,
                    CqlType::Varint
                )
                | (CqlType::Bigint, CqlType::Timestamp | CqlType::Counter)
                | (CqlType::Counter | CqlType::Timestamp, CqlType::Bigint)
        )
        || same()
}

/// Prepares the elements of a list or set literal for the receiver `name`. `kind` is "list" or
/// "set" in errors.
fn prepare_items(
    kind: &str,
    items: &[ast::Term],
    element: &CqlType,
    name: &str,
    is_checked: bool,
    markers: &mut Markers,
) -> Result<Vec<Term>> {
    let inner = Receiver::new(format!("value({name})"), element.clone());
    let item = |item: &ast::Term| {
        check_item(item, (kind, "value"), &inner, name, is_checked)?;
        prepare_part(item, &inner, true, markers)
    };
    items.iter().map(item).collect()
}

/// Checks a key or value in a collection literal; null is not permitted.
fn check_item(
    item: &ast::Term,
    (kind, what): (&str, &str),
    receiver: &Receiver,
    name: &str,
    is_checked: bool,
) -> Result<()> {
    if matches!(item, ast::Term::Null) {
        return invalid("null is not supported inside collections");
    }
    let ty = &receiver.ty;
    check_part(item, ty, is_checked, || {
        format!("Invalid {kind} literal for {name}: {what} {item} is not of type {ty}")
    })
}

/// Checks that a part of a literal fits the type `ty`, unless `is_checked`: then the check of the
/// whole literal has included the part. `message` returns the error message.
fn check_part(
    term: &ast::Term,
    ty: &CqlType,
    is_checked: bool,
    message: impl FnOnce() -> String,
) -> Result<()> {
    if is_checked || fits(term, ty)? {
        Ok(())
    } else {
        invalid(message())
    }
}

/// Evaluates a term to a constant if it consists of constants alone, so that executions of a
/// prepared statement need not evaluate it again. Returns other terms unchanged.
fn folded(term: Term) -> Result<Term> {
    if !term.is_constant() {
        return Ok(term);
    }
    let value = match term.evaluate(&Bound::default())? {
        Evaluated::Value(bytes) => Term::Value(bytes.into_owned()),
        _ => Term::Null,
    };
    Ok(value)
}

impl Term {
    /// Returns whether the term has the same value in each execution. Always false for calls of
    /// functions, because some depend on the time of the execution.
    fn is_constant(&self) -> bool {
        match self {
            Self::Value(_) | Self::Null => true,
            Self::Marker { .. } | Self::InMarker { .. } | Self::Call(..) | Self::Volatile(_) => {
                false
            }
            Self::List(items) | Self::Set(_, items) | Self::Tuple(items) => {
                items.iter().all(Self::is_constant)
            }
            Self::Udt(_, given) => given.iter().all(|(_, term)| term.is_constant()),
            Self::Map(_, entries) => entries
                .iter()
                .all(|(k, v)| k.is_constant() && v.is_constant()),
        }
    }

    /// Returns the index of the marker, if the term is a marker.
    pub fn marker(&self) -> Option<u16> {
        match self {
            Self::Marker { index, .. } => Some(*index),
            _ => None,
        }
    }

    /// Evaluates the term as a tuple of the values of `columns` columns.
    ///
    /// # Errors
    /// The errors of [`evaluate`](Self::evaluate). A bound tuple with more values than `columns` gets
    /// Cassandra's error for a multi-column relation, not the one for a column of a tuple type.
    pub fn evaluate_columns<'v>(
        &'v self,
        columns: usize,
        bound: &Bound<'v>,
    ) -> Result<Evaluated<'v>> {
        if let Self::Marker { index, ty } = self
            && let Value::Bytes(bytes) = bound.value(*index)
        {
            let mut parts = elements::components(bytes);
            let are_complete = parts.by_ref().take(columns).all(|part| part.is_ok());
            if are_complete && !parts.rest().is_empty() {
                let values = if columns == 1 { "value" } else { "values" };
                return invalid(format!(
                    "Expected {columns} {values} for {ty} column, but got more"
                ));
            }
        }
        self.evaluate(bound)
    }

    /// Evaluates the term with the bound values.
    ///
    /// # Errors
    /// Cassandra's errors: a bound value is invalid for the marker's type, or null or unset in a
    /// place where that is not permitted. Also an error if the results of functions take too much
    /// memory, or if the statement's time is over.
    pub fn evaluate<'v>(&'v self, bound: &Bound<'v>) -> Result<Evaluated<'v>> {
        match self {
            Self::Value(bytes) => Ok(Evaluated::Value(Cow::Borrowed(bytes))),
            Self::Null => Ok(Evaluated::Null),
            Self::Marker { index, ty } | Self::InMarker { index, ty } => {
                match bound.value(*index) {
                    Value::Null => Ok(Evaluated::Null),
                    Value::Unset => Ok(Evaluated::Unset),
                    Value::Bytes(bytes) => {
                        interrupt::charge_bytes(bytes.len())?;
                        let valid = match self {
                            Self::InMarker { .. } => ty.validate_in(bytes),
                            _ => ty.validate(bytes),
                        };
                        valid.map_err(of_type)?;
                        // A client's set or map may be unsorted, or have an element twice.
                        let normal = ty.try_normalize(bytes, &mut interrupt::charge_bytes)?;
                        Ok(Evaluated::Value(match self {
                            Self::InMarker { .. } => with_nulls(ty, normal)?,
                            _ => normal,
                        }))
                    }
                }
            }
            Self::List(items) => {
                let items = parts(items, bound)?;
                Ok(owned(elements::build(items)))
            }
            Self::Set(ty, items) => {
                let items = parts(items, bound)?;
                let items = sort_once(ty, items, |item| item, &mut interrupt::charge_bytes)?;
                Ok(owned(elements::build(items)))
            }
            Self::Map(ty, entries) => {
                let mut built = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    built.push((part(key, bound)?, part(value, bound)?));
                }
                // Of equal keys the last one counts, and `sort_once` keeps the first.
                built.reverse();
                let built = sort_once(ty, built, |(key, _)| key, &mut interrupt::charge_bytes)?;
                Ok(owned(elements::build_map(built)))
            }
            Self::Tuple(items) => {
                let unset = |at: usize| format!("Invalid unset value for tuple field number {at}");
                let items = nullable(items, bound, unset)?;
                Ok(owned(elements::build_tuple(
                    items.iter().map(Option::as_deref),
                )))
            }
            Self::Udt(definition, given) => {
                let mut fields = vec![None; definition.fields().len()];
                for (at, term) in given {
                    let Some(value) = term.evaluate(bound)?.unless_unset() else {
                        return invalid(format!(
                            "Invalid unset value for field '{}' of user defined type {}",
                            definition.fields()[*at].0,
                            definition.name()
                        ));
                    };
                    fields[*at] = value;
                }
                Ok(owned(elements::build_tuple(
                    fields.iter().map(Option::as_deref),
                )))
            }
            Self::Call(function, args) => {
                let unset = |_: usize| {
                    // Without the keyspace, as in Cassandra's message.
                    let name = function.name().rsplit('.').next().unwrap_or_default();
                    format!("Invalid unset value for argument in call to function {name}")
                };
                let args = nullable(args, bound, unset)?;
                let args: Vec<Option<&[u8]>> = args.iter().map(Option::as_deref).collect();
                Ok(match function.call(&args, Conditions::at(bound.now_us))? {
                    Some(bytes) => {
                        let args_bytes = args.iter().flatten().map(|arg| arg.len()).sum();
                        bound.count_result(bytes.len(), args_bytes)?;
                        owned(bytes)
                    }
                    None => Evaluated::Null,
                })
            }
            // Called once in each execution, so that all evaluations of the term agree.
            Self::Volatile(place) => Ok(match bound.called(*place) {
                Some(bytes) => owned(bytes.to_vec()),
                None => Evaluated::Null,
            }),
        }
    }
}

/// Returns an evaluated value that owns its bytes.
fn owned(bytes: Vec<u8>) -> Evaluated<'static> {
    Evaluated::Value(Cow::Owned(bytes))
}

/// Evaluates the fields of a tuple or the arguments of a call, which may be null. `unset` returns
/// the error message for an unset field or argument, given its index.
fn nullable<'v>(
    parts: &'v [Term],
    bound: &Bound<'v>,
    unset: impl Fn(usize) -> String,
) -> Result<Vec<Option<Cow<'v, [u8]>>>> {
    let part = |(at, part): (usize, &'v Term)| match part.evaluate(bound)?.unless_unset() {
        Some(value) => Ok(value),
        None => invalid(unset(at)),
    };
    parts.iter().enumerate().map(part).collect()
}

/// Evaluates the elements of a collection, none of which may be null.
fn parts<'v>(items: &'v [Term], bound: &Bound<'v>) -> Result<Vec<Cow<'v, [u8]>>> {
    items.iter().map(|item| part(item, bound)).collect()
}

/// Evaluates an element of a collection; null is not permitted.
fn part<'v>(item: &'v Term, bound: &Bound<'v>) -> Result<Cow<'v, [u8]>> {
    match item.evaluate(bound)? {
        Evaluated::Value(bytes) => Ok(bytes),
        Evaluated::Null => invalid("null is not supported inside collections"),
        Evaluated::Unset => invalid("unset value is not supported inside collections"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::harness::Server;

    /// Regression: a literal with a marker had a term for each field of its type, and a type may have
    /// thousands of fields.
    #[test]
    fn a_literal_has_terms_for_the_given_fields_only() {
        let server = Server::with(&["CREATE TABLE t (k int PRIMARY KEY)"]);
        let state = server.executor.catalog().state();
        let schema = state.table("ks", "t").unwrap().schema();
        let fields = ["a", "b", "c"].map(|name| (Arc::<str>::from(name), CqlType::Int));
        let ty = CqlType::udt(Arc::new(UserType::new("ks", "u", fields).unwrap()));
        let marker = ast::Term::Marker(ast::Marker {
            index: 0,
            name: None,
        });
        let literal = ast::Term::Udt(vec![(ast::Name::new("b"), marker)]);
        let mut markers = Markers::new(schema, &[None]);
        let term = prepare(&literal, &Receiver::new("u", ty), &mut markers).unwrap();
        let Term::Udt(_, given) = &term else {
            panic!("{term:?} is no user-defined type");
        };
        assert!(
            matches!(&given[..], [(1, Term::Marker { index: 0, .. })]),
            "{given:?}"
        );
        // Without a value the marker is null, as the omitted fields are.
        let value = elements::build_tuple([None; 3]);
        assert_eq!(term.evaluate(&Bound::default()), Ok(owned(value)));
    }
}

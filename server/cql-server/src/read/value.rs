//! The values that selectors compute from a row.

use std::borrow::Cow;
use std::cmp::Ordering;

use ebb_model::row::{LiveCollection, LiveColumn};
use ebb_model::types::{CqlType, elements};

use crate::analyse::markers::Bound;
use crate::analyse::selection::Output;
use crate::analyse::term::{Evaluated, Term};
use crate::error::{Result, invalid, of_decoding, of_type, result_too_large};
use crate::functions::Conditions;
use crate::interrupt;

/// The number of fields of a user-defined type that are passed in about a microsecond, the unit of
/// work that [`interrupt::charge`] counts.
const FIELDS_PER_UNIT: usize = 512;

/// The values from which the outputs of a row or a group are computed.
#[derive(Debug, Clone, Copy)]
pub struct Context<'r> {
    /// The live columns of a row, indexed by slot; `None` is null.
    pub cells: &'r [Option<LiveColumn<'r>>],
    /// The types of the columns, indexed by slot.
    pub types: &'r [&'r CqlType],
    pub bound: &'r Bound<'r>,
    /// The results of the aggregates of a group; empty while the rows of the group are read.
    pub aggregates: &'r [Option<Vec<u8>>],
    /// The most bytes of a computed value. The same limit holds for the total of the computed
    /// arguments that are kept until their functions are called.
    pub bytes_max: usize,
    /// The bytes of the computed arguments that are kept until their functions are called.
    pub waiting_bytes: usize,
}

/// A value; `None` is null.
pub type Value<'r> = Option<Cow<'r, [u8]>>;

/// Computes the value of an output for a row.
///
/// # Errors
/// If the row is damaged, a function fails, computed values become too long, the key of an element or
/// slice is null, or the statement's time is over.
pub fn value<'r>(output: &'r Output, context: &Context<'r>) -> Result<Value<'r>> {
    // The keys of elements and slices are dropped by then, and the page counts the value itself.
    context.bound.dropping(|| computed(output, context))
}

/// Computes the value of an output for [`value`]. The function results in the terms of the output
/// still count when this returns; [`value`] removes them from the count.
fn computed<'r>(output: &'r Output, context: &Context<'r>) -> Result<Value<'r>> {
    Ok(match output {
        Output::Column(slot) => match &context.cells[*slot] {
            None => None,
            Some(LiveColumn::Cell(cell)) => Some(Cow::Borrowed(cell.value)),
            Some(LiveColumn::Collection(collection)) => {
                let out = serialize(context.types[*slot], collection)?;
                interrupt::charge_bytes(out.len())?;
                Some(Cow::Owned(out))
            }
        },
        Output::WriteTime(slot) => match &context.cells[*slot] {
            Some(LiveColumn::Cell(cell)) => Some(Cow::Owned(cell.writetime.to_be_bytes().to_vec())),
            // A null column: the analysis permits no collections here, nor below.
            _ => None,
        },
        Output::Ttl(slot) => match &context.cells[*slot] {
            Some(LiveColumn::Cell(cell)) => cell.ttl_s.map(|left_s| {
                let left_s = i32::try_from(left_s).unwrap_or(i32::MAX);
                Cow::Owned(left_s.to_be_bytes().to_vec())
            }),
            _ => None,
        },
        Output::Term(term) => match term.evaluate(context.bound)? {
            Evaluated::Value(value) => {
                // A term is evaluated and copied for each row, so its bytes count for each row.
                interrupt::charge_bytes(value.len())?;
                Some(value)
            }
            _ => None,
        },
        Output::Call(function, args) => {
            let values = arguments(args, context)?;
            let args: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
            let conditions = Conditions {
                now_us: context.bound.now_us,
                bytes_max: context.bytes_max,
            };
            function.call(&args, conditions)?.map(Cow::Owned)
        }
        Output::Field(of, at) => match value(of, context)? {
            None => None,
            Some(udt) => {
                interrupt::charge(1 + (*at / FIELDS_PER_UNIT) as u64)?;
                match elements::components(&udt).nth(*at) {
                    // The last fields may be missing, for example those that ALTER TYPE added later.
                    None => None,
                    Some(field) => match field.map_err(of_type)? {
                        None => None,
                        Some(field) => {
                            interrupt::charge_bytes(field.len())?;
                            Some(Cow::Owned(field.to_vec()))
                        }
                    },
                }
            }
        },
        Output::Element { of, name, ty, key } => {
            let key = element_key(key, name, context.bound)?;
            let Some(collection) = value(of, context)? else {
                return Ok(None);
            };
            match element(ty, &collection, &key)? {
                None => None,
                Some(value) => {
                    interrupt::charge_bytes(value.len())?;
                    Some(Cow::Owned(value.to_vec()))
                }
            }
        }
        Output::Slice {
            of,
            name,
            ty,
            from,
            to,
        } => {
            let from = slice_end(from.as_ref(), name, context.bound)?;
            let to = slice_end(to.as_ref(), name, context.bound)?;
            let Some(collection) = value(of, context)? else {
                return Ok(None);
            };
            slice(ty, &collection, from.as_deref(), to.as_deref())?.map(Cow::Owned)
        }
        Output::Aggregate(at) => match context.aggregates.get(*at) {
            Some(Some(value)) => Some(Cow::Borrowed(value)),
            _ => None,
        },
    })
}

/// Checks the keys of the elements and slices in an output. The keys are the same for all rows, so
/// an invalid key is an error even if there are no rows, as in Cassandra.
///
/// # Errors
/// If a key is null or invalid, or the statement's time is over.
pub fn check_keys(output: &Output, bound: &Bound<'_>) -> Result<()> {
    match output {
        Output::Element { name, key, .. } => {
            element_key(key, name, bound)?;
        }
        Output::Slice { name, from, to, .. } => {
            slice_end(from.as_ref(), name, bound)?;
            slice_end(to.as_ref(), name, bound)?;
        }
        _ => {}
    }
    let mut parts = output.parts().iter();
    parts.try_for_each(|part| check_keys(part, bound))
}

fn element_key<'v>(key: &'v Term, name: &str, bound: &Bound<'v>) -> Result<Cow<'v, [u8]>> {
    let error = |no: &str| format!("Invalid {no} value for element selection on {name}");
    key.evaluate(bound)?.required(error)
}

/// Evaluates one of the two bounds of a slice, as in `name[from..to]`, of the collection `name`.
/// Returns `None` if the slice has no such bound: it is missing or unset.
fn slice_end<'v>(end: Option<&'v Term>, name: &str, bound: &Bound<'v>) -> Result<Value<'v>> {
    let Some(end) = end else {
        return Ok(None);
    };
    match end.evaluate(bound)? {
        Evaluated::Value(end) => Ok(Some(end)),
        // In Cassandra, too, an unset end is as good as none.
        Evaluated::Unset => Ok(None),
        Evaluated::Null => invalid(format!("Invalid null value for slice selection on {name}")),
    }
}

/// Computes the arguments of a call. Each argument is kept in memory while the later ones are
/// computed, which may be calls themselves. So the total bytes of all arguments that are kept are
/// limited.
fn arguments<'r>(args: &'r [Output], context: &Context<'r>) -> Result<Vec<Value<'r>>> {
    let mut context = *context;
    let mut values = Vec::with_capacity(args.len());
    for arg in args {
        let value = value(arg, &context)?;
        if let Some(Cow::Owned(bytes)) = &value {
            context.waiting_bytes = context.waiting_bytes.saturating_add(bytes.len());
            if context.waiting_bytes > context.bytes_max {
                return Err(result_too_large(context.bytes_max));
            }
        }
        values.push(value);
    }
    Ok(values)
}

/// Returns whether two values are equal. Charges the statement, because comparing decimals or
/// collections may take long.
///
/// # Errors
/// If the statement's time is over.
pub fn is_equal(ty: &CqlType, a: &[u8], b: &[u8]) -> Result<bool> {
    let order = ty.try_compare(a, b, &mut interrupt::charge_bytes)?;
    Ok(order.is_eq())
}

/// Returns the value that a serialized map has for a key, or the element of a set or list that
/// equals `key`; `None` if there is none.
pub fn element<'c>(ty: &CqlType, collection: &'c [u8], key: &[u8]) -> Result<Option<&'c [u8]>> {
    match ty {
        CqlType::Map { key: keys, .. } => {
            let mut parts = elements::pairs(collection).map_err(of_type)?;
            while let (Some(found), Some(value)) = (parts.next(), parts.next()) {
                let found = found.map_err(of_type)?.unwrap_or_default();
                interrupt::charge_bytes(found.len())?;
                if is_equal(keys, found, key)? {
                    return value.map_err(of_type);
                }
            }
            Ok(None)
        }
        CqlType::Set { element, .. } | CqlType::List { element, .. } => {
            for found in elements::elements(collection).map_err(of_type)? {
                let found = found.map_err(of_type)?.unwrap_or_default();
                interrupt::charge_bytes(found.len())?;
                if is_equal(element, found, key)? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        }
        _ => Ok(None),
    }
}

/// Returns the elements of a serialized map or set from the key `from` to the key `to`, both
/// inclusive. An end that is `None` does not limit the slice. An empty slice of a collection that
/// is not frozen is `None` (null), because such a collection is null when it is empty.
fn slice(
    ty: &CqlType,
    collection: &[u8],
    from: Option<&[u8]>,
    to: Option<&[u8]>,
) -> Result<Option<Vec<u8>>> {
    let (keys, parts, frozen) = match ty {
        CqlType::Map { key, frozen, .. } => (key, 2, *frozen),
        CqlType::Set { element, frozen } => (element, 1, *frozen),
        _ => return Ok(None),
    };
    let is_beyond = |key: &[u8], end: Option<&[u8]>, side: Ordering| -> Result<bool> {
        let Some(end) = end else {
            return Ok(false);
        };
        let order = keys.try_compare(key, end, &mut interrupt::charge_bytes)?;
        Ok(order == side)
    };
    let mut all = match parts {
        2 => elements::pairs(collection),
        _ => elements::elements(collection),
    }
    .map_err(of_type)?;
    // The first four bytes are the number of elements, which is known only at the end.
    let mut out = vec![0; 4];
    let mut count = 0_i32;
    while let Some(key) = all.next() {
        let key = key.map_err(of_type)?.unwrap_or_default();
        interrupt::charge_bytes(key.len())?;
        let value = match parts {
            2 => all.next().transpose().map_err(of_type)?.flatten(),
            _ => None,
        };
        if is_beyond(key, from, Ordering::Less)? || is_beyond(key, to, Ordering::Greater)? {
            continue;
        }
        // The charge above is for passing the key, this one for the copies.
        interrupt::charge_bytes(key.len() + value.map_or(0, <[u8]>::len))?;
        elements::write_element(Some(key), &mut out);
        if parts == 2 {
            elements::write_element(value, &mut out);
        }
        count += 1;
    }
    if count == 0 && !frozen {
        return Ok(None);
    }
    out[..4].copy_from_slice(&count.to_be_bytes());
    Ok(Some(out))
}

/// Returns the serialized form of a collection that is stored in cells (one that is not frozen).
/// Charges the statement before it decodes a decimal in the key of a map or the element of a set.
///
/// # Errors
/// If the collection is damaged, or the statement's time is over.
pub fn serialize(ty: &CqlType, collection: &LiveCollection<'_>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let written = collection.write_value(ty, &mut out, &mut interrupt::charge_bytes);
    written.map_err(of_decoding)?;
    Ok(out)
}

//! The normal form of values: sets and maps in the order of their elements, each once.
//!
//! Clients send them in any order. Equal values need equal bytes at every depth, because values are
//! compared, hashed and shown by their bytes.

use std::borrow::Cow;
use std::convert::Infallible;

use super::{Charge, CqlType, elements, sort_once};

impl CqlType {
    /// Returns the normal form of a valid value: the elements of each set and the keys of each map
    /// within it are in the order of their type, each once. Of equal elements the first one stays,
    /// and of equal keys the last one with its value, as in a literal. Invalid bytes are returned
    /// unchanged.
    pub fn normalize<'v>(&self, value: &'v [u8]) -> Cow<'v, [u8]> {
        let Ok(normal) = self.try_normalize(value, &mut |_| Ok::<_, Infallible>(()));
        normal
    }

    /// Returns the normal form as [`normalize`](Self::normalize) does, for values whose sort may
    /// take long. Calls `charge` before each comparison, and during a comparison as
    /// [`try_compare`](Self::try_compare) does. Ends with the first error that `charge` returns.
    ///
    /// # Errors
    /// The error of `charge`.
    pub fn try_normalize<'v, E>(
        &self,
        value: &'v [u8],
        charge: Charge<'_, E>,
    ) -> Result<Cow<'v, [u8]>, E> {
        Ok(match self.reordered(value, charge)? {
            Some(reordered) => Cow::Owned(reordered),
            None => Cow::Borrowed(value),
        })
    }

    /// Returns the normal form; `None` if the value already has it, or is damaged.
    fn reordered<E>(&self, value: &[u8], charge: Charge<'_, E>) -> Result<Option<Vec<u8>>, E> {
        match self {
            // A list keeps its order. It is read only if its elements may contain sets or maps.
            Self::List { element, .. } if element.has_order_within() => {
                let Some(parts) = elements::elements(value).ok().and_then(parts) else {
                    return Ok(None);
                };
                let parts = parts.iter().map(|part| (&**element, *part));
                let (parts, changed) = each(parts, charge)?;
                Ok(changed.then(|| elements::build(parts)))
            }
            Self::Set { element, .. } => {
                let Some(parts) = elements::elements(value).ok().and_then(parts) else {
                    return Ok(None);
                };
                let parts = parts.iter().map(|part| (&**element, *part));
                // First the elements: their normal forms have the order, and two may become equal.
                let (parts, changed) = each(parts, charge)?;
                // A set that is in order already is not copied.
                let members = parts.iter().map(|part| &**part);
                if !changed && is_ascending(element, members, charge)? {
                    return Ok(None);
                }
                let parts = sort_once(element, parts, |part| part, charge)?;
                Ok(Some(elements::build(parts)))
            }
            Self::Map { key, value: of, .. } => {
                let Some(parts) = elements::pairs(value).ok().and_then(parts) else {
                    return Ok(None);
                };
                // `pairs` reads two parts for each entry, so their number is even.
                let (entries, []) = parts.as_chunks::<2>() else {
                    return Ok(None);
                };
                let (keys, keys_changed) = each(entries.iter().map(|[k, _]| (&**key, *k)), charge)?;
                let (values, values_changed) =
                    each(entries.iter().map(|[_, v]| (&**of, *v)), charge)?;
                let changed = keys_changed || values_changed;
                if !changed && is_ascending(key, keys.iter().map(|key| &**key), charge)? {
                    return Ok(None);
                }
                let mut entries: Vec<_> = keys.into_iter().zip(values).collect();
                // Of equal keys the last one counts, and `sort_once` keeps the first.
                entries.reverse();
                let entries = sort_once(key, entries, |(key, _)| key, charge)?;
                Ok(Some(elements::build_map(entries)))
            }
            Self::Tuple(_) | Self::Udt { .. } => components(self.components(), value, charge),
            _ => Ok(None),
        }
    }

    /// Returns whether the type is or contains a set or a map: only values of such types can differ
    /// from their normal form.
    fn has_order_within(&self) -> bool {
        match self {
            Self::Set { .. } | Self::Map { .. } => true,
            Self::List { element, .. } => element.has_order_within(),
            _ => self.components().any(Self::has_order_within),
        }
    }
}

/// Returns the elements of a collection; `None` if it is damaged or contains nulls.
fn parts(elements: elements::Elements<'_>) -> Option<Vec<&[u8]>> {
    elements.map(|part| part.ok().flatten()).collect()
}

/// Returns whether each value is greater than the one before it.
fn is_ascending<'p, E>(
    ty: &CqlType,
    values: impl Iterator<Item = &'p [u8]>,
    charge: Charge<'_, E>,
) -> Result<bool, E> {
    let mut before: Option<&[u8]> = None;
    for value in values {
        if let Some(before) = before {
            charge(before.len().min(value.len()))?;
            if ty.try_compare(before, value, charge)?.is_ge() {
                return Ok(false);
            }
        }
        before = Some(value);
    }
    Ok(true)
}

/// The elements of a collection in their normal form, and whether any of them had another form
/// before.
type Parts<'p> = (Vec<Cow<'p, [u8]>>, bool);

/// Brings each of `parts` into its normal form. `parts` are the elements of a collection, or the
/// keys or the values of a map, each with its type. Also returns whether any of them changed.
fn each<'p, E>(
    parts: impl Iterator<Item = (&'p CqlType, &'p [u8])>,
    charge: Charge<'_, E>,
) -> Result<Parts<'p>, E> {
    let parts: Vec<_> = parts
        .map(|(ty, part)| ty.try_normalize(part, charge))
        .collect::<Result<_, E>>()?;
    let changed = parts.iter().any(|part| matches!(part, Cow::Owned(_)));
    Ok((parts, changed))
}

/// Encodes a value of a tuple or user-defined type again, with each component in its normal form.
/// Components that the value lacks stay missing. Returns `None` if all components already have
/// their normal form, or if the value is damaged.
fn components<'t, E>(
    types: impl Iterator<Item = &'t CqlType>,
    value: &[u8],
    charge: Charge<'_, E>,
) -> Result<Option<Vec<u8>>, E> {
    let parts: Option<Vec<Option<&[u8]>>> = elements::components(value).map(Result::ok).collect();
    let Some(parts) = parts else {
        return Ok(None);
    };
    let normal = |(ty, part): (&'t CqlType, &Option<&[u8]>)| match part {
        Some(part) => ty.reordered(part, charge),
        None => Ok(None),
    };
    let reordered: Vec<Option<Vec<u8>>> =
        types.zip(&parts).map(normal).collect::<Result<_, E>>()?;
    if reordered.iter().all(Option::is_none) {
        return Ok(None);
    }
    let of = |(at, part): (usize, &Option<&[u8]>)| match reordered.get(at) {
        Some(Some(reordered)) => Some(reordered.clone()),
        _ => part.map(<[u8]>::to_vec),
    };
    let all: Vec<Option<Vec<u8>>> = parts.iter().enumerate().map(of).collect();
    Ok(Some(elements::build_tuple(
        all.iter().map(Option::as_deref),
    )))
}

//! The normal form of values: sets and maps in the order of their elements, each once.
//!
//! Clients send them in any order. Values that are equal must have equal bytes, whoever
//! wrote them, at every depth: they are compared, hashed and shown by these.

use std::borrow::Cow;

use super::{CqlType, elements};

impl CqlType {
    /// A value that the type validates, with the elements of all sets and the keys of all
    /// maps in it in the type's order, each once: of equal elements the first, of equal
    /// keys the last with its value, as in a literal. Other bytes are left as they are.
    pub fn normalize<'v>(&self, value: &'v [u8]) -> Cow<'v, [u8]> {
        match self.reordered(value) {
            Some(reordered) => Cow::Owned(reordered),
            None => Cow::Borrowed(value),
        }
    }

    /// The normal form; none where the value has it already.
    fn reordered(&self, value: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::List { element, .. } if element.has_order_within() => {
                let parts = parts(elements::elements(value).ok()?)?;
                let (parts, changed) = each(parts.iter().map(|part| (&**element, *part)));
                changed.then(|| elements::build(parts.iter().map(|part| &**part)))
            }
            Self::Set { element, .. } => {
                let parts = parts(elements::elements(value).ok()?)?;
                let (mut parts, changed) = each(parts.iter().map(|part| (&**element, *part)));
                if !changed && parts.is_sorted_by(|a, b| element.compare(a, b).is_lt()) {
                    return None;
                }
                parts.sort_by(|a, b| element.compare(a, b));
                parts.dedup_by(|a, b| element.compare(a, b).is_eq());
                Some(elements::build(parts.iter().map(|part| &**part)))
            }
            Self::Map { key, value: of, .. } => {
                let parts = parts(elements::pairs(value).ok()?)?;
                let (entries, []) = parts.as_chunks::<2>() else {
                    return None;
                };
                let (keys, keys_changed) = each(entries.iter().map(|[k, _]| (&**key, *k)));
                let (values, values_changed) = each(entries.iter().map(|[_, v]| (&**of, *v)));
                let mut entries: Vec<_> = keys.into_iter().zip(values).collect();
                let is_sorted = entries.is_sorted_by(|a, b| key.compare(&a.0, &b.0).is_lt());
                if is_sorted && !keys_changed && !values_changed {
                    return None;
                }
                entries.reverse();
                entries.sort_by(|a, b| key.compare(&a.0, &b.0));
                entries.dedup_by(|a, b| key.compare(&a.0, &b.0).is_eq());
                let entries = entries.iter().map(|(k, v)| (&**k, &**v));
                Some(elements::build_map(entries))
            }
            Self::Tuple(types) => components(types.iter(), value),
            Self::Udt { definition, .. } => {
                components(definition.fields().iter().map(|(_, ty)| ty), value)
            }
            _ => None,
        }
    }

    /// Whether there is anything in its values that has an order.
    fn has_order_within(&self) -> bool {
        match self {
            Self::Set { .. } | Self::Map { .. } => true,
            Self::List { element, .. } => element.has_order_within(),
            Self::Tuple(types) => types.iter().any(Self::has_order_within),
            Self::Udt { definition, .. } => {
                (definition.fields().iter()).any(|(_, ty)| ty.has_order_within())
            }
            _ => false,
        }
    }
}

/// The elements of a collection; none where it is damaged or has nulls.
fn parts(elements: elements::Elements<'_>) -> Option<Vec<&[u8]>> {
    elements.map(|part| part.ok().flatten()).collect()
}

/// Each part in its normal form, and whether any had another.
fn each<'p>(parts: impl Iterator<Item = (&'p CqlType, &'p [u8])>) -> (Vec<Cow<'p, [u8]>>, bool) {
    let parts: Vec<_> = parts.map(|(ty, part)| ty.normalize(part)).collect();
    let changed = parts.iter().any(|part| matches!(part, Cow::Owned(_)));
    (parts, changed)
}

/// A tuple or user-defined type, of as many components as it has.
fn components<'t>(types: impl Iterator<Item = &'t CqlType>, value: &[u8]) -> Option<Vec<u8>> {
    let parts: Option<Vec<Option<&[u8]>>> = elements::components(value).map(Result::ok).collect();
    let parts = parts?;
    let normal = |(ty, part): (&'t CqlType, &Option<&[u8]>)| ty.reordered((*part)?);
    let reordered: Vec<Option<Vec<u8>>> = types.zip(&parts).map(normal).collect();
    if reordered.iter().all(Option::is_none) {
        return None;
    }
    let of = |(at, part): (usize, &Option<&[u8]>)| match reordered.get(at) {
        Some(Some(reordered)) => Some(reordered.clone()),
        _ => part.map(<[u8]>::to_vec),
    };
    let all: Vec<Option<Vec<u8>>> = parts.iter().enumerate().map(of).collect();
    Some(elements::build_tuple(all.iter().map(Option::as_deref)))
}

//! The operations on one column, with typed terms.

use crate::analyse::term::Term;

/// An operation on one column.
#[derive(Debug)]
pub(super) enum Operation {
    /// `c = v`: sets a cell, or replaces a collection.
    Set(Term),
    /// `c = c + v` or `c = c - v` of a counter.
    Count { by: Term, is_negative: bool },
    /// `DELETE c`.
    Remove,
    /// `l = v + l`.
    Prepend(Term),
    /// `l = l - v`: removes all elements with these values.
    RemoveValues(Term),
    /// `l[i] = v`.
    SetIndex { index: Term, value: Term },
    /// `DELETE l[i]`.
    RemoveIndex(Term),
    /// `l = l + v`, `s = s + v`, `m = m + v`.
    Add(Term),
    /// `s = s - v`, `m = m - v`: removes a set of members or keys.
    RemoveKeys(Term),
    /// `m[k] = v`.
    SetKey { key: Term, value: Term },
    /// `DELETE m[k]`, `DELETE s[k]`.
    RemoveKey(Term),
    /// `u.f = v`.
    SetField { field: u16, value: Term },
    /// `DELETE u.f`.
    RemoveField(u16),
}

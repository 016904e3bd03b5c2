//! What a statement does to one column, its terms typed.

use crate::analyse::term::Term;

/// What happens to one column.
#[derive(Debug)]
pub(super) enum Operation {
    /// `c = v`: one cell, or all that a collection holds.
    Set(Term),
    /// `c = c + v` or `c = c - v` of a counter.
    Count { by: Term, is_negative: bool },
    /// `c = null` by DELETE.
    Remove,
    /// `l = v + l`.
    Prepend(Term),
    /// `l = l - v`: all elements of these values.
    RemoveValues(Term),
    /// `l[i] = v`.
    SetIndex { index: Term, value: Term },
    /// `DELETE l[i]`.
    RemoveIndex(Term),
    /// `l = l + v`, `s = s + v`, `m = m + v`.
    Add(Term),
    /// `s = s - v`, `m = m - v`: a set of members or keys.
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

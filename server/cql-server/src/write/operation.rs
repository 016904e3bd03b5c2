//! What a statement does to one column, its terms typed.

use crate::analyse::term::Term;

/// What happens to one column.
#[derive(Debug)]
pub(super) enum Operation {
    /// `c = v`: one cell, or all that a collection holds.
    Set(Term),
    /// `c = c + v` or `c = c - v` of a counter.
    Count {
        /// How many.
        by: Term,
        /// They are taken away.
        is_negative: bool,
    },
    /// `c = null` by DELETE.
    Remove,
    /// `l = l + v`.
    Append(Term),
    /// `l = v + l`.
    Prepend(Term),
    /// `l = l - v`: all elements of these values.
    RemoveValues(Term),
    /// `l[i] = v`.
    SetIndex {
        /// Which.
        index: Term,
        /// What it becomes.
        value: Term,
    },
    /// `DELETE l[i]`.
    RemoveIndex(Term),
    /// `s = s + v`, `m = m + v`.
    Add(Term),
    /// `s = s - v`, `m = m - v`: a set of members or keys.
    RemoveKeys(Term),
    /// `m[k] = v`.
    SetKey {
        /// Which.
        key: Term,
        /// What it becomes.
        value: Term,
    },
    /// `DELETE m[k]`, `DELETE s[k]`.
    RemoveKey(Term),
    /// `u.f = v`.
    SetField {
        /// Its number.
        field: u16,
        /// What it becomes.
        value: Term,
    },
    /// `DELETE u.f`.
    RemoveField(u16),
}

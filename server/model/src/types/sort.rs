//! A merge sort that can be interrupted.
//!
//! Comparing two values may take milliseconds (decimals), so a sort of a client's values may take
//! minutes. The sort of the standard library cannot be interrupted, and may panic if an aborted
//! comparison returns inconsistent results. The comparisons of this sort may return errors.

use std::cmp::Ordering;

use super::CqlType;

/// A callback that is called before work. Its argument is the cost of the work: the number of bytes
/// whose comparison takes as long. If it returns an error, the work ends.
pub type Charge<'c, E> = &'c mut dyn FnMut(usize) -> Result<(), E>;

/// Returns items in the order of `ty`, by the value that `value` returns for an item. Of items with
/// equal values only the first is kept.
///
/// # Errors
/// The error of `charge`, which is called before each comparison.
pub fn sort_once<T, E>(
    ty: &CqlType,
    items: Vec<T>,
    value: impl Fn(&T) -> &[u8],
    charge: Charge<'_, E>,
) -> Result<Vec<T>, E> {
    merge_sort(items, |a, b| {
        let (a, b) = (value(a), value(b));
        charge(a.len().min(b.len()))?;
        ty.try_compare(a, b, charge)
    })
}

/// Returns all items in the order of `compare`. Equal items keep their order.
///
/// # Errors
/// The first error of `compare`.
pub fn sort_stable<T, E>(
    items: Vec<T>,
    mut compare: impl FnMut(&T, &T) -> Result<Ordering, E>,
) -> Result<Vec<T>, E> {
    // The merge sort passes the earlier item of each pair first.
    merge_sort(items, |a, b| Ok(compare(a, b)?.then(Ordering::Less)))
}

/// Sorts items, and keeps the first of equal ones. The first argument of each comparison is the item
/// that came earlier.
fn merge_sort<T, E>(
    items: Vec<T>,
    mut compare_items: impl FnMut(&T, &T) -> Result<Ordering, E>,
) -> Result<Vec<T>, E> {
    let mut compare = |a: usize, b: usize| compare_items(&items[a], &items[b]);
    // Indexes into `items` in ascending runs, and the ends of the runs.
    let mut order: Vec<usize> = Vec::with_capacity(items.len());
    let mut ends = Vec::new();
    for at in 0..items.len() {
        if let Some(&last) = order.last() {
            match compare(last, at)? {
                Ordering::Less => {}
                Ordering::Equal => continue,
                Ordering::Greater => ends.push(order.len()),
            }
        }
        order.push(at);
    }
    ends.push(order.len());
    while ends.len() > 1 {
        let mut merged = Vec::with_capacity(order.len());
        let mut merged_ends = Vec::with_capacity(ends.len().div_ceil(2));
        let mut from = 0;
        for pair in ends.chunks(2) {
            let (middle, to) = (pair[0], pair[pair.len() - 1]);
            merge(
                &order[from..middle],
                &order[middle..to],
                &mut compare,
                &mut merged,
            )?;
            merged_ends.push(merged.len());
            from = to;
        }
        (order, ends) = (merged, merged_ends);
    }
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    Ok(order
        .into_iter()
        .filter_map(|at| items[at].take())
        .collect())
}

/// Appends two ascending runs as one. Of equal items the one of `left` stays, because it came first.
fn merge<E>(
    mut left: &[usize],
    mut right: &[usize],
    compare: &mut impl FnMut(usize, usize) -> Result<Ordering, E>,
    out: &mut Vec<usize>,
) -> Result<(), E> {
    while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
        match compare(*a, *b)? {
            Ordering::Less => {
                out.push(*a);
                left = left_rest;
            }
            Ordering::Equal => right = right_rest,
            Ordering::Greater => {
                out.push(*b);
                right = right_rest;
            }
        }
    }
    out.extend(left);
    out.extend(right);
    Ok(())
}

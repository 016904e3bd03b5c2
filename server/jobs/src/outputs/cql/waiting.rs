//! The encoding of a row's values, or of a partition's static columns, between the end of a task
//! and the commit.
//!
//! ```text
//!   column id, u32 LE | length, u32 LE | value, ascending by id
//! ```
//!
//! Values are in the native serialization of their types. The commit encodes them for the store,
//! which is not possible earlier: the timestamp is not known before.

use ebb_scheduler::runtime::TaskError;

/// The column id for the original values of the clustering columns. A waiting row contains these if
/// its key in the store does not determine them: 1.0 and 1.00 have the same key.
pub(super) const ORIGINAL: u32 = u32::MAX;

const NUMBER_BYTES: usize = 4;

/// Appends the value of the column `id`. The ids of successive calls must ascend.
///
/// # Errors
/// When the value has 4 GiB or more.
pub(super) fn push(out: &mut Vec<u8>, id: u32, value: &[u8]) -> Result<(), String> {
    let length = u32::try_from(value.len());
    let length = length.map_err(|_| "a value of 4 GiB or more".to_string())?;
    out.extend(id.to_le_bytes());
    out.extend(length.to_le_bytes());
    out.extend_from_slice(value);
    Ok(())
}

/// Returns an iterator over the columns of an encoded row: the id and the value of each.
///
/// # Errors
/// When the row is damaged; the iterator ends then.
pub(super) fn values(row: &[u8]) -> impl Iterator<Item = Result<(u32, &[u8]), TaskError>> {
    let mut rest = row;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let value = take(&mut rest);
        if value.is_none() {
            rest = &[];
        }
        Some(value.ok_or_else(|| TaskError::failed("a row that waits for the commit is damaged")))
    })
}

fn take<'r>(rest: &mut &'r [u8]) -> Option<(u32, &'r [u8])> {
    let (id, after) = rest.split_first_chunk::<NUMBER_BYTES>()?;
    let (length, after) = after.split_first_chunk::<NUMBER_BYTES>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (value, after) = after.split_at_checked(length)?;
    *rest = after;
    Some((u32::from_le_bytes(*id), value))
}

/// Merges the values of `earlier`, the static columns of a partition, into `later`, those of the
/// same partition. If both have a column with different values, returns the column's id instead.
///
/// # Errors
/// When `earlier` or `later` is damaged.
pub(super) fn unite(earlier: &[u8], later: &mut Vec<u8>) -> Result<Option<u32>, TaskError> {
    if earlier == later.as_slice() {
        return Ok(None);
    }
    let all = |row| values(row).collect::<Result<Vec<_>, _>>();
    let mut both = all(earlier)?;
    both.extend(all(later)?);
    both.sort_unstable();
    both.dedup();
    if let Some(twice) = both.windows(2).find(|two| two[0].0 == two[1].0) {
        return Ok(Some(twice[0].0));
    }
    let mut united = Vec::with_capacity(earlier.len() + later.len());
    for (id, value) in both {
        push(&mut united, id, value).map_err(TaskError::failed)?;
    }
    *later = united;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(of: &[(u32, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (id, value) in of {
            push(&mut out, *id, value.as_bytes()).unwrap();
        }
        out
    }

    #[test]
    fn values_come_back_and_damage_is_an_error() {
        let bytes = row(&[(1, "one"), (7, ""), (ORIGINAL, "x")]);
        let read: Vec<_> = values(&bytes).map(Result::unwrap).collect();
        assert_eq!(read, [(1, &b"one"[..]), (7, b""), (ORIGINAL, b"x")]);
        for end in 1..bytes.len() {
            let read: Vec<_> = values(&bytes[..end]).collect();
            let whole = read.iter().filter(|value| value.is_ok()).count();
            assert!(read.len() <= 3 && (whole == read.len()) == [11, 19].contains(&end));
        }
    }

    #[test]
    fn values_of_a_partition_are_united_unless_they_differ() {
        let unite = |earlier: &[(u32, &str)], later: &[(u32, &str)]| {
            let mut later = row(later);
            (super::unite(&row(earlier), &mut later).unwrap(), later)
        };
        let both = row(&[(1, "a"), (2, "b"), (3, "c")]);
        assert_eq!(
            unite(&[(1, "a"), (3, "c")], &[(2, "b"), (3, "c")]),
            (None, both)
        );
        assert_eq!(unite(&[(1, "a")], &[(1, "a")]).0, None);
        assert_eq!(unite(&[(1, "a"), (2, "b")], &[(2, "c")]).0, Some(2));
    }
}

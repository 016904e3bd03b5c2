//! Removes the garbage of a folded operand in a compaction. No reader notices, now or after future
//! writes.

use super::builder::RowBuilder;
use super::cell::{Cell, Deletion, is_shadowed};
use super::decode::{Column, RowRef};
use super::error::RowError;
use super::garbage::Garbage;
use super::header::Header;
use super::merge::Rules;

/// The result of dropping the garbage of an operand (an encoded row or partition header).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purged {
    /// The operand is unchanged.
    Kept,
    /// These bytes replace the operand.
    Rewritten(Vec<u8>),
    /// Nothing remains: the key can be dropped.
    Gone,
}

/// Removes garbage from a stored row, whose writes were folded into one operand: tombstones and
/// expired values that no reader needs. Also removes the content that the deletion `above` hides.
/// `above` is the deletion in the partition's header that covers the row: [`Header::deletion_at`].
///
/// Every reader of the row must also see the header that contains `above`. So this header must be
/// of the same stripe (the versions between two snapshots) as the row, in its state before its own
/// garbage was removed.
///
/// A row is kept if only its encoding could be shorter; checking for that costs compactions more
/// than it saves.
///
/// # Errors
/// If the bytes are not a row operand.
pub fn purge_row(
    row: &[u8],
    above: Option<Deletion>,
    garbage: Garbage,
) -> Result<Purged, RowError> {
    let operand = RowRef::parse(row)?;
    let rules = Rules {
        above,
        garbage: Some(garbage),
    };
    if !drops_any(operand, rules, garbage)? {
        return Ok(Purged::Kept);
    }
    let mut out = Vec::with_capacity(row.len());
    rules.write_exact(operand, RowRef::EMPTY, &mut out)?;
    let left = RowRef::parse(&out)?;
    if has_useless_original(&left, garbage) {
        let deletion = left.deletion();
        out.clear();
        let mut bare = RowBuilder::new(&mut out, deletion.map_or(i64::MIN, |one| one.timestamp));
        if let Some(deletion) = deletion {
            bare.deletion(deletion);
        }
        bare.finish()?;
    }
    Ok(if RowRef::parse(&out)?.is_empty() {
        Purged::Gone
    } else {
        Purged::Rewritten(out)
    })
}

/// Returns whether the original clustering of a row (the clustering as it was written) can be
/// dropped: the row has neither marker nor columns here, and the original clustering is older than
/// all operands of the row in other sources. No content needs it then, because each write of
/// content also writes the original clustering.
fn has_useless_original(row: &RowRef<'_>, garbage: Garbage) -> bool {
    row.original()
        .is_some_and(|original| original.timestamp < garbage.oldest_elsewhere)
        && row.marker().is_none()
        && row.columns().next().is_none()
}

/// Drops the garbage of a header operand (encoded writes to the deletions and the static row of a
/// partition, folded into one), and the content that its own deletions shadow.
///
/// The deletions cover all rows of the partition, so [`Garbage::oldest_elsewhere`] must be that of
/// the whole partition. The rows in the same compaction count as another source, too, unless
/// [`purge_row`] is called for them with the deletions of this header as they were before its
/// purge: it drops the content that these deletions hide.
///
/// # Errors
/// If the bytes are not a header operand.
pub fn purge_header(header: &[u8], garbage: Garbage) -> Result<Purged, RowError> {
    let out = Header::parse(header)?.without(garbage)?;
    Ok(if out == header {
        Purged::Kept
    } else if Header::parse(&out)?.is_empty() {
        Purged::Gone
    } else {
        Purged::Rewritten(out)
    })
}

/// Returns whether [`purge_row`] would drop anything from a row: what a merge with `rules` drops,
/// or a useless original clustering. Most operands have no garbage, and are then not rewritten.
fn drops_any(row: RowRef<'_>, rules: Rules, garbage: Garbage) -> Result<bool, RowError> {
    let drops_cell =
        |cell: &Cell<'_>| is_shadowed(cell.timestamp, rules.above) || garbage.has_cell(cell);
    let drops_deletion =
        |deletion: Deletion| Some(deletion) <= rules.above || garbage.has_deletion(deletion);
    if row.deletion().is_some_and(drops_deletion)
        || row.marker().is_some_and(|marker| {
            is_shadowed(marker.timestamp, rules.above) || garbage.has_marker(&marker)
        })
        || row
            .original()
            .is_some_and(|original| is_shadowed(original.timestamp, rules.above))
        || has_useless_original(&row, garbage)
    {
        return Ok(true);
    }
    for column in row.columns() {
        match column?.1 {
            Column::Cell(cell) => {
                if drops_cell(&cell) {
                    return Ok(true);
                }
            }
            Column::Collection(collection) => {
                if collection.deletion().is_some_and(drops_deletion) {
                    return Ok(true);
                }
                for element in collection.elements() {
                    if drops_cell(&element?.cell) {
                        return Ok(true);
                    }
                }
            }
        }
    }
    Ok(false)
}

//! Garbage: what a compaction may drop of a folded operand, so that no reader notices,
//! now or after writes that are still to come.

use super::builder::RowBuilder;
use super::cell::{Cell, Deletion, is_shadowed};
use super::decode::{Column, RowRef};
use super::error::RowError;
use super::garbage::Garbage;
use super::header::Header;
use super::merge::Rules;

/// What becomes of an operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purged {
    /// It stays as it is.
    Kept,
    /// These bytes take its place.
    Rewritten(Vec<u8>),
    /// Nothing is left: the key goes.
    Gone,
}

/// Drops the garbage of a folded row operand, and what `above` shadows: the deletion that
/// the partition's header has for it, [`Header::deletion_at`].
///
/// `above` must be of a header that every reader of this operand sees, which is one of the
/// same stripe, as it was before it was purged itself. An operand whose bytes merely could
/// be shorter is kept; a second look costs compactions more than it saves.
///
/// # Errors
/// The bytes are no row operand.
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

/// Whether the original clustering is of a row that is gone: it has neither marker nor
/// columns, and what else there may be of it is newer and brings its own.
fn has_useless_original(row: &RowRef<'_>, garbage: Garbage) -> bool {
    row.original()
        .is_some_and(|original| original.timestamp < garbage.oldest_elsewhere)
        && row.marker().is_none()
        && row.columns().next().is_none()
}

/// Drops the garbage of a folded header operand, and what its own deletions shadow.
///
/// Its deletions lie above all rows of the partition, so [`Garbage::oldest_elsewhere`]
/// must be of the whole partition: rows of the same compaction count too, unless they are
/// purged with this header as it was.
///
/// # Errors
/// The bytes are no header operand.
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

/// Whether the rules leave out anything of an operand; most have nothing, and are then
/// not written anew.
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

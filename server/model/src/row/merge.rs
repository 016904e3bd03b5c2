//! Merges two operands into one.
//!
//! Both are decoded once, side by side, and the result is written in the same pass: no map is
//! built. Content that the operands' own deletions shadow is not written. The greatest timestamp,
//! which stands first in the result, is known in advance: it is the greater one of the two, because
//! only a deletion of the same timestamp can shadow its holder. Only garbage that is dropped, or a
//! deletion in the partition's header, can remove the holder; then the operand is written a second time.

use std::cmp::Ordering;

use super::builder::RowBuilder;
use super::cell::{Cell, Deletion, Element, is_shadowed};
use super::decode::{CollectionRef, Column, RowRef};
use super::error::RowError;
use super::garbage::Garbage;

/// Merges two row operands: encoded writes of one row. The result does not depend on their order of
/// commit.
///
/// # Errors
/// If one of them is not a row operand; [`RowError::Mixed`] if a column is a single cell in one of
/// them and a collection in the other, and no deletion hides the single cell.
pub fn merge_rows(older: &[u8], newer: &[u8]) -> Result<Vec<u8>, RowError> {
    let mut merged = Vec::with_capacity(older.len() + newer.len());
    let (older, newer) = (RowRef::parse(older)?, RowRef::parse(newer)?);
    Rules::default().write_exact(older, newer, &mut merged)?;
    Ok(merged)
}

/// The content that a merge of rows leaves out, besides the content that deletions in the rows
/// themselves shadow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rules {
    /// The deletion in the partition's header (of the partition or of a range of rows) that covers
    /// the whole row.
    pub(super) above: Option<Deletion>,
    /// The limits below which tombstones and expired values are garbage, which the merge drops;
    /// `None` to drop no garbage.
    pub(super) garbage: Option<Garbage>,
}

impl Rules {
    /// Appends the canonical encoding of the merged row (equal content has equal bytes). Returns
    /// false if the row is empty; its encoding is appended even then.
    pub(super) fn write_exact(
        self,
        left: RowRef<'_>,
        right: RowRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, RowError> {
        let start = out.len();
        let base = left.greatest_timestamp().max(right.greatest_timestamp());
        let greatest = self.write(left, right, base, out)?;
        if greatest != base {
            // The holder of the greatest timestamp was garbage, or `above` deletes it.
            out.truncate(start);
            self.write(left, right, greatest, out)?;
        }
        Ok(greatest != i64::MIN)
    }

    /// Appends the merged operand, and returns its greatest timestamp. The operand stores each of
    /// its timestamps as the distance below `base`, so `base` must not be less than the greatest.
    fn write(
        self,
        left: RowRef<'_>,
        right: RowRef<'_>,
        base: i64,
        out: &mut Vec<u8>,
    ) -> Result<i64, RowError> {
        // `None`, no deletion, is less than any deletion.
        let deletion = left.deletion().max(right.deletion());
        // The strongest deletion of both operands and of `above`. Readers never see what it
        // shadows, so that is left out.
        let shadow = deletion.max(self.above);
        let marker = greater(left.marker(), right.marker(), |one, two| one.reconcile(two));
        let original = left.original().max(right.original());

        let mut row = RowBuilder::new(out, base);
        // Compared with `above` and not with `shadow`, which contains this deletion.
        if let Some(deletion) =
            deletion.filter(|&deletion| self.keeps_deletion(deletion, self.above))
        {
            row.deletion(deletion);
        }
        if let Some(marker) = marker
            && !is_shadowed(marker.timestamp, shadow)
            && !self
                .garbage
                .is_some_and(|garbage| garbage.has_marker(&marker))
        {
            row.marker(marker);
        }
        // `purge_row` decides whether this is garbage, because that depends on the rest of the result.
        if let Some(original) = original
            && !is_shadowed(original.timestamp, shadow)
        {
            row.original(original);
        }

        // Both operands have their columns by ascending id, so one pass over both is enough.
        let (mut lefts, mut rights) = (left.columns(), right.columns());
        let (mut one, mut two) = (lefts.next().transpose()?, rights.next().transpose()?);
        loop {
            let order = match (&one, &two) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((one, _)), Some((two, _))) => one.cmp(two),
            };
            let from_left = if order.is_le() { one.take() } else { None };
            let from_right = if order.is_ge() { two.take() } else { None };
            self.column(&mut row, from_left, from_right, shadow)?;
            if order.is_le() {
                one = lefts.next().transpose()?;
            }
            if order.is_ge() {
                two = rights.next().transpose()?;
            }
        }
        row.finish_with_greatest()
    }

    /// Merges one column of two operands of a row, and writes the result without the cells that the
    /// deletion `shadow` hides. `left` or `right` is `None` if that operand lacks the column.
    #[inline]
    fn column(
        self,
        row: &mut RowBuilder<'_>,
        left: Option<(u32, Column<'_>)>,
        right: Option<(u32, Column<'_>)>,
        shadow: Option<Deletion>,
    ) -> Result<(), RowError> {
        match (left, right) {
            (Some((id, Column::Cell(one))), Some((_, Column::Cell(two)))) => {
                let winner = if one.reconcile(&two).is_ge() {
                    one
                } else {
                    two
                };
                self.cell(row, id, winner, shadow);
            }
            (Some((id, Column::Cell(cell))), None) | (None, Some((id, Column::Cell(cell)))) => {
                self.cell(row, id, cell, shadow);
            }
            (Some((id, Column::Collection(one))), Some((_, Column::Collection(two)))) => {
                self.collection(row, id, Some(one), Some(two), shadow)?;
            }
            (Some((id, Column::Collection(one))), None)
            | (None, Some((id, Column::Collection(one)))) => {
                self.collection(row, id, Some(one), None, shadow)?;
            }
            // Earlier versions let a dropped column that had single cells come back as a collection. Its
            // old cells are still stored, and a deletion removes them as it removes those of one kind.
            (Some((id, Column::Cell(cell))), Some((_, Column::Collection(one))))
            | (Some((id, Column::Collection(one))), Some((_, Column::Cell(cell)))) => {
                if !is_shadowed(cell.timestamp, one.deletion().max(shadow)) {
                    return Err(RowError::Mixed { column: id });
                }
                self.collection(row, id, Some(one), None, shadow)?;
            }
            (None, None) => {}
        }
        Ok(())
    }

    #[inline]
    fn cell(self, row: &mut RowBuilder<'_>, id: u32, cell: Cell<'_>, shadow: Option<Deletion>) {
        if self.keeps_cell(&cell, shadow) {
            row.cell(id, cell);
        }
    }

    fn collection(
        self,
        row: &mut RowBuilder<'_>,
        id: u32,
        left: Option<CollectionRef<'_>>,
        right: Option<CollectionRef<'_>>,
        above: Option<Deletion>,
    ) -> Result<(), RowError> {
        let deletion_of = |side: &Option<CollectionRef<'_>>| side.and_then(|side| side.deletion());
        let deletion = deletion_of(&left).max(deletion_of(&right));
        let shadow = deletion.max(above);
        row.begin_collection(
            id,
            deletion.filter(|&deletion| self.keeps_deletion(deletion, above)),
        );
        let mut lefts = left.into_iter().flat_map(|side| side.elements());
        let mut rights = right.into_iter().flat_map(|side| side.elements());
        let (mut one, mut two) = (lefts.next().transpose()?, rights.next().transpose()?);
        loop {
            let order = match (&one, &two) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(two)) => one.path.cmp(two.path),
            };
            let from_left = if order.is_le() { one.take() } else { None };
            let from_right = if order.is_ge() { two.take() } else { None };
            if let Some(element) = greater(from_left, from_right, Element::reconcile)
                && self.keeps_cell(&element.cell, shadow)
            {
                row.element(element);
            }
            if order.is_le() {
                one = lefts.next().transpose()?;
            }
            if order.is_ge() {
                two = rights.next().transpose()?;
            }
        }
        row.end_collection();
        Ok(())
    }

    #[inline]
    fn keeps_cell(self, cell: &Cell<'_>, shadow: Option<Deletion>) -> bool {
        !is_shadowed(cell.timestamp, shadow)
            && !self.garbage.is_some_and(|garbage| garbage.has_cell(cell))
    }

    /// Returns whether a deletion is written: it must supersede `above`, the deletion that covers
    /// it, and not be garbage.
    fn keeps_deletion(self, deletion: Deletion, above: Option<Deletion>) -> bool {
        Some(deletion) > above
            && !self
                .garbage
                .is_some_and(|garbage| garbage.has_deletion(deletion))
    }
}

/// Returns the greater of two optional values by `order`; `None` if both are absent.
#[inline]
fn greater<T>(one: Option<T>, two: Option<T>, order: impl Fn(&T, &T) -> Ordering) -> Option<T> {
    match (one, two) {
        (Some(one), Some(two)) if order(&one, &two).is_ge() => Some(one),
        (one, None) => one,
        (_, two) => two,
    }
}

//! A partition: the winning write of each cell, and the greatest timestamp of each deletion.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::flaw::Flaw;
use super::restriction::Restriction;
use super::schema::ColumnId;

/// The time of a write: its timestamp in microseconds, and the time of the clock in seconds.
#[derive(Debug, Clone, Copy)]
pub struct When {
    pub timestamp_us: i64,
    pub now_s: i64,
}

/// The time at which a value expires, and its TTL, both in seconds; `None` if it does not expire.
pub type Life = Option<(i64, i64)>;

/// The part of a column that is stored as one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Whole,
    /// An element of a list. Elements are sorted by their positions, which are distinct.
    Position(i64),
    /// A member of a set, or the entry of a map with this key.
    Key(i32),
    Field(usize),
}

/// A written cell. If its bytes are `None`, the cell is a null.
#[derive(Debug, Clone)]
pub struct Cell {
    pub timestamp_us: i64,
    pub bytes: Option<Vec<u8>>,
    pub life: Life,
}

#[derive(Debug, Clone, Default)]
pub struct Row {
    pub deletion: Option<i64>,
    /// The marker that an INSERT writes: its timestamp and, with a TTL, its expiry.
    pub marker: Option<(i64, Life)>,
    pub cells: BTreeMap<(ColumnId, Place), Cell>,
    /// The timestamps up to which collections were deleted or overwritten.
    pub cleared: BTreeMap<ColumnId, i64>,
}

#[derive(Debug, Clone, Default)]
pub struct Partition {
    pub deletion: Option<i64>,
    pub ranges: Vec<(Vec<Restriction>, i64)>,
    pub statics: Row,
    pub rows: BTreeMap<Vec<i32>, Row>,
}

/// An effect of a write on a row, on a range of rows or on a partition.
#[derive(Debug, Clone)]
pub enum Fact {
    Partition,
    Range(Vec<Restriction>),
    Row,
    Marker(Life),
    /// Deletes the elements that a collection had up to this timestamp.
    Clear(ColumnId, i64),
    Cell(ColumnId, Place, Cell),
}

/// The rules by which one of two writes wins, with a deliberate mistake if there is a flaw.
#[derive(Debug, Clone, Copy)]
pub struct Rules(pub Option<Flaw>);

impl Rules {
    fn has(self, flaw: Flaw) -> bool {
        self.0 == Some(flaw)
    }

    /// Returns whether the cell `new` wins over `old`, by the rules of Cassandra 4.1's
    /// `Cells.reconcile`. The later timestamp wins. If they are equal, a null wins, then the value
    /// that expires, of two such values the one that expires later, then the value with greater
    /// bytes, then the one with the shorter TTL.
    fn wins(self, new: &Cell, old: &Cell) -> bool {
        let flipped = |flaw, rank: i32| if self.has(flaw) { -rank } else { rank };
        let key = |cell: &Cell| {
            let rank = match (&cell.bytes, cell.life) {
                (None, _) => flipped(Flaw::ValueWinsOverNull, 2),
                (Some(_), Some(_)) => flipped(Flaw::PermanentWins, 1),
                (Some(_), None) => 0,
            };
            let (end, ttl) = cell.life.unwrap_or_default();
            (
                cell.timestamp_us,
                rank,
                end,
                cell.bytes.clone(),
                Reverse(ttl),
            )
        };
        let (new_key, old_key) = (key(new), key(old));
        if self.has(Flaw::SmallerValueWins)
            && (new_key.0, new_key.1, new_key.2) == (old_key.0, old_key.1, old_key.2)
        {
            return new_key.3 < old_key.3;
        }
        new_key > old_key
    }

    /// Returns whether the marker `new` of a row replaces the marker `old`, by Cassandra 4.1's
    /// `LivenessInfo.supersedes`.
    fn marks(self, new: (i64, Life), old: (i64, Life)) -> bool {
        let key = |(timestamp_us, life): (i64, Life)| (timestamp_us, life.map(|(end, _)| end));
        key(new) > key(old)
    }

    /// Returns whether a write with this timestamp is not hidden by a deletion with the timestamp
    /// `deletion`. `None` is no deletion.
    fn is_above(self, timestamp_us: i64, deletion: Option<i64>) -> bool {
        if self.has(Flaw::DeletionLeavesItsTimestamp) {
            Some(timestamp_us) >= deletion
        } else {
            Some(timestamp_us) > deletion
        }
    }

    fn lives(self, life: Life, now_s: i64) -> bool {
        let late = i64::from(self.has(Flaw::ExpiresLate));
        life.is_none_or(|(end, _)| end + late > now_s)
    }
}

impl Partition {
    pub fn add(&mut self, row: Option<Vec<i32>>, when: When, fact: Fact, rules: Rules) {
        let at = when.timestamp_us;
        if let Fact::Partition = fact {
            self.deletion = self.deletion.max(Some(at));
            return;
        }
        if let Fact::Range(restrictions) = fact {
            self.ranges.push((restrictions, at));
            return;
        }
        let row = match row {
            Some(row) => self.rows.entry(row).or_default(),
            None => &mut self.statics,
        };
        match fact {
            Fact::Row => row.deletion = row.deletion.max(Some(at)),
            Fact::Marker(life) => {
                if row.marker.is_none_or(|old| rules.marks((at, life), old)) {
                    row.marker = Some((at, life));
                }
            }
            Fact::Clear(id, up_to) => {
                let cleared = row.cleared.entry(id).or_insert(up_to);
                *cleared = up_to.max(*cleared);
            }
            Fact::Cell(id, place, cell) => {
                let old = row.cells.get(&(id, place));
                if old.is_none_or(|old| rules.wins(&cell, old)) {
                    row.cells.insert((id, place), cell);
                }
            }
            Fact::Partition | Fact::Range(_) => {}
        }
    }

    /// Returns the greatest timestamp of the deletions that cover a row (for `None`, the static
    /// columns); `None` if nothing was deleted.
    fn deletion_above(&self, row: Option<&[i32]>) -> Option<i64> {
        let mut above = self.deletion;
        let own = match row {
            None => self.statics.deletion,
            Some(row) => {
                for (restrictions, at) in &self.ranges {
                    if restrictions.iter().all(|one| one.holds(row)) {
                        above = above.max(Some(*at));
                    }
                }
                self.rows.get(row).and_then(|row| row.deletion)
            }
        };
        above.max(own)
    }

    /// Returns the values of the row with the clustering `at` that are live at the second `now_s`.
    /// If `at` is `None`, these are the values of the static columns.
    pub fn live_cells(
        &self,
        at: Option<&[i32]>,
        now_s: i64,
        rules: Rules,
    ) -> BTreeMap<(ColumnId, Place), &Cell> {
        let row = match at {
            Some(at) => self.rows.get(at),
            None => Some(&self.statics),
        };
        let Some(row) = row else {
            return BTreeMap::new();
        };
        let above = self.deletion_above(at);
        let is_live = |((id, place), cell): &(&(ColumnId, Place), &Cell)| {
            let cleared = row.cleared.get(id).copied();
            let cleared = cleared.filter(|_| *place != Place::Whole);
            cell.bytes.is_some()
                && rules.is_above(cell.timestamp_us, above)
                && rules.is_above(cell.timestamp_us, cleared)
                && rules.lives(cell.life, now_s)
        };
        let cells = row.cells.iter().filter(is_live);
        cells.map(|(place, cell)| (*place, cell)).collect()
    }

    /// Returns whether the row at the clustering `at` exists even if it has no values, because of
    /// an INSERT.
    pub fn is_marked(&self, at: &[i32], now_s: i64, rules: Rules) -> bool {
        let marker = self.rows.get(at).and_then(|row| row.marker);
        marker.is_some_and(|(timestamp_us, life)| {
            rules.is_above(timestamp_us, self.deletion_above(Some(at)))
                && rules.lives(life, now_s)
                && !(rules.has(Flaw::ExpiringRowsAreGone) && life.is_some())
        })
    }
}

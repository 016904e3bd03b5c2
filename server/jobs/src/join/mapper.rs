//! The mapper of a join: emits the record of each row, by its join key.

use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Mapper, TaskError};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::JoinKind;
use super::side::{JoinSide, On};
use crate::inputs::Side;
use crate::records::Fields;
use crate::records::csv::push_field;
use crate::seen::SeenColumns;

/// The mapper of a join. A record that it emits has those columns of the row that are in the result, as a
/// CSV record, or unchanged if the result has only one column beside the key:
///
/// ```text
///   row                            key of the record         value of the record
///   with a join key                JOINED | join key         LEFT or RIGHT | columns
///   left row without a join key    UNPAIRED | two bytes      columns
/// ```
///
/// A left row without a join key is emitted in a left join only, a right row without one never.
pub(super) struct SideMapper {
    pub(super) left: JoinSide,
    pub(super) right: JoinSide,
    pub(super) kind: JoinKind,
    /// True if the result has several columns beside the key.
    pub(super) is_record: bool,
    /// The number of keys under which left rows without a join key are emitted. It is 1 if there is one
    /// reduce task, so that the result has these rows in the order of the input.
    pub(super) unpaired_keys: u64,
    pub(super) seen: Arc<SeenColumns>,
}

/// The first byte of the value of a record with a join key: the side of its row.
pub(super) const LEFT: u8 = 0;
const RIGHT: u8 = 1;

/// The first byte of the key of a record whose row has no join key. It is smaller than [`JOINED`], so a
/// reduce task gets these records first.
pub(super) const UNPAIRED: u8 = 0;
/// The first byte of the key of a record whose row has a join key.
pub(super) const JOINED: u8 = 1;
/// The number of keys under which left rows without a join key are emitted if there are several reduce
/// tasks. A hash assigns keys to tasks. Of 10,000 tasks, the most that a request may ask for, each gets 6
/// or 7 of the keys on average, and about 14 get none, so nearly all share the work.
pub(super) const UNPAIRED_KEYS: u64 = 1 << 16;

impl SideMapper {
    /// Returns whether the result contains rows of one side that have no match on the other side.
    /// `side` is the byte [`LEFT`] or [`RIGHT`].
    fn keeps_unpaired(&self, side: u8) -> bool {
        side == LEFT && self.kind == JoinKind::Left
    }

    /// Returns the key of the record of a left row that has no join key: one of
    /// [`unpaired_keys`](Self::unpaired_keys) keys, chosen by a hash of the row's own key and value. Such
    /// rows may be most of the left side, and one key for all of them would send them to one reduce task.
    fn unpaired_key(&self, key: &[u8], value: &[u8]) -> [u8; 3] {
        let hash = xxh3_64_with_seed(value, xxh3_64(key));
        let [.., first, second] = (hash % self.unpaired_keys).to_be_bytes();
        [UNPAIRED, first, second]
    }
}

impl Mapper for SideMapper {
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        let (side, key) = Side::of(key);
        let (of, side) = match side {
            Side::Left => (&self.left, LEFT),
            Side::Right => (&self.right, RIGHT),
        };
        let other = match &of.on {
            On::Other(column) => {
                let field = |fields: &Fields| {
                    self.seen.record_one(usize::from(side), fields.has(0));
                    Ok(fields.get(0).map(<[u8]>::to_vec))
                };
                let field = column.read(key, value, field)?;
                if field.is_none() && !self.keeps_unpaired(side) {
                    return Ok(());
                }
                field
            }
            On::RowKey | On::Column(_) => None,
        };
        let mut row = Vec::new();
        let joined = of.row.read(key, value, |fields| {
            for (at, _) in &of.along {
                let field = fields.get(*at).unwrap_or_default();
                if self.is_record {
                    push_field(&mut row, field);
                } else {
                    row.extend_from_slice(field);
                }
            }
            Ok(match &of.on {
                On::Column(at) => fields.get(*at).map(<[u8]>::to_vec),
                On::RowKey | On::Other(_) => None,
            })
        })?;
        let joined = match (&of.on, &joined, &other) {
            (On::RowKey, ..) => key,
            (_, Some(field), _) | (_, _, Some(field)) => field,
            _ => &b""[..],
        };
        if joined.is_empty() {
            if self.keeps_unpaired(side) {
                emit.emit(&self.unpaired_key(key, value), &row)?;
            }
            return Ok(());
        }
        row.insert(0, side);
        emit.emit(&[&[JOINED][..], joined].concat(), &row)
    }
}

//! Two inputs as one, for a join.

use std::sync::Arc;

use ebb_scheduler::runtime::{Checkpoint, Input, RecordSink, Split, TaskError};

/// The input that a record comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The first input of the union.
    Left,
    /// The second input of the union.
    Right,
}

impl Side {
    fn byte(self) -> u8 {
        match self {
            Self::Left => 0,
            Self::Right => 1,
        }
    }

    /// Splits a key of a [`Union`], whose first byte is its side, into the side and the original
    /// key.
    ///
    /// # Panics
    /// For an empty key, which no record of a union has.
    pub fn of(marked: &[u8]) -> (Self, &[u8]) {
        let (side, key) = marked.split_first().expect("a union marks every key");
        match side {
            0 => (Self::Left, key),
            _ => (Self::Right, key),
        }
    }
}

/// Two inputs as one. The splits of the left input come first, so the left map tasks come first,
/// and in each group of a reduce the left values come before the right ones. Every key is marked
/// with its side, see [`Side::of`].
pub struct Union {
    left: Arc<dyn Input>,
    right: Arc<dyn Input>,
}

impl Union {
    /// Creates the union of all records of the inputs `left` and `right`.
    pub fn new(left: Arc<dyn Input>, right: Arc<dyn Input>) -> Self {
        Self { left, right }
    }
}

/// The splits are those of both inputs. The payload of a split has its side, and its index and
/// payload in the input of that side:
///
/// ```text
///   side, 1 byte | index in its input, u32 LE | payload of its input
/// ```
impl Input for Union {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let of = |side: Side, splits: Vec<Split>| {
            splits.into_iter().map(move |split| {
                let mut payload = vec![side.byte()];
                payload.extend_from_slice(&split.index.to_le_bytes());
                payload.extend_from_slice(&split.payload);
                Split { payload, ..split }
            })
        };
        let left = of(Side::Left, self.left.splits()?);
        let right = of(Side::Right, self.right.splits()?);
        let numbered = (0..).zip(left.chain(right));
        Ok(numbered
            .map(|(index, split)| Split { index, ..split })
            .collect())
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        self.read_with_checkpoints(split, record, &|| Ok(()))
    }

    fn read_with_checkpoints(
        &self,
        split: &Split,
        record: RecordSink<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), TaskError> {
        let (head, payload) = split.payload.split_at(5);
        let (side, input) = match head[0] {
            0 => (Side::Left, &self.left),
            _ => (Side::Right, &self.right),
        };
        let inner = Split {
            index: u32::from_le_bytes(head[1..].try_into().expect("four bytes")),
            payload: payload.to_vec(),
            ..split.clone()
        };
        let mut marked = vec![side.byte()];
        let mut mark = |key: &[u8], value: &[u8]| {
            marked.truncate(1);
            marked.extend_from_slice(key);
            record(&marked, value)
        };
        input.read_with_checkpoints(&inner, &mut mark, checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scheduler::runtime::VecInput;

    #[test]
    fn the_left_splits_come_first_and_every_record_has_its_side() {
        let left = Arc::new(VecInput::lines("a\nb\nc", 2));
        let right = Arc::new(VecInput::lines("d\ne", 2));
        let union = Union::new(left, right);
        let splits = union.splits().unwrap();
        let indices: Vec<u32> = splits.iter().map(|split| split.index).collect();
        assert_eq!(indices, [0, 1, 2, 3]);
        let mut seen = String::new();
        for split in &splits {
            let mut record = |key: &[u8], value: &[u8]| {
                let (side, key) = Side::of(key);
                let (key, value) = (key.escape_ascii(), value.escape_ascii());
                seen += &format!("{side:?} {key} {value}, ");
                Ok(())
            };
            union.read(split, &mut record).unwrap();
        }
        assert_eq!(seen, "Left 0 a, Left 1 b, Left 2 c, Right 0 d, Right 1 e, ");
    }
}

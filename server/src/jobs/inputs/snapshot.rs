//! A snapshot of a table, or of a range of its keys, as the input of a job.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use ebb_scheduler::runtime::{Input, RecordSink, Split, TaskError};
use ebb_storage::{DetachedTable, Range, Result, SnapshotTable};

use super::SPLIT_BYTES_MIN;
use super::sample::places;

/// With less than this on disk, in bytes, the index of the files says too little
/// about where the data lies: most of it may be in memtables.
const INDEXED_BYTES_MIN: u64 = 4 << 20;

/// The rows of a table as they were when a snapshot was created, key and value.
///
/// What is read of it, all unless [`SnapshotInput::within`] says less, is cut into at most as many splits as asked for, of about as many
/// bytes each:
///
/// - by the index blocks of its SSTables, without reading rows, once these hold
///   a few MiB. What still lies in memtables is not weighed then, so a split may
///   be larger than the others by up to that much.
/// - below that by one scan at submission, which weighs every row: the data is in
///   memory, or little. A table of less than twice [`SPLIT_BYTES_MIN`] is one
///   split.
///
/// Reading leaves no trace in the block cache.
#[derive(Debug, Clone)]
pub struct SnapshotInput {
    rows: Rows,
    keys: Piece,
    splits: usize,
}

/// Where the rows are.
#[derive(Debug, Clone)]
enum Rows {
    Snapshot(SnapshotTable),
    Detached(Arc<DetachedTable>),
}

impl SnapshotInput {
    /// All of `table` in at most `splits` splits, at least one.
    pub fn new(table: SnapshotTable, splits: usize) -> Self {
        Self {
            rows: Rows::Snapshot(table),
            keys: Piece::default(),
            splits: splits.max(1),
        }
    }

    /// The same table for a process that does not have the database: it reads splits
    /// that it is given, and cannot cut any.
    pub fn detached(table: DetachedTable) -> Self {
        Self {
            rows: Rows::Detached(Arc::new(table)),
            keys: Piece::default(),
            splits: 1,
        }
    }

    /// Only the keys from `from` (included) to `to` (left out; `None` is after
    /// every key).
    #[must_use]
    pub fn within(mut self, from: impl Into<Bytes>, to: Option<Bytes>) -> Self {
        self.keys = Piece {
            lower: from.into(),
            upper: to,
        };
        self
    }

    fn scan(&self, piece: Piece) -> Range {
        match &self.rows {
            Rows::Snapshot(table) => table.scan(piece.bounds()),
            Rows::Detached(table) => table.scan(piece.bounds()),
        }
    }

    /// Ascending keys that begin all pieces but the first, and the bytes of all
    /// pieces together.
    fn cut(&self, table: &SnapshotTable) -> Result<(Vec<Bytes>, u64)> {
        let keys = || self.keys.clone().bounds();
        let indexed_bytes = table.approximate_bytes(keys());
        if indexed_bytes >= INDEXED_BYTES_MIN {
            let cuts = table.split_keys(keys(), self.splits);
            return Ok((cuts, indexed_bytes));
        }
        let mut sampler = Sampler::default();
        for row in self.scan(self.keys.clone()) {
            let (key, value) = row?;
            let bytes = (key.len() + value.len()) as u64;
            sampler.add(key, bytes);
        }
        let parts_max = (sampler.total_bytes / SPLIT_BYTES_MIN).max(1);
        let parts = parts_max.min(self.splits as u64);
        Ok((sampler.cut(parts), sampler.total_bytes))
    }
}

impl Input for SnapshotInput {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let Rows::Snapshot(table) = &self.rows else {
            let text = "a table without its database cannot be cut into splits";
            return Err(TaskError::failed(text));
        };
        let (keys, bytes) = self.cut(table).map_err(TaskError::failed)?;
        let parts = keys.len() as u64 + 1;
        let mut lower = self.keys.lower.clone();
        let uppers = keys.into_iter().map(Some).chain([self.keys.upper.clone()]);
        let split = |(index, upper): (u32, Option<Bytes>)| {
            let piece = Piece {
                lower: std::mem::replace(&mut lower, upper.clone().unwrap_or_default()),
                upper,
            };
            Split {
                index,
                bytes: bytes / parts,
                payload: piece.encode(),
                ..Split::default()
            }
        };
        Ok((0..).zip(uppers).map(split).collect())
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        for row in self.scan(Piece::decode(&split.payload)) {
            let (key, value) = row.map_err(TaskError::failed)?;
            record(&key, &value)?;
        }
        Ok(())
    }

    /// The first rows at each of several places, which the index of the files cuts
    /// at even distances. Where that knows too little, since the data lies in
    /// memory, the split is read and rows are taken at even distances.
    fn sample(
        &self,
        split: &Split,
        records: usize,
        record: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        let piece = Piece::decode(&split.payload);
        let places = places(records);
        let cuts = match &self.rows {
            Rows::Snapshot(table) => table.split_keys(piece.clone().bounds(), places),
            Rows::Detached(table) => table.split_keys(piece.clone().bounds(), places),
        };
        if 2 * (cuts.len() + 1) < places {
            return self.sample_evenly(piece, split.bytes / records.max(1) as u64, record);
        }
        let per_place = records.div_ceil(cuts.len() + 1);
        let mut lower = piece.lower;
        for upper in cuts.into_iter().map(Some).chain([piece.upper]) {
            let place = Piece {
                lower: std::mem::replace(&mut lower, upper.clone().unwrap_or_default()),
                upper,
            };
            for row in self.scan(place).take(per_place) {
                let (key, value) = row.map_err(TaskError::failed)?;
                record(&key, &value)?;
            }
        }
        Ok(())
    }
}

impl SnapshotInput {
    /// The rows of a piece after every `distance_bytes`.
    fn sample_evenly(
        &self,
        piece: Piece,
        distance_bytes: u64,
        record: RecordSink<'_>,
    ) -> Result<(), TaskError> {
        let (mut bytes, mut next) = (0, 0);
        for row in self.scan(piece) {
            let (key, value) = row.map_err(TaskError::failed)?;
            if bytes >= next {
                record(&key, &value)?;
                next += distance_bytes;
            }
            bytes += (key.len() + value.len()) as u64;
        }
        Ok(())
    }
}

/// A range of keys, as it stands in a split's payload:
///
/// ```text
///   1 if there is an upper end, else 0 | length of lower, u32 LE | lower | upper
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Piece {
    /// Included.
    lower: Bytes,
    /// Excluded; `None` is after every key.
    upper: Option<Bytes>,
}

impl Piece {
    fn bounds(self) -> (Bound<Bytes>, Bound<Bytes>) {
        let upper = self.upper.map_or(Bound::Unbounded, Bound::Excluded);
        (Bound::Included(self.lower), upper)
    }

    fn encode(&self) -> Vec<u8> {
        let mut payload = vec![u8::from(self.upper.is_some())];
        payload.extend_from_slice(&(self.lower.len() as u32).to_le_bytes());
        payload.extend_from_slice(&self.lower);
        payload.extend_from_slice(self.upper.as_deref().unwrap_or_default());
        payload
    }

    /// # Panics
    /// For bytes that [`Piece::encode`] did not give.
    fn decode(payload: &[u8]) -> Self {
        let (head, keys) = payload.split_at(5);
        let length = u32::from_le_bytes(head[1..].try_into().expect("four bytes"));
        let (lower, upper) = keys.split_at(length as usize);
        Self {
            lower: Bytes::copy_from_slice(lower),
            upper: (head[0] == 1).then(|| Bytes::copy_from_slice(upper)),
        }
    }
}

/// Keys at even distances in a stream of rows whose length is not known before
/// its end: when there are too many, every other one goes and the distance
/// doubles.
#[derive(Debug)]
struct Sampler {
    total_bytes: u64,
    distance_bytes: u64,
    /// Keys, and the bytes of all rows before them.
    samples: Vec<(Bytes, u64)>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            total_bytes: 0,
            distance_bytes: 4 << 10,
            samples: Vec::new(),
        }
    }
}

impl Sampler {
    const SAMPLES_MAX: usize = 4096;

    fn add(&mut self, key: Bytes, bytes: u64) {
        let next = self.samples.last();
        let next = next.map_or(0, |(_, before)| before + self.distance_bytes);
        if self.total_bytes >= next {
            self.samples.push((key, self.total_bytes));
        }
        if self.samples.len() == Self::SAMPLES_MAX {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.distance_bytes *= 2;
        }
        self.total_bytes += bytes;
    }

    /// Keys that cut the stream into at most `parts` pieces, ascending.
    fn cut(&self, parts: u64) -> Vec<Bytes> {
        let mut keys: Vec<Bytes> = Vec::new();
        for part in 1..parts {
            let target = self.total_bytes * part / parts;
            let at = self.samples.partition_point(|&(_, before)| before < target);
            if let Some((key, _)) = self.samples.get(at)
                && keys.last() != Some(key)
            {
                keys.push(key.clone());
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_storage::{Db, Maintenance, Options, Table, TableOptions};

    struct Fixture {
        _dir: tempfile::TempDir,
        db: Db,
        table: Table,
    }

    /// A table of `rows` rows of about `value_bytes` that LZ4 cannot shrink much.
    fn fixture(rows: u64, value_bytes: usize) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            maintenance: Maintenance::Manual,
            ..Options::default()
        };
        let db = Db::open(dir.path(), options).unwrap();
        let table = db.keyspace("k").unwrap();
        let table = table.table("t", TableOptions::default()).unwrap();
        let mut state = 1_u64;
        for row in 0..rows {
            let mut byte = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                (state >> 56) as u8
            };
            let value: Vec<u8> = (0..value_bytes).map(|_| byte()).collect();
            table.put(&row.to_be_bytes(), &value).unwrap();
        }
        let fixture = Fixture {
            _dir: dir,
            db,
            table,
        };
        fixture.keyspace().create_snapshot("s").unwrap();
        fixture
    }

    impl Fixture {
        fn keyspace(&self) -> ebb_storage::Keyspace {
            self.db.existing_keyspace("k").unwrap()
        }

        fn input(&self, splits: usize) -> SnapshotInput {
            let snapshot = self.keyspace().snapshot("s").unwrap();
            SnapshotInput::new(snapshot.table("t").unwrap(), splits)
        }
    }

    /// The keys of each split, and its bytes.
    fn read(input: &SnapshotInput) -> Vec<(Vec<u64>, u64)> {
        let splits = input.splits().unwrap();
        let read = |split: &Split| {
            let (mut keys, mut bytes) = (Vec::new(), 0);
            let mut record = |key: &[u8], value: &[u8]| {
                keys.push(u64::from_be_bytes(key.try_into().unwrap()));
                bytes += (key.len() + value.len()) as u64;
                Ok(())
            };
            input.read(split, &mut record).unwrap();
            (keys, bytes)
        };
        splits.iter().map(read).collect()
    }

    fn assert_even(input: &SnapshotInput, splits: usize, rows: u64) {
        let parts = read(input);
        assert_eq!(parts.len(), splits);
        let total: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
        let even = total / splits as u64;
        for (_, bytes) in &parts {
            assert!(bytes.abs_diff(even) < even / 8, "{bytes} of {total}");
        }
        let keys = parts.into_iter().flat_map(|(keys, _)| keys);
        assert!(keys.eq(0..rows), "every row once and in order");
    }

    #[test]
    fn a_table_that_lies_in_memory_is_cut_evenly() {
        let fixture = fixture(2000, 1000);
        assert_even(&fixture.input(4), 4, 2000);
        assert_even(&fixture.input(1), 1, 2000);
    }

    #[test]
    fn a_table_that_lies_on_disk_is_cut_evenly_and_read_past_the_cache() {
        let fixture = fixture(6000, 1000);
        fixture.db.flush().unwrap();
        assert_even(&fixture.input(5), 5, 6000);
        assert_eq!(fixture.db.stats().cache_bytes, 0);
    }

    #[test]
    fn a_range_of_keys_is_cut_evenly_and_nothing_else_is_read() {
        for flushed in [false, true] {
            let fixture = fixture(9000, 1000);
            if flushed {
                fixture.db.flush().unwrap();
            }
            let key = |row: u64| Bytes::copy_from_slice(&row.to_be_bytes());
            let within = |from, to: Option<u64>| {
                let input = fixture.input(4).within(key(from), to.map(key));
                let parts = read(&input);
                assert_eq!(parts.len(), 4);
                let total: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
                for (_, bytes) in &parts {
                    assert!(bytes.abs_diff(total / 4) < total / 32, "{bytes} of {total}");
                }
                let keys = parts.into_iter().flat_map(|(keys, _)| keys);
                assert!(keys.eq(from..to.unwrap_or(9000)));
            };
            within(1000, Some(7000));
            within(0, Some(6000));
            within(2500, None);
            let nothing = fixture.input(4).within(key(9000), None);
            assert_eq!(read(&nothing), [(vec![], 0)]);
        }
    }

    #[test]
    fn a_small_or_empty_table_is_one_split() {
        assert_even(&fixture(10, 10).input(8), 1, 10);
        assert_eq!(read(&fixture(0, 0).input(8)), [(vec![], 0)]);
    }

    #[test]
    fn a_split_gives_the_same_rows_after_all_of_them_were_overwritten() {
        let fixture = fixture(2000, 200);
        let input = fixture.input(3);
        let before = read(&input);
        for row in 0..2000_u64 {
            fixture.table.delete(&row.to_be_bytes()).unwrap();
        }
        fixture.db.flush().unwrap();
        fixture.db.compact().unwrap();
        assert_eq!(read(&input), before);
    }

    /// The keys of the splits; at the first of them snapshot and rows are deleted.
    fn read_while_it_is_deleted(
        fixture: &Fixture,
        input: &SnapshotInput,
        splits: &[Split],
    ) -> Vec<u64> {
        let mut keys = Vec::new();
        let mut record = |key: &[u8], _: &[u8]| {
            if keys.is_empty() {
                fixture.keyspace().delete_snapshot("s").unwrap();
                fixture.table.truncate().unwrap();
                fixture.db.flush().unwrap();
                fixture.db.compact().unwrap();
            }
            keys.push(u64::from_be_bytes(key.try_into().unwrap()));
            Ok(())
        };
        for split in splits {
            input.read(split, &mut record).unwrap();
        }
        keys
    }

    #[test]
    fn a_snapshot_that_is_deleted_while_it_is_read_keeps_its_data_till_then() {
        let fixture = fixture(3000, 500);
        let input = fixture.input(3);
        let splits = input.splits().unwrap();
        let before = read(&input);
        let keys = read_while_it_is_deleted(&fixture, &input, &splits);
        assert!(keys.iter().copied().eq(0..3000));
        assert_eq!(read(&input), before);
        assert!(fixture.keyspace().snapshot("s").is_err());
    }

    #[test]
    fn who_has_no_database_reads_the_same_splits_though_the_snapshot_is_deleted() {
        let fixture = fixture(3000, 500);
        let input = fixture.input(3);
        let splits = input.splits().unwrap();
        let snapshot = fixture.keyspace().snapshot("s").unwrap();
        let pin = snapshot.table("t").unwrap().pin().unwrap();
        let options = ebb_storage::DetachedOptions::default();
        let table = DetachedTable::open(pin.description(), options).unwrap();
        let detached = SnapshotInput::detached(table);
        let sampled = |input: &SnapshotInput| {
            let mut keys = Vec::new();
            let mut record = |key: &[u8], _: &[u8]| {
                keys.push(key.to_vec());
                Ok(())
            };
            input.sample(&splits[1], 100, &mut record).unwrap();
            keys
        };
        let sample = sampled(&detached);
        assert!(sample.len() >= 100 && sample == sampled(&input));
        drop((snapshot, input));
        let keys = read_while_it_is_deleted(&fixture, &detached, &splits);
        assert!(keys.iter().copied().eq(0..3000));
        let refused = detached.splits().unwrap_err().to_string();
        assert!(refused.contains("cannot be cut"), "{refused}");
    }

    #[test]
    fn an_error_of_the_record_function_ends_the_reading() {
        let fixture = fixture(10, 10);
        let input = fixture.input(1);
        let mut seen = 0;
        let result = input.read(&input.splits().unwrap()[0], &mut |_, _| {
            seen += 1;
            Err(TaskError::Cancelled)
        });
        assert!(matches!(result, Err(TaskError::Cancelled)));
        assert_eq!(seen, 1);
    }

    #[test]
    fn samples_stay_bounded_and_even_in_a_long_stream() {
        let mut sampler = Sampler::default();
        for n in 0..1_000_000_u32 {
            sampler.add(Bytes::copy_from_slice(&n.to_be_bytes()), 100);
        }
        assert!(sampler.samples.len() < Sampler::SAMPLES_MAX);
        let keys: Vec<u32> = sampler
            .cut(4)
            .iter()
            .map(|key| u32::from_be_bytes(key[..].try_into().unwrap()))
            .collect();
        for (key, expected) in keys.into_iter().zip([250_000, 500_000, 750_000]) {
            assert!(key.abs_diff(expected) < 1000, "{key}");
        }
    }

    #[test]
    fn a_piece_reads_back_from_its_payload() {
        for (lower, upper) in [("", None), ("a", Some("b")), ("", Some("")), ("abc", None)] {
            let piece = Piece {
                lower: Bytes::from(lower),
                upper: upper.map(Bytes::from),
            };
            assert_eq!(Piece::decode(&piece.encode()), piece);
        }
    }
}

//! Rows in one order over all reduces.

use super::*;
use ebb_test_support::seed::for_seeds;

/// A mapper that copies records.
fn identity(key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
    emit.emit(key, value)
}

/// An output that stores, for each partition, the rows of each attempt that finished it.
#[derive(Clone, Default)]
pub(super) struct Partitions(pub Arc<Mutex<BTreeMap<u32, Finished>>>);

/// The rows of each attempt that finished a partition.
type Finished = Vec<Vec<Row>>;

impl Output for Partitions {
    fn open(&self, partition: u32, _attempt: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        Ok(Box::new(PartitionWriter {
            partitions: self.clone(),
            partition,
            rows: Vec::new(),
        }))
    }

    fn commit(&self) -> Result<(), TaskError> {
        Ok(())
    }

    fn abort(&self) {}
}

struct PartitionWriter {
    partitions: Partitions,
    partition: u32,
    rows: Vec<Row>,
}

impl OutputWriter for PartitionWriter {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError> {
        self.rows.push((key.to_vec(), value.to_vec()));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        let mut all = self.partitions.0.lock().unwrap();
        all.entry(self.partition).or_default().push(self.rows);
        Ok(())
    }
}

/// Sorts `records` and returns the rows of each reduce.
fn sorted(records: Vec<Row>, splits: usize, reduces: u32) -> Vec<Vec<Row>> {
    let runtime = TestRuntime::start(RuntimeOptions {
        task_memory_bytes: 64 << 10,
        management: Management::Unmanaged,
        ..options()
    });
    let partitions = Partitions::default();
    let input = Arc::new(VecInput::new(records, splits));
    let output = Arc::new(partitions.clone());
    let spec = JobSpec::new("sort", input, Arc::new(identity), output)
        .reducer(Arc::new(each), reduces)
        .globally_sorted();
    runtime.succeed(spec);
    let finished = std::mem::take(&mut *partitions.0.lock().unwrap());
    assert_eq!(finished.len(), reduces as usize);
    let rows: Vec<Vec<Row>> = finished.into_values().flatten().collect();
    assert_eq!(rows.len(), reduces as usize, "one attempt finishes each");
    rows
}

/// Draws a key of one of four kinds: random, one of few, with a long common prefix, or a short one
/// of zeros.
fn drawn_key(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut key = match rng.random_range(0..4) {
        0 => rng.random::<[u8; 10]>().to_vec(),
        1 => vec![b'a' + rng.random_range(0..3)],
        2 => b"a prefix that all of these keys have: ".to_vec(),
        _ => vec![0; rng.random_range(0..20)],
    };
    key.extend((0..rng.random_range(0..3)).map(|_| rng.random::<u8>()));
    key
}

#[test]
fn the_reduces_one_after_the_other_are_the_sorted_input() {
    let test = "the_reduces_one_after_the_other_are_the_sorted_input";
    for_seeds(test, 12, |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut records: Vec<Row> = (0..rng.random_range(0..3000))
            .map(|n: u32| (drawn_key(&mut rng), n.to_be_bytes().to_vec()))
            .collect();
        if rng.random_bool(0.3) {
            records.sort();
        }
        let (splits, reduces) = (rng.random_range(1..9), rng.random_range(1..7));
        let rows: Vec<Row> = sorted(records.clone(), splits, reduces).concat();
        // The sort is stable: equal keys keep the order of the input.
        records.sort_by(|(a, _), (b, _)| a.cmp(b));
        assert!(rows == records, "{} rows", rows.len());
    });
}

#[test]
fn ranges_are_even_also_for_an_ordered_input() {
    let records: Vec<Row> = (0..40_000_u32)
        .map(|n| (n.to_be_bytes().to_vec(), Vec::new()))
        .collect();
    for splits in [1, 50] {
        for rows in sorted(records.clone(), splits, 4) {
            assert!((8_000..12_000).contains(&rows.len()), "{}", rows.len());
        }
    }
}

#[test]
fn a_very_frequent_key_leaves_the_other_reduces_their_part() {
    let key = |n: u32| if n.is_multiple_of(10) { n } else { 17_000 };
    let records: Vec<Row> = (0..30_000_u32)
        .map(|n| (key(n).to_be_bytes().to_vec(), Vec::new()))
        .collect();
    let rows = sorted(records, 6, 4);
    let lengths = rows.iter().map(Vec::len);
    let others: Vec<usize> = lengths.filter(|&n| n < 27_000).collect();
    assert_eq!(others.len(), 3);
    assert!(
        others.iter().all(|n| (400..=1700).contains(n)),
        "{others:?}"
    );
}

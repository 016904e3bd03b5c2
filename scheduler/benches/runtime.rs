//! Costs of the runtime itself: of a job with nothing to do, and of the shuffle.
//!
//! ```sh
//! cargo bench -p ebb-scheduler --bench runtime [-- FILTER]
//! ```
//!
//! Jobs run unmanaged on two threads unless named otherwise, with spills in the system's
//! temporary directory. Elapsed time is the time that a user waits. CPU time of the
//! process measures the work independently of other processes on the machine. The
//! benchmark prints the smallest and the median of the rounds for both.

use ebb_scheduler::runtime::{
    Emit, Input, JobReport, JobSpec, Management, Outcome, Output, OutputWriter, RecordSink,
    Runtime, RuntimeOptions, Split, TaskError, Values,
};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

fn seconds(clock: ClockId) -> f64 {
    let t = clock_gettime(clock);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// An output that discards all records.
struct DiscardingOutput;

impl Output for DiscardingOutput {
    fn open(&self, _: u32, _: u32) -> Result<Box<dyn OutputWriter>, TaskError> {
        Ok(Box::new(Self))
    }

    fn commit(&self) -> Result<(), TaskError> {
        Ok(())
    }

    fn abort(&self) {}
}

impl OutputWriter for DiscardingOutput {
    fn write(&mut self, _: &[u8], _: &[u8]) -> Result<(), TaskError> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), TaskError> {
        Ok(())
    }
}

/// An input of pseudorandom records. `record` gets a random number and a buffer; it makes a
/// key and a value from the number, appends them to the buffer, and returns the key's
/// length.
struct RandomInput {
    splits: u32,
    records_per_split: u64,
    record: fn(u64, &mut Vec<u8>) -> usize,
}

impl RandomInput {
    fn bytes(&self) -> u64 {
        let mut bytes = Vec::new();
        (self.record)(1, &mut bytes);
        u64::from(self.splits) * self.records_per_split * bytes.len() as u64
    }
}

impl Input for RandomInput {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let split = |index| Split {
            index,
            ..Split::default()
        };
        Ok((0..self.splits).map(split).collect())
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        let mut state = u64::from(split.index) << 32 | 1;
        let mut bytes = Vec::new();
        for _ in 0..self.records_per_split {
            // xorshift64*: its cost is small beside the work that is measured.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            bytes.clear();
            let key_len = (self.record)(state.wrapping_mul(0x2545_F491_4F6C_DD1D), &mut bytes);
            let (key, value) = bytes.split_at(key_len);
            record(key, value)?;
        }
        Ok(())
    }
}

/// Appends a record of 100 bytes, and returns the length of its key: ten random bytes, as
/// in the Sort Benchmark.
fn sort_record(random: u64, bytes: &mut Vec<u8>) -> usize {
    bytes.extend_from_slice(&random.to_be_bytes());
    bytes.extend_from_slice(&random.to_be_bytes()[..2]);
    for n in 0..11 {
        let word = random.rotate_left(n) & 0x0F0F_0F0F_0F0F_0F0F;
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    10
}

/// Appends a record whose key is a word and whose value is the count 1, and returns the
/// length of the key. A few words are much more frequent than the others.
fn word_record(random: u64, bytes: &mut Vec<u8>) -> usize {
    // The smallest of three draws from ranges of different size: a skew like that of
    // words.
    let rank = [random % 40_000, random >> 20 & 0x3FFF, random >> 40 & 0xFFF];
    let rank = rank.into_iter().fold(u64::MAX, u64::min);
    bytes.extend_from_slice(format!("word{rank}").as_bytes());
    let key_len = bytes.len();
    bytes.extend_from_slice(&1_u64.to_le_bytes());
    key_len
}

fn identity(key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
    emit.emit(key, value)
}

fn each(key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit) -> Result<(), TaskError> {
    while let Some(value) = values.next_value()? {
        emit.emit(key, value)?;
    }
    Ok(())
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn sum(key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit) -> Result<(), TaskError> {
    let mut sum = 0;
    while let Some(value) = values.next_value()? {
        sum += number(value);
    }
    emit.emit(key, &sum.to_le_bytes())
}

fn add(into: &mut [u8], value: &[u8]) -> bool {
    into.copy_from_slice(&(number(into) + number(value)).to_le_bytes());
    true
}

fn measure(name: &str, rounds: usize, options: &RuntimeOptions, spec: impl Fn() -> JobSpec) {
    let (mut elapsed_ms, mut cpu_ms) = (Vec::new(), Vec::new());
    let mut last: Option<JobReport> = None;
    for _ in 0..rounds {
        let runtime = Runtime::start(options.clone()).expect("the options are right");
        let before = [ClockId::Monotonic, ClockId::ProcessCPUTime].map(seconds);
        let report = runtime.submit(spec()).expect("the job is right").wait();
        elapsed_ms.push((seconds(ClockId::Monotonic) - before[0]) * 1e3);
        cpu_ms.push((seconds(ClockId::ProcessCPUTime) - before[1]) * 1e3);
        assert_eq!(report.outcome, Outcome::Succeeded);
        last = Some(report);
    }
    elapsed_ms.sort_by(f64::total_cmp);
    cpu_ms.sort_by(f64::total_cmp);
    let counters = last.expect("a round").counters;
    println!(
        "{name:<34} elapsed {:>8.1} ms (median {:>8.1})  CPU {:>8.1} ms (median {:>8.1})  \
         {} spills, {} MiB spilled, shuffle {:.0} ms of CPU",
        elapsed_ms[0],
        elapsed_ms[rounds / 2],
        cpu_ms[0],
        cpu_ms[rounds / 2],
        counters.spills,
        counters.spilled_bytes >> 20,
        counters.shuffle_cpu_ns as f64 / 1e6,
    );
}

fn main() {
    // `cargo bench` adds the option `--bench`, which is no filter.
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let selected = |name: &str| {
        filter
            .as_ref()
            .is_none_or(|filter| name.contains(filter.as_str()))
    };
    let unmanaged = RuntimeOptions {
        management: Management::Unmanaged,
        ..RuntimeOptions::new(2)
    };
    let managed = RuntimeOptions::new(2);
    let job = |input: fn() -> RandomInput| {
        move || {
            JobSpec::new(
                "bench",
                Arc::new(input()),
                Arc::new(identity),
                Arc::new(DiscardingOutput),
            )
        }
    };

    // Without records a job costs what its tasks cost.
    let nothing = job(|| RandomInput {
        splits: 1000,
        records_per_split: 0,
        record: sort_record,
    });
    for (name, options) in [
        ("empty, managed", &managed),
        ("empty, unmanaged", &unmanaged),
    ] {
        if selected(name) {
            measure(name, 15, options, || nothing().reducer(Arc::new(each), 1));
        }
    }

    // 25 MB a split: less than the largest task memory below, and more than the other two.
    let records = || RandomInput {
        splits: 8,
        records_per_split: 250_000,
        record: sort_record,
    };
    let sorting = job(records);
    for task_memory_bytes in [4 << 20, 16 << 20, 64 << 20] {
        let name = format!("sort, {} MiB a task", task_memory_bytes >> 20);
        if selected(&name) {
            let options = RuntimeOptions {
                task_memory_bytes,
                ..unmanaged.clone()
            };
            // Fewer rounds than for the empty job, because each sorts 200 MB.
            let spec = || sorting().reducer(Arc::new(each), 2).globally_sorted();
            measure(&name, 5, &options, spec);
            println!("  of {} MB", records().bytes() / 1_000_000);
        }
    }

    let words = job(|| RandomInput {
        splits: 8,
        records_per_split: 1_000_000,
        record: word_record,
    });
    let reduced = || words().reducer(Arc::new(sum), 2);
    if selected("8 M words, combined") {
        let spec = || reduced().combiner(Arc::new(sum));
        measure("8 M words, combined", 3, &unmanaged, spec);
    }
    if selected("8 M words, combined in place") {
        let spec = || reduced().in_place_combiner(Arc::new(add));
        measure("8 M words, combined in place", 3, &unmanaged, spec);
    }
}

//! The shuffle stays within its memory, whether one record maps to a large
//! output or one group is large. This test is a program of its own, because its
//! allocator counts the whole process.

use ebb_scheduler::runtime::{
    Emit, Input, JobSpec, Management, Outcome, RecordSink, Runtime, RuntimeOptions, Split,
    TaskError, Values, VecOutput,
};
use peak_alloc::PeakAlloc;
use std::sync::Arc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const SPLITS: u32 = 4;
const RECORDS_PER_SPLIT: u64 = 32 << 10;
const VALUE_BYTES: usize = 1 << 10;

/// An input with one record in each split: the split's number.
struct OneRecordPerSplit;

impl Input for OneRecordPerSplit {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let split = |index| Split {
            index,
            ..Split::default()
        };
        Ok((0..SPLITS).map(split).collect())
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        record(&split.index.to_be_bytes(), b"")
    }
}

/// Maps a record to 32 MiB that hardly compress, all under one key.
fn burst(seed: &[u8], _: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
    let mut state = u64::from(seed[3]) + 1;
    let mut value = [0_u8; VALUE_BYTES];
    for _ in 0..RECORDS_PER_SPLIT {
        for word in value.chunks_exact_mut(8) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            word.copy_from_slice(&state.to_be_bytes());
        }
        emit.emit(b"the one key", &value)?;
    }
    Ok(())
}

fn count(key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit) -> Result<(), TaskError> {
    let mut bytes = 0;
    while let Some(value) = values.next_value()? {
        bytes += value.len() as u64;
    }
    emit.emit(key, &bytes.to_be_bytes())
}

#[test]
fn a_group_larger_than_the_task_memory_is_reduced_within_it() {
    // The first size leaves little memory for a task, so it makes many runs,
    // and the list of runs takes memory itself.
    for (task_memory_bytes, others_bytes) in [(64 << 10, 1 << 20), (1 << 20, 1 << 19)] {
        reduce_one_group(task_memory_bytes, others_bytes);
    }
}

/// Reduces one group of 128 MiB, and checks that the peak of the memory is below that of two tasks
/// plus `others_bytes`, the limit for everything except records.
fn reduce_one_group(task_memory_bytes: usize, others_bytes: usize) {
    let spills = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(RuntimeOptions {
        task_memory_bytes,
        spill_dir: spills.path().to_path_buf(),
        management: Management::Unmanaged,
        speculation: false,
        ..RuntimeOptions::new(2)
    })
    .unwrap();
    let output = VecOutput::new();
    MEMORY.reset_peak_usage();
    let before_bytes = MEMORY.current_usage();
    let spec = JobSpec::new("burst", Arc::new(OneRecordPerSplit), Arc::new(burst), {
        Arc::new(output.clone())
    });
    let spec = spec.reducer(Arc::new(count), 1);
    let report = runtime.submit(spec).unwrap().wait();
    assert_eq!(report.outcome, Outcome::Succeeded);
    let bytes = u64::from(SPLITS) * RECORDS_PER_SPLIT * VALUE_BYTES as u64;
    let rows = output.rows().unwrap();
    assert_eq!(
        rows,
        [(b"the one key".to_vec(), bytes.to_be_bytes().to_vec())]
    );

    let used_bytes = MEMORY.peak_usage() - before_bytes;
    println!(
        "{used_bytes} bytes at most, {} spills",
        report.counters.spills
    );
    assert!(report.counters.spills > u64::from(SPLITS) * 30);
    // Two tasks at a time.
    assert!(
        used_bytes < 2 * task_memory_bytes + others_bytes,
        "{used_bytes}"
    );
}

//! Claims about the runner as a whole.

mod chains;
mod failures;
mod global_sort;
mod hanging;
mod journal;
mod leases;
mod management;
mod many_jobs;
mod memory;
mod processes;
mod results;

use super::pacing::attempt::Attempt;
use super::pacing::attempt_state::AttemptState;
use super::pacing::pacer::Pacer;
use super::pacing::reads::ReadBudget;
use super::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct WordCount;

impl Mapper for WordCount {
    fn map(&self, _key: &[u8], text: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        for word in text
            .split(|byte| *byte == b' ')
            .filter(|word| !word.is_empty())
        {
            emit.emit(word, b"1")?;
        }
        Ok(())
    }
}

struct Sum;

impl Reducer for Sum {
    fn reduce(
        &self,
        key: &[u8],
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError> {
        let mut sum = 0_u64;
        while let Some(value) = values.next_value()? {
            let text = std::str::from_utf8(value).map_err(TaskError::failed)?;
            sum += text.parse::<u64>().map_err(TaskError::failed)?;
        }
        emit.emit(key, sum.to_string().as_bytes())
    }
}

/// Lines of words, frequent and rare, some empty; about `bytes` long.
fn generated_text(seed: u64, bytes: usize) -> String {
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut text = String::new();
    while text.len() < bytes {
        for _ in 0..rng.random_range(0..12) {
            let rare = rng.random_bool(0.3);
            let word: u32 = rng.random_range(0..if rare { 20_000 } else { 40 });
            text += &format!("w{word} ");
        }
        text.push('\n');
    }
    text
}

fn count_independently(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_owned()).or_insert(0) += 1;
    }
    counts
}

fn counts(output: &VecOutput) -> BTreeMap<String, u64> {
    let rows = output.rows().expect("the job committed");
    let n = rows.len();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let counts: BTreeMap<_, _> = rows
        .into_iter()
        .map(|(k, v)| (text(k), text(v).parse().unwrap()))
        .collect();
    assert_eq!(counts.len(), n, "every key is reduced once");
    counts
}

fn options(spill_dir: &Path) -> RuntimeOptions {
    RuntimeOptions {
        spill_dir: spill_dir.to_path_buf(),
        ..RuntimeOptions::new(2)
    }
}

fn word_count(text: &str, maps: usize, reduces: u32, output: &VecOutput) -> JobSpec {
    let input = Arc::new(VecInput::lines(text, maps));
    JobSpec::new(
        "word count",
        input,
        Arc::new(WordCount),
        Arc::new(output.clone()),
    )
    .reducer(Arc::new(Sum), reduces)
}

/// Computes until it is cancelled.
fn spin(_: &[u8], _: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
    loop {
        for n in 0..1000_u64 {
            std::hint::black_box(n.wrapping_mul(n));
        }
        emit.checkpoint()?;
    }
}

fn spinning_job(tasks: usize, output: &VecOutput) -> JobSpec {
    let records = (0..tasks).map(|n| (vec![n as u8], Vec::new())).collect();
    let input = Arc::new(VecInput::new(records, tasks));
    JobSpec::new("spin", input, Arc::new(spin), Arc::new(output.clone()))
}

/// Runs `body` in an attempt that is never made to wait.
pub(super) fn with_attempt<T>(body: impl FnOnce(&Attempt<'_>) -> T) -> T {
    let reads = Arc::new(ReadBudget::unlimited());
    let pacer = Pacer::new(Arc::new(ManualClock::default()), false, None, reads);
    let attempt_state = AttemptState::default();
    body(&Attempt::start(&pacer, &attempt_state, &|| true).expect("nothing is cancelled"))
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

/// Polls until `done`, for at most ten seconds. A test's own waiting: there is
/// no event to wait for when watching progress.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

#[test]
fn runtime_and_handles_can_be_shared_between_threads() {
    fn shareable<T: Send + Sync>() {}
    shareable::<Runtime>();
    shareable::<JobHandle>();
}

//! An example of a job that is not built in: the number of bytes that each user has stored, over a
//! snapshot.
//!
//! ```sh
//! cargo run --release -p ebb-jobs --example custom_job
//! ```

use std::sync::Arc;

use ebb_jobs::{SnapshotInput, TableOutput};
use ebb_scheduler::runtime::{Emit, JobSpec, Runtime, RuntimeOptions, TaskError, Values};
use ebb_storage::{Db, Options, TableOptions};

/// Emits, for a row with the key `USER/FILE`, the user as the key, and the length of the value in
/// bytes, in decimal digits, as the value.
fn map(key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
    let user = key.split(|&byte| byte == b'/').next().unwrap_or(key);
    emit.emit(user, value.len().to_string().as_bytes())
}

/// Emits the sum of the values of a key. The values and the sum are written in decimal digits. This
/// is both the combiner and the reducer.
fn sum(key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit) -> Result<(), TaskError> {
    let mut total = 0_u64;
    while let Some(value) = values.next_value()? {
        let digits = std::str::from_utf8(value).map_err(TaskError::failed)?;
        total += digits.parse::<u64>().map_err(TaskError::failed)?;
    }
    emit.emit(key, total.to_string().as_bytes())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open(directory.path(), Options::default())?;
    let app = db.keyspace("app")?;
    let files = app.table("files", TableOptions::default())?;
    for n in 0..10_000_usize {
        let user = ["ada", "grace", "alan"][n % 3];
        files.put(format!("{user}/{n:05}").as_bytes(), &vec![b'x'; n % 500])?;
    }
    app.create_snapshot("monday")?;
    // Written after the snapshot: the job does not see it.
    files.put(b"ada/later", b"not counted")?;

    let input = SnapshotInput::new(app.snapshot("monday")?.table("files")?, 8);
    let spill_dir = directory.path().join("spill");
    let output = TableOutput::new(db.clone(), app.clone(), "usage", &spill_dir)?;
    let job = JobSpec::new("usage", Arc::new(input), Arc::new(map), Arc::new(output))
        .combiner(Arc::new(sum))
        .reducer(Arc::new(sum), 2)
        .goal_s(30.0);
    let runtime = Runtime::start(RuntimeOptions {
        spill_dir,
        ..RuntimeOptions::new(2)
    })?;
    let report = runtime.submit(job)?.wait();

    println!(
        "{:?} in {:.3} s",
        report.outcome,
        report.finished_s - report.submitted_s
    );
    for row in app.existing_table("usage")?.range::<&[u8], _>(..) {
        let (user, bytes) = row?;
        println!("{}\t{}", user.escape_ascii(), bytes.escape_ascii());
    }
    Ok(())
}

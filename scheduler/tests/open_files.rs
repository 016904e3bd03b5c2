//! A job succeeds although the process can open only a few more files. This test is a program of its own,
//! because the limit is that of the whole process.

use ebb_scheduler::runtime::{
    Emit, JobSpec, Management, Outcome, Runtime, RuntimeOptions, TaskError, Values, VecInput,
    VecOutput,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Each map leaves a run for the only reduce, which would open 64 of them at once.
const MAPS: u32 = 150;

/// The number of files that the process may still open.
const FREE_FILES: usize = 12;

fn under_one_key(number: &[u8], _: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
    emit.emit(b"key", number)
}

fn each_value(_: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit) -> Result<(), TaskError> {
    while let Some(number) = values.next_value()? {
        emit.emit(number, b"")?;
    }
    Ok(())
}

/// Lowers the limit of open files so that the process can open `free` more.
fn limit_files(free: usize) {
    let files: Vec<_> = (0..free).map(|_| tempfile::tempfile().unwrap()).collect();
    let last = files.iter().map(AsRawFd::as_raw_fd).max().unwrap();
    let limit = Rlimit {
        current: Some(u64::try_from(last).unwrap() + 1),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// Regression: the reduce failed with "Too many open files" at each of its attempts, and with it the job.
#[test]
fn a_job_whose_reduce_finds_few_file_descriptors_merges_fewer_runs_at_once() {
    let spills = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(RuntimeOptions {
        spill_dir: spills.path().to_path_buf(),
        management: Management::Unmanaged,
        speculation: false,
        ..RuntimeOptions::new(1)
    })
    .unwrap();
    let numbers = (0..MAPS).map(|number| number.to_be_bytes().to_vec());
    let records: Vec<_> = numbers.clone().map(|number| (number, Vec::new())).collect();
    let output = VecOutput::new();
    let spec = JobSpec::new(
        "merge",
        Arc::new(VecInput::new(records, MAPS as usize)),
        Arc::new(under_one_key),
        Arc::new(output.clone()),
    );
    let spec = spec.reducer(Arc::new(each_value), 1);
    limit_files(FREE_FILES);
    let report = runtime.submit(spec).unwrap().wait();
    assert_eq!(report.outcome, Outcome::Succeeded);
    let rows = output.rows().unwrap();
    // The values of a key come in the order of the maps, however many passes the merge takes.
    assert!(rows.into_iter().map(|(number, _)| number).eq(numbers));
}

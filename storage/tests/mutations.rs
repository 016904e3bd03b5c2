//! Would the tests notice? For each mutation of the engine one of them is run in
//! a process of its own with that mutation on, and must fail; without any it must
//! pass.
//!
//! ```sh
//! cargo test -p ebb-storage --features mutations --test mutations every_mutation -- --nocapture
//! EBB_MUTATION=DropTombstones cargo test -p ebb-storage --features mutations
//! ```
//!
//! The first prints the table, the second runs everything against one mutation.

#![allow(
    clippy::duplicate_mod,
    reason = "the other test files are taken in whole, each with its helpers"
)]

#[path = "crash.rs"]
mod crash;
#[path = "model.rs"]
mod model;
#[path = "transactions.rs"]
mod transactions;
#[path = "traps.rs"]
mod traps;
#[path = "versions.rs"]
mod versions;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use ebb_storage::mutation::Mutation::{self, *};

/// Which test is to notice which mutation.
const KILLERS: &[(Mutation, &str)] = &[
    (VisibleAtEntry, VIEWS),
    (PublishOutOfOrder, VIEWS),
    (ReplayHalfABatch, SYNCED),
    (FlushDoesNotWait, VIEWS),
    (
        FlushWithoutWalSync,
        "traps::wal_synced_before_install_a_batch_over_two_tables_does_not_tear",
    ),
    (
        MergeWithoutWalSync,
        "traps::sequence_reuse_a_bookmark_is_never_more_durable_than_the_writes_below_it",
    ),
    (
        AcknowledgeWithoutWrite,
        "crash::what_was_acknowledged_survives_a_crash_of_the_process",
    ),
    (
        AcknowledgeWithoutSync,
        "traps::a_write_that_asks_for_a_sync_survives_with_all_before_it",
    ),
    (CloseSegmentWithoutSync, PREFIX),
    (SegmentWithoutDirSync, SYNCED),
    (TableWithoutSync, SYNCED),
    (TableWithoutDirSync, SYNCED),
    (EditWithoutSync, SYNCED),
    (ManifestWithoutSync, SYNCED),
    (ManifestWithoutDirSync, SYNCED),
    (
        GoOnAfterFailedSync,
        "crash::after_an_fsync_that_failed_nothing_is_written_and_what_was_acknowledged_is_recovered",
    ),
    (
        GoOnAfterFailedEdit,
        "crash::after_an_edit_of_the_manifest_that_failed_no_write_is_taken",
    ),
    (TrimNeededWal, SYNCED),
    (TrimWalToNothing, RETENTION),
    (NeverTrimWal, RETENTION),
    (QuietTableHoldsWal, RETENTION),
    (LeaveTornTail, PREFIX),
    (
        ForgetBookmarks,
        "traps::shared_s_deleting_one_of_two_snapshots_of_the_same_content_keeps_the_other",
    ),
    (ForgetViews, FILES),
    (StripeOffByOne, AT_A_WRITE),
    (LoadThenRegisterView, VIEWS),
    (NarrowSpan, MODEL),
    (SkipRunAtItsFirstNumber, AT_A_WRITE),
    (BookmarksOutsideManifest, RETENTION),
    (KeepOldBookmarks, RETENTION),
    (ReplayKnownBookmarks, SYNCED),
    (ReuseSnapshotIds, MODEL),
    (
        SequenceFromWalAlone,
        "traps::sequence_reuse_a_write_after_the_log_is_cut_does_not_slip_into_a_snapshot",
    ),
    (SequenceFromManifestAlone, SYNCED),
    (
        SkipConflictCheck,
        "transactions::the_first_committer_wins_and_the_other_is_told_the_key",
    ),
    (
        SkipGuards,
        "transactions::a_guarded_key_prevents_write_skew",
    ),
    (BeginAtVisible, UPDATES),
    (FlushNewestFirst, ORDER),
    (MergedRunOnTop, ORDER),
    (DropTombstones, TOMBSTONES),
    (KeepTombstones, TOMBSTONES),
    (
        CompleteOperands,
        "versions::operands_fold_over_memtables_runs_snapshots_and_restarts",
    ),
    (
        ExpireForAll,
        "versions::a_snapshot_judges_at_the_time_in_its_record",
    ),
    (RemoveFilesInUse, FILES),
    (RemoveInputsBeforeEdit, SYNCED),
    (KeepObsoleteFiles, FILES),
    (KeepOrphans, SYNCED),
    (TrustBlocks, FLIPPED),
    (TrustWal, FLIPPED),
    (TrustManifest, FLIPPED),
    (DamagedWalIsTorn, FLIPPED),
    (
        DamagedManifestIsTorn,
        "traps::damage_to_an_edit_of_the_manifest_does_not_pass_for_a_torn_one",
    ),
    (
        HoleInTheWal,
        "crash::a_file_cut_at_any_length_is_found_or_harmless",
    ),
    (OverestimateDurable, PREFIX),
];

const AT_A_WRITE: &str =
    "traps::read_views_see_the_write_that_they_stand_at_whatever_becomes_of_it";
const FILES: &str = "traps::files_stay_for_open_readers_and_go_once_nobody_needs_them";
const FLIPPED: &str = "crash::one_flipped_bit_anywhere_is_found_or_harmless";
const MODEL: &str = "model::the_database_agrees_with_the_oracle_whatever_happens_in_whatever_order";
const ORDER: &str = "traps::order_the_newest_value_counts_wherever_merges_put_it";
const PREFIX: &str = "crash::power_lost_at_any_call_leaves_a_prefix_of_the_commits";
const RETENTION: &str = "traps::wal_retention_a_quiet_table_does_not_hold_the_log_for_ever";
const SYNCED: &str = "crash::power_lost_at_any_call_loses_nothing_that_was_synced";
const TOMBSTONES: &str = "traps::tombstones_stay_while_an_older_run_has_the_key_and_go_in_the_end";
const UPDATES: &str =
    "transactions::a_plain_write_under_way_is_not_lost_to_a_transaction_that_begins_meanwhile";
const VIEWS: &str = "traps::read_views_show_all_tables_at_one_instant_under_writers_and_merges";

/// So many seeds of a random test are tried.
const SEEDS: &str = "2";
/// A test whose threads have to meet a race gets as many runs to meet it.
const RUNS_MAX: usize = 20;
/// A test that is still running then proves nothing.
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn every_mutation_is_killed() {
    let covered: Vec<_> = KILLERS.iter().map(|(mutation, _)| *mutation).collect();
    for mutation in Mutation::ALL {
        let times = covered.iter().filter(|m| *m == mutation).count();
        assert_eq!(times, 1, "{} in the table", mutation.name());
    }
    let tests: BTreeSet<_> = KILLERS.iter().map(|(_, test)| *test).collect();
    let baselines = tests.iter().map(|test| (None, *test));
    let mutants = KILLERS
        .iter()
        .map(|(mutation, test)| (Some(*mutation), *test));

    let mut wrong = Vec::new();
    for (mutation, test, outcome) in run_all(baselines.chain(mutants).collect()) {
        let name = mutation.map_or("(none)", Mutation::name);
        let line = format!("{name:26} {test} {outcome}");
        println!("{line}");
        let right = match mutation {
            Some(_) => matches!(outcome, Outcome::Fails(_)),
            None => matches!(outcome, Outcome::Passes),
        };
        if !right {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// How a test went under a mutation.
enum Outcome {
    /// With this message.
    Fails(String),
    Passes,
    Hangs,
    DoesNotRun,
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails(message) => write!(f, "fails: {message}"),
            Self::Passes => write!(f, "passes"),
            Self::Hangs => write!(f, "is still running after {LIMIT:?}"),
            Self::DoesNotRun => write!(f, "does not run"),
        }
    }
}

type Case = (Option<Mutation>, &'static str);

/// Runs the cases on all cores; in order of the cases.
fn run_all(cases: Vec<Case>) -> Vec<(Option<Mutation>, &'static str, Outcome)> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (next, done) = (
        Mutex::new(cases.into_iter().enumerate()),
        Mutex::new(Vec::new()),
    );
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let case = next.lock().unwrap().next();
                    let Some((at, (mutation, test))) = case else {
                        return;
                    };
                    let outcome = run(mutation, test);
                    done.lock().unwrap().push((at, (mutation, test, outcome)));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Runs one test until it fails, each time in a process of its own.
fn run(mutation: Option<Mutation>, test: &str) -> Outcome {
    let runs = if [UPDATES, VIEWS].contains(&test) && mutation.is_some() {
        RUNS_MAX
    } else {
        1
    };
    let mut outcomes = (0..runs).map(|_| run_once(mutation, test));
    let mut outcome = outcomes.next().expect("at least one run");
    while let Outcome::Passes = outcome
        && let Some(next) = outcomes.next()
    {
        outcome = next;
    }
    outcome
}

fn run_once(mutation: Option<Mutation>, test: &str) -> Outcome {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--test-threads=1"]);
    command.env("EBB_SEEDS", SEEDS).env_remove("EBB_SEED");
    command.env_remove("EBB_MUTATION");
    if let Some(mutation) = mutation {
        command.env("EBB_MUTATION", mutation.name());
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (sender, text) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.read_to_end(&mut text);
        let _ = sender.send(text);
    });
    let Ok(text) = text.recv_timeout(LIMIT) else {
        child.kill().unwrap();
        child.wait().unwrap();
        return Outcome::Hangs;
    };
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines();
    match child.wait().unwrap().success() {
        // A name that no test has, or one that ended before any test.
        _ if !text.contains("running 1 test") => Outcome::DoesNotRun,
        true => Outcome::Passes,
        false => {
            let panic = lines.find(|line| line.contains("panicked at"));
            let message = panic.and_then(|_| lines.find(|line| !line.is_empty()));
            Outcome::Fails(message.unwrap_or_default().chars().take(100).collect())
        }
    }
}

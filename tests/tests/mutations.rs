//! Do the tests notice bugs? For each mutation of the engine, one test runs in a process of its own
//! with that mutation on, and must fail. Without any mutation it must pass.
//!
//! ```sh
//! cargo test -p ebb-tests --features mutations --test mutations every_mutation -- --nocapture
//! EBB_MUTATION=DropTombstones cargo test -p ebb-storage -p ebb-tests --features mutations
//! ```
//!
//! The first command prints the table, the second runs everything against one mutation. The tests
//! of the engine alone are included from its own folder.

#[path = "proofs/backup.rs"]
mod backup;
#[path = "../../storage/tests/engine/changed_keys.rs"]
mod changed_keys;
#[path = "../../storage/tests/engine/common/mod.rs"]
mod common;
#[path = "../../storage/tests/engine/compaction.rs"]
mod compaction;
#[path = "proofs/crash.rs"]
mod crash;
#[path = "../../storage/tests/engine/damage.rs"]
mod damage;
#[path = "../../storage/tests/engine/detached.rs"]
mod detached;
#[path = "../../storage/tests/engine/drop.rs"]
mod drop;
#[path = "../../storage/tests/engine/early_stops.rs"]
mod early_stops;
#[path = "../../storage/tests/engine/failed_calls.rs"]
mod failed_calls;
#[path = "../../storage/tests/engine/folds.rs"]
mod folds;
#[path = "proofs/full_disk.rs"]
mod full_disk;
#[path = "../../storage/tests/engine/garbage.rs"]
mod garbage;
#[path = "../../storage/tests/engine/ingest.rs"]
mod ingest;
#[path = "../../storage/tests/engine/left_out.rs"]
mod left_out;
#[path = "../../storage/tests/engine/low_water.rs"]
mod low_water;
#[path = "../../storage/tests/engine/memory_bounds.rs"]
mod memory_bounds;
#[path = "../../storage/tests/engine/merging_in_parts.rs"]
mod merging_in_parts;
#[path = "proofs/model.rs"]
mod model;
#[path = "../../storage/tests/engine/pickers.rs"]
mod pickers;
#[path = "../../storage/tests/engine/prefix_filters.rs"]
mod prefix_filters;
#[path = "../../storage/tests/engine/quarantine.rs"]
mod quarantine;
#[path = "../../storage/tests/engine/range_deletes.rs"]
mod range_deletes;
#[path = "../../storage/tests/engine/reserve.rs"]
mod reserve;
#[path = "../../storage/tests/engine/snapshots.rs"]
mod snapshots;
#[path = "../../storage/tests/engine/transactions.rs"]
mod transactions;
#[path = "../../storage/tests/engine/traps.rs"]
mod traps;
#[path = "../../storage/tests/engine/versions.rs"]
mod versions;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use ebb_storage::mutation::Mutation;
use ebb_test_support::cases::parse_cases;

/// The tests, each with the mutations that it must notice.
const KILLERS: &str = "
    traps::read_views_show_all_tables_at_one_instant_under_writers_and_merges
    => VisibleAtEntry PublishOutOfOrder FlushDoesNotWait LoadThenRegisterView
    crash::power_lost_at_any_call_loses_nothing_that_was_synced
    => ReplayHalfABatch SegmentWithoutDirSync TableWithoutSync TableWithoutDirSync EditWithoutSync \
       ManifestWithoutSync TrimNeededWal ReplayKnownBookmarks RemoveInputsBeforeEdit KeepOrphans
    traps::wal_synced_before_install_a_batch_over_two_tables_does_not_tear => FlushWithoutWalSync
    traps::sequence_reuse_a_bookmark_is_never_more_durable_than_the_writes_below_it
    => MergeWithoutWalSync
    transactions::a_plain_write_under_way_is_not_lost_to_a_transaction_that_begins_meanwhile
    => ReturnBeforeVisible BeginAtVisible
    failed_calls::what_was_acknowledged_survives_a_crash_of_the_process => AcknowledgeWithoutWrite
    traps::a_write_with_a_sync_survives_with_all_before_it => AcknowledgeWithoutSync
    crash::power_lost_at_any_call_leaves_a_prefix_of_the_commits
    => CloseSegmentWithoutSync LeaveTornTail
    traps::manifest::a_change_after_an_opening_survives_the_loss_of_power => ManifestWithoutDirSync
    failed_calls::after_an_fsync_that_failed_nothing_is_written_and_what_was_acknowledged_is_recovered
    => GoOnAfterFailedSync
    failed_calls::after_an_edit_of_the_manifest_that_failed_no_write_is_taken => GoOnAfterFailedEdit
    traps::wal_retention_a_quiet_table_does_not_hold_the_log_for_ever
    => TrimWalToNothing NeverTrimWal QuietTableHoldsWal BookmarksOutsideManifest KeepOldBookmarks
    memory_bounds::all_memtables_together_keep_to_their_budget
    => MemtablesBeyondBudget FreezeOnlyFullMemtables
    memory_bounds::the_log_keeps_within_its_bound => LogBeyondBound
    memory_bounds::memtables_indexes_filters_and_blocks_share_one_budget => OverlookIndexes
    compaction::no_merge_begins_while_merges_are_paused => MergeWhilePaused
    failed_calls::what_a_reopening_found_after_a_failed_fsync_is_there_for_good
    => TrustUnsyncedManifest
    full_disk::what_is_refused_leaves_no_trace_and_what_is_acknowledged_stays
    => LeaveRefusedRecord KeepRefusedEdit KeepRefusedBookmarks
    traps::manifest::an_edit_that_finds_no_space_is_in_neither_copy => LeaveRefusedEdit
    low_water::writes_stop_before_the_free_space_falls_below_the_mark => WriteBelowLowWater
    reserve::drops_and_deletions_work_on_a_full_disk => KeepReserve
    reserve::a_truncation_on_a_full_disk_gives_its_space_back_without_another_write
    => TruncateWithoutFlush
    traps::shared_s_deleting_one_of_two_snapshots_of_the_same_content_keeps_the_other
    => ForgetBookmarks
    traps::files::files_stay_for_open_readers_and_go_after_the_last_one
    => ForgetViews RemoveFilesInUse KeepObsoleteFiles
    traps::read_views_see_the_write_that_they_stand_at_whatever_becomes_of_it
    => StripeOffByOne SkipRunAtItsFirstNumber
    prefix_filters::every_prefix_is_found_and_most_that_are_not_there_cost_no_search
    => PrefixesUpToPartitions
    model::the_database_agrees_with_the_model_whatever_happens_in_whatever_order
    => NarrowSpan ReuseSnapshotIds HeedOldestRangeTombstone
    traps::sequence_reuse_a_write_after_the_log_is_cut_does_not_slip_into_a_snapshot
    => SequenceFromWalAlone
    traps::sequence_reuse_a_write_after_a_crash_does_not_slip_into_a_snapshot
    => SequenceFromManifestAlone
    versions::a_snapshot_judges_at_the_time_in_its_record => JudgeSnapshotsNow ExpireForAll
    snapshots::a_snapshot_is_gone_when_its_time_is_over_and_an_open_one_reads_on
    => SnapshotsNeverExpire SnapshotsExpireAtOnce
    snapshots::a_renewed_snapshot_lives_on_over_a_restart => ForgetRenewals
    folds::a_reader_of_an_earlier_commit_does_not_see_the_fold_of_later_ones
    => TakeFoldsOfLaterOperands
    folds::no_fold_is_left_onto_a_put_that_expires => LeaveFoldsOfExpired
    drop::a_dropped_table_takes_no_write_and_is_read_on_by_those_who_have_it => WriteToDroppedTables
    crash::power_lost_at_any_call_leaves_tables_and_their_snapshots_as_they_were
    => DropWithoutWalSync KeepUncoveredTables
    drop::each_snapshot_sees_the_table_of_its_time => ForgetCoveredTables
    drop::the_id_of_a_dropped_table_is_not_given_again => ReuseTableIds
    transactions::the_first_committer_wins_and_the_other_gets_the_key_in_its_error
    => SkipConflictCheck
    transactions::a_guarded_key_prevents_write_skew => SkipGuards
    transactions::a_guarded_range_prevents_write_skew_by_new_keys => SkipGuardedRanges
    transactions::merges_of_two_transactions_both_apply_unless_one_relies_on_what_it_read
    => MergesNeverClash OverlookMerges
    transactions::a_range_delete_is_in_conflict_with_writes_inside_it_and_they_with_it
    => RangesNeverClash OverlookRangeDeletes
    ingest::a_transaction_is_in_conflict_with_what_was_ingested_into_its_keys => IngestIsNoWrite
    traps::order_the_newest_value_counts_wherever_merges_put_it
    => FlushNewestFirst MergedRunOnTop InstallAnywhere
    traps::tombstones_stay_while_an_older_run_has_the_key_and_go_in_the_end
    => DropTombstones KeepTombstones
    versions::operands_fold_over_memtables_runs_snapshots_and_restarts => CompleteOperands
    versions::a_put_with_a_ttl_goes_at_its_time_wherever_it_lies => FoldOntoExpiringPuts
    range_deletes::a_run_whose_keys_are_covered_stays_for_its_range_tombstones => NarrowBounds
    range_deletes::range_tombstones_stay_while_anything_is_under_them_and_go_in_the_end
    => DropRangeTombstones DropRangeTombstonesOfSnapshots HideFromSnapshots KeepUnderRangeTombstones
    range_deletes::a_view_keeps_runs_that_a_truncation_covers => DropCoveredRunsOfSnapshots
    range_deletes::a_deleted_range_is_gone_from_all_that_is_older_and_from_nothing_else
    => GetPastRangeTombstones
    range_deletes::a_scan_reads_no_run_that_is_hidden_as_a_whole => LeaveOutRunsAboveRangeTombstones
    range_deletes::a_scan_of_a_snapshot_reads_runs_under_newer_range_tombstones
    => LeaveOutRunsOfSnapshots
    compaction::two_merges_of_one_table_go_on_beside_each_other => ClaimNothing
    compaction::what_a_flush_keeps_under_a_range_tombstone_comes_back_with_its_snapshot
    => OverlookKeptUnderRangeTombstones
    pickers::a_picker_that_never_ends_is_stopped_at_merges_that_gain_nothing
    => RepeatFruitlessMerges
    compaction::a_version_that_another_snapshot_needs_is_no_garbage => OverlookGarbage
    garbage::a_deletion_stays_beside_what_it_deletes_in_an_older_run
    => PurgeBesideOlderRuns PurgeHeadsAlone
    garbage::a_deletion_stays_beside_what_it_deletes_in_newer_runs_and_memtables
    => PurgeBesideNewerRuns PurgeBesideMemtables
    garbage::a_deletion_stays_beside_what_it_deletes_in_another_stripe => PurgeBesideOtherStripes
    garbage::a_reader_from_before_the_end_of_the_grace_keeps_what_it_judges => PurgeForAll
    garbage::a_snapshot_keeps_a_deletion_beside_what_it_deletes_above => PurgeHeadsOfSnapshots
    garbage::a_group_goes_whole => PurgeUnderPurgedHeads EndInGroups
    merging_in_parts::what_is_read_between_two_parts_is_what_was_there_before_also_after_a_restart
    => ShowMergedAway
    merging_in_parts::what_was_dropped_between_two_files_does_not_come_back_without_a_manifest
    => StandBetweenKeys
    merging_in_parts::a_restored_input_does_not_shadow_the_merge_that_replaced_a_part_of_it
    => StandByName
    garbage::a_row_goes_under_the_head_that_its_readers_see_and_under_no_later_one
    => PurgeUnderLaterHeads
    garbage::what_a_purged_value_replaced_stays_hidden => UncoverUnderPurged
    garbage::a_deletion_stays_beside_a_run_of_which_nothing_is_known => TrustUnknownTimestamps
    quarantine::merges::a_bit_that_a_merge_meets_stops_no_write_to_any_table => StopAtDamage
    left_out::what_a_merge_cannot_read_stops_no_write => StopAtFailedRead
    quarantine::unreadable::an_opening_goes_on_without_a_file_that_cannot_be_read
    => RefuseUnreadableFiles RemoveReopenedFiles
    quarantine::unreadable::an_opening_without_a_file_refuses_a_manifest_that_may_have_lost_its_end
    => TrustOldManifest
    quarantine::unreadable::what_an_opening_reads_at_the_second_time_is_whole => TrustFirstOpening
    quarantine::unreadable::a_full_verification_ends_the_quarantine_of_a_whole_file_only
    => LiftUnverified
    quarantine::rewritten::what_a_second_reading_finds_is_not_lost => SalvageOnce
    quarantine::rewritten::nothing_is_taken_from_another_file_in_the_place_of_a_damaged_one
    => SalvageAnyFile
    quarantine::rewritten::every_key_that_is_not_listed_as_lost_reads_as_before_whatever_block_is_damaged
    => OverlookLostTombstones
    quarantine::rewritten::the_versions_that_snapshots_read_stay_in_a_rewritten_file
    => LoseOlderVersions
    left_out::a_run_that_cannot_be_read_is_left_out_of_merges_until_it_can => LeaveOutForGood
    quarantine::merges::what_reads_at_the_second_time_is_merged => TrustFirstReading
    quarantine::one_flipped_bit_in_any_file_gives_right_answers_or_damage_and_never_an_older_value
    => ForgetQuarantine PassOverGaps ExcludeByDamagedFilters
    quarantine::merges::what_is_above_a_file_that_does_not_open_is_kept_until_that_is_whole_again
    => NothingInGaps BottomAboveDamage
    garbage::damaged_files::a_deletion_stays_beside_a_damaged_file_that_may_have_what_it_deletes
    => PurgeBesideOlderDamage PurgeBesideNewerDamage
    quarantine::space::a_run_goes_once_the_keys_of_its_damaged_file_are_covered_too
    => DropBesideGaps
    early_stops::a_damaged_file_is_waited_for_only_if_it_has_later_timestamps => StopAboveGaps
    quarantine::restores::a_copied_backup_gives_back_everything_and_a_linked_one_has_the_damage_too
    => RestoreUnverified
    early_stops::an_early_stop_includes_a_full_memtable_that_is_not_flushed => StopAboveMemtables
    early_stops::a_reader_that_stops_early_reads_the_same_columns_as_one_that_reads_everything
    => StopAboveUnknownTimestamps StopByTheNextSource StopAtEqualTimestamps
    changed_keys::few_changes_are_few_keys_in_memory_in_a_new_run_and_in_one_of_both_sides
    => OverlookStraddlingFiles OverlookExpiries OverlookDeletedRanges
    changed_keys::a_file_of_which_no_expiries_are_known_is_read => TrustUnknownExpiries
    ingest::what_is_ingested_stands_at_its_commit_among_writes_and_snapshots
    => IngestUnderMemtables TrustIngestedNumbers RemoveWaitingRuns
    ingest::an_ingest_that_the_log_refuses_is_not_seen => KeepRefusedIngest RemoveUncertainIngest
    crash::power_lost_at_any_call_leaves_each_ingest_whole_or_not_at_all => IngestWithoutDirSync
    backup::power_lost_at_any_call_of_a_backup_leaves_the_source_and_no_half_database
    => BackupManifestFirst CopyWithoutSync
    backup::a_backup_beside_writers_holds_whole_batches_and_all_acknowledged_before
    => BackupLogFirst BackupHoldsNoLog BackupHoldsNoFiles
    ingest::a_backup_has_what_was_ingested_and_not_flushed => BackupWithoutWaitingRuns
    backup::a_second_backup_replaces_a_damaged_file_of_the_first => BackupTrustsOlder
    backup::power_lost_at_any_call_of_a_second_backup_leaves_one_of_the_two => BackupRemovesFirst
    detached::what_is_in_memory_only_is_flushed_and_what_came_later_is_not_seen => PinWithoutFlush
    detached::the_files_stay_until_the_pin_is_gone_whatever_becomes_of_table_and_snapshot
    => PinWithoutFiles
    failed_calls::no_number_of_a_file_is_used_twice_whatever_the_power_does => ReuseFileNumbers
    detached::a_pin_is_of_one_database_and_of_no_copy_in_its_place => PinOfAnyDatabase
    failed_calls::nothing_goes_into_another_directory_in_the_place_of_the_databases
    => WriteIntoAnotherDirectory
    damage::one_flipped_bit_anywhere_is_found_or_harmless
    => TrustBlocks TrustWal TrustManifest DamagedWalIsTorn
    traps::manifest::damage_to_an_edit_of_the_manifest_does_not_pass_for_a_torn_one
    => DamagedManifestIsTorn
    traps::manifest::damage_to_one_copy_of_the_manifest_or_of_current_costs_nothing
    => EditOneManifest
    traps::manifest::copies_of_the_manifest_that_contradict_each_other_are_refused_with_nothing_removed
    => TrustFirstManifest
    damage::a_file_cut_at_any_length_is_found_or_harmless => HoleInTheWal
    failed_calls::a_hole_in_what_was_never_synced_is_a_torn_tail_and_no_damage
    => OverestimateDurable
";

const BESIDE: &str =
    "backup::a_backup_beside_writers_holds_whole_batches_and_all_acknowledged_before";
const FULL_DISK: &str = "full_disk::what_is_refused_leaves_no_trace_and_what_is_acknowledged_stays";
const UPDATES: &str =
    "transactions::a_plain_write_under_way_is_not_lost_to_a_transaction_that_begins_meanwhile";
const VIEWS: &str = "traps::read_views_show_all_tables_at_one_instant_under_writers_and_merges";

/// The number of seeds of a randomized test. The second number is for the test that fills the disk
/// at random, which needs more.
const SEEDS: (&str, &str) = ("3", "16");
/// The greatest number of runs of a test that notices its mutation only if threads meet in a race.
const RUNS_MAX: usize = 20;
/// The limit on the time of one run of a test. It only ends runs that hang: a mutation whose test
/// is still running counts as not noticed, so a slow machine must not come near the limit.
const LIMIT: Duration = Duration::from_secs(600);

/// Returns each mutation in the table, with the test that must notice it.
fn killers() -> Vec<(Mutation, &'static str)> {
    let named = |name: &str| {
        let found = Mutation::ALL.iter().find(|it| it.name() == name);
        *found.unwrap_or_else(|| panic!("{name} is no mutation"))
    };
    let mut killers = Vec::new();
    for [test, mutations] in parse_cases(KILLERS) {
        killers.extend(mutations.split_whitespace().map(|it| (named(it), test)));
    }
    killers
}

#[test]
fn every_mutation_is_killed() {
    let killers = killers();
    for mutation in Mutation::ALL {
        let times = killers.iter().filter(|(it, _)| it == mutation).count();
        assert_eq!(times, 1, "{} in the table", mutation.name());
    }
    let tests: BTreeSet<_> = killers.iter().map(|(_, test)| *test).collect();
    for special in [BESIDE, FULL_DISK, UPDATES, VIEWS] {
        assert!(tests.contains(special), "{special} in the table");
    }
    let baselines = tests.iter().map(|test| (None, *test));
    let mutants = killers
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

/// The result of a test, with a mutation or without.
enum Outcome {
    /// The test failed with this message.
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

/// Runs the cases on all cores, each a test with a mutation or without. Returns the results in the
/// order of the cases.
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

/// Runs a test in a process of its own. If its threads have to meet in a race to notice the
/// mutation, runs it again, at most [`RUNS_MAX`] times in all, until it does not pass.
fn run(mutation: Option<Mutation>, test: &str) -> Outcome {
    let runs = if [BESIDE, UPDATES, VIEWS].contains(&test) && mutation.is_some() {
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
    let seeds = if test == FULL_DISK { SEEDS.1 } else { SEEDS.0 };
    command.env("EBB_SEEDS", seeds).env_remove("EBB_SEED");
    // The failure of a mutant is no regression of the test.
    command.env_remove("EBB_EXPLORE");
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
    let passes = child.wait().unwrap().success();
    if !text.contains("running 1 test") {
        // No test has this name, or the process ended before it ran any test.
        Outcome::DoesNotRun
    } else if passes {
        Outcome::Passes
    } else {
        let panic = lines.find(|line| line.contains("panicked at"));
        let message = panic.and_then(|_| lines.find(|line| !line.is_empty()));
        Outcome::Fails(message.unwrap_or_default().chars().take(100).collect())
    }
}

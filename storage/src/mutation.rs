//! Switches that break one promise each, to show that the tests notice it: *mutation testing* of
//! the engine, with the mutations chosen by hand at the promises and traps of the architecture.
//!
//! Code calls [`is`], [`unless`] or [`replace`] with its mutation. Without the feature `mutations`,
//! [`is`] is the constant `false`, and no switch is compiled. With it, at most one mutation is on
//! in a process: the one of [`set`], or else that of the environment variable `EBB_MUTATION`.
//!
//! `tests/mutations.rs` of the crate `ebb-tests` runs, for each of them, a test that fails.

/// Defines the enum [`Mutation`] from a list of names, each with a description of the fault by
/// which the mutation breaks a promise of the engine.
macro_rules! mutations {
    ($($name:ident = $breaks:literal,)*) => {
        /// A deliberate fault of the engine, which breaks one of its promises: some test must fail
        /// with it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Mutation {
            $(#[doc = $breaks] $name,)*
        }

        #[cfg(feature = "mutations")]
        impl Mutation {
            /// All deliberate faults.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the name of the fault: the value of `EBB_MUTATION` that switches it on.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

mutations! {
    // A batch is visible whole or not at all.
    VisibleAtEntry = "a commit is visible before its operations are in the memtables",
    PublishOutOfOrder = "a commit is visible before those that it comes after",
    ReplayHalfABatch = "replay applies the first operation of a batch only",
    FlushDoesNotWait = "a memtable is flushed with writes to it under way",
    FlushWithoutWalSync = "runs are installed while what they hold is not durable in the WAL",
    MergeWithoutWalSync = "a merge is installed before the deletion that it relies on is durable",
    ReturnBeforeVisible = "a commit returns before it is visible",

    // What was acknowledged is there after a crash.
    AcknowledgeWithoutWrite = "a commit is acknowledged before the file has it",
    AcknowledgeWithoutSync = "a commit asks for an fsync and is acknowledged without",
    CloseSegmentWithoutSync = "a full WAL segment is closed without an fsync",
    SegmentWithoutDirSync = "the name of a new WAL segment is not synced",
    TableWithoutSync = "an SSTable is installed without an fsync",
    TableWithoutDirSync = "the name of a new SSTable is not synced",
    EditWithoutSync = "an edit of the manifest is not synced",
    ManifestWithoutSync = "CURRENT names a manifest that is not synced",
    ManifestWithoutDirSync = "CURRENT is replaced without syncing the directory",
    GoOnAfterFailedSync = "a failed fsync is tried again, and writes are accepted",
    GoOnAfterFailedEdit = "writes are accepted after a failed edit of the manifest",
    TrimNeededWal = "WAL segments go that a memtable needs",
    TrimWalToNothing = "the last WAL segment may go",
    NeverTrimWal = "no WAL segment ever goes",
    QuietTableHoldsWal = "a small memtable holds on to the WAL for ever",
    LeaveTornTail = "recovery leaves a torn tail behind which it goes on",
    TrustUnsyncedManifest = "an opening does not make durable what it read in the manifest",

    // A full disk refuses a write, and nothing more.
    LeaveRefusedRecord = "what fitted of a refused WAL record stays in the file",
    LeaveRefusedEdit = "what fitted of a refused edit stays in the manifest",
    WriteBelowLowWater = "writes are taken until the last byte of the disk",
    KeepReserve = "what would give space back finds none, though some is held back for it",
    TruncateWithoutFlush = "a truncation is in memory until something else is flushed",
    KeepRefusedEdit = "an edit that found no space counts in memory",
    KeepRefusedBookmarks = "a snapshot whose commit was refused stays",

    // Memory and log keep within their bounds.
    MemtablesBeyondBudget = "nobody waits for the memory of all memtables",
    FreezeOnlyFullMemtables = "a memtable is frozen only when it is full, whatever all take",
    LogBeyondBound = "nobody waits for the log to become shorter",
    OverlookIndexes = "the cache does not count the memory of indexes and filters",
    MergeWhilePaused = "merges begin while they are paused",

    // A snapshot never changes; what a view sees stays.
    ForgetBookmarks = "flush and merge drop what only a snapshot sees",
    ForgetViews = "flush and merge drop what only a view sees",
    StripeOffByOne = "a version at a bookmark counts as newer than it",
    LoadThenRegisterView = "a view's number is loaded before it is registered",
    PrefixesUpToPartitions = "a partition's filter does not have the first prefix of the next",
    NarrowSpan = "the span of a merged run is that of its newest input",
    SkipRunAtItsFirstNumber = "a reader at a run's smallest number skips the run",
    BookmarksOutsideManifest = "bookmarks are not in the manifest when their WAL segment goes",
    KeepOldBookmarks = "the manifest keeps the bookmarks that it heard of first",
    ReplayKnownBookmarks = "replay does again what the manifest knows of snapshots",
    ReuseSnapshotIds = "snapshot ids begin anew at each opening",
    SequenceFromWalAlone = "numbers go on from the end of the WAL, whatever the manifest says",
    SequenceFromManifestAlone = "numbers go on from the manifest, whatever the WAL says",
    JudgeSnapshotsNow = "an open snapshot judges what expires when it is opened",
    SnapshotsNeverExpire = "no snapshot is ever past its time",
    SnapshotsExpireAtOnce = "a snapshot with an expiry is past its time from the beginning",
    ForgetRenewals = "replay forgets that the expiry of a snapshot was changed",

    // What a reader leaves of operands is what others would see.
    TakeFoldsOfLaterOperands = "a reader takes what was folded for those who see more than it",
    LeaveFoldsOfExpired = "a fold is left that hangs on when its reader judges",

    // Dropped tables.
    WriteToDroppedTables = "a dropped table takes writes",
    DropWithoutWalSync = "a drop is durable before the writes and snapshots below it",
    ForgetCoveredTables = "a dropped table goes though a snapshot covers it",
    KeepUncoveredTables = "an opening keeps dropped tables whose last snapshot went",
    ReuseTableIds = "the ids of dropped tables are given again after an opening",

    // The first committer wins.
    SkipConflictCheck = "a transaction commits over what was written since it began",
    SkipGuards = "a transaction commits though a key that it guards was written",
    SkipGuardedRanges = "a transaction commits though a key in a range that it guards was written",
    BeginAtVisible = "a transaction reads at the visible number, with commits under way above it",
    MergesNeverClash = "a transaction merges into what was put since it began",
    OverlookMerges = "a transaction puts over what was merged since it began",
    RangesNeverClash = "a transaction deletes a range though a key in it was written",
    OverlookRangeDeletes = "a transaction writes to a range that was deleted since it began",
    IngestIsNoWrite = "a transaction commits over what was ingested since it began",

    // Order of the run list; tombstones.
    FlushNewestFirst = "flushes install newest first",
    MergedRunOnTop = "a merged run is put on top of the list",
    DropTombstones = "tombstones go while an older run has their key",
    KeepTombstones = "tombstones stay when nothing is below them",
    CompleteOperands = "merge operands become a value while an older run has their key",
    ExpireForAll = "what has expired now goes, whoever judges at an earlier time",
    FoldOntoExpiringPuts = "operands and an expiring put become a value that does not expire",
    NarrowBounds = "range tombstones do not count in the key bounds of a run",
    DropRangeTombstones = "range tombstones go while an older run has keys under them",
    DropRangeTombstonesOfSnapshots = "range tombstones go though a reader stands below them",
    DropCoveredRunsOfSnapshots = "a covered run goes though a reader stands below the tombstone",
    HideFromSnapshots = "a merge drops under a range tombstone what readers below it see",
    KeepUnderRangeTombstones = "a merge keeps what is under a range tombstone that goes",
    HeedOldestRangeTombstone = "of several range tombstones over a key an iterator heeds the oldest",
    GetPastRangeTombstones = "a get does not look for range tombstones in runs",
    LeaveOutRunsAboveRangeTombstones = "a scan leaves out a run under older range tombstones",
    LeaveOutRunsOfSnapshots = "a scan leaves out a run under range tombstones newer than its reader",
    InstallAnywhere = "a merged run replaces the newest runs, whatever its inputs were",
    ClaimNothing = "two merges may have the same inputs",
    OverlookKeptUnderRangeTombstones = "what is kept under a range tombstone for a snapshot is not counted",
    RepeatFruitlessMerges = "what gained nothing is merged again as often as a picker likes",
    OverlookGarbage = "what nobody needs any more is left in its run",

    // Garbage by timestamps goes only when no reader can notice.
    PurgeBesideOlderRuns = "a deletion goes though an older run may have what it deletes",
    PurgeBesideNewerRuns = "a deletion goes though a newer run may have what it deletes",
    PurgeBesideMemtables = "a deletion goes though a memtable may have what it deletes",
    PurgeBesideOtherStripes = "a deletion goes though a reader sees what it deletes beside it",
    PurgeForAll = "what has served its time now is purged, whoever judges at an earlier time",
    ShowMergedAway = "what a part of a merge has merged away is read, too",
    StandBetweenKeys = "a file stands for what is between its first and its last key only",
    StandByName = "a file that was restored is taken for a new one",
    EndInGroups = "a part of a merge ends among what a head deleted that goes with it",
    PurgeHeadsAlone = "the deletions of a group go when nothing else has its head",
    PurgeHeadsOfSnapshots = "the deletions of a group go though a snapshot stands among its values",
    PurgeUnderPurgedHeads = "the deletions of a group go before what they delete",
    PurgeUnderLaterHeads = "values go that a group deleted after a reader's time",
    UncoverUnderPurged = "a value that is purged uncovers what it replaced",
    TrustUnknownTimestamps = "a run whose timestamps are not known counts as having none",

    // Damage stays where it is.
    StopAtDamage = "a merge that meets damage stops all writes",
    StopAtFailedRead = "a merge that cannot read a file stops all writes",
    RefuseUnreadableFiles = "a database does not open without a file that cannot be read",
    TrustOldManifest = "an opening without a file removes those that the manifest does not name",
    TrustFirstOpening = "a file is in quarantine though an opening reads it at the second time",
    RemoveReopenedFiles = "a file that could not be read goes once it opens",
    LeaveOutForGood = "a run that a merge could not read is never merged again",
    TrustFirstReading = "a file is in quarantine though the disk has it whole",
    ForgetQuarantine = "the manifest does not hear of a file in quarantine",
    PassOverGaps = "an older value is read where a damaged file may have a newer one",
    NothingInGaps = "merges and flushes take a damaged file for one without its keys",
    BottomAboveDamage = "a merge above a run in quarantine takes its keys for those at the bottom",
    PurgeBesideOlderDamage = "a deletion goes beside an older run in quarantine",
    PurgeBesideNewerDamage = "a deletion goes beside a newer run in quarantine",
    DropBesideGaps = "a covered run goes though a damaged file of it has keys that are not covered",
    StopAboveGaps = "a read stops though a file that is left does not open",
    ExcludeByDamagedFilters = "a filter that does not read excludes its file",
    RestoreUnverified = "a damaged file is replaced by a copy that was not verified",
    LiftUnverified = "a quarantine ends though the file was not verified",
    SalvageOnce = "what does not read once is lost from a file that is rewritten",
    SalvageAnyFile = "a file is rewritten from the blocks of another one in its place",
    OverlookLostTombstones = "a list of what is lost leaves out range tombstones",
    LoseOlderVersions = "a file that is rewritten keeps the newest version of each key only",

    // A read stops where nothing that is left can matter.
    StopAboveMemtables = "a read stops though a full memtable that is left may have newer timestamps",
    StopAboveUnknownTimestamps = "a read stops though nothing is known of the timestamps of a run",
    StopByTheNextSource = "a read stops by the timestamps of the next source, whatever others have",
    StopAtEqualTimestamps = "a read stops though what is left may have an equal timestamp",

    // What changed between two snapshots is found.
    OverlookStraddlingFiles = "a file with versions on both sides of a snapshot has no changes since",
    OverlookExpiries = "what only expired between two snapshots is no change",
    OverlookDeletedRanges = "what a range tombstone deleted between two snapshots is no change",
    TrustUnknownExpiries = "nothing expires in a file of which nothing is known",

    // An ingested run stands at its commit.
    IngestUnderMemtables = "an ingested run is put under the memtables",
    TrustIngestedNumbers = "versions in an ingested run have the number in the file",
    RemoveWaitingRuns = "an opening removes the ingested files that only the WAL names",
    KeepRefusedIngest = "a run whose commit failed stays visible",
    RemoveUncertainIngest = "the files of a failed ingest go though the WAL may name them",
    IngestWithoutDirSync = "the names of ingested files are not synced",

    // A backup opens as the database.
    BackupManifestFirst = "a backup is named by CURRENT before its files are there",
    BackupLogFirst = "the end of the WAL is taken before the state that relies on it",
    BackupHoldsNoLog = "WAL segments go while a backup copies them",
    BackupHoldsNoFiles = "files of merged runs go while a backup links them",
    BackupWithoutWaitingRuns = "a backup leaves the files out that only the WAL names",
    BackupTrustsOlder = "a backup keeps files of an older one that it did not verify",
    BackupRemovesFirst = "files of an older backup go before CURRENT names the new one",
    CopyWithoutSync = "the bytes of a copied file are not synced",

    // Files stay while needed, and go in the end.
    RemoveFilesInUse = "files of merged runs go at once, whoever reads them",
    RemoveInputsBeforeEdit = "files of merged runs go before the manifest names their successor",
    PinWithoutFlush = "a pinned table lacks what only a memtable has",
    PinWithoutFiles = "a pinned table does not keep its files",
    ReuseFileNumbers = "an opening numbers files from the largest that is named, whatever there was",
    PinOfAnyDatabase = "a pin is believed whatever database stands in its place",
    WriteIntoAnotherDirectory = "files go into a directory that took the place of the database's",
    KeepObsoleteFiles = "files of merged runs stay for ever",
    KeepOrphans = "an opening leaves the files that a crash left",

    // Damage is an error.
    TrustBlocks = "the checksum of a block is not looked at",
    TrustWal = "the checksum of a WAL record is not looked at",
    TrustManifest = "the checksum of an edit of the manifest is not looked at",
    DamagedWalIsTorn = "damage to the WAL passes for a torn tail",
    DamagedManifestIsTorn = "damage to the manifest passes for a torn tail",
    EditOneManifest = "an edit is in one of the two copies of the manifest only",
    TrustFirstManifest = "of copies of the manifest that contradict each other the first counts",
    HoleInTheWal = "a WAL segment may end anywhere, though another follows",
    OverestimateDurable = "a WAL record takes for durable what is only pushed",
}

#[cfg(not(feature = "mutations"))]
#[inline(always)]
pub(crate) const fn is(_: Mutation) -> bool {
    false
}

/// Returns whether this deliberate fault is switched on in this process.
#[cfg(feature = "mutations")]
pub fn is(mutation: Mutation) -> bool {
    switch::active() == Some(mutation)
}

/// Calls `step` and returns its result. If `mutation` (the deliberate fault that skips this step)
/// is switched on, does nothing and returns `Ok`.
#[inline(always)]
pub(crate) fn unless<E>(mutation: Mutation, step: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    if is(mutation) { Ok(()) } else { step() }
}

/// Returns `wrong` if the mutation is on, else `right`.
#[inline(always)]
pub(crate) fn replace<T>(right: T, mutation: Mutation, wrong: T) -> T {
    if is(mutation) { wrong } else { right }
}

/// Yields to other threads while one of `mutations` is on, so that the race that the mutation makes
/// possible occurs more often.
#[inline(always)]
pub(crate) fn linger(mutations: &[Mutation]) {
    if mutations.iter().any(|mutation| is(*mutation)) {
        (0..100).for_each(|_| std::thread::yield_now());
    }
}

#[cfg(feature = "mutations")]
pub use switch::set;

#[cfg(feature = "mutations")]
mod switch {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::Mutation;

    const UNKNOWN: usize = usize::MAX;
    const NONE: usize = usize::MAX - 1;

    /// The position in [`Mutation::ALL`] of the active mutation; [`NONE`] if none is active, and
    /// [`UNKNOWN`] until `EBB_MUTATION` is read.
    static ACTIVE: AtomicUsize = AtomicUsize::new(UNKNOWN);

    /// Turns `mutation` on for the whole process, and every other mutation off; `None` turns all
    /// off. From then on `EBB_MUTATION` has no effect.
    pub fn set(mutation: Option<Mutation>) {
        let at = Mutation::ALL.iter().position(|m| Some(*m) == mutation);
        ACTIVE.store(at.unwrap_or(NONE), Ordering::Relaxed);
    }

    pub(super) fn active() -> Option<Mutation> {
        if ACTIVE.load(Ordering::Relaxed) == UNKNOWN {
            set(from_environment());
        }
        Mutation::ALL.get(ACTIVE.load(Ordering::Relaxed)).copied()
    }

    /// Returns the mutation that `EBB_MUTATION` names; `None` if the variable is not set.
    ///
    /// # Panics
    /// If there is no mutation of this name: tests that pass without a fault in the engine would
    /// prove nothing.
    fn from_environment() -> Option<Mutation> {
        let name = std::env::var("EBB_MUTATION").ok()?;
        let named = Mutation::ALL.iter().find(|m| m.name() == name);
        Some(*named.unwrap_or_else(|| panic!("EBB_MUTATION={name} is no mutation")))
    }
}

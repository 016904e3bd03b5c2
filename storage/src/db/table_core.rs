//! A table as the engine holds it.

use std::sync::Arc;

use super::large_groups::CutGroups;
use super::left_out::LeftOut;
use super::picks::Picks;
use crate::error::{Error, Result};
use crate::key::{SeqNo, TableId};
use crate::memtable::Memtable;
use crate::options::TableOptions;
use crate::read::{MergeOperators, Merger};
use crate::snapshots::{Lifetime, TableSpan};
use crate::sstable::{Origin, SsTableOptions};
use crate::sync::{AtomicU64, Mutex, Ordering, Published, PublishedGuard};
use crate::version::TableVersion;

/// The value of `dropped_after` for a table that was not dropped: no commit has this number.
const NOT_DROPPED: u64 = u64::MAX;

/// A table: its identity, and the version that readers take.
#[derive(Debug)]
pub(crate) struct TableCore {
    /// The open database of the table: [`Engine::id`](super::Engine::id).
    pub(crate) database: u64,
    pub(crate) id: TableId,
    pub(crate) keyspace: String,
    pub(crate) name: String,
    /// The options of the table. They are replaced under the catalog's lock, when the table is
    /// altered.
    options: Published<TableOptions>,
    pub(crate) merger: Arc<Merger>,
    version: Published<TableVersion>,
    /// The last commit before the table was created.
    created_after: SeqNo,
    /// The last commit before the drop of the table; [`NOT_DROPPED`] if the table is not dropped.
    /// The field is set under the order lock of the commit queue, which gives commits their numbers, so that
    /// no commit with a later number writes to the table.
    dropped_after: AtomicU64,
    /// The number of requests to look for merges (`Signal::merges_asked`) when this table was last
    /// searched for a merge and none was found. The table is searched again once there were more
    /// requests.
    merged_as_of: AtomicU64,
    /// The number of the picker's proposals that were refused, for the statistics, and the rewritings
    /// that gained nothing, so that they are not repeated.
    pub(super) picks: Picks,
    /// The runs that merges leave out for a while, because they could not be read.
    pub(super) left_out: LeftOut,
    /// The groups of keys in which the last parts of unfinished merges have ended, so that the next
    /// parts continue their measurement.
    pub(super) cut_groups: CutGroups,
    /// The lock for replacing the version, never held while doing I/O.
    replacing: Mutex<()>,
    /// Replaced versions of the table (lists of its memtables and runs) that may still be read.
    retired: Mutex<Vec<Arc<TableVersion>>>,
}

impl TableCore {
    pub(crate) fn new(
        database: u64,
        id: TableId,
        (keyspace, name): (&str, &str),
        lifetime: Lifetime,
        options: TableOptions,
        operators: &MergeOperators,
        version: TableVersion,
    ) -> Arc<Self> {
        let merger = Merger::new(
            format!("{keyspace}.{name}"),
            options.merge_operator.as_deref(),
            operators,
        )
        .with_prefixes(options.sstable.filter_prefix);
        Arc::new(Self {
            database,
            id,
            keyspace: keyspace.to_string(),
            name: name.to_string(),
            options: Published::from_pointee(options),
            merger: Arc::new(merger),
            version: Published::from_pointee(version),
            created_after: lifetime.created_after,
            dropped_after: AtomicU64::new(dropped_after(lifetime.dropped_after)),
            merged_as_of: AtomicU64::new(u64::MAX),
            picks: Picks::default(),
            left_out: LeftOut::default(),
            cut_groups: CutGroups::default(),
            replacing: Mutex::default(),
            retired: Mutex::default(),
        })
    }

    /// Returns the options with which the table was created, or altered last.
    pub(crate) fn options(&self) -> Arc<TableOptions> {
        self.options.load_full()
    }

    /// Sets the options of the SSTables that are written from now on.
    pub(super) fn set_sstable_options(&self, sstable: SsTableOptions) {
        self.options.store(Arc::new(TableOptions {
            sstable,
            merge_operator: self.options().merge_operator.clone(),
        }));
    }

    /// Returns the origin that a file of the table records for a repair: the table, and the
    /// sequence numbers `smallest_seq` to `largest_seq` (both included) of which the file has all
    /// versions that are still needed.
    pub(crate) fn origin(&self, (smallest_seq, largest_seq): (SeqNo, SeqNo)) -> Origin {
        Origin {
            keyspace: self.keyspace.clone(),
            table: self.name.clone(),
            created_after: self.created_after,
            smallest_seq,
            largest_seq,
            keys: None,
            merge_operator: self.options().merge_operator.clone(),
        }
    }

    /// Checks that operands can be merged into values of the table.
    ///
    /// # Errors
    /// `InvalidRequest` when the table was created without a merge operator.
    pub(crate) fn check_merges(&self) -> Result<()> {
        if self.options.load().merge_operator.is_some() {
            return Ok(());
        }
        Err(Error::InvalidRequest(format!(
            "table {}.{} has no merge operator; create it with one",
            self.keyspace, self.name
        )))
    }

    /// Returns the present version of the table, which stays readable for as long as the caller
    /// holds it.
    pub(crate) fn version(&self) -> Arc<TableVersion> {
        self.version.load_full()
    }

    /// Returns the present version of the table, for the duration of a lookup. If possible, this
    /// changes no reference count.
    pub(crate) fn peek(&self) -> PublishedGuard<TableVersion> {
        self.version.load()
    }

    /// Returns whether the table was dropped. Users who have opened a table before its drop can go on
    /// reading it.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped_after.load(Ordering::Relaxed) != NOT_DROPPED
    }

    /// Sets the last commit before the drop of the table: no later commit writes to the table.
    /// `None` takes a drop back. Called under the order lock of the commit queue, so that no commit
    /// gets a number meanwhile.
    pub(super) fn set_dropped(&self, last: Option<SeqNo>) {
        self.dropped_after
            .store(dropped_after(last), Ordering::Relaxed);
    }

    /// Returns the properties that decide which snapshots cover the table.
    pub(crate) fn span(&self) -> TableSpan<'_> {
        let dropped_after = self.dropped_after.load(Ordering::Relaxed);
        TableSpan {
            keyspace: &self.keyspace,
            id: self.id,
            lifetime: Lifetime {
                created_after: self.created_after,
                dropped_after: (dropped_after != NOT_DROPPED).then_some(SeqNo(dropped_after)),
            },
        }
    }

    /// Returns whether no merge was found when this table was last searched for one, and no search
    /// was requested since. `asked` is the present number of such requests.
    pub(super) fn is_merged_as_of(&self, asked: u64) -> bool {
        self.merged_as_of.load(Ordering::Relaxed) == asked
    }

    pub(super) fn set_merged_as_of(&self, asked: u64) {
        self.merged_as_of.store(asked, Ordering::Relaxed);
    }

    /// Checks that the table was not dropped. If the caller holds the order lock of the commit
    /// queue, the table cannot be dropped before the caller's commit has its sequence number.
    ///
    /// # Errors
    /// `NotFound` if the table was dropped.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_dropped() {
            let name = format!("{}.{}, which was dropped", self.keyspace, self.name);
            return Err(Error::not_found("table", name));
        }
        Ok(())
    }

    /// Releases everything that the table holds, its files included. Called when the manifest no
    /// longer names the files, and no reader has them.
    pub(super) fn discard(&self) {
        self.update(|version| {
            version.all_runs().for_each(|run| run.retire());
            Some(TableVersion::new(Memtable::default(), Vec::new()))
        });
        self.release_retired();
    }

    /// Returns whether the table, or one of its versions, has a user besides the caller.
    pub(super) fn is_held(self: &Arc<Self>) -> bool {
        self.release_retired() > 0
            || Arc::strong_count(self) > 1
            // One reference belongs to the table, one to this expression.
            || Arc::strong_count(&self.version()) > 2
    }

    /// Replaces the version by the result of `change`; `None` keeps it. Returns whether it was
    /// replaced.
    pub(crate) fn update(
        &self,
        change: impl FnOnce(&TableVersion) -> Option<TableVersion>,
    ) -> bool {
        let _replacing = self.replacing.lock().unwrap();
        let Some(next) = change(&self.version.load()) else {
            return false;
        };
        let old = self.version.swap(Arc::new(next));
        self.retired.lock().unwrap().push(old);
        true
    }

    /// Frees old versions that no reader holds, and with them the memtables and files that only
    /// they had. Returns the number of versions that are still held.
    ///
    /// A reader never frees a version: freeing a memtable of a hundred thousand entries, or
    /// removing a file, takes longer than many reads.
    pub(crate) fn release_retired(&self) -> usize {
        let mut retired = self.retired.lock().unwrap();
        let all = std::mem::take(&mut *retired);
        let (free, held) = all
            .into_iter()
            .partition(|version| Arc::strong_count(version) == 1);
        *retired = held;
        let left = retired.len();
        drop(retired);
        drop::<Vec<_>>(free);
        left
    }
}

fn dropped_after(last: Option<SeqNo>) -> u64 {
    last.map_or(NOT_DROPPED, |last| last.0)
}

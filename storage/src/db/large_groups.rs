//! Large groups: flushes and merges measure the groups that they write, and report large ones to
//! listeners.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::TableCore;
use crate::key::RunId;
use crate::read::MergeOperator;
use crate::sync::Mutex;

/// A group of keys ([`MergeOperator::group`](crate::MergeOperator::group)) of which a flush or a
/// merge has written more bytes than the limit of the listener. Other runs may have further keys of
/// the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeGroup<'a> {
    /// The name of the table's keyspace.
    pub keyspace: &'a str,
    /// The name, within its keyspace, of the table that has the keys of the group.
    pub table: &'a str,
    /// The prefix of the keys in the group.
    pub prefix: &'a [u8],
    /// Bytes of the keys and values that were written, before compression.
    pub bytes: u64,
}

type Callback = Arc<dyn Fn(&LargeGroup<'_>) + Send + Sync>;

/// A callback for groups of keys with more bytes than `above_bytes`.
#[derive(Clone)]
struct Listener {
    above_bytes: u64,
    callback: Callback,
}

#[derive(Default)]
pub(crate) struct GroupListeners(Mutex<Vec<Listener>>);

impl GroupListeners {
    pub(crate) fn add(
        &self,
        above_bytes: u64,
        callback: impl Fn(&LargeGroup<'_>) + Send + Sync + 'static,
    ) {
        let callback = Arc::new(callback);
        let listener = Listener {
            above_bytes,
            callback,
        };
        self.0.lock().unwrap().push(listener);
    }

    /// Returns a measurement of the groups of a table (keys with a common prefix, such as the rows
    /// of a partition); `None` if there is no listener, or this process has no merge operator for
    /// the table, because only an operator defines groups.
    pub(super) fn measure<'a>(&self, table: &'a TableCore) -> Option<GroupSizes<'a>> {
        let operator = table.merger.operator()?;
        let listeners = self.0.lock().unwrap().clone();
        (!listeners.is_empty()).then(|| GroupSizes {
            table,
            operator,
            listeners,
            prefix: Vec::new(),
            bytes: 0,
        })
    }
}

impl fmt::Debug for GroupListeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupListeners").finish_non_exhaustive()
    }
}

/// The sizes of a table's groups ([`MergeOperator::group`]: the keys with one prefix),
/// measured key by key while a flush or a merge writes them.
pub(super) struct GroupSizes<'a> {
    table: &'a TableCore,
    operator: &'a dyn MergeOperator,
    listeners: Vec<Listener>,
    /// The prefix of the group that the last key is in; empty if the key is in no group.
    prefix: Vec<u8>,
    /// The bytes that were written so far of the group that the last key is in: of all keys with
    /// its `prefix`.
    bytes: u64,
}

/// A group (keys with a common prefix) in which a part of a merge has ended: the next part of the
/// merge goes on within the group.
#[derive(Debug, Clone)]
pub(super) struct CutGroup {
    prefix: Vec<u8>,
    /// The bytes of the group's keys and values that the parts of the merge have written so far.
    bytes: u64,
}

/// For each unfinished merge of a table whose last part has ended within a group: this group, by
/// the run that has the output of the merge so far. The next part continues the measurement, so a
/// group that several parts write is measured as a whole. The groups are in memory only: after a
/// restart, the measurement of such a group begins anew.
#[derive(Debug, Default)]
pub(super) struct CutGroups(Mutex<BTreeMap<RunId, CutGroup>>);

impl CutGroups {
    /// Returns the group in which the last part of a merge has ended; `None` if it has ended
    /// between two groups. `output` is the run with the output of the merge so far, if there is
    /// one.
    pub(super) fn of(&self, output: Option<RunId>) -> Option<CutGroup> {
        let output = output?;
        self.0.lock().unwrap().get(&output).cloned()
    }

    /// Notes that a part of a merge has ended in the group `cut`, or between two groups (`None`).
    /// `output` is the run with the output of the merge so far. Forgets the groups of merges whose
    /// output the table no longer has: `is_there` returns whether the table has a run now. It is
    /// called while the groups are locked.
    pub(super) fn note(
        &self,
        output: RunId,
        cut: Option<CutGroup>,
        is_there: impl Fn(RunId) -> bool,
    ) {
        let mut all = self.0.lock().unwrap();
        all.retain(|run, _| *run != output && is_there(*run));
        all.extend(cut.map(|cut| (output, cut)));
    }
}

impl GroupSizes<'_> {
    /// Continues the measurement of a group in which the part before has ended. Must be called
    /// before the first key is added.
    pub(super) fn go_on_in(&mut self, group: CutGroup) {
        (self.prefix, self.bytes) = (group.prefix, group.bytes);
    }

    /// Ends the measurement of the group of the last key without a report, and returns the group,
    /// if `next`, the key at which the next part begins, is in it, too. Otherwise returns `None`.
    pub(super) fn cut_before(&mut self, next: &[u8]) -> Option<CutGroup> {
        let is_cut = !self.prefix.is_empty() && next.starts_with(&self.prefix);
        is_cut.then(|| CutGroup {
            prefix: std::mem::take(&mut self.prefix),
            bytes: std::mem::take(&mut self.bytes),
        })
    }

    /// Adds the bytes that were written of a key. Keys ascend.
    pub(super) fn add(&mut self, key: &[u8], bytes: u64) {
        // Most keys are in the group of the key before: this saves a call of the operator.
        if !self.prefix.is_empty() && key.starts_with(&self.prefix) {
            self.bytes += bytes;
            return;
        }
        self.end_group();
        if let Some(group) = self.operator.group(key) {
            self.prefix.extend_from_slice(group.prefix);
            self.bytes = bytes;
        }
    }

    /// Ends the group of keys that is being measured, and reports it to the listeners whose limit
    /// it exceeds.
    pub(super) fn end_group(&mut self) {
        let large = LargeGroup {
            keyspace: &self.table.keyspace,
            table: &self.table.name,
            prefix: &self.prefix,
            bytes: std::mem::take(&mut self.bytes),
        };
        for listener in &self.listeners {
            if large.bytes > listener.above_bytes {
                (listener.callback)(&large);
            }
        }
        self.prefix.clear();
    }
}

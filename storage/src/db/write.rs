//! The write path: from a batch to visible operations.

use std::sync::Arc;

use bytes::Bytes;

use super::{Engine, TableCore};
use crate::commit::{Op, OpReader, Payload, Place, Ticket, WriteSet};
use crate::error::{Error, Result};
use crate::key::{ReadPoint, SeqNo, TableId};
use crate::memtable::Memtable;
use crate::meter::RequestKind;
use crate::mutation::{self, Mutation};
use crate::options::{Durability, WriteOptions};
use crate::wal::Position;

/// A commit of more bytes than this joins no group: its own thread waits for the sync of the log
/// and inserts the commit into the memtables, in parallel with other threads. For a smaller commit,
/// waking its thread would cost more than inserting the commit does.
const GROUPED_BYTES_MAX: usize = 64 << 10;

/// The encoded operations of a commit, with the memtables that they are inserted into.
#[derive(Debug)]
struct Insertion {
    payload: Bytes,
    /// The memtables of all tables that the commit writes to.
    memtables: Vec<(TableId, Arc<Memtable>)>,
    first: SeqNo,
}

/// A commit that waits in a group for the sync of the log.
#[derive(Debug)]
pub(super) struct Member {
    position: Position,
    place: Place,
    insertion: Insertion,
}

impl Engine {
    /// Commits writes to these tables. They are visible, and as durable as the options require,
    /// when this returns.
    pub(crate) fn write(
        &self,
        payload: Payload,
        tables: &[Arc<TableCore>],
        options: WriteOptions,
    ) -> Result<()> {
        if payload.len() == 0 {
            return payload.finish(0).map(drop);
        }
        self.write_if(payload, tables, options, |_| Ok(()))
            .map(drop)
    }

    /// Commits a payload that has operations, unless `check` returns an error. While transactions
    /// are open, calls `check` with the keys that the operations write, under the order lock of the
    /// commit queue. While none is open, there can be no conflict, and `check` is not called.
    /// Returns the sequence number of the last operation.
    pub(crate) fn write_if(
        &self,
        payload: Payload,
        tables: &[Arc<TableCore>],
        options: WriteOptions,
        check: impl FnOnce(&WriteSet) -> Result<()>,
    ) -> Result<SeqNo> {
        self.check_access()?;
        let begun = self.metering.begin();
        let encoded = payload.finish(self.now_ms())?;
        self.admit_write(tables, encoded.0.len())?;
        let last = self.commit(encoded, tables, options, check)?;
        self.metering.end(RequestKind::Write, begun, 0);
        Ok(last)
    }

    /// Commits `count` encoded operations, unless `check` (see [`Self::write_if`]) returns an
    /// error. The caller has called `admit_write`. Returns the sequence number of the last
    /// operation. After a [`DiskFull`](crate::Error::DiskFull) nothing is committed.
    pub(super) fn commit(
        &self,
        (payload, count): (Bytes, u32),
        tables: &[Arc<TableCore>],
        options: WriteOptions,
        check: impl FnOnce(&WriteSet) -> Result<()>,
    ) -> Result<SeqNo> {
        // Decoded here if possible, because all commits share the order lock. Whether it is needed
        // is only certain under the lock: a transaction may begin in between.
        let write_set = self.conflicts.is_needed().then(|| WriteSet::of(&payload));
        let (ticket, (position, memtables, pruned)) =
            self.queue.try_enter(u64::from(count), |first| {
                // Under the order lock no table is dropped until this commit has its number. The checks
                // come before all effects: a refused commit gets no number, and must leave nothing.
                mutation::unless(Mutation::WriteToDroppedTables, || {
                    tables.iter().try_for_each(|table| table.check_writable())
                })?;
                let write_set = self
                    .conflicts
                    .is_needed()
                    .then(|| write_set.unwrap_or_else(|| WriteSet::of(&payload)));
                if let Some(write_set) = &write_set
                    && !mutation::is(Mutation::SkipConflictCheck)
                {
                    check(write_set)?;
                }
                // Memtables are frozen under the order lock, too. So the open memtable of each
                // table is the one for this number, although the commit is inserted later. The segment is
                // read and noted before the push: afterwards another thread may write the record and begin
                // the next segment, and a trim could remove the segment with the record.
                let segment = self.wal.segment_number();
                let pin = |table: &Arc<TableCore>| {
                    let memtable = table.peek().memtable.clone();
                    memtable.note_segment(segment);
                    (table.id, memtable)
                };
                let memtables: Vec<_> = tables.iter().map(pin).collect();
                let position = self.wal.push(first, count, &payload);
                // The next commit is checked against this one before its outcome is known. If it fails,
                // a transaction may be refused without need, which is safe.
                let pruned = write_set.map(|write_set| self.conflicts.record(first, write_set));
                Ok::<_, Error>((position, memtables, pruned))
            })?;
        // Freed without the order lock.
        drop(pruned);
        let insertion = Insertion {
            payload,
            memtables,
            first: ticket.first(),
        };
        let last = ticket.last();
        if self.syncs(options) && insertion.payload.len() <= GROUPED_BYTES_MAX {
            self.commit_in_group(ticket, position, insertion)?;
        } else {
            // Inserted only now: a record that is refused must not be in a memtable. After an error
            // the ticket is dropped, so that later commits do not wait for its numbers.
            self.make_durable(position, options)?;
            self.insert(insertion);
            ticket.publish();
        }
        self.counters.writes.add(1);
        self.counters.operations_written.add(u64::from(count));
        self.after_commit(tables);
        Ok(last)
    }

    /// Commits as a member of a group: one thread syncs the log for all commits that wait for the
    /// disk, inserts them into the memtables, and makes them visible.
    fn commit_in_group(
        &self,
        ticket: Ticket<'_>,
        position: Position,
        insertion: Insertion,
    ) -> Result<()> {
        let last = ticket.last();
        let seat = self.groups.join(Member {
            position,
            place: ticket.place(),
            insertion,
        });
        let outcome = self.groups.wait(
            seat,
            |members| self.sync_members(members),
            |synced| self.insert_members(synced),
        );
        ticket.was_finished();
        outcome?;
        if !mutation::is(Mutation::ReturnBeforeVisible) {
            self.queue.wait_visible(last);
        }
        Ok(())
    }

    fn sync_members(&self, members: Vec<Member>) -> Vec<(Place, Insertion, Result<()>)> {
        let (mut positions, mut rest) = (Vec::new(), Vec::new());
        for member in members {
            positions.push(member.position);
            rest.push((member.place, member.insertion));
        }
        let synced = self.wal.sync_group(positions).into_iter();
        let rest = rest.into_iter().zip(synced);
        rest.map(|((place, insertion), synced)| (place, insertion, synced))
            .collect()
    }

    /// Inserts the commits whose records are durable into their memtables. Drops the commits whose
    /// sync failed. Marks all as finished, and returns the outcome of each commit.
    fn insert_members(&self, synced: Vec<(Place, Insertion, Result<()>)>) -> Vec<Result<()>> {
        let (mut places, mut results) = (Vec::new(), Vec::new());
        for (place, insertion, synced) in synced {
            if synced.is_ok() {
                self.insert(insertion);
            }
            places.push(place);
            results.push(synced);
        }
        self.queue.finish(places);
        results
    }

    /// Puts a commit's operations into their memtables.
    fn insert(&self, insertion: Insertion) {
        mutation::linger(&[
            Mutation::VisibleAtEntry,
            Mutation::PublishOutOfOrder,
            Mutation::FlushDoesNotWait,
            Mutation::BeginAtVisible,
            Mutation::ReturnBeforeVisible,
        ]);
        let Insertion {
            payload,
            // The memtables are released before the commit is visible, so that a later flush frees
            // them.
            memtables,
            first,
        } = insertion;
        let memtable_of = |table: TableId| {
            let found = memtables.iter().find(|(id, _)| *id == table);
            &found.expect("a batch names its tables").1
        };
        let mut bytes = 0;
        for item in OpReader::new(&payload, first) {
            match item {
                Ok((
                    seq,
                    Op::Write {
                        table,
                        kind,
                        key,
                        value,
                    },
                )) => {
                    bytes += key.len() + value.len();
                    memtable_of(table).insert_of(&payload, key, seq, kind, value);
                }
                Ok((seq, Op::RangeDelete { table, range })) => {
                    memtable_of(table).delete_range(&range, seq);
                }
                _ => unreachable!("a batch encodes writes only, and what it encodes reads back"),
            }
        }
        self.counters.user_bytes_written.add(bytes as u64);
        self.metering.note_written(bytes);
    }

    /// Begins a transaction: registers it, and a view, at the last sequence number that a commit
    /// has taken. Returns the view's point once that number is visible.
    ///
    /// Commits under way already have numbers. Some of them may have entered the commit queue
    /// while there was no transaction, so they did not record their keys for conflict checks. A
    /// transaction that reads at the *visible* number would miss conflicts with them. So the
    /// transaction reads after them: it waits for them, and cannot be in conflict with them.
    pub(crate) fn begin_transaction(&self) -> ReadPoint {
        let at = self.queue.pause(|next| {
            let last = SeqNo(next.0 - 1);
            let last = mutation::replace(last, Mutation::BeginAtVisible, self.queue.visible());
            self.conflicts.begin(last);
            self.snapshots.register_view(|| ReadPoint {
                seq: last,
                read_time_ms: self.now_ms(),
            })
        });
        self.queue.wait_visible(at.seq);
        at
    }

    /// Commits an operation on the list of snapshots, and returns its sequence number. Calls
    /// `register` under the order lock of the commit queue. Then calls `apply` once the operation
    /// is in the log, before the operation is visible. If writing or syncing the log fails, calls
    /// `undo` instead of `apply`.
    pub(super) fn commit_record(
        &self,
        payload: &[u8],
        register: impl FnOnce(SeqNo),
        undo: impl FnOnce(),
        apply: impl FnOnce(SeqNo),
    ) -> Result<SeqNo> {
        self.check_access()?;
        let (ticket, position) = self.queue.enter(1, |seq| {
            register(seq);
            self.wal.push(seq, 1, payload)
        });
        // Before the ticket is dropped: a thread that waited until this commit was decided must
        // find nothing of a failed one.
        let durable = self.make_durable(position, WriteOptions::default());
        durable.inspect_err(|_| {
            if !mutation::is(Mutation::KeepRefusedBookmarks) {
                undo();
            }
        })?;
        let seq = ticket.first();
        apply(seq);
        ticket.publish();
        Ok(seq)
    }

    pub(super) fn make_durable(&self, position: Position, options: WriteOptions) -> Result<()> {
        if self.syncs(options) {
            self.wal.sync_to(position)
        } else {
            let write = || self.wal.write_to(position);
            mutation::unless(Mutation::AcknowledgeWithoutWrite, write)
        }
    }

    /// Returns whether a write is acknowledged only once it survives a crash of the machine.
    fn syncs(&self, options: WriteOptions) -> bool {
        (options.sync || self.options.durability == Durability::Sync)
            && !mutation::is(Mutation::AcknowledgeWithoutSync)
    }
}

//! Creating, renewing and deleting named snapshots, and holds of them.

use std::time::Duration;

use super::Engine;
use super::catalog::check_name;
use super::events::Event;
use super::tables::unknown_keyspace;
use crate::commit::encode_snapshot;
use crate::error::{Error, Result};
use crate::key::{ReadPoint, SeqNo, TableId};
use crate::options::{HoldOptions, SnapshotOptions};
use crate::snapshots::{Bookmark, CoveredTable, SnapshotExpiry, SnapshotOp, SnapshotRecord};

/// The beginning of the names of holds ([`HoldOptions`]). The name of a snapshot cannot contain a
/// slash, so no snapshot has the name of a hold.
const HOLD_PREFIX: &str = "hold/";

/// The latest time at which a snapshot can expire, the end of the year 9999. Snapshots are listed with
/// their times in RFC 3339, which has no later year.
const EXPIRY_MS_MAX: u64 = 253_402_300_799_999;

/// Returns the name under which a hold ([`HoldOptions`]) is recorded, which no other snapshot can
/// have.
pub(crate) fn hold_name(name: &str) -> String {
    format!("{HOLD_PREFIX}{name}")
}

impl Engine {
    /// Creates a snapshot of a keyspace, or of one table of it, by a commit like any other: nothing is
    /// flushed, and other commits wait for it no longer than for any commit before them. Returns the
    /// sequence number of that commit.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] if a snapshot of this name has not expired; [`Error::NotFound`] if the
    /// keyspace or the table does not exist; [`Error::InvalidRequest`] for an invalid name; the errors
    /// of a write.
    pub(crate) fn create_snapshot(
        &self,
        keyspace: &str,
        name: &str,
        options: &SnapshotOptions,
    ) -> Result<SeqNo> {
        check_name("snapshot", name)?;
        self.check_space(0)?;
        let mut last_id = self.snapshot_ops.lock().unwrap();
        match self.snapshots.find(keyspace, name) {
            // Nothing has deleted the expired snapshot yet; its name is free all the same.
            Some(old) if old.record.has_expired(self.now_ms()) => {
                self.expire(&[old])?;
            }
            Some(_) => {
                return Err(Error::AlreadyExists {
                    what: "snapshot",
                    name: name.to_string(),
                });
            }
            None => {}
        }
        // Neither keyspace nor table is dropped meanwhile: a drop takes `snapshot_ops`.
        let table = {
            let catalog = self.catalog.read().unwrap();
            if !catalog.has_keyspace(keyspace) {
                return Err(unknown_keyspace(keyspace));
            }
            let covered = |name: &String| -> Result<CoveredTable> {
                let found = catalog.table(keyspace, name);
                let table = found.ok_or_else(|| Error::not_found("table", name))?;
                Ok(CoveredTable {
                    id: table.id,
                    name: name.clone(),
                })
            };
            options.table.as_ref().map(covered).transpose()?
        };
        // The id stays used if the commit fails: its record may be in the log all the same.
        *last_id += 1;
        // Readers of the snapshot judge the expiry of values by this time. A merge that begins before the
        // bookmark exists must not drop a value that expires in between. So a view with this time, above
        // all commits, stands in for the bookmark.
        let point = || ReadPoint {
            seq: SeqNo::MAX,
            read_time_ms: self.now_ms(),
        };
        let view = self.snapshots.register_view(point);
        let record = SnapshotRecord {
            id: *last_id,
            keyspace: keyspace.to_string(),
            name: name.to_string(),
            table,
            created_ms: view.read_time_ms,
            expires_ms: options
                .expires_in
                .map(|time| after(view.read_time_ms, time)),
            held_for: None,
            at: None,
        };
        let outcome = self.commit_bookmark(record);
        self.snapshots.release_view(view);
        let seq = outcome?;
        // `after_commit` may lock `flushing`, which is locked before `snapshot_ops`, and under
        // `Maintenance::Manual` it deletes expired snapshots, which locks `snapshot_ops`.
        drop(last_id);
        if options.expires_in.is_some() {
            self.signal.look_at_the_time();
        }
        self.after_commit(&[]);
        Ok(seq)
    }

    /// Creates a hold ([`HoldOptions`]) of one table in a snapshot, in place of an earlier hold of
    /// that name.
    ///
    /// The hold is recorded while the snapshot exists, under the lock that a deletion of the
    /// snapshot takes. So at every moment, also during a replay of the log, the snapshot or the
    /// hold protects the versions of its commit from merges.
    pub(crate) fn hold_snapshot(
        &self,
        keyspace: &str,
        snapshot: &str,
        hold: &HoldOptions,
    ) -> Result<()> {
        check_name("hold", &hold.name)?;
        self.check_space(0)?;
        let name = hold_name(&hold.name);
        let mut last_id = self.snapshot_ops.lock().unwrap();
        let now_ms = self.now_ms();
        let held = self.snapshots.find_live(keyspace, snapshot, now_ms)?;
        let table = {
            // The table is not dropped meanwhile: a drop takes `snapshot_ops`.
            let table = self.find_table(keyspace, &hold.table)?;
            if !held.covers(table.span()) {
                let missing = format!("{} in snapshot {snapshot}", hold.table);
                return Err(Error::not_found("table", missing));
            }
            CoveredTable {
                id: table.id,
                name: hold.table.clone(),
            }
        };
        if let Some(before) = self.snapshots.find(keyspace, &name) {
            if before.record.id == held.record.id {
                // The earlier hold is deleted before the new one is recorded. Here it is also the
                // source, and in between no bookmark might stand at the commit.
                return Err(Error::InvalidRequest(format!(
                    "hold {} cannot be made of itself; choose another name",
                    hold.name
                )));
            }
            // First, because a name has one bookmark at a time, also in the log. If the commit below
            // fails, no hold of this name is left: holders have to go on without one in any case.
            self.delete_bookmarks(&[before.record.id])?;
        }
        *last_id += 1;
        let record = SnapshotRecord {
            id: *last_id,
            keyspace: keyspace.to_string(),
            name,
            table: Some(table),
            // Readers of the hold judge expiry by the same time as those of the snapshot.
            created_ms: held.record.created_ms,
            expires_ms: hold.expires_in.map(|time| after(now_ms, time)),
            held_for: Some(hold.held_for.clone()),
            at: Some(held.seq),
        };
        self.commit_bookmark(record)?;
        // Unlocked here, because `after_commit` may lock `snapshot_ops` itself, and `flushing`,
        // which is locked before it.
        drop(last_id);
        if hold.expires_in.is_some() {
            self.signal.look_at_the_time();
        }
        self.after_commit(&[]);
        Ok(())
    }

    /// Commits the creation of a snapshot or a hold, and returns the sequence number of that commit.
    /// The caller holds the lock `snapshot_ops`.
    fn commit_bookmark(&self, record: SnapshotRecord) -> Result<SeqNo> {
        let (id, create) = (record.id, SnapshotOp::Create(record));
        self.commit_record(
            &encode_snapshot(&create),
            |seq| self.snapshots.apply(seq, create),
            || self.snapshots.retract_bookmark(id),
            |_| (),
        )
    }

    /// Sets the time until a snapshot expires, counted from now; `None` for never.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no snapshot of this name, or it has expired; the errors of a
    /// write.
    pub(crate) fn set_snapshot_expiry(
        &self,
        keyspace: &str,
        name: &str,
        expires_in: Option<Duration>,
    ) -> Result<()> {
        let one = self.snapshot_ops.lock().unwrap();
        let now_ms = self.now_ms();
        let bookmark = self.snapshots.find_live(keyspace, name, now_ms)?;
        let expiry = SnapshotOp::Expiry(SnapshotExpiry {
            id: bookmark.record.id,
            expires_ms: expires_in.map(|time| after(now_ms, time)),
        });
        self.commit_record(
            &encode_snapshot(&expiry),
            |_| (),
            || (),
            |seq| self.snapshots.apply(seq, expiry),
        )?;
        drop(one);
        self.signal.look_at_the_time();
        self.after_commit(&[]);
        Ok(())
    }

    /// Deletes a snapshot. Its open readers go on; compaction frees the space.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none of this name, it has expired, or, if `at` is given,
    /// it shows the state of another commit.
    pub(crate) fn delete_snapshot(
        &self,
        keyspace: &str,
        name: &str,
        at: Option<SeqNo>,
    ) -> Result<()> {
        let one = self.snapshot_ops.lock().unwrap();
        let bookmark = self.snapshots.find_live(keyspace, name, self.now_ms())?;
        if let Some(at) = at
            && bookmark.seq != at
        {
            let missing = format!("{name} at commit {}", at.0);
            return Err(Error::not_found("snapshot", missing));
        }
        self.delete_bookmarks(&[bookmark.record.id])?;
        drop(one);
        self.after_commit(&[]);
        Ok(())
    }

    /// Deletes the snapshots that are past their time, and all holds ([`HoldOptions`]) once the
    /// free space comes near to the low-water mark. Returns whether any was deleted.
    pub(super) fn delete_expired_snapshots(&self) -> Result<bool> {
        let first = self.snapshots.next_expiry_ms();
        let is_short = self.is_near_low_water();
        if !is_short && first.is_none_or(|first| first > self.now_ms()) {
            return Ok(false);
        }
        let _one = self.snapshot_ops.lock().unwrap();
        // A snapshot that was renewed meanwhile is not among them.
        let now_ms = self.now_ms();
        let goes =
            |it: &SnapshotRecord| it.has_expired(now_ms) || (is_short && it.held_for.is_some());
        let going = self.snapshots.bookmarks_where(goes);
        if going.is_empty() {
            return Ok(false);
        }
        self.expire(&going).map(|()| true)
    }

    /// Deletes holds ([`HoldOptions`]) and expired snapshots, and reports the snapshots. The caller
    /// holds the lock `snapshot_ops`.
    ///
    /// Reports each snapshot while the lock is held, before another snapshot can take its name: a
    /// later event would look like the end of the new snapshot. So `Db::on_event` forbids listeners
    /// to call the database.
    fn expire(&self, going: &[Bookmark]) -> Result<()> {
        let ids: Vec<u64> = going.iter().map(|bookmark| bookmark.record.id).collect();
        let deleted = self.delete_bookmarks(&ids);
        // After a failure some may be there still; the next try reports them.
        let left = self.snapshots.bookmarks_where(|it| ids.contains(&it.id));
        let is_snapshot = |it: &&Bookmark| it.record.held_for.is_none();
        for gone in going.iter().filter(is_snapshot) {
            if !left.contains(gone) {
                self.events.tell(Event::SnapshotExpired {
                    keyspace: &gone.record.keyspace,
                    name: &gone.record.name,
                });
            }
        }
        deleted
    }

    /// Deletes the snapshots with these ids, and forgets the dropped tables that only they kept.
    /// The caller holds the lock `snapshot_ops`.
    fn delete_bookmarks(&self, ids: &[u64]) -> Result<()> {
        for id in ids {
            self.remove_bookmark(*id)?;
        }
        self.signal.compact();
        match self.forget_uncovered_tables() {
            // The snapshots are deleted; the next deletion or opening tries
            // again.
            Ok(()) | Err(Error::DiskFull { .. }) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Releases the holds of a table ([`HoldOptions`]), before the table is dropped, or data of it
    /// is given up as lost. The caller holds the lock `snapshot_ops`.
    pub(super) fn release_holds_of(&self, table: TableId) -> Result<()> {
        let is_of = |it: &SnapshotRecord| {
            let held = it.table.as_ref().map(|only| only.id);
            it.held_for.is_some() && held == Some(table)
        };
        for hold in self.snapshots.bookmarks_where(is_of) {
            self.remove_bookmark(hold.record.id)?;
        }
        Ok(())
    }

    /// Releases the holds ([`HoldOptions`]) of a table before data of it is given up as lost. A
    /// holder compares later snapshots with the held one, and would not notice data that both lack.
    /// The caller holds the lock `snapshot_ops`.
    pub(super) fn release_holds_before_loss(&self, table: TableId) -> Result<()> {
        self.release_holds_of(table)?;
        // A power loss must not bring a hold back beside the loss, nor one that went earlier.
        self.wal.sync_all()
    }

    /// Commits the deletion of a snapshot. The caller holds the lock `snapshot_ops`.
    pub(super) fn remove_bookmark(&self, id: u64) -> Result<()> {
        let deleted = self.with_reserve(|| {
            let delete = SnapshotOp::Delete(id);
            self.commit_record(
                &encode_snapshot(&delete),
                |_| (),
                || (),
                |seq| self.snapshots.apply(seq, delete),
            )
        });
        deleted.map(drop)
    }

    /// Returns the snapshots of a keyspace, oldest first, without those that are past their time,
    /// and without holds ([`HoldOptions`]).
    pub(crate) fn snapshots_of(&self, keyspace: &str) -> Vec<Bookmark> {
        let mut list = self.bookmarks_of(keyspace);
        list.retain(|bookmark| bookmark.record.held_for.is_none());
        list
    }

    /// Returns the holds in a keyspace ([`HoldOptions`]), oldest first, without those that are past
    /// their time.
    pub(crate) fn holds_of(&self, keyspace: &str) -> Vec<Bookmark> {
        let mut list = self.bookmarks_of(keyspace);
        list.retain(|bookmark| bookmark.record.held_for.is_some());
        list
    }

    fn bookmarks_of(&self, keyspace: &str) -> Vec<Bookmark> {
        let now_ms = self.now_ms();
        self.snapshots
            .bookmarks_where(|it| it.keyspace == keyspace && !it.has_expired(now_ms))
    }

    /// Returns a snapshot that is not past its time.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none of this name, or it has expired.
    pub(crate) fn find_snapshot(&self, keyspace: &str, name: &str) -> Result<Bookmark> {
        self.snapshots.find_live(keyspace, name, self.now_ms())
    }
}

/// Returns `now_ms` plus `time`, in milliseconds since the Unix epoch, but at most
/// [`EXPIRY_MS_MAX`].
fn after(now_ms: u64, time: Duration) -> u64 {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    now_ms.saturating_add(ms).min(EXPIRY_MS_MAX)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::simulation::MemDisk;
    use crate::{Maintenance, ManualClock, Options};

    /// Regression: the end of an expired snapshot was reported after another one could take its name,
    /// and looked like the end of the new one to clients that list snapshots as keyspaces.
    #[test]
    fn an_expired_snapshot_is_reported_before_another_one_can_take_its_name() {
        let clock = ManualClock::at_ms(1_000_000);
        let options = Options {
            disk: Arc::new(MemDisk::new()),
            maintenance: Maintenance::Manual,
            clock: Arc::new(clock.clone()),
            ..Options::default()
        };
        let engine = Engine::open(Path::new("/db"), options).unwrap();
        engine.open_or_create_keyspace("app").unwrap();
        let (sender, locked) = channel();
        let weak = Arc::downgrade(&engine);
        engine.events.add(move |event| {
            if let (Event::SnapshotExpired { .. }, Some(engine)) = (event, weak.upgrade()) {
                let is_locked = engine.snapshot_ops.try_lock().is_err();
                sender.send(is_locked).unwrap();
            }
        });
        let options = SnapshotOptions {
            table: None,
            expires_in: Some(Duration::from_secs(1)),
        };
        engine.create_snapshot("app", "s", &options).unwrap();
        clock.advance_ms(1000);
        assert!(engine.delete_expired_snapshots().unwrap());
        assert!(locked.try_iter().eq([true]));
    }
}

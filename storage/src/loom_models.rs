//! Every interleaving of the small pieces where threads meet, explored by loom.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p ebb-storage --release --lib loom_`
//!
//! Each model states its property and drives the engine's own pieces. Beside it
//! stands a variant that breaks the protocol in the way that suggests itself,
//! and must fail: a model that cannot fail proves nothing. With more than
//! [`PREEMPTIONS_MAX`] forced switches between threads nothing is explored;
//! `LOOM_MAX_PREEMPTIONS` asks for more.

mod transactions;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

use crate::boundaries::{Boundaries, ReadPoint};
use crate::commit::CommitQueue;
use crate::compaction::Retain;
use crate::files::FileNumber;
use crate::key::{Kind, SeqNo};
use crate::merge_operator::MergeOperators;
use crate::merger::Merger;
use crate::retention::{Bookmarks, Retention, SnapshotRecord};
use crate::sstable::Version;
use crate::version::TableId;
use crate::vfs::{LockGuard, ReadFile, SyncFile, Vfs, WriteFile};
use crate::wal::{Lsn, Wal};

const PREEMPTIONS_MAX: usize = 3;

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS_MAX);
    builder.check(model);
}

// Visibility.

/// A queue, and a memtable that knows of each number whether it was inserted.
struct Commits {
    queue: CommitQueue,
    inserted: [AtomicBool; 7],
    /// What the broken variant reads up to.
    newest: AtomicU64,
}

impl Commits {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: CommitQueue::new(SeqNo(0)),
            inserted: Default::default(),
            newest: AtomicU64::new(0),
        })
    }

    /// A batch of two.
    fn write(&self) {
        let (ticket, first) = self.queue.enter(2, |first| first);
        for seq in [first, first.next()] {
            self.inserted[seq.0 as usize].store(true, Ordering::Relaxed);
        }
        self.newest.store(first.next().0, Ordering::Release);
        ticket.publish();
        assert!(self.queue.visible() >= first.next(), "reads its own writes");
    }

    fn assert_whole(&self, visible: u64) {
        assert!(visible.is_multiple_of(2), "half a batch is visible");
        for seq in 1..=visible as usize {
            let inserted = self.inserted[seq].load(Ordering::Relaxed);
            assert!(inserted, "{seq} of {visible} is visible and not there");
        }
    }
}

/// Writers finish in any order; whoever reads at `visible()` finds all that is
/// numbered up to there.
#[test]
fn loom_a_reader_sees_each_batch_whole() {
    explore(|| {
        let commits = Commits::new();
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let commits = commits.clone();
                thread::spawn(move || commits.write())
            })
            .collect();
        commits.assert_whole(commits.queue.visible().0);
        for writer in writers {
            writer.join().unwrap();
        }
        commits.assert_whole(commits.queue.visible().0);
        assert_eq!(commits.queue.visible(), SeqNo(4));
    });
}

/// Broken: a writer makes its own number visible, whoever is before it.
#[test]
#[should_panic(expected = "is visible and not there")]
fn loom_publishing_out_of_order_is_caught() {
    explore(|| {
        let commits = Commits::new();
        for _ in 0..2 {
            let commits = commits.clone();
            thread::spawn(move || commits.write());
        }
        commits.assert_whole(commits.newest.load(Ordering::Acquire));
    });
}

/// A commit that fails gives its place up; the one behind it becomes visible.
#[test]
fn loom_an_abandoned_commit_holds_nobody_up() {
    explore(|| {
        let commits = Commits::new();
        let failing = {
            let commits = commits.clone();
            thread::spawn(move || drop(commits.queue.enter(2, |_| ())))
        };
        let (ticket, last) = commits.queue.enter(1, |first| first);
        ticket.publish();
        assert!(commits.queue.visible() >= last);
        failing.join().unwrap();
        assert_eq!(commits.queue.visible(), SeqNo(3));
    });
}

/// Broken: a commit that fails keeps its place.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_place_kept_for_ever_is_caught() {
    explore(|| {
        let commits = Commits::new();
        let failing = {
            let commits = commits.clone();
            thread::spawn(move || std::mem::forget(commits.queue.enter(2, |_| ())))
        };
        commits.queue.enter(1, |_| ()).0.publish();
        failing.join().unwrap();
    });
}

// What is kept.

const TABLE: TableId = TableId(1);

/// One key of one table. Every write makes a version of it; `versions` is where
/// readers look, memtable and runs in one.
struct OneKey {
    queue: CommitQueue,
    retention: Retention,
    versions: Mutex<Vec<SeqNo>>,
}

impl OneKey {
    /// With version 1 written.
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: CommitQueue::new(SeqNo(1)),
            retention: Retention::new(Bookmarks::default()),
            versions: Mutex::new(vec![SeqNo(1)]),
        })
    }

    fn write(&self) {
        let (ticket, seq) = self.queue.enter(1, |first| first);
        self.versions.lock().unwrap().push(seq);
        ticket.publish();
    }

    /// The input of a flush: all versions up to a number that is decided.
    fn fix_input(&self) -> Vec<SeqNo> {
        let end = self.queue.pause(|next| SeqNo(next.0 - 1));
        self.queue.wait_visible(end);
        let mut input = self.versions.lock().unwrap().clone();
        input.retain(|seq| *seq <= end);
        input
    }

    /// The rest of a flush: keeps what the boundaries ask for, drops the others.
    fn install(&self, input: &[SeqNo], boundaries: &Boundaries) {
        let mut kept: Vec<_> = input
            .iter()
            .map(|&seq| Version {
                seq,
                kind: Kind::Put,
                value: bytes::Bytes::new(),
            })
            .collect();
        kept.sort_by_key(|version| std::cmp::Reverse(version.seq));
        let merger = Merger::new("app.users".into(), None, &MergeOperators::none());
        let retain = Retain {
            boundaries,
            merger: &merger,
        };
        retain.versions(b"k", &mut kept, &[], true);
        let kept = |seq: &SeqNo| kept.iter().any(|version| version.seq == *seq);
        let mut versions = self.versions.lock().unwrap();
        versions.retain(|seq| !input.contains(seq) || kept(seq));
    }

    fn flush(&self) {
        let input = self.fix_input();
        self.install(&input, &self.retention.boundaries(TABLE, 0));
    }

    fn newest_at(&self, at: SeqNo) -> Option<SeqNo> {
        let versions = self.versions.lock().unwrap();
        versions.iter().copied().filter(|seq| *seq <= at).max()
    }
}

fn record() -> SnapshotRecord {
    SnapshotRecord {
        id: 1,
        keyspace: "app".into(),
        name: "s".into(),
        tables: vec![("users".into(), TABLE)],
        single_table: false,
        created_ms: 0,
        expires_ms: None,
    }
}

/// A snapshot is created while a writer and a flush are under way.
fn snapshot_beside_a_flush(create: impl Fn(&OneKey) -> SeqNo + Copy + Send + Sync + 'static) {
    explore(move || {
        let key = OneKey::new();
        let writer = {
            let key = key.clone();
            thread::spawn(move || key.write())
        };
        let flush = {
            let key = key.clone();
            thread::spawn(move || key.flush())
        };
        let snapshot = create(&key);
        writer.join().unwrap();
        flush.join().unwrap();
        // The writer's version is 2 or 3, the snapshot's number the other.
        let expected = if snapshot == SeqNo(3) { 2 } else { 1 };
        assert_eq!(
            key.newest_at(snapshot),
            Some(SeqNo(expected)),
            "the version of the snapshot at {snapshot} is gone"
        );
    });
}

/// What a snapshot sees is there when its creation returns and stays, whatever
/// was under way.
#[test]
fn loom_a_flush_keeps_what_a_snapshot_created_meanwhile_sees() {
    snapshot_beside_a_flush(|key| {
        let register = |seq| key.retention.add_bookmark(seq, record());
        let (ticket, ()) = key.queue.enter(1, register);
        let seq = ticket.first();
        ticket.publish();
        seq
    });
}

/// Broken: the bookmark is registered once its commit is done.
#[test]
#[should_panic(expected = "is gone")]
fn loom_a_bookmark_registered_after_the_order_lock_is_caught() {
    snapshot_beside_a_flush(|key| {
        let (ticket, ()) = key.queue.enter(1, |_| ());
        let seq = ticket.first();
        ticket.publish();
        key.retention.add_bookmark(seq, record());
        seq
    });
}

/// A view is taken while a writer and a flush are under way.
fn view_beside_a_flush(
    register: impl Fn(&OneKey) -> ReadPoint + Copy + Send + Sync + 'static,
    flush: impl Fn(&OneKey) + Copy + Send + Sync + 'static,
) {
    explore(move || {
        let key = OneKey::new();
        let writer = {
            let key = key.clone();
            thread::spawn(move || key.write())
        };
        let flush = {
            let key = key.clone();
            thread::spawn(move || flush(&key))
        };
        let view = register(&key);
        // Every number is a version of this key.
        let (found, at) = (key.newest_at(view.seq), view.seq);
        assert_eq!(found, Some(at), "the version at {at} is gone");
        key.retention.release_view(view);
        writer.join().unwrap();
        flush.join().unwrap();
    });
}

fn point(seq: SeqNo) -> ReadPoint {
    ReadPoint { seq, judge_ms: 0 }
}

fn register_at_once(key: &OneKey) -> ReadPoint {
    key.retention.register_view(|| point(key.queue.visible()))
}

/// What a view sees stays while it is registered.
#[test]
fn loom_a_flush_keeps_what_a_view_taken_meanwhile_sees() {
    view_beside_a_flush(register_at_once, OneKey::flush);
}

/// Broken: the number is loaded first and registered then.
#[test]
#[should_panic(expected = "is gone")]
fn loom_a_view_loaded_then_registered_is_caught() {
    view_beside_a_flush(
        |key| {
            let seq = key.queue.visible();
            key.retention.register_view(|| point(seq))
        },
        OneKey::flush,
    );
}

/// Broken: a flush asks for the boundaries before its input is fixed.
#[test]
#[should_panic(expected = "is gone")]
fn loom_boundaries_asked_for_before_the_input_is_fixed_are_caught() {
    view_beside_a_flush(register_at_once, |key| {
        let boundaries = key.retention.boundaries(TABLE, 0);
        let input = key.fix_input();
        key.install(&input, &boundaries);
    });
}

// Group commit.

/// A disk that counts record bytes, those appended and those synced.
#[derive(Debug, Default, Clone)]
struct CountingDisk {
    files: Arc<std::sync::Mutex<Vec<Arc<CountingFile>>>>,
    /// Says that a sync is done and does nothing.
    lies: bool,
}

#[derive(Debug, Default)]
struct CountingFile {
    appended: AtomicU64,
    synced: AtomicU64,
    lies: bool,
}

const SEGMENT_HEADER_BYTES: u64 = 32;

impl CountingDisk {
    /// Record bytes of all segments.
    fn total(&self, of: impl Fn(&CountingFile) -> &AtomicU64) -> u64 {
        let files = self.files.lock().unwrap().clone();
        let bytes = files.iter().map(|file| of(file).load(Ordering::Relaxed));
        bytes
            .map(|bytes| bytes.saturating_sub(SEGMENT_HEADER_BYTES))
            .sum()
    }
}

/// A handle on a file.
#[derive(Debug)]
struct Handle(Arc<CountingFile>);

impl WriteFile for Handle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let len = bytes.len() as u64;
        self.0.appended.fetch_add(len, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        SyncFile::sync(self)
    }

    fn syncer(&self) -> io::Result<Box<dyn SyncFile>> {
        Ok(Box::new(Handle(self.0.clone())))
    }
}

impl SyncFile for Handle {
    fn sync(&self) -> io::Result<()> {
        if !self.0.lies {
            let appended = self.0.appended.load(Ordering::Relaxed);
            self.0.synced.fetch_max(appended, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Vfs for CountingDisk {
    fn create(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = Arc::new(CountingFile {
            lies: self.lies,
            ..CountingFile::default()
        });
        self.files.lock().unwrap().push(file.clone());
        Ok(Box::new(Handle(file)))
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn open_read(&self, _: &Path) -> io::Result<Arc<dyn ReadFile>> {
        unreachable!("a log being written is not read")
    }

    fn truncate(&self, _: &Path, _: u64) -> io::Result<()> {
        unreachable!()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        unreachable!()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        unreachable!()
    }

    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        unreachable!()
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        unreachable!()
    }

    fn exists(&self, _: &Path) -> io::Result<bool> {
        unreachable!()
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn LockGuard>> {
        unreachable!()
    }
}

/// Two commits, one of which is to be synced and the other only written.
fn group_commit(segment_bytes_max: u64, lies: bool) {
    explore(move || {
        let disk = CountingDisk {
            lies,
            ..CountingDisk::default()
        };
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let (dir, next) = (Path::new("/db"), FileNumber(1));
        let wal = Wal::new(vfs, dir, segment_bytes_max, Vec::new(), next, Lsn(0));
        let log = Arc::new((CommitQueue::new(SeqNo(0)), wal, disk));
        let commit = |sync: bool| {
            let log = log.clone();
            move || {
                let (queue, wal, disk) = &*log;
                let (ticket, lsn) = queue.enter(1, |seq| wal.push(seq, 1, b"record"));
                if sync {
                    wal.sync_to(lsn).unwrap();
                    let synced = disk.total(|file| &file.synced);
                    assert!(synced >= lsn.0, "{} acknowledged, {synced} synced", lsn.0);
                } else {
                    wal.write_to(lsn).unwrap();
                    let written = disk.total(|file| &file.appended);
                    assert!(written >= lsn.0, "{} acknowledged, {written} there", lsn.0);
                }
                ticket.publish();
            }
        };
        let writer = thread::spawn(commit(false));
        let syncer = thread::spawn(commit(true));
        writer.join().unwrap();
        syncer.join().unwrap();
    });
}

/// Whoever is told that a record is written or synced finds it so, whoever did
/// the work.
#[test]
fn loom_a_group_commit_acknowledges_what_is_on_the_disk() {
    group_commit(1 << 20, false);
}

/// The same when each record closes the segment before it.
#[test]
fn loom_a_group_commit_over_segments_acknowledges_what_is_on_the_disk() {
    group_commit(1, false);
}

/// Broken: an fsync that only says so.
#[test]
#[should_panic(expected = "acknowledged")]
fn loom_an_acknowledgement_without_a_sync_is_caught() {
    group_commit(1 << 20, true);
}

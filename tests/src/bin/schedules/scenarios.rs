//! The threads of each scenario, and the invariants that must hold under every schedule.
//!
//! Batch `n` of a writer puts `n` under the writer's own key, and the writer's number with `n`
//! under a key that all writers share, in both tables. Memtables, WAL segments and files are so
//! small that flushes, merges and WAL trimming happen all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Db, Durability, FileSystem, Options, Snapshot, Table, TableOptions, TieredPicker, View,
    WriteBatch,
};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::disk::SwitchingDisk;

/// A program of several threads; one run of it is one schedule.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The invariant that the scenario checks, for the report.
    pub(crate) holds: &'static str,
    pub(crate) run: fn(),
}

pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "batches",
        holds: "a view shows each batch whole, and no less than the view before it",
        run: batches,
    },
    Scenario {
        name: "snapshots",
        holds: "a snapshot has all that was acknowledged before it, and never changes",
        run: snapshots,
    },
    Scenario {
        name: "iterators",
        holds: "what a view or an iterator sees does not change; obsolete files are removed",
        run: iterators,
    },
    Scenario {
        name: "closing",
        holds: "a close amid writes, flushes and merges returns, and loses nothing",
        run: closing,
    },
    Scenario {
        name: "increments",
        holds: "of transactions that change one key, all but the first to commit conflict",
        run: increments,
    },
    Scenario {
        name: "power",
        holds: "what was acknowledged as synced survives a power loss, batches whole",
        run: power,
    },
];

const DIR: &str = "/db";
const TABLES: [&str; 2] = ["a", "b"];
const SHARED: &str = "shared";

/// Options under which a database flushes after a few batches, or after each one.
fn options(disk: &MemDisk) -> Options {
    let few = [1, 1200, 3000];
    Options {
        durability: Durability::Os,
        memtable_bytes: few[thread_rng().gen_range(0..few.len())],
        frozen_memtables_max: thread_rng().gen_range(1..3),
        wal_segment_bytes: 256,
        wal_bytes_max: 2048,
        cache_bytes: 4096,
        file_bytes: 512,
        // No time passes within a schedule.
        idle_after: None,
        compaction: TieredPicker {
            size_ratio: 4.0,
            runs_before_merge: 4,
            ..TieredPicker::default()
        }
        .into(),
        disk: Arc::new(SwitchingDisk::new(disk)),
        ..Options::default()
    }
}

/// An open database with its two tables.
#[derive(Clone)]
struct Store {
    db: Db,
    tables: [Table; 2],
}

impl Store {
    fn open(options: Options) -> Self {
        let db = Db::open(DIR, options).expect("the database opens");
        let app = db.keyspace("app").expect("the keyspace opens");
        let table = |name| {
            app.table(name, TableOptions::default())
                .expect("the table opens")
        };
        Self {
            db: db.clone(),
            tables: TABLES.map(table),
        }
    }

    fn try_write(&self, writer: u64, n: u64) -> ebb_storage::Result<()> {
        let mut batch = WriteBatch::new();
        for table in &self.tables {
            let shared = format!("{writer}:{n:0100}");
            batch.put(
                table,
                writer.to_string().as_bytes(),
                n.to_string().as_bytes(),
            );
            batch.put(table, SHARED.as_bytes(), shared.as_bytes());
        }
        self.db.write(batch)
    }

    fn spawn(&self, work: impl FnOnce(&Self) + Send + 'static) -> thread::JoinHandle<()> {
        let store = self.clone();
        thread::spawn(move || work(&store))
    }

    fn write(&self, writer: u64, n: u64) {
        self.try_write(writer, n).expect("a write succeeds");
    }

    fn keyspace(&self) -> ebb_storage::Keyspace {
        self.db
            .existing_keyspace("app")
            .expect("the keyspace is there")
    }

    fn at(&self, view: &View) -> Content {
        let [a, b] = [0, 1].map(|i| content(view.range::<&[u8], _>(&self.tables[i], ..)));
        let get = |table| view.get(table, SHARED.as_bytes()).expect("a read succeeds");
        let got = get(&self.tables[0]);
        assert_eq!(got, get(&self.tables[1]), "half a batch at {}", view.seq());
        let got = got.map(|value| value.to_vec());
        assert_eq!(
            got,
            a.shared(),
            "a get and a range differ at {}",
            view.seq()
        );
        whole(a, b)
    }

    fn now(&self) -> Content {
        self.at(&self.db.view())
    }
}

/// The entries of one table at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Content(Vec<(String, Vec<u8>)>);

fn content(range: ebb_storage::Range) -> Content {
    let entries = range.map(|entry| {
        let (key, value) = entry.expect("a scan succeeds");
        (String::from_utf8_lossy(&key).into_owned(), value.to_vec())
    });
    Content(entries.collect())
}

/// Checks that both tables have the same content, because every batch writes to both, and returns
/// this content.
fn whole(a: Content, b: Content) -> Content {
    assert_eq!(a, b, "half a batch is visible");
    a
}

fn in_snapshot(snapshot: &Snapshot) -> Content {
    let [a, b] = TABLES.map(|name| {
        let table = snapshot.table(name).expect("the snapshot covers the table");
        content(table.range::<&[u8], _>(..))
    });
    whole(a, b)
}

impl Content {
    fn get(&self, key: &str) -> Option<&[u8]> {
        let entry = self.0.iter().find(|(k, _)| k == key);
        entry.map(|(_, value)| value.as_slice())
    }

    fn shared(&self) -> Option<Vec<u8>> {
        self.get(SHARED).map(<[u8]>::to_vec)
    }

    /// Returns the number of a writer's last batch; 0 before its first.
    fn count(&self, writer: u64) -> u64 {
        let count = self.get(&writer.to_string());
        let count = count.map(|n| std::str::from_utf8(n).expect("a count is text"));
        count.map_or(0, |n| n.parse().expect("a count is a number"))
    }
}

/// Two writers write to two tables while a reader takes views.
fn batches() {
    const BATCHES: u64 = 4;
    let disk = MemDisk::new();
    let store = Store::open(options(&disk));
    let writers = [0, 1].map(|writer| {
        store.spawn(move |store| {
            for n in 1..=BATCHES {
                store.write(writer, n);
                let own = store.now().count(writer);
                assert_eq!(own, n, "a writer reads its own");
            }
        })
    });
    let (mut seen, mut last) = ([0, 0], None);
    for _ in 0..4 {
        let view = store.db.view();
        assert!(last <= Some(view.seq()), "views go back");
        last = Some(view.seq());
        let content = store.at(&view);
        for writer in 0..2 {
            let count = content.count(writer);
            assert!(
                count >= seen[writer as usize],
                "a view shows less than the one before"
            );
            seen[writer as usize] = count;
        }
    }
    for writer in writers {
        writer.join().expect("a writer ends");
    }
    let end = store.now();
    assert_eq!([0, 1].map(|w| end.count(w)), [BATCHES; 2]);
    drop(store);
    assert_eq!(
        Store::open(options(&disk)).now(),
        end,
        "reopening changes something"
    );
}

/// One thread writes while another creates, opens and deletes snapshots.
fn snapshots() {
    const BATCHES: u64 = 6;
    let disk = MemDisk::new();
    let store = Store::open(options(&disk));
    // Counters of the standard library: shuttle switches threads at none of them. It runs one thread
    // at a time, so relaxed accesses see the latest value.
    let (started, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let writer = {
        let (started, done) = (started.clone(), done.clone());
        store.spawn(move |store| {
            for n in 1..=BATCHES {
                started.store(n, Ordering::Relaxed);
                store.write(0, n);
                done.store(n, Ordering::Relaxed);
            }
        })
    };
    let app = store.keyspace();
    let mut first = Vec::new();
    for name in ["one", "two", "three"] {
        // The snapshot has every batch that was acknowledged before its creation, and none that
        // started after it.
        let before = done.load(Ordering::Relaxed);
        app.create_snapshot(name).expect("a snapshot is created");
        let after = started.load(Ordering::Relaxed);
        let snapshot = app.snapshot(name).expect("it opens");
        let content = in_snapshot(&snapshot);
        let count = content.count(0);
        assert!(
            (before..=after).contains(&count),
            "a snapshot has batch {count}, after {before} and before {after}"
        );
        first.push((snapshot, content));
    }
    // The deleted snapshot is still open, so the flushes and merges below must keep its versions.
    app.delete_snapshot("two").expect("it is deleted");
    store.db.flush().expect("a flush succeeds");
    writer.join().expect("the writer ends");
    store.db.flush().expect("a flush succeeds");
    store.db.compact().expect("a merge succeeds");
    for (snapshot, content) in &first {
        // An open snapshot stays readable after its deletion.
        assert_eq!(
            &in_snapshot(snapshot),
            content,
            "{} changed",
            snapshot.name()
        );
    }
    let (_, second) = first.remove(1);
    // Drops the open snapshots, which keep the database open.
    let kept: Vec<_> = first.into_iter().map(|(_, content)| content).collect();
    drop((store, app));
    let reopened = Store::open(options(&disk));
    let app = reopened.keyspace();
    assert!(app.snapshot("two").is_err(), "{second:?} is back");
    for (name, content) in ["one", "three"].into_iter().zip(kept) {
        let snapshot = app.snapshot(name).expect("it is there after reopening");
        assert_eq!(
            in_snapshot(&snapshot),
            content,
            "{name} changed by reopening"
        );
    }
}

/// One thread writes, another flushes and merges beside the background threads, and a third reads a
/// view while one of its iterators is half-way.
fn iterators() {
    const BATCHES: u64 = 5;
    let disk = MemDisk::new();
    let store = Store::open(options(&disk));
    store.write(0, 1);
    let writer = store.spawn(|store| {
        for n in 2..=BATCHES {
            store.write(n % 3, n);
        }
    });
    let maintainer = store.spawn(|store| {
        store.db.flush().expect("a flush succeeds");
        store.db.compact().expect("a merge succeeds");
    });
    for _ in 0..2 {
        let view = store.db.view();
        let mut half = view.range::<&[u8], _>(&store.tables[0], ..);
        let mut entries = vec![half.next().expect("batch 1 is there").expect("it reads")];
        let content = store.at(&view);
        assert_eq!(store.at(&view), content, "a view changed");
        entries.extend(half.map(|entry| entry.expect("a scan succeeds")));
        let entries = entries.into_iter();
        let entries = entries.map(|(k, v)| (String::from_utf8_lossy(&k).into_owned(), v.to_vec()));
        assert_eq!(
            entries.collect::<Vec<_>>(),
            content.0,
            "an iterator saw something else"
        );
    }
    for thread in [writer, maintainer] {
        thread.join().expect("a thread ends");
    }
    store.db.flush().expect("a flush succeeds");
    store.db.compact().expect("a merge succeeds");
    drop(store);
    let left = files(&disk);
    drop(Store::open(options(&disk)));
    assert_eq!(left, files(&disk), "a file that nobody needs was left");
}

/// Returns the paths of all SSTables on the disk, sorted.
fn files(disk: &MemDisk) -> Vec<std::path::PathBuf> {
    let mut files = disk.list(DIR.as_ref()).expect("the directory is there");
    files.retain(|path| path.extension().is_some_and(|e| e == "sst"));
    files.sort();
    files
}

/// The main thread drops its handle while writers and maintenance are under way. The last writer to
/// end drops the last handle, which closes the database.
fn closing() {
    const BATCHES: u64 = 3;
    let disk = MemDisk::new();
    for opening in 0..2 {
        let store = Store::open(options(&disk));
        let before = store.now();
        let writers = [0, 1].map(|writer| {
            store.spawn(move |store| {
                for n in 1..=BATCHES {
                    store.write(writer, opening * BATCHES + n);
                }
            })
        });
        assert_eq!([0, 1].map(|w| before.count(w)), [opening * BATCHES; 2]);
        drop(store);
        for writer in writers {
            writer.join().expect("a writer ends");
        }
    }
    let end = Store::open(options(&disk)).now();
    assert_eq!(
        [0, 1].map(|w| end.count(w)),
        [2 * BATCHES; 2],
        "a write was lost"
    );
}

/// Threads increment one counter in transactions, and try again after a conflict.
fn increments() {
    const TIMES: u64 = 2;
    const THREADS: usize = 3;
    let disk = MemDisk::new();
    let store = Store::open(options(&disk));
    let threads = [(); THREADS].map(|()| {
        store.spawn(|store| {
            let mut done = 0;
            while done < TIMES {
                let mut transaction = store.db.begin();
                let [a, b] = [0, 1].map(|i| {
                    let value = transaction.get(&store.tables[i], b"counter");
                    value.expect("a read succeeds").map_or(0, |v| count_of(&v))
                });
                assert_eq!(a, b, "a transaction sees half of another");
                for table in &store.tables {
                    let next = (a + 1).to_string();
                    let put = transaction.put(table, b"counter", next.as_bytes());
                    put.expect("a write is kept");
                }
                match transaction.commit() {
                    Ok(_) => done += 1,
                    Err(ebb_storage::Error::Conflict { .. }) => {}
                    Err(e) => panic!("{e}"),
                }
            }
        })
    });
    for thread in threads {
        thread.join().expect("a thread ends");
    }
    for table in &store.tables {
        let value = table.get(b"counter").expect("a read succeeds");
        let count = count_of(&value.expect("it was written"));
        assert_eq!(count, TIMES * THREADS as u64, "an increment was lost");
    }
}

fn count_of(value: &[u8]) -> u64 {
    let text = std::str::from_utf8(value).expect("a count is text");
    text.parse().expect("a count is a number")
}

/// The power fails at a random I/O call, while synced writes, the creation of a snapshot, flushes
/// and merges are under way. If the I/O call with the drawn number does not occur before the
/// database is closed, the power fails after the close.
fn power() {
    const BATCHES: u64 = 4;
    let disk = MemDisk::new();
    let synced = || Options {
        durability: Durability::Sync,
        ..options(&disk)
    };
    let store = Store::open(synced());
    let acknowledged: Vec<_> = (0..2).map(|_| Arc::new(AtomicU64::new(0))).collect();
    // How many calls a schedule makes depends on the drawn options. One with fewer calls than drawn here
    // loses power in the restart below, after the database was closed.
    disk.crash_at(thread_rng().gen_range(1..160));
    let writers = [0, 1].map(|writer| {
        let acknowledged = acknowledged[writer as usize].clone();
        store.spawn(move |store| {
            for n in 1..=BATCHES {
                if store.try_write(writer, n).is_err() {
                    break;
                }
                acknowledged.store(n, Ordering::Relaxed);
            }
        })
    });
    let counts = || [0, 1].map(|w: usize| acknowledged[w].load(Ordering::Relaxed));
    // Batches that were acknowledged before the snapshot, which therefore must have them.
    let before = counts();
    let app = store.keyspace();
    let created = app.create_snapshot("s").is_ok();
    let opened = app.snapshot("s");
    // The snapshot is not read here: without power a read may fail, which is no bug.
    drop((opened, app));
    for writer in writers {
        writer.join().expect("a writer ends");
    }
    drop(store);
    // The seed draws which unsynced bytes survive.
    disk.restart(thread_rng().r#gen());

    let store = Store::open(synced());
    let now = store.now();
    for (writer, acknowledged) in (0..).zip(counts()) {
        // The batch that was under way may have survived, too.
        let count = now.count(writer);
        assert!(
            (acknowledged..=acknowledged + 1).contains(&count),
            "batch {acknowledged} of writer {writer} was acknowledged, {count} is there"
        );
    }
    let app = store.keyspace();
    // If the creation failed with the power, the snapshot may exist or not.
    if created {
        let content = in_snapshot(&app.snapshot("s").expect("the snapshot was acknowledged"));
        for (writer, before) in (0..).zip(before) {
            assert!(
                content.count(writer) >= before,
                "a snapshot misses what came before it"
            );
            assert!(
                content.count(writer) <= now.count(writer),
                "a snapshot has what is lost"
            );
        }
    }
    // Later writes are visible after a flush and a merge, and leave the snapshot unchanged.
    let kept = app.snapshot("s").map(|snapshot| in_snapshot(&snapshot));
    // Batch 9 is above all others.
    store.write(0, 9);
    store.db.flush().expect("a flush succeeds");
    store.db.compact().expect("a merge succeeds");
    assert_eq!(store.now().count(0), 9);
    if let Ok(kept) = kept {
        let snapshot = app.snapshot("s").expect("it is still there");
        assert_eq!(in_snapshot(&snapshot), kept, "the snapshot changed");
    }
}

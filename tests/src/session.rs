//! An open database that runs operations.

mod everything;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ebb_storage::{
    Db, DetachedOptions, DetachedTable, Disk, Error, ErrorKind, Keyspace, ManualClock, Options,
    PinnedTable, Range, Result, Snapshot, SnapshotOptions, SortedWriter, SortedWriterOptions,
    Table, TableOptions, Transaction, View, WriteBatch,
};

use crate::disk::DIR;
use crate::model::{Entries, Outcome, State, close, table_of, take};
use crate::operation::{
    Bounds, KEYSPACES, Key, Operation, Read, SLOTS, TABLES, TableNo, Val, Write, snapshot_name,
};
pub use everything::{read_everything, read_prefixed};

/// The directory of backups. The files of a backup are removed once its content was read.
const BACKUP_DIR: &str = "/backup";

/// The set-up of a database and its tables.
#[derive(Debug, Clone)]
pub struct Setup {
    pub options: Options,
    pub clock: ManualClock,
    pub tables: [TableOptions; TABLES.len()],
    /// The prefix of the names of all keyspaces. Different prefixes let several sessions share a
    /// database.
    pub prefix: String,
    /// The directory for files to ingest. Each ingestion uses the same file names again.
    pub ingest_dir: PathBuf,
}

impl Setup {
    fn keyspace(&self, db: &Db, name: &str) -> Result<Keyspace> {
        db.existing_keyspace(&format!("{}{name}", self.prefix))
    }
}

/// An open database, and the handles that are open on it.
///
/// If a correct program may encounter an error, [`Session::apply`] returns it as
/// [`Outcome::Refused`]. It returns all other errors as `Err`: only a bad disk or a bug explains
/// them.
#[derive(Debug)]
pub struct Session {
    setup: Setup,
    /// The open database and its handles; `None` after a reopening that failed.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    db: Db,
    views: [Option<View>; SLOTS as usize],
    snapshots: [Option<Snapshot>; SLOTS as usize],
    pins: [Option<Pins>; SLOTS as usize],
    ranges: [Option<Range>; SLOTS as usize],
    transactions: [Option<Transaction>; SLOTS as usize],
}

/// The pinned tables of a snapshot.
type Pins = BTreeMap<TableNo, PinnedTable>;

impl Session {
    pub fn open(setup: Setup) -> Result<Self> {
        let mut session = Self { setup, open: None };
        session.reopen()?;
        Ok(session)
    }

    /// Closes all handles and the database, and opens it again.
    pub fn reopen(&mut self) -> Result<()> {
        self.open = None;
        let db = Db::open(DIR, self.setup.options.clone())?;
        self.open = Some(Open::over(db));
        Ok(())
    }

    /// Sets the options from the next opening on. The disk and the clock stay the same.
    pub fn reconfigure(&mut self, options: Options) {
        let now = &self.setup.options;
        self.setup.options = Options {
            disk: now.disk.clone(),
            clock: now.clock.clone(),
            ..options
        };
    }

    /// Creates a session on a database that other sessions use, too. Such a session must not reopen
    /// the database.
    pub fn over(db: Db, setup: Setup) -> Self {
        let open = Some(Open::over(db));
        Self { setup, open }
    }

    /// Returns the open database.
    ///
    /// # Panics
    /// If the last reopening failed.
    pub fn db(&self) -> &Db {
        &self.open.as_ref().expect("the session is open").db
    }

    /// Returns the options of the last opening or, after [`Session::reconfigure`], of the next one.
    pub fn options(&self) -> &Options {
        &self.setup.options
    }

    /// Returns whether the last reopening succeeded.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Runs an operation.
    ///
    /// # Errors
    /// Any error of the database that is not an outcome: any but `NotFound`, `AlreadyExists` and
    /// `Conflict`.
    ///
    /// # Panics
    /// If the last reopening failed, unless the operation is a reopening.
    pub fn apply(&mut self, operation: &Operation) -> Result<Outcome> {
        if *operation == Operation::Reopen {
            return self.reopen().map(|()| Outcome::Done);
        }
        let open = self.open.as_mut().expect("the session is open");
        match open.apply(&self.setup, operation) {
            Err(e) if is_outcome(&e) => Ok(Outcome::Refused(e.kind())),
            outcome => outcome,
        }
    }
}

/// Returns whether a correct program may encounter the error.
fn is_outcome(error: &Error) -> bool {
    use ErrorKind::{AlreadyExists, Conflict, NotFound};
    matches!(error.kind(), NotFound | AlreadyExists | Conflict)
}

impl Open {
    fn over(db: Db) -> Self {
        Self {
            db,
            views: Default::default(),
            snapshots: Default::default(),
            pins: Default::default(),
            ranges: Default::default(),
            transactions: Default::default(),
        }
    }

    fn table(&self, setup: &Setup, table: TableNo) -> Result<Table> {
        let keyspace = setup.keyspace(&self.db, table.keyspace())?;
        keyspace.existing_table(table.name())
    }

    fn apply(&mut self, setup: &Setup, operation: &Operation) -> Result<Outcome> {
        match operation {
            Operation::CreateTable(table) => {
                let keyspace = format!("{}{}", setup.prefix, table.keyspace());
                let keyspace = self.db.keyspace(&keyspace)?;
                keyspace.table(table.name(), setup.tables[table.index()].clone())?;
            }
            Operation::DropTable(table) => {
                let keyspace = setup.keyspace(&self.db, table.keyspace())?;
                keyspace.drop_table(table.name())?;
            }
            Operation::Write(writes) => self.write(setup, writes)?,
            Operation::Transact { writes, commit } => {
                let mut transaction = self.db.begin();
                for write in writes {
                    self.write_in(setup, &mut transaction, write)?;
                }
                // A drop without a commit rolls back.
                if *commit {
                    transaction.commit()?;
                } else {
                    drop(transaction);
                }
            }
            Operation::Truncate(table) => self.table(setup, *table)?.truncate()?,
            Operation::Ingest(table, entries) => self.ingest(setup, *table, entries)?,
            Operation::Advance(ms) => setup.clock.advance_ms(u64::from(*ms)),
            Operation::CreateSnapshot { keyspace, name, ms } => {
                let keyspace = setup.keyspace(&self.db, KEYSPACES[usize::from(*keyspace)])?;
                let options = SnapshotOptions {
                    expires_in: ms.map(ttl),
                    ..SnapshotOptions::default()
                };
                keyspace.create_snapshot_with(&snapshot_name(*name), options)?;
            }
            Operation::CreateTableSnapshot { table, name } => {
                let keyspace = setup.keyspace(&self.db, table.keyspace())?;
                let options = SnapshotOptions {
                    table: Some(table.name().to_string()),
                    ..SnapshotOptions::default()
                };
                keyspace.create_snapshot_with(&snapshot_name(*name), options)?;
            }
            Operation::RenewSnapshot { keyspace, name, ms } => {
                let keyspace = setup.keyspace(&self.db, KEYSPACES[usize::from(*keyspace)])?;
                keyspace.set_snapshot_expiry(&snapshot_name(*name), ms.map(ttl))?;
            }
            Operation::DeleteSnapshot { keyspace, name } => {
                let keyspace = setup.keyspace(&self.db, KEYSPACES[usize::from(*keyspace)])?;
                keyspace.delete_snapshot(&snapshot_name(*name))?;
            }
            Operation::Flush => self.db.flush()?,
            Operation::Compact => self.db.compact()?,
            Operation::Sync => self.db.sync()?,
            // A reopening replaces `self`.
            Operation::Reopen => unreachable!("`Session::apply` reopens"),
            Operation::Read(read) => {
                let table = self.table(setup, table_of(read))?;
                return match read {
                    Read::Get(_, key) => table.get(&key.bytes()).map(value),
                    Read::Range(_, bounds, _) => drain(range(&table, *bounds), read),
                };
            }
            Operation::ReadAll => {
                // Reads may be right although a file is damaged where no read goes.
                self.db.verify()?;
                return read_everything(&self.db).map(Outcome::Everything);
            }
            Operation::Backup => return self.backup(setup).map(Outcome::Everything),
            Operation::OpenView(slot) => {
                self.views[usize::from(*slot)] = Some(self.db.view());
            }
            Operation::ReadView(slot, read) => {
                let Some(view) = &self.views[usize::from(*slot)] else {
                    return Ok(Outcome::EmptySlot);
                };
                let table = self.table(setup, table_of(read))?;
                return match read {
                    Read::Get(_, key) => view.get(&table, &key.bytes()).map(value),
                    Read::Range(_, bounds, _) => {
                        drain(view.range::<Vec<u8>, _>(&table, bounds.bytes()), read)
                    }
                };
            }
            Operation::CloseView(slot) => return Ok(close(&mut self.views[usize::from(*slot)])),
            Operation::OpenSnapshot {
                slot,
                keyspace,
                name,
            } => {
                let keyspace = setup.keyspace(&self.db, KEYSPACES[usize::from(*keyspace)])?;
                let snapshot = keyspace.snapshot(&snapshot_name(*name))?;
                self.snapshots[usize::from(*slot)] = Some(snapshot);
            }
            Operation::ReadSnapshot(slot, read) => {
                let Some(snapshot) = &self.snapshots[usize::from(*slot)] else {
                    return Ok(Outcome::EmptySlot);
                };
                let table = snapshot.table(table_of(read).name())?;
                return match read {
                    Read::Get(_, key) => table.get(&key.bytes()).map(value),
                    Read::Range(_, bounds, _) => {
                        drain(table.scan::<Vec<u8>, _>(bounds.bytes()), read)
                    }
                };
            }
            Operation::CloseSnapshot(slot) => {
                return Ok(close(&mut self.snapshots[usize::from(*slot)]));
            }
            Operation::Pin {
                slot,
                keyspace,
                name,
            } => {
                let keyspace = setup.keyspace(&self.db, KEYSPACES[usize::from(*keyspace)])?;
                let snapshot = keyspace.snapshot(&snapshot_name(*name))?;
                self.pins[usize::from(*slot)] = Some(pins(&snapshot)?);
            }
            Operation::ReadPinned(slot, read) => {
                let Some(pins) = &self.pins[usize::from(*slot)] else {
                    return Ok(Outcome::EmptySlot);
                };
                let Some(pinned) = pins.get(&table_of(read)) else {
                    return Ok(Outcome::Refused(ErrorKind::NotFound));
                };
                // Opened for each read from its description, as another process would.
                let options = DetachedOptions {
                    disk: setup.options.disk.clone(),
                    ..DetachedOptions::default()
                };
                let table = DetachedTable::open(pinned.description(), options)?;
                return match read {
                    Read::Get(_, key) => table.get(&key.bytes()).map(value),
                    Read::Range(_, bounds, _) => {
                        drain(table.scan::<Vec<u8>, _>(bounds.bytes()), read)
                    }
                };
            }
            Operation::Unpin(slot) => return Ok(close(&mut self.pins[usize::from(*slot)])),
            Operation::OpenRange(slot, table, bounds) => {
                let range = range(&self.table(setup, *table)?, *bounds);
                self.ranges[usize::from(*slot)] = Some(range);
            }
            Operation::ReadOn(slot, entries, ends) => {
                let Some(range) = &mut self.ranges[usize::from(*slot)] else {
                    return Ok(Outcome::EmptySlot);
                };
                let taken = take(range, usize::from(*entries), *ends);
                return entries_of(taken).map(Outcome::Entries);
            }
            Operation::CloseRange(slot) => return Ok(close(&mut self.ranges[usize::from(*slot)])),
            Operation::Begin(slot) => {
                self.transactions[usize::from(*slot)] = Some(self.db.begin());
            }
            Operation::WriteIn(slot, write) => {
                let Some(mut transaction) = self.transactions[usize::from(*slot)].take() else {
                    return Ok(Outcome::EmptySlot);
                };
                // The transaction is out of its slot because the write borrows all of `self`. It
                // goes back after an error too: a failed write does not end a transaction.
                let outcome = self.write_in(setup, &mut transaction, write);
                self.transactions[usize::from(*slot)] = Some(transaction);
                outcome?;
            }
            Operation::ReadIn(slot, read) => {
                let Some(transaction) = &self.transactions[usize::from(*slot)] else {
                    return Ok(Outcome::EmptySlot);
                };
                let table = self.table(setup, table_of(read))?;
                return match read {
                    Read::Get(_, key) => transaction.get(&table, &key.bytes()).map(value),
                    Read::Range(_, bounds, _) => {
                        let range = transaction.range::<Vec<u8>, _>(&table, bounds.bytes())?;
                        drain(range, read)
                    }
                };
            }
            Operation::Guard(slot, table, key) => {
                // The table comes first because its lookup borrows all of `self`, but its error comes
                // last: in the model an empty slot counts before a missing table.
                let table = self.table(setup, *table);
                let Some(transaction) = &mut self.transactions[usize::from(*slot)] else {
                    return Ok(Outcome::EmptySlot);
                };
                transaction.guard(&table?, &key.bytes())?;
            }
            Operation::GuardRange(slot, table, bounds) => {
                // In the order of `Guard`, for the same reasons.
                let table = self.table(setup, *table);
                let Some(transaction) = &mut self.transactions[usize::from(*slot)] else {
                    return Ok(Outcome::EmptySlot);
                };
                transaction.guard_range::<Vec<u8>, _>(&table?, bounds.bytes())?;
            }
            Operation::Commit(slot) => match self.transactions[usize::from(*slot)].take() {
                Some(transaction) => drop(transaction.commit()?),
                None => return Ok(Outcome::EmptySlot),
            },
            Operation::Rollback(slot) => {
                return Ok(close(&mut self.transactions[usize::from(*slot)]));
            }
        }
        Ok(Outcome::Done)
    }

    fn write_in(&self, setup: &Setup, transaction: &mut Transaction, write: &Write) -> Result<()> {
        let table = self.table(setup, write.table())?;
        match write {
            Write::Put(_, key, value) => transaction.put(&table, &key.bytes(), &value.bytes()),
            Write::Delete(_, key) => transaction.delete(&table, &key.bytes()),
            Write::Merge(_, key, operand) => {
                transaction.merge(&table, &key.bytes(), &operand.bytes())
            }
            Write::PutWithTtl(_, key, value, ms) => {
                transaction.put_with_ttl(&table, &key.bytes(), &value.bytes(), ttl(*ms))
            }
            Write::DeleteRange(_, bounds) => {
                transaction.delete_range::<Vec<u8>, _>(&table, bounds.bytes())
            }
        }
    }

    fn ingest(&self, setup: &Setup, no: TableNo, entries: &[(Key, Option<Val>)]) -> Result<()> {
        let table = self.table(setup, no)?;
        let options = SortedWriterOptions {
            disk: setup.options.disk.clone(),
            sstable: setup.tables[no.index()].sstable.clone(),
            file_bytes: setup.options.file_bytes,
            ..SortedWriterOptions::default()
        };
        let mut writer = SortedWriter::create(&setup.ingest_dir, "part", options)?;
        let sorted = entries.iter().map(|(key, value)| (key.bytes(), value));
        for (key, value) in sorted.collect::<BTreeMap<_, _>>() {
            match value {
                Some(value) => writer.put(&key, &value.bytes())?,
                None => writer.delete(&key)?,
            }
        }
        table.ingest(&writer.finish()?)?;
        if entries.len().is_multiple_of(2) {
            clear(&*setup.options.disk, &setup.ingest_dir)
        } else {
            // The files stay, and the next writer of the same name removes them.
            Ok(())
        }
    }

    /// Makes a backup, and returns its content.
    fn backup(&self, setup: &Setup) -> Result<State> {
        clear(&*setup.options.disk, BACKUP_DIR.as_ref())?;
        self.db.backup(BACKUP_DIR)?;
        let db = Db::open(BACKUP_DIR, setup.options.clone())?;
        db.verify()?;
        let state = read_everything(&db)?;
        drop(db);
        clear(&*setup.options.disk, BACKUP_DIR.as_ref())?;
        Ok(state)
    }

    fn write(&self, setup: &Setup, writes: &[Write]) -> Result<()> {
        match writes {
            // A single write goes through the methods of the table, so that they are tested too.
            [write] => {
                let table = self.table(setup, write.table())?;
                match write {
                    Write::Put(_, key, value) => table.put(&key.bytes(), &value.bytes()),
                    Write::Delete(_, key) => table.delete(&key.bytes()),
                    Write::Merge(_, key, operand) => table.merge(&key.bytes(), &operand.bytes()),
                    Write::PutWithTtl(_, key, value, ms) => {
                        table.put_with_ttl(&key.bytes(), &value.bytes(), ttl(*ms))
                    }
                    Write::DeleteRange(_, bounds) => {
                        table.delete_range::<Vec<u8>, _>(bounds.bytes())
                    }
                }
            }
            _ => {
                let mut batch = WriteBatch::new();
                for write in writes {
                    let table = self.table(setup, write.table())?;
                    match write {
                        Write::Put(_, key, value) => {
                            batch.put(&table, &key.bytes(), &value.bytes());
                        }
                        Write::Delete(_, key) => batch.delete(&table, &key.bytes()),
                        Write::Merge(_, key, operand) => {
                            batch.merge(&table, &key.bytes(), &operand.bytes());
                        }
                        Write::PutWithTtl(_, key, value, ms) => {
                            batch.put_with_ttl(&table, &key.bytes(), &value.bytes(), ttl(*ms));
                        }
                        Write::DeleteRange(_, bounds) => {
                            batch.delete_range::<Vec<u8>, _>(&table, bounds.bytes());
                        }
                    }
                }
                self.db.write(batch)
            }
        }
    }
}

/// Removes all files of a directory.
fn clear(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let clear = || -> io::Result<()> {
        if disk.exists(dir)? {
            for file in disk.list(dir)? {
                disk.remove(&file)?;
            }
        }
        Ok(())
    };
    clear().map_err(|source| Error::Io {
        action: "clear",
        path: dir.to_path_buf(),
        source: Arc::new(source),
    })
}

/// Pins every table of a snapshot.
fn pins(snapshot: &Snapshot) -> Result<Pins> {
    let tables = TableNo::all().filter(|table| snapshot.tables().any(|name| name == table.name()));
    let pin = |table: TableNo| Ok((table, snapshot.table(table.name())?.pin()?));
    tables.map(pin).collect()
}

fn ttl(ms: u32) -> Duration {
    Duration::from_millis(u64::from(ms))
}

fn value(found: Option<ebb_storage::Value>) -> Outcome {
    Outcome::Value(found.map(|value| value[..].into()))
}

fn range(table: &Table, bounds: Bounds) -> Range {
    table.range::<Vec<u8>, _>(bounds.bytes())
}

fn drain(
    mut range: impl DoubleEndedIterator<Item = Result<ebb_storage::Entry>>,
    read: &Read,
) -> Result<Outcome> {
    let Read::Range(_, _, ends) = read else {
        unreachable!("only ranges are drained");
    };
    let entries = take(&mut range, usize::MAX, *ends);
    entries_of(entries).map(Outcome::Entries)
}

fn entries_of(found: Vec<Result<ebb_storage::Entry>>) -> Result<Entries> {
    let entry = |entry: Result<ebb_storage::Entry>| {
        entry.map(|(key, value)| (key.to_vec(), value[..].into()))
    };
    found.into_iter().map(entry).collect()
}

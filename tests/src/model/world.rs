//! Everything that is stored, and the effect of each change.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebb_storage::ErrorKind;

use super::not_found;
use super::state::{Content, Outcome, State, Tables};
use crate::operation::{Bounds, KEYSPACES, Operation, TABLES, TableNo, Write};

/// The content of a table, by key.
type Cells = BTreeMap<Vec<u8>, Cell>;

/// The content of a key: a put (or the first merge operand of an absent key), and the merge
/// operands that came after it. If the put never expires, operands are merged into it at once.
#[derive(Debug, Clone)]
struct Cell {
    base: Arc<[u8]>,
    /// The time at which the put of `base` expires; `None` if it never does.
    expiry_ms: Option<u64>,
    /// The merge operands that came after a put that expires, merged into one. They are the value
    /// once the put has expired.
    operand: Option<Arc<[u8]>>,
}

impl Cell {
    fn new(base: Arc<[u8]>, expiry_ms: Option<u64>) -> Self {
        Self {
            base,
            expiry_ms,
            operand: None,
        }
    }

    /// Returns the value at the time `now_ms`; `None` if all of it has expired.
    fn value(&self, operator: Option<&str>, now_ms: u64) -> Option<Arc<[u8]>> {
        let expired = self.expiry_ms.is_some_and(|at| at <= now_ms);
        match &self.operand {
            None => (!expired).then(|| self.base.clone()),
            Some(operand) if expired => Some(operand.clone()),
            Some(operand) => Some(merged(operator, &self.base, operand)),
        }
    }

    fn merge(&mut self, operator: Option<&str>, operand: Arc<[u8]>) {
        if self.expiry_ms.is_none() {
            self.base = merged(operator, &self.base, &operand);
        } else {
            self.operand = Some(match &self.operand {
                Some(older) => merged(operator, older, &operand),
                None => operand,
            });
        }
    }
}

pub(super) fn merged(operator: Option<&str>, older: &[u8], newer: &[u8]) -> Arc<[u8]> {
    match operator {
        Some("append") => [older, newer].concat().into(),
        Some("max") => older.max(newer).into(),
        other => unreachable!("no table has the operator {other:?}"),
    }
}

/// Everything in a database after some commit, expired values included. A read at some time sees
/// the values that have not expired by then.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// The time on the clock of the database, in milliseconds since the time at which the clock
    /// started.
    pub now_ms: u64,
    keyspaces: [bool; KEYSPACES.len()],
    tables: [Option<Arc<Cells>>; TABLES.len()],
    snapshots: BTreeMap<(u8, u8), StoredSnapshot>,
}

/// A snapshot, with the values that had not expired when it was created.
#[derive(Debug, Clone)]
pub(super) struct StoredSnapshot {
    pub(super) tables: Tables,
    /// The time at which the snapshot expires; `None` if it never does.
    expiry_ms: Option<u64>,
}

impl StoredSnapshot {
    fn is_there(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_none_or(|at| at > now_ms)
    }
}

impl World {
    /// Returns the content that is visible at the time of the world.
    pub fn seen(&self) -> State {
        self.seen_at(self.now_ms)
    }

    /// Returns what is visible at the time `now_ms`.
    pub fn seen_at(&self, now_ms: u64) -> State {
        let mut state = State {
            keyspaces: self.keyspaces,
            ..State::default()
        };
        for (id, snapshot) in &self.snapshots {
            if snapshot.is_there(now_ms) {
                state.snapshots.insert(*id, snapshot.tables.clone());
            }
        }
        for table in TableNo::all() {
            state.tables[table.index()] = self.content(table, now_ms);
        }
        state
    }

    /// Creates a model of a database with the visible content `state`, which never expires.
    pub fn of(state: State, now_ms: u64) -> Self {
        let cells = |content: Arc<Content>| {
            let cells = content
                .iter()
                .map(|(key, value)| (key.clone(), Cell::new(value.clone(), None)));
            Arc::new(cells.collect())
        };
        Self {
            now_ms,
            keyspaces: state.keyspaces,
            tables: state.tables.map(|content| content.map(cells)),
            snapshots: state
                .snapshots
                .into_iter()
                .map(|(id, tables)| {
                    let expiry_ms = None;
                    (id, StoredSnapshot { tables, expiry_ms })
                })
                .collect(),
        }
    }

    /// Returns a snapshot; `None` if there is none, or it has expired.
    pub(super) fn snapshot_of(&self, keyspace: u8, name: u8) -> Option<&StoredSnapshot> {
        let found = self.snapshots.get(&(keyspace, name));
        found.filter(|snapshot| snapshot.is_there(self.now_ms))
    }

    /// Makes the keyspaces and tables of `state`, and no others, exist; new tables are empty.
    pub fn exist_as(&mut self, state: &State) {
        self.keyspaces = state.keyspaces;
        for (mine, seen) in self.tables.iter_mut().zip(&state.tables) {
            match seen {
                Some(_) => drop(mine.get_or_insert_default()),
                None => *mine = None,
            }
        }
    }

    pub(super) fn has(&self, table: TableNo) -> bool {
        self.tables[table.index()].is_some()
    }

    /// Returns what is visible of a table at the time `now_ms`; `None` if the table does not exist.
    fn content(&self, table: TableNo, now_ms: u64) -> Option<Arc<Content>> {
        let cells = self.tables[table.index()].as_ref()?;
        let seen = cells.iter().filter_map(|(key, cell)| {
            let value = cell.value(table.merge_operator(), now_ms)?;
            Some((key.clone(), value))
        });
        Some(Arc::new(seen.collect()))
    }

    /// Runs an operation that changes the content or the clock, or a backup, and returns its
    /// outcome. For all other operations returns [`Outcome::Done`]: they change nothing here, and
    /// [`Model`](super::Model) computes what they read.
    pub fn apply(&mut self, operation: &Operation) -> Outcome {
        match operation {
            Operation::CreateTable(table) => {
                self.keyspaces[table.keyspace_index()] = true;
                self.tables[table.index()].get_or_insert_default();
                Outcome::Done
            }
            Operation::DropTable(table) => match self.tables[table.index()].take() {
                Some(_) => Outcome::Done,
                None => not_found(),
            },
            Operation::Write(writes) => self.write(writes),
            Operation::Truncate(table) => self.write(&[Write::DeleteRange(*table, Bounds::ALL)]),
            // A write into a missing table fails at once, so it also fails a transaction that would
            // roll back.
            Operation::Transact { writes, commit } => {
                if !writes.iter().all(|write| self.has(write.table())) {
                    not_found()
                } else if *commit {
                    self.write(writes)
                } else {
                    Outcome::Done
                }
            }
            Operation::Advance(ms) => {
                self.now_ms += u64::from(*ms);
                Outcome::Done
            }
            // An ingested file counts as a batch: its entries become visible together.
            Operation::Ingest(table, entries) => {
                if !self.has(*table) {
                    return not_found();
                }
                let write = |(key, value): &(_, Option<_>)| match value {
                    Some(value) => Write::Put(*table, *key, *value),
                    None => Write::Delete(*table, *key),
                };
                self.write(&entries.iter().map(write).collect::<Vec<_>>())
            }
            Operation::CreateSnapshot { keyspace, name, ms } => {
                let is_in = |table: &TableNo| table.keyspace_index() == usize::from(*keyspace);
                let tables = TableNo::all().filter(is_in);
                self.snapshot((*keyspace, *name), tables, false, *ms)
            }
            Operation::CreateTableSnapshot { table, name } => {
                let id = (table.keyspace_index() as u8, *name);
                // Names are unique in a keyspace, also those of snapshots of one table.
                let is_of_table = true;
                self.snapshot(id, [*table].into_iter(), is_of_table, None)
            }
            // An expired snapshot may still be stored, but counts as missing here and below.
            Operation::RenewSnapshot { keyspace, name, ms } => {
                if self.snapshot_of(*keyspace, *name).is_none() {
                    return not_found();
                }
                let snapshot = self.snapshots.get_mut(&(*keyspace, *name));
                let snapshot = snapshot.expect("it is there");
                snapshot.expiry_ms = ms.map(|ms| self.now_ms + u64::from(ms));
                Outcome::Done
            }
            Operation::DeleteSnapshot { keyspace, name } => {
                if self.snapshot_of(*keyspace, *name).is_none() {
                    return not_found();
                }
                self.snapshots.remove(&(*keyspace, *name));
                Outcome::Done
            }
            // A backup has the content of the moment, and the session reads it back.
            Operation::Backup => Outcome::Everything(self.seen()),
            _ => Outcome::Done,
        }
    }

    pub(super) fn write(&mut self, writes: &[Write]) -> Outcome {
        if !writes.iter().all(|write| self.has(write.table())) {
            return not_found();
        }
        for write in writes {
            let operator = write.table().merge_operator();
            let cells = self.tables[write.table().index()].get_or_insert_default();
            let cells = Arc::make_mut(cells);
            match write {
                Write::Put(_, key, value) => {
                    cells.insert(key.bytes(), Cell::new(value.bytes().into(), None));
                }
                Write::PutWithTtl(_, key, value, ttl_ms) => {
                    let expiry_ms = Some(self.now_ms + u64::from(*ttl_ms));
                    cells.insert(key.bytes(), Cell::new(value.bytes().into(), expiry_ms));
                }
                Write::Merge(_, key, operand) => {
                    let operand: Arc<[u8]> = operand.bytes().into();
                    cells
                        .entry(key.bytes())
                        .and_modify(|cell| cell.merge(operator, operand.clone()))
                        .or_insert_with(|| Cell::new(operand, None));
                }
                Write::Delete(_, key) => {
                    cells.remove(&key.bytes());
                }
                Write::DeleteRange(_, bounds) => cells.retain(|key, _| !bounds.contain(key)),
            }
        }
        Outcome::Done
    }

    fn snapshot(
        &mut self,
        id: (u8, u8),
        tables: impl Iterator<Item = TableNo>,
        of_table: bool,
        ms: Option<u32>,
    ) -> Outcome {
        if !self.keyspaces[usize::from(id.0)] {
            return not_found();
        }
        if self.snapshot_of(id.0, id.1).is_some() {
            return Outcome::Refused(ErrorKind::AlreadyExists);
        }
        let tables: Tables = tables
            .filter_map(|table| Some((table, self.content(table, self.now_ms)?)))
            .collect();
        // A snapshot of a keyspace may have no tables.
        if of_table && tables.is_empty() {
            return not_found();
        }
        let expiry_ms = ms.map(|ms| self.now_ms + u64::from(ms));
        self.snapshots
            .insert(id, StoredSnapshot { tables, expiry_ms });
        Outcome::Done
    }
}

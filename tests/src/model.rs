//! The reference: what each operation means, in a few sorted maps.
//!
//! A [`World`] is everything stored, and a [`State`] is what is visible of it at some time. Both
//! are cheap to clone, so the proofs keep the world after each operation, which is the full
//! history.

mod state;
mod transaction;
mod world;

use std::ops::Bound;
use std::sync::Arc;

use ebb_storage::ErrorKind;

use crate::operation::{Bounds, Ends, Operation, Read, SLOTS, TableNo};
pub use state::{Content, Entries, Outcome, State, Tables};
use transaction::{Touched, Transaction};
pub use world::World;

/// The entries that an iterator has not returned yet.
type EntriesLeft = std::vec::IntoIter<(Vec<u8>, Arc<[u8]>)>;

/// The content of a database (a [`World`]), and the handles that are open on it.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub world: World,
    views: [Option<State>; SLOTS as usize],
    snapshots: [Option<Tables>; SLOTS as usize],
    pins: [Option<Tables>; SLOTS as usize],
    ranges: [Option<EntriesLeft>; SLOTS as usize],
    transactions: [Option<Transaction>; SLOTS as usize],
    /// Number of commits so far.
    commits: u64,
    /// The ranges of keys that commits wrote while transactions were open, each with the number of
    /// its commit.
    written: Vec<(u64, Touched)>,
}

impl Model {
    /// Runs an operation, and returns the outcome that it must have in a database. If the operation
    /// uses a handle that is not open and a table that does not exist, the outcome is that of the
    /// missing handle: without a handle, the database looks up no table.
    pub fn apply(&mut self, operation: &Operation) -> Outcome {
        match operation {
            Operation::Read(read) => read_of(&self.world.seen(), read),
            Operation::ReadAll => Outcome::Everything(self.world.seen()),
            // Only the content outlives the database: all handles are closed, and open transactions
            // roll back.
            Operation::Reopen => {
                *self = Self {
                    world: std::mem::take(&mut self.world),
                    ..Self::default()
                };
                Outcome::Done
            }
            Operation::OpenView(slot) => {
                self.views[usize::from(*slot)] = Some(self.world.seen());
                Outcome::Done
            }
            Operation::ReadView(slot, read) => match &self.views[usize::from(*slot)] {
                // The table is looked up first, and whether it exists does not depend on the view.
                Some(_) if !self.world.has(table_of(read)) => not_found(),
                Some(view) => read_of(view, read),
                None => Outcome::EmptySlot,
            },
            Operation::CloseView(slot) => close(&mut self.views[usize::from(*slot)]),
            Operation::OpenSnapshot {
                slot,
                keyspace,
                name,
            } => match self.world.snapshot_of(*keyspace, *name) {
                Some(snapshot) => {
                    self.snapshots[usize::from(*slot)] = Some(snapshot.tables.clone());
                    Outcome::Done
                }
                None => not_found(),
            },
            // A snapshot has its own tables, so neither a drop nor the snapshot's deletion matters.
            Operation::ReadSnapshot(slot, read) => {
                read_tables(self.snapshots[usize::from(*slot)].as_ref(), read)
            }
            Operation::CloseSnapshot(slot) => close(&mut self.snapshots[usize::from(*slot)]),
            Operation::Pin {
                slot,
                keyspace,
                name,
            } => match self.world.snapshot_of(*keyspace, *name) {
                Some(snapshot) => {
                    self.pins[usize::from(*slot)] = Some(snapshot.tables.clone());
                    Outcome::Done
                }
                None => not_found(),
            },
            Operation::ReadPinned(slot, read) => {
                read_tables(self.pins[usize::from(*slot)].as_ref(), read)
            }
            Operation::Unpin(slot) => close(&mut self.pins[usize::from(*slot)]),
            Operation::OpenRange(slot, table, bounds) => match self.world.seen().table(*table) {
                Some(content) => {
                    let entries = within(content, *bounds).into_iter();
                    self.ranges[usize::from(*slot)] = Some(entries);
                    Outcome::Done
                }
                None => not_found(),
            },
            Operation::ReadOn(slot, entries, ends) => match &mut self.ranges[usize::from(*slot)] {
                Some(left) => Outcome::Entries(take(left, usize::from(*entries), *ends)),
                None => Outcome::EmptySlot,
            },
            Operation::CloseRange(slot) => close(&mut self.ranges[usize::from(*slot)]),
            Operation::Begin(slot) => {
                self.transactions[usize::from(*slot)] = Some(Transaction {
                    state: self.world.seen(),
                    began: self.commits,
                    writes: Vec::new(),
                    guards: Vec::new(),
                });
                Outcome::Done
            }
            Operation::WriteIn(slot, write) => {
                let Some(transaction) = &mut self.transactions[usize::from(*slot)] else {
                    return Outcome::EmptySlot;
                };
                if !self.world.has(write.table()) {
                    return not_found();
                }
                transaction.write(write);
                Outcome::Done
            }
            Operation::ReadIn(slot, read) => match &self.transactions[usize::from(*slot)] {
                Some(_) if !self.world.has(table_of(read)) => not_found(),
                Some(transaction) => read_of(&transaction.state, read),
                None => Outcome::EmptySlot,
            },
            Operation::Guard(slot, table, key) => {
                self.guard(*slot, *table, Touched::key(*table, *key))
            }
            Operation::GuardRange(slot, table, bounds) => {
                self.guard(*slot, *table, Touched::range(*table, *bounds))
            }
            Operation::Commit(slot) => match self.transactions[usize::from(*slot)].take() {
                Some(transaction) => self.commit(transaction),
                None => Outcome::EmptySlot,
            },
            Operation::Rollback(slot) => close(&mut self.transactions[usize::from(*slot)]),
            Operation::Write(writes)
            | Operation::Transact {
                writes,
                commit: true,
            } => {
                // Such a transaction ends before anything else begins, so it has no conflicts itself.
                // Its writes may conflict with those of transactions that are open in slots.
                let outcome = self.world.apply(operation);
                if outcome == Outcome::Done {
                    self.note(writes.iter().map(Touched::by));
                }
                outcome
            }
            Operation::Truncate(table) => {
                let outcome = self.world.apply(operation);
                if outcome == Outcome::Done {
                    self.note([Touched::range(*table, Bounds::ALL)]);
                }
                outcome
            }
            Operation::Ingest(table, entries) => {
                let outcome = self.world.apply(operation);
                // An ingest counts as a write of all keys from its first to its last.
                let keys = || entries.iter().map(|(key, _)| *key);
                let first = keys().min_by_key(|key| key.bytes()).map(Bound::Included);
                let last = keys().max_by_key(|key| key.bytes()).map(Bound::Included);
                if let Some((first, last)) = first.zip(last)
                    && outcome == Outcome::Done
                {
                    self.note([Touched::range(*table, Bounds(first, last))]);
                }
                outcome
            }
            change => self.world.apply(change),
        }
    }

    /// Makes the transaction in a slot (the number of a handle) guard keys of a table: its commit
    /// is refused if another commit has written one of them since the transaction began.
    fn guard(&mut self, slot: u8, table: TableNo, guarded: Touched) -> Outcome {
        let Some(transaction) = &mut self.transactions[usize::from(slot)] else {
            return Outcome::EmptySlot;
        };
        if !self.world.has(table) {
            return not_found();
        }
        if !guarded.is_empty() {
            transaction.guards.push(guarded);
        }
        Outcome::Done
    }

    /// Commits a transaction. The commit is refused if, since the transaction began, another commit
    /// has written a key that the transaction writes or guards. Two merges into the same key do not
    /// conflict, unless the transaction guards the key. A transaction without writes never
    /// conflicts.
    fn commit(&mut self, transaction: Transaction) -> Outcome {
        // An empty range writes no key. A transaction without writes cannot conflict, whatever it
        // guards.
        let mut writes: Vec<_> = transaction.writes.iter().map(Touched::by).collect();
        writes.retain(|touched| !touched.is_empty());
        if writes.is_empty() {
            return Outcome::Done;
        }
        let since = |commit: u64| commit > transaction.began;
        let mut written = self.written.iter().filter(|(commit, _)| since(*commit));
        let touched = writes.iter().chain(&transaction.guards);
        if written.any(|(_, other)| touched.clone().any(|touched| touched.clashes(other))) {
            return Outcome::Refused(ErrorKind::Conflict);
        }
        self.note(writes);
        self.world.write(&transaction.writes)
    }

    /// Counts a commit. While transactions are open, also remembers the keys that the commit wrote,
    /// because these transactions may conflict with it. Later transactions cannot.
    fn note(&mut self, touched: impl IntoIterator<Item = Touched>) {
        self.commits += 1;
        if self.transactions.iter().all(Option::is_none) {
            self.written.clear();
            return;
        }
        let touched = touched.into_iter().filter(|touched| !touched.is_empty());
        let commit = self.commits;
        self.written
            .extend(touched.map(|touched| (commit, touched)));
    }
}

fn not_found() -> Outcome {
    Outcome::Refused(ErrorKind::NotFound)
}

/// Empties the slot of a handle.
pub fn close<T>(slot: &mut Option<T>) -> Outcome {
    match slot.take() {
        Some(_) => Outcome::Done,
        None => Outcome::EmptySlot,
    }
}

/// Returns the table that `read` reads.
pub fn table_of(read: &Read) -> TableNo {
    match read {
        Read::Get(table, _) | Read::Range(table, ..) => *table,
    }
}

fn read_of(state: &State, read: &Read) -> Outcome {
    match state.table(table_of(read)) {
        Some(content) => read_content(content, read),
        None => not_found(),
    }
}

fn read_tables(tables: Option<&Tables>, read: &Read) -> Outcome {
    match tables.map(|tables| tables.get(&table_of(read))) {
        Some(Some(content)) => read_content(content, read),
        Some(None) => not_found(),
        None => Outcome::EmptySlot,
    }
}

fn read_content(content: &Content, read: &Read) -> Outcome {
    match read {
        Read::Get(_, key) => Outcome::Value(content.get(&key.bytes()).cloned()),
        Read::Range(_, bounds, ends) => {
            let mut entries = within(content, *bounds).into_iter();
            Outcome::Entries(take(&mut entries, usize::MAX, *ends))
        }
    }
}

/// Returns the entries of a content within bounds, ascending.
fn within(content: &Content, bounds: Bounds) -> Entries {
    let inside = content.iter().filter(|(key, _)| bounds.contain(key));
    inside
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Takes up to `items` items from the front or the back of the source, or from both in turn, as
/// `ends` selects. Returns fewer if no item is left.
pub fn take<T>(
    source: &mut impl DoubleEndedIterator<Item = T>,
    items: usize,
    ends: Ends,
) -> Vec<T> {
    let mut taken = Vec::new();
    while taken.len() < items {
        let from_front = match ends {
            Ends::Front => true,
            Ends::Back => false,
            Ends::Both => taken.len().is_multiple_of(2),
        };
        let item = if from_front {
            source.next()
        } else {
            source.next_back()
        };
        match item {
            Some(item) => taken.push(item),
            None => break,
        }
    }
    taken
}

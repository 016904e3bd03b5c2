//! The reference: what each operation means, in a few sorted maps.
//!
//! A [`World`] is all that is stored, and a [`State`] what can be seen of it at a
//! time. Both are cheap to copy, so the proofs keep the world after each
//! operation, which is the full history.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use ebb_storage::ErrorKind;

use crate::operation::{
    Bounds, Ends, KEYSPACES, Key, Operation, Read, SLOTS, TABLES, TableNo, Write,
};

/// The content of a table, by key.
pub type Content = BTreeMap<Vec<u8>, Arc<[u8]>>;
/// The tables of a snapshot.
pub type Tables = BTreeMap<TableNo, Arc<Content>>;
/// Entries in the order in which they were read.
pub type Entries = Vec<(Vec<u8>, Arc<[u8]>)>;

/// What an iterator has still to give.
type EntriesLeft = VecDeque<(Vec<u8>, Arc<[u8]>)>;
/// What is stored in a table, by key.
type Cells = BTreeMap<Vec<u8>, Cell>;

/// All that can be seen of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Which of [`KEYSPACES`] exist.
    pub keyspaces: [bool; KEYSPACES.len()],
    /// By [`TABLES`]; `None` for one that does not exist.
    pub tables: [Option<Arc<Content>>; TABLES.len()],
    /// By keyspace and number of the name.
    pub snapshots: BTreeMap<(u8, u8), Tables>,
}

/// What came of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// What a key holds.
    Value(Option<Arc<[u8]>>),
    /// What a range holds.
    Entries(Entries),
    /// All there is.
    Everything(State),
    /// The database said no, for this reason.
    Refused(ErrorKind),
    /// Nothing is held in that slot.
    EmptySlot,
}

/// A world, and what is held open on it.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// What is there now.
    pub world: World,
    views: [Option<State>; SLOTS as usize],
    snapshots: [Option<Tables>; SLOTS as usize],
    ranges: [Option<EntriesLeft>; SLOTS as usize],
    transactions: [Option<Transaction>; SLOTS as usize],
    /// Commits so far.
    commits: u64,
    /// What was written while transactions were held open, by which commit.
    written: Vec<(u64, Touched)>,
}

/// A transaction that is held open.
#[derive(Debug, Clone)]
struct Transaction {
    /// What it sees, own writes included.
    state: State,
    /// The commits before it.
    began: u64,
    writes: Vec<Write>,
    guards: Vec<Touched>,
}

/// Keys that a commit writes, or a transaction guards.
#[derive(Debug, Clone)]
struct Touched {
    table: TableNo,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    /// Whether it is a merge, which is in no conflict with another one.
    merges: bool,
}

impl Touched {
    fn range(table: TableNo, bounds: Bounds) -> Self {
        let (from, to) = bounds.from_to();
        Self {
            table,
            from,
            to,
            merges: false,
        }
    }

    fn key(table: TableNo, key: Key) -> Self {
        Self::range(table, Bounds(Bound::Included(key), Bound::Included(key)))
    }

    fn by(write: &Write) -> Self {
        match write {
            Write::Put(table, key, _)
            | Write::Delete(table, key)
            | Write::PutWithTtl(table, key, ..) => Self::key(*table, *key),
            Write::Merge(table, key, _) => Self {
                merges: true,
                ..Self::key(*table, *key)
            },
            Write::DeleteRange(table, bounds) => Self::range(*table, *bounds),
        }
    }

    fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }

    fn clashes(&self, other: &Self) -> bool {
        let before = |from: &Vec<u8>, to: &Option<Vec<u8>>| to.as_ref().is_none_or(|to| from < to);
        self.table == other.table
            && !(self.merges && other.merges)
            && before(&self.from, &other.to)
            && before(&other.from, &self.to)
    }
}

impl Model {
    /// Does an operation, and says what must come of it.
    pub fn apply(&mut self, operation: &Operation) -> Outcome {
        match operation {
            Operation::Read(read) => read_of(&self.world.seen(), read),
            Operation::ReadAll => Outcome::Everything(self.world.seen()),
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
                // The table is looked up first, and that it exists is no
                // question of the view.
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
            Operation::ReadSnapshot(slot, read) => match &self.snapshots[usize::from(*slot)] {
                Some(tables) => match tables.get(&table_of(read)) {
                    Some(content) => read_content(content, read),
                    None => not_found(),
                },
                None => Outcome::EmptySlot,
            },
            Operation::CloseSnapshot(slot) => close(&mut self.snapshots[usize::from(*slot)]),
            Operation::OpenRange(slot, table, bounds) => match self.world.seen().table(*table) {
                Some(content) => {
                    let entries = within(content, *bounds).into();
                    self.ranges[usize::from(*slot)] = Some(entries);
                    Outcome::Done
                }
                None => not_found(),
            },
            Operation::ReadOn(slot, entries, ends) => match &mut self.ranges[usize::from(*slot)] {
                Some(left) => Outcome::Entries(take(
                    left,
                    usize::from(*entries),
                    *ends,
                    VecDeque::pop_front,
                    VecDeque::pop_back,
                )),
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
                let Some(transaction) = &mut self.transactions[usize::from(*slot)] else {
                    return Outcome::EmptySlot;
                };
                if !self.world.has(*table) {
                    return not_found();
                }
                transaction.guards.push(Touched::key(*table, *key));
                Outcome::Done
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
                let outcome = self.world.apply(operation);
                if outcome == Outcome::Done {
                    self.note(writes.iter().map(Touched::by));
                }
                outcome
            }
            Operation::Truncate(table) => {
                self.note([Touched::range(*table, Bounds::ALL)]);
                self.world.apply(operation)
            }
            Operation::Ingest(table, entries) => {
                // All that lies between its first key and its last.
                let keys = || entries.iter().map(|(key, _)| *key);
                let first = keys().min_by_key(|key| key.bytes()).map(Bound::Included);
                let last = keys().max_by_key(|key| key.bytes()).map(Bound::Included);
                if let Some(bounds) = first.zip(last) {
                    self.note([Touched::range(*table, Bounds(bounds.0, bounds.1))]);
                }
                self.world.apply(operation)
            }
            change => self.world.apply(change),
        }
    }

    /// The first committer of a key wins.
    fn commit(&mut self, transaction: Transaction) -> Outcome {
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

impl Transaction {
    fn write(&mut self, write: &Write) {
        let content = self.state.tables[write.table().index()].get_or_insert_default();
        let content = Arc::make_mut(content);
        match write {
            Write::Put(_, key, value) => drop(content.insert(key.bytes(), value.bytes().into())),
            // It expires some time after the commit.
            Write::PutWithTtl(_, key, value, ttl_ms) if *ttl_ms > 0 => {
                content.insert(key.bytes(), value.bytes().into());
            }
            Write::Merge(table, key, operand) => {
                let operand: Arc<[u8]> = operand.bytes().into();
                content
                    .entry(key.bytes())
                    .and_modify(|value| *value = merged(table.merge_operator(), value, &operand))
                    .or_insert(operand);
            }
            Write::PutWithTtl(_, key, ..) | Write::Delete(_, key) => {
                content.remove(&key.bytes());
            }
            Write::DeleteRange(_, bounds) => content.retain(|key, _| !bounds.contain(key)),
        }
        self.writes.push(*write);
    }
}

fn not_found() -> Outcome {
    Outcome::Refused(ErrorKind::NotFound)
}

fn close<T>(slot: &mut Option<T>) -> Outcome {
    match slot.take() {
        Some(_) => Outcome::Done,
        None => Outcome::EmptySlot,
    }
}

/// The table that a read is of.
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

fn read_content(content: &Content, read: &Read) -> Outcome {
    match read {
        Read::Get(_, key) => Outcome::Value(content.get(&key.bytes()).cloned()),
        Read::Range(_, bounds, ends) => {
            let mut entries = VecDeque::from(within(content, *bounds));
            Outcome::Entries(take(
                &mut entries,
                usize::MAX,
                *ends,
                VecDeque::pop_front,
                VecDeque::pop_back,
            ))
        }
    }
}

/// What of a content lies within bounds, ascending.
fn within(content: &Content, bounds: Bounds) -> Entries {
    let inside = content.iter().filter(|(key, _)| bounds.contain(key));
    inside
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Takes so many items from these ends, fewer where they meet first.
pub fn take<S, T>(
    source: &mut S,
    items: usize,
    ends: Ends,
    front: impl Fn(&mut S) -> Option<T>,
    back: impl Fn(&mut S) -> Option<T>,
) -> Vec<T> {
    let mut taken = Vec::new();
    while taken.len() < items {
        let from_front = match ends {
            Ends::Front => true,
            Ends::Back => false,
            Ends::Both => taken.len().is_multiple_of(2),
        };
        match if from_front {
            front(source)
        } else {
            back(source)
        } {
            Some(item) => taken.push(item),
            None => break,
        }
    }
    taken
}

/// What is stored under a key: a put, and the operands merged onto it since, as
/// far as it has to be known to tell what is there at a later time.
#[derive(Debug, Clone)]
struct Cell {
    base: Arc<[u8]>,
    /// From when on the base is gone.
    expiry_ms: Option<u64>,
    /// Merged onto a base that expires; what is left without it.
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

fn merged(operator: Option<&str>, older: &[u8], newer: &[u8]) -> Arc<[u8]> {
    match operator {
        Some("append") => [older, newer].concat().into(),
        Some("max") => older.max(newer).into(),
        other => unreachable!("no table has the operator {other:?}"),
    }
}

/// All there is in a database at one commit; what can be seen of it depends on
/// the time.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// By the clock of the database, in milliseconds since some time.
    pub now_ms: u64,
    keyspaces: [bool; KEYSPACES.len()],
    tables: [Option<Arc<Cells>>; TABLES.len()],
    snapshots: BTreeMap<(u8, u8), Kept>,
}

/// A snapshot; it judges what expires at its creation.
#[derive(Debug, Clone)]
struct Kept {
    tables: Tables,
    /// From when on it is gone.
    expiry_ms: Option<u64>,
}

impl Kept {
    fn is_there(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_none_or(|at| at > now_ms)
    }
}

impl World {
    /// What can be seen now.
    pub fn seen(&self) -> State {
        self.seen_at(self.now_ms)
    }

    /// What could be seen at a time.
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

    /// A world in which everything was put once, as it can be seen.
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
                    (id, Kept { tables, expiry_ms })
                })
                .collect(),
        }
    }

    fn snapshot_of(&self, keyspace: u8, name: u8) -> Option<&Kept> {
        let found = self.snapshots.get(&(keyspace, name));
        found.filter(|snapshot| snapshot.is_there(self.now_ms))
    }

    /// Takes over which keyspaces and tables exist; those that are new here are
    /// empty.
    pub fn exist_as(&mut self, state: &State) {
        self.keyspaces = state.keyspaces;
        for (mine, seen) in self.tables.iter_mut().zip(&state.tables) {
            match seen {
                Some(_) => drop(mine.get_or_insert_default()),
                None => *mine = None,
            }
        }
    }

    fn has(&self, table: TableNo) -> bool {
        self.tables[table.index()].is_some()
    }

    fn content(&self, table: TableNo, now_ms: u64) -> Option<Arc<Content>> {
        let cells = self.tables[table.index()].as_ref()?;
        let seen = cells.iter().filter_map(|(key, cell)| {
            let value = cell.value(table.merge_operator(), now_ms)?;
            Some((key.clone(), value))
        });
        Some(Arc::new(seen.collect()))
    }

    /// Does an operation that changes something; others change nothing.
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
            Operation::Transact { writes, commit } => {
                match writes.iter().all(|write| self.has(write.table())) {
                    true if *commit => self.write(writes),
                    true => Outcome::Done,
                    false => not_found(),
                }
            }
            Operation::Advance(ms) => {
                self.now_ms += u64::from(*ms);
                Outcome::Done
            }
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
            Operation::CreateSnapshot { keyspace, name } => {
                self.snapshot_keyspace(*keyspace, *name, None)
            }
            Operation::CreateExpiringSnapshot { keyspace, name, ms } => {
                self.snapshot_keyspace(*keyspace, *name, Some(*ms))
            }
            Operation::CreateTableSnapshot { table, name } => {
                let id = (table.keyspace_index() as u8, *name);
                self.snapshot(id, [*table].into_iter(), true, None)
            }
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
            Operation::Backup => Outcome::Everything(self.seen()),
            _ => Outcome::Done,
        }
    }

    fn write(&mut self, writes: &[Write]) -> Outcome {
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

    fn snapshot_keyspace(&mut self, keyspace: u8, name: u8, ms: Option<u32>) -> Outcome {
        let of_keyspace = |table: &TableNo| table.keyspace_index() == usize::from(keyspace);
        let tables = TableNo::all().filter(of_keyspace);
        self.snapshot((keyspace, name), tables, false, ms)
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
        // A keyspace without tables has a snapshot all the same.
        if of_table && tables.is_empty() {
            return not_found();
        }
        let expiry_ms = ms.map(|ms| self.now_ms + u64::from(ms));
        self.snapshots.insert(id, Kept { tables, expiry_ms });
        Outcome::Done
    }
}

impl State {
    /// The content of a table, if it exists.
    pub fn table(&self, table: TableNo) -> Option<&Arc<Content>> {
        self.tables[table.index()].as_ref()
    }

    /// The same with tables that do not exist taken for empty ones: a table is
    /// made by an edit of the manifest, which has no place in the order of
    /// commits.
    pub fn without_existence(mut self) -> Self {
        self.keyspaces.fill(true);
        for table in &mut self.tables {
            table.get_or_insert_default();
        }
        self
    }

    /// Where two states differ, in few words.
    pub fn difference(&self, other: &Self) -> String {
        if self.keyspaces != other.keyspaces {
            return format!(
                "keyspaces exist: {:?} and {:?}",
                self.keyspaces, other.keyspaces
            );
        }
        for table in TableNo::all() {
            match (self.table(table), other.table(table)) {
                (Some(a), Some(b)) if a != b => {
                    return format!("{table}: {}", content_difference(a, b));
                }
                (Some(_), None) => return format!("{table} is there and is not"),
                (None, Some(_)) => return format!("{table} is not there and is"),
                _ => {}
            }
        }
        let names = |state: &Self| state.snapshots.keys().copied().collect::<Vec<_>>();
        if names(self) != names(other) {
            return format!("snapshots {:?} and {:?}", names(self), names(other));
        }
        for (name, tables) in &self.snapshots {
            for (table, content) in tables {
                match other.snapshots[name].get(table) {
                    Some(same) if same == content => {}
                    Some(b) => {
                        let difference = content_difference(content, b);
                        return format!("snapshot {name:?} of {table}: {difference}");
                    }
                    None => return format!("snapshot {name:?} without {table}"),
                }
            }
            if other.snapshots[name].len() > tables.len() {
                return format!("snapshot {name:?} with too many tables");
            }
        }
        "no difference".into()
    }
}

fn content_difference(a: &Content, b: &Content) -> String {
    let different = a
        .keys()
        .chain(b.keys())
        .find(|key| a.get(*key) != b.get(*key));
    match different {
        Some(key) => format!(
            "\"{}\" is {} and {}",
            key.escape_ascii(),
            short(a.get(key)),
            short(b.get(key))
        ),
        None => "no difference".into(),
    }
}

/// The start of a value, and its length.
fn short(value: Option<&Arc<[u8]>>) -> String {
    match value {
        Some(value) => {
            let start = &value[..value.len().min(8)];
            format!("{start:02x?} ({} bytes)", value.len())
        }
        None => "nothing".into(),
    }
}

impl Outcome {
    /// Where two outcomes differ, in few words.
    pub fn difference(&self, other: &Self) -> String {
        match (self, other) {
            (Self::Everything(a), Self::Everything(b)) => a.difference(b),
            (Self::Value(a), Self::Value(b)) => {
                format!("{} and {}", short(a.as_ref()), short(b.as_ref()))
            }
            (Self::Entries(a), Self::Entries(b)) => {
                let at = a.iter().zip(b).take_while(|(a, b)| a == b).count();
                let entry = |entries: &Entries| match entries.get(at) {
                    Some((key, value)) => {
                        format!("\"{}\" = {}", key.escape_ascii(), short(Some(value)))
                    }
                    None => "the end".into(),
                };
                format!("entry {at} is {} and {}", entry(a), entry(b))
            }
            (a, b) => format!("{} and {}", a.name(), b.name()),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Done => "done".into(),
            Self::Value(_) => "a value".into(),
            Self::Entries(_) => "entries".into(),
            Self::Everything(_) => "everything".into(),
            Self::Refused(kind) => format!("refused as {kind:?}"),
            Self::EmptySlot => "an empty slot".into(),
        }
    }
}

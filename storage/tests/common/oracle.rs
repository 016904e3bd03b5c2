//! The oracle: what a database must hold, in a few sorted maps.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use ebb_storage::{Db, Error, Result};

use super::{Change, Content, Op, TABLES, Write, content, lies_within};

/// A key as the oracle knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// What was put, and from when on it is gone.
    put: Option<(Vec<u8>, u64)>,
    /// What was appended to it since.
    appended: Option<Vec<u8>>,
}

impl Cell {
    fn put(value: &[u8], expiry_ms: u64) -> Self {
        Self {
            put: Some((value.to_vec(), expiry_ms)),
            appended: None,
        }
    }

    fn at(&self, now_ms: u64) -> Option<Cow<'_, [u8]>> {
        let put = self.put.as_ref().filter(|(_, expiry)| now_ms < *expiry);
        match (put, &self.appended) {
            (None, None) => None,
            (Some((value, _)), None) => Some(value.into()),
            (None, Some(appended)) => Some(appended.into()),
            (Some((value, _)), Some(appended)) => Some([&value[..], appended].concat().into()),
        }
    }
}

/// The state of a database: its tables by [`TABLES`], and what each snapshot
/// sees of them.
///
/// Contents are shared until they change, so that a copy costs little.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Oracle {
    pub now_ms: u64,
    tables: [Rc<BTreeMap<Vec<u8>, Cell>>; TABLES.len()],
    pub snapshots: BTreeMap<(&'static str, String), Tables>,
}

/// The tables of a snapshot by name.
pub type Tables = BTreeMap<&'static str, Rc<Content>>;

/// What there is to find in a database at some time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub tables: [Rc<Content>; TABLES.len()],
    pub snapshots: BTreeMap<(&'static str, String), Tables>,
}

impl Oracle {
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Write(writes) => {
                for write in writes {
                    self.change(write.table, &write.change);
                }
            }
            Op::Truncate(table) => self.tables[*table] = Rc::default(),
            Op::Tick(ms) => self.now_ms += ms,
            Op::CreateSnapshot {
                keyspace,
                name,
                table,
            } => {
                let covered = (0..TABLES.len()).filter(|&i| {
                    let (ks, name) = TABLES[i];
                    ks == *keyspace && table.is_none_or(|table| table == name)
                });
                let tables = covered.map(|i| (TABLES[i].1, self.table(i)));
                let tables = tables.collect();
                self.snapshots.insert((keyspace, name.clone()), tables);
            }
            Op::DeleteSnapshot { keyspace, name } => {
                self.snapshots.remove(&(*keyspace, name.clone()));
            }
            Op::Flush | Op::Compact | Op::Sync => {}
        }
    }

    fn change(&mut self, table: usize, change: &Change) {
        let cells = Rc::make_mut(&mut self.tables[table]);
        match change {
            Change::Put(key, value) => {
                cells.insert(key.clone(), Cell::put(value, u64::MAX));
            }
            Change::PutFor(key, value, ms) => {
                cells.insert(key.clone(), Cell::put(value, self.now_ms + ms));
            }
            Change::Merge(key, operand) => {
                let cell = cells.entry(key.clone()).or_default();
                let appended = cell.appended.get_or_insert_default();
                appended.extend_from_slice(operand);
            }
            Change::Delete(key) => {
                cells.remove(key);
            }
            Change::DeleteRange(bounds) => cells.retain(|key, _| !lies_within(key, bounds)),
        }
    }

    /// What a table has now.
    pub fn table(&self, table: usize) -> Rc<Content> {
        let live = self.live_at(table, self.now_ms);
        Rc::new(
            live.map(|(key, value)| (key.clone(), value.into_owned()))
                .collect(),
        )
    }

    /// What a key has now.
    pub fn get(&self, table: usize, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.tables[table].get(key)?.at(self.now_ms)
    }

    fn live_at(
        &self,
        table: usize,
        now_ms: u64,
    ) -> impl Iterator<Item = (&Vec<u8>, Cow<'_, [u8]>)> {
        let cells = self.tables[table].iter();
        cells.filter_map(move |(key, cell)| Some((key, cell.at(now_ms)?)))
    }

    /// What all tables have now.
    pub fn contents(&self) -> [Rc<Content>; TABLES.len()] {
        std::array::from_fn(|table| self.table(table))
    }

    /// Whether this is what there is to find at a time.
    pub fn is_seen_as(&self, seen: &Seen, now_ms: u64) -> bool {
        let table = |i: usize| {
            let seen = seen.tables[i].iter();
            self.live_at(i, now_ms)
                .eq(seen.map(|(key, value)| (key, value.into())))
        };
        self.snapshots == seen.snapshots && (0..TABLES.len()).all(table)
    }

    /// What there is to find at a time.
    pub fn seen_at(&self, now_ms: u64) -> Seen {
        let then = Self {
            now_ms,
            ..self.clone()
        };
        Seen {
            tables: then.contents(),
            snapshots: then.snapshots,
        }
    }
}

impl Seen {
    /// All that a database holds, read out. Tables that do not exist count as
    /// empty: a crash may come before they are made.
    pub fn read(db: &Db) -> Result<Self> {
        let mut found = Self::default();
        for (i, (keyspace, table)) in TABLES.iter().enumerate() {
            let table = db
                .existing_keyspace(keyspace)
                .and_then(|keyspace| keyspace.existing_table(table));
            match table {
                Ok(table) => found.tables[i] = Rc::new(content(table.range::<&[u8], _>(..))?),
                Err(Error::NotFound { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        for keyspace in ["app", "log"] {
            let Ok(handle) = db.existing_keyspace(keyspace) else {
                continue;
            };
            for info in handle.snapshots() {
                let snapshot = handle.snapshot(&info.name)?;
                let mut tables = BTreeMap::new();
                for name in &info.tables {
                    let (_, name) = TABLES.iter().find(|(_, t)| t == name).unwrap();
                    let range = snapshot.table(name)?.range::<&[u8], _>(..);
                    tables.insert(*name, Rc::new(content(range)?));
                }
                let before = found
                    .snapshots
                    .insert((keyspace, info.name.clone()), tables);
                assert!(before.is_none(), "two snapshots named {}", info.name);
            }
        }
        Ok(found)
    }

    /// Where two states differ, in few words.
    pub fn difference(&self, other: &Self) -> String {
        for (i, (a, b)) in self.tables.iter().zip(&other.tables).enumerate() {
            if a != b {
                return format!("table {:?}: {}", TABLES[i], content_difference(a, b));
            }
        }
        let names = |state: &Self| state.snapshots.keys().cloned().collect::<Vec<_>>();
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
        }
        "no difference".into()
    }
}

fn content_difference(a: &Content, b: &Content) -> String {
    let keys: Vec<_> = a.keys().chain(b.keys()).collect();
    let different = keys.into_iter().find(|key| a.get(*key) != b.get(*key));
    let short = |value: Option<&Vec<u8>>| {
        value.map(|value| {
            let start = &value[..value.len().min(8)];
            format!("{start:02x?} ({} bytes)", value.len())
        })
    };
    match different {
        Some(key) => format!(
            "{:?} is {:?} and {:?}",
            String::from_utf8_lossy(key),
            short(a.get(key)),
            short(b.get(key))
        ),
        None => "no difference".into(),
    }
}

//! The visible content of a database, and the outcomes of operations.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebb_storage::ErrorKind;

use crate::operation::{KEYSPACES, TABLES, TableNo};

/// The content of a table, by key.
pub type Content = BTreeMap<Vec<u8>, Arc<[u8]>>;
/// The tables of a snapshot, with their content.
pub type Tables = BTreeMap<TableNo, Arc<Content>>;
/// Entries in the order in which they were read.
pub type Entries = Vec<(Vec<u8>, Arc<[u8]>)>;

/// Everything that is visible in a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Whether each of [`KEYSPACES`] exists.
    pub keyspaces: [bool; KEYSPACES.len()],
    /// The content of each of [`TABLES`]; `None` if the table does not exist.
    pub tables: [Option<Arc<Content>>; TABLES.len()],
    /// The snapshots, by the position of the keyspace in [`KEYSPACES`] and the number in the
    /// snapshot's name.
    pub snapshots: BTreeMap<(u8, u8), Tables>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The operation succeeded.
    Done,
    /// The content of a key; `None` if the key is absent.
    Value(Option<Arc<[u8]>>),
    Entries(Entries),
    /// The result of reading all tables and snapshots.
    Everything(State),
    /// The database refused the operation with this kind of error.
    Refused(ErrorKind),
    /// The operation uses a handle that is not open: there is none in its slot.
    EmptySlot,
}

impl State {
    /// Returns the content of a table, if the table exists.
    pub fn table(&self, table: TableNo) -> Option<&Arc<Content>> {
        self.tables[table.index()].as_ref()
    }

    /// Returns this state with all keyspaces and tables, the missing ones as empty ones. For
    /// comparisons after a crash or a failed call: then a table may exist or not, because it is
    /// created by an edit of the manifest, which is not ordered with the commits.
    pub fn without_existence(mut self) -> Self {
        self.keyspaces.fill(true);
        for table in &mut self.tables {
            table.get_or_insert_default();
        }
        self
    }

    /// Describes one difference between two states in a few words. Returns "no difference" if they
    /// are equal.
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

/// Formats the start of a value and its length.
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
    /// Describes one difference between two outcomes, which must not be equal, in a few words.
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

//! Reading the whole visible content of a database.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebb_storage::{Db, Error, ErrorKind, Range, Result};

use crate::model::{Content, State, Tables};
use crate::operation::{KEYSPACES, TableNo};

/// Reads the whole visible content of a database.
///
/// # Errors
/// Any error of a read; [`Error::InvalidRequest`] for content that no database may have: keys out
/// of order, or unknown names.
pub fn read_everything(db: &Db) -> Result<State> {
    read_prefixed(db, "")
}

/// Reads the visible content of the keyspaces whose names begin with `prefix`.
///
/// # Errors
/// As [`read_everything`].
pub fn read_prefixed(db: &Db, prefix: &str) -> Result<State> {
    let keyspace_of = |name: &str| db.existing_keyspace(&format!("{prefix}{name}"));
    let mut state = State::default();
    for table in TableNo::all() {
        let handle = keyspace_of(table.keyspace())
            .and_then(|keyspace| keyspace.existing_table(table.name()));
        match handle {
            Ok(handle) => {
                let content = content(handle.range::<&[u8], _>(..))?;
                state.tables[table.index()] = Some(Arc::new(content));
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    for (number, name) in KEYSPACES.iter().enumerate() {
        let Ok(keyspace) = keyspace_of(name) else {
            continue;
        };
        state.keyspaces[number] = true;
        for info in keyspace.snapshots() {
            let id = info.name.strip_prefix('s').and_then(|n| n.parse().ok());
            let id = id.ok_or_else(|| odd(format!("a snapshot named {}", info.name)))?;
            let snapshot = keyspace.snapshot(&info.name)?;
            let mut tables: Tables = BTreeMap::new();
            for table in &info.tables {
                let number = TableNo::all().find(|number| number.name() == table);
                let number = number.ok_or_else(|| odd(format!("a table named {table}")))?;
                let range = snapshot.table(table)?.range::<&[u8], _>(..);
                tables.insert(number, Arc::new(content(range)?));
            }
            if state.snapshots.insert((number as u8, id), tables).is_some() {
                return Err(odd(format!("two snapshots named {}", info.name)));
            }
        }
    }
    Ok(state)
}

fn content(range: Range) -> Result<Content> {
    let mut content = Content::new();
    for entry in range {
        let (key, value) = entry?;
        if let Some((last, _)) = content.last_key_value()
            && last[..] >= key[..]
        {
            return Err(odd(format!("{key:?} after {last:?}")));
        }
        content.insert(key.to_vec(), value[..].into());
    }
    Ok(content)
}

fn odd(found: String) -> Error {
    Error::InvalidRequest(format!("the database holds {found}"))
}

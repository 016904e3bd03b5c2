//! The records of the schema as they are in a database. Nothing is written here: starts use this
//! before they complete interrupted changes, and so do read-only commands.
//!
//! ```text
//! ebb_system.keyspaces   name -> state: 1 | record
//! ebb_system.creations   KEYSPACE.TABLE -> 01, while that table is being created
//! KEYSPACE.TABLE         SCHEMA_KEY -> record, before entries of indexes and rows
//! ```
//!
//! The record of a keyspace that is being dropped is `02`, then 16 bytes for each of its tables:
//! the MD5 of the table's record, as a uuid of version 3. `ebb repair` may bring such a record back
//! long after the drop, so a drop is completed only if the record lists every table that is there.
//!
//! A missing or damaged record takes its own object out of service, and nothing else. A table
//! without a record counts as an interrupted creation only if two facts prove it: the creation was
//! noted before the table was created, and the table is empty.

use std::collections::BTreeSet;

use bytes::Bytes;
use ebb_model::key::SCHEMA_KEY;
use ebb_storage::{Db, ErrorKind, Table};
use uuid::Uuid;

use super::damage::{MISSING, Readable, is_empty, readable};
use super::error::Result;
use super::operators::CQL_ROW;
use crate::names::SYSTEM_KEYSPACE;

/// The first byte in the record of an existing keyspace.
pub(super) const PRESENT: u8 = 1;
/// The first byte in the record of a keyspace that is being dropped with everything in it.
pub(super) const DROPPING: u8 = 2;

/// The table of the records of keyspaces, in [`SYSTEM_KEYSPACE`].
pub(super) const KEYSPACES_TABLE: &str = "keyspaces";
/// The table that notes creations of tables, in [`SYSTEM_KEYSPACE`].
pub(super) const CREATIONS_TABLE: &str = "creations";

/// The schema of a database as it is stored.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The keyspaces that CQL created, in the order of their names, without those in `dropping`.
    pub(super) keyspaces: Vec<StoredKeyspace>,
    /// Keyspaces whose drop was interrupted and may be completed.
    pub(super) dropping: Vec<String>,
    /// Tables whose creation was interrupted, each as its keyspace and its name.
    pub(super) cut: Vec<(String, String)>,
    /// The keys in `ebb_system.creations` that a start removes. Each key notes that the creation of
    /// a table has begun. The keys of tables that are kept although their records are unreadable or
    /// missing are not removed.
    pub(super) notes: BTreeSet<Bytes>,
}

#[derive(Debug)]
pub(super) struct StoredKeyspace {
    pub(super) name: String,
    pub(super) record: Readable<Bytes>,
    /// The tables that CQL created, in the order of their names.
    pub(super) tables: Vec<StoredTable>,
}

#[derive(Debug)]
pub(super) struct StoredTable {
    pub(super) table: Table,
    pub(super) record: Readable<Bytes>,
}

impl Survey {
    /// Reads the records of the schema of a database.
    ///
    /// # Errors
    /// If the store failed for another reason than damage.
    pub(super) fn of(db: &Db) -> Result<Self> {
        let records = own_table(db, KEYSPACES_TABLE)?;
        let mut survey = Self {
            notes: notes(own_table(db, CREATIONS_TABLE)?)?,
            ..Self::default()
        };
        for name in keyspace_names(db, records.as_ref())? {
            let found = match &records {
                Some(records) => readable(records.get(name.as_bytes()))?,
                None => Ok(None),
            };
            let tables = Tables::of(db, &name)?;
            let record = match found {
                Ok(Some(value)) => match value.first() {
                    Some(&PRESENT) => Ok(value.slice(1..)),
                    Some(&DROPPING) if is_drop_proved(db, &name, &value, &tables)? => {
                        survey.dropping.push(name);
                        continue;
                    }
                    Some(&DROPPING) => Err(NOT_LISTED.to_string()),
                    state => Err(format!("its state is {state:?}, known are 1 and 2")),
                },
                Ok(None) if tables.cql.is_empty() => continue,
                Ok(None) => Err(MISSING.to_string()),
                Err(_) if !tables.may_be_of_cql() => continue,
                Err(damage) => Err(damage),
            };
            let tables = survey.tables(&name, tables.cql)?;
            survey.keyspaces.push(StoredKeyspace {
                name,
                record,
                tables,
            });
        }
        Ok(survey)
    }

    /// Returns the tables `found` of a keyspace with their records. Leaves out tables whose creation was
    /// interrupted, and adds them to `cut`. Removes the keys of unreadable tables from `notes`.
    fn tables(&mut self, keyspace: &str, found: Vec<Table>) -> Result<Vec<StoredTable>> {
        let mut tables = Vec::new();
        for table in found {
            let note = creation_key(keyspace, table.name());
            let record = match readable(table.get(SCHEMA_KEY))? {
                Ok(Some(record)) => Ok(record),
                Ok(None) => {
                    let is_noted = self.notes.contains(note.as_bytes());
                    if is_noted && is_empty(table.range::<&[u8], _>(..))? {
                        self.cut
                            .push((keyspace.to_string(), table.name().to_string()));
                        continue;
                    }
                    Err(MISSING.to_string())
                }
                Err(damage) => Err(damage),
            };
            if record.is_err() {
                // The note stays while the state of the table is unknown.
                self.notes.remove(note.as_bytes());
            }
            tables.push(StoredTable { table, record });
        }
        Ok(tables)
    }
}

/// The tables of a keyspace, divided into those that CQL created and others.
#[derive(Debug, Default)]
struct Tables {
    cql: Vec<Table>,
    /// True if there are tables that CQL did not create.
    has_others: bool,
}

impl Tables {
    fn of(db: &Db, keyspace: &str) -> Result<Self> {
        let keyspace = match db.existing_keyspace(keyspace) {
            Ok(keyspace) => keyspace,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error.into()),
        };
        let mut tables = Self::default();
        for name in keyspace.tables() {
            // A table that was dropped meanwhile does not count.
            match keyspace.existing_table(&name) {
                Ok(table) if is_cql_table(&table) => tables.cql.push(table),
                Ok(_) => tables.has_others = true,
                Err(_) => {}
            }
        }
        Ok(tables)
    }

    /// Returns whether CQL may have created the keyspace, judged by its tables alone: false only if
    /// it has tables, and CQL created none of them. The result is needed if damage hides whether
    /// the keyspace has a record, because the damaged records may all belong to other keyspaces.
    fn may_be_of_cql(&self) -> bool {
        !self.cql.is_empty() || !self.has_others
    }
}

/// The reason for not reading a keyspace whose drop was interrupted and must not be completed.
const NOT_LISTED: &str = "its record says that it is being dropped, but it has tables or snapshots \
                          that the record does not list";

/// Returns the record that marks a keyspace as being dropped. It has a fingerprint of each table's
/// schema record, so that a restart completes the drop only if the keyspace has no other tables.
///
/// # Errors
/// If the store failed for another reason than damage.
pub(super) fn dropping_record(db: &Db, keyspace: &str) -> Result<Vec<u8>> {
    let mut value = vec![DROPPING];
    for table in Tables::of(db, keyspace)?.cql {
        // A table without a record has no identity to list. If the drop is interrupted then, the
        // keyspace is out of service until it is dropped again.
        if let Ok(Some(record)) = readable(table.get(SCHEMA_KEY))? {
            value.extend(fingerprint(&record));
        }
    }
    Ok(value)
}

/// Returns whether the interrupted drop of a keyspace may be completed: all tables of the keyspace
/// must be in the list of the drop's record, `value`. A record of an earlier version lists no tables,
/// so the keyspace must have none. A keyspace that has snapshots but no tables is not dropped, because
/// the snapshots may contain tables that were created after the record was written.
fn is_drop_proved(db: &Db, keyspace: &str, value: &[u8], tables: &Tables) -> Result<bool> {
    if tables.has_others {
        return Ok(false);
    }
    if tables.cql.is_empty() {
        let found = db.existing_keyspace(keyspace);
        return Ok(found.map_or_else(|_| true, |of| of.snapshot_names().is_empty()));
    }
    let listed: BTreeSet<&[u8]> = value[1..].chunks_exact(FINGERPRINT_BYTES).collect();
    for table in &tables.cql {
        let Ok(Some(record)) = readable(table.get(SCHEMA_KEY))? else {
            return Ok(false);
        };
        if !listed.contains(&fingerprint(&record)[..]) {
            return Ok(false);
        }
    }
    Ok(true)
}

const FINGERPRINT_BYTES: usize = 16;

/// Returns the fingerprint of a table's record. It is unique because the record contains the
/// table's id.
fn fingerprint(record: &[u8]) -> [u8; FINGERPRINT_BYTES] {
    Uuid::new_v3(&Uuid::nil(), record).into_bytes()
}

/// Returns the key in `ebb_system.creations` under which a table is noted while it is being
/// created.
pub(super) fn creation_key(keyspace: &str, table: &str) -> String {
    format!("{keyspace}.{table}")
}

/// Returns a table of ebb's own keyspace; `None` if it does not exist, as in a database whose catalog
/// was never opened.
pub(super) fn own_table(db: &Db, name: &str) -> Result<Option<Table>> {
    let own = db.existing_keyspace(SYSTEM_KEYSPACE);
    match own.and_then(|own| own.existing_table(name)) {
        Ok(table) => Ok(Some(table)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the keys of all tables that are noted as being created, up to the first unreadable
/// entry. If the note of a table is lost, the table does not count as an interrupted creation, so
/// it is not dropped.
fn notes(creations: Option<Table>) -> Result<BTreeSet<Bytes>> {
    let mut notes = BTreeSet::new();
    for entry in creations.iter().flat_map(|all| all.range::<&[u8], _>(..)) {
        let Ok((key, _)) = readable(entry)? else {
            break;
        };
        notes.insert(key);
    }
    Ok(notes)
}

/// Returns the names of all keyspaces that exist in the store or have a record, except ebb's own
/// keyspace. Damage may make records unreadable. Then names are missing only of keyspaces that do
/// not exist in the store, because their creation or drop was interrupted.
fn keyspace_names(db: &Db, records: Option<&Table>) -> Result<BTreeSet<String>> {
    let mut names: BTreeSet<String> = db.keyspaces().into_iter().collect();
    for entry in records
        .into_iter()
        .flat_map(|all| all.range::<&[u8], _>(..))
    {
        let Ok((key, _)) = readable(entry)? else {
            break;
        };
        // No keyspace has a name that is not UTF-8.
        if let Ok(name) = String::from_utf8(key.to_vec()) {
            names.insert(name);
        }
    }
    names.remove(SYSTEM_KEYSPACE);
    Ok(names)
}

/// Returns whether a crash interrupted the creation of a table: the creation is noted as under way,
/// and the table is empty.
///
/// # Errors
/// If the store failed for another reason than damage.
pub(super) fn is_cut_creation(creations: &Table, table: &Table) -> Result<bool> {
    let note = creation_key(table.keyspace(), table.name());
    let found = readable(creations.get(note.as_bytes()))?;
    Ok(matches!(found, Ok(Some(_))) && is_empty(table.range::<&[u8], _>(..))?)
}

/// Returns whether a keyspace that is not in the schema may be in it after a later start. If the record of a
/// keyspace could not be read and CQL created none of its tables, the schema lacks the keyspace. A later start
/// may read the record, unless the keyspace is gone from the store or is being dropped.
///
/// # Errors
/// If the store failed for another reason than damage.
pub(super) fn may_come_back(db: &Db, keyspace: &str) -> Result<bool> {
    if db.existing_keyspace(keyspace).is_err() {
        return Ok(false);
    }
    let Some(records) = own_table(db, KEYSPACES_TABLE)? else {
        return Ok(false);
    };
    Ok(match readable(records.get(keyspace.as_bytes()))? {
        // Also a record that is readable now: a failure to read it may have passed since the start.
        Ok(record) => record.is_some_and(|record| record.first() != Some(&DROPPING)),
        Err(_) => true,
    })
}

/// Returns whether CQL created the table.
pub fn is_cql_table(table: &Table) -> bool {
    table.options().merge_operator.as_deref() == Some(CQL_ROW)
}

/// Returns whether CQL created the keyspace. It did if the keyspace has a record or a table that CQL
/// created. If the record is damaged, returns true for a keyspace without tables, too.
///
/// # Errors
/// If the store failed for another reason than damage.
pub fn is_cql_keyspace(db: &Db, name: &str) -> Result<bool> {
    let tables = Tables::of(db, name)?;
    let Some(records) = own_table(db, KEYSPACES_TABLE)? else {
        return Ok(!tables.cql.is_empty());
    };
    Ok(match readable(records.get(name.as_bytes()))? {
        Ok(record) => record.is_some() || !tables.cql.is_empty(),
        Err(_) => tables.may_be_of_cql(),
    })
}

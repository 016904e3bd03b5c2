//! Snapshots in CQL: the statements that create, drop and list them, and the names by which they
//! are read.
//!
//! A snapshot `s` of a keyspace `ks` is read by `SELECT ... FROM ks.t USING SNAPSHOT s`. Clients
//! that cannot change their statements use the snapshot as a keyspace: `"ks@s"`, or `ks__at__s` if
//! a driver rejects `@`. No keyspace may have a name of these forms, so a snapshot never hides a
//! keyspace. A name `ks__at__s` that fits two snapshots is rejected. A statement that selects the
//! name of a snapshot from `system_schema` finds the snapshot there, as a keyspace. A setting makes
//! `system_schema` list the newest snapshots to all clients; then clients get an event when a
//! snapshot is listed, or no longer listed, as for a keyspace. Only a snapshot that takes the place
//! of an expired one is listed without an event.
//!
//! Tables, columns and types are those of the snapshot's moment, because their schema is stored in
//! the tables. Expiry is relative to that moment, too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ebb_cql::protocol::{ErrorResponse, Response, SchemaChange, SchemaChangeKind, SchemaTarget};
use ebb_cql::syntax::ast::{
    CreateSnapshot, DropSnapshot, ListSnapshots, Property, PropertyValue, SnapshotScope as Scope,
    Statement,
};
use ebb_model::access::Resource;
use ebb_model::schema::{KeyspaceSchema, TableSchema};
use ebb_storage::{Db, ErrorKind, Keyspace, SnapshotOptions, SnapshotScope, SnapshotTable};
use ebb_tables::lifetime::{LIFETIME_MAX, LIFETIME_YEARS_MAX};
use ebb_tables::{CatalogState, SNAPSHOT_SIGN, covered_resource, schema_at};

use super::context::{SchemaContext, in_keyspace};
use super::error::{Result, invalid, of_catalog, of_schema, of_store};
use super::interrupt;
use super::listing::Listing;
use super::outcome::Outcome;
use super::system::snapshot_rows;

/// The separator of keyspace and snapshot for drivers that reject `@`.
pub(super) const AT_ALIAS: &str = "__at__";

/// A snapshot with at most this many types and tables causes one event for each of them and one for
/// its keyspace; a larger one causes only the event of its keyspace. Drivers send several
/// statements for each event, and the queue of events has to hold the events of several snapshots.
const OBJECT_EVENTS_MAX: usize = 64;

/// The names of a snapshot and of its keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotName {
    pub keyspace: String,
    pub snapshot: String,
}

/// A table at the moment of a snapshot.
#[derive(Debug, Clone)]
pub struct SnapshotTarget {
    pub schema: Arc<TableSchema>,
    /// The rows of the table. Whether a value has expired is decided by the time of the snapshot.
    pub rows: SnapshotTable,
}

/// Returns whether `name` can only be the name of a snapshot: it contains `@`, or has the form
/// `ks__at__s` with an existing keyspace `ks`. The snapshot need not exist.
pub fn names_snapshot(state: &CatalogState, name: &str) -> bool {
    name.contains(SNAPSHOT_SIGN) || splits(state, name).next().is_some()
}

/// Returns every way to split `name` at `@` or `__at__` into the name of an existing keyspace and
/// the name of a snapshot, which need not exist.
fn splits<'a>(
    state: &'a CatalogState,
    name: &'a str,
) -> impl Iterator<Item = (&'a str, &'a str)> + 'a {
    let signs = name
        .match_indices(SNAPSHOT_SIGN)
        .map(|(at, sign)| (at, sign.len()));
    // Aliases may overlap.
    let is_alias = |at: &usize| {
        name.get(*at..)
            .is_some_and(|rest| rest.starts_with(AT_ALIAS))
    };
    let aliases = (0..name.len()).filter(is_alias);
    let aliases = aliases.map(|at| (at, AT_ALIAS.len()));
    let parts = signs
        .chain(aliases)
        .map(|(at, len)| (&name[..at], &name[at + len..]));
    parts.filter(|(keyspace, _)| state.schema().keyspace(keyspace).is_some())
}

/// Returns the snapshot that a keyspace name such as `ks@s` or `ks__at__s` stands for. Returns
/// `None` for a name of another form, and for a name with `__at__` if there is no such snapshot.
///
/// # Errors
/// For a name with `@` if there is no such keyspace or snapshot, and for a name with `__at__` that
/// fits several snapshots.
pub fn find(db: &Db, state: &CatalogState, name: &str) -> Result<Option<SnapshotName>> {
    let is_there = |(keyspace, snapshot): &(&str, &str)| {
        let found = db
            .existing_keyspace(keyspace)
            .and_then(|k| k.snapshot(snapshot));
        found.is_ok()
    };
    let found: Vec<_> = splits(state, name).filter(is_there).collect();
    match found[..] {
        [(keyspace, snapshot)] => Ok(Some(SnapshotName {
            keyspace: keyspace.to_string(),
            snapshot: snapshot.to_string(),
        })),
        [] => match name.split_once(SNAPSHOT_SIGN) {
            None => Ok(None),
            Some((keyspace, snapshot)) => match state.schema().keyspace(keyspace) {
                Some(_) => Err(no_snapshot(keyspace, snapshot)),
                None => Err(no_keyspace(state, keyspace)),
            },
        },
        [(keyspace, snapshot), ..] => invalid(format!(
            "Keyspace name {name} means more than one snapshot; name it \"{keyspace}@{snapshot}\""
        )),
    }
}

fn no_snapshot(keyspace: &str, snapshot: &str) -> ErrorResponse {
    ErrorResponse::invalid(format!(
        "Snapshot '{snapshot}' of keyspace '{keyspace}' doesn't exist"
    ))
}

/// Returns the error for a keyspace that is missing or unreadable.
pub(super) fn no_keyspace(state: &CatalogState, keyspace: &str) -> ErrorResponse {
    let missing = || ErrorResponse::invalid(format!("keyspace {keyspace} does not exist"));
    let unreadable = state.schema().unreadable(keyspace, None);
    unreadable.map_or_else(missing, of_schema)
}

pub(super) fn no_table(table: &str) -> ErrorResponse {
    ErrorResponse::invalid(format!("table {table} does not exist"))
}

/// Opens a table at a snapshot.
///
/// # Errors
/// If there is no such snapshot, if it does not cover a CQL table of this name, or if the schema of
/// the table in the snapshot cannot be read.
pub(super) fn open(
    db: &Db,
    (keyspace, snapshot): (&str, &str),
    table: &str,
) -> Result<SnapshotTarget> {
    let of = db.existing_keyspace(keyspace).map_err(of_store)?;
    let opened = of.snapshot(snapshot).map_err(|error| match error.kind() {
        ErrorKind::NotFound => no_snapshot(keyspace, snapshot),
        _ => of_store(error),
    })?;
    let rows = opened.table(table).map_err(|error| match error.kind() {
        ErrorKind::NotFound => no_table(table),
        _ => of_store(error),
    })?;
    let schema = schema_at(&rows, &format!("{keyspace}.{table}"));
    let schema = schema.map_err(|error| of_catalog(error.at_snapshot(snapshot)))?;
    let schema = schema.ok_or_else(|| no_table(table))?;
    Ok(SnapshotTarget {
        // An unfinished index lacks rows of that moment.
        schema: Arc::new(schema.without_unbuilt_indexes()),
        rows,
    })
}

/// Returns a keyspace as it was at a snapshot: see [`ebb_tables::keyspace_at`].
pub(super) fn keyspace_at(
    db: &Db,
    state: &CatalogState,
    name: &SnapshotName,
) -> Result<KeyspaceSchema> {
    let now = state.schema().keyspace(&name.keyspace);
    let now = now.ok_or_else(|| no_snapshot(&name.keyspace, &name.snapshot))?;
    ebb_tables::keyspace_at(db, now, &name.snapshot).map_err(of_catalog)
}

/// Executes a statement about snapshots, and appends the body of the RESULT. Before a snapshot is
/// dropped, calls `check_drop` with the resource on which the user must have the permission
/// SNAPSHOT.
///
/// # Panics
/// If the statement is of another kind.
pub fn execute(
    context: &SchemaContext<'_>,
    statement: &Statement,
    check_drop: impl FnOnce(Resource) -> Result<()>,
    out: &mut BytesMut,
) -> Result<Outcome> {
    let mut created_snapshot = false;
    let changes = match statement {
        Statement::CreateSnapshot(statement) => {
            let changes = create(context, statement)?;
            created_snapshot = changes.is_some();
            changes.unwrap_or_default()
        }
        Statement::DropSnapshot(statement) => drop(context, statement, check_drop)?,
        Statement::ListSnapshots(statement) => {
            list(context, statement)?.write(out);
            return Ok(Outcome::default());
        }
        other => panic!("not a statement about snapshots: {other:?}"),
    };
    // The response contains a single change.
    let of_keyspace = |change: &&SchemaChange| change.target == SchemaTarget::Keyspace;
    match changes.iter().find(of_keyspace) {
        Some(change) => Response::SchemaChange(change.clone()).encode_body(out),
        None => Response::Void.encode_body(out),
    }
    Ok(Outcome {
        created_snapshot,
        ..Outcome::default()
    })
}

/// Returns the types of a keyspace, and the tables with the names `tables`, as the objects of
/// schema events.
pub(super) fn objects<'a>(
    keyspace: &KeyspaceSchema,
    tables: impl Iterator<Item = &'a str>,
) -> Vec<SchemaTarget> {
    let types = keyspace.user_types().into_iter();
    let types = types.map(|ty| SchemaTarget::Type(ty.name().to_string()));
    let tables = tables.map(|table| SchemaTarget::Table(table.to_string()));
    types.chain(tables).collect()
}

/// Returns the events for the creation or the end of a snapshot that clients see as a keyspace: one
/// for the keyspace, and one for each of `objects`, unless there are too many. Drivers read an
/// object when they get its event; after the event of a new keyspace alone they would read no
/// tables.
pub(super) fn changed(
    kind: SchemaChangeKind,
    (keyspace, snapshot): (&str, &str),
    objects: Vec<SchemaTarget>,
) -> Vec<SchemaChange> {
    let mut targets = vec![SchemaTarget::Keyspace];
    if objects.len() <= OBJECT_EVENTS_MAX {
        targets.extend(objects);
    }
    if kind == SchemaChangeKind::Dropped {
        // Objects are dropped before their keyspace.
        targets.reverse();
    }
    let change = |target| SchemaChange {
        kind,
        keyspace: format!("{keyspace}{SNAPSHOT_SIGN}{snapshot}"),
        target,
    };
    targets.into_iter().map(change).collect()
}

/// Returns the events for a snapshot that clients begin or cease to see as a keyspace. `now` is the
/// keyspace at this moment. If the tables of the snapshot cannot be read, the events of tables and
/// types are left out.
fn events(
    kind: SchemaChangeKind,
    of: &Keyspace,
    now: &KeyspaceSchema,
    snapshot: &str,
) -> Vec<SchemaChange> {
    let opened = of.snapshot(snapshot).ok();
    let all = opened.map_or_else(Vec::new, |opened| objects(now, opened.tables()));
    changed(kind, (now.name(), snapshot), all)
}

/// Returns the names in `names` that are not in `others`.
fn only_in<'n>(names: &'n [String], others: &'n [String]) -> impl Iterator<Item = &'n String> {
    names.iter().filter(|name| !others.contains(name))
}

/// Returns the names of the keyspace and, if there is one, of the table in the scope of a snapshot.
fn names_of<'a>(
    context: &'a SchemaContext<'_>,
    on: &'a Scope,
) -> Result<(&'a str, Option<&'a str>)> {
    Ok(match on {
        Scope::Keyspace(keyspace) => (keyspace.as_str(), None),
        Scope::Table(name) => {
            let keyspace = in_keyspace(name, context.keyspace)?;
            (keyspace, Some(name.name.as_str()))
        }
    })
}

/// Returns the names like [`names_of`], and checks that the keyspace and the table exist.
fn scope<'a>(
    context: &'a SchemaContext<'_>,
    state: &CatalogState,
    on: &'a Scope,
) -> Result<(&'a str, Option<&'a str>)> {
    let (keyspace, table) = names_of(context, on)?;
    if let Some(unreadable) = state.schema().unreadable(keyspace, table) {
        return Err(of_schema(unreadable));
    }
    let no_keyspace = || {
        let what = if context.system.has_keyspace(keyspace) || names_snapshot(state, keyspace) {
            "cannot have snapshots"
        } else {
            "does not exist"
        };
        ErrorResponse::invalid(format!("keyspace {keyspace} {what}"))
    };
    let of = state.schema().keyspace(keyspace).ok_or_else(no_keyspace)?;
    match table {
        Some(table) if of.table(table).is_none() => Err(no_table(table)),
        _ => Ok((keyspace, table)),
    }
}

/// Creates a snapshot, and returns its events; `None` if it exists already and the statement has IF
/// NOT EXISTS. Also adds the events to the changes of the call, so that clients get them even if
/// the snapshot is created and a later step fails.
fn create(
    context: &SchemaContext<'_>,
    create: &CreateSnapshot,
) -> Result<Option<Vec<SchemaChange>>> {
    let expires_in = expiry(&create.properties)?;
    let db = context.catalog.db();
    // Not between the steps of a schema change, so that the snapshot contains no half-created
    // tables. And no other table gets the name between the check and the creation.
    context.catalog.exclusively(|state| {
        (context.check)(state.schema())?;
        let (keyspace, table) = scope(context, state, &create.on)?;
        let options = SnapshotOptions {
            table: table.map(str::to_string),
            expires_in,
        };
        let name = create.name.as_str();
        let of = db.existing_keyspace(keyspace).map_err(of_store)?;
        let before = context.catalog.listed_snapshots(&of);
        match of.create_snapshot_with(name, options) {
            Ok(_) => {
                let now = state.schema().keyspace(keyspace);
                let after = context.catalog.listed_snapshots(&of);
                let listed = now.filter(|_| after.iter().any(|listed| listed == name));
                let changes = listed.map_or_else(Vec::new, |now| {
                    // The snapshot's tables are the current ones, which do not have to be read from
                    // disk.
                    let tables = now.tables().map(|table| table.name());
                    let tables = tables.filter(|name| table.is_none_or(|only| only == *name));
                    let created = SchemaChangeKind::Created;
                    changed(created, (keyspace, name), objects(now, tables))
                });
                context.changes.add(changes.iter().cloned());
                if let Some(now) = now {
                    // The new snapshot may have taken the place of the oldest listed one.
                    let unlisted = only_in(&before, &after);
                    let dropped = SchemaChangeKind::Dropped;
                    (context.changes)
                        .add(unlisted.flat_map(|name| events(dropped, &of, now, name)));
                }
                db.sync().map_err(of_store)?;
                Ok(Some(changes))
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if create.if_not_exists {
                    Ok(None)
                } else {
                    invalid(format!(
                        "Snapshot '{name}' of keyspace '{keyspace}' already exists"
                    ))
                }
            }
            Err(error) => Err(of_store(error)),
        }
    })
}

/// Parses `WITH ttl = '1h'`; `None` if there is no `ttl`, so that the snapshot does not expire.
fn expiry(properties: &[Property]) -> Result<Option<Duration>> {
    let mut ttl = None;
    for property in properties {
        let name = property.name.as_str();
        if name != "ttl" {
            return Err(ErrorResponse::syntax(format!("Unknown property '{name}'")));
        }
        let text = match &property.value {
            PropertyValue::Constant(constant) => &constant.text,
            PropertyValue::Map(_) => {
                return Err(ErrorResponse::syntax(
                    "Invalid value for property 'ttl'. It should be a string.",
                ));
            }
        };
        let parsed = humantime::parse_duration(text).ok();
        let parsed = parsed.filter(|ttl| !ttl.is_zero()).ok_or_else(|| {
            ErrorResponse::config(format!(
                "ttl must be a time that is not zero, as in '90s', '1h' or '7 days' (got '{text}')"
            ))
        })?;
        if parsed > LIFETIME_MAX {
            return Err(ErrorResponse::config(format!(
                "ttl must be at most {LIFETIME_YEARS_MAX} years (got '{text}')"
            )));
        }
        ttl = Some(parsed);
    }
    Ok(ttl)
}

/// Drops a snapshot, and returns the schema events for clients. Before the deletion, calls `check`
/// with the resource that the snapshot covers or, if there is no such snapshot, with the resource
/// that the statement names.
///
/// Returns no events if clients did not see the snapshot as a keyspace, or if it does not exist and
/// the statement has IF EXISTS. Also adds the events to the changes of the call: clients get them
/// even if the snapshot is deleted and a later step fails.
fn drop(
    context: &SchemaContext<'_>,
    drop: &DropSnapshot,
    check: impl FnOnce(Resource) -> Result<()>,
) -> Result<Vec<SchemaChange>> {
    let db = context.catalog.db();
    let name = drop.name.as_str();
    // No other statement and no request over HTTP creates or deletes a snapshot meanwhile, so the permission,
    // the scope, the events and the number below are those of the snapshot that is deleted. Only jobs take no lock
    // for the snapshots that they create and delete for themselves, named run-1, run-2 and so on.
    context.catalog.exclusively(|state| {
        // The table need not exist: a snapshot of a table that was dropped since can be dropped, too.
        let (keyspace, table) = match &drop.on {
            Some(on) => names_of(context, on)?,
            None => {
                let in_use = context.keyspace.ok_or_else(|| {
                    ErrorResponse::invalid(
                        "No keyspace has been specified. USE a keyspace, or say of which: DROP \
                         SNAPSHOT s ON KEYSPACE ks",
                    )
                })?;
                (in_use, None)
            }
        };
        check(dropped_resource(db, (keyspace, table), name)?)?;
        let missing = || {
            if drop.if_exists {
                Ok(Vec::new())
            } else {
                Err(no_snapshot(keyspace, name))
            }
        };
        let Some(now) = state.schema().keyspace(keyspace) else {
            // IF EXISTS does not hide that the keyspace is there, but unreadable.
            return if drop.if_exists && !state.schema().has_keyspace(keyspace) {
                Ok(Vec::new())
            } else {
                Err(no_keyspace(state, keyspace))
            };
        };
        let of = db.existing_keyspace(keyspace).map_err(of_store)?;
        // With a table, only a snapshot of this table alone is dropped, not one of its keyspace.
        if let Some(table) = table {
            let only =
                |scope: SnapshotScope| matches!(scope, SnapshotScope::Table(only) if only == table);
            if !of.snapshot_scope(name).is_ok_and(only) {
                return missing();
            }
        }
        // Drivers show a listed snapshot as a keyspace, so they get an event for each table in it. The
        // tables are read here, because they cannot be read after the deletion.
        let before = context.catalog.listed_snapshots(&of);
        let changes = if before.iter().any(|listed| listed == name) {
            events(SchemaChangeKind::Dropped, &of, now, name)
        } else {
            Vec::new()
        };
        // The snapshot counts for the quota of a role by this number, which is gone after the deletion.
        let seq = of.snapshot_seq(name);
        let deleted = of.delete_snapshot(name);
        if (deleted.as_ref()).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return missing();
        }
        // The snapshot may be gone although an error followed.
        if of.snapshot_seq(name).is_err() {
            context.changes.add(changes.iter().cloned());
            // An older snapshot may have taken its place in the list.
            let after = context.catalog.listed_snapshots(&of);
            let listed = only_in(&after, &before);
            let created = SchemaChangeKind::Created;
            (context.changes).add(listed.flat_map(|name| events(created, &of, now, name)));
        }
        deleted.map_err(of_store)?;
        if let Ok(seq) = seq {
            let roles = context.catalog.roles();
            roles.forget_snapshot(seq).map_err(of_catalog)?;
        }
        // One sync for both. If a crash leaves the record alone, the next start removes it.
        db.sync().map_err(of_store)?;
        Ok(changes)
    })
}

/// Returns the resource that a snapshot covers or, if there is no such snapshot, the resource of
/// the keyspace and table in `named`.
fn dropped_resource(db: &Db, named: (&str, Option<&str>), snapshot: &str) -> Result<Resource> {
    let of = db.existing_keyspace(named.0);
    match of.and_then(|of| covered_resource(&of, snapshot)) {
        Ok(covered) => Ok(covered),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(of_store(error)),
        Err(_) => Ok(match named {
            (keyspace, Some(table)) => Resource::table(keyspace, table),
            (keyspace, None) => Resource::keyspace(keyspace),
        }),
    }
}

/// The table whose rows LIST SNAPSHOTS returns.
const TABLE: (&str, &str) = ("system_views", "snapshots");

/// The columns of LIST SNAPSHOTS, in order.
const LISTED: [&str; 10] = [
    "keyspace_name",
    "snapshot_name",
    "scope",
    "tables",
    "created",
    "expires",
    "runs",
    "approximate_bytes",
    "pinned_bytes",
    "pinned_error_bytes",
];

/// Returns the snapshots that LIST SNAPSHOTS names: those of a keyspace, those that cover a table,
/// or all.
pub fn list(context: &SchemaContext<'_>, list: &ListSnapshots) -> Result<Listing> {
    let state = context.catalog.state();
    let on = list.on.as_ref();
    let on = on.map(|on| scope(context, &state, on)).transpose()?;
    let mut listed = snapshot_rows(context.catalog.db(), &state);
    listed.retain(|row| {
        on.is_none_or(|(keyspace, table)| {
            let covers = |table: &str| row.info.tables.iter().any(|name| name == table);
            row.keyspace == keyspace && table.is_none_or(covers)
        })
    });
    let mut rows = Vec::with_capacity(listed.len());
    for row in &listed {
        interrupt::charge(1)?;
        let cells: BTreeMap<&str, Bytes> = row.cells().into_iter().collect();
        rows.push(LISTED.map(|name| cells.get(name).cloned()).to_vec());
    }
    let (keyspace, name) = TABLE;
    let table = context.system.table(keyspace, name);
    let schema = table.expect("snapshots have a table").schema();
    let columns = LISTED.map(|name| {
        let column = schema.column(name).expect("one of its columns");
        (name, column.ty.clone())
    });
    Ok(Listing::new(TABLE, &columns, rows))
}

#[cfg(test)]
mod tests;

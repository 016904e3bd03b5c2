//! The effects of a power loss at any call during a change of the schema.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ebb_storage::simulation::MemDisk;
use ebb_storage::{Maintenance, Options};

use super::*;
use crate::GracePeriods;
use crate::operators::with_cql_tables;
use crate::survey::{CREATIONS_TABLE, StoredTable};

const SYSTEM: &str = "ebb_system";

/// The expected content of the store: for each keyspace its record, and the records of its tables by name.
type Model = BTreeMap<String, (Vec<u8>, BTreeMap<String, Vec<u8>>)>;

struct Fixture {
    db: Db,
    store: SchemaStore,
    found: Model,
}

fn on(disk: &MemDisk) -> Options {
    let options = Options {
        disk: Arc::new(disk.clone()),
        maintenance: Maintenance::Manual,
        ..Options::default()
    };
    with_cql_tables(options, &GracePeriods::default())
}

fn open(disk: &MemDisk) -> Result<Fixture> {
    let db = Db::open("/db", on(disk))?;
    let own = db.keyspace(SYSTEM)?;
    let keyspaces = own.table(KEYSPACES_TABLE, TableOptions::default())?;
    let creations = own.table(CREATIONS_TABLE, TableOptions::default())?;
    let (store, found) = SchemaStore::open(&db, keyspaces, creations)?;
    let of_keyspace = |keyspace: StoredKeyspace| {
        let record = |t: StoredTable| (t.table.name().to_string(), t.record.unwrap().to_vec());
        let tables = keyspace.tables.into_iter().map(record).collect();
        (keyspace.name, (keyspace.record.unwrap().to_vec(), tables))
    };
    let found = found.into_iter().map(of_keyspace).collect();
    Ok(Fixture { db, store, found })
}

/// A change of the schema.
#[derive(Debug, Clone, Copy)]
enum Step {
    CreateKeyspace(&'static str),
    CreateTable(&'static str, &'static str),
    AlterTable(&'static str, &'static str),
    /// Changes the record of the keyspace and those of all its tables.
    AlterType(&'static str),
    Truncate(&'static str, &'static str),
    Snapshot(&'static str),
    DropTable(&'static str, &'static str),
    DropKeyspace(&'static str),
}

const SCRIPT: [Step; 15] = [
    Step::CreateKeyspace("a"),
    Step::CreateTable("a", "t"),
    Step::CreateTable("a", "u"),
    Step::AlterTable("a", "t"),
    Step::CreateKeyspace("b"),
    Step::CreateTable("b", "t"),
    Step::Snapshot("b"),
    Step::AlterType("a"),
    Step::Truncate("a", "t"),
    Step::DropTable("a", "t"),
    Step::CreateTable("a", "t"),
    Step::DropKeyspace("b"),
    Step::CreateKeyspace("b"),
    Step::CreateTable("b", "t"),
    Step::DropKeyspace("a"),
];

impl Fixture {
    fn table(&self, keyspace: &str, table: &str) -> Result<Table> {
        Ok(self.db.existing_keyspace(keyspace)?.existing_table(table)?)
    }

    /// Executes a step. The written records contain the index of the step.
    fn take(&self, step: Step, at: usize) -> Result<()> {
        let record = format!("record of step {at}").into_bytes();
        match step {
            Step::CreateKeyspace(keyspace) => self.store.create_keyspace(keyspace, &record),
            Step::CreateTable(keyspace, table) => {
                self.store
                    .create_table(keyspace, table, &record, Default::default())?;
                Ok(())
            }
            Step::AlterTable(keyspace, table) => {
                let mut batch = WriteBatch::new();
                batch.put(&self.table(keyspace, table)?, SCHEMA_KEY, &record);
                Ok(self.db.write_with(batch, SYNC)?)
            }
            Step::AlterType(keyspace) => {
                let names = self.db.existing_keyspace(keyspace)?.tables();
                let table = |name: &String| self.table(keyspace, name);
                let tables: Vec<Table> = names.iter().map(table).collect::<Result<_>>()?;
                let changed = |table| ChangedTable {
                    table,
                    record: record.clone(),
                    ids_of_no_index: vec![(0, 3)],
                    drops_index: false,
                };
                let tables: Vec<_> = tables.into_iter().map(changed).collect();
                self.store.write_keyspace(keyspace, &record, &tables)
            }
            Step::Truncate(keyspace, table) => {
                let table = self.table(keyspace, table)?;
                self.store.truncate(&table, &record)
            }
            Step::Snapshot(keyspace) => {
                let keyspace = self.db.existing_keyspace(keyspace)?;
                Ok(keyspace.create_snapshot("before")?)
            }
            Step::DropTable(keyspace, table) => self.store.drop_table(keyspace, table),
            Step::DropKeyspace(keyspace) => self.store.drop_keyspace(keyspace, || ()),
        }
    }

    fn notes(&self) -> usize {
        self.store.creations.range::<&[u8], _>(..).count()
    }

    /// Asserts that the database contains exactly the content of the model.
    fn holds(&self, model: &Model) {
        assert_eq!(self.found, *model);
        assert_eq!(self.notes(), 0);
        let mut keyspaces: BTreeSet<_> = self.db.keyspaces().into_iter().collect();
        keyspaces.remove(SYSTEM);
        assert_eq!(keyspaces, model.keys().cloned().collect());
        for (keyspace, (_, tables)) in model {
            let found = self.db.existing_keyspace(keyspace).unwrap().tables();
            assert!(found.iter().eq(tables.keys()), "{keyspace}: {found:?}");
        }
    }
}

/// Returns the model after a step.
fn after(step: Step, at: usize, before: &Model) -> Model {
    let record = format!("record of step {at}").into_bytes();
    let mut model = before.clone();
    match step {
        Step::CreateKeyspace(keyspace) => {
            model.insert(keyspace.to_string(), (record, BTreeMap::new()));
        }
        Step::CreateTable(keyspace, table)
        | Step::AlterTable(keyspace, table)
        | Step::Truncate(keyspace, table) => {
            let tables = &mut model.get_mut(keyspace).unwrap().1;
            tables.insert(table.to_string(), record);
        }
        Step::AlterType(keyspace) => {
            let (of_keyspace, tables) = model.get_mut(keyspace).unwrap();
            *of_keyspace = record.clone();
            tables
                .values_mut()
                .for_each(|of_table| *of_table = record.clone());
        }
        Step::Snapshot(_) => {}
        Step::DropTable(keyspace, table) => {
            model.get_mut(keyspace).unwrap().1.remove(table);
        }
        Step::DropKeyspace(keyspace) => {
            model.remove(keyspace);
        }
    }
    model
}

#[test]
fn a_change_cut_by_a_power_loss_is_done_or_undone_and_never_half() {
    let mut cut_in: BTreeSet<usize> = BTreeSet::new();
    for nth_call in 1.. {
        let disk = MemDisk::new();
        let fixture = open(&disk).unwrap();
        disk.crash_at(nth_call);
        let mut model = Model::new();
        let mut cut = None;
        for (at, step) in SCRIPT.into_iter().enumerate() {
            match fixture.take(step, at) {
                Ok(()) => model = after(step, at, &model),
                Err(_) => {
                    cut = Some((at, step));
                    break;
                }
            }
        }
        // Closed without power: no writes of the handles reach the disk.
        let done = cut.is_none() && disk.has_power();
        drop(fixture);
        disk.restart(nth_call);
        let reopened = open(&disk).unwrap();
        match cut {
            Some((at, step)) => {
                cut_in.insert(at);
                let done = after(step, at, &model);
                if reopened.found == done {
                    reopened.holds(&done);
                } else {
                    reopened.holds(&model);
                }
            }
            None => reopened.holds(&model),
        }
        // Further changes are possible afterwards.
        reopened.store.create_keyspace("further", b"r").unwrap();
        reopened
            .store
            .create_table("further", "t", b"r", Default::default())
            .unwrap();
        if done {
            break;
        }
    }
    assert_eq!(cut_in.len(), SCRIPT.len(), "cut in steps {cut_in:?}");
}

#[test]
fn a_power_loss_during_the_completion_does_not_change_its_result() {
    for nth_call in 1.. {
        let disk = MemDisk::new();
        let fixture = open(&disk).unwrap();
        fixture.store.create_keyspace("a", b"a").unwrap();
        fixture.store.create_keyspace("b", b"b").unwrap();
        fixture
            .store
            .create_table("b", "t", b"b.t", Default::default())
            .unwrap();
        // All three interruptions at once: a record alone, a drop that was only decided, and a
        // noted table without a record.
        fixture.store.write_keyspace("alone", b"c", &[]).unwrap();
        let dropping = dropping_record(&fixture.db, "b").unwrap();
        fixture.store.keyspaces.put(b"b", &dropping).unwrap();
        let options = (*fixture.table("b", "t").unwrap().options()).clone();
        fixture.store.creations.put(b"a.cut", &[CREATING]).unwrap();
        let a = fixture.db.existing_keyspace("a").unwrap();
        a.table("cut", options).unwrap();
        fixture.db.sync().unwrap();
        drop((fixture, a));
        disk.restart(1);

        disk.crash_at(nth_call);
        let whole = open(&disk).is_ok() && disk.has_power();
        disk.restart(nth_call);
        let model = [("a", b"a"), ("alone", b"c")];
        let model = model.map(|(name, r)| (name.to_string(), (r.to_vec(), BTreeMap::new())));
        open(&disk).unwrap().holds(&Model::from(model));
        if whole {
            break;
        }
    }
}

/// A table whose record was lost was once mistaken for an interrupted creation, and dropped.
#[test]
fn a_table_without_a_record_is_dropped_only_if_its_creation_was_noted_and_it_is_empty() {
    for (noted, with_row, is_dropped) in [
        (true, false, true),
        (true, true, false),
        (false, false, false),
        (false, true, false),
    ] {
        let disk = MemDisk::new();
        let fixture = open(&disk).unwrap();
        fixture.store.create_keyspace("a", b"a").unwrap();
        for name in ["t", "other"] {
            let created = (fixture.store).create_table("a", name, b"r", Default::default());
            created.unwrap();
        }
        let table = fixture.table("a", "t").unwrap();
        table.delete(SCHEMA_KEY).unwrap();
        if noted {
            fixture.store.creations.put(b"a.t", &[CREATING]).unwrap();
        }
        if with_row {
            table.put(&[0xff; 9], b"row").unwrap();
        }
        let case = format!("noted: {noted}, with a row: {with_row}");
        // A statement applies the same rule as the start of a node.
        let unreadable = |created: Result<Table>| {
            let refused = created.unwrap_err();
            let is_so = |error: &SchemaError| matches!(error, SchemaError::Unreadable(_));
            assert!(
                matches!(&refused, CatalogError::Schema(error) if is_so(error)),
                "{case}: {refused}"
            );
        };
        let options = SsTableOptions::default;
        if !is_dropped {
            unreadable(fixture.store.create_table("a", "t", b"r", options()));
        }
        drop((table, fixture));

        let db = Db::open("/db", on(&disk)).unwrap();
        let before = Survey::of(&db).unwrap();
        let names = |survey: &Survey| -> Vec<String> {
            let tables = survey.keyspaces[0].tables.iter();
            tables.map(|t| t.table.name().to_string()).collect()
        };
        let kept: &[&str] = if is_dropped {
            &["other"]
        } else {
            &["other", "t"]
        };
        assert_eq!(names(&before), kept, "{case}");
        let tables = || db.existing_keyspace("a").unwrap().tables();
        assert_eq!(tables(), ["other", "t"], "{case}: reading changes nothing");
        let own = db.existing_keyspace(SYSTEM).unwrap();
        let own = |name: &str| own.existing_table(name).unwrap();
        let opened = SchemaStore::open(&db, own(KEYSPACES_TABLE), own(CREATIONS_TABLE));
        let (store, found) = opened.unwrap();
        assert_eq!(tables(), kept, "{case}");
        if is_dropped {
            store.create_table("a", "t", b"new", options()).unwrap();
        } else {
            let lost = found[0].tables[1].record.as_ref().unwrap_err();
            assert_eq!(lost, MISSING, "{case}");
            unreadable(store.create_table("a", "t", b"new", options()));
        }
    }
}

/// `ebb repair` once restored the record of an interrupted drop, and the next start dropped a later
/// keyspace of the same name.
///
/// The record lists the tables of the dropped keyspace, by fingerprints that depend on the tables'
/// ids. If it lists all tables that exist, the keyspace is not a later one, and its snapshots are
/// dropped with it. Without tables there is no such proof, and a snapshot may be of a later
/// keyspace.
#[test]
fn a_drop_is_completed_only_if_its_record_lists_everything_that_is_there() {
    type Change = fn(&Fixture);
    let create: Change = |fixture| {
        let created = (fixture.store).create_table("a", "t", b"new", Default::default());
        created.unwrap();
    };
    let with_a_row: Change = |fixture| {
        let table = fixture.table("a", "t").unwrap();
        // Any key other than that of the record.
        table.put(&[0xff; 9], b"row").unwrap();
    };
    let lose_record: Change = |fixture| {
        let table = fixture.table("a", "t").unwrap();
        table.delete(SCHEMA_KEY).unwrap();
    };
    let load: Change = |fixture| {
        let keyspace = fixture.db.existing_keyspace("a").unwrap();
        keyspace.table("lines", TableOptions::default()).unwrap();
    };
    let snapshot: Change = |fixture| {
        let keyspace = fixture.db.existing_keyspace("a").unwrap();
        keyspace.create_snapshot("s").unwrap();
    };
    let nothing: Change = |_| ();
    // The tables when the drop is decided; whether the record lists them; the later change; whether
    // the drop is completed.
    for (case, before, is_listed, after, is_dropped) in [
        ("cut", create, true, nothing, true),
        ("cut, with rows", create, true, with_a_row, true),
        ("cut, with a snapshot", create, true, snapshot, true),
        ("cut, without a record", create, true, lose_record, false),
        ("a later table", nothing, true, create, false),
        ("a later table of others", nothing, true, load, false),
        ("of an earlier version", create, false, nothing, false),
        ("without tables", nothing, false, nothing, true),
        (
            "without tables, with a snapshot",
            nothing,
            false,
            snapshot,
            false,
        ),
    ] {
        let disk = MemDisk::new();
        let fixture = open(&disk).unwrap();
        fixture.store.create_keyspace("a", b"a").unwrap();
        before(&fixture);
        let dropping = if is_listed {
            dropping_record(&fixture.db, "a").unwrap()
        } else {
            vec![DROPPING]
        };
        after(&fixture);
        fixture.store.keyspaces.put(b"a", &dropping).unwrap();
        drop(fixture);

        let db = Db::open("/db", on(&disk)).unwrap();
        let own = db.existing_keyspace(SYSTEM).unwrap();
        let own = |name: &str| own.existing_table(name).unwrap();
        let opened = SchemaStore::open(&db, own(KEYSPACES_TABLE), own(CREATIONS_TABLE));
        let (store, found) = opened.unwrap();
        assert_eq!(db.existing_keyspace("a").is_err(), is_dropped, "{case}");
        if is_dropped {
            assert!(found.is_empty(), "{case}");
            continue;
        }
        let why = found[0].record.as_ref().unwrap_err();
        assert!(why.contains("it is being dropped"), "{case}: {why}");
        // A statement drops the tables that exist now.
        let has_others = case == "a later table of others";
        let dropped = store.drop_keyspace("a", || ());
        assert_eq!(dropped.is_err(), has_others, "{case}");
        assert_eq!(db.existing_keyspace("a").is_ok(), has_others, "{case}");
    }
}

#[test]
fn a_failed_creation_can_be_repeated() {
    let disk = MemDisk::new();
    let fixture = open(&disk).unwrap();
    fixture.store.create_keyspace("a", b"a").unwrap();
    let options = TableOptions {
        merge_operator: Some(CQL_ROW.to_string()),
        ..TableOptions::default()
    };
    fixture.store.creations.put(b"a.t", &[CREATING]).unwrap();
    let a = fixture.db.existing_keyspace("a").unwrap();
    a.table("t", options).unwrap();
    let created = (fixture.store).create_table("a", "t", b"r", SsTableOptions::default());
    assert_eq!(created.unwrap().get(SCHEMA_KEY).unwrap().unwrap(), "r");
    assert_eq!(fixture.notes(), 0);
}

#[test]
fn tables_that_cql_did_not_make_are_neither_taken_nor_dropped() {
    let fixture = open(&MemDisk::new()).unwrap();
    let app = fixture.db.keyspace("app").unwrap();
    let lines = app.table("lines", TableOptions::default()).unwrap();
    lines.put(b"1", b"x").unwrap();
    let refused = fixture.store.create_keyspace("app", b"r").unwrap_err();
    assert!(refused.to_string().contains("lines"), "{refused}");

    fixture.store.create_keyspace("own", b"r").unwrap();
    let own = fixture.db.existing_keyspace("own").unwrap();
    own.table("lines", TableOptions::default()).unwrap();
    for refused in [
        fixture
            .store
            .create_table("own", "lines", b"r", Default::default())
            .map(|_| ()),
        fixture.store.drop_keyspace("own", || panic!("decided")),
    ] {
        assert!(matches!(refused, Err(CatalogError::Foreign { .. })));
    }
    assert_eq!(lines.get(b"1").unwrap().unwrap(), "x");
    assert!(own.existing_table("lines").is_ok());
}

#[test]
fn truncate_leaves_the_record_alone_and_snapshots_their_rows() {
    let fixture = open(&MemDisk::new()).unwrap();
    fixture.store.create_keyspace("a", b"r").unwrap();
    let table = fixture
        .store
        .create_table("a", "t", b"schema", Default::default())
        .unwrap();
    let first = [0, 0, 0, 0, 0, 0, 0, 1];
    table.put(&first, b"row").unwrap();
    table.put(&[0xff; 9], b"row").unwrap();
    let keyspace = fixture.db.existing_keyspace("a").unwrap();
    keyspace.create_snapshot("before").unwrap();
    fixture.store.truncate(&table, b"schema").unwrap();
    let left: Vec<_> = table.range::<&[u8], _>(..).map(Result::unwrap).collect();
    assert_eq!(left, [(SCHEMA_KEY.into(), b"schema".as_slice().into())]);
    let before = keyspace.snapshot("before").unwrap().table("t").unwrap();
    assert_eq!(before.range::<&[u8], _>(..).count(), 3);
}

use std::sync::atomic::{AtomicU64, Ordering};

use ebb_model::key::{DecodedKey, EntryKey, Place};
use ebb_model::row::RowView;
use ebb_model::schema::{KeyspaceSchema, Schema};
use ebb_model::types::CqlType;
use ebb_scheduler::runtime::{Input, SpillSpace};
use ebb_storage::{Db, ManualClock, Options};
use ebb_tables::{Announcement, GracePeriods, database_options};

use super::*;
use crate::history::History;
use crate::inputs::{CqlInput, CqlText, SnapshotInput};
use crate::records::{Column, RecordFormat};
use crate::request::{ApplicationRequest, JobRequest, OutputPlace, WordcountRequest};

pub(super) struct Fixture {
    pub(super) dir: tempfile::TempDir,
    pub(super) db: Db,
    pub(super) catalog: Arc<Catalog>,
}

/// Creates a database without tables. The clock for timestamps stands still, so each timestamp is only one
/// microsecond above the one before.
pub(super) fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        create_if_missing: true,
        ..database_options()
    };
    let db = Db::open(dir.path().join("db"), options).unwrap();
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let catalog = Arc::new(Catalog::open(&db, &GracePeriods::default(), clock).unwrap());
    let fixture = Fixture { dir, db, catalog };
    let replication = [("class", "SimpleStrategy"), ("replication_factor", "1")];
    let replication = replication.map(|(name, value)| (name.to_string(), value.to_string()));
    let keyspace = KeyspaceSchema::new("ks", replication.into(), true);
    fixture.change(|schema| schema.create_keyspace(keyspace.unwrap()).unwrap());
    fixture
}

/// Returns the format of rows with the key columns `city`, `kind` and the value columns `n`, `x`.
fn rows() -> RecordFormat {
    let key = ["city", "kind"].map(Column::text).to_vec();
    let n = Column::number("n").of_type("bigint");
    RecordFormat::rows(key, vec![n, Column::number("x")])
}

impl Fixture {
    pub(super) fn change(&self, change: impl FnOnce(&Schema) -> Schema) {
        let change = |schema: &Schema| Ok::<_, CatalogError>(Some(change(schema)));
        assert!(self.catalog.change(change).flatten().unwrap());
    }

    fn output(&self, name: &str, rows: RecordFormat) -> Result<CqlOutput, JobError> {
        let staging = self.dir.path().join("staging");
        self.output_in(name, rows, &staging)
    }

    /// Returns an output whose rows wait in `place` until the commit.
    fn output_in(
        &self,
        name: &str,
        rows: RecordFormat,
        place: impl Into<SpillPlace>,
    ) -> Result<CqlOutput, JobError> {
        let catalog = Arc::clone(&self.catalog);
        let commits = CommitRecord::default();
        CqlOutput::new(catalog, ("ks", name), Arc::new(rows), place, commits)
    }

    /// Creates an index of a column of the table `t`.
    fn create_index(&self, column: &str) {
        let created = self.catalog.change(|schema| {
            let target = ebb_model::schema::IndexTarget::Simple;
            schema.create_index(("ks", "t"), None, (column, target), false)
        });
        assert!(created.unwrap().unwrap());
    }

    /// Returns the rows of a table as text: for each, the key columns `city` and `kind`, and the
    /// columns `n` and `x` as CQL literals.
    fn found(&self, name: &str) -> Vec<String> {
        let state = self.catalog.state();
        let table = state.table("ks", name).unwrap();
        let schema = table.schema();
        let rows = table.rows().range::<&[u8], _>(PARTITIONS_START..);
        let rows = rows.map(|entry| {
            let (key, operand) = entry.unwrap();
            let decoded = DecodedKey::read(&key).unwrap();
            let Place::Row(clustering) = decoded.place else {
                panic!("a header");
            };
            let view = RowView::new(RowRef::parse(&operand).unwrap(), None, 1);
            let mut row = vec![String::from_utf8(decoded.partition_key.to_vec()).unwrap()];
            let keys = schema.layout().clustering_values(clustering).unwrap();
            row.extend(keys.into_iter().map(|key| String::from_utf8(key).unwrap()));
            for name in ["n", "x"] {
                let column = schema.column(name).unwrap();
                let cell = view.cell(column.id.0).unwrap();
                row.push(cell.map_or("null".into(), |cell| column.ty.literal(cell.value)));
            }
            row.join(" ")
        });
        let mut rows: Vec<String> = rows.collect();
        rows.sort();
        rows
    }
}

fn write(output: &CqlOutput, partition: u32, rows: &[(&str, &str)]) -> Result<(), TaskError> {
    let mut writer = output.open(partition, 1)?;
    for (key, value) in rows {
        writer.write(key.as_bytes(), value.as_bytes())?;
    }
    writer.finish()
}

#[test]
fn a_commit_records_the_number_of_the_table_that_it_creates() {
    let fixture = fixture();
    let history = History::open(&fixture.db).unwrap();
    let application = ApplicationRequest::Wordcount(WordcountRequest { reduces: 1 });
    let to = OutputPlace::Table("ks.t".parse().unwrap());
    let request = JobRequest::new(application, Vec::new(), to.into(), "/d");
    let job = history.begin(&request, Vec::new(), None).unwrap();
    let output = fixture.output("t", rows()).unwrap();
    output.commits.set(&history, &job);
    write(&output, 0, &[("Bonn,b", "7,")]).unwrap();
    output.commit().unwrap();
    let state = fixture.catalog.state();
    let number = state.table("ks", "t").unwrap().rows().number();
    let record = history.job(&job.id).unwrap().unwrap();
    assert!(record.written_us.is_some());
    assert_eq!(record.tables.output, Some(number));
}

#[test]
fn rows_make_a_table_with_their_columns_and_appear_by_one_commit() {
    let fixture = fixture();
    let (sender, changes) = std::sync::mpsc::channel();
    (fixture.catalog).on_announcement(move |announced| {
        let Announcement::TableCreated { keyspace, table } = announced else {
            panic!("{announced:?}");
        };
        sender.send(format!("{keyspace}.{table}")).unwrap();
    });
    let output = fixture.output("t", rows()).unwrap();
    output.check().unwrap();
    write(&output, 1, &[("Aarhus,a", "3,0.5"), ("Bonn,b", "7,")]).unwrap();
    write(&output, 0, &[("Aarhus,b", "-1,1e3")]).unwrap();
    assert!(fixture.catalog.state().table("ks", "t").is_none());
    let before_us = fixture.catalog.timestamps().next_us().unwrap();
    output.commit().unwrap();
    // Clients are notified of the new table once.
    assert!(changes.try_iter().eq(["ks.t"]));
    fixture.output("t", rows()).unwrap().commit().unwrap();
    assert_eq!(changes.try_iter().count(), 0);
    let expected = ["Aarhus a 3 0.5", "Aarhus b -1 1E3", "Bonn b 7 null"];
    assert_eq!(fixture.found("t"), expected);
    let table = fixture.catalog.state().table("ks", "t").unwrap().clone();
    let schema = table.schema();
    let types = ["city", "kind", "n", "x"].map(|name| schema.column(name).unwrap().ty.to_string());
    assert_eq!(types, ["text", "text", "bigint", "decimal"]);
    let keys = schema.columns_of(ebb_model::schema::ColumnKind::PartitionKey);
    assert_eq!(keys.len(), 1, "city; kind is a clustering column");
    // The rows' timestamp lies between two timestamps of the server, one before the commit
    // and one after it.
    let after_us = fixture.catalog.timestamps().next_us().unwrap();
    let is_written = |us: &i64| has_rows_written_at(&fixture.db, &table, *us).unwrap();
    let written = (before_us..=after_us).filter(is_written);
    let written: Vec<i64> = written.collect();
    assert!(written.len() == 1 && written[0] > before_us && written[0] < after_us);
    fixture.db.flush().unwrap();
    fixture.db.compact().unwrap();
    assert_eq!(fixture.found("t"), expected);
    let staging = fixture.dir.path().join("staging");
    assert_eq!(std::fs::read_dir(staging).unwrap().count(), 0);
}

/// Regression: the commit took disk space for the temporary files only, and not for index entries and the
/// sorted files.
#[test]
fn the_commit_into_a_table_with_an_index_takes_disk_space_for_all_that_it_writes() {
    let fixture = fixture();
    fixture.output("t", rows()).unwrap().commit().unwrap();
    fixture.create_index("n");
    let looks = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&looks);
    // So little space that each write looks at it again.
    let space = SpillSpace::new(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(1000)
    });
    let place = SpillPlace::new(fixture.dir.path().join("staging"), space.leaving(0));
    // Returns how often the commit of one row looks at the free space.
    let looks_of = |table: &str| {
        let output = fixture.output_in(table, rows(), place.clone()).unwrap();
        write(&output, 0, &[("a,c", "1,2")]).unwrap();
        looks.store(0, Ordering::Relaxed);
        output.commit().unwrap();
        looks.load(Ordering::Relaxed)
    };
    // The row in its sorted file; with an index, row and entry in temporary files, and in sorted ones.
    assert_eq!((looks_of("plain"), looks_of("t")), (1, 4));
}

/// A reader that uses an index would miss rows without index entries.
#[test]
fn rows_come_with_the_entries_of_indexes_also_of_one_that_is_created_meanwhile() {
    let fixture = fixture();
    fixture.output("t", rows()).unwrap().commit().unwrap();
    fixture.create_index("n");
    let output = fixture.output("t", rows()).unwrap();
    output.check().unwrap();
    write(&output, 1, &[("b,d", "1,"), ("a,c", "1,2")]).unwrap();
    write(&output, 0, &[("a,d", "2,1"), ("c,d", ",1")]).unwrap();
    fixture.create_index("kind");
    output.commit().unwrap();
    assert_eq!(
        fixture.found("t"),
        ["a c 1 2", "a d 2 1", "b d 1 null", "c d null 1"]
    );
    let table = fixture.catalog.state().table("ks", "t").unwrap().clone();
    // Returns the rows to which the entries of a value point.
    let under = |column: &str, value: &[u8]| {
        let mut indexed = table.schema().indexed_columns();
        let indexed = indexed.find(|one| &*one.column.name == column).unwrap();
        let prefix = indexed.prefix_for(&[value]).unwrap();
        let mut found: Vec<String> = (table.rows().prefix(&prefix))
            .map(|entry| {
                let entry = entry.unwrap().0;
                let row = EntryKey::read(&entry).unwrap().row_key;
                assert!(table.rows().get(row).unwrap().is_some());
                let row = DecodedKey::read(row).unwrap();
                let Place::Row(kind) = row.place else {
                    panic!("an entry of a partition");
                };
                let kind = table.schema().layout().clustering_values(kind).unwrap();
                let city = String::from_utf8_lossy(row.partition_key);
                format!("{city} {}", String::from_utf8_lossy(&kind[0]))
            })
            .collect();
        found.sort();
        found
    };
    assert_eq!(under("n", &1_i64.to_be_bytes()), ["a c", "b d"]);
    assert_eq!(under("n", &2_i64.to_be_bytes()), ["a d"]);
    assert_eq!(under("kind", b"c"), ["a c"]);
    assert_eq!(under("kind", b"d"), ["a d", "b d", "c d"]);
    fixture.db.flush().unwrap();
    fixture.db.compact().unwrap();
    assert_eq!(under("n", &1_i64.to_be_bytes()), ["a c", "b d"]);
}

#[test]
fn operands_of_clients_and_of_a_job_meet_by_their_timestamps() {
    let fixture = fixture();
    fixture.output("t", rows()).unwrap().commit().unwrap();
    let output = fixture.output("t", rows()).unwrap();
    output.check().unwrap();
    write(&output, 0, &[("a,b", "1,1"), ("a,c", "1,1")]).unwrap();
    let table = fixture.catalog.state().table("ks", "t").unwrap().clone();
    let plan = RowPlan::new(Arc::clone(table.schema()), &rows()).unwrap();
    let client = |row: (&str, &str), timestamp: i64| {
        let mut fields = Fields::default();
        let (key, value) = (row.0.as_bytes(), row.1.as_bytes());
        rows().whole().decode(key, value, &mut fields).unwrap();
        let (key, waiting) = plan.row(&fields).unwrap().row.unwrap();
        let mut operand = Vec::new();
        plan.row_operand(&waiting, timestamp, &mut operand).unwrap();
        table.rows().merge(&key, &operand).unwrap();
    };
    client(
        ("a,b", "2,2"),
        fixture.catalog.timestamps().next_us().unwrap(),
    );
    output.commit().unwrap();
    client(
        ("a,c", "3,3"),
        fixture.catalog.timestamps().next_us().unwrap(),
    );
    // A later write with an older timestamp.
    client(("a,b", "4,4"), 5);
    let expected = ["a b 1 1", "a c 3 3"];
    assert_eq!(fixture.found("t"), expected);
    fixture.db.flush().unwrap();
    fixture.db.compact().unwrap();
    assert_eq!(fixture.found("t"), expected);
    let refused = fixture.output("t", rows()).unwrap().check().unwrap_err();
    assert!(
        refused.to_string().contains("ks.t has rows already"),
        "{refused}"
    );
}

#[test]
fn what_cannot_be_matched_is_refused_before_the_job_and_bad_values_fail_it() {
    let fixture = fixture();
    fixture.output("t", rows()).unwrap().commit().unwrap();
    let refused = |rows: RecordFormat| match fixture.output("t", rows) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it is not refused"),
    };
    let text = |names: &[&str]| {
        names
            .iter()
            .map(|name| Column::text(*name))
            .collect::<Vec<_>>()
    };
    let said = refused(RecordFormat::rows(
        text(&["city", "kind"]),
        text(&["other"]),
    ));
    assert!(said.contains("no column \"other\""), "{said}");
    assert!(said.contains("city, kind, n, x"), "{said}");
    let said = refused(RecordFormat::rows(text(&["city"]), text(&["n"])));
    assert!(said.contains("primary key has column kind"), "{said}");
    // Columns of the key match by their order if their names differ.
    let other = RecordFormat::rows(text(&["place", "sort"]), text(&["n"]));
    let output = fixture.output("t", other).unwrap();
    for (key, value, problem) in [
        (
            "a,b",
            "many",
            "column n, which is of type bigint, gets \"many\"",
        ),
        ("a,b", "12345678901234567890", "Unable to make long"),
    ] {
        let error = write(&output, 0, &[(key, value)]).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
    write(&output, 0, &[("x,y", "1")]).unwrap();
    write(&output, 1, &[("x,y", "2")]).unwrap();
    let error = output.commit().unwrap_err().to_string();
    assert!(
        error.contains("several rows have the primary key ('x', 'y') of table"),
        "{error}"
    );
    assert_eq!(fixture.found("t"), [""; 0]);
    let unkeyed = fixture.output("new", RecordFormat::values(text(&["a"])));
    let said = unkeyed.err().unwrap().to_string();
    assert!(said.contains("CREATE TABLE"), "{said}");
}

/// Regression: the table was identified by its id, so the rows went into a new table with the id of the
/// dropped one.
#[test]
fn a_table_that_is_dropped_and_created_again_with_its_id_gets_no_rows() {
    let fixture = fixture();
    fixture.output("t", rows()).unwrap().commit().unwrap();
    let output = fixture.output("t", rows()).unwrap();
    write(&output, 0, &[("a,b", "1,1")]).unwrap();
    let id = output.schema.id();
    let definition = TableDefinition {
        id,
        ..plan::definition("ks", "t", &rows()).unwrap()
    };
    fixture.change(|schema| schema.drop_table("ks", "t").unwrap());
    fixture.change(|schema| schema.create_table(definition).unwrap());
    let error = output.commit().unwrap_err().to_string();
    assert!(error.contains("dropped or created while"), "{error}");
    assert_eq!(fixture.found("t"), [""; 0]);
}

#[test]
fn a_table_that_is_dropped_meanwhile_gets_no_rows() {
    let fixture = fixture();
    fixture.output("t", rows()).unwrap().commit().unwrap();
    let output = fixture.output("t", rows()).unwrap();
    write(&output, 0, &[("a,b", "1,1")]).unwrap();
    fixture.change(|schema| schema.drop_table("ks", "t").unwrap());
    let error = output.commit().unwrap_err().to_string();
    assert!(error.contains("dropped or created while"), "{error}");
}

#[test]
fn a_job_fails_if_a_column_that_it_writes_is_dropped_meanwhile() {
    let fixture = fixture();
    fixture.output("t", rows()).unwrap().commit().unwrap();
    let output = fixture.output("t", rows()).unwrap();
    write(&output, 0, &[("a,b", "1,1")]).unwrap();
    fixture.change(|schema| {
        let dropped = schema.alter_table("ks", "t", |table| table.drop_column("x", 1));
        dropped.unwrap()
    });
    let error = output.commit().unwrap_err().to_string();
    assert!(error.contains("a column of table ks.t"), "{error}");
    let table = fixture.catalog.state().table("ks", "t").unwrap().clone();
    assert_eq!(
        table.rows().range::<&[u8], _>(PARTITIONS_START..).count(),
        0
    );
}

/// Creates a table with the key columns `k`, `c`, a static set `s`, a list `l`, a map `m` and a
/// frozen tuple `u`, and returns the format of its rows.
pub(super) fn with_collections(fixture: &Fixture) -> RecordFormat {
    let columns = [
        ("k", "text", false),
        ("c", "int", false),
        ("s", "set<int>", true),
        ("l", "list<text>", false),
        ("m", "map<decimal, int>", false),
        ("u", "tuple<int, text>", false),
    ];
    let parse = |ty| CqlType::parse(ty, &|_| None).unwrap();
    let columns = columns.map(|(name, ty, is_static)| (name, parse(ty), is_static));
    let definition = TableDefinition {
        id: uuid::Uuid::from_u128(1),
        ..TableDefinition::new(("ks", "t"), &columns, &["k"], &["c"])
    };
    fixture.change(|schema| schema.create_table(definition).unwrap());
    let text = |names: &[&str]| names.iter().map(|name| Column::text(*name)).collect();
    RecordFormat::rows(text(&["k", "c"]), text(&["s", "l", "m", "u"]))
}

/// Returns the rows of a table as the next job reads them.
pub(super) fn read(fixture: &Fixture, name: &str) -> Vec<String> {
    let table = fixture.catalog.state().table("ks", name).unwrap().clone();
    let text = CqlText::new(Arc::clone(table.schema()), 1, None);
    fixture
        .db
        .keyspace("ks")
        .unwrap()
        .create_snapshot("now")
        .unwrap();
    let snapshot = fixture.db.keyspace("ks").unwrap().snapshot("now").unwrap();
    let input = SnapshotInput::new(snapshot.table(name).unwrap(), 1);
    let input = CqlInput::new(input, text);
    let mut rows = Vec::new();
    for split in input.splits().unwrap() {
        let record = &mut |key: &[u8], value: &[u8]| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            rows.push(format!("{} | {}", text(key), text(value)));
            Ok(())
        };
        input.read(&split, record).unwrap();
    }
    fixture
        .db
        .keyspace("ks")
        .unwrap()
        .delete_snapshot("now")
        .unwrap();
    rows.sort();
    rows
}

#[test]
fn collections_are_cells_and_static_columns_are_of_the_partition() {
    let fixture = fixture();
    let rows = with_collections(&fixture);
    let output = fixture.output("t", rows.clone()).unwrap();
    output.check().unwrap();
    let (one, two) = (
        r#""{3, 1}","['b', 'a']",{1.0: 7},"(1, 'x')""#,
        r#""{1, 3}",,,"#,
    );
    write(&output, 0, &[("a,1", one), ("a,2", two)]).unwrap();
    write(
        &output,
        1,
        &[
            ("a,3", r#","[""it's""]","{""1.00"": 2}","#),
            ("b,", "{5},,,"),
        ],
    )
    .unwrap();
    output.commit().unwrap();
    let expected = [
        r#"a,1 | "{1, 3}","['b', 'a']",{1.0: 7},"(1, 'x')""#,
        r#"a,2 | "{1, 3}",,,"#,
        r#"a,3 | "{1, 3}",['it''s'],{1.00: 2},"#,
        "b, | {5},,,",
    ];
    assert_eq!(read(&fixture, "t"), expected);
    let table = fixture.catalog.state().table("ks", "t").unwrap().clone();
    // The same rows again, later: the old elements are gone, and none is there twice.
    let written_us = (table.rows().range::<&[u8], _>(..))
        .filter_map(|entry| RowRef::parse(&entry.unwrap().1).ok()?.marker())
        .map(|marker| marker.timestamp)
        .last()
        .unwrap();
    assert!(has_rows_written_at(&fixture.db, &table, written_us).unwrap());
    assert!(!has_rows_written_at(&fixture.db, &table, written_us - 1).unwrap());
    let again = fixture.output("t", rows.clone()).unwrap();
    write(&again, 0, &[("a,1", r#"{2},"['c', 'c']",{1: 8},"#)]).unwrap();
    again.commit().unwrap();
    fixture.db.flush().unwrap();
    fixture.db.compact().unwrap();
    let first = r#"a,1 | {2},"['c', 'c']",{1: 8},"(1, 'x')""#;
    assert_eq!(read(&fixture, "t")[0], first);
    let refused = again.check().unwrap_err().to_string();
    assert!(refused.contains("has rows already"), "{refused}");
}

#[test]
fn static_columns_alone_are_rows_and_must_agree() {
    let fixture = fixture();
    let rows = with_collections(&fixture);
    let text = |names: &[&str]| names.iter().map(|name| Column::text(*name)).collect();
    let of_partitions = RecordFormat::rows(text(&["k"]), text(&["s"]));
    let output = fixture.output("t", of_partitions.clone()).unwrap();
    let (same, other) = (
        &[("a", "{1, 2}")],
        &[("a", "{2, 1}"), ("b", "{}"), ("c", "")],
    );
    write(&output, 0, same).unwrap();
    write(&output, 1, other).unwrap();
    let before_us = fixture.catalog.timestamps().next_us().unwrap();
    output.commit().unwrap();
    let after_us = fixture.catalog.timestamps().next_us().unwrap();
    assert_eq!(
        read(&fixture, "t"),
        [r#"a, | "{1, 2}",,,"#],
        "an empty set is none"
    );
    let table = fixture.catalog.state().table("ks", "t").unwrap().clone();
    let is_written = |us| has_rows_written_at(&fixture.db, &table, us).unwrap();
    assert!((before_us..=after_us).any(is_written) && !is_written(before_us));
    let refused = output.check().unwrap_err().to_string();
    assert!(refused.contains("has rows already"), "{refused}");
    let said = fixture.output("t", RecordFormat::rows(text(&["k"]), text(&["l"])));
    let said = said.err().unwrap().to_string();
    assert!(said.contains("primary key has column c"), "{said}");
    let output = fixture.output("t", rows).unwrap();
    write(&output, 0, &[("b,1", "{1},,,"), ("b,2", "{2},,,")]).unwrap();
    let said = output.commit().unwrap_err().to_string();
    assert!(
        said.contains("('b', ...) of table ks.t have several values of its static column s"),
        "{said}"
    );
    let error = write(&output, 0, &[("b,1", "{x},,,")])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("column s, which is of type set<int>, gets \"{x}\""),
        "{error}"
    );
}

#[test]
fn a_table_that_is_made_has_the_collections_of_the_rows() {
    let fixture = fixture();
    let key = vec![Column::text("k").of_type("set<int>")];
    let values = vec![
        Column::text("l").of_type("list<text>"),
        Column::text("u").of_type("frozen<address>"),
    ];
    let rows = RecordFormat::rows(key, values);
    let output = fixture.output("made", rows).unwrap();
    write(&output, 0, &[("{1}", "['a'],{street: 'x'}")]).unwrap();
    output.commit().unwrap();
    let table = fixture.catalog.state().table("ks", "made").unwrap().clone();
    let ty = |name| table.schema().column(name).unwrap().ty.to_string();
    assert_eq!(
        ["k", "l", "u"].map(ty),
        ["frozen<set<int>>", "list<text>", "text"]
    );
    assert_eq!(read(&fixture, "made"), ["{1} | ['a'],{street: 'x'}"]);
}

/// Even if a merge has dropped the deletion of the old collection, the new elements still have the
/// timestamp of the write.
#[test]
fn elements_of_a_static_column_have_the_timestamp_of_its_write() {
    use ebb_model::row::{Cell, Element, HeaderBuilder, Lifetime};
    let mut header = Vec::new();
    let mut row = HeaderBuilder::new(&mut header).static_row(70);
    row.begin_collection(1, None);
    row.element(Element {
        path: b"a",
        original: None,
        cell: Cell {
            timestamp: 70,
            lifetime: Lifetime::Permanent,
            value: b"",
        },
    });
    row.end_collection();
    row.finish().unwrap();
    assert!(has_statics_written_at(&header, 70).unwrap());
    assert!(!has_statics_written_at(&header, 71).unwrap());
}

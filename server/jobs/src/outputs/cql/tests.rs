use ebb_catalog::row::RowView;
use ebb_catalog::schema::KeyspaceSchema;
use ebb_storage::{Db, Options};
use ebb_tables::{Announcement, LazyCatalog, database_options};

use super::*;
use crate::records::{Column, RecordFormat};

struct Fixture {
    dir: tempfile::TempDir,
    db: Db,
    catalog: Arc<Catalog>,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        create_if_missing: true,
        ..database_options()
    };
    let db = Db::open(dir.path().join("db"), options).unwrap();
    let catalog = LazyCatalog::default().of(&db).unwrap();
    let create = |schema: &ebb_catalog::schema::Schema| {
        let replication = [("class", "SimpleStrategy"), ("replication_factor", "1")];
        let replication = replication.map(|(name, value)| (name.to_string(), value.to_string()));
        let keyspace = KeyspaceSchema::new("ks", replication.into(), true);
        Ok::<_, CatalogError>(Some(schema.create_keyspace(keyspace.unwrap()).unwrap()))
    };
    assert!(catalog.change(create).flatten().unwrap());
    Fixture { dir, db, catalog }
}

/// `city, kind | n, x`, of which the first two are the key.
fn rows() -> RecordFormat {
    let key = ["city", "kind"].map(Column::text).to_vec();
    let n = Column::number("n").of_type("bigint");
    RecordFormat::rows(key, vec![n, Column::number("x")])
}

impl Fixture {
    fn output(&self, name: &str, rows: RecordFormat) -> Result<CqlOutput, JobError> {
        let catalog = Arc::clone(&self.catalog);
        let staging = self.dir.path().join("staging");
        let commits = CommitRecord::default();
        CqlOutput::new(catalog, ("ks", name), Arc::new(rows), staging, commits)
    }

    /// The rows of a table: city and kind, with n and x as literals.
    fn found(&self, name: &str) -> Vec<String> {
        let state = self.catalog.state();
        let table = state.table("ks", name).unwrap();
        let schema = table.schema();
        let rows = rows_of(table.rows()).map(|entry| {
            let (key, operand) = entry.unwrap();
            let decoded = DecodedKey::read(&key).unwrap();
            let Place::Row(clustering) = decoded.place else {
                panic!("a header");
            };
            let view = RowView::new(RowRef::parse(&operand).unwrap(), None, 1);
            let mut told = vec![String::from_utf8(decoded.partition_key.to_vec()).unwrap()];
            let keys = schema.layout().clustering_values(clustering).unwrap();
            told.extend(keys.into_iter().map(|key| String::from_utf8(key).unwrap()));
            for name in ["n", "x"] {
                let column = schema.column(name).unwrap();
                let cell = view.cell(column.id.0).unwrap();
                told.push(cell.map_or("null".into(), |cell| column.ty.literal(cell.value)));
            }
            told.join(" ")
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
fn rows_make_a_table_with_their_columns_and_appear_by_one_commit() {
    let fixture = fixture();
    let (tell, told) = std::sync::mpsc::channel();
    (fixture.catalog).on_announcement(move |announced| {
        let Announcement::TableCreated { keyspace, table } = announced else {
            panic!("{announced:?}");
        };
        tell.send(format!("{keyspace}.{table}")).unwrap();
    });
    let output = fixture.output("t", rows()).unwrap();
    output.check().unwrap();
    write(&output, 1, &[("Aarhus,a", "3,0.5"), ("Bonn,b", "7,")]).unwrap();
    write(&output, 0, &[("Aarhus,b", "-1,1e3")]).unwrap();
    assert!(fixture.catalog.state().table("ks", "t").is_none());
    let before_us = fixture.catalog.timestamps().next_us().unwrap();
    output.commit().unwrap();
    // Clients hear of it, once.
    assert!(told.try_iter().eq(["ks.t"]));
    fixture.output("t", rows()).unwrap().commit().unwrap();
    assert_eq!(told.try_iter().count(), 0);
    let expected = ["Aarhus a 3 0.5", "Aarhus b -1 1E3", "Bonn b 7 null"];
    assert_eq!(fixture.found("t"), expected);
    let table = fixture.catalog.state().table("ks", "t").unwrap().clone();
    let schema = table.schema();
    let types = ["city", "kind", "n", "x"].map(|name| schema.column(name).unwrap().ty.to_string());
    assert_eq!(types, ["text", "text", "bigint", "decimal"]);
    let keys = schema.columns_of(ebb_catalog::schema::ColumnKind::PartitionKey);
    assert_eq!(keys.len(), 1, "city; kind is a clustering column");
    // Their timestamp lies between those of the server before and after.
    let after_us = fixture.catalog.timestamps().next_us().unwrap();
    let written =
        (before_us..=after_us).filter(|&us| has_rows_written_at(table.rows(), us).unwrap());
    let written: Vec<i64> = written.collect();
    assert!(written.len() == 1 && written[0] > before_us && written[0] < after_us);
    fixture.db.flush().unwrap();
    fixture.db.compact().unwrap();
    assert_eq!(fixture.found("t"), expected);
    let staging = fixture.dir.path().join("staging");
    assert_eq!(std::fs::read_dir(staging).unwrap().count(), 0);
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
        let (key, waiting) = plan.row(&fields).unwrap();
        let mut operand = Vec::new();
        plan::at_timestamp(&waiting, timestamp, &mut operand).unwrap();
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
    // Written later, with an older timestamp.
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
    // The key's columns by their order, where they are called otherwise.
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
        error.contains("several rows have the primary key ('x'"),
        "{error}"
    );
    assert_eq!(fixture.found("t"), [""; 0]);
    let unkeyed = fixture.output("new", RecordFormat::values(text(&["a"])));
    let said = unkeyed.err().unwrap().to_string();
    assert!(said.contains("CREATE TABLE"), "{said}");
}

#[test]
fn a_table_that_is_dropped_meanwhile_gets_no_rows() {
    let fixture = fixture();
    fixture.output("t", rows()).unwrap().commit().unwrap();
    let output = fixture.output("t", rows()).unwrap();
    write(&output, 0, &[("a,b", "1,1")]).unwrap();
    let drop = |schema: &ebb_catalog::schema::Schema| {
        Ok::<_, CatalogError>(Some(schema.drop_table("ks", "t").unwrap()))
    };
    assert!(fixture.catalog.change(drop).flatten().unwrap());
    let error = output.commit().unwrap_err().to_string();
    assert!(error.contains("dropped or created while"), "{error}");
}

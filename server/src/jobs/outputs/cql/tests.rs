use ebb_catalog::row::RowView;
use ebb_catalog::schema::KeyspaceSchema;
use ebb_storage::{Db, Options};

use super::*;
use crate::catalog::{LazyCatalog, database_options};
use crate::jobs::records::{Column, RecordFormat};

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
    assert!(catalog.change(create).unwrap());
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
    let output = fixture.output("t", rows()).unwrap();
    output.check().unwrap();
    write(&output, 1, &[("Aarhus,a", "3,0.5"), ("Bonn,b", "7,")]).unwrap();
    write(&output, 0, &[("Aarhus,b", "-1,1e3")]).unwrap();
    assert!(fixture.catalog.state().table("ks", "t").is_none());
    let before_us = fixture.catalog.timestamps().next_us().unwrap();
    output.commit().unwrap();
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

//! The Iceberg tables of a publication and their columns, decided from the schemas in the snapshot and from the
//! tables in the target.
//!
//! The rows of a table go to an Iceberg table of the same name, and its static columns to one called
//! `TABLE_static`, with a row for each partition that has a static value. After the last static column is dropped,
//! `TABLE_static` has the partition key and no rows.
//!
//! A field keeps its id from one publication to the next as long as the column is the same: a column that was dropped
//! and added again keeps its id in the store, but has another time of its drop, so the added column gets a new field
//! id. With the old one, old data files would show values from before the drop.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::sync::Arc;

use ebb_model::schema::{ColumnKind, TableSchema};
use ebb_model::types::CqlType;
use ebb_publish::commit::{LiveFile, Origin, PublishedTable, Rewrites};
use ebb_publish::data_file::Column;
use ebb_publish::types::{DecimalForm, FieldIds, IcebergType, NestedField, TypeOptions, field};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::PublishRequest;
use super::extent::{Extent, WhyWhole};
use super::row_keys::KeyForm;
use crate::error::RequestError;
use crate::inputs::cell_columns;

/// The name of the Iceberg table property that maps each field to the identity of its column in the store.
pub(super) const COLUMNS_PROPERTY: &str = "ebb.columns";

/// The name of the entry in the summary of an Iceberg snapshot with those options of the publication that the cells
/// of rows depend on. Earlier builds of ebb wrote it as a property of the table.
pub(super) const OPTIONS_PROPERTY: &str = "ebb.options";

/// The plan of one Iceberg table of a publication.
#[derive(Debug, Clone)]
pub(super) struct TablePlan {
    /// The name of the table: its folder in the target, `KEYSPACE/TABLE`.
    pub(super) name: String,
    /// The snapshot and the table of the store that the rows come from.
    pub(super) origin: Origin,
    /// The columns, in the order of the cells of a row. The columns of the primary key come first.
    pub(super) columns: Vec<Column>,
    /// The number of columns of the primary key.
    pub(super) key_columns: usize,
    /// The greatest field id that any field of the table ever had.
    pub(super) last_column_id: i32,
    /// The value of the table property [`COLUMNS_PROPERTY`]: JSON with, for each field, the
    /// identity of the column in the store. Fields of the newest publication that this one lacks are among
    /// them: `main` may stay at that one.
    pub(super) columns_property: String,
    /// The value of the entry [`OPTIONS_PROPERTY`]: JSON with those options of the
    /// publication that the cells of rows depend on.
    pub(super) options_property: String,
    /// The form of the rows, which decides how the key of a row in the store is made from the row's cells.
    pub(super) keys: KeyForm,
    /// The choice of rows to write: all rows, or only the changed ones.
    pub(super) extent: Extent,
    /// The data files of the newest publication, if only changed rows are still to be written; otherwise
    /// empty.
    pub(super) live: Vec<LiveFile>,
    /// The data files of `live` whose rows are copied into new files, and those whose delete files are
    /// combined.
    pub(super) rewrites: Rewrites,
    /// The version of the metadata that the publication builds on; 0 if the table has none.
    pub(super) version: u64,
    /// The id of the Iceberg snapshot that the publication builds on; `None` if the table has none.
    pub(super) parent: Option<i64>,
    /// True if the target already has this snapshot under its tag, so that nothing is to be done.
    pub(super) is_published: bool,
}

/// Columns of a table of the store, in the order of the cells of a row.
#[derive(Debug)]
pub(super) struct StoredColumns {
    columns: Vec<StoredColumn>,
    key_columns: usize,
    keys: KeyForm,
}

#[derive(Debug)]
struct StoredColumn {
    identity: Identity,
    name: String,
    ty: CqlType,
}

/// The identity of a column of the store. It stays when the column is renamed. A column that is dropped and added
/// again has another identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    /// The id of the column in the store.
    id: u32,
    /// The timestamp, in microseconds since 1970, up to which an earlier drop of the column hides cells; `None` if
    /// the column was never dropped.
    dropped_us: Option<i64>,
}

/// The field id of a column, as an entry of [`COLUMNS_PROPERTY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct KnownField {
    column: Identity,
    field: i32,
}

/// The columns that an Iceberg table has in its newest publication.
#[derive(Debug, Default)]
pub(super) struct PreviousColumns {
    fields: Vec<NestedField>,
    last_column_id: i32,
    known: Vec<KnownField>,
}

impl StoredColumns {
    /// Returns the columns of a CQL table that one Iceberg table has. With `are_static`, these are the
    /// partition key and the static columns; otherwise all columns that are not static.
    pub(super) fn of_cql(schema: &Arc<TableSchema>, are_static: bool) -> Self {
        let dropped_us = |id| {
            let old = schema.dropped().iter().find(|old| old.id == id);
            old.map(|old| old.dropped_us)
        };
        let places = cell_columns(schema, are_static);
        let columns = places.iter().map(|&place| &schema.columns()[place]);
        let key_columns = columns.clone();
        let key_columns = key_columns.filter(|column| column.kind <= ColumnKind::Clustering);
        let keys = if are_static {
            KeyForm::Statics
        } else {
            KeyForm::Rows
        };
        Self {
            key_columns: key_columns.count(),
            keys: keys(Arc::clone(schema)),
            columns: columns
                .map(|column| StoredColumn {
                    identity: Identity {
                        id: column.id.0,
                        dropped_us: dropped_us(column.id),
                    },
                    name: column.name.to_string(),
                    ty: column.ty.clone(),
                })
                .collect(),
        }
    }

    /// Returns the columns of a plain table: the key and the value, as text if `is_text` is true, otherwise
    /// as bytes.
    pub(super) fn plain(is_text: bool) -> Self {
        let ty = if is_text {
            CqlType::Text
        } else {
            CqlType::Blob
        };
        let column = |(id, name): (u32, &str)| StoredColumn {
            identity: Identity {
                id,
                dropped_us: None,
            },
            name: name.to_owned(),
            ty: ty.clone(),
        };
        Self {
            columns: [(0, "key"), (1, "value")].map(column).into(),
            key_columns: 1,
            keys: KeyForm::Plain,
        }
    }
}

impl PreviousColumns {
    pub(super) fn of(table: &PublishedTable<'_>) -> Self {
        let (fields, last_column_id) = table.columns();
        let known = table.property(COLUMNS_PROPERTY);
        let known = known.and_then(|known| serde_json::from_str(known).ok());
        Self {
            fields,
            last_column_id,
            known: known.unwrap_or_default(),
        }
    }

    fn field(&self, column: Identity) -> Option<&NestedField> {
        let known = self.known.iter().find(|known| known.column == column)?;
        self.fields.iter().find(|field| field.id == known.field)
    }
}

impl TablePlan {
    /// Decides on the columns of an Iceberg table, and returns a plan that writes all rows to a new
    /// table. The planner then sets the fields that depend on the newest publication of the table.
    /// A column that is also in `previous` keeps its field id.
    ///
    /// # Errors
    /// When readers would confuse the names of fields, see [`check_fields`].
    pub(super) fn new(
        name: String,
        origin: Origin,
        stored: StoredColumns,
        previous: &PreviousColumns,
        options: &PublishRequest,
    ) -> Result<Self, RequestError> {
        let decimal = options.decimal;
        let types = TypeOptions {
            decimal: decimal.and_then(|digits| DecimalForm::new(digits.precision, digits.scale)),
            varint_as_text: options.varint_as_text,
        };
        let mut ids = FieldIds {
            last: previous.last_column_id,
        };
        let (mut columns, mut known) = (Vec::new(), Vec::new());
        for StoredColumn { identity, name, ty } in stored.columns {
            let before = previous.field(identity);
            let field = field(&name, &ty, false, &types, before, &mut ids);
            known.push(KnownField {
                column: identity,
                field: field.id,
            });
            columns.push(Column { ty, field });
        }
        let fields: Vec<_> = columns.iter().map(|column| column.field.clone()).collect();
        check_fields(&fields, &format!("table {}", name.replace('/', ".")))?;
        let own: BTreeSet<i32> = known.iter().map(|known| known.field).collect();
        let others = previous.known.iter().filter(|known| {
            let mut fields = previous.fields.iter();
            !own.contains(&known.field) && fields.any(|field| field.id == known.field)
        });
        known.extend(others.copied());
        Ok(Self {
            name,
            origin,
            columns,
            key_columns: stored.key_columns,
            last_column_id: ids.last,
            columns_property: json!(known).to_string(),
            options_property: json!({
                "decimal": options.decimal,
                "varint_as_text": options.varint_as_text,
                "empty_as_null": options.empty_as_null,
                "text": options.text,
            })
            .to_string(),
            keys: stored.keys,
            extent: Extent::Whole(WhyWhole::IsFirst),
            live: Vec::new(),
            rewrites: Rewrites::default(),
            version: 0,
            parent: None,
            is_published: false,
        })
    }

    /// Returns whether the newest publication of the table has the same columns as this plan.
    pub(super) fn has_columns_of(&self, table: &PublishedTable<'_>) -> bool {
        let (fields, _) = table.columns();
        // Equal ids are those of the same columns of the store: others would have got new ids.
        let own = self.columns.iter().map(|column| &column.field);
        own.eq(&fields)
    }

    /// Returns whether the keys of rows in the store can always be made from the cells in data
    /// files. A partition key contains the bytes of its values, so each value must have only one
    /// form in bytes. In a clustering, equal numbers have the same bytes, whatever their form in
    /// the data file is.
    pub(super) fn has_exact_keys(&self) -> bool {
        let in_partition = self.keys.partition_columns();
        let mut key = self.columns.iter().take(self.key_columns).enumerate();
        key.all(|(place, Column { ty, .. })| {
            let are_numbers = matches!(ty, CqlType::Boolean | CqlType::Decimal | CqlType::Varint);
            has_one_form(ty) || place >= in_partition && are_numbers
        })
    }

    /// Changes the plan so that all rows are written, for the reason `why`.
    pub(super) fn write_whole(&mut self, why: WhyWhole) {
        self.extent = Extent::Whole(why);
        self.live = Vec::new();
        self.rewrites = Rewrites::default();
    }

    /// Returns true if only rows that differ from the newest publication are written.
    pub(super) fn is_of_changes(&self) -> bool {
        self.extent == Extent::Changes
    }

    /// Returns the name of the table for people, `KEYSPACE.TABLE`.
    pub(super) fn label(&self) -> String {
        self.name.replace('/', ".")
    }

    /// Returns those parts of the plan that must be the same when the job starts again. If they are not, data files
    /// of the earlier start cannot be used.
    pub(super) fn to_json(&self) -> Value {
        let columns = self.columns.iter();
        let columns = columns.map(|column| json!([column.ty.to_string(), column.field.to_json()]));
        json!({
            "name": self.name,
            "table_id": self.origin.table_id,
            "columns": columns.collect::<Vec<_>>(),
            "columns_property": self.columns_property,
            "version": self.version,
            // In a catalog, a move of `main` does not change the version.
            "parent": self.parent,
            "is_of_changes": self.is_of_changes(),
            // Tasks have copied the rows of these.
            "rewritten_files": self.rewrites.files,
        })
    }
}

/// Returns whether every value of the type has only one form in bytes, so that a value read from a data file has the
/// bytes of the written one. Examples of types with several forms are decimal (1.5 and 1.50), varint (leading bytes
/// without effect), and tuple (the last components null or missing).
fn has_one_form(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::Ascii
            | CqlType::Bigint
            | CqlType::Blob
            | CqlType::Date
            | CqlType::Double
            | CqlType::Float
            | CqlType::Inet
            | CqlType::Int
            | CqlType::Smallint
            | CqlType::Text
            | CqlType::Time
            | CqlType::Timestamp
            | CqlType::Timeuuid
            | CqlType::Tinyint
            | CqlType::Uuid
    )
}

/// Checks that no two tables of a publication have names that are the same, or differ only in case.
///
/// # Errors
/// When two do; the error names them.
pub(super) fn check_tables(keyspace: &str, tables: &[TablePlan]) -> Result<(), RequestError> {
    let names = tables.iter().map(|table| table.name.clone());
    let place = format!("the publication of keyspace {keyspace}");
    check_names(
        names,
        &place,
        "the static columns of a table are a table, too",
    )
}

/// Checks that no new table of a publication has a name that differs only in case from that of a table in the target.
/// `folders` are the folders in the keyspace's folder of the target, as `KEYSPACE/FOLDER`. `has_table` returns
/// whether the target has a table in such a folder.
///
/// # Errors
/// When one does; the error names both. The errors of `has_table`.
pub(super) fn check_names_beside<E: From<RequestError>>(
    tables: &[TablePlan],
    folders: &[String],
    has_table: impl Fn(&str) -> Result<bool, E>,
) -> Result<(), E> {
    for table in tables.iter().filter(|table| table.version == 0) {
        let name = &table.name;
        let is_alike =
            |other: &&String| *other != name && other.to_lowercase() == name.to_lowercase();
        for other in folders.iter().filter(is_alike) {
            if has_table(other)? {
                let reason = format!(
                    "{name}: the target has the table {other}, and both would be one name to engines that do not \
                     look at case; rename the table, or choose another target"
                );
                return Err(RequestError::Senseless(reason).into());
            }
        }
    }
    Ok(())
}

/// Checks that no two columns and fields of a table have whole names that are the same, or differ only in case.
/// A whole name has a dot between a column and its field. Readers such as Spark and PyIceberg look up fields by their
/// whole names, and open no table in which two are the same.
fn check_fields(fields: &[NestedField], place: &str) -> Result<(), RequestError> {
    let mut names = Vec::new();
    add_names(fields, "", &mut names);
    let why = "Iceberg puts a dot between a column and its field";
    check_names(names.into_iter(), place, why)
}

/// Adds the whole names of `fields`, and of the fields within them, to `names`. `before` is the start of each name.
fn add_names(fields: &[NestedField], before: &str, names: &mut Vec<String>) {
    for field in fields {
        let name = format!("{before}{}", field.name);
        let inside = format!("{name}.");
        names.push(name);
        match &field.ty {
            IcebergType::Struct(fields) => add_names(fields, &inside, names),
            IcebergType::List(element) => add_names(slice::from_ref(&**element), &inside, names),
            IcebergType::Map { key, value } => {
                add_names(slice::from_ref(&**key), &inside, names);
                add_names(slice::from_ref(&**value), &inside, names);
            }
            _ => {}
        }
    }
}

/// Checks that no two names are the same, or differ only in case. `why` is the reason why a publication may have two
/// such names, for the error.
fn check_names(
    names: impl Iterator<Item = String>,
    place: &str,
    why: &str,
) -> Result<(), RequestError> {
    let mut seen = BTreeMap::new();
    for name in names {
        let Some(other) = seen.insert(name.to_lowercase(), name.clone()) else {
            continue;
        };
        let problem = if other == name {
            format!("two would be called {name}, because {why}")
        } else {
            format!("{other} and {name} would be one name to engines that do not look at case")
        };
        return Err(RequestError::Senseless(format!(
            "{place}: {problem}; rename one of them, or leave its table out"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ebb_model::schema::TableDefinition;

    use super::*;

    fn schema() -> TableSchema {
        let columns = [
            ("k", CqlType::Int, false),
            ("c", CqlType::Int, false),
            ("s", CqlType::Text, true),
            ("z", CqlType::Text, false),
            ("a", CqlType::Int, false),
        ];
        let definition = TableDefinition::new(("app", "t"), &columns, &["k"], &["c"]);
        TableSchema::create(definition).unwrap()
    }

    fn origin() -> Origin {
        Origin {
            database_id: "d".into(),
            table_id: "t".into(),
            snapshot: "monday".into(),
            sequence_number: 1,
            read_time_s: 1,
        }
    }

    fn planned(schema: &TableSchema, are_static: bool, previous: &PreviousColumns) -> TablePlan {
        let stored = StoredColumns::of_cql(&Arc::new(schema.clone()), are_static);
        let options = PublishRequest::default();
        TablePlan::new("app/t".into(), origin(), stored, previous, &options).unwrap()
    }

    /// Returns the columns that a table has in the target once it is published with this plan. They are the
    /// `previous` of the plan for its next publication.
    fn published(plan: &TablePlan) -> PreviousColumns {
        PreviousColumns {
            fields: plan.columns.iter().map(|c| c.field.clone()).collect(),
            last_column_id: plan.last_column_id,
            known: serde_json::from_str(&plan.columns_property).unwrap(),
        }
    }

    fn ids(plan: &TablePlan) -> Vec<(&str, i32)> {
        let columns = plan.columns.iter();
        columns.map(|c| (&c.field.name[..], c.field.id)).collect()
    }

    #[test]
    fn static_columns_are_a_table_with_the_partition_key() {
        let (schema, none) = (schema(), PreviousColumns::default());
        let rows = planned(&schema, false, &none);
        assert_eq!(rows.key_columns, 2);
        let names: Vec<_> = ids(&rows).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names[..2], ["k", "c"]);
        assert!(!names.contains(&"s"), "{names:?}");
        let statics = planned(&schema, true, &none);
        assert_eq!(ids(&statics), [("k", 1), ("s", 2)]);
        assert_eq!(statics.key_columns, 1);
    }

    #[test]
    fn a_column_that_was_dropped_and_added_again_gets_a_new_field() {
        let first = schema();
        let before = planned(&first, false, &PreviousColumns::default());
        let of = |plan: &TablePlan, name: &str| {
            ids(plan)
                .into_iter()
                .find(|(n, _)| *n == name)
                .map(|(_, id)| id)
        };
        let (a, z) = (of(&before, "a"), of(&before, "z"));

        let same = planned(&first, false, &published(&before));
        assert_eq!(ids(&same), ids(&before));

        let dropped = first.drop_column("a", 17).unwrap();
        let without = planned(&dropped, false, &published(&before));
        assert_eq!((of(&without, "a"), of(&without, "z")), (None, z));
        let back = dropped.add_column("a", CqlType::Int, false).unwrap();
        for previous in [&before, &without] {
            let again = planned(&back, false, &published(previous));
            assert_ne!(of(&again, "a"), a);
            assert_eq!(of(&again, "a"), Some(before.last_column_id + 1));
            assert_eq!(of(&again, "z"), z);
        }
    }

    #[test]
    fn values_of_several_forms_in_a_partition_key_do_not_come_back() {
        let has_exact_keys = |of_partition: CqlType, of_clustering: CqlType| {
            let columns = [("k", of_partition, false), ("c", of_clustering, false)];
            let definition = TableDefinition::new(("app", "t"), &columns, &["k"], &["c"]);
            let schema = TableSchema::create(definition);
            planned(&schema.unwrap(), false, &PreviousColumns::default()).has_exact_keys()
        };
        assert!(has_exact_keys(CqlType::Text, CqlType::Uuid));
        assert!(has_exact_keys(CqlType::Int, CqlType::Decimal));
        assert!(!has_exact_keys(CqlType::Decimal, CqlType::Int));
        assert!(!has_exact_keys(CqlType::Varint, CqlType::Int));
        assert!(has_exact_keys(CqlType::Inet, CqlType::Inet));
        let tuple = CqlType::Tuple([CqlType::Int, CqlType::Int].into());
        assert!(!has_exact_keys(CqlType::Int, tuple));
    }

    #[test]
    fn names_that_differ_only_in_case_are_refused() {
        let schema = schema().add_column("Z", CqlType::Int, false).unwrap();
        let stored = StoredColumns::of_cql(&Arc::new(schema), false);
        let options = PublishRequest::default();
        let none = PreviousColumns::default();
        let refused = TablePlan::new("app/t".into(), origin(), stored, &none, &options);
        let error = refused.unwrap_err().to_string();
        assert!(
            error.starts_with("table app.t: ") && error.contains('Z'),
            "{error}"
        );

        let table = |name: &str| TablePlan {
            name: name.to_owned(),
            ..planned(&schema_without_z(), false, &none)
        };
        let tables = ["app/t", "app/t_static"].map(table);
        check_tables("app", &tables).unwrap();
        let error = check_tables("app", &["app/t", "app/T"].map(table)).unwrap_err();
        assert!(error.to_string().contains("app/T"), "{error}");
        let error = check_tables("app", &["app/t_static", "app/t_static"].map(table)).unwrap_err();
        let told = "two would be called app/t_static, because the static columns";
        assert!(error.to_string().contains(told), "{error}");
    }

    #[test]
    fn a_new_table_whose_name_differs_from_one_in_the_target_only_in_case_is_refused() {
        let none = PreviousColumns::default();
        let table = |name: &str, version: u64| TablePlan {
            name: name.to_owned(),
            version,
            ..planned(&schema(), false, &none)
        };
        let folders = ["app/Users", "app/t", "app/Left"].map(str::to_owned);
        let check = |name: &str, version| {
            let has_table = |name: &str| Ok(name != "app/Left");
            check_names_beside::<RequestError>(&[table(name, version)], &folders, has_table)
        };
        let error = check("app/users", 0).unwrap_err().to_string();
        assert!(error.contains("app/Users"), "{error}");
        // The table itself, one that is there already, and a folder that a killed publisher left.
        for (name, version) in [("app/t", 0), ("app/users", 3), ("app/left", 0)] {
            check(name, version).unwrap();
        }
    }

    #[test]
    fn a_column_that_main_still_has_keeps_its_field_while_an_older_snapshot_is_published() {
        let older = schema();
        let newer = older.add_column("n", CqlType::Int, false).unwrap();
        let newest = planned(&newer, false, &PreviousColumns::default());
        // `main` stays at the newest publication, and so does the current schema.
        let beside = planned(&older, false, &published(&newest));
        let previous = PreviousColumns {
            known: serde_json::from_str(&beside.columns_property).unwrap(),
            ..published(&newest)
        };
        assert_eq!(ids(&planned(&newer, false, &previous)), ids(&newest));
    }

    #[test]
    fn a_column_called_like_a_field_inside_of_another_is_refused() {
        let list = CqlType::list(CqlType::Int);
        let map = CqlType::map(CqlType::Int, CqlType::Int);
        let pair = CqlType::Tuple([CqlType::Int, CqlType::Duration].into());
        for (name, ty, other) in [
            ("p", pair.clone(), "p._1"),
            ("p", pair, "p._2.Days"),
            ("l", list, "l.element"),
            ("m", map, "M.value"),
        ] {
            let schema = schema().add_column(name, ty, false).unwrap();
            let planned = |schema: TableSchema| {
                let stored = StoredColumns::of_cql(&Arc::new(schema), false);
                let (options, none) = (PublishRequest::default(), PreviousColumns::default());
                TablePlan::new("app/t".into(), origin(), stored, &none, &options)
            };
            // A dot alone is no problem.
            let dotted = schema.add_column(&format!("{name}.x"), CqlType::Int, false);
            assert!(planned(dotted.unwrap()).is_ok());
            let schema = schema.add_column(other, CqlType::Int, false).unwrap();
            let error = planned(schema).unwrap_err().to_string();
            assert!(
                error.starts_with("table app.t: ") && error.contains(other),
                "{error}"
            );
        }
    }

    fn schema_without_z() -> TableSchema {
        schema().drop_column("z", 1).unwrap()
    }
}

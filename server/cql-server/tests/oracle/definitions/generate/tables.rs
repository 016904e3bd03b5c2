//! Random statements about tables and their indexes.

use rand::RngExt as _;

use super::Generator;
use crate::definitions::model::{Column, Kind, Model};
use crate::definitions::names::{COLUMNS, INDEXES, TABLES};
use crate::definitions::statement::{Name, NewColumn, Options, Statement, Target};
use crate::definitions::types::{Type, Types};

/// The timestamps of USING TIMESTAMP in ALTER TABLE ... DROP, in the distant past. If a drop had a
/// timestamp in the future and the column were added again, values written afterwards would be
/// hidden.
const TIMESTAMPS_US: std::ops::Range<i64> = 0..1000;

/// Options that are not in the model. In some of them a number has another form than the one that
/// the server prints.
const OTHER_OPTIONS: [&str; 10] = [
    "compression = {'class': 'ZstdCompressor'}",
    "compression = {'enabled': 'false'}",
    "compaction = {'class': 'LeveledCompactionStrategy'}",
    "caching = {'keys': 'NONE', 'rows_per_partition': '10'}",
    "extensions = {'a': 0x00ff}",
    "min_index_interval = '+128'",
    "crc_check_chance = '.5'",
    "bloom_filter_fp_chance = 1e-1",
    "speculative_retry = 'MIN(99.5p, 10ms)'",
    "cdc = 'TRUE'",
];

impl Generator {
    pub(super) fn create_table(&mut self, model: &Model) -> Statement {
        let name = self.new_name(model, TABLES);
        let types = model.types(&name.keyspace);
        let partition: usize = self.rng.random_range(1..3);
        let clustering: usize = self.rng.random_range(0..3);
        let others: usize = self.rng.random_range(0..4);
        let mut names = self.different_names(COLUMNS, partition + clustering + others);
        let counters = self.chance(0.1);
        let mut columns = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let is_key = at < partition + clustering;
            let may_be_static = if clustering > 0 { 0.3 } else { 0.02 };
            columns.push(NewColumn {
                name: name.clone(),
                ty: match (is_key, counters) {
                    (true, _) => self.key_type(types),
                    (false, true) => Type::Native("counter"),
                    (false, false) => self.column_type(types),
                },
                is_static: !is_key && self.chance(may_be_static),
            });
        }
        if self.chance(0.03) {
            // A key of missing columns, or of none.
            names = self.different_names(COLUMNS, names.len());
        }
        let clustering = names[partition..partition + clustering].iter().cloned();
        let clustering = clustering.map(|name| (name, self.chance(0.4))).collect();
        names.truncate(if self.chance(0.02) { 0 } else { partition });
        Statement::CreateTable {
            name,
            if_not_exists: self.chance(0.2),
            columns,
            partition: names,
            clustering,
            options: self.options(0.3),
        }
    }

    pub(super) fn add_columns(&mut self, model: &Model) -> Statement {
        let name = self.table(model);
        let count = self.rng.random_range(1..3);
        let names = self.different_names(COLUMNS, count).into_iter();
        let columns = names.map(|column| self.new_column(model, &name, column));
        Statement::AddColumns {
            columns: columns.collect(),
            name,
        }
    }

    fn new_column(&mut self, model: &Model, table: &Name, name: String) -> NewColumn {
        let types: &Types = model.types(&table.keyspace);
        let found = model.table(table);
        let is_counter = found.is_some_and(|table| table.is_counter);
        let has_clustering = found.is_some_and(|table| {
            let mut columns = table.columns.values();
            columns.any(|column| matches!(column.kind, Kind::Clustering(..)))
        });
        NewColumn {
            name,
            ty: if is_counter && self.chance(0.8) {
                Type::Native("counter")
            } else {
                self.column_type(types)
            },
            is_static: self.chance(if has_clustering { 0.3 } else { 0.05 }),
        }
    }

    pub(super) fn drop_columns(&mut self, model: &Model) -> Statement {
        let name = self.table(model);
        let columns = model.table(&name).into_iter().flat_map(|of| &of.columns);
        let is_value = |column: &Column| matches!(column.kind, Kind::Static | Kind::Regular);
        let values = columns.filter(|(_, column)| is_value(column));
        let values: Vec<String> = values.map(|(column, _)| column.clone()).collect();
        let count = if self.chance(0.2) { 2 } else { 1 };
        let columns = (0..count).map(|_| {
            let existing = self.one_of(&values);
            existing.unwrap_or_else(|| self.some_name(COLUMNS))
        });
        Statement::DropColumns {
            columns: columns.collect(),
            timestamp_us: (self.chance(0.2)).then(|| self.rng.random_range(TIMESTAMPS_US)),
            name,
        }
    }

    pub(super) fn rename_columns(&mut self, model: &Model) -> Statement {
        let name = self.table(model);
        let key = model.table(&name).map(|table| table.key());
        let key = key.unwrap_or_default();
        let count = if self.chance(0.2) { 2 } else { 1 };
        let pairs = (0..count).map(|_| (self.column_of(&key), self.some_name(COLUMNS)));
        Statement::RenameColumns {
            columns: pairs.collect(),
            name,
        }
    }

    pub(super) fn alter_options(&mut self, model: &Model) -> Statement {
        let mut options = self.options(0.5);
        if options.properties().is_empty() {
            options.comment = Some("it's another one");
        }
        Statement::AlterOptions {
            name: self.table(model),
            options,
        }
    }

    /// Draws options of a table. Each option is included with this probability.
    fn options(&mut self, probability: f64) -> Options {
        let comments = ["", "it's a table", "\"\n;--"];
        Options {
            comment: self.chance(probability).then(|| self.pick(&comments)),
            // Longer than the slowest run.
            default_time_to_live: (self.chance(probability)).then(|| self.pick(&[0, 100_000])),
            gc_grace_seconds: (self.chance(probability)).then(|| self.rng.random_range(0..9999)),
            other: self.chance(probability).then(|| self.pick(&OTHER_OPTIONS)),
        }
    }

    pub(super) fn drop_table(&mut self, model: &Model) -> Statement {
        Statement::DropTable {
            name: self.table(model),
            if_exists: self.chance(0.2),
        }
    }

    pub(super) fn create_index(&mut self, model: &Model) -> Statement {
        let table = self.table(model);
        let columns = model.table(&table).map(|found| &found.columns);
        let column = match columns {
            Some(columns) => self.column_of(columns),
            None => self.some_name(COLUMNS),
        };
        let ty = columns.and_then(|columns| columns.get(&column));
        let any = [
            Target::Simple,
            Target::Values,
            Target::Keys,
            Target::Entries,
            Target::Full,
        ];
        let valid = match ty.map(|column| &column.ty) {
            Some(Type::List(_) | Type::Set(_)) => &any[..2],
            Some(Type::Map(..)) => &any[..4],
            Some(ty) if ty.is_collection() => &any[4..],
            _ => &any[..1],
        };
        let target = self.one_of(valid).unwrap_or_else(|| self.pick(&any));
        let has_name = self.chance(0.6);
        Statement::CreateIndex {
            table,
            name: has_name.then(|| self.some_name(INDEXES)),
            if_not_exists: self.chance(0.2),
            column,
            target,
        }
    }

    pub(super) fn drop_index(&mut self, model: &Model) -> Statement {
        Statement::DropIndex {
            name: self.index(model),
            if_exists: self.chance(0.2),
        }
    }
}

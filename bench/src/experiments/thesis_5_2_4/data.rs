//! The data that every execution starts with: created once, and linked for each execution.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use ebb_storage::{
    CompactionOptions, CompactionPicker, Db, Maintenance, Options, Pick, TableOptions, TableShape,
};

use super::args::Scale;
use crate::console::progress_bar;
use crate::ycsb::{LoadOptions, load};

pub const KEYSPACE: &str = "thesis";
pub const TABLE: &str = "records";

/// Loads the records into `dir`, missing or empty, and merges them into one run: the thesis's data
/// was fully compacted at the start, too.
pub fn make(dir: &Path, scale: &Scale) -> Result<()> {
    let options = Options {
        maintenance: Maintenance::Manual,
        compaction: CompactionOptions {
            picker: Arc::new(MergeAll),
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let db = Db::open(dir, options)?;
    let table = db
        .keyspace(KEYSPACE)?
        .table(TABLE, TableOptions::default())?;
    let options = LoadOptions {
        threads: scale.threads as usize,
        value_bytes: scale.value_bytes as usize,
        ..LoadOptions::default()
    };
    let bar = progress_bar("load", scale.records);
    load(&db, &table, 0..scale.records, &options, |done| {
        bar.set_position(done);
    })?;
    bar.finish_and_clear();
    db.flush()?;
    db.compact()?;
    Ok(db.sync()?)
}

/// Creates a database in `dir`, missing or empty, with links to the SSTables of `base`.
pub fn link(base: &Path, dir: &Path) -> Result<()> {
    let options = Options {
        create_if_missing: false,
        maintenance: Maintenance::Manual,
        cache_bytes: 0,
        ..Options::default()
    };
    Db::open(base, options)?.backup(dir)?;
    Ok(())
}

/// A picker that merges all runs into one.
#[derive(Debug)]
struct MergeAll;

impl CompactionPicker for MergeAll {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        let is_idle = table.runs.iter().all(|run| !run.is_busy);
        (table.runs.len() > 1 && is_idle).then(|| Pick::merge(table.runs))
    }
}

#[cfg(test)]
mod tests {
    use crate::ycsb::{KEY_BYTES, key};

    use super::*;

    #[test]
    fn the_data_is_one_run_and_a_link_has_all_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let [base, copy] = ["base", "copy"].map(|name| dir.path().join(name));
        // More data than one memtable holds.
        let scale = Scale {
            records: 70,
            value_bytes: 1 << 20,
            operations: 1,
            target_s: 1.0,
            rounds: 1,
            iterations: 1,
            threads: 2,
            memtable_kb: 64,
            memory_percent: 40,
            seed: 0,
        };
        make(&base, &scale).unwrap();
        link(&base, &copy).unwrap();
        let db = Db::open(&copy, Options::default()).unwrap();
        let stats = db.stats();
        assert_eq!(stats.tables[0].runs.len(), 1);
        assert_eq!(stats.tables[0].versions, scale.records);
        let keyspace = db.existing_keyspace(KEYSPACE).unwrap();
        let table = keyspace.existing_table(TABLE).unwrap();
        let value = table.get(&key(69)).unwrap().unwrap();
        assert_eq!(
            value.len() as u64 + KEY_BYTES as u64,
            scale.data_bytes() / 70
        );
    }
}

//! Rounds of publications of a table that changes at random. After each, every tag has the rows of its round.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use ebb_test_support::seed::for_seeds;
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::testing::{Model, Row, TABLE, columns, key, keys, row, write};
use super::*;
use crate::commit::{
    Base, LiveFile, Origin, Publication, PublishedTable, Rights, Stamp, plan_rewrites, sweep,
};
use crate::iceberg::manifest::DataFile;
use crate::source::Source;
use crate::target::Target;

/// The numbers that random rows are made from: one key for each number.
const NUMBERS: std::ops::Range<i32> = -1_500..1_500;

/// A table that is published in rounds into a folder, and the rows that it and its tags should
/// have. Each round changes rows at random, publishes, and sets a tag.
struct Rounds {
    dir: tempfile::TempDir,
    target: Target,
    rng: ChaCha8Rng,
    model: Model,
    tags: BTreeMap<String, Model>,
    /// The number of data files that were written anew.
    rewritten: usize,
    /// The number of data files whose delete files were merged.
    merged: usize,
}

impl Rounds {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::folder(dir.path()).unwrap();
        Self {
            dir,
            target,
            rng: ChaCha8Rng::seed_from_u64(seed),
            model: Model::new(),
            tags: BTreeMap::new(),
            rewritten: 0,
            merged: 0,
        }
    }

    fn table(&self) -> PublishedTable<'_> {
        PublishedTable::open(&self.target, TABLE).unwrap()
    }

    /// Puts or deletes `count` random rows. Returns their keys.
    fn change(&mut self, count: usize, round: i32) -> BTreeSet<Vec<u8>> {
        let mut changed = BTreeSet::new();
        for _ in 0..count {
            let new = row(self.rng.random_range(NUMBERS), &format!("round {round}"));
            let key = key(&new);
            if self.rng.random_bool(0.25) {
                self.model.remove(&key);
            } else {
                self.model.insert(key.clone(), new);
            }
            changed.insert(key);
        }
        changed
    }

    fn commit(&mut self, round: i32, base: Base, files: Vec<DataFile>, deletes: Vec<DataFile>) {
        let tag = format!("round{round}");
        let publication = Publication {
            origin: Origin {
                database_id: "d".to_owned(),
                table_id: "t".to_owned(),
                snapshot: tag.clone(),
                sequence_number: round as u64,
                read_time_s: 1,
            },
            columns: columns().into_iter().map(|column| column.field).collect(),
            last_column_id: 3,
            base,
            files,
            deletes,
            rights: Rights {
                own_epochs: (0..round).map(|round| round.to_string()).collect(),
                ..Rights::default()
            },
            moves_main: true,
            retention: None,
            swept: None,
            properties: BTreeMap::new(),
            entries: BTreeMap::new(),
        };
        let stamp = Stamp {
            now_ms: round.into(),
            snapshot_id: i64::from(round) + 1,
            table_uuid: "u".to_owned(),
            epoch: round.to_string(),
        };
        assert!(self.table().commit(&publication, &stamp).unwrap());
        self.tags.insert(tag, self.model.clone());
    }

    /// Publishes all rows that the table should have after this round, in two data files.
    fn publish_all(&mut self, round: i32) {
        let version = self.table().version() + 1;
        let rows: Vec<&Row> = self.model.values().collect();
        let parts = rows.chunks(rows.len().div_ceil(2).max(1)).enumerate();
        let files = parts.map(|(at, rows)| {
            write(
                &self.target,
                (version, &at.to_string()),
                rows.iter().copied(),
            )
        });
        let files: Vec<DataFile> = files.collect();
        self.commit(round, Base::Replaced, files, Vec::new());
    }

    /// Publishes the rows with the keys `changed`. Deletes their old versions, and writes one data file with
    /// their new versions and with the rows of data files that are written anew.
    fn publish_changes(&mut self, round: i32, changed: &BTreeSet<Vec<u8>>) {
        let target = self.target.clone();
        let (version, live) = {
            let table = self.table();
            (table.version() + 1, table.live_files().unwrap())
        };
        let rewrites = plan_rewrites(&live);
        let files = Arc::new(RowFiles::open(&target, live, keys()).unwrap());
        let mut positions = Positions::new(files.clone());
        let before = &self.tags[&format!("round{}", round - 1)];
        let mut deletes = PositionalDeletes::default();
        for key in changed {
            let found = positions.locate(key).unwrap();
            assert_eq!(found.is_some(), before.contains_key(key), "{key:?}");
            found.into_iter().for_each(|row| deletes.add(row));
        }
        let new = changed
            .iter()
            .filter_map(|key| self.model.get_key_value(key));
        let mut new: Model = new.map(|(key, row)| (key.clone(), row.clone())).collect();

        let mut removed_files = Vec::new();
        for &place in &rewrites.files {
            let file = &files.files()[place];
            let gone = deletes.take(place);
            for row in left(&target, file, &gone) {
                assert!(new.insert(key(&row), row).is_none());
            }
            removed_files.push(file.file.file_path.clone());
        }
        for &place in &rewrites.deletes {
            let file = &files.files()[place];
            deletes.add_deleted(&target, place, file).unwrap();
            removed_files.extend(file.deletes.iter().map(|of| of.file.file_path.clone()));
        }
        let mut added = Vec::new();
        if !new.is_empty() {
            added.push(write(&target, (version, "new"), new.values()));
        }
        self.rewritten += rewrites.files.len();
        self.merged += rewrites.deletes.len();
        let deletes = deletes.write(&target, files.files(), (TABLE, version, "d"));
        let base = Base::Kept { removed_files };
        self.commit(round, base, added, deletes.unwrap());
    }

    /// Checks that the snapshot with the tag `tag` has the rows that the table had when the tag was set.
    fn check(&self, tag: &str) {
        let source = Source::table(&self.dir.path().join(TABLE), Some(tag)).unwrap();
        assert_eq!(rows(&source), self.tags[tag], "{tag}");
    }

    fn check_newest(&self) {
        let source = Source::table(&self.dir.path().join(TABLE), None).unwrap();
        assert_eq!(rows(&source), self.model);
        let summary = summary(self.dir.path(), self.table().version());
        let number = |name: &str| summary[name].as_str().unwrap().parse::<usize>().unwrap();
        let left = number("total-records") - number("total-position-deletes");
        assert_eq!(left, self.model.len());
        assert_eq!(number("total-data-files"), source.files().len());
    }
}

/// Reads all rows of a source, by their keys; checks that no two have the same key.
fn rows(source: &Source) -> Model {
    let columns: Vec<_> = columns()
        .into_iter()
        .map(|column| (column.field.name, column.ty))
        .collect();
    let mut model = Model::new();
    for file in source.files() {
        let mut rows = source.rows(file, &columns).unwrap();
        while rows.next_row().unwrap() {
            let row = row_of(rows.values());
            assert!(model.insert(key(&row), row).is_none());
        }
    }
    model
}

fn row_of(values: &[Option<Vec<u8>>]) -> Row {
    let text = |place: usize| {
        values[place]
            .clone()
            .map(|text| String::from_utf8(text).unwrap())
    };
    let k = values[0].as_ref().unwrap();
    let k = i32::from_be_bytes(k[..].try_into().unwrap());
    (k, text(1).unwrap(), text(2))
}

/// Reads the rows of a data file that no earlier publication has deleted. Leaves out the rows `gone`, which
/// this publication deletes: their numbers in the file, ascending.
fn left(target: &Target, file: &LiveFile, gone: &[u64]) -> Vec<Row> {
    let mut left = LeftRows::open(target, file, &columns()).unwrap();
    let mut rows = Vec::new();
    while let Some(position) = left.next_row().unwrap() {
        if gone.binary_search(&position).is_err() {
            rows.push(row_of(left.values()));
        }
    }
    rows
}

/// Reads the summary of the newest snapshot from the metadata file of `version`.
fn summary(folder: &Path, version: u64) -> serde_json::Value {
    let path = folder.join(format!("{TABLE}/metadata/v{version}.metadata.json"));
    let metadata: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let snapshots = metadata["snapshots"].as_array().unwrap();
    snapshots.last().unwrap()["summary"].clone()
}

#[test]
fn every_tag_has_the_rows_of_its_round_after_many_rounds_of_changes() {
    let test = "every_tag_has_the_rows_of_its_round_after_many_rounds_of_changes";
    for_seeds(test, 1, |seed| {
        let mut rounds = Rounds::new(seed);
        for number in NUMBERS.step_by(2) {
            let row = row(number, "first");
            rounds.model.insert(key(&row), row);
        }
        rounds.publish_all(0);
        for round in 1..=32 {
            // A file in which much changes at once is written anew by the next round.
            let count = if round == 24 { 400 } else { 10 };
            let changed = rounds.change(count, round);
            rounds.publish_changes(round, &changed);
            rounds.check_newest();
            // All data files are small: five layers, the first of which has two files.
            let live = rounds.table().live_files().unwrap();
            let deletes = live.iter().map(|file| file.deletes.len()).max();
            let is_within = live.len() <= 6 && deletes <= Some(3);
            assert!(is_within, "{} data files, {deletes:?}", live.len());
            let earlier = rounds.rng.random_range(0..round);
            rounds.check(&format!("round{earlier}"));
            if round % 8 == 0 {
                sweep(&rounds.target, TABLE).unwrap();
                assert_eq!(sweep(&rounds.target, TABLE).unwrap(), 0);
            }
        }
        assert!(rounds.rewritten > 0 && rounds.merged > 0);
        rounds.publish_all(33);
        rounds.tags.keys().for_each(|tag| rounds.check(tag));
    });
}

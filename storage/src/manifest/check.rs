//! The checks of a state that was read from disk, before the engine relies on it: good checksums
//! prove that the bytes are unchanged, not that the state makes sense.

use std::collections::{HashMap, HashSet};

use super::state::State;
use crate::key::NUMBER_MAX;
use crate::runs::FileMeta;
use crate::snapshots::Lifetime;

impl State {
    /// Returns an error, which describes the contradiction, for a state that the engine cannot have
    /// written. Finds only what keeps a database from opening: other contradictions, such as two
    /// snapshots of one name, are found by a verification.
    pub(crate) fn check(&self) -> Result<(), String> {
        // The next table gets the id above.
        if self.last_table_id.0 == u32::MAX {
            return Err("no table id is left".into());
        }
        let (mut runs, mut files) = (HashSet::new(), HashSet::new());
        let keyspaces: HashSet<_> = self.keyspaces.iter().collect();
        let mut names = HashMap::new();
        for (id, table) in &self.tables {
            if table.id != *id {
                return Err(format!(
                    "table {} stands in the place of {}",
                    table.id.0, id.0
                ));
            }
            if *id > self.last_table_id {
                let last = self.last_table_id.0;
                return Err(format!("table {} is above the last id, {last}", id.0));
            }
            let Lifetime {
                created_after,
                dropped_after,
            } = table.lifetime;
            if dropped_after.is_some_and(|last| last < created_after) {
                return Err(format!(
                    "table {} was dropped before it was created, after commit {created_after}",
                    id.0
                ));
            }
            // A table that was dropped is found by its id only. Its keyspace may be dropped, too, and
            // later tables may have its name.
            if dropped_after.is_none() {
                if !keyspaces.contains(&table.keyspace) {
                    return Err(table.without_keyspace());
                }
                if let Some(other) = names.insert((&table.keyspace, &table.name), table) {
                    return Err(table.of_one_name_with(other));
                }
            }
            for run in &table.runs {
                let name = format!("run {} of table {}", run.id.0, id.0);
                if !runs.insert(run.id) {
                    return Err(format!("{name} is there twice"));
                }
                if run.files.is_empty() {
                    return Err(format!("{name} has no files"));
                }
                run.files.iter().try_for_each(FileMeta::check)?;
                if run.smallest_seq > run.largest_seq {
                    return Err(format!("{name} ends before it begins"));
                }
                // All versions of an ingested run have the number of its commit.
                let span = (run.smallest_seq, run.largest_seq);
                if run.ingested_at.is_some_and(|at| (at, at) != span) {
                    return Err(format!("{name} was ingested by a commit not in it"));
                }
                // A new file must not get the number of one that is there.
                let below = self.files_below;
                if let Some(above) = run.numbers().find(|file| *file >= below) {
                    return Err(format!(
                        "{name} has file {}, and files are numbered below {}",
                        above.0, below.0
                    ));
                }
                if let Some(twice) = run.numbers().find(|file| !files.insert(*file)) {
                    return Err(format!(
                        "{name} has file {}, which was named before",
                        twice.0
                    ));
                }
            }
        }
        // The engine counts on from these numbers, and adds up bytes and entries: neither overflows
        // below `NUMBER_MAX`.
        let sum =
            |of: fn(&crate::runs::RunMeta) -> u64| self.runs().map(of).fold(0, u64::saturating_add);
        let numbers = [
            ("sequence number", self.last_seq().0),
            ("run", runs.iter().map(|run| run.0).max().unwrap_or(0)),
            ("file", self.files_below.0),
            ("WAL segment", self.wal_floor.0),
            ("WAL segment", self.backup.map_or(0, |mark| mark.wal_end.0)),
            ("snapshot id", self.bookmarks.last_id),
            ("sum of bytes", sum(crate::runs::RunMeta::bytes)),
            ("sum of entries", sum(crate::runs::RunMeta::entries)),
        ];
        match numbers.iter().find(|(_, number)| *number >= NUMBER_MAX) {
            Some((what, number)) => Err(format!("{what} {number} is out of all bounds")),
            None => Ok(()),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::copies::ManifestCopy;
    use super::super::replay::replay;
    use super::super::state::{Edit, State};
    use crate::Error;
    use crate::key::FileNumber;
    use crate::key::SeqNo;
    use crate::key::TableId;
    use crate::manifest::{TableMeta, fuzzing};
    use crate::runs::{FileMeta, RunMeta};

    fn run(id: u64, files: &[u64]) -> RunMeta {
        RunMeta::example(id, files)
    }

    /// Returns a table of the name "t" without runs.
    fn namesake(id: u32, keyspace: &str) -> TableMeta {
        TableMeta {
            keyspace: keyspace.into(),
            name: "t".into(),
            flushed_seq: SeqNo(2),
            ..TableMeta::example(id)
        }
    }

    fn state(runs: Vec<RunMeta>) -> State {
        let table = TableMeta {
            runs,
            ..namesake(1, "app")
        };
        let mut state = State {
            keyspaces: vec!["app".into()],
            ..State::default()
        };
        state.apply(Edit::AddTable(table)).unwrap();
        let below = FileNumber(100);
        state.apply(Edit::ReserveFiles { below }).unwrap();
        state
    }

    /// Regression: if a manifest with good checksums contained a table under the id of another table, a
    /// run without files, or numbers at the end of their range, the opening of the database, or the
    /// first operation after it, panicked.
    #[test]
    fn a_state_that_makes_no_sense_is_refused() {
        let good = state(vec![run(2, &[3, 4]), run(1, &[2])]);
        assert_eq!(good.check(), Ok(()));
        let mut bad = vec![
            state(vec![run(1, &[])]),
            state(vec![run(1, &[2]), run(1, &[3])]),
            state(vec![run(1, &[2]), run(2, &[2])]),
            state(vec![run(u64::MAX, &[2])]),
            state(vec![run(1, &[u64::MAX])]),
            state(vec![run(1, &[100])]),
            state(vec![
                RunMeta {
                    files: vec![FileMeta {
                        bytes: u64::MAX / 2,
                        ..FileMeta::of_nothing(2)
                    }],
                    ..run(1, &[])
                },
                run(2, &[3]),
            ]),
            state(vec![RunMeta {
                smallest_seq: SeqNo(9),
                ..run(1, &[2])
            }]),
            state(vec![RunMeta {
                ingested_at: Some(SeqNo(2)),
                ..run(1, &[2])
            }]),
            state(vec![RunMeta {
                largest_seq: SeqNo::MAX,
                ..run(1, &[2])
            }]),
        ];
        for namesake in [namesake(2, "app"), namesake(2, "gone")] {
            let mut state = good.clone();
            state.last_table_id = TableId(2);
            state.tables.insert(TableId(2), namesake);
            bad.push(state);
        }
        let mut undone = good.clone();
        let table = undone.tables.get_mut(&TableId(1)).unwrap();
        table.lifetime.created_after = SeqNo(2);
        table.lifetime.dropped_after = Some(SeqNo(1));
        bad.push(undone);
        let mut elsewhere = good.clone();
        let table = elsewhere.tables.remove(&TableId(1)).unwrap();
        elsewhere.tables.insert(TableId(2), table);
        bad.push(elsewhere);
        for damage in [
            |state: &mut State| state.wal_floor = FileNumber(u64::MAX),
            |state: &mut State| state.last_table_id = TableId(u32::MAX),
            |state: &mut State| state.bookmarks.as_of = SeqNo::MAX,
            |state: &mut State| state.bookmarks.last_id = u64::MAX,
        ] {
            let mut state = good.clone();
            damage(&mut state);
            bad.push(state);
        }
        for state in bad {
            let copy = ManifestCopy {
                path: "MANIFEST-000001".into(),
                bytes: fuzzing::written(&state),
            };
            let read = replay(&[copy]);
            assert!(matches!(read, Err(Error::Corruption { .. })), "{state:?}");
        }
    }

    /// Regression: a state with two live tables of one name, or with a table in no listed keyspace, was
    /// opened. Only one of the two tables was found, and a replay of the log skipped the writes to the
    /// other one.
    #[test]
    fn a_name_belongs_to_one_live_table_in_a_listed_keyspace() {
        let add = |id, keyspace| Edit::AddTable(namesake(id, keyspace));
        let keep = |id, seq| Edit::DropTables {
            kept: vec![(TableId(id), SeqNo(seq))],
            forgotten: Vec::new(),
            snapshots: None,
        };
        let mut state = state(Vec::new());
        for (keyspace, expected) in [
            ("app", "tables 1 and 2 both have the name app.t"),
            ("gone", "table 2, gone.t, is in no keyspace that is listed"),
        ] {
            let mut bad = state.clone();
            bad.last_table_id = TableId(2);
            bad.tables.insert(TableId(2), namesake(2, keyspace));
            assert_eq!(bad.check(), Err(expected.to_string()));
        }
        // An edit is compared with the names of all tables only at the end of a replay, by the check of
        // the whole state.
        assert!(state.apply(add(2, "gone")).is_err());
        // Names are used again after drops, also while snapshots show the dropped tables.
        let name = || "app".to_string();
        for edit in [
            keep(1, 5),
            add(2, "app"),
            keep(2, 7),
            Edit::DropKeyspace { name: name() },
            Edit::AddKeyspace { name: name() },
            add(3, "app"),
        ] {
            state.apply(edit).unwrap();
            assert_eq!(state.check(), Ok(()));
        }
    }
}

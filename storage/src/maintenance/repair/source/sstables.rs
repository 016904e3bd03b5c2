//! Reading of the SSTables: the versions in each file, and the table and the run that the file belongs to.

use std::collections::BTreeMap;

use super::super::replaced::Extent;
use super::super::report::Lost;
use super::{Reader, TABLE_ID_MAX};
use crate::error::{Error, Result};
use crate::key::{FileNumber, KeyRange, SeqNo, TableId};
use crate::maintenance::db_files::DbFiles;
use crate::mutation::{self, Mutation};
use crate::options::TableOptions;
use crate::runs::{FileMeta, RunMeta};
use crate::snapshots::Lifetime;
use crate::sstable::{FileId, KeyVersion, LostBlock, Salvage};

/// The table and the run that a file belongs to, according to the manifest or the log.
#[derive(Debug, Clone)]
pub(super) struct Place {
    table: TableId,
    /// The id of the file. It shows whether another file has got the same number since.
    id: FileId,
    /// The smallest and the largest sequence number that the run of the file may have.
    span: (SeqNo, SeqNo),
    /// The one sequence number that all versions of the file have, if the file was ingested.
    ingested_at: Option<SeqNo>,
    /// The run's key range, if its files may have keys outside of that range, which no longer count;
    /// `None` if all keys count.
    keys: Option<KeyRange>,
}

impl Place {
    pub(super) fn of(table: TableId, run: &RunMeta, file: &FileMeta) -> Self {
        Self {
            table,
            id: file.id,
            span: (run.smallest_seq, run.largest_seq),
            ingested_at: run.ingested_at,
            keys: run.keys.as_ref().map(|keys| keys.range().clone()),
        }
    }
}

impl Reader<'_> {
    /// Reads the files of the manifest's runs.
    pub(super) fn files_of_runs(&mut self) -> Result<()> {
        let tables: Vec<_> = self.state.tables.values().cloned().collect();
        for table in &tables {
            for run in &table.runs {
                for file in &run.files {
                    self.file(file.number, Some(Place::of(table.id, run, file)))?;
                }
            }
        }
        Ok(())
    }

    /// Reads every SSTable of the directory. The inputs of a merge may still exist beside its
    /// output. If both have a version, the version in the output is used.
    pub(super) fn all_files(&mut self, files: &DbFiles) -> Result<()> {
        let mut named = BTreeMap::new();
        for table in self.state.tables.values() {
            for run in &table.runs {
                for file in &run.files {
                    named.insert(file.number, Place::of(table.id, run, file));
                }
            }
        }
        for number in &files.sstables {
            self.file(*number, named.get(number).cloned())?;
        }
        Ok(())
    }

    /// Reads the versions of an SSTable; `place` is the table and the run that the file belongs to,
    /// if known.
    pub(super) fn file(&mut self, number: FileNumber, place: Option<Place>) -> Result<()> {
        let path = self.tables.name(number.0);
        let name = place.as_ref().map(|place| self.name(place.table));
        let file = self.tables.open(number.0);
        let bytes = file.as_ref().map_or(0, |file| file.len().unwrap_or(0));
        let opened = Salvage::open(file, &path, place.as_ref().map(|place| place.id));
        self.reading.add(bytes);
        self.reading.report(self.progress);
        let salvage = match opened {
            Ok(salvage) => salvage,
            // The file may be whole (a descriptor or a permission is lacking, or the format is newer):
            // nothing is lost, and the user can try again.
            Err(error) if !error.is_of_file() => return Err(error),
            Err(error) => {
                self.lose(error, name, "; every row of it is lost");
                return Ok(());
            }
        };
        let properties = salvage.properties.as_ref();
        let table = properties.map(|properties| TableId(properties.table_id));
        // Files that were written for ingesting have the id 0.
        let table = table.filter(|id| *id != TableId::default() && *id <= TABLE_ID_MAX);
        let Some(table) = place.as_ref().map(|place| place.table).or(table) else {
            // The log may name the file, and then the file is read again for its table.
            let unknown = Error::corruption(&path, 0, "nothing says which table it is of");
            self.lose(unknown, None, "; every row of it is lost");
            self.unclaimed
                .extend(self.lost.pop().map(|lost| (number, lost)));
            return Ok(());
        };
        // A table that was dropped and that no snapshot covers is not saved.
        if self.is_forgotten(table) {
            return Ok(());
        }
        if let Some(properties) = properties {
            let options = TableOptions {
                sstable: properties.options.clone(),
                merge_operator: properties
                    .origin
                    .as_ref()
                    .and_then(|origin| origin.merge_operator.clone()),
            };
            self.last_seq = self.last_seq.max(properties.largest_seq);
            self.table(table, options);
            if let Some(origin) = &properties.origin {
                self.names.note(table, &origin.keyspace, &origin.table);
                // The manifest does not list the table, and the file records when it was created.
                if self.names.lacks(table)
                    && let Some(meta) = self.state.tables.get_mut(&table)
                {
                    meta.lifetime = Lifetime::beginning_after(origin.created_after);
                }
            }
        } else {
            self.table(table, TableOptions::default());
        }
        let name = self.name(table);
        let extent = self.extent(&salvage, place.as_ref());
        let mut salvage = salvage;
        let keys = place.as_ref().and_then(|place| place.keys.clone());
        // Parts of a merge may have replaced some keys of the run. Damage to these keys is no loss.
        let is_a_loss = |lost: &LostBlock| {
            let keys = keys.as_ref();
            keys.is_none_or(|keys| keys.overlaps(&lost.keys()))
        };
        for lost in std::mem::take(&mut salvage.lost)
            .into_iter()
            .filter(is_a_loss)
        {
            self.lost.push(Lost {
                path: path.clone(),
                offset: lost.offset,
                bytes: lost.bytes,
                table: Some(name.clone()),
                from_key: lost.from_key,
                to_key: lost.to_key,
                detail: lost.detail,
            });
        }
        if let Some(tombstones) = &salvage.tombstones {
            let all = self.tombstones.entry(table).or_default();
            all.extend(tombstones.iter());
        }
        let recorded_number = salvage
            .properties
            .as_ref()
            .map_or(0, |properties| properties.file_number);
        let ingested_at = place.as_ref().and_then(|place| place.ingested_at);
        let reading = self.reading.clone();
        let blocks_read = move |bytes| reading.add(bytes);
        let counts = move |item: &Result<KeyVersion>| match (item, &keys) {
            (Ok((key, _)), Some(keys)) => keys.contains(key),
            _ => true,
        };
        let versions = salvage.versions(blocks_read).filter(counts);
        let versions = Box::new(versions.map(move |item| {
            item.map(|(key, mut version)| {
                // All versions of an ingested file have the number of the commit that ingested it.
                version.seq = ingested_at.unwrap_or(version.seq);
                (key, version)
            })
        }));
        // Numbers show the age of files. A file that was restored from a backup has a new number,
        // so the number that it was written under counts.
        let written_as = match recorded_number {
            // Written outside of the database, to be ingested.
            0 => number.0,
            _ if mutation::is(Mutation::StandByName) => number.0,
            written_as => written_as,
        };
        let sources = self.sources.entry(table).or_default();
        // A whole manifest lists the runs newest first. An ingested run that only the log names comes
        // last, which is safe: with a whole manifest no file replaces versions of another (see
        // `extent`). Without the manifest, the age of the files is the order.
        let at = if self.exact {
            sources.len()
        } else {
            sources.partition_point(|(newer, _)| *newer >= written_as)
        };
        sources.insert(at, (written_as, (extent, versions)));
        Ok(())
    }

    /// Returns the known contents of a file: its keys, its sequence numbers, the keys that it may
    /// have lost, and its `origin`. The origin is a range of sequence numbers: the file has all
    /// versions with these numbers that are still needed, and replaces the versions with these
    /// numbers in older files. If the manifest's list of files is complete, `origin` is `None`,
    /// because no listed file replaces versions of another. `place` is the run that the file
    /// belongs to, if known.
    fn extent(&self, salvage: &Salvage, place: Option<&Place>) -> Extent {
        let properties = salvage.properties.as_ref();
        let span = place.map(|place| place.span);
        let stands_for = properties.and_then(|properties| properties.origin.as_ref());
        let origin = stands_for.map(|origin| (origin.smallest_seq, origin.largest_seq));
        let has = properties.filter(|properties| properties.entries > 0);
        let has = has.map(|properties| {
            KeyRange::spanning(&properties.smallest_key, &properties.largest_key)
        });
        let between = mutation::is(Mutation::StandBetweenKeys);
        let keys = stands_for
            .filter(|_| !between)
            .map(|origin| match &origin.keys {
                Some(keys) => keys.range().clone(),
                None => KeyRange::all(),
            });
        let ingested_at = place.and_then(|place| place.ingested_at);
        let seqs = properties.map(|properties| (properties.smallest_seq, properties.largest_seq));
        let seqs = ingested_at.map(|seq| (seq, seq)).or(seqs).or(span);
        let lost = salvage.lost.iter();
        Extent {
            origin: origin.or(span).or(seqs).filter(|_| !self.exact),
            seqs: seqs.unwrap_or((SeqNo::ZERO, SeqNo::MAX)),
            keys: keys.or(has),
            lost: lost
                .map(|lost| (lost.from_key.clone(), lost.to_key.clone()))
                .collect(),
        }
    }
}

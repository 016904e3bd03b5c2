//! The commit of a publication: its tables, the record that all tables are published, the report, and
//! the pins for the next publication.

use ebb_publish::commit::{
    Base, CommitError, DeleteFile, Expired, LiveFile, Origin, Publication, PublishedTable, Rights,
    sweep_sparing,
};
use ebb_publish::iceberg::manifest::DataFile;
use ebb_publish::rows::PositionalDeletes;
use ebb_scheduler::runtime::TaskError;
use ebb_text::counts::counted;

use super::PinMax;
use super::access::CommitFailure;
use super::extent::Extent;
use super::job::{PublicationJob, lock};
use super::plan::{COLUMNS_PROPERTY, OPTIONS_PROPERTY, TablePlan};
use super::records::RowCounts;
use super::section::{self, Section};
use super::whole::{WholeRecord, WholeTable};
use crate::history::now_unix_ms;

impl PublicationJob {
    /// Commits the tables that are not published yet, makes `main` follow in all tables, then writes the completion
    /// record of the publication, and keeps the published snapshot readable for the next publication. The
    /// commits also remove the old publications that the option `keep` does not keep. If tables are left out, commits
    /// only the others, with the tag, and returns an error that names those that are left out.
    pub(super) fn commit(&self) -> Result<(), TaskError> {
        let target = &self.target;
        // A publication has a table at least.
        let Some(TablePlan { origin, .. }) = self.tables.first() else {
            return Ok(());
        };
        let left = || self.tables.iter().filter(|table| !table.is_published);
        let is_new = left().next().is_some();
        self.check_pins()?;
        let now_ms = i64::try_from(now_unix_ms()).unwrap_or(i64::MAX);
        let expired = self.expired(now_ms).map_err(TaskError::failed)?;
        let forgotten = self.forget_whole(origin).map_err(TaskError::failed)?;
        // Until the tags are removed, no other publication may write these records again.
        let sections = self.forget_expired(&expired).map_err(TaskError::failed)?;
        let mut is_own = self.commit_tables(&expired, now_ms)?;
        if let Some(error) = self.left_out_error() {
            let tagged = self.included();
            (self.commits).note(tagged.map(|(number, table)| self.written(number, table)));
            return Err(error);
        }
        self.move_mains(&expired, now_ms, &mut is_own)?;
        let (mut own, mut removed) = (Vec::new(), Vec::new());
        let planned = self.tables.iter().zip(&expired).zip(is_own);
        for ((table, expired), _) in planned.filter(|(_, is_own)| *is_own) {
            own.push((table, expired));
            if !expired.snapshots.is_empty() {
                let publications = counted(expired.snapshots.len(), "older publication");
                removed.push(format!("{}: {publications} removed", table.label()));
            }
        }
        drop(sections);
        let newest = self.record_whole(origin, forgotten)?;
        self.records
            .clear(target, &self.plan)
            .map_err(TaskError::failed)?;
        for (table, expired) in own {
            // The publication is there. What remains is removed by the next one, and so are the files of the
            // old publications, which readers may be reading. If another publisher has committed the table,
            // only that one has a list of these files.
            let _ = sweep_sparing(target, &table.name, &expired.snapshots);
        }
        if is_new {
            let tables = (0..).zip(&self.tables);
            (self.commits).note(tables.map(|(number, table)| self.written(number, table)));
            (self.commits).note(removed);
        } else {
            (self.commits).note([format!("{} is published already", self.label)]);
        }
        self.renew_pins(&newest, is_new);
        Ok(())
    }

    /// Commits the tables that are neither published yet nor left out, with the tag of the snapshot. The commit of the
    /// last one also moves `main`, if none is left out. Returns for each table whether this publication has committed
    /// it.
    fn commit_tables(&self, expired: &[Expired], now_ms: i64) -> Result<Vec<bool>, TaskError> {
        let last = self.last_left();
        let (mut is_own, mut published) = (Vec::new(), 0);
        for (number, planned) in self.tables.iter().zip(expired).enumerate() {
            if self.is_left_out(number as u32) {
                is_own.push(false);
                continue;
            }
            let moves_main = Some(number) == last;
            let committed = self.commit_table((number as u32, moves_main), planned, now_ms);
            let committed = committed.map_err(|error| {
                TaskError::failed(match published {
                    0 => error.to_string(),
                    // Readers of these tables already see the new tag.
                    at => format!(
                        "{error}; {at} of {} tables are published",
                        self.tables.len()
                    ),
                })
            })?;
            is_own.push(committed);
            published += 1;
        }
        Ok(is_own)
    }

    /// Checks that the store still keeps the earlier snapshots with which tasks compared rows. The
    /// store releases such a snapshot before it drops data of the table that it cannot read. So if
    /// the snapshot is released, a comparison may have missed changes. It is no error if another
    /// publisher of the snapshot to be published has committed the table meanwhile: the comparison
    /// is then not used.
    fn check_pins(&self) -> Result<(), TaskError> {
        for (stored, (name, numbers)) in self.stored.iter().enumerate() {
            let tables = self.of_numbers(numbers).iter();
            let left = tables.filter(|table| !table.is_published && table.is_of_changes());
            if self.left_out.has(stored)
                || left.clone().next().is_none()
                || self.pins.open(name).map_err(TaskError::failed)?.is_some()
            {
                continue;
            }
            let are_left = left.map(|table| self.is_left(table));
            let are_left = are_left.collect::<Result<Vec<bool>, _>>();
            let are_left = are_left.map_err(|error| TaskError::failed(error.to_string()))?;
            if are_left.contains(&true) {
                return Err(TaskError::failed(format!(
                    "{name}: the snapshot that was published before is not kept any more: its time was \
                     over, space got short, or rows of the table were lost; publish again, which \
                     writes all rows"
                )));
            }
        }
        Ok(())
    }

    /// Returns true if a table is still to be committed; false if another publisher of the same snapshot
    /// has committed it meanwhile.
    ///
    /// # Errors
    /// If a publisher of another snapshot has committed the table, if the snapshot must not be published
    /// into the table, or if a request to the target fails.
    fn is_left(&self, table: &TablePlan) -> Result<bool, CommitFailure> {
        let (found, rights) = self.open_table(table)?;
        if self.is_published((&found, &rights), table)? {
            return Ok(false);
        }
        found.check_is_at(table.version, table.parent)?;
        Ok(true)
    }

    /// Commits a table, unless it is published already, and returns whether it has committed it. `number` is that of
    /// the table, and `moves_main` is true if the commit also moves `main`. `planned` is the table with the
    /// old publications that are removed.
    ///
    /// Another publisher of the same snapshot, for example the job of a server that was started again,
    /// may commit the table after this job has read its metadata and before it commits. Then the table
    /// is published, and this is no error.
    fn commit_table(
        &self,
        (number, moves_main): (u32, bool),
        planned: (&TablePlan, &Expired),
        now_ms: i64,
    ) -> Result<bool, CommitFailure> {
        let failure = match self.commit_new((number, moves_main), planned, now_ms) {
            Ok(is_own) => return Ok(is_own),
            Err(failure) => failure,
        };
        let (table, _) = planned;
        let found = self.open_table(table);
        match found.and_then(|(found, rights)| self.is_published((&found, &rights), table)) {
            Ok(true) => Ok(false),
            _ => Err(failure),
        }
    }

    /// Returns whether the newest metadata of a table contain this publication. If so, corrects the version
    /// hint: the publisher that committed the metadata may have ended before it wrote the hint.
    pub(super) fn is_published(
        &self,
        (found, rights): (&PublishedTable<'_>, &Rights),
        table: &TablePlan,
    ) -> Result<bool, CommitFailure> {
        let is_published = found.is_published(&table.origin, rights)?;
        if is_published {
            found.mend_hint().map_err(CommitError::from)?;
        }
        Ok(is_published)
    }

    fn commit_new(
        &self,
        (number, moves_main): (u32, bool),
        (table, expired): (&TablePlan, &Expired),
        now_ms: i64,
    ) -> Result<bool, CommitFailure> {
        let (found, rights) = self.open_table(table)?;
        // Before this start, or by another one of the same publication.
        if self.is_published((&found, &rights), table)? {
            return Ok(false);
        }
        found.check_is_at(table.version, table.parent)?;
        self.check_expired((&found, &rights), (table, expired), now_ms)?;
        let (mut files, mut deletes) = (Vec::new(), Vec::new());
        for task in lock(&self.done).values() {
            files.extend(of_table(&task.files, number));
            deletes.extend(of_table(&task.deletes, number));
        }
        let base = if table.is_of_changes() {
            let removed_files = self.merge_deletes(table, &mut deletes)?;
            Base::Kept { removed_files }
        } else {
            Base::Replaced
        };
        let columns = table.columns.iter().map(|column| column.field.clone());
        let entry = |name: &str, value: &String| [(name.to_owned(), value.clone())].into();
        let publication = Publication {
            origin: table.origin.clone(),
            columns: columns.collect(),
            last_column_id: table.last_column_id,
            base,
            files,
            deletes,
            rights,
            moves_main,
            retention: self.retention().copied(),
            properties: entry(COLUMNS_PROPERTY, &table.columns_property),
            entries: entry(OPTIONS_PROPERTY, &table.options_property),
            swept: self.sweeps.version(number),
        };
        let stamp = self.stamp(&found, table, now_ms)?;
        Ok(found.commit(&publication, &stamp)?)
    }

    /// Combines the delete files of each data file that has too many, as the plan decided, into one new
    /// delete file. If this publication has written a delete file for the data file, the new file contains
    /// its deletes too, and replaces it in `deletes`. Returns the paths of the files of the previous
    /// publication that the table no longer needs.
    fn merge_deletes(
        &self,
        table: &TablePlan,
        deletes: &mut Vec<DataFile>,
    ) -> Result<Vec<String>, CommitFailure> {
        let leaving = table.rewrites.files.iter();
        let mut removed_files: Vec<String> = leaving
            .map(|&place| table.live[place].file.file_path.clone())
            .collect();
        let unique = format!("{}-merged", self.run);
        let names = (&table.name[..], table.version + 1, &unique[..]);
        for &place in &table.rewrites.deletes {
            let live = &table.live[place];
            let before = live.deletes.iter();
            removed_files.extend(before.map(|of| of.file.file_path.clone()));
            let is_own = |file: &mut DataFile| {
                file.referenced_data_file.as_ref() == Some(&live.file.file_path)
            };
            let own = deletes.extract_if(.., is_own).map(|file| DeleteFile {
                file,
                sequence_number: live.sequence_number,
            });
            let all = LiveFile {
                deletes: live.deletes.iter().cloned().chain(own).collect(),
                ..live.clone()
            };
            // The deletes of each data file are written before those of the next one are read,
            // because those of all data files together may take much memory.
            let mut merged = PositionalDeletes::default();
            merged.add_deleted(&self.target, place, &all)?;
            deletes.extend(merged.write_of(place, &self.target, &table.live, names)?);
        }
        Ok(removed_files)
    }

    /// Enters the section in which the completion record is read and written anew. Until the result
    /// is dropped, no other publication of the snapshot changes the record.
    fn enter_section(&self) -> Section {
        section::enter(self.records.whole_location(&self.target))
    }

    /// Removes the completion record, unless it stays true while the publication commits the tables
    /// that are not published yet. It stays true if it is of the snapshot `origin`, and each of these tables
    /// that it has is published by now: another publisher of the snapshot has ended meanwhile. Returns the removed
    /// record if it is of this snapshot.
    fn forget_whole(&self, origin: &Origin) -> Result<Option<WholeRecord>, CommitFailure> {
        let target = &self.target;
        let left = || self.tables.iter().filter(|table| !table.is_published);
        if left().next().is_none() {
            return Ok(None);
        }
        let _section = self.enter_section();
        let before = self.records.whole(target).map_err(CommitError::from)?;
        let before = before.filter(|before| before.is_of(origin));
        if let Some(before) = &before {
            let recorded = left().filter(|table| before.has(&table.name));
            let are_published = recorded.map(|table| {
                let (found, rights) = self.open_table(table)?;
                self.is_published((&found, &rights), table)
            });
            let are_published = are_published.collect::<Result<Vec<bool>, CommitFailure>>()?;
            if !are_published.contains(&false) {
                return Ok(None);
            }
        }
        (self.records.forget_whole(target)).map_err(CommitError::from)?;
        Ok(before)
    }

    /// Writes the completion record of the publication. The record includes the tables of the
    /// present record of the same snapshot, which another publication may have written meanwhile.
    /// It also includes the tables of `forgotten`, the record that this publication has removed.
    /// Returns for each Iceberg table whether this publication is the newest one, which readers see
    /// if they name no tag.
    ///
    /// # Errors
    /// If another publication has removed or moved the tag of a table meanwhile, or if a request to the
    /// target fails.
    fn record_whole(
        &self,
        origin: &Origin,
        forgotten: Option<WholeRecord>,
    ) -> Result<Vec<bool>, TaskError> {
        let target = &self.target;
        let (mut places, mut newest) = (Vec::new(), Vec::new());
        // Before the tags are looked for: a publication that removes one of them enters this section
        // afterwards, and removes the record that is written here.
        let _section = self.enter_section();
        for table in &self.tables {
            let found = self.open_tagged(table);
            let (found, rights) = found.map_err(TaskError::failed)?;
            let is_there = found.is_published(&table.origin, &rights);
            if !is_there.map_err(TaskError::failed)? {
                return Err(TaskError::failed(format!(
                    "{}: another publication has removed or moved the tag {} meanwhile; publish again",
                    table.name, table.origin.snapshot
                )));
            }
            places.push(found.metadata_place().map(str::to_owned));
            newest.push(found.origin().as_ref() == Some(&table.origin));
        }
        let present = self.records.whole(target).map_err(TaskError::failed)?;
        let present = present.filter(|present| present.is_of(origin));
        // If the record has all tables, an earlier start or another publication of the same tables
        // has counted the empty values of these rows.
        let are_counted = present.as_ref().is_some_and(|present| {
            let mut tables = self.tables.iter();
            tables.all(|table| present.has(&table.name))
        });
        let mut whole = present.unwrap_or_else(|| WholeRecord::new(origin));
        if let Some(forgotten) = forgotten {
            let forgotten = self.still_tagged(forgotten, &origin.snapshot);
            whole.add_earlier(forgotten.map_err(TaskError::failed)?);
        }
        for ((number, table), metadata) in (0..).zip(&self.tables).zip(places) {
            if table.is_published && whole.has(&table.name) {
                continue;
            }
            let is_new = !table.is_published;
            whole.set(WholeTable {
                table: table.name.clone(),
                metadata,
                is_whole: is_new.then(|| !table.is_of_changes()),
                rows: is_new.then(|| self.counts(number)),
            });
        }
        if !are_counted {
            let done = lock(&self.done);
            let tasks = done.values().map(|task| task.empty_values);
            whole.empty_values_as_null += tasks.sum::<u64>();
        }
        let written = self.records.replace_whole(target, &whole);
        written.map_err(TaskError::failed)?;
        Ok(newest)
    }

    /// Returns a removed record without the tables that have no tag `tag` any more: while the record was
    /// away, another publication may have removed the tag.
    fn still_tagged(&self, mut record: WholeRecord, tag: &str) -> Result<WholeRecord, CommitError> {
        let mut untagged = Vec::new();
        for table in record.tables() {
            if !PublishedTable::open(&self.target, table)?.has_tag(tag) {
                untagged.push(table.to_owned());
            }
        }
        record.remove(&untagged);
        Ok(record)
    }

    /// Returns how many rows all tasks together have added, replaced, rewritten and removed in the table
    /// with the number `number`.
    fn counts(&self, number: u32) -> RowCounts {
        let mut all = RowCounts::default();
        for task in lock(&self.done).values() {
            let counts = task.counts.iter().filter(|(of, _)| *of == number);
            counts.for_each(|(_, counts)| all += *counts);
        }
        all
    }

    /// Returns a line for the report about the rows that were written for a table.
    fn written(&self, number: u32, table: &TablePlan) -> String {
        let label = table.label();
        if table.is_published {
            return format!("{label}: published before");
        }
        let counts = self.counts(number);
        match &table.extent {
            Extent::Whole(why) => {
                let rows = counted(counts.added, "row");
                format!("{label}: {rows} in full, because {why}")
            }
            Extent::Changes => format!("{label}: {counts}"),
        }
    }

    /// Replaces the pins of the tables (the snapshots that are kept for the next publication) by
    /// pins of the published snapshot, so that the next publication can compare with it. A failure
    /// does not fail this publication: the next one then writes all rows, which takes longer.
    /// `newest` has for each Iceberg table whether this publication is the newest one. The pin of a
    /// stored table stays as it is if one of its Iceberg tables has a newer publication. `is_new`
    /// is false if all tables were committed before this run; a missing pin is then not reported.
    fn renew_pins(&self, newest: &[bool], is_new: bool) {
        for (name, numbers) in &self.stored {
            let published = &self.tables[numbers.start as usize].origin;
            if !numbers.clone().all(|number| newest[number as usize]) {
                // A pin that stays goes by itself when its time is over.
                let _ = self.pins.end(name, published.sequence_number);
                continue;
            }
            let why = match self.pins.renew(name, published.sequence_number) {
                Ok(true) => continue,
                Ok(false) if !is_new || self.pins.max == PinMax::Nothing => continue,
                Ok(false) => {
                    "its time was over, space got short, rows of the table were lost, or another \
                     publication of it was at work"
                        .to_owned()
                }
                Err(error) => error.to_string(),
            };
            self.commits.note([format!(
                "{name}: the next publication will write all rows, because what was published is not \
                 kept: {why}"
            )]);
        }
    }
}

/// Returns those of the files that belong to the table with the number `number`.
fn of_table(files: &[(u32, DataFile)], number: u32) -> impl Iterator<Item = DataFile> {
    let files = files.iter().filter(move |(of, _)| *of == number);
    files.map(|(_, file)| file.clone())
}

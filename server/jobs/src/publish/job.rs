//! The job of a publication: its plan, the state that its tasks share, and the errors of rows that cannot
//! be published.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_model::schema::SchemaError;
use ebb_publish::commit::{CommitError, Origin, PublishedTable, Retention};
use ebb_publish::data_file::ROW_GROUP_BYTES_MAX;
use ebb_publish::iceberg::manifest::DataFile;
use ebb_publish::target::Target;
use ebb_publish::types::{OnEmpty, ValueError};
use ebb_scheduler::runtime::{Input, JobSpec, Split, TaskError};
use ebb_tables::names::TableName;
use ebb_tables::{CatalogError, schema_at};
use serde_json::json;

use super::epochs::Epochs;
use super::input::{Differing, PendingInput};
use super::left_out::LeftOut;
use super::output::PublicationOutput;
use super::pins::TargetPins;
use super::plan::{StoredColumns, TablePlan, check_names_beside, check_tables};
use super::planner::{Planner, agree};
use super::previous::Previous;
use super::records::{Records, StoredPlan, TaskRecord, data_files};
use super::sweeps::Sweeps;
use super::whole::WholeRecord;
use super::{CHANGES_JOB, CatalogUrl, KeepRule, PublishRequest};
use crate::SpillPlace;
use crate::application::PublicationSite;
use crate::error::JobError;
use crate::history::CommitRecord;
use crate::inputs::{Cells, CellsInput, read_time_s};
use crate::request::PublishTarget;

/// The least limit on the size of a row group, in bytes, also for tasks with little memory. Smaller
/// groups would make long footers: the metadata of a group takes about a KiB for each column, in the file
/// and in its readers.
const ROW_GROUP_BYTES_MIN: usize = 1 << 20;

/// Returns the job that publishes the tables of `site`, each in at most `splits` tasks.
pub(super) fn spec(
    name: &str,
    options: &PublishRequest,
    site: &PublicationSite<'_>,
    splits: u32,
) -> Result<JobSpec, JobError> {
    let target = open_target(&site.target, options.catalog.as_ref())?;
    spec_in(target, name, options, site, splits)
}

/// Returns the same job as [`spec`], for a target that is already open, with its catalog if it has one.
pub(super) fn spec_in(
    target: Target,
    name: &str,
    options: &PublishRequest,
    site: &PublicationSite<'_>,
    splits: u32,
) -> Result<JobSpec, JobError> {
    let (job, cells) = PublicationJob::open(target, options, site, splits as usize)?;
    let name = if job.is_of_changes() {
        CHANGES_JOB
    } else {
        name
    };
    let job = Arc::new(job);
    let input = PendingInput {
        cells,
        job: Arc::clone(&job),
    };
    let output = Arc::new(PublicationOutput(job));
    Ok(JobSpec::new(
        name,
        Arc::new(input),
        Arc::new(Differing),
        output,
    ))
}

/// The state of a publication, shared by its input and its output.
pub(super) struct PublicationJob {
    pub(super) target: Target,
    /// The place of the target's files, with the disk space that they may take; `None` for a bucket.
    pub(super) place: Option<SpillPlace>,
    pub(super) records: Records,
    pub(super) plan: StoredPlan,
    /// True if the plan is from an earlier start of the job, and was found in the target.
    is_resumed: bool,
    /// The plan of each Iceberg table; the index is the number of the table.
    pub(super) tables: Vec<TablePlan>,
    /// The newest publication of each Iceberg table, shared by the tasks.
    pub(super) previous: Vec<Previous>,
    /// The tables of the store. The rows of each go to the Iceberg tables with the numbers in the range. It is
    /// empty for tables that are left out because their schemas cannot be read; these come last.
    pub(super) stored: Vec<(TableName, Range<u32>)>,
    /// The numbers, in the plan, of the tasks that this start runs, ascending. Finished tasks, and tasks of
    /// tables that are already published, are not among them.
    pub(super) pending: Vec<u32>,
    pub(super) on_empty: OnEmpty,
    /// The memory for a row group, in bytes: half of a task's memory, but at least [`ROW_GROUP_BYTES_MIN`]
    /// and at most [`ROW_GROUP_BYTES_MAX`]. The other half is for a batch of rows that are not encoded yet (or,
    /// with many columns, for room in the arrays of the row group), for dictionaries, and for the positions of
    /// deleted rows. A task has one row group for each table that it writes, and mostly it writes one table.
    pub(super) row_group_bytes: usize,
    /// True if a tag that has the snapshot's name, but names another Iceberg snapshot, is moved to the new
    /// one. If false, such a tag is an error.
    pub(super) replaces_tag: bool,
    /// True if tables of another database, or of another copy of this one, are taken over. If false, such a
    /// table is an error.
    pub(super) takes_over: bool,
    /// The rule by which the commit of each table removes old publications; `None` if it keeps all of them.
    pub(super) retention: Option<Retention>,
    /// A random id of this start, which makes the names of the files that it writes unique.
    pub(super) run: String,
    /// True once the target was prepared for the first task.
    has_begun: Mutex<bool>,
    pub(super) sweeps: Sweeps,
    pub(super) left_out: LeftOut,
    /// The text of the object in the target that names refused rows: a line for each.
    refused_rows: Mutex<String>,
    /// The records of the finished tasks, by the numbers of the tasks. Tasks that finished in
    /// earlier starts of the job are among them.
    pub(super) done: Mutex<BTreeMap<u32, TaskRecord>>,
    pub(super) commits: CommitRecord,
    /// The snapshot that is published, as `KEYSPACE@SNAPSHOT`.
    pub(super) label: String,
    snapshot: String,
    pub(super) pins: TargetPins,
    pub(super) epochs: Epochs,
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn unique_id() -> String {
    format!("{:016x}", rand::random::<u64>())
}

impl PublicationJob {
    /// Plans the publication, and returns the job and the input of its tasks. Writes nothing.
    fn open(
        target: Target,
        options: &PublishRequest,
        site: &PublicationSite<'_>,
        splits: usize,
    ) -> Result<(Self, CellsInput), JobError> {
        let pins = TargetPins {
            db: site.db.clone(),
            location: target.url("").trim_end_matches('/').to_owned(),
            max: options.pin_max.unwrap_or_default(),
        };
        let epochs = Epochs {
            db: pins.db.clone(),
            location: pins.location.clone(),
        };
        let database_id = site.db.id();
        let mut tables: Vec<TablePlan> = Vec::new();
        let mut cells = CellsInput::default();
        let (mut goes_to, mut unreadable) = (Vec::new(), Vec::new());
        for &(name, table) in &site.tables {
            let first = tables.len() as u32;
            let schema = match schema_at(table, &name.to_string()) {
                Err(error @ CatalogError::Schema(SchemaError::Unreadable(_))) => {
                    unreadable.push((name, error));
                    continue;
                }
                schema => schema?.map(Arc::new),
            };
            // The snapshot that was published last, to find the changed rows by a comparison.
            let pinned = pins.open(name)?;
            let planner = Planner {
                target: &target,
                options,
                epochs: &epochs,
                pinned: pinned
                    .as_ref()
                    .map(|pinned| (pinned.seq().0, read_time_s(pinned))),
            };
            let origin = |table_id: String| Origin {
                database_id: database_id.clone(),
                table_id,
                snapshot: site.snapshot.to_owned(),
                sequence_number: table.seq().0,
                read_time_s: read_time_s(table),
            };
            let rows_name = format!("{}/{}", name.keyspace, name.table);
            match schema {
                None => {
                    let id = format!("table {}", table.number());
                    let columns = StoredColumns::plain(options.text);
                    tables.push(planner.plan(rows_name, origin(id), columns)?);
                    let older = agree(table, pinned, &mut tables[first as usize..])?;
                    cells.add_plain(table.clone(), older, splits, first);
                }
                Some(schema) => {
                    let statics_name = format!("{rows_name}_static");
                    let statics_origin = origin(format!("{} static", schema.id()));
                    let columns = StoredColumns::of_cql(&schema, false);
                    let rows_origin = origin(schema.id().to_string());
                    let rows = planner.plan(rows_name, rows_origin, columns)?;
                    // Static columns are stored once for each partition, so they have an Iceberg table
                    // of their own. After the last of them is dropped, that table is published without
                    // rows: otherwise its readers would still find the rows of the publication before.
                    let has_statics = schema.has_static_columns();
                    let is_with_statics = has_statics
                        || planner.empties_statics(&rows, &statics_name, &statics_origin)?;
                    tables.push(rows);
                    if is_with_statics {
                        let columns = StoredColumns::of_cql(&schema, true);
                        tables.push(planner.plan(statics_name, statics_origin, columns)?);
                    }
                    let statics_to = has_statics.then_some(first + 1);
                    let older = agree(table, pinned, &mut tables[first as usize..])?;
                    cells.add_cql(table.clone(), older, schema, splits, (first, statics_to));
                }
            }
            goes_to.push((name.clone(), first..tables.len() as u32));
        }
        let left_out = LeftOut::default();
        for (name, error) in unreadable {
            if tables.is_empty() {
                return Err(error.into());
            }
            // After the other tables, whose indexes are those of the tables of `cells`. Without its schema, the
            // table has no plan.
            left_out.add(goes_to.len(), TaskError::fatal(error));
            let end = tables.len() as u32;
            goes_to.push((name.clone(), end..end));
        }
        let keyspace = site
            .tables
            .first()
            .map_or("", |(name, _)| &name.keyspace[..]);
        check_tables(keyspace, &tables)?;
        check_tables_beside(&target, keyspace, &tables)?;
        // Each table was opened by the name of the snapshot. If the snapshot was deleted and created
        // anew meanwhile, the tables are of different commits.
        let mut commits = site.tables.iter().map(|(_, table)| table.seq());
        let first = commits.next();
        if commits.any(|commit| Some(commit) != first) {
            return Err(JobError::senseless(format!(
                "snapshot {} was created anew at this moment; publish again",
                site.snapshot
            )));
        }

        let records = Records::new(keyspace, site.snapshot);
        // The origin of the first table stands for all: by the check above, they are of the same commit.
        let of = tables.first().map(|table| &table.origin);
        // Includes the options, so that a start with other options does not continue the stored plan.
        let origin = json!({
            "database_id": database_id,
            "sequence_number": of.map(|origin| origin.sequence_number),
            "read_time_s": of.map(|origin| origin.read_time_s),
            "options": options,
        });
        let stored = records.plans(&target).map_err(TaskError::failed)?;
        let whole = records.whole(&target).map_err(TaskError::failed)?;
        if !options.take_over {
            let place = target.url(records.folder());
            check_records(&place, &database_id, &stored, whole.as_ref())?;
        }
        // An earlier start of the same publication may have left its plan. The files of its tasks fit
        // only the splits of that plan, so its other tasks are done as it planned them. The plans
        // come from the target, where others may have changed them. The publication would lack the
        // rows of a missing split, and those between two splits, without an error.
        let stored = stored.into_iter().find(|stored| {
            stored.origin == origin && stored.is_of(&tables) && cells.is_cut_into(&stored.splits)
        });
        let is_resumed = stored.is_some();
        let mut done = BTreeMap::new();
        let plan = match stored {
            Some(plan) => {
                done = done_tasks(&target, &records, &plan, &tables)?;
                plan
            }
            None => StoredPlan {
                id: unique_id(),
                origin,
                tables: tables.iter().map(TablePlan::to_json).collect(),
                splits: cells.splits()?,
            },
        };
        // An earlier start may have committed some of the tables already.
        let is_needed = |split: &Split| {
            let goes_to = CellsInput::table_of(split).and_then(|number| goes_to.get(number));
            // The task of a split of an unknown table fails: without the task, rows could be missing.
            goes_to.is_none_or(|(_, numbers)| {
                let mut numbers = numbers.clone();
                numbers.any(|number| !tables[number as usize].is_published)
            })
        };
        let numbered = (0..).zip(&plan.splits);
        let is_left =
            |&(number, split): &(u32, &Split)| !done.contains_key(&number) && is_needed(split);
        let pending = numbered.filter(is_left);
        let pending: Vec<u32> = pending.map(|(number, _)| number).collect();
        let job = Self {
            previous: tables.iter().map(|_| Previous::default()).collect(),
            target,
            place: site.place.clone(),
            records,
            plan,
            is_resumed,
            tables,
            stored: goes_to,
            pending,
            on_empty: if options.empty_as_null {
                OnEmpty::Null
            } else {
                OnEmpty::Refuse
            },
            row_group_bytes: (site.task_memory_bytes / 2)
                .clamp(ROW_GROUP_BYTES_MIN, ROW_GROUP_BYTES_MAX),
            replaces_tag: options.replace,
            takes_over: options.take_over,
            retention: options.keep.map(KeepRule::retention),
            run: unique_id(),
            has_begun: Mutex::new(false),
            sweeps: Sweeps::default(),
            left_out,
            refused_rows: Mutex::default(),
            done: Mutex::new(done),
            commits: site.commits.clone(),
            label: format!("{keyspace}@{}", site.snapshot),
            snapshot: site.snapshot.to_owned(),
            pins,
            epochs,
        };
        Ok((job, cells))
    }

    /// Returns true if some tables are still to be published, and only changed rows are written for each
    /// of them.
    fn is_of_changes(&self) -> bool {
        let mut left = self.tables.iter().filter(|table| !table.is_published);
        left.clone().next().is_some() && left.all(TablePlan::is_of_changes)
    }

    /// Returns the Iceberg tables, with their numbers, that receive the rows of a table of the store.
    /// `stored` is the index of that table.
    pub(super) fn tables_of(&self, stored: usize) -> impl Iterator<Item = (u32, &TablePlan)> {
        let goes_to = self.stored.get(stored);
        let numbers = goes_to.map_or(0..0, |(_, numbers)| numbers.clone());
        numbers.map(move |number| (number, &self.tables[number as usize]))
    }

    /// Returns the Iceberg tables with these numbers.
    pub(super) fn of_numbers(&self, numbers: &Range<u32>) -> &[TablePlan] {
        &self.tables[numbers.start as usize..numbers.end as usize]
    }

    /// Prepares the target before the first task. After a success, later calls do nothing. Checks
    /// that the target lets only one of two publishers commit.
    ///
    /// If an earlier start has stored the plan, removes the record of the row for which that start
    /// failed. If the plan is new, pins the snapshot for each table of the store, and then stores
    /// the plan. A table of the store keeps its present pin if an earlier start has published its
    /// rows or its static columns.
    pub(super) fn begin(&self) -> Result<(), TaskError> {
        let target = &self.target;
        let mut has_begun = lock(&self.has_begun);
        if *has_begun {
            return Ok(());
        }
        target
            .check_creates_once(&self.run)
            .map_err(TaskError::failed)?;
        let begun = if self.is_resumed {
            self.records.forget_refused(target, &self.plan.id)
        } else {
            for (name, numbers) in &self.stored {
                let mut tables = self.of_numbers(numbers).iter();
                // If an earlier start has read the table, its pin counts.
                if !numbers.is_empty() && !tables.any(|table| table.is_published) {
                    // A failure shows at the end, when the pin is renewed.
                    let _ = self.pins.begin(name, &self.snapshot);
                }
            }
            self.records.begin(target, &self.plan)
        };
        begun.map_err(TaskError::failed)?;
        *has_begun = true;
        Ok(())
    }

    /// Releases the pin of the stored table whose rows go to the Iceberg table number `number`. The
    /// caller has found that the pinned snapshot does not have the same rows as the files in the
    /// target. Without the pin, the next publication writes all rows.
    pub(super) fn forget_pin(&self, number: u32) {
        let mut stored = self.stored.iter();
        if let Some((name, _)) = stored.find(|(_, numbers)| numbers.contains(&number)) {
            // A pin that stays makes the next publication fail in the same way.
            let _ = self.pins.forget(name);
        }
    }

    /// Returns the error of a row with a value that Iceberg cannot represent. The error names table and
    /// column; a file in the target names the row and the value.
    pub(super) fn refused(
        &self,
        table: &TablePlan,
        cells: &[u8],
        (column, error): (&str, &ValueError),
    ) -> TaskError {
        let key = table
            .columns
            .iter()
            .zip(Cells(cells))
            .take(table.key_columns);
        let key = key.map(|(column, cell)| {
            let literal = cell.map_or_else(|| "null".to_owned(), |cell| column.ty.literal(cell));
            format!("{} = {literal}", column.field.name)
        });
        let key = key.collect::<Vec<_>>().join(" AND ");
        let label = table.label();
        let text = format!("table {label}, row {key}, column {column}: {error}\n");
        // Rows of several tables may be refused. The lock is held meanwhile, so that the last text to be written has
        // all of them.
        let mut rows = lock(&self.refused_rows);
        rows.push_str(&text);
        let refused = (self.records).refuse(&self.target, &self.plan.id, rows.clone());
        drop(rows);
        let row = match refused {
            Ok(url) => format!("{url} names the row"),
            Err(error) => format!("the row could not be named: {error}"),
        };
        let reason = error.reason();
        TaskError::invalid(format!("table {label}, column {column}: {reason}; {row}"))
    }
}

/// Opens the target, with its catalog if it has one. Nothing is written or sent.
fn open_target(target: &PublishTarget, catalog: Option<&CatalogUrl>) -> Result<Target, JobError> {
    let opened = match target {
        PublishTarget::Folder(path) => Target::folder(path),
        PublishTarget::Bucket { name, prefix } => Target::bucket(name, prefix),
    };
    let opened = match catalog {
        None => opened,
        Some(catalog) => opened.and_then(|target| target.with_catalog(&catalog.to_string())),
    };
    opened.map_err(JobError::senseless)
}

/// Checks that no new table has a name that differs only in case from that of a table in the target.
fn check_tables_beside(
    target: &Target,
    keyspace: &str,
    tables: &[TablePlan],
) -> Result<(), JobError> {
    if tables.iter().all(|table| table.version > 0) {
        return Ok(());
    }
    let folders = target.folders(keyspace).map_err(TaskError::failed)?;
    let has_table = |name: &str| -> Result<bool, JobError> {
        match PublishedTable::open(target, name) {
            Ok(table) => Ok(table.version() > 0),
            // Another engine wrote it, or another place commits it.
            Err(CommitError::Refused { .. } | CommitError::Metadata { .. }) => Ok(true),
            Err(error) => Err(TaskError::failed(error).into()),
        }
    };
    check_names_beside(tables, &folders, has_table)
}

/// Checks that the records of the snapshot in the target, the plans `stored` and the completion record `whole`, are
/// of the database with the id `database_id`. `place` is their location.
///
/// # Errors
/// If they are of another database: two databases would remove the records of each other.
fn check_records(
    place: &str,
    database_id: &str,
    stored: &[StoredPlan],
    whole: Option<&WholeRecord>,
) -> Result<(), JobError> {
    let of_plans = stored.iter().filter_map(StoredPlan::database_id);
    let mut owners = of_plans.chain(whole.map(WholeRecord::database_id));
    match owners.find(|owner| *owner != database_id) {
        None => Ok(()),
        Some(owner) => Err(JobError::senseless(format!(
            "{place}: the database {owner} has published a snapshot of this name, and this is {database_id}; \
             choose another target or another name, or publish with --take-over if this database was restored \
             or repaired from that one"
        ))),
    }
}

/// Returns the records of the tasks that an earlier start has finished. A task is left out if a file that it
/// wrote is missing, unless the file's table is already published.
fn done_tasks(
    target: &Target,
    records: &Records,
    plan: &StoredPlan,
    tables: &[TablePlan],
) -> Result<BTreeMap<u32, TaskRecord>, TaskError> {
    let there = tables.iter().map(|table| {
        if table.is_published {
            Ok(None)
        } else {
            data_files(target, &table.name).map(Some)
        }
    });
    let there = there.collect::<Result<Vec<_>, _>>();
    let there = there.map_err(TaskError::failed)?;
    let is_there = |(number, file): &(u32, DataFile)| match there.get(*number as usize) {
        Some(Some(there)) => there.contains(&file.file_path),
        Some(None) => true,
        None => false,
    };
    records
        .done(target, plan, is_there)
        .map_err(TaskError::failed)
}

//! The output of a request, opened.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ebb_scheduler::runtime::{Output, VecOutput};
use ebb_storage::NAME_BYTES_MAX;
use ebb_tables::lookup;
use ebb_tables::names::TableName;
use ebb_tables::{Catalog, CatalogError, is_cql_keyspace, is_cql_table};

use super::site::Site;
use crate::application::Destination;
use crate::error::{JobError, of_table};
use crate::history::{CommitRecord, JobRecord, RecordedOutput, SYSTEM_KEYSPACE};
use crate::outside::{check_among_spills, check_outside};
use crate::records::RecordFormat;
use crate::request::{JobRequest, OutputPlace, Paths};
use crate::restart::FoundOutput;
use crate::{
    CqlOutput, FilesOutput, FilesTarget, LimitedOutput, RowWriter, TableOutput, has_rows_written_at,
};

/// The destination of a job's rows, before the application has decided on their format.
pub(super) enum OpenOutput<'a> {
    /// The output that the request names, such as a table or a folder.
    Rows {
        request: &'a JobRequest,
        paths: &'a Paths,
        site: &'a Site,
        commits: CommitRecord,
    },
    /// The process that started this one to run tasks: rows are sent there.
    Parent,
}

impl Destination for OpenOutput<'_> {
    fn output(&self, rows: Arc<RecordFormat>) -> Result<Arc<dyn Output>, JobError> {
        let Self::Rows {
            request,
            paths,
            site,
            commits,
        } = self
        else {
            return Ok(Arc::new(VecOutput::new()));
        };
        let commits = commits.clone();
        // Each of these outputs records its own commits.
        let output: Arc<dyn Output> = match files_target(request, paths) {
            None => match Place::of(request, site)? {
                Place::Plain(table) => {
                    let table = table.recorded_by(commits.clone());
                    Arc::new(RecordedOutput::new(Arc::new(table), commits))
                }
                Place::Cql(catalog, TableName { keyspace, table }) => {
                    let name = (&keyspace[..], &table[..]);
                    let output = CqlOutput::new(catalog, name, rows, site.spills.clone(), commits)?;
                    Arc::new(output)
                }
            },
            Some(files) => {
                let writer = RowWriter::new(request.output.row_format(), rows)
                    .naming_columns(request.output.has_header());
                let place = match files.parent() {
                    Some(folder) => site.place_in(folder),
                    None => site.spills.clone(),
                };
                let output = FilesOutput::new(files, writer, place);
                Arc::new(output.recorded_by(commits))
            }
        };
        let limited: Arc<dyn Output> = match request.output.limit {
            None => output,
            Some(rows) => Arc::new(LimitedOutput::new(output, rows, site.spills.clone())),
        };
        Ok(limited)
    }

    fn output_of_any_keys(&self, rows: Arc<RecordFormat>) -> Result<Arc<dyn Output>, JobError> {
        if let Self::Rows { request, site, .. } = self
            && let OutputPlace::Table(name) = &request.output.to
            && let Place::Plain(_) = Place::of(request, site)?
        {
            return Err(JobError::senseless(format!(
                "several rows of this job may have the same key, and table {name} would keep only \
                 one of them: write to a file"
            )));
        }
        self.output(rows)
    }
}

/// Checks that the output can be made, if it is a file or a folder. It must lie outside of `data`, the
/// directory of the database. A spool (rows that a client prints on its terminal) must lie in the database's
/// folder of temporary files, so that the database removes it if the client is killed.
pub(super) fn check(
    request: &JobRequest,
    paths: &Paths,
    data: Option<&Path>,
) -> Result<(), JobError> {
    match (&request.output.to, data, &paths.output) {
        (OutputPlace::Spool(_), Some(data), Some(path)) => check_among_spills(data, path)?,
        (OutputPlace::Spool(path), ..) => {
            return Err(JobError::senseless(format_args!(
                "{}: rows for the terminal of a client are written among the spills of a database, and this \
                 node has no database: choose a file as the output",
                path.display()
            )));
        }
        (_, Some(data), Some(path)) => check_outside(data, path)?,
        _ => {}
    }
    match files_target(request, paths) {
        Some(files) => Ok(files.check()?),
        None => Ok(()),
    }
}

/// Returns what exists in the place of the output of `request`, the request of the job `record`. A
/// file or folder is the job's own if it has the identity that the job recorded. Rows count only in
/// the table whose number the job recorded, because another table may have its name by now. In a
/// CQL table only rows written at the recorded timestamp count. The result for Iceberg tables is
/// always [`FoundOutput::Nothing`]: a publication that starts again skips the tables that it finds
/// published.
///
/// # Errors
/// When the file system or the store fails.
pub fn found_output(
    record: &JobRecord,
    request: &JobRequest,
    site: &Site,
) -> Result<FoundOutput, JobError> {
    if let Some(files) = files_target(request, &request.paths()) {
        let found = found_files(&files, record);
        return found.map_err(JobError::system("look for the output"));
    }
    if let OutputPlace::Iceberg(_) = &request.output.to {
        return Ok(FoundOutput::Nothing);
    }
    let has_rows = match (Place::of(request, site)?, record.written_us) {
        (Place::Plain(table), _) => table.number() == record.tables.output && table.has_rows()?,
        (Place::Cql(..), None) => false,
        (Place::Cql(catalog, name), Some(written_us)) => {
            let state = catalog.state();
            let found = state.table(&name.keyspace, &name.table);
            match found.filter(|table| Some(table.rows().number()) == record.tables.output) {
                Some(table) => {
                    let is_there = has_rows_written_at(catalog.db(), table, written_us);
                    is_there.map_err(of_table)?
                }
                None => false,
            }
        }
    };
    Ok(if has_rows {
        FoundOutput::Own
    } else {
        FoundOutput::Nothing
    })
}

/// Returns the number of the table that the last start of the job `record` wrote or created; `None`
/// if there is none, or if it is unknown. `request` is the request of the job.
///
/// If the process ended after the commit had created a plain table, and before the record had its
/// number, this is the number of the plain table that has the name now, if it has no rows. The job
/// has created this table: clients create plain tables only by jobs, and until the restart no other
/// job writes to the table ([`unsettled_writer`](crate::restart::unsettled_writer)). A table of CQL
/// does not count, because clients create those at any time.
///
/// # Errors
/// When the store fails.
pub fn last_output_table(
    record: &JobRecord,
    request: &JobRequest,
    site: &Site,
) -> Result<Option<u32>, JobError> {
    let is_into_table = matches!(request.output.to, OutputPlace::Table(_));
    if record.tables.output.is_some() || !record.commits || !is_into_table {
        return Ok(record.tables.output);
    }
    let Place::Plain(table) = Place::of(request, site)? else {
        return Ok(None);
    };
    let has_rows = table.has_rows()?;
    Ok(table.number().filter(|_| !has_rows))
}

fn found_files(files: &FilesTarget, record: &JobRecord) -> io::Result<FoundOutput> {
    if !files.exists()? {
        return Ok(FoundOutput::Nothing);
    }
    let is_own = record.written_file.is_some() && files.written()? == record.written_file;
    Ok(if is_own {
        FoundOutput::Own
    } else {
        FoundOutput::Unknown
    })
}

/// The table that an output is written to. Plain tables and tables of CQL are written in different
/// ways.
enum Place {
    /// A plain table of keys and values (one that was not created by CQL).
    Plain(TableOutput),
    /// A table of CQL, or a table to be created in a keyspace of CQL.
    Cql(Arc<Catalog>, TableName),
}

impl Place {
    fn of(request: &JobRequest, site: &Site) -> Result<Self, JobError> {
        let OutputPlace::Table(name) = &request.output.to else {
            unreachable!("callers have checked that it is a table");
        };
        if name.keyspace == SYSTEM_KEYSPACE {
            let text = format!("keyspace {SYSTEM_KEYSPACE} is ebb's own: write to another");
            return Err(JobError::senseless(text));
        }
        // The database would refuse the name, but only when the job has computed its rows.
        if name.table.len() > NAME_BYTES_MAX {
            let text = format!("the name of table {name} has more than {NAME_BYTES_MAX} bytes");
            return Err(JobError::senseless(text));
        }
        let named = || JobError::NoDatabase(request.output.to.to_string());
        let db = site.db.as_ref().ok_or_else(named)?;
        let keyspace = lookup::keyspace(db, &name.keyspace)?;
        // The output is bound to its table before the kind of the table is looked up. If a table of
        // CQL gets the name in between, no plain rows go into that one.
        let plain = TableOutput::new(db.clone(), keyspace, &name.table, site.spills.clone())?;
        let is_cql = is_cql_keyspace(db, &name.keyspace)?
            && plain.target()?.as_ref().is_none_or(is_cql_table);
        if is_cql {
            let catalog = site.catalog.of(db)?;
            let state = catalog.state();
            let table = Some(name.table.as_str());
            // The check comes now, and not when the job has computed its rows.
            if let Some(unreadable) = state.schema().unreadable(&name.keyspace, table) {
                return Err(CatalogError::from(unreadable).into());
            }
            return Ok(Self::Cql(catalog, name.clone()));
        }
        Ok(Self::Plain(plain))
    }
}

/// Returns the file, the folder or the terminal that the rows are written to; `None` if they go into a table
/// of the database or into Iceberg tables.
fn files_target(request: &JobRequest, paths: &Paths) -> Option<FilesTarget> {
    match (&request.output.to, paths.output.clone()) {
        (OutputPlace::File(_) | OutputPlace::Spool(_), path) => path.map(FilesTarget::File),
        (OutputPlace::Folder(_), path) => path.map(FilesTarget::Folder),
        (OutputPlace::Terminal, _) => Some(FilesTarget::Terminal),
        (OutputPlace::Table(_) | OutputPlace::Iceberg(_), _) => None,
    }
}

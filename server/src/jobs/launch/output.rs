//! The output of a request, opened.

use std::sync::Arc;

use ebb_scheduler::runtime::{Output, VecOutput};

use super::site::Site;
use crate::jobs::error::JobError;
use crate::jobs::history::{CommitRecord, RecordedOutput, SYSTEM_KEYSPACE};
use crate::jobs::records::RowSchema;
use crate::jobs::request::{JobRequest, OutputPlace, Paths};
use crate::jobs::{FilesOutput, FilesTarget, LimitedOutput, RowWriter, TableOutput};
use crate::lookup;
use crate::names::TableName;

/// Where the rows of a job go, until its application tells what they are.
pub(super) enum OpenOutput<'a> {
    /// To where its request says.
    Rows {
        request: &'a JobRequest,
        paths: &'a Paths,
        site: &'a Site,
        commits: CommitRecord,
    },
    /// In a process of its own, to the process that has the output.
    Parent,
}

impl OpenOutput<'_> {
    /// The output for rows as `rows` says, each of which has a key of its own.
    pub(super) fn of(&self, rows: Arc<dyn RowSchema>) -> Result<Arc<dyn Output>, JobError> {
        let Self::Rows {
            request,
            paths,
            site,
            commits,
        } = self
        else {
            return Ok(Arc::new(VecOutput::new()));
        };
        let mut output: Arc<dyn Output> = match files_target(request, paths) {
            None => Arc::new(table_output(request, site)?),
            Some(files) => {
                let rows = RowWriter::new(request.output.row_format(), rows);
                Arc::new(FilesOutput::new(files, rows, &site.spill_dir))
            }
        };
        if let Some(rows_max) = request.output.limit {
            output = Arc::new(LimitedOutput::new(output, rows_max, &site.spill_dir));
        }
        Ok(Arc::new(RecordedOutput::new(output, commits.clone())))
    }

    /// The same for rows of which several may have one key: no table, where one of them
    /// would be left.
    pub(super) fn of_any_keys(
        &self,
        rows: Arc<dyn RowSchema>,
    ) -> Result<Arc<dyn Output>, JobError> {
        if let Self::Rows { request, .. } = self
            && let OutputPlace::Table(name) = &request.output.to
        {
            return Err(JobError::senseless(format!(
                "several rows of this job may have the same key, and in table {name} one of \
                 them would be left: write to a file"
            )));
        }
        self.of(rows)
    }
}

/// Whether the output of `request` is there: a file or folder of the name, or rows in the
/// table.
///
/// # Errors
/// When the system or the store does not tell.
pub fn output_is_there(request: &JobRequest, site: &Site) -> Result<bool, JobError> {
    match files_target(request, &request.paths()) {
        Some(files) => files
            .exists()
            .map_err(JobError::system("look for the output")),
        None => Ok(table_output(request, site)?.has_rows()?),
    }
}

/// Where rows go, if not to a table.
fn files_target(request: &JobRequest, paths: &Paths) -> Option<FilesTarget> {
    match (&request.output.to, paths.output.clone()) {
        (OutputPlace::File(_), path) => path.map(FilesTarget::File),
        (OutputPlace::Folder(_), path) => path.map(FilesTarget::Folder),
        (OutputPlace::Terminal, _) => Some(FilesTarget::Terminal),
        (OutputPlace::Table(_), _) => None,
    }
}

fn table_output(request: &JobRequest, site: &Site) -> Result<TableOutput, JobError> {
    let OutputPlace::Table(TableName { keyspace, table }) = &request.output.to else {
        unreachable!("callers have checked that it is a table");
    };
    if keyspace == SYSTEM_KEYSPACE {
        let text = format!("keyspace {SYSTEM_KEYSPACE} is ebb's own: write to another");
        return Err(JobError::senseless(text));
    }
    let named = || JobError::NoDatabase(request.output.to.to_string());
    let db = site.db.as_ref().ok_or_else(named)?;
    let keyspace = lookup::keyspace(db, keyspace)?;
    Ok(TableOutput::new(
        db.clone(),
        keyspace,
        table,
        &site.spill_dir,
    ))
}

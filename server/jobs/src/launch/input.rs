//! The inputs of a request, opened.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use ebb_model::key::PARTITIONS_START;
use ebb_model::schema::SchemaError;
use ebb_scheduler::runtime::{Input, TaskError};
use ebb_storage::SnapshotTable;
use ebb_tables::names::end_of_prefix;
use ebb_tables::{CatalogError, lookup, schema_at};
use ebb_text::counts::counted;

use super::cql;
use super::site::Site;
use super::snapshot::JobSnapshot;
use super::{OpenedTable, TableCheck};
use crate::error::JobError;
use crate::history::OwnSnapshot;
use crate::records::{RecordFormat, ValueFormat};
use crate::request::{
    ApplicationRequest, CsvInput, GeneratedInput, InputRequest, JobRequest, KeySelection, Paths,
    TableInput, ValueKind,
};
use crate::{CqlInput, CqlText, FileKind, FilesInput, Generator, LenientCsvInput, SnapshotInput};

/// The size of a generated value in bytes; with its key, a record has 100 bytes.
const GENERATED_VALUE_BYTES: usize = 90;

/// An opened input of a job.
pub struct OpenInput {
    /// The records, as splits.
    pub input: Arc<dyn Input>,
    /// The format of the records.
    pub format: RecordFormat,
    /// The name of the input in reports.
    pub label: String,
    /// The snapshot that the input reads, if it reads a table.
    pub snapshot: Option<JobSnapshot>,
    /// The problems of the files that were left out: a sentence for each, which names the
    /// file.
    pub skipped: Vec<String>,
    /// The source of the records. A process that runs tasks opens the input again from this source.
    pub(super) place: OpenPlace,
}

/// The source of an input's records.
pub(super) enum OpenPlace {
    Table(SnapshotTable),
    /// A table whose values are CSV records, possibly with malformed quotes.
    LenientCsv(SnapshotTable),
    /// A CQL table, and the columns to read; `None` for all.
    Cql(SnapshotTable, Option<Vec<String>>),
    Files(FilesInput),
    Generator(Generator),
}

impl OpenInput {
    /// Returns the records and their format, which an application needs.
    pub(super) fn readable(&self) -> (Arc<dyn Input>, RecordFormat) {
        (Arc::clone(&self.input), self.format.clone())
    }

    /// Returns the table that the input reads; `None` for another input.
    pub(super) fn table(&self) -> Option<&SnapshotTable> {
        match &self.place {
            OpenPlace::Table(table) | OpenPlace::LenientCsv(table) | OpenPlace::Cql(table, _) => {
                Some(table)
            }
            OpenPlace::Files(_) | OpenPlace::Generator(_) => None,
        }
    }

    /// Returns the bytes of all rows of the table that the input reads, whatever range of its keys it reads, as
    /// the splits of a publication add them up; 0 for another input.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub(super) fn table_bytes(&self) -> Result<u64, TaskError> {
        let all_rows = match &self.place {
            OpenPlace::Table(table) | OpenPlace::LenientCsv(table) => {
                SnapshotInput::new(table.clone(), 1)
            }
            // The schema and the entries of indexes come before the partitions, and are not published.
            OpenPlace::Cql(table, _) => {
                SnapshotInput::new(table.clone(), 1).within(PARTITIONS_START.to_vec(), None)
            }
            OpenPlace::Files(_) | OpenPlace::Generator(_) => return Ok(0),
        };
        let splits = all_rows.splits()?;
        Ok(splits.iter().map(|split| split.bytes).sum())
    }

    fn of_files(
        (files, skipped): (FilesInput, Vec<TaskError>),
        names: &[String],
        paths: &[PathBuf],
    ) -> Result<Self, JobError> {
        let label = paths.iter().map(|path| path.display().to_string());
        Ok(Self {
            format: files.format(names).map_err(JobError::senseless)?,
            input: Arc::new(files.clone()),
            label: label.collect::<Vec<_>>().join(" "),
            snapshot: None,
            skipped: skipped.iter().map(ToString::to_string).collect(),
            place: OpenPlace::Files(files),
        })
    }
}

/// Opens the inputs of `request`, with the files at `paths`, and cuts each input into at most `splits`
/// splits. A table is read at the snapshot that the request names, else at its snapshot in `own`, which an
/// earlier start of the job made, else at a new one. `check` is called for each table before the table is read.
pub(super) fn open(
    request: &JobRequest,
    paths: &Paths,
    own: &[OwnSnapshot],
    site: &Site,
    splits: u32,
    check: &TableCheck<'_>,
) -> Result<Vec<OpenInput>, JobError> {
    let mut opened = Vec::new();
    for ((number, input), found) in (0..).zip(&request.inputs).zip(&paths.inputs) {
        let files = Files {
            found,
            splits: splits as usize,
        };
        opened.push(match input {
            InputRequest::Table(table) => {
                let name = || JobError::NoDatabase(table.table.to_string());
                let db = site.db.as_ref().ok_or_else(name)?;
                let own = own.iter().find(|own| own.input == number);
                let (snapshot, opened) = JobSnapshot::open(db, table, own)?;
                let rows = lookup::table_in(&opened, &table.table)?;
                check(&table.table, OpenedTable::Input(&rows))?;
                open_table(snapshot, rows, table, files.splits, &request.application)?
            }
            InputRequest::Text(text) => {
                let input = files.open(&text.paths, FileKind::Text, text.skip_bad)?;
                OpenInput::of_files(input, &[], &text.paths)?
            }
            InputRequest::Csv(csv) => files.open_csv(csv)?,
            InputRequest::JsonLines(json) => {
                let input = files.open(&json.paths, FileKind::JsonLines, json.skip_bad)?;
                OpenInput::of_files(input, &[], &json.paths)?
            }
            InputRequest::Generated(generated) => open_generator(generated, files.splits),
        });
    }
    Ok(opened)
}

/// The files of an input.
struct Files<'a> {
    /// The paths by which this process opens the files, in the order of the request.
    found: &'a [PathBuf],
    splits: usize,
}

impl Files<'_> {
    /// Opens the files. If the request skips bad files, also returns an error for each file that was
    /// left out.
    fn open(
        &self,
        asked: &[PathBuf],
        kind: FileKind,
        skip_bad: bool,
    ) -> Result<(FilesInput, Vec<TaskError>), JobError> {
        let asked = asked.iter().map(PathBuf::as_path);
        let paths: Vec<_> = self.found.iter().cloned().zip(asked).collect();
        if skip_bad {
            return Ok(FilesInput::open_good(&paths, kind, self.splits)?);
        }
        let input = FilesInput::open_as(&paths, kind, self.splits)?;
        Ok((input, Vec::new()))
    }

    fn open_csv(&self, csv: &CsvInput) -> Result<OpenInput, JobError> {
        let kind = FileKind::Csv {
            header: csv.header,
            delimiter: csv.delimiter_byte(),
            lenient_quotes: csv.lenient_quotes,
        };
        let input = self.open(&csv.paths, kind, csv.skip_bad)?;
        OpenInput::of_files(input, &csv.names, &csv.paths)
    }
}

fn open_generator(generated: &GeneratedInput, splits: usize) -> OpenInput {
    let GeneratedInput { records, seed } = *generated;
    let input = Generator::new(seed, records, GENERATED_VALUE_BYTES, splits);
    OpenInput {
        input: Arc::new(input),
        format: RecordFormat::text(),
        label: format!("{} drawn from seed {seed}", counted(records, "record")),
        snapshot: None,
        skipped: Vec::new(),
        place: OpenPlace::Generator(input),
    }
}

/// Opens `table`, a table in `snapshot`, as the input of a job. The rows of CQL tables have the columns of the
/// schema at the snapshot; those of other tables have the key and a value in the format of the request.
fn open_table(
    snapshot: JobSnapshot,
    table: SnapshotTable,
    request: &TableInput,
    splits: usize,
    application: &ApplicationRequest,
) -> Result<OpenInput, JobError> {
    let is_publication = matches!(application, ApplicationRequest::Publish(_));
    // Only tables that CQL made have a schema.
    let schema = match schema_at(&table, &request.table.to_string()) {
        // The publication reads the schema again, and leaves out this table if it can read another one.
        Err(CatalogError::Schema(SchemaError::Unreadable(_))) if is_publication => None,
        schema => schema?,
    };
    if let Some(schema) = schema {
        cql::check(request, &schema)?;
        if application.takes_whole_values() {
            cql::check_columns_of_values(request, &schema)?;
        }
        let wanted = cql::wanted(request, &schema, application.columns());
        let text = CqlText::new(Arc::new(schema), table.read_time_ms(), wanted.as_deref());
        return Ok(OpenInput {
            format: text.format(),
            input: Arc::new(CqlInput::new(
                SnapshotInput::new(table.clone(), splits),
                text,
            )),
            label: request.table.to_string(),
            snapshot: Some(snapshot),
            skipped: Vec::new(),
            place: OpenPlace::Cql(table, wanted),
        });
    }
    if !request.columns.is_empty() {
        let text = format!(
            "table {} was not made by CQL: there are no columns of it to choose from",
            request.table
        );
        return Err(JobError::senseless(text));
    }
    let input = SnapshotInput::new(table.clone(), splits);
    let input = match &request.keys {
        KeySelection::All => input,
        KeySelection::Range { from, to } => {
            // An empty end is none: the range then goes to the last key.
            let to = (!to.is_empty()).then(|| Bytes::from(to.clone()));
            input.within(from.clone(), to)
        }
        KeySelection::Prefix(prefix) => {
            let to = end_of_prefix(prefix.as_bytes()).map(Bytes::from);
            input.within(prefix.clone(), to)
        }
    };
    let values = match request.values {
        ValueKind::Text => Ok(ValueFormat::text()),
        ValueKind::Json => Ok(ValueFormat::Json),
        // Fields without names are referred to by their numbers.
        ValueKind::Csv if request.names.is_empty() => ValueFormat::csv(None),
        ValueKind::Csv => ValueFormat::csv(Some(&request.names)),
    };
    let format = values.and_then(RecordFormat::table);
    let place = if request.lenient_quotes {
        OpenPlace::LenientCsv(table)
    } else {
        OpenPlace::Table(table)
    };
    let input: Arc<dyn Input> = if request.lenient_quotes {
        Arc::new(LenientCsvInput::new(input))
    } else {
        Arc::new(input)
    };
    Ok(OpenInput {
        input,
        format: format.map_err(JobError::senseless)?,
        label: request.table.to_string(),
        snapshot: Some(snapshot),
        skipped: Vec::new(),
        place,
    })
}

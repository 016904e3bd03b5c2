//! The columns of CSV files, by their first records.

use ebb_scheduler::runtime::TaskError;
use ebb_text::csv::{CsvFields, problem_of_names};

use super::data_file::DataFile;
use super::records::FileRecord;
use super::{FileKind, FilesInput, PLACE_BYTES};
use crate::records::InvalidInput;

impl FilesInput {
    /// Returns the names of the columns of CSV files, by the first line of each file; numbers, from
    /// 1, if the files have no header. `None` if no file has columns.
    pub(super) fn header(&self) -> Result<Option<Vec<String>>, TaskError> {
        let mut first: Option<(&DataFile, Vec<String>)> = None;
        for file in &self.files {
            let Some(names) = self.columns_of(file)? else {
                continue;
            };
            match &first {
                Some((other, columns)) if *columns != names => {
                    let other = other.path.display().to_string();
                    return Err(other_columns(file, &names, &other, columns));
                }
                Some(_) => {}
                None if !self.kind.has_header() => return Ok(Some(names)),
                None => first = Some((file, names)),
            }
        }
        Ok(first.map(|(_, columns)| columns))
    }

    /// Returns the names of the columns of a file, or their numbers; `None` if it is no CSV
    /// file, or has no records.
    fn columns_of(&self, file: &DataFile) -> Result<Option<Vec<String>>, TaskError> {
        let FileKind::Csv { header, .. } = self.kind else {
            return Ok(None);
        };
        if file.bytes == 0 {
            return Ok(None);
        }
        let first = self.first_record(file, |record| {
            let mut fields = CsvFields::default();
            let parsed = fields.parse(record.text);
            parsed.map_err(|problem| file.invalid(record.line, &problem.to_string()))?;
            let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
            Ok((record.line, fields.iter().map(text).collect::<Vec<_>>()))
        })?;
        let Some((line, names)) = first else {
            return Ok(None);
        };
        if !header {
            let numbers = (1..=names.len()).map(|number| number.to_string());
            return Ok(Some(numbers.collect()));
        }
        match problem_of_names(&names) {
            Some(problem) => Err(file.invalid(line, &problem)),
            None => Ok(Some(names)),
        }
    }

    /// Reads a file to its end and returns its columns (see `columns_of`), after a check that they
    /// match those of the files before it.
    pub(super) fn check_whole(&self, file: &DataFile) -> Result<Option<Vec<String>>, TaskError> {
        let columns = self.columns_of(file)?;
        if let (Some(own), Some(others)) = (&columns, &self.columns)
            && own != others
        {
            return Err(other_columns(file, own, "the files before it", others));
        }
        self.read_whole(file)?;
        Ok(columns)
    }

    /// Returns the offset of the first record of a file, which is its header; 0 without records.
    pub(super) fn header_at(&self, file: &DataFile) -> Result<u64, TaskError> {
        let offset = self.first_record(file, |header| Ok(header.offset))?;
        Ok(offset.unwrap_or(0))
    }

    /// Reads the first record of a file and passes it to `take`; `None` if the file has no records.
    fn first_record<T>(
        &self,
        file: &DataFile,
        take: impl FnOnce(FileRecord<'_>) -> Result<T, TaskError>,
    ) -> Result<Option<T>, TaskError> {
        let whole = 0..file.bytes;
        let mut records = self.records(file, whole.clone(), PLACE_BYTES)?;
        let found = records.read();
        let found = found.map_err(|e| self.failed(file, &whole, e))?;
        found.map(take).transpose()
    }
}

fn other_columns(file: &DataFile, own: &[String], other: &str, columns: &[String]) -> TaskError {
    TaskError::invalid(InvalidInput(format!(
        "{} has other columns than {other}: {} against {}",
        file.path.display(),
        own.join(","),
        columns.join(",")
    )))
}

//! Checks of publication requests: the tables that they may name, and the allowed options.

use std::collections::BTreeSet;

use ebb_tables::names::SYSTEM_KEYSPACE;

use super::{
    ApplicationRequest, InputRequest, Isolation, JobRequest, OutputPlace, OutputRequest,
    RequestError, TableInput,
};

/// The name of the folder in a target that contains ebb's own records.
pub(crate) const RECORDS: &str = "_ebb";

impl JobRequest {
    /// Returns whether another engine could do the job over a publication: the job reads only tables that
    /// can be published, and is no publication itself.
    #[must_use]
    pub fn could_read_publication(&self) -> bool {
        let can_be_published = |input: &InputRequest| match input {
            InputRequest::Table(input) => !is_own(&input.table.keyspace),
            _ => false,
        };
        let is_publication = matches!(self.application, ApplicationRequest::Publish(_));
        !is_publication && !self.inputs.is_empty() && self.inputs.iter().all(can_be_published)
    }

    /// Checks a publication: its output must be Iceberg tables, and its inputs only tables, all of one
    /// keyspace at one named snapshot. Rejects other jobs with Iceberg tables as their output.
    pub(super) fn check_publication(&self) -> Result<(), RequestError> {
        let is_publish = matches!(self.application, ApplicationRequest::Publish(_));
        let is_iceberg = matches!(self.output.to, OutputPlace::Iceberg(_));
        match (is_publish, is_iceberg) {
            (false, false) => return Ok(()),
            (true, false) => {
                return senseless("publish writes Iceberg tables: let its output be to iceberg");
            }
            (false, true) => {
                return senseless(
                    "only the application publish writes Iceberg tables: choose another output",
                );
            }
            (true, true) => {}
        }
        if self.output != OutputRequest::from(self.output.to.clone()) {
            return senseless("publish has no format, limit or header: leave them out");
        }
        if self.isolation != Isolation::Thread {
            return senseless("publish runs on threads: leave out isolation");
        }
        let tables = self.inputs.iter().map(published);
        let tables: Vec<&TableInput> = tables.collect::<Result<_, _>>()?;
        let mut seen = BTreeSet::new();
        for table in &tables {
            let first = tables[0];
            if (&table.table.keyspace, &table.snapshot) != (&first.table.keyspace, &first.snapshot)
            {
                return senseless(
                    "all inputs of a publication must be tables of one keyspace at one snapshot",
                );
            }
            if !seen.insert(&table.table.table) {
                return senseless(format!("table {} is named twice", table.table));
            }
        }
        Ok(())
    }
}

/// Returns whether a keyspace may not be published: it is ebb's own, or has the name of ebb's folder in a
/// target.
fn is_own(keyspace: &str) -> bool {
    [SYSTEM_KEYSPACE, RECORDS].contains(&keyspace)
}

/// Returns the table that an input of a publication names; an error if it may not be published.
fn published(input: &InputRequest) -> Result<&TableInput, RequestError> {
    let InputRequest::Table(input) = input else {
        return senseless("publish reads tables, and neither files nor generated records");
    };
    let name = &input.table;
    let Some(snapshot) = &input.snapshot else {
        return senseless(format!(
            "publish reads a named snapshot: create one, and name it for table {name}"
        ));
    };
    let all_of_it = TableInput {
        snapshot: input.snapshot.clone(),
        ..TableInput::new(name.clone())
    };
    if *input != all_of_it {
        return senseless(format!(
            "publish writes all rows and columns of table {name}: leave out keys, values, names, \
             lenient_quotes and columns"
        ));
    }
    let keyspace = &name.keyspace;
    if is_own(keyspace) {
        return senseless(format!(
            "keyspace {keyspace} is ebb's own and is not published"
        ));
    }
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_plain = |name: &str| !name.is_empty() && name.chars().all(is_legal);
    let names = [keyspace, &name.table, snapshot];
    match names.into_iter().find(|name| !is_plain(name)) {
        None => Ok(input),
        Some(other) => senseless(format!(
            "{other:?} is a name with characters other than ASCII letters, digits, '_' and '-', \
             which not every reader of Iceberg finds in paths"
        )),
    }
}

fn senseless<T>(why: impl Into<String>) -> Result<T, RequestError> {
    Err(RequestError::Senseless(why.into()))
}

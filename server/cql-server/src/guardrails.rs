//! What statements may cost, as Cassandra 4.1 names it: its guardrails.
//!
//! All of them are off by default, as there. Superusers are not held to them.

use std::fmt;
use std::str::FromStr;

use ebb_cql::syntax::ast::{self, Statement, TableChange};
use ebb_tables::CatalogState;

use crate::error::{Result, invalid};

/// A value above which a client is warned, and one above which it is refused. None: neither.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Threshold {
    /// Above this there is a warning.
    pub warn: Option<u64>,
    /// Above this there is an error.
    pub fail: Option<u64>,
}

/// The guardrails of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guardrails {
    /// Keyspaces of users, with the one to be made.
    pub keyspaces: Threshold,
    /// Tables of users, with the one to be made.
    pub tables: Threshold,
    /// Columns of a table to be made or altered.
    pub columns_per_table: Threshold,
    /// Rows of a page that a client asks for.
    pub page_size: Threshold,
    /// Whether a SELECT may say ALLOW FILTERING.
    pub allow_filtering_enabled: bool,
}

impl Default for Guardrails {
    fn default() -> Self {
        Self {
            keyspaces: Threshold::default(),
            tables: Threshold::default(),
            columns_per_table: Threshold::default(),
            page_size: Threshold::default(),
            allow_filtering_enabled: true,
        }
    }
}

impl Threshold {
    /// The warning of a value, in these words; they are told whether it is one.
    ///
    /// # Errors
    /// In Cassandra's words, where it is too large.
    fn check(
        self,
        name: &str,
        value: u64,
        words: impl Fn(bool, u64) -> String,
    ) -> Result<Option<String>> {
        let said = |is_warning, threshold| {
            let words = words(is_warning, threshold);
            format!("Guardrail {name} violated: {words}")
        };
        match (self.fail, self.warn) {
            (Some(fail), _) if value > fail => invalid(said(false, fail)),
            (_, Some(warn)) if value > warn => Ok(Some(said(true, warn))),
            _ => Ok(None),
        }
    }
}

impl Guardrails {
    /// The warnings of a SELECT from a table of users.
    ///
    /// # Errors
    /// In Cassandra's words, where it may not be executed.
    pub fn check_select(
        &self,
        select: &ast::Select,
        page_size_rows: Option<u32>,
    ) -> Result<Vec<String>> {
        if select.allow_filtering && !self.allow_filtering_enabled {
            return invalid(
                "Guardrail allow_filtering violated: Querying with ALLOW FILTERING is not allowed",
            );
        }
        let Some(rows) = page_size_rows else {
            return Ok(Vec::new());
        };
        let table = select.from.name.as_str();
        let words = |is_warning, threshold| match is_warning {
            true => format!(
                "Query for table {table} with page size {rows} exceeds warning threshold of \
                 {threshold}."
            ),
            false => format!(
                "Aborting query for table {table}, page size {rows} exceeds fail threshold of \
                 {threshold}."
            ),
        };
        let warning = self.page_size.check("page_size", rows.into(), words)?;
        Ok(warning.into_iter().collect())
    }

    /// The warnings of a statement that changes the schema. `keyspace` is the one in use.
    ///
    /// # Errors
    /// In Cassandra's words, where it may not be executed.
    pub fn check_schema(
        &self,
        statement: &Statement,
        state: &CatalogState,
        keyspace: Option<&str>,
    ) -> Result<Vec<String>> {
        let schema = state.schema();
        let warnings = match statement {
            Statement::CreateKeyspace(create) => {
                let others = schema.keyspaces().count() as u64;
                let name = create.name.as_str();
                [
                    made(self.keyspaces, ("keyspaces", "keyspace"), others, name)?,
                    None,
                ]
            }
            Statement::CreateTable(create) => {
                let name = create.table.name.as_str();
                let columns = create.columns.len() as u64;
                let others = schema.keyspaces().map(|keyspace| keyspace.tables().count());
                let others = others.sum::<usize>() as u64;
                [
                    self.columns(name, columns)?,
                    made(self.tables, ("tables", "table"), others, name)?,
                ]
            }
            Statement::AlterTable(alter) => {
                let own = alter.table.keyspace.as_ref().map(ast::Name::as_str);
                let name = alter.table.name.as_str();
                let table = own
                    .or(keyspace)
                    .and_then(|keyspace| schema.keyspace(keyspace));
                match (
                    &alter.change,
                    table.and_then(|keyspace| keyspace.table(name)),
                ) {
                    (TableChange::Add { columns, .. }, Some(table)) => {
                        let is_new = |column: &&ast::ColumnDefinition| {
                            table.column(column.name.as_str()).is_none()
                        };
                        let added = columns.iter().filter(is_new).count();
                        let columns = (table.columns().len() + added) as u64;
                        [self.columns(name, columns)?, None]
                    }
                    _ => [None, None],
                }
            }
            _ => [None, None],
        };
        Ok(warnings.into_iter().flatten().collect())
    }

    fn columns(&self, table: &str, columns: u64) -> Result<Option<String>> {
        let words = |is_warning, threshold| match is_warning {
            true => format!(
                "The table {table} has {columns} columns, this exceeds the warning threshold of \
                 {threshold}."
            ),
            false => format!(
                "Tables cannot have more than {threshold} columns, but {columns} provided for \
                 table {table}"
            ),
        };
        (self.columns_per_table).check("columns_per_table", columns, words)
    }
}

/// Of one more keyspace or table beside others.
fn made(
    threshold: Threshold,
    (many, one): (&str, &str),
    others: u64,
    name: &str,
) -> Result<Option<String>> {
    let count = others + 1;
    let words = |is_warning, threshold| match is_warning {
        true => format!(
            "Creating {one} {name}, current number of {many} {count} exceeds warning threshold of \
             {threshold}."
        ),
        false => {
            format!(
                "Cannot have more than {threshold} {many}, aborting the creation of {one} {name}"
            )
        }
    };
    threshold.check(many, count, words)
}

const ALLOW_FILTERING: &str = "allow_filtering_enabled";

impl Guardrails {
    /// By their names in Cassandra's configuration, without what follows `_warn` and `_fail`.
    fn thresholds(&mut self) -> [(&'static str, &mut Threshold); 4] {
        [
            ("keyspaces", &mut self.keyspaces),
            ("tables", &mut self.tables),
            ("columns_per_table", &mut self.columns_per_table),
            ("page_size", &mut self.page_size),
        ]
    }

    fn set(&mut self, name: &str, value: &str) -> std::result::Result<(), String> {
        if name == ALLOW_FILTERING {
            self.allow_filtering_enabled =
                (value.parse()).map_err(|_| format!("{name} is {value:?}, not true or false"))?;
            return Ok(());
        }
        for (of, threshold) in self.thresholds() {
            let place = match name.strip_prefix(of) {
                Some("_warn_threshold") => &mut threshold.warn,
                Some("_fail_threshold") => &mut threshold.fail,
                _ => continue,
            };
            let number = value
                .parse()
                .map_err(|_| format!("{name} is {value:?}, no number"))?;
            *place = Some(number);
            return Ok(());
        }
        let known = self.thresholds().map(|(name, _)| name).join(", ");
        Err(format!(
            "there is no guardrail {name:?}: there are {ALLOW_FILTERING}, and _warn_threshold and \
             _fail_threshold of {known}"
        ))
    }
}

/// As in `tables_warn_threshold=100,allow_filtering_enabled=false`, or `none`.
impl FromStr for Guardrails {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let mut guardrails = Self::default();
        if text == "none" {
            return Ok(guardrails);
        }
        for part in text.split(',') {
            let Some((name, value)) = part.split_once('=') else {
                return Err(format!("{part:?} is not NAME=VALUE"));
            };
            guardrails.set(name.trim(), value.trim())?;
        }
        for (name, threshold) in guardrails.thresholds() {
            if let (Some(warn), Some(fail)) = (threshold.warn, threshold.fail)
                && warn > fail
            {
                return Err(format!(
                    "{name}_warn_threshold {warn} is above {name}_fail_threshold {fail}"
                ));
            }
        }
        Ok(guardrails)
    }
}

impl fmt::Display for Guardrails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (name, threshold) in self.clone().thresholds() {
            let bounds = [("warn", threshold.warn), ("fail", threshold.fail)];
            for (kind, value) in bounds {
                parts.extend(value.map(|value| format!("{name}_{kind}_threshold={value}")));
            }
        }
        if !self.allow_filtering_enabled {
            parts.push(format!("{ALLOW_FILTERING}=false"));
        }
        match parts.is_empty() {
            true => f.pad("none"),
            false => f.pad(&parts.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::harness::Server;
    use ebb_cql::protocol::QueryParameters;

    const ALL: &str = "keyspaces_warn_threshold=1,keyspaces_fail_threshold=2,\
                       tables_warn_threshold=1,tables_fail_threshold=2,\
                       columns_per_table_warn_threshold=2,columns_per_table_fail_threshold=3,\
                       page_size_warn_threshold=10,page_size_fail_threshold=20,\
                       allow_filtering_enabled=false";

    fn guarded() -> Server {
        let mut server = Server::with(&["CREATE TABLE a (k int PRIMARY KEY, v int)"]);
        let executor = std::mem::replace(&mut server.executor, Server::new().executor);
        server.executor = executor.guarded_by(ALL.parse().unwrap());
        server
    }

    /// Warnings, or the error.
    fn told(server: &mut Server, text: &str, page_size_rows: Option<u32>) -> Vec<String> {
        let parameters = QueryParameters {
            page_size_rows,
            ..QueryParameters::default()
        };
        let prepared = server.prepare(text).unwrap();
        match server.execute(&prepared, parameters) {
            // What is made is made once; it is not asked for again.
            Ok(_) if text.starts_with("SELECT") => server.warnings(&prepared, parameters),
            Ok(_) => Vec::new(),
            Err(error) => vec![error.message],
        }
    }

    #[test]
    fn what_is_read_is_warned_of_and_refused_in_cassandras_words() {
        let server = &mut guarded();
        let select = "SELECT * FROM a WHERE k = 1";
        assert!(told(server, select, None).is_empty());
        assert!(told(server, select, Some(10)).is_empty());
        assert_eq!(
            told(server, select, Some(11)),
            [
                "Guardrail page_size violated: Query for table a with page size 11 exceeds \
                 warning threshold of 10."
            ]
        );
        assert_eq!(
            told(server, select, Some(21)),
            [
                "Guardrail page_size violated: Aborting query for table a, page size 21 exceeds \
                 fail threshold of 20."
            ]
        );
        let filtering = "SELECT * FROM a WHERE v = 1 ALLOW FILTERING";
        assert_eq!(
            told(server, filtering, None),
            ["Guardrail allow_filtering violated: Querying with ALLOW FILTERING is not allowed"]
        );
        // The server's own tables are nobody's.
        let own = "SELECT key FROM system.local WHERE cluster_name = 'x' ALLOW FILTERING";
        assert!(told(server, own, Some(5000)).is_empty());
    }

    #[test]
    fn what_is_made_is_warned_of_and_refused_in_cassandras_words() {
        let server = &mut guarded();
        let warned = |server: &mut Server, text: &str| {
            let prepared = server.prepare(text).unwrap();
            server.warnings(&prepared, QueryParameters::default())
        };
        assert_eq!(
            warned(server, "CREATE TABLE b (k int PRIMARY KEY, v int, w int)"),
            [
                "Guardrail columns_per_table violated: The table b has 3 columns, this exceeds \
                 the warning threshold of 2.",
                "Guardrail tables violated: Creating table b, current number of tables 2 exceeds \
                 warning threshold of 1.",
            ]
        );
        assert_eq!(
            told(server, "CREATE TABLE c (k int PRIMARY KEY)", None),
            [
                "Guardrail tables violated: Cannot have more than 2 tables, aborting the creation \
                 of table c"
            ]
        );
        assert_eq!(
            told(server, "ALTER TABLE b ADD x int", None),
            [
                "Guardrail columns_per_table violated: Tables cannot have more than 3 columns, but \
                 4 provided for table b"
            ]
        );
        let keyspace = |name: &str| {
            format!(
                "CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', \
                 'replication_factor': 1}}"
            )
        };
        assert_eq!(
            warned(server, &keyspace("two")),
            [
                "Guardrail keyspaces violated: Creating keyspace two, current number of keyspaces \
                 2 exceeds warning threshold of 1."
            ]
        );
        assert_eq!(
            told(server, &keyspace("three"), None),
            [
                "Guardrail keyspaces violated: Cannot have more than 2 keyspaces, aborting the \
                 creation of keyspace three"
            ]
        );
    }

    #[test]
    fn guardrails_are_written_as_they_are_read() {
        for text in [ALL, "none", "tables_fail_threshold=0"] {
            let guardrails: Guardrails = text.parse().unwrap();
            assert_eq!(guardrails.to_string(), text);
        }
        for (text, expected) in [
            ("tables=1", "there is no guardrail \"tables\""),
            ("tables_warn_threshold=x", "no number"),
            ("allow_filtering_enabled=no", "not true or false"),
            ("x", "is not NAME=VALUE"),
            (
                "tables_warn_threshold=2,tables_fail_threshold=1",
                "is above tables_fail_threshold 1",
            ),
        ] {
            let error = text.parse::<Guardrails>().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}

//! The columns of a value that an application looks at.

use std::cell::RefCell;

use ebb_scheduler::runtime::TaskError;
use serde::{Deserialize, Serialize};

use super::csv::CsvFields;
use super::json;

/// What values are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordFormat {
    /// Nothing that has columns.
    Text,
    /// A CSV record each.
    Csv {
        /// Names of the fields, where they are known. By number, from 1, they go
        /// always.
        names: Option<Vec<String>>,
    },
    /// A JSON object each. A column is a member; `a.b` is member `b` of member
    /// `a`.
    Json,
}

/// That values have no such column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownColumn {
    /// They have no columns.
    #[error("there is no column {0:?}: the values are plain text, not CSV or JSON")]
    Text(String),
    /// They have others.
    #[error("there is no column {name:?}; there are: {known}, or their numbers from 1")]
    Named {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// They have numbers only.
    #[error(
        "there is no column {0:?}: with no header and no names given, columns have numbers only, from 1"
    )]
    Unnamed(String),
}

/// Some columns of values, by name.
#[derive(Debug, Clone)]
pub struct Columns {
    paths: Paths,
    names: Vec<String>,
}

#[derive(Debug, Clone)]
enum Paths {
    /// No column was asked for.
    None,
    /// By place.
    Csv(Vec<usize>),
    /// By members.
    Json(Vec<Vec<String>>),
}

thread_local! {
    /// Kept for its buffers: a mapper is shared, a thread maps a record at a time.
    static FIELDS: RefCell<CsvFields> = RefCell::default();
}

impl Columns {
    /// The columns called `names` of values in `format`.
    ///
    /// # Errors
    /// When the values have no such column, as far as can be told before they
    /// are read.
    pub fn new<S: AsRef<str>>(format: &RecordFormat, names: &[S]) -> Result<Self, UnknownColumn> {
        let names: Vec<String> = names.iter().map(|name| name.as_ref().to_string()).collect();
        let paths = match format {
            _ if names.is_empty() => Paths::None,
            RecordFormat::Text => return Err(UnknownColumn::Text(names[0].clone())),
            RecordFormat::Csv { names: known } => {
                let place = |name: &String| place(known.as_deref(), name);
                Paths::Csv(names.iter().map(place).collect::<Result<_, _>>()?)
            }
            RecordFormat::Json => {
                let path = |name: &String| name.split('.').map(str::to_string).collect();
                Paths::Json(names.iter().map(path).collect())
            }
        };
        Ok(Self { paths, names })
    }

    /// Their names, as asked for.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What a value has in these columns, in their order: a field without quotes,
    /// a JSON string's text, other JSON as it is written. `None` where it has
    /// nothing: the record is too short, the member is missing or null.
    ///
    /// # Errors
    /// When the value of the row called `key` is no CSV record or no JSON object.
    pub fn read(&self, key: &[u8], value: &[u8]) -> Result<Vec<Option<Vec<u8>>>, TaskError> {
        let failed = |what: &dyn std::fmt::Display| {
            TaskError::failed(format!(
                "the value of {:?}: {what}",
                key.escape_ascii().to_string()
            ))
        };
        match &self.paths {
            Paths::None => Ok(Vec::new()),
            Paths::Csv(places) => FIELDS.with_borrow_mut(|fields| {
                fields.parse(value).map_err(|e| failed(&e))?;
                let owned = |&at: &usize| fields.get(at).map(<[u8]>::to_vec);
                Ok(places.iter().map(owned).collect())
            }),
            Paths::Json(paths) => json::members(value, paths)
                .map_err(|e| failed(&format_args!("is no JSON object: {e}"))),
        }
    }
}

fn place(known: Option<&[String]>, name: &str) -> Result<usize, UnknownColumn> {
    if let Some(at) = known.and_then(|known| known.iter().position(|other| other == name)) {
        return Ok(at);
    }
    let number = name.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let fields = known.map_or(usize::MAX, <[String]>::len);
    match (number, known) {
        (Some(at), _) if at < fields => Ok(at),
        (_, None) => Err(UnknownColumn::Unnamed(name.to_string())),
        (_, Some(known)) => Err(UnknownColumn::Named {
            name: name.to_string(),
            known: known.join(", "),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(names: &[&str]) -> RecordFormat {
        RecordFormat::Csv {
            names: Some(names.iter().map(|name| name.to_string()).collect()),
        }
    }

    fn read(format: &RecordFormat, names: &[&str], value: &str) -> Vec<Option<String>> {
        let columns = Columns::new(format, names).unwrap();
        let fields = columns.read(b"k", value.as_bytes()).unwrap().into_iter();
        fields
            .map(|field| field.map(|bytes| String::from_utf8(bytes).unwrap()))
            .collect()
    }

    fn some(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| Some(text.to_string())).collect()
    }

    #[test]
    fn csv_columns_go_by_name_and_by_number() {
        let format = csv(&["id", "name", "2"]);
        assert_eq!(
            read(&format, &["name", "1", "2"], "7,\"a,b\",x"),
            some(&["a,b", "7", "x"])
        );
        assert_eq!(read(&format, &["name"], "7"), [None]);
        let unnamed = RecordFormat::Csv { names: None };
        assert_eq!(read(&unnamed, &["2"], "7,8"), some(&["8"]));
        let error =
            |format: &RecordFormat, name| Columns::new(format, &[name]).unwrap_err().to_string();
        assert!(error(&format, "nmae").contains("id, name"));
        assert!(error(&format, "4").contains("id, name"));
        assert!(error(&unnamed, "name").contains("no names"));
        assert!(error(&unnamed, "0").contains("no names"));
        assert!(error(&RecordFormat::Text, "a").contains("plain text"));
    }

    #[test]
    fn json_columns_are_members_of_members() {
        let value = r#"{"a":{"b":"x y","c":[1,2]},"d":1.50,"e":null}"#;
        assert_eq!(
            read(&RecordFormat::Json, &["a.b", "a.c", "d"], value),
            some(&["x y", "[1,2]", "1.5"])
        );
        assert_eq!(
            read(&RecordFormat::Json, &["e", "f", "d.x"], value),
            [None, None, None]
        );
    }

    #[test]
    fn a_value_that_is_no_record_is_an_error_that_names_the_row() {
        let json = Columns::new(&RecordFormat::Json, &["a"]).unwrap();
        let unnamed = RecordFormat::Csv { names: None };
        let csv = Columns::new(&unnamed, &["1"]).unwrap();
        for (columns, value, why) in [
            (&json, "{", "no JSON object"),
            (&json, "[1]", "no JSON object"),
            (&csv, "\"a", "quote"),
        ] {
            let error = columns.read(b"row7", value.as_bytes()).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("row7") && error.contains(why), "{error}");
        }
    }
}

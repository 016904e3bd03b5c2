//! The one interface by which applications and outputs get at the columns of rows.

use std::fmt;
use std::sync::Arc;

use super::{Column, Fields, UnknownColumn};

/// Which columns rows have, and where they are in key and value.
///
/// Inputs have one, and so have outputs: what describes the rows that one job writes
/// describes those that the next one reads. Names are looked up once, by
/// [`RowSchema::decoder`]; after that a row costs what its fields cost.
///
/// Applications know nothing more of rows than this, so rows of another making (typed
/// cells under a partition key, say) need an implementation and no change elsewhere.
pub trait RowSchema: fmt::Debug + Send + Sync {
    /// The columns that a row is written with, in their order, each of another name.
    /// Rows may have more that can be named: members of JSON, or the place in a file.
    fn columns(&self) -> Vec<Column>;

    /// Finds columns by their names.
    ///
    /// # Errors
    /// When there is no such column, as far as can be told without a row.
    fn decoder(&self, names: &[&str]) -> Result<Box<dyn RowDecoder>, UnknownColumn>;

    /// Finds columns of rows that are JSON, with what each holds: members come as they are
    /// written, so that a number stays a number. `None` where rows are not JSON, or have no
    /// such column.
    fn json_decoder(&self, _names: &[&str]) -> Option<(Vec<Column>, Box<dyn RowDecoder>)> {
        None
    }

    /// Finds all of [`RowSchema::columns`].
    fn whole(&self) -> Box<dyn RowDecoder>;

    /// How many of [`RowSchema::columns`], the first ones, are the key of a row; 0 where the
    /// key is not written, or only says where the row was.
    fn key_columns(&self) -> usize;

    /// Which one of [`RowSchema::columns`], from 0, is called `name`, which may be another
    /// name of it. `None` when it is none of them.
    fn position(&self, name: &str) -> Option<usize>;

    /// That a row is what it is said to be.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(&self, key: &[u8], value: &[u8], fields: &mut Fields) -> Result<(), String>;

    /// Adds a row as text in one line: its key, a tab, its value, as far as they are
    /// written.
    fn push_text(&self, key: &[u8], value: &[u8], line: &mut Vec<u8>);

    /// The same rows without their keys, where those only say where a row was; `None`
    /// where the key is part of the row.
    fn without_place(&self) -> Option<Arc<dyn RowSchema>>;

    /// A copy of it.
    fn shared(&self) -> Arc<dyn RowSchema>;
}

/// Takes the fields of some columns out of rows.
pub trait RowDecoder: fmt::Debug + Send + Sync {
    /// Puts the fields of a row into `fields`, in the order of the names: the text of a
    /// field without quotes, digits of a number, other JSON as it is written.
    ///
    /// # Errors
    /// What is wrong with the row.
    fn decode(&self, key: &[u8], value: &[u8], fields: &mut Fields) -> Result<(), String>;
}

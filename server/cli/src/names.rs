//! Names and keys as they stand in arguments.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ebb_jobs::history::SYSTEM_KEYSPACE;
pub(super) use ebb_tables::names::{TableName, end_of_prefix};

use super::error::CliError;

/// # Errors
/// When a table is in the keyspace that commands do not write to.
pub(super) fn refuse_system(name: &TableName) -> Result<(), CliError> {
    match name.keyspace == SYSTEM_KEYSPACE {
        true => Err(system_refused()),
        false => Ok(()),
    }
}

/// That the keyspace is not the user's.
pub(super) fn system_refused() -> CliError {
    let text = format!("keyspace {SYSTEM_KEYSPACE} is ebb's own: name another");
    CliError::Usage(text)
}

/// The bytes of a key given as an argument: exactly those of the command line.
pub(super) fn key_bytes(argument: &OsStr) -> &[u8] {
    argument.as_bytes()
}

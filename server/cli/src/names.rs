//! Names and keys in arguments.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ebb_jobs::history::SYSTEM_KEYSPACE;
pub(super) use ebb_tables::names::{TableName, end_of_prefix};

use super::error::CliError;

/// Refuses a table in ebb's own keyspace, which commands do not change.
///
/// # Errors
/// If the table is in that keyspace.
pub(super) fn refuse_system(name: &TableName) -> Result<(), CliError> {
    if name.keyspace == SYSTEM_KEYSPACE {
        Err(system_refused())
    } else {
        Ok(())
    }
}

/// Returns the error of a command that would write to ebb's own keyspace.
pub(super) fn system_refused() -> CliError {
    let text = format!("keyspace {SYSTEM_KEYSPACE} is ebb's own: name another");
    CliError::Usage(text)
}

/// Returns the bytes of a key that is an argument, exactly as they are on the command line.
pub(super) fn key_bytes(argument: &OsStr) -> &[u8] {
    argument.as_bytes()
}

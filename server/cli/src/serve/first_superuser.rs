//! The password of the first superuser, in a file that only its owner reads.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use ebb_cql_server::access::{FIRST_SUPERUSER, first_superuser};
use ebb_server::audit::{AuditLog, Entry};
use ebb_tables::Catalog;

use super::log_levels::CQL;

/// The name of the file with the password, in the directory of the database.
const FILE: &str = "superuser-password";

/// Creates the superuser [`FIRST_SUPERUSER`] if there is none that could log in, and logs the path of the
/// file with its password. Creates none if an unreadable record may be that of this role.
///
/// # Errors
/// When the file or the audit log cannot be written, or the role cannot be created, for example
/// because a role of that name exists.
pub(super) fn ensure(catalog: &Catalog, data: &Path, audit: &Arc<AuditLog>) -> Result<()> {
    let mut begun = None;
    let kept = first_superuser(catalog.roles(), |password| {
        let entry = Entry {
            name: Some("the server".to_owned()),
            action: format!("CREATE ROLE {FIRST_SUPERUSER}"),
            roles: vec![FIRST_SUPERUSER.to_owned()],
            superuser: Some(true),
            ..Entry::default()
        };
        let entered = audit.begin(entry, false);
        begun = Some(entered.context("cannot write the audit log")?);
        keep(data, password).with_context(|| {
            let path = data.join(FILE);
            format!("cannot write a password to {}", path.display())
        })
    })?;
    if let Some(kept) = kept {
        let path = kept?;
        if let Some(begun) = begun {
            begun.end("done");
        }
        tracing::info!(
            target: CQL,
            "there was no superuser: made {FIRST_SUPERUSER}, with the password in {}",
            path.display()
        );
    }
    Ok(())
}

/// Writes the password to its file, so that it survives a crash of the machine.
fn keep(data: &Path, password: &str) -> io::Result<PathBuf> {
    let path = data.join(FILE);
    // A file that a crash left has the password of a role that was never created.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    writeln!(file, "{password}")?;
    file.sync_all()?;
    File::open(data)?.sync_all()?;
    Ok(path)
}

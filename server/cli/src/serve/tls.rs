//! TLS of a server: its files are read at the start, and again when they change.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_cql_server::serve::{Tls, TlsError, TlsOptions};

use super::certificate::ExpiryWatch;
use super::log_levels::SERVER;
use crate::error::CliError;

/// The time between two checks whether the files of keys and certificates have changed.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// Reads the files of keys and certificates. Until the result is dropped, checks every few seconds whether
/// they have changed, and whether the certificate expires soon.
///
/// # Errors
/// When a file is missing or invalid.
pub(super) fn start(options: TlsOptions) -> Result<Arc<Tls>> {
    let tls = Tls::load(options).map_err(|error| CliError::Usage(format!("TLS: {error}")))?;
    let tls = Arc::new(tls);
    let watched = Arc::downgrade(&tls);
    thread::Builder::new()
        .name("ebb-tls".to_owned())
        .spawn(move || watch(&watched))
        .context("cannot watch the files of TLS")?;
    Ok(tls)
}

fn watch(tls: &Weak<Tls>) {
    let mut expiry = ExpiryWatch::default();
    loop {
        if let Some(tls) = tls.upgrade() {
            expiry.look(&tls);
        }
        thread::park_timeout(LOOK_EVERY);
        let Some(tls) = tls.upgrade() else {
            return;
        };
        match tls.reload_if_changed() {
            Ok(true) => tracing::info!(target: SERVER, "TLS: new files are in use"),
            Ok(false) => {}
            Err(error) => stay_in_use(&error),
        }
    }
}

/// Reads the files again, whether or not they have changed, and logs the result.
pub(super) fn reload(tls: &Tls) {
    match tls.reload() {
        Ok(()) => tracing::info!(target: SERVER, "TLS: the files were read again"),
        Err(error) => stay_in_use(&error),
    }
}

fn stay_in_use(error: &TlsError) {
    tracing::error!(target: SERVER, "TLS: the old files stay in use: {error}");
}

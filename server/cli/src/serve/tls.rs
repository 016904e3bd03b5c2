//! TLS of a server: its files are read at the start, and again when they change.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_cql_server::serve::{Tls, TlsOptions};

use super::settings::Settings;
use crate::error::CliError;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// What the settings say of TLS; nothing where there is none.
///
/// # Errors
/// When one needs another that is not there.
pub(super) fn options(settings: &Settings) -> Result<Option<TlsOptions>, CliError> {
    let (Some(certificate), Some(key)) = (&settings.tls_cert, &settings.tls_key) else {
        let said = [
            ("tls-cert", settings.tls_cert.is_some()),
            ("tls-key", settings.tls_key.is_some()),
            ("tls-client-ca", settings.tls_client_ca.is_some()),
            ("tls-client-optional", settings.tls_client_optional),
            ("tls-optional", settings.tls_optional),
        ];
        return match said.iter().find(|(_, is_said)| *is_said) {
            None => Ok(None),
            Some((name, _)) => {
                let text = format!("{name} is there, but not both of tls-cert and tls-key");
                Err(CliError::Usage(text))
            }
        };
    };
    if settings.tls_client_optional && settings.tls_client_ca.is_none() {
        let text = "tls-client-optional is there, but no tls-client-ca";
        return Err(CliError::Usage(text.into()));
    }
    Ok(Some(TlsOptions {
        certificate: certificate.clone(),
        key: key.clone(),
        client_authorities: settings.tls_client_ca.clone(),
        is_client_optional: settings.tls_client_optional,
        is_optional: settings.tls_optional,
    }))
}

/// Reads the files, and looks every few seconds whether they have changed, as long as what
/// this returns is in use.
///
/// # Errors
/// When a file is missing or wrong.
pub(super) fn start(settings: &Settings) -> Result<Option<Arc<Tls>>> {
    let Some(options) = options(settings)? else {
        return Ok(None);
    };
    let tls = Tls::load(options).map_err(|error| CliError::Usage(format!("TLS: {error}")))?;
    let tls = Arc::new(tls);
    let watched = Arc::downgrade(&tls);
    thread::Builder::new()
        .name("ebb-tls".to_owned())
        .spawn(move || watch(&watched))
        .context("cannot watch the files of TLS")?;
    Ok(Some(tls))
}

fn watch(tls: &Weak<Tls>) {
    loop {
        thread::park_timeout(LOOK_EVERY);
        let Some(tls) = tls.upgrade() else {
            return;
        };
        match tls.reload_if_changed() {
            Ok(true) => tracing::info!("TLS: new files are in use"),
            Ok(false) => {}
            Err(error) => tracing::error!("TLS: the old files stay in use: {error}"),
        }
    }
}

/// Reads the files again, whether or not they have changed, and tells the operator.
pub(super) fn reload(tls: &Tls) {
    match tls.reload() {
        Ok(()) => tracing::info!("TLS: the files were read again"),
        Err(error) => tracing::error!("TLS: the old files stay in use: {error}"),
    }
}

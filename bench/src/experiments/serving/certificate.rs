//! A self-signed certificate for a server on loopback.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use rustls::{ClientConfig, RootCertStore};

/// A certificate and its key in files, and the configuration of a client that trusts it.
#[derive(Debug)]
pub(super) struct Certificate {
    path: PathBuf,
    key: PathBuf,
    pub(super) trust: Arc<ClientConfig>,
}

impl Certificate {
    /// Makes a certificate, and writes it and its key to files in `folder`.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub(super) fn make(folder: &Path) -> Result<Self> {
        let (path, key) = (folder.join("server.pem"), folder.join("server.key"));
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
        fs::write(&path, made.cert.pem())?;
        fs::write(&key, made.signing_key.serialize_pem())?;
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone())?;
        let config = ClientConfig::builder().with_root_certificates(roots);
        let trust = Arc::new(config.with_no_client_auth());
        Ok(Self { path, key, trust })
    }

    /// Returns the arguments for a server that requires a login and accepts TLS and plain clients.
    pub(super) fn arguments(&self) -> Vec<String> {
        let shown = |path: &Path| path.display().to_string();
        vec![
            "--auth".into(),
            "--tls-optional".into(),
            "--tls-cert".into(),
            shown(&self.path),
            "--tls-key".into(),
            shown(&self.key),
        ]
    }
}

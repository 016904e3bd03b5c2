//! TLS: the server's certificate, and the clients that are accepted.
//!
//! ```text
//!   files (PEM) ── load ─> configuration ── used by connections from then on
//!       └── reload, when they change ──^    (a bad file changes nothing)
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use xxhash_rust::xxh3::xxh3_64;

use super::expiry::expiry_unix_s;

/// The files and the options of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// The PEM file of the certificate chain, with the server's certificate first.
    pub certificate: PathBuf,
    /// The PEM file of the certificate's private key, unencrypted.
    pub key: PathBuf,
    /// The PEM file of the authorities that sign client certificates. `None` if the server requests
    /// no certificates from clients.
    pub client_authorities: Option<PathBuf>,
    /// True if clients may connect without a certificate although `client_authorities` is set. If a
    /// client sends a certificate, it must be valid.
    pub is_client_optional: bool,
    /// True if clients without TLS are accepted on the same port.
    pub is_optional: bool,
}

/// The error of loading the files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or has wrong contents.
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: String },
    /// The certificate and the key are PEM, but cannot be used together, for example because the
    /// key belongs to another certificate.
    #[error("{} and {}: {problem}", certificate.display(), key.display())]
    Together {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        problem: String,
    },
}

/// The current configuration of TLS.
#[derive(Debug)]
pub struct Tls {
    options: TlsOptions,
    in_use: ArcSwap<InUse>,
    /// The [`fingerprint`] of the files at the last load, also if that load failed.
    seen: Mutex<u64>,
}

/// The configuration from the last valid files.
#[derive(Debug)]
struct InUse {
    config: Arc<ServerConfig>,
    expires_unix_s: Option<u64>,
}

struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_authorities: Option<Vec<u8>>,
}

impl Tls {
    /// Loads the files.
    ///
    /// # Errors
    /// If a file cannot be read or has wrong contents, or the key does not belong to the
    /// certificate.
    pub fn load(options: TlsOptions) -> Result<Self, TlsError> {
        let contents = Contents::read(&options);
        let seen = fingerprint(&contents);
        let in_use = contents.and_then(|contents| contents.checked(&options))?;
        Ok(Self {
            options,
            in_use: ArcSwap::from_pointee(in_use),
            seen: Mutex::new(seen),
        })
    }

    /// Loads the files again, for new connections.
    ///
    /// # Errors
    /// The errors of [`load`](Self::load). Then the previous configuration stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let contents = Contents::read(&self.options);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = fingerprint(&contents);
        let in_use = contents?.checked(&self.options)?;
        self.in_use.store(Arc::new(in_use));
        Ok(())
    }

    /// Loads the files again, if their contents differ from those at the last load. Returns whether
    /// the contents differed.
    ///
    /// # Errors
    /// The errors of [`load`](Self::load). Then the previous configuration stays in use, and later
    /// calls return `false` until the contents change again.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let contents = Contents::read(&self.options);
        let found = fingerprint(&contents);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == found {
            return Ok(false);
        }
        *seen = found;
        let in_use = contents?.checked(&self.options)?;
        self.in_use.store(Arc::new(in_use));
        Ok(true)
    }

    /// Returns the configuration for the next connection.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.in_use.load().config)
    }

    /// Returns the earliest time at which a certificate of the current chain expires, in seconds
    /// since the Unix epoch; `None` if none of them can be parsed.
    #[must_use]
    pub fn expires_unix_s(&self) -> Option<u64> {
        self.in_use.load().expires_unix_s
    }

    /// Returns the file of the certificate chain.
    #[must_use]
    pub fn certificate(&self) -> &Path {
        &self.options.certificate
    }

    pub(super) fn is_optional(&self) -> bool {
        self.options.is_optional
    }
}

/// Returns a hash of the contents, or of the error of reading them.
fn fingerprint(contents: &Result<Contents, TlsError>) -> u64 {
    match contents {
        Ok(contents) => {
            let authorities = contents.client_authorities.as_deref().unwrap_or_default();
            let parts = [&contents.certificate, &contents.key, authorities].map(xxh3_64);
            xxh3_64(&parts.map(u64::to_le_bytes).concat())
        }
        Err(error) => xxh3_64(error.to_string().as_bytes()),
    }
}

impl Contents {
    fn read(options: &TlsOptions) -> Result<Self, TlsError> {
        let authorities = options.client_authorities.as_deref();
        Ok(Self {
            certificate: read(&options.certificate)?,
            key: read(&options.key)?,
            client_authorities: authorities.map(read).transpose()?,
        })
    }

    fn checked(&self, options: &TlsOptions) -> Result<InUse, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(&options.certificate, &self.certificate)?;
        let expires_unix_s = chain.iter().filter_map(expiry_unix_s).min();
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| {
            let problem = match error {
                pem::Error::NoItemsFound => "there is no private key in PEM, or it is encrypted",
                _ => "it is no PEM",
            };
            wrong(&options.key, problem)
        })?;
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("ring has suites for TLS 1.2 and 1.3");
        let builder = match (&options.client_authorities, &self.client_authorities) {
            (Some(path), Some(pem)) => {
                let roots = authorities(path, pem)?;
                let verifier = verifier(roots, provider, options.is_client_optional);
                builder.with_client_cert_verifier(verifier.map_err(|error| wrong(path, error))?)
            }
            _ => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| TlsError::Together {
            certificate: options.certificate.clone(),
            key: options.key.clone(),
            problem: match error {
                rustls::Error::InconsistentKeys(_) => {
                    "the key is not that of the certificate".into()
                }
                error => error.to_string(),
            },
        })?;
        if self.client_authorities.is_some() {
            // In a resumed session the client shows no certificate, so that the session would
            // outlive an expired one.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(InUse {
            config: Arc::new(config),
            expires_unix_s,
        })
    }
}

fn verifier(
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
    is_optional: bool,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, impl ToString> {
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    if is_optional {
        builder.allow_unauthenticated().build()
    } else {
        builder.build()
    }
}

fn authorities(path: &Path, pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, pem)? {
        roots.add(certificate).map_err(|error| wrong(path, error))?;
    }
    Ok(roots)
}

/// Parses certificates; there must be at least one.
fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(certificates) if certificates.is_empty() => {
            Err(wrong(path, "there is no certificate in PEM"))
        }
        Ok(certificates) => Ok(certificates),
        Err(_) => Err(wrong(path, "it is no PEM")),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "certificates lie where their owner has them"
)]
fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| wrong(path, error))
}

fn wrong(path: &Path, problem: impl ToString) -> TlsError {
    TlsError::File {
        path: path.to_owned(),
        problem: problem.to_string(),
    }
}

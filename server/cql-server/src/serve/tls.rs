//! TLS: the certificate that the server shows, and which clients it takes.
//!
//! ```text
//!   files (PEM) ── load ─> configuration ── each connection takes the one of its time
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

/// Which files TLS needs, and who may come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificate and those that lead to its authority, its own first. PEM.
    pub certificate: PathBuf,
    /// The private key of the certificate, not encrypted. PEM.
    pub key: PathBuf,
    /// The authorities whose certificates clients show. PEM. Without, nobody is asked for one.
    pub client_authorities: Option<PathBuf>,
    /// A client may show no certificate. One that it shows is checked all the same.
    pub is_client_optional: bool,
    /// Clients may speak without TLS, on the same port.
    pub is_optional: bool,
}

/// Why there is no TLS with these files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not what it should be.
    #[error("{}: {problem}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Each is right, but not together.
    #[error("{} and {}: {problem}", certificate.display(), key.display())]
    Together {
        /// That of the certificate.
        certificate: PathBuf,
        /// That of the key.
        key: PathBuf,
        /// Why not.
        problem: String,
    },
}

/// TLS as it is at the moment.
#[derive(Debug)]
pub struct Tls {
    options: TlsOptions,
    in_use: ArcSwap<InUse>,
    /// Of what the files held when they were last looked at.
    seen: Mutex<u64>,
}

/// The configuration of the last files that were right.
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
    /// Reads the files.
    ///
    /// # Errors
    /// When one of them cannot be read or is not what it should be, or the key is that of
    /// another certificate.
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

    /// Reads the files again, for the connections to come.
    ///
    /// # Errors
    /// Those of [`load`](Self::load). Then all stays as it was.
    pub fn reload(&self) -> Result<(), TlsError> {
        let contents = Contents::read(&self.options);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = fingerprint(&contents);
        let in_use = contents?.checked(&self.options)?;
        self.in_use.store(Arc::new(in_use));
        Ok(())
    }

    /// The same, where they are not as they were when they were last looked at; tells whether
    /// that was so.
    ///
    /// # Errors
    /// Those of [`load`](Self::load), once for what the files hold. Then all stays as it was.
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

    /// What the next connection goes by.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.in_use.load().config)
    }

    /// Returns the time at which the first certificate of the chain in use expires, in seconds since
    /// the Unix epoch; `None` if none of them can be read.
    #[must_use]
    pub fn expires_unix_s(&self) -> Option<u64> {
        self.in_use.load().expires_unix_s
    }

    /// The file of the certificate chain.
    #[must_use]
    pub fn certificate(&self) -> &Path {
        &self.options.certificate
    }

    pub(super) fn is_optional(&self) -> bool {
        self.options.is_optional
    }
}

/// Alike for what is alike: for contents, and for an error to read them.
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
            // A resumed session shows no certificate, so it would outlive an expired one.
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
    match is_optional {
        true => builder.allow_unauthenticated().build(),
        false => builder.build(),
    }
}

fn authorities(path: &Path, pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, pem)? {
        roots.add(certificate).map_err(|error| wrong(path, error))?;
    }
    Ok(roots)
}

/// One at least.
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

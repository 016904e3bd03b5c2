//! TLS of the client: the authorities that it trusts, and the certificate that it presents.
//!
//! ```text
//!   files (PEM) ── connector ─> the handshakes of `port`
//!   an error of a connection ── advice ─> what the user can do about the server's alert
//! ```

use std::error::Error as StdError;
use std::io::{self, Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

const AUTHORITIES_ADVICE: &str = "--server-ca, or EBB_SERVER_CA, takes the certificate of the \
                                  server's authority in PEM";
const CHAIN_ADVICE: &str = "--client-cert, or EBB_CLIENT_CERT, takes the client's certificate in \
                            PEM, and behind it those that lead to its authority";
const KEY_ADVICE: &str = "--client-key, or EBB_CLIENT_KEY, takes the private key of the client's \
                          certificate in PEM, not encrypted";

/// The files with which a client speaks TLS. Only `https` uses them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// The PEM file of the authorities that the client trusts, in place of those of the system. `https`
    /// requires it.
    pub authorities: Option<PathBuf>,
    /// The certificate of the client; `None` if it presents none.
    pub certificate: Option<ClientCertificate>,
}

/// The certificate that a client presents to a server that requests one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The PEM file of the certificate chain, with the client's certificate first.
    pub chain: PathBuf,
    /// The PEM file of the certificate's private key, unencrypted.
    pub key: PathBuf,
}

impl ClientTls {
    /// Reads the files. The connector trusts the authorities in them, and not those of the system.
    ///
    /// # Errors
    /// When there is no file of authorities, a file cannot be read or has wrong contents, or the key does
    /// not belong to the certificate. The error names the file and the option.
    pub(super) fn connector(&self) -> io::Result<TlsConnector> {
        let Some(authorities) = &self.authorities else {
            let text = "it speaks TLS: name a file with the certificate of its authority by \
                        --server-ca, or EBB_SERVER_CA";
            return Err(Error::new(ErrorKind::InvalidInput, text));
        };
        let builder = ClientConfig::builder().with_root_certificates(roots(authorities)?);
        let config = match &self.certificate {
            Some(ClientCertificate { chain, key }) => {
                let config = builder
                    .with_client_auth_cert(certificates(chain, CHAIN_ADVICE)?, private_key(key)?);
                config.map_err(|error| together(chain, key, &error))?
            }
            None => builder.with_no_client_auth(),
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

fn roots(authorities: &Path) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authorities, AUTHORITIES_ADVICE)? {
        let added = roots.add(certificate);
        added.map_err(|error| wrong(authorities, &error.to_string(), AUTHORITIES_ADVICE))?;
    }
    Ok(roots)
}

/// Reads the certificates in a file; there must be at least one.
fn certificates(path: &Path, advice: &str) -> io::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<CertificateDer<'static>>, pem::Error> =
        CertificateDer::pem_file_iter(path).and_then(|found| found.collect());
    match found {
        Ok(found) if found.is_empty() => Err(wrong(path, "there is no certificate in PEM", advice)),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(path, &problem_of(&error), advice)),
    }
}

/// Reads the first private key in a file.
fn private_key(path: &Path) -> io::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        let problem = match error {
            pem::Error::NoItemsFound => {
                "there is no private key in PEM, or it is encrypted".to_owned()
            }
            error => problem_of(&error),
        };
        wrong(path, &problem, KEY_ADVICE)
    })
}

fn problem_of(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        _ => "it is no PEM".to_owned(),
    }
}

fn wrong(path: &Path, problem: &str, advice: &str) -> Error {
    let text = format!("{}: {problem}; {advice}", path.display());
    Error::new(ErrorKind::InvalidInput, text)
}

/// Returns the error for a certificate and a key that are PEM, but cannot be used together.
fn together(chain: &Path, key: &Path, error: &rustls::Error) -> Error {
    let problem = match error {
        rustls::Error::InconsistentKeys(_) => "the key is not that of the certificate".to_owned(),
        error => error.to_string(),
    };
    let text = format!(
        "{} and {}: {problem}; {CHAIN_ADVICE}; {KEY_ADVICE}",
        chain.display(),
        key.display()
    );
    Error::new(ErrorKind::InvalidInput, text)
}

/// Returns what the user can do if the server has ended a connection because of the client's certificate;
/// `None` for all other errors. In TLS 1.3 the server sends its alert after the client's handshake, so the
/// alert may be a cause of an error of the request.
pub(super) fn advice(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    match alert_of(error)? {
        AlertDescription::CertificateRequired => Some(
            "the server requires a certificate of the client: name its files by --client-cert and \
             --client-key",
        ),
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::DecryptError => Some(
            "the server refuses the client's certificate: name one by --client-cert that has not \
             expired, and that an authority in --tls-client-ca of the server has signed",
        ),
        _ => None,
    }
}

/// Returns the alert of the server that is among an error and its causes.
fn alert_of(error: &(dyn StdError + 'static)) -> Option<AlertDescription> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        // The error that an `io::Error` contains is not its source: `source` skips it.
        let contained = error.downcast_ref::<Error>().and_then(Error::get_ref);
        let of_tls = contained.and_then(|error| error.downcast_ref::<rustls::Error>());
        if let Some(rustls::Error::AlertReceived(alert)) = of_tls {
            return Some(*alert);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    #[test]
    fn an_error_about_a_file_names_the_file_and_the_option() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["ada", "bob"] {
            let CertifiedKey { cert, signing_key } =
                generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
            fs::write(path(&format!("{name}.pem")), cert.pem()).unwrap();
            let key = signing_key.serialize_pem();
            fs::write(path(&format!("{name}.key")), &key).unwrap();
            let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
            fs::write(path(&format!("{name}.encrypted")), encrypted).unwrap();
        }
        fs::write(path("cut.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
        let connector = |authorities: &str, chain: &str, key: &str| {
            let tls = ClientTls {
                authorities: Some(path(authorities)),
                certificate: Some(ClientCertificate {
                    chain: path(chain),
                    key: path(key),
                }),
            };
            tls.connector()
        };
        assert!(connector("ada.pem", "bob.pem", "bob.key").is_ok());
        let (ca, cert, key) = ("--server-ca", "--client-cert", "--client-key");
        let no_certificate = "bob.key: there is no certificate in PEM";
        let encrypted = "bob.encrypted: there is no private key in PEM, or it is encrypted";
        let other = "bob.pem and ";
        for (files, named, option) in [
            (["none", "bob.pem", "bob.key"], "none: No such file", ca),
            (["bob.key", "bob.pem", "bob.key"], no_certificate, ca),
            (["ada.pem", "none", "bob.key"], "none: No such file", cert),
            (["ada.pem", "bob.key", "bob.key"], no_certificate, cert),
            (["ada.pem", "cut.pem", "bob.key"], "it is no PEM", cert),
            (["ada.pem", "bob.pem", "none"], "none: No such file", key),
            (["ada.pem", "bob.pem", "bob.encrypted"], encrypted, key),
            (["ada.pem", "bob.pem", "ada.key"], other, key),
        ] {
            let Err(error) = connector(files[0], files[1], files[2]) else {
                panic!("{files:?}");
            };
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let text = error.to_string();
            assert!(text.contains(named), "{files:?}: {text}");
            assert!(text.contains(option), "{files:?}: {text}");
        }
        assert!(ClientTls::default().connector().is_err(), "no authorities");
    }

    #[test]
    fn an_alert_about_the_clients_certificate_has_advice() {
        let advice_for = |alert| {
            let alert = rustls::Error::AlertReceived(alert);
            advice(&Error::new(ErrorKind::InvalidData, alert))
        };
        let none = advice_for(AlertDescription::CertificateRequired).unwrap();
        assert!(none.contains("--client-key"), "{none}");
        let unknown = advice_for(AlertDescription::UnknownCA).unwrap();
        assert!(unknown.contains("--tls-client-ca"), "{unknown}");
        assert_eq!(advice_for(AlertDescription::InternalError), None);
        assert_eq!(advice(&Error::from(ErrorKind::ConnectionReset)), None);
    }
}

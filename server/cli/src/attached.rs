//! The server that a command sends requests to, or the database if there is no server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ebb_server::http::{BackupPlace, ClientCertificate, ClientTls, JobsClient};

use super::database::Location;
use super::error::CliError;

/// The options that choose a server or a database.
#[derive(Debug, clap::Args)]
pub(super) struct Attached {
    #[command(flatten)]
    pub(super) location: Location,
    /// Use the server at this address instead of the one that has the directory open. Requests
    /// carry the token in the environment variable EBB_TOKEN.
    #[arg(long, value_name = "URL", env = "EBB_SERVER", hide_env_values = true)]
    server: Option<String>,
    /// PEM file of the certificate authorities to trust for a server at https://.
    #[arg(
        long,
        value_name = "FILE",
        env = "EBB_SERVER_CA",
        hide_env_values = true
    )]
    server_ca: Option<PathBuf>,
    /// PEM file of this client's certificate, and behind it those that lead to its authority, for a
    /// server at https:// that requires one (--tls-client-ca). Needs --client-key.
    #[arg(
        long,
        value_name = "FILE",
        env = "EBB_CLIENT_CERT",
        hide_env_values = true
    )]
    client_cert: Option<PathBuf>,
    /// PEM file of the private key of --client-cert, not encrypted.
    #[arg(
        long,
        value_name = "FILE",
        env = "EBB_CLIENT_KEY",
        hide_env_values = true
    )]
    client_key: Option<PathBuf>,
}

impl Attached {
    /// Returns a client of the server that `--server` names, or else of the server that has the
    /// database open.
    ///
    /// # Errors
    /// When `--server` is not given and no server has the database open. Otherwise the errors of
    /// [`server`](Self::server).
    pub(super) fn client(&self) -> Result<JobsClient> {
        let data = &self.location.data;
        let no_server = || {
            CliError::Usage(format!(
                "no server has {} open: start ebb serve, or name a server with --server URL",
                data.display()
            ))
        };
        Ok(self.server()?.ok_or_else(no_server)?)
    }

    /// Returns a client of the server that `--server` names, or else of the server that has the
    /// database open; `None` if there is neither.
    ///
    /// # Errors
    /// With `--server`, when the URL, the token or a file of TLS is invalid, or when there is a
    /// certificate without its key, or the reverse. The client does not connect yet, so an
    /// unreachable server is no error here. Without `--server`, when the system refuses the
    /// connection, such as to another user's server.
    pub(super) fn server(&self) -> Result<Option<JobsClient>> {
        Ok(match &self.server {
            Some(url) => {
                let token = std::env::var("EBB_TOKEN").ok();
                Some(JobsClient::at(url, token, &self.tls()?)?)
            }
            None => JobsClient::of(&self.location.data)?,
        })
    }

    /// Returns the files of TLS that the options name.
    ///
    /// # Errors
    /// When there is a certificate of the client without its key, or the reverse.
    fn tls(&self) -> Result<ClientTls, CliError> {
        let certificate = match (&self.client_cert, &self.client_key) {
            (Some(chain), Some(key)) => Some(ClientCertificate {
                chain: chain.clone(),
                key: key.clone(),
            }),
            (None, None) => None,
            (Some(chain), None) => {
                return Err(CliError::Usage(format!(
                    "--client-cert is {}, but a certificate needs its key: name the file of the key \
                     by --client-key, or EBB_CLIENT_KEY",
                    chain.display()
                )));
            }
            (None, Some(key)) => {
                return Err(CliError::Usage(format!(
                    "--client-key is {}, but a key needs its certificate: name the file of the \
                     certificate by --client-cert, or EBB_CLIENT_CERT",
                    key.display()
                )));
            }
        };
        Ok(ClientTls {
            authorities: self.server_ca.clone(),
            certificate,
        })
    }

    /// Returns true if `--server` names a server by its address.
    pub(super) fn names_server(&self) -> bool {
        self.server.is_some()
    }

    /// Returns the place of a backup, in the form that a request to the server contains. Without
    /// `--server`, this is the absolute path of `path`. With `--server`, `path` stays as it is: a
    /// relative path is the name of a backup below the server's `--backup-root`.
    ///
    /// # Errors
    /// When the path is not UTF-8. Without `--server`, also when it is empty.
    pub(super) fn backup_place(&self, path: &Path) -> Result<BackupPlace> {
        let path = match &self.server {
            Some(_) => path.to_path_buf(),
            None => std::path::absolute(path).context("the path of the backup")?,
        };
        let Some(text) = path.to_str().map(str::to_owned) else {
            let text = format!("the path {} is not UTF-8", path.display());
            return Err(CliError::Usage(text).into());
        };
        Ok(if path.is_absolute() {
            BackupPlace {
                name: None,
                directory: Some(text),
            }
        } else {
            BackupPlace {
                name: Some(text),
                directory: None,
            }
        })
    }
}

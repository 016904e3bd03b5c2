//! Values that follow from several settings: the exposure to other machines, the limits of memory, and the
//! options of TLS.

use ebb_cql_server::serve::TlsOptions;
use ebb_server::memory::MemoryLimits;

use super::authentication::Authentication;
use super::fields::Settings;
use crate::error::CliError;
use crate::listening::is_open_to_others;

impl Settings {
    /// Returns whether clients on other machines may do everything without logging in.
    pub(in crate::serve) fn is_open_to_others(&self) -> bool {
        is_open_to_others(self.cql) && self.authentication == Authentication::None
    }

    /// Returns whether other machines can connect over HTTP.
    pub(in crate::serve) fn is_http_open_to_others(&self) -> bool {
        self.http.is_some_and(is_open_to_others)
    }

    /// Divides the memory of the server among its uses. `machine_bytes` is the memory of the machine, if it
    /// is known: the default of the setting `memory` follows from it.
    pub(in crate::serve) fn memory_limits(&self, machine_bytes: Option<u64>) -> MemoryLimits {
        let memtables_bytes = self.memtables_bytes.map_or(0, |bytes| bytes.as_u64());
        let all_bytes = match self.memory {
            Some(bytes) => bytes.as_u64(),
            None => MemoryLimits::default_bytes(machine_bytes, memtables_bytes),
        };
        MemoryLimits::of(all_bytes, self.request_bytes_max.as_u64())
    }

    /// Returns the options of TLS, if the settings have any.
    ///
    /// # Errors
    /// When a setting needs another that is missing.
    pub(in crate::serve) fn tls_options(&self) -> Result<Option<TlsOptions>, CliError> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            let given = [
                ("tls-cert", self.tls_cert.is_some()),
                ("tls-key", self.tls_key.is_some()),
                ("tls-client-ca", self.tls_client_ca.is_some()),
                ("tls-client-optional", self.tls_client_optional),
                ("tls-optional", self.tls_optional),
            ];
            return match given.iter().find(|(_, is_given)| *is_given) {
                None => Ok(None),
                Some((name, _)) => {
                    let text = format!("{name} is given, but TLS needs both tls-cert and tls-key");
                    Err(CliError::Usage(text))
                }
            };
        };
        if self.tls_client_optional && self.tls_client_ca.is_none() {
            let text = "tls-client-optional needs tls-client-ca";
            return Err(CliError::Usage(text.into()));
        }
        Ok(Some(TlsOptions {
            certificate: certificate.clone(),
            key: key.clone(),
            client_authorities: self.tls_client_ca.clone(),
            is_client_optional: self.tls_client_optional,
            is_optional: self.tls_optional,
        }))
    }
}

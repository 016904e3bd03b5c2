//! The certificates of listeners: when they expire.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::sheet::Sheet;

/// The metric with the time at which a certificate expires. Several listeners may present the certificate.
pub struct CertificateCollector {
    listeners: Vec<&'static str>,
    expires_unix_s: Box<dyn Fn() -> Option<u64> + Send + Sync>,
}

impl CertificateCollector {
    /// Creates the metric for the certificate of these listeners, each `cql` or `http`. `expires_unix_s`
    /// returns the time at which the certificate expires, in seconds since 1970. While it returns `None`,
    /// there is no metric.
    pub fn new(
        listeners: Vec<&'static str>,
        expires_unix_s: impl Fn() -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        Self {
            listeners,
            expires_unix_s: Box::new(expires_unix_s),
        }
    }
}

impl fmt::Debug for CertificateCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CertificateCollector")
            .field(&self.listeners)
            .finish()
    }
}

impl Collector for CertificateCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(expires_unix_s) = (self.expires_unix_s)() else {
            return Ok(());
        };
        let listeners = self.listeners.iter();
        let values = listeners.map(|&name| ([("listener", name)], expires_unix_s as f64));
        Sheet(encoder).gauges(
            "certificate_expiry_timestamp_seconds",
            "Time since 1970 at which the first certificate of a listener's chain expires",
            values,
        )
    }
}

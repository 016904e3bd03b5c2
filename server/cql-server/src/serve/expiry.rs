//! The time at which a certificate expires.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, Error, KeyUsage};

/// Returns the time at which a certificate expires, in seconds since the Unix epoch; `None` if the
/// certificate is malformed.
///
/// webpki has no function for this time, but its error for an expired certificate contains the
/// time. So the function verifies the certificate at the latest possible time, when every
/// certificate is expired. webpki checks the time first, so that no authority is needed.
pub(super) fn expiry_unix_s(certificate: &CertificateDer<'_>) -> Option<u64> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let end_of_time = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
    let usage = KeyUsage::server_auth();
    let verified = certificate.verify_for_usage(&[], &[], &[], end_of_time, usage, None, None);
    match verified.err()? {
        Error::CertExpired { not_after, .. } => Some(not_after.as_secs()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn the_expiry_of_server_and_authority_certificates_is_read() {
        for (year, expected) in [(2031, 1_927_843_200), (4096, 67_092_969_600)] {
            for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
                let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
                params.not_after = date_time_ymd(year, 2, 3);
                params.is_ca = is_ca;
                let signed = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
                assert_eq!(expiry_unix_s(signed.der()), Some(expected), "{year}");
            }
        }
        assert_eq!(expiry_unix_s(&CertificateDer::from(vec![48, 0])), None);
    }
}

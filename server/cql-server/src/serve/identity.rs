//! The identity in a client's certificate.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The scheme of SPIFFE IDs (SPIFFE-ID, section 2).
const SCHEME: &str = "spiffe://";

/// Returns the SPIFFE ID of a verified certificate: its subject alternative name that begins with
/// `spiffe://`. `None` if there is none, or if there are several, which makes the certificate
/// invalid (X509-SVID, section 2).
pub(super) fn identity(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let names = certificate.valid_uri_names();
    let mut identities = names.filter(|name| name.starts_with(SCHEME));
    let first = identities.next()?;
    match identities.next() {
        None => Some(first.to_owned()),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    #[test]
    fn the_identity_is_the_only_spiffe_name() {
        for (names, expected) in [
            (&[][..], None),
            (&["https://x/a"], None),
            (&["SPIFFE://x/a"], None),
            (&["spiffe://x/a"], Some("spiffe://x/a")),
            (&["https://x/a", "spiffe://x/b"], Some("spiffe://x/b")),
            (&["spiffe://x/a", "spiffe://x/b"], None),
        ] {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            let uri = |name: &&str| SanType::URI((*name).try_into().unwrap());
            params.subject_alt_names.extend(names.iter().map(uri));
            let signed = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            assert_eq!(identity(signed.der()).as_deref(), expected, "{names:?}");
        }
    }
}

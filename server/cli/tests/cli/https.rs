//! Commands that reach a server over HTTPS. The servers listen at 0.0.0.0, because HTTP on loopback has no TLS.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::json;

use crate::place::{Done, Place};
use crate::serving::Server;

/// Creates an authority of this name, and writes its certificate to `AUTHORITY.pem`. For each of `names`, writes
/// to `NAME.pem` a certificate for `localhost` that the authority signed, and to `NAME.key` its key.
fn certify(place: &Place, authority: &str, names: &[&str]) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let name = &mut params.distinguished_name;
    name.push(DnType::CommonName, authority);
    let key = KeyPair::generate().unwrap();
    let itself = params.self_signed(&key).unwrap();
    place.write(&format!("{authority}.pem"), itself.pem());
    let issuer = Issuer::from_params(&params, &key);
    for name in names {
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &issuer).unwrap();
        place.write(&format!("{name}.pem"), signed.pem());
        place.write(&format!("{name}.key"), key.serialize_pem());
    }
}

/// A server with TLS, and a token for it.
struct Encrypted {
    place: Place,
    server: Server,
    url: String,
    token: String,
}

impl Encrypted {
    /// Starts a server with the certificate `server.pem` in `place`.
    #[track_caller]
    fn start(place: Place, more: &str) -> Self {
        let tls = "--tls-cert server.pem --tls-key server.key";
        let server = Server::start(&place, &format!("--http 0.0.0.0:0 {tls} {more}"));
        let token = place.ebb("token create --scope read").ok();
        let (_, port) = server.http().rsplit_once(':').unwrap();
        let url = format!("https://localhost:{port}");
        Self {
            place,
            server,
            url,
            token: token.trim().to_owned(),
        }
    }

    /// Lists the jobs of the server at `url`, with `options` for TLS.
    #[track_caller]
    fn list_at(&self, url: &str, options: &str) -> Done {
        let line = format!("jobs --json --server {url} {options}");
        let mut command = self.place.command(&line);
        Done::of(command.env("EBB_TOKEN", &self.token))
    }

    #[track_caller]
    fn list(&self, options: &str) -> Done {
        self.list_at(&self.url, options)
    }
}

#[test]
fn a_command_reaches_a_server_by_https_with_its_authority_and_a_token() {
    let place = Place::new();
    certify(&place, "ca", &["server"]);
    certify(&place, "other", &[]);
    let encrypted = Encrypted::start(place, "");
    assert_eq!(encrypted.list("--server-ca ca.pem").json(), json!([]));
    let told = encrypted.list("").fails(2);
    assert!(told.contains("--server-ca"), "{told}");
    let told = encrypted.list("--server-ca other.pem").fails(1);
    assert!(told.contains("UnknownIssuer"), "{told}");
    let plain = encrypted.url.replace("https", "http");
    let told = encrypted.list_at(&plain, "").fails(1);
    assert!(told.contains("does not answer"), "{told}");
    let no_token = Encrypted {
        token: String::new(),
        ..encrypted
    };
    let told = no_token.list("--server-ca ca.pem").fails(2);
    assert!(told.contains("EBB_TOKEN"), "{told}");
    assert_eq!(no_token.server.stop(), Some(0));
}

/// Regression: no command could present a certificate, so with `--tls-client-ca` none reached the server.
#[test]
fn a_server_that_requires_certificates_of_clients_is_reached_with_one() {
    let place = Place::new();
    certify(&place, "ca", &["server"]);
    certify(&place, "clients", &["ada"]);
    certify(&place, "other", &["stranger"]);
    let encrypted = Encrypted::start(place, "--tls-client-ca clients.pem");
    let list = |options: &str| encrypted.list(&format!("--server-ca ca.pem {options}"));
    // The advice depends on the server's alert. The end of the connection may overtake it.
    let told = list("").fails(1);
    assert!(told.contains("does not answer"), "{told}");
    let listed = list("--client-cert ada.pem --client-key ada.key");
    assert_eq!(listed.json(), json!([]));
    let mut by_environment = encrypted.place.command("jobs --json");
    by_environment
        .env("EBB_SERVER", &encrypted.url)
        .env("EBB_SERVER_CA", "ca.pem")
        .env("EBB_CLIENT_CERT", "ada.pem")
        .env("EBB_CLIENT_KEY", "ada.key")
        .env("EBB_TOKEN", &encrypted.token);
    assert_eq!(Done::of(&mut by_environment).json(), json!([]));

    let told = list("--client-cert stranger.pem --client-key stranger.key").fails(1);
    assert!(told.contains("does not answer"), "{told}");
    let told = list("--client-cert ada.pem").fails(2);
    assert!(told.contains("by --client-key"), "{told}");
    let told = list("--client-key ada.key").fails(2);
    assert!(told.contains("by --client-cert"), "{told}");
    let told = list("--client-cert ada.pem --client-key none.key").fails(2);
    assert!(told.contains("none.key: No such file"), "{told}");
    let told = list("--client-cert ada.pem --client-key stranger.key").fails(2);
    assert!(told.contains("ada.pem and stranger.key"), "{told}");
    assert_eq!(encrypted.server.stop(), Some(0));
}

//! Clients over TLS, complete handshakes and incomplete ones.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use super::*;
use crate::serve::{Tls, TlsOptions};

/// A certificate authority, and the certificates that it signed, as files.
pub(super) struct Authority {
    directory: TempDir,
    key: KeyPair,
    params: CertificateParams,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = Self {
            directory: TempDir::new().unwrap(),
            key,
            params,
        };
        let itself = authority.params.self_signed(&authority.key).unwrap();
        fs::write(authority.path("ca.pem"), itself.pem()).unwrap();
        authority.sign("server");
        authority
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Like [`sign_as`](Self::sign_as), without a URI.
    fn sign(&self, name: &str) {
        self.sign_as(name, None);
    }

    /// Signs a certificate for `localhost`, and writes it and its key to `name.pem` and `name.key`.
    /// If `identity` is given, the certificate also has this URI as a name of its owner.
    pub(super) fn sign_as(&self, name: &str, identity: Option<&str>) {
        let issuer = Issuer::from_params(&self.params, &self.key);
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let identity = identity.map(|uri| SanType::URI(uri.try_into().unwrap()));
        params.subject_alt_names.extend(identity);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &issuer).unwrap();
        fs::write(self.path(&format!("{name}.pem")), signed.pem()).unwrap();
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    pub(super) fn options(&self) -> TlsOptions {
        TlsOptions {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            client_authorities: None,
            is_client_optional: false,
            is_optional: false,
        }
    }

    fn tls(&self) -> Arc<Tls> {
        Arc::new(Tls::load(self.options()).unwrap())
    }

    pub(super) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.path("ca.pem")) {
            roots.add(certificate).unwrap();
        }
        roots
    }

    /// Returns the configuration of a client that trusts the authority. The client presents the
    /// certificate named `shows`, or none.
    pub(super) fn client(&self, shows: Option<&str>) -> ClientConfig {
        match shows {
            None => ClientConfig::builder()
                .with_root_certificates(self.roots())
                .with_no_client_auth(),
            Some(name) => self.client_signed_by(self, name),
        }
    }

    /// Returns the configuration of a client that trusts the authority, and presents the
    /// certificate named `shows` that `signer` signed.
    pub(super) fn client_signed_by(&self, signer: &Self, shows: &str) -> ClientConfig {
        let chain = certificates(&signer.path(&format!("{shows}.pem")));
        let key = signer.path(&format!("{shows}.key"));
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let builder = ClientConfig::builder().with_root_certificates(self.roots());
        builder.with_client_auth_cert(chain, key).unwrap()
    }
}

pub(super) fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
    (CertificateDer::pem_file_iter(path).unwrap())
        .map(Result::unwrap)
        .collect()
}

pub(super) type Encrypted = StreamOwned<ClientConnection, TcpStream>;

pub(super) fn connected(server: &CqlServer, config: ClientConfig) -> Encrypted {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, Client::raw(server).stream)
}

pub(super) fn encrypted(server: &CqlServer, config: ClientConfig) -> Client<Encrypted> {
    Client::over(connected(server, config)).started()
}

/// Returns the error with which the server rejects a client that has this configuration.
pub(super) fn refusal(server: &CqlServer, config: ClientConfig) -> String {
    let mut stream = connected(server, config);
    let told = stream
        .write_all(&[4, 0, 0, 0, 5, 0, 0, 0, 0])
        .and_then(|()| stream.read_exact(&mut [0; 9]));
    told.unwrap_err().to_string()
}

fn serving_with(tls: &Arc<Tls>) -> Served {
    server(ServeOptions {
        tls: Some(tls.clone()),
        ..options()
    })
    .1
}

#[test]
fn requests_and_large_responses_pass_through_both_versions_of_tls() {
    let authority = Authority::new();
    let (fake, server) = server(ServeOptions {
        tls: Some(authority.tls()),
        ..options()
    });
    fake.gate.open();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = ClientConfig::builder_with_protocol_versions(&[version])
            .with_root_certificates(authority.roots())
            .with_no_client_auth();
        let mut client = encrypted(&server, config);
        // More than the sockets hold, and more than a record.
        client.query(1, "scan 3000000");
        let answer = client.receive();
        assert_eq!(answer.0, 1);
        // Many requests at once, as drivers send them.
        for stream in 0..200 {
            client.query(stream, "which");
        }
        assert!((0..200).eq((0..200).map(|_| client.receive().0)));
        let text = "x".repeat(300_000);
        client.send(
            7,
            &Request::Prepare {
                text: &text,
                keyspace: None,
            },
        );
        assert!(matches!(client.response(), Response::Prepared(_)));
    }
}

#[test]
fn clients_without_the_required_certificate_are_rejected() {
    let authority = Authority::new();
    authority.sign("known");
    let stranger = Authority::new();
    stranger.sign("unknown");
    let named = |is_client_optional| {
        let tls = Tls::load(TlsOptions {
            client_authorities: Some(authority.path("ca.pem")),
            is_client_optional,
            ..authority.options()
        });
        serving_with(&Arc::new(tls.unwrap()))
    };
    let unknown = || authority.client_signed_by(&stranger, "unknown");
    let server = named(false);
    encrypted(&server, authority.client(Some("known")));
    let refused = refusal(&server, authority.client(None));
    assert!(refused.contains("CertificateRequired"), "{refused}");
    let refused = refusal(&server, unknown());
    assert!(refused.contains("alert"), "{refused}");
    let server = named(true);
    encrypted(&server, authority.client(Some("known")));
    encrypted(&server, authority.client(None));
    let refused = refusal(&server, unknown());
    assert!(refused.contains("alert"), "{refused}");
}

#[test]
fn new_files_apply_to_new_connections_and_bad_ones_change_nothing() {
    let (old, new) = (Authority::new(), Authority::new());
    let tls = old.tls();
    let server = serving_with(&tls);
    let mut early = encrypted(&server, old.client(None));
    assert!(!tls.reload_if_changed().unwrap());
    // The key alone does not fit the certificate. That is reported once.
    fs::copy(new.path("server.key"), old.path("server.key")).unwrap();
    let error = tls.reload_if_changed().unwrap_err().to_string();
    assert!(
        error.contains("the key is not that of the certificate"),
        "{error}"
    );
    assert!(!tls.reload_if_changed().unwrap());
    assert!(tls.reload().is_err());
    encrypted(&server, old.client(None));
    fs::copy(new.path("server.pem"), old.path("server.pem")).unwrap();
    assert!(tls.reload_if_changed().unwrap());
    encrypted(&server, new.client(None));
    let refused = refusal(&server, old.client(None));
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    early.assert_served(1);
    fs::remove_file(old.path("server.pem")).unwrap();
    assert!(tls.reload_if_changed().is_err());
    assert!(!tls.reload_if_changed().unwrap(), "reported once");
    encrypted(&server, new.client(None));
}

#[test]
fn the_first_certificate_of_the_chain_to_expire_counts() {
    let authority = Authority::new();
    let write = |years: &[i32]| {
        let chain = years.iter().enumerate().map(|(at, &year)| {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_after = date_time_ymd(year, 1, 1);
            let key = KeyPair::generate().unwrap();
            if at == 0 {
                fs::write(authority.path("server.key"), key.serialize_pem()).unwrap();
            }
            params.self_signed(&key).unwrap().pem()
        });
        fs::write(authority.path("server.pem"), chain.collect::<String>()).unwrap();
    };
    write(&[2036, 2035]);
    let tls = authority.tls();
    assert_eq!(tls.expires_unix_s(), Some(2_051_222_400));
    write(&[2037]);
    assert!(tls.reload_if_changed().unwrap());
    assert_eq!(tls.expires_unix_s(), Some(2_114_380_800));
    // A bad file changes nothing.
    fs::write(authority.path("server.pem"), "").unwrap();
    assert!(tls.reload().is_err());
    assert_eq!(tls.expires_unix_s(), Some(2_114_380_800));
}

#[test]
fn new_authorities_apply_to_new_clients() {
    let (old, new) = (Authority::new(), Authority::new());
    old.sign("early");
    new.sign("late");
    fs::copy(old.path("ca.pem"), old.path("clients.pem")).unwrap();
    let tls = Tls::load(TlsOptions {
        client_authorities: Some(old.path("clients.pem")),
        is_client_optional: true,
        ..old.options()
    });
    let tls = Arc::new(tls.unwrap());
    let server = serving_with(&tls);
    // A client of the new authority, which trusts the authority of the server.
    let late = || old.client_signed_by(&new, "late");
    let mut early = encrypted(&server, old.client(Some("early")));
    assert!(refusal(&server, late()).contains("alert"));
    fs::copy(new.path("ca.pem"), old.path("clients.pem")).unwrap();
    assert!(tls.reload_if_changed().unwrap());
    encrypted(&server, late());
    encrypted(&server, old.client(None));
    assert!(refusal(&server, old.client(Some("early"))).contains("alert"));
    early.assert_served(1);
}

#[test]
fn an_error_names_the_file_and_what_is_wrong() {
    let authority = Authority::new();
    let write = |name: &str, text: &str| {
        let path = authority.path(name);
        fs::write(&path, text).unwrap();
        path
    };
    let right = authority.options();
    let key_text = fs::read_to_string(&right.key).unwrap();
    let loading = |options: TlsOptions| Tls::load(options).unwrap_err().to_string();
    let with_certificate = |certificate| TlsOptions {
        certificate,
        ..right.clone()
    };
    let with_key = |key| TlsOptions {
        key,
        ..right.clone()
    };
    let cases = [
        (with_certificate("absent.pem".into()), "absent.pem: No such"),
        (
            with_certificate(write("empty.pem", "")),
            "empty.pem: there is no certificate in PEM",
        ),
        (
            with_certificate(write("key.pem", &key_text)),
            "key.pem: there is no certificate in PEM",
        ),
        (
            with_certificate(write(
                "bad.pem",
                "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
            )),
            "bad.pem: it is no PEM",
        ),
        (
            with_key(right.certificate.clone()),
            "server.pem: there is no private key in PEM, or it is encrypted",
        ),
        (
            with_key(write(
                "other.key",
                &KeyPair::generate().unwrap().serialize_pem(),
            )),
            "other.key: the key is not that of the certificate",
        ),
        (
            TlsOptions {
                client_authorities: Some(write("none.pem", "")),
                ..right.clone()
            },
            "none.pem: there is no certificate in PEM",
        ),
    ];
    for (options, expected) in cases {
        let error = loading(options);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_plain_client_gets_an_error_or_is_accepted() {
    let authority = Authority::new();
    let server = serving_with(&authority.tls());
    let mut client = Client::raw(&server);
    client.send(0, &Request::Options);
    let error = client.error();
    assert_eq!(error.kind, ErrorKind::Protocol);
    assert_eq!(error.message, "this port speaks TLS only");
    assert!(client.try_receive().is_none(), "the connection ends");
    let optional = Tls::load(TlsOptions {
        is_optional: true,
        ..authority.options()
    });
    let server = serving_with(&Arc::new(optional.unwrap()));
    Client::new(&server);
    encrypted(&server, authority.client(None));
}

#[test]
fn tls_on_a_plain_port_gets_a_protocol_error_and_disturbs_no_other() {
    let authority = Authority::new();
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    let refused = refusal(&server, authority.client(None));
    assert!(refused.contains("InvalidContentType"), "{refused}");
    client.assert_served(1);
}

/// Opens 64 connections, more than the handshakes that may run at once. They send nothing, one
/// byte, half of the client's hello, or all of it, and then nothing more.
fn half_handshakes(authority: &Authority, server: &CqlServer) -> Vec<Client> {
    let mut hello = Vec::new();
    let name = ServerName::try_from("localhost").unwrap();
    let config = Arc::new(authority.client(None));
    let mut connection = ClientConnection::new(config, name).unwrap();
    connection.write_tls(&mut hello).unwrap();
    let lengths = [0, 1, hello.len() / 2, hello.len()];
    let lengths = lengths.iter().cycle().take(64);
    let half = |bytes: &usize| {
        let mut client = Client::raw(server);
        client.stream.write_all(&hello[..*bytes]).unwrap();
        client
    };
    lengths.map(half).collect()
}

#[test]
fn incomplete_handshakes_delay_no_other_client() {
    let authority = Authority::new();
    let (_, server) = server(ServeOptions {
        tls: Some(authority.tls()),
        ..options()
    });
    let half = half_handshakes(&authority, &server);
    // Nonsense that looks like TLS is rejected at once.
    let mut nonsense = Client::raw(&server);
    nonsense.stream.write_all(&[0x16; 4096]).unwrap();
    let mut client = encrypted(&server, authority.client(None));
    client.assert_served(1);
    let open = server.counters().counts().connections;
    assert!(open > half.len() as u64, "{open} connections are open");
}

#[test]
fn incomplete_handshakes_are_closed_after_the_startup_timeout() {
    let authority = Authority::new();
    let (_, server) = server(ServeOptions {
        tls: Some(authority.tls()),
        startup_timeout: Duration::from_millis(300),
        ..options()
    });
    let mut client = wait::until_some("a client to start in time", || {
        Client::over(connected(&server, authority.client(None))).try_started()
    });
    for mut half in half_handshakes(&authority, &server) {
        // A connection that has sent a whole hello gets its response before it is closed.
        drop(half.stream.read_to_end(&mut Vec::new()));
    }
    client.assert_served(2);
    until_connections(&server, 1);
}

#[test]
fn a_server_that_stops_does_not_wait_for_a_handshake() {
    let authority = Authority::new();
    let server = serving_with(&authority.tls());
    let _silent = Client::raw(&server);
    wait::until("the client to be accepted", || {
        server.counters().counts().connections == 1
    });
    assert!(server.drain(HANG));
}

//! Clients that log in with the identity in their certificates.

use std::fs;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, HandshakeKind};

use super::login::server;
use super::tls::{Authority, Encrypted, certificates, connected, encrypted, refusal};
use super::*;
use crate::executor::Executor;
use crate::serve::{Tls, TlsOptions};

const ADA: &str = "spiffe://example.org/ada";

/// Starts a server with the roles `root` and `ada`. It accepts clients with a certificate signed by
/// `authority`, and clients without a certificate or without TLS.
fn serving(authority: &Authority) -> (Arc<Executor>, CqlServer, Arc<Tls>) {
    fs::copy(authority.path("ca.pem"), authority.path("clients.pem")).unwrap();
    let tls = Tls::load(TlsOptions {
        client_authorities: Some(authority.path("clients.pem")),
        is_client_optional: true,
        is_optional: true,
        ..authority.options()
    });
    let tls = Arc::new(tls.unwrap());
    let (executor, server) = server(ServeOptions {
        tls: Some(tls.clone()),
        ..options()
    });
    (executor, server, tls)
}

/// Returns the name of the role that a client without permissions has logged in as.
fn role_of(client: &mut Client<Encrypted>) -> String {
    let message = client.refused("SELECT * FROM ks.t").message;
    let name = message.strip_prefix("User ").and_then(|rest| {
        rest.strip_suffix(" has no SELECT permission on <table ks.t> or any of its parents")
    });
    name.unwrap_or_else(|| panic!("{message}")).to_owned()
}

#[test]
fn a_client_with_the_identity_of_a_role_needs_no_password() {
    let authority = Authority::new();
    authority.sign_as("ada", Some(ADA));
    let (_, server, _) = serving(&authority);
    let mut root = Client::logged_in(&server, "root");
    let ada = || authority.client(Some("ada"));
    // No role has the identity yet.
    Client::over(connected(&server, ada())).expect_authenticate();
    root.run(&format!("ADD IDENTITY '{ADA}' TO ROLE ada"));
    let mut client = encrypted(&server, ada());
    assert_eq!(role_of(&mut client), "ada");
    root.run("GRANT SELECT ON ks.t TO ada");
    client.run("SELECT * FROM ks.t");
    let tls12 = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS12]);
    let tls12 = tls12.with_root_certificates(authority.roots());
    let key = PrivateKeyDer::from_pem_file(authority.path("ada.key")).unwrap();
    let chain = certificates(&authority.path("ada.pem"));
    let mut late = encrypted(&server, tls12.with_client_auth_cert(chain, key).unwrap());
    late.run("SELECT * FROM ks.t");
    // The session goes on, but a later client needs a password.
    root.run(&format!("DROP IDENTITY '{ADA}'"));
    client.run("SELECT * FROM ks.t");
    Client::over(connected(&server, ada())).expect_authenticate();
    root.run(&format!("ADD IDENTITY '{ADA}' TO ROLE ada"));
    encrypted(&server, ada());
    // Dropping the role ends its identities and sessions.
    root.run("DROP ROLE ada");
    let error = client.refused("SELECT * FROM system.local");
    assert_eq!(error.message, "Role ada doesn't exist any more");
    root.run("CREATE ROLE ada WITH LOGIN = true AND PASSWORD = 'ada'");
    Client::over(connected(&server, ada())).expect_authenticate();
}

#[test]
fn clients_without_the_identity_of_a_role_need_a_password() {
    let authority = Authority::new();
    authority.sign_as("bob", Some("spiffe://example.org/bob"));
    authority.sign_as("nobody", None);
    let (_, server, _) = serving(&authority);
    let mut root = Client::logged_in(&server, "root");
    root.run(&format!("ADD IDENTITY '{ADA}' TO ROLE ada"));
    for shows in [Some("bob"), Some("nobody"), None] {
        let mut client =
            Client::over(connected(&server, authority.client(shows))).expect_authenticate();
        let error = client.refused("SELECT * FROM ks.t");
        assert_eq!(error.kind, ErrorKind::Protocol);
        client.log_in_as("ada");
        assert_eq!(role_of(&mut client), "ada");
    }
}

#[test]
fn an_identity_signed_by_another_authority_is_ignored() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    stranger.sign_as("ada", Some(ADA));
    let (_, server, _) = serving(&authority);
    let mut root = Client::logged_in(&server, "root");
    root.run(&format!("ADD IDENTITY '{ADA}' TO ROLE ada"));
    let refused = refusal(&server, authority.client_signed_by(&stranger, "ada"));
    assert!(refused.contains("alert"), "{refused}");
}

#[test]
fn a_role_without_login_is_rejected_until_login_is_granted() {
    let authority = Authority::new();
    authority.sign_as("robot", Some("spiffe://example.org/robot"));
    let (_, server, _) = serving(&authority);
    let mut root = Client::logged_in(&server, "root");
    root.run("CREATE ROLE robot");
    root.run("ADD IDENTITY 'spiffe://example.org/robot' TO ROLE robot");
    let mut robot = Client::over(connected(&server, authority.client(Some("robot"))));
    let Response::Error(error) = robot.start() else {
        panic!("it may not log in");
    };
    assert_eq!(error.kind, ErrorKind::BadCredentials);
    assert_eq!(error.message, "robot is not permitted to log in");
    robot.query(1, "SELECT * FROM system.local");
    assert_eq!(robot.error().kind, ErrorKind::Protocol);
    root.run("ALTER ROLE robot WITH LOGIN = true");
    assert_eq!(robot.start(), Response::Ready);
    assert_eq!(role_of(&mut robot), "robot");
    root.run("ALTER ROLE robot WITH LOGIN = false");
    let error = robot.refused("SELECT * FROM system.local");
    assert_eq!(error.message, "robot is not permitted to log in");
}

/// Sessions of clients with certificates are not resumed. Otherwise the server would not notice
/// that their authority is no longer trusted, or that a certificate has expired.
#[test]
fn certificates_are_verified_for_each_connection() {
    let (authority, other) = (Authority::new(), Authority::new());
    authority.sign_as("ada", Some(ADA));
    let (_, server, tls) = serving(&authority);
    let mut root = Client::logged_in(&server, "root");
    root.run(&format!("ADD IDENTITY '{ADA}' TO ROLE ada"));
    let config = authority.client(Some("ada"));
    let kind = |config: &ClientConfig| {
        let client = encrypted(&server, config.clone());
        client.stream.conn.handshake_kind().unwrap()
    };
    for _ in 0..3 {
        assert_eq!(kind(&config), HandshakeKind::Full);
    }
    fs::copy(other.path("ca.pem"), authority.path("clients.pem")).unwrap();
    assert!(tls.reload_if_changed().unwrap());
    assert!(refusal(&server, config).contains("alert"));
}

/// A server without client authorities resumes sessions.
#[test]
fn sessions_without_certificates_are_resumed() {
    let authority = Authority::new();
    let tls = Arc::new(Tls::load(authority.options()).unwrap());
    let (_, server) = super::server(ServeOptions {
        tls: Some(tls),
        ..options()
    });
    let config = authority.client(None);
    let kind = |config: &ClientConfig| {
        let client = encrypted(&server, config.clone());
        client.stream.conn.handshake_kind().unwrap()
    };
    assert_eq!(kind(&config), HandshakeKind::Full);
    assert_eq!(kind(&config), HandshakeKind::Resumed);
}

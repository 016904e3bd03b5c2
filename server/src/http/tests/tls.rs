//! The port where clients speak TLS.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};

use super::*;

#[test]
fn over_tls_a_request_is_answered_and_a_cookie_goes_no_other_way() {
    let dir = tempfile::tempdir().unwrap();
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = Arc::new(
        config
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap(),
    );
    let options = HttpOptions {
        address: Some((Ipv4Addr::LOCALHOST, 0).into()),
        tls: Some(TlsSource::new(move || Arc::clone(&config))),
        ..HttpOptions::default()
    };
    let (_node, server) = serve_with(dir.path(), options);
    let token = token(dir.path(), Scope::Read);
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots);
    let client = Arc::new(client.with_no_client_auth());

    let body = serde_json::json!({"token": token.reveal()}).to_string();
    let request = format!(
        "POST /v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(client, name).unwrap();
    let mut stream = StreamOwned::new(connection, connect(&server));
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    // The server may close the connection without a TLS close notification.
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("; Path=/; Secure\r\n"), "{answer}");
    // Browsers refuse a cookie of this name from a server without TLS.
    let port = server.address().unwrap().port();
    let name = format!("set-cookie: __Host-ebb_session_{port}=");
    assert!(answer.contains(&name), "{answer}");

    // A client that trusts the server's authority, then one that trusts another.
    let url = format!("https://localhost:{port}");
    let file = dir.path().join("ca.pem");
    fs::write(&file, cert.pem()).unwrap();
    let tls = ClientTls {
        authorities: Some(file.clone()),
        certificate: None,
    };
    let ask = || {
        JobsClient::at(&url, Some(token.reveal()), &tls)
            .unwrap()
            .list()
    };
    assert_eq!(ask().unwrap(), []);
    let other = generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    fs::write(&file, other.cert.pem()).unwrap();
    assert!(matches!(ask(), Err(ClientError::Gone { .. })));

    let mut plain = connect(&server);
    plain.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "no response in the clear");
}

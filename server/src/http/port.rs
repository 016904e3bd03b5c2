//! The client's end of a connection over TCP: `http://HOST:PORT`, or `https://HOST:PORT` with its files of
//! TLS.

use std::fmt;
use std::io::{self, Error, ErrorKind};
use std::time::Duration;

use axum::http::uri::Authority;
use hyper::header::HeaderValue;
use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::client_tls::ClientTls;

/// The time after which the kernel probes a silent server. NAT gateways forget a silent connection after some
/// minutes.
const PROBE_AFTER: Duration = Duration::from_secs(60);
/// The time between two keepalive probes of a silent server.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// The number of keepalive probes without an answer after which the connection ends.
const PROBES_MAX: u32 = 6;

/// The settings of a client for a server over TCP: the address, the token and TLS.
#[derive(Debug)]
pub(super) struct Port {
    /// The address of the server, `HOST:PORT`.
    pub address: String,
    pub token: Option<String>,
    encryption: Option<Encryption>,
}

/// The TLS configuration of a client.
struct Encryption {
    connector: TlsConnector,
    /// The name that the server's certificate must be valid for.
    name: ServerName<'static>,
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Encryption").field(&self.name).finish()
    }
}

/// A connection, plain or encrypted.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Port {
    /// Returns the settings for the server at `url` (`http://HOST:PORT` or `https://HOST:PORT`, where the
    /// port may be left out), with the `token` for it. Only `https` uses the files of `tls`.
    ///
    /// # Errors
    /// When `url` has another form, or is `https` and there are no authorities, or a file of `tls` cannot be
    /// read or has wrong contents. Also when the token cannot be part of a header.
    pub(super) fn at(url: &str, token: Option<String>, tls: &ClientTls) -> io::Result<Self> {
        let invalid = |text: &str| Error::new(ErrorKind::InvalidInput, text);
        let Some((is_encrypted, address)) = scheme_and_address(url) else {
            let text = "a server has an address like http://127.0.0.1:9043 or https://db.example, without a \
                        user or a path; the environment variable EBB_TOKEN has the token";
            return Err(invalid(text));
        };
        let is_unfit = |token: &String| HeaderValue::from_str(token).is_err();
        if token.as_ref().is_some_and(is_unfit) {
            let text = "the token has a character that no token of `ebb token create` has, for example a line \
                        break";
            return Err(invalid(text));
        }
        let encryption = if is_encrypted {
            let host = host_of(&address).to_owned();
            let name = ServerName::try_from(host).map_err(|error| invalid(&error.to_string()))?;
            let connector = tls.connector()?;
            Some(Encryption { connector, name })
        } else {
            None
        };
        Ok(Self {
            address,
            token,
            encryption,
        })
    }

    /// Connects to the server.
    ///
    /// # Errors
    /// When the connection or the TLS handshake fails, for example because the server does not listen, or its
    /// certificate is not signed by an authority that the client trusts.
    pub(super) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = self.open().await?;
        Ok(match &self.encryption {
            Some(Encryption { connector, name }) => {
                Box::new(connector.connect(name.clone(), stream).await?)
            }
            None => Box::new(stream),
        })
    }

    /// Opens the TCP connection. Requests have no timeout, because a backup may take hours. Instead, the
    /// kernel probes a silent server, because a server that lost its power or its network cannot close the
    /// connection.
    async fn open(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(&self.address).await?;
        sockopt::set_tcp_keepidle(&stream, PROBE_AFTER)?;
        sockopt::set_tcp_keepintvl(&stream, PROBE_EVERY)?;
        sockopt::set_tcp_keepcnt(&stream, PROBES_MAX)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        Ok(stream)
    }
}

/// Splits a URL into whether its scheme is `https`, and `HOST:PORT`, with the default port of the scheme if
/// the URL has none. Returns `None` if the scheme is neither `http` nor `https`, or if the URL has a user, a
/// path or an invalid port.
fn scheme_and_address(url: &str) -> Option<(bool, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let is_encrypted = scheme.eq_ignore_ascii_case("https");
    if !is_encrypted && !scheme.eq_ignore_ascii_case("http") {
        return None;
    }
    let authority: Authority = rest.trim_end_matches('/').parse().ok()?;
    let host = Some(authority.host()).filter(|host| !host.is_empty())?;
    // Behind a user the host is no prefix.
    let port = match authority.as_str().strip_prefix(host)? {
        "" | ":" if is_encrypted => 443,
        "" | ":" => 80,
        port => port.strip_prefix(':')?.parse::<u16>().ok()?,
    };
    Some((is_encrypted, format!("{host}:{port}")))
}

/// Returns a URL in the form for error messages: without the user name and password before the host.
pub(super) fn shown(url: &str) -> String {
    let behind_scheme = url.find("://").map_or(0, |at| at + "://".len());
    let (scheme, rest) = url.split_at(behind_scheme);
    let behind_user = rest.rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}{}", &rest[behind_user..])
}

/// Returns the host of an address `HOST:PORT`, or `HOST`; an IPv6 address without its brackets.
pub(super) fn host_of(address: &str) -> &str {
    match address.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => address.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tokio::runtime::Builder;

    use super::*;

    /// Regression: a command waited for ever for a server that had lost its power.
    #[test]
    fn the_kernel_probes_a_silent_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let port = Port::at(&url, None, &ClientTls::default()).unwrap();
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        let stream = runtime.block_on(port.open()).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), PROBE_AFTER);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), PROBE_EVERY);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), PROBES_MAX);
    }

    #[test]
    fn an_address_has_a_scheme_and_a_host_and_no_path() {
        let ports = [
            ("http://127.0.0.1:9043", false, "127.0.0.1:9043"),
            // Regression: an address without a port was good, but no connection to it.
            ("http://db/", false, "db:80"),
            ("HTTP://[::1]", false, "[::1]:80"),
            ("https://db.example", true, "db.example:443"),
            ("https://[::1]:9", true, "[::1]:9"),
        ];
        for (url, is_encrypted, address) in ports {
            let expected = Some((is_encrypted, address.to_owned()));
            assert_eq!(scheme_and_address(url), expected, "{url}");
        }
        let tls = ClientTls::default();
        for url in [
            "127.0.0.1:9043",
            "ftp://a",
            "http://",
            "http://:80",
            "http://a/b",
            "http://a?b",
            "http://a:99999",
            "http://a:b",
            "http://ada:secret@a:1",
            "http://a:1@a:1",
            "",
        ] {
            assert_eq!(scheme_and_address(url), None, "{url}");
            assert!(Port::at(url, None, &tls).is_err(), "{url}");
        }
        assert!(
            Port::at("https://a:1", None, &tls).is_err(),
            "no authorities"
        );
        assert_eq!(shown("http://ada:secret@a:1/b"), "http://a:1/b");
        assert_eq!(shown("ada:secret@a:1"), "a:1");
        assert_eq!(shown("http://a:1"), "http://a:1");
        // Regression: the error for a token with a line break named a server of another version.
        for (token, is_good) in [("ebb_1f3a90c2_00", true), ("ebb_1f3a90c2_00\n", false)] {
            let port = Port::at("http://db", Some(token.to_owned()), &tls);
            assert_eq!(port.is_ok(), is_good, "{token:?}");
        }
        assert_eq!(["a:1", "a", "[::1]:2"].map(host_of), ["a", "a", "::1"]);
    }
}

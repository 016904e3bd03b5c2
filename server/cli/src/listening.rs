//! The addresses at which a command listens, and the machines that can reach them.

use std::net::SocketAddr;

use super::error::CliError;

/// Returns whether other machines can reach an address of this machine.
pub(super) fn is_open_to_others(address: SocketAddr) -> bool {
    !address.ip().is_loopback()
}

/// Checks that no other machine can reach the address `http`, at which a command is to serve HTTP without
/// TLS. `remedy` describes in the error what the user can do: "use ...".
///
/// # Errors
/// When other machines can reach the address: the tokens of clients would cross the network in the clear.
pub(super) fn check_clear_http(http: SocketAddr, remedy: &str) -> Result<(), CliError> {
    if !is_open_to_others(http) {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "{http} can be reached from other machines, and HTTP would carry tokens in the clear: {remedy}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_without_tls_is_for_loopback_addresses_only() {
        let check = |address: &str| check_clear_http(address.parse().unwrap(), "use another");
        for own in ["127.0.0.1:0", "127.3.2.1:9043", "[::1]:9043"] {
            assert!(check(own).is_ok(), "{own}");
        }
        for open in ["0.0.0.0:0", "10.0.0.1:9043", "[::]:9043", "[fe80::1]:9043"] {
            let error = check(open).unwrap_err().to_string();
            assert!(error.starts_with(open), "{error}");
            assert!(error.ends_with("in the clear: use another"), "{error}");
        }
    }
}

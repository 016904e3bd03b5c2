//! The options of STARTUP.

use ebb_cql::protocol::{Compression, ErrorResponse, Startup};

use crate::error::Result;

/// The oldest major version of CQL that clients may request.
const MAJOR_MIN: u32 = 3;

/// Checks the major version of CQL that the client requests, as Cassandra does. The server treats
/// all permitted versions alike.
///
/// # Errors
/// If the version is missing, malformed or too old.
pub(super) fn check_version(startup: &Startup<'_>) -> Result<()> {
    let Some(version) = startup.option("CQL_VERSION") else {
        let message = "Missing value CQL_VERSION in STARTUP message";
        return Err(ErrorResponse::protocol(message));
    };
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(MAJOR_MIN..) => Ok(()),
        Some(_) => Err(ErrorResponse::protocol(format!(
            "CQL version {version} is not supported by the binary protocol (supported version are \
             >= {MAJOR_MIN}.0.0)"
        ))),
        None => Err(ErrorResponse::protocol(format!(
            "Invalid version value: {version}"
        ))),
    }
}

/// Returns the compression that the client chooses.
///
/// # Errors
/// If there is no such compression.
pub(super) fn compression(startup: &Startup<'_>) -> Result<Compression> {
    match startup.compression() {
        None | Some("") => Ok(Compression::None),
        Some(name) => Compression::from_name(name).ok_or_else(|| {
            let message = format!("Unknown compression algorithm: {name}; there is lz4");
            ErrorResponse::protocol(message)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_request_version_3_or_later() {
        for (options, expected) in [
            (vec![("CQL_VERSION", "3.0.0")], None),
            (vec![("cql_version", "3.4.6")], None),
            (vec![("CQL_VERSION", "4.0.0")], None),
            (vec![], Some("Missing value CQL_VERSION")),
            (
                vec![("CQL_VERSION", "2.0.0")],
                Some("CQL version 2.0.0 is not supported"),
            ),
            (
                vec![("CQL_VERSION", "new")],
                Some("Invalid version value: new"),
            ),
            (vec![("CQL_VERSION", "")], Some("Invalid version value: ")),
        ] {
            let checked = check_version(&Startup { options });
            let found = checked.err().map(|error| error.message);
            let fits = match (&found, expected) {
                (Some(found), Some(expected)) => found.starts_with(expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(fits, "{expected:?}: {found:?}");
        }
    }
}

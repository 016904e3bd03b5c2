//! The authentication of clients, as a setting.

use std::fmt;
use std::str::FromStr;

/// The authentication of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authentication {
    /// No authentication: every client may do everything.
    None,
    /// Clients log in as a role, with its password.
    Password,
}

impl FromStr for Authentication {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "password" => Ok(Self::Password),
            _ => Err(format!("{text:?} is not password or none")),
        }
    }
}

impl fmt::Display for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Password => "password",
        })
    }
}

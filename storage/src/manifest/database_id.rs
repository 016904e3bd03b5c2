//! The id of the database that a manifest belongs to.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::random_id::random_id;

/// A random number of 128 bits. Every database has its own, and so has every copy that a backup or a
/// repair makes. So a record about one database is never applied to another database that took its
/// place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct DatabaseId(pub(crate) [u8; 16]);

impl DatabaseId {
    /// Returns a random id, which no other database has.
    pub(crate) fn random() -> Self {
        Self(random_id())
    }
}

impl From<DatabaseId> for String {
    fn from(id: DatabaseId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for DatabaseId {
    type Error = String;

    fn try_from(hex: String) -> Result<Self, String> {
        match u128::from_str_radix(&hex, 16) {
            Ok(number) if hex.len() == 32 => Ok(Self(number.to_be_bytes())),
            _ => Err(format!("{hex:?} is no id of a database")),
        }
    }
}

impl Display for DatabaseId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_ids_are_equal() {
        let ids: HashSet<_> = (0..1000).map(|_| DatabaseId::random().0).collect();
        assert_eq!(ids.len(), 1000);
    }

    #[test]
    fn an_id_is_parsed_from_its_text() {
        let id = DatabaseId(std::array::from_fn(|i| i as u8));
        assert_eq!(id.to_string(), "000102030405060708090a0b0c0d0e0f");
        assert_eq!(DatabaseId::try_from(id.to_string()), Ok(id));
        for bad in ["", "0", &"z".repeat(32), &"0".repeat(33)] {
            assert!(DatabaseId::try_from(bad.to_string()).is_err(), "{bad}");
        }
    }
}

//! The place where a table is committed: its target, or one catalog.
//!
//! A publisher that did not see the snapshots of another place would sweep their files. So the first commit leaves a
//! mark beside the metadata, before the commit takes effect: an object with the URL of the catalog, or with the text
//! `no catalog`. Its name is created once, so of first publishers for several places, the others are refused. Later
//! ones find the mark when they read the table. That a catalog has the table is no proof that it
//! commits the table: users may register it in further catalogs, for other engines to read.
//!
//! A table without a mark gets one with its next commit. An earlier build of ebb may have published
//! the table, or a user has removed the mark because the catalog has another URL now.

use super::error::CommitError;
use super::names::catalog_mark;
use crate::target::Target;

/// The content of a table's mark if the table is committed without a catalog. The mark is the
/// object in the target that records where the table is committed. It may be absent if an earlier
/// build of ebb committed the table.
const NO_CATALOG: &str = "no catalog";

/// The place where a publisher commits a table: the target itself, or a catalog.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommitPlace<'p> {
    pub(super) target: &'p Target,
    /// The URL of the catalog; `None` without one.
    pub(super) catalog: Option<&'p str>,
}

impl CommitPlace<'_> {
    /// Marks the table, by an object in the target, as committed in this place (the target itself, or this catalog),
    /// unless it has a mark already.
    ///
    /// # Errors
    /// If the table is committed in another place, or if a request to the target fails.
    pub(super) fn take(&self, table: &str) -> Result<(), CommitError> {
        if self.is_taken(table)? {
            return Ok(());
        }
        let name = catalog_mark(table);
        if self.target.create(&name, self.mark().to_owned().into())? {
            return Ok(());
        }
        let mark = self.target.read(&name)?.unwrap_or_default();
        self.check_mark(table, &mark)
    }

    /// Returns whether the mark of the table shows that it is committed in this place (the target itself, or
    /// this catalog). False if the table has no mark.
    ///
    /// # Errors
    /// If the table is committed in another place, or if a request to the target fails.
    pub(super) fn is_taken(&self, table: &str) -> Result<bool, CommitError> {
        let Some(mark) = self.target.read(&catalog_mark(table))? else {
            return Ok(false);
        };
        self.check_mark(table, &mark)?;
        Ok(true)
    }

    fn mark(&self) -> &str {
        self.catalog.unwrap_or(NO_CATALOG)
    }

    fn check_mark(&self, table: &str, mark: &[u8]) -> Result<(), CommitError> {
        let mark = String::from_utf8_lossy(mark);
        if is_same_place(&mark, self.mark()) {
            return Ok(());
        }
        let reason = match self.catalog {
            None => format!(
                "the table is committed by the catalog {mark}; publish with --catalog, or choose another target"
            ),
            Some(_) if mark == NO_CATALOG => {
                "the table is committed without a catalog; publish without --catalog, or choose another \
                 target"
                    .to_owned()
            }
            Some(own) => format!(
                "the target names {mark} as the catalog of the table, and this is {own}; publish with that \
                 one, or choose another target; if the same catalog has another URL now, remove {}",
                self.target.url(&catalog_mark(table))
            ),
        };
        Err(CommitError::Refused {
            table: table.to_owned(),
            reason,
        })
    }
}

/// Returns whether two marks name the same place. The URLs of a catalog may differ in slashes at
/// the end of the path, in the case of the host, and in whether they name the default port.
fn is_same_place(a: &str, b: &str) -> bool {
    normalized(a) == normalized(b)
}

/// Returns the URL of a catalog without the differences that [`is_same_place`] allows. Returns the
/// text `no catalog` as it is.
fn normalized(mark: &str) -> String {
    let (place, query) = mark.split_once('?').unwrap_or((mark, ""));
    let place = place.trim_end_matches('/');
    let Some((scheme, rest)) = place.split_once("://") else {
        return mark.to_owned();
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let port = if scheme == "https" { ":443" } else { ":80" };
    let host = host.strip_suffix(port).unwrap_or(host);
    format!("{scheme}://{}{path}?{query}", host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::target::faulty::target;

    #[test]
    fn urls_of_one_catalog_name_one_place_and_those_of_others_do_not() {
        let target = target(&InMemory::new());
        let place = |url| CommitPlace {
            target: &target,
            catalog: Some(url),
        };
        let first = place("https://example.org/api?warehouse=lake");
        first.take("ks/t").unwrap();
        for same in [
            "https://example.org/api?warehouse=lake",
            "https://example.org/api/?warehouse=lake",
            "https://Example.ORG:443/api//?warehouse=lake",
        ] {
            assert!(place(same).is_taken("ks/t").unwrap(), "{same}");
            place(same).take("ks/t").unwrap();
        }
        for other in [
            "http://example.org/api?warehouse=lake",
            "https://example.org:444/api?warehouse=lake",
            "https://example.org/API?warehouse=lake",
            "https://example.org/api?warehouse=lake/",
            "https://example.org/api",
        ] {
            let error = place(other).is_taken("ks/t").unwrap_err().to_string();
            let remedy = "remove memory://store/ks/t/metadata/ebb-catalog.txt";
            assert!(error.ends_with(remedy), "{error}");
            assert!(place(other).take("ks/t").is_err(), "{other}");
        }
    }
}

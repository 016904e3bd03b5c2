//! The settings of a catalog: its URL, and what the environment adds.
//!
//! The token stays in the client: no location, error or debug output contains it.

use std::ffi::OsString;

use reqwest::Url;

use super::error::CatalogError;

/// The variables that may hold the bearer token. The first one that is set counts.
const TOKENS: [&str; 2] = ["EBB_CATALOG_TOKEN", "ICEBERG_TOKEN"];

/// The variable that allows a catalog without TLS.
const ALLOW_HTTP: &str = "EBB_CATALOG_ALLOW_HTTP";

/// The only member of a query.
const WAREHOUSE: &str = "warehouse";

/// The settings of a catalog. There is no debug output, because of the token.
pub(super) struct Settings {
    /// The URL before `/v1`, without a slash at its end.
    pub(super) base: String,
    /// The part of the catalog that its configuration is read for.
    pub(super) warehouse: Option<String>,
    /// The bearer token.
    pub(super) token: Option<String>,
}

impl Settings {
    /// Reads the settings. Empty variables count as unset.
    ///
    /// # Errors
    /// If the URL or a variable is invalid. The error has nothing of their values.
    pub(super) fn new(
        url: &str,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, CatalogError> {
        let mut base = Url::parse(url).ok().filter(is_plain).ok_or_else(|| {
            refused("the URL of the catalog is no http or https URL without credentials")
        })?;
        let warehouse = match base.query_pairs().collect::<Vec<_>>().as_slice() {
            [] => None,
            [(name, value)] if name == WAREHOUSE => Some(value.to_string()),
            _ => {
                return Err(refused(
                    "the URL of the catalog has a query with more than warehouse=NAME",
                ));
            }
        };
        let (mut tokens, mut allows_http) = ([None, None], false);
        for (name, value) in variables {
            let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
                continue;
            };
            let place = TOKENS.iter().position(|token| *token == name);
            if let Some(place) = place.filter(|_| !value.is_empty()) {
                if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Err(CatalogError::Setting(format!(
                        "{name} must be printable ASCII, without a line break at its end"
                    )));
                }
                tokens[place] = Some(value.to_owned());
            }
            allows_http |= name == ALLOW_HTTP && value == "true";
        }
        if base.scheme() == "http" && !allows_http {
            return Err(CatalogError::Setting(format!(
                "the URL of the catalog is not encrypted (http); set {ALLOW_HTTP}=true to allow that"
            )));
        }
        base.set_query(None);
        let [first, second] = tokens;
        Ok(Self {
            base: base.as_str().trim_end_matches('/').to_owned(),
            warehouse,
            token: first.or(second),
        })
    }
}

/// Errors show the URL, so it must not hold credentials.
fn is_plain(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.fragment().is_none()
}

fn refused(reason: &str) -> CatalogError {
    CatalogError::Setting(reason.to_owned())
}

//! The URL of an Iceberg REST catalog, as a user names it.
//!
//! The URL goes into records of jobs, and into the target beside the tables. So the URL must not contain
//! credentials, and an error does not show a URL that may contain some.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The start of the query of a URL: `warehouse` is the only parameter that it may have.
const WAREHOUSE: &str = "warehouse=";

/// The URL of a catalog, as in `https://catalog.example.org/api?warehouse=lake`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CatalogUrl(String);

impl FromStr for CatalogUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let https = text.strip_prefix("https://");
        let rest = https.or_else(|| text.strip_prefix("http://"));
        let Some(rest) = rest.filter(|rest| !rest.is_empty() && !rest.starts_with(['/', '?']))
        else {
            return refuse(
                "a catalog is https://HOST/PATH or http://HOST/PATH, up to /v1 of its routes, and this is \
                 neither",
            );
        };
        if rest.contains('@') {
            return refuse(
                "the URL of the catalog has an @: credentials are not part of it, and come from \
                 EBB_CATALOG_CREDENTIAL or EBB_CATALOG_TOKEN in the environment",
            );
        }
        let (place, query) = match rest.split_once('?') {
            None => (rest, None),
            Some((place, query)) => (place, Some(query)),
        };
        let is_name = |name: &str| !name.is_empty() && !name.contains(['&', '=', '?']);
        if query.is_some_and(|query| !query.strip_prefix(WAREHOUSE).is_some_and(is_name)) {
            return refuse(
                "the URL of the catalog has a query with more than warehouse=NAME: credentials come from \
                 EBB_CATALOG_CREDENTIAL or EBB_CATALOG_TOKEN in the environment",
            );
        }
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&byte);
        if !rest.bytes().all(is_plain) {
            return refuse(
                "the URL of the catalog has a fragment, a space or another character that a URL escapes",
            );
        }
        if place.ends_with("/v1") || place.ends_with("/v1/") {
            return refuse(
                "the URL of the catalog ends with /v1, which is part of each route: leave it out",
            );
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for CatalogUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<CatalogUrl> for String {
    fn from(url: CatalogUrl) -> Self {
        url.0
    }
}

impl fmt::Display for CatalogUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn refuse<T>(reason: &str) -> Result<T, String> {
    Err(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_url_may_name_a_warehouse_and_nothing_else() {
        for text in [
            "https://catalog.example.org",
            "https://catalog.example.org/api/catalog?warehouse=lake",
            "http://127.0.0.1:8181?warehouse=s3://lake/a%20b",
            "http://[::1]:8181/",
        ] {
            let url: CatalogUrl = text.parse().unwrap();
            assert_eq!(json!(url), text);
            assert_eq!(url.to_string(), text);
        }
        for (text, word) in [
            ("HUSH", "neither"),
            ("s3://HUSH/lake", "neither"),
            ("https://", "neither"),
            ("https:///HUSH", "neither"),
            ("https://id:HUSH@example.org", "credentials"),
            ("https://example.org?token=HUSH", "warehouse"),
            ("https://example.org?warehouse=", "warehouse"),
            ("https://example.org?warehouse=a&token=HUSH", "warehouse"),
            ("https://example.org#HUSH", "fragment"),
            ("https://example.org/HUSH x", "space"),
            ("https://example.org/HUSH/v1", "/v1"),
        ] {
            let error = text.parse::<CatalogUrl>().unwrap_err();
            assert!(
                error.contains(word) && !error.contains("HUSH"),
                "{text}: {error}"
            );
            let sent = serde_json::from_value::<CatalogUrl>(json!(text));
            let sent = sent.unwrap_err().to_string();
            assert!(
                sent.contains(word) && !sent.contains("HUSH"),
                "{text}: {sent}"
            );
        }
    }
}

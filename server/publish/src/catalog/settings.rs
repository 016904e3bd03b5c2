//! The settings of a catalog: its URL, and what the environment adds.
//!
//! Secrets stay in the client: no location, error or debug output contains them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;

use reqwest::Url;

use super::error::CatalogError;
use super::tokens::{Access, Credentials};

/// The variables that may hold the bearer token. The first one that is set is used.
const TOKENS: [&str; 2] = ["EBB_CATALOG_TOKEN", "ICEBERG_TOKEN"];

/// The variable that may hold the credentials of an OAuth2 client.
const CREDENTIAL: &str = "EBB_CATALOG_CREDENTIAL";

/// The variable that may name a file with the credentials of an OAuth2 client.
const CREDENTIAL_FILE: &str = "EBB_CATALOG_CREDENTIAL_FILE";

/// The variable with the URL at which an OAuth2 server issues tokens.
const SERVER_URI: &str = "EBB_CATALOG_OAUTH2_SERVER_URI";

/// The variable with the scope of the tokens.
const SCOPE: &str = "EBB_CATALOG_SCOPE";

/// The scope by default, as in other clients of such catalogs.
const SCOPE_DEFAULT: &str = "catalog";

/// The variable that allows servers without TLS if it is `true`.
const ALLOW_HTTP: &str = "EBB_CATALOG_ALLOW_HTTP";

const VARIABLES: [&str; 7] = [
    TOKENS[0],
    TOKENS[1],
    CREDENTIAL,
    CREDENTIAL_FILE,
    SERVER_URI,
    SCOPE,
    ALLOW_HTTP,
];

/// The only parameter that the query of a catalog's URL may have.
const WAREHOUSE: &str = "warehouse";

/// The largest size of a file with credentials, in bytes. A larger file is an error: it can hardly be the one
/// that the user meant.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The settings of a catalog. They do not implement `Debug`, because they contain secrets.
pub(super) struct Settings {
    /// The URL before `/v1`, without a slash at its end.
    pub(super) base: String,
    /// The name of a warehouse, a part of the catalog with a configuration of its own; `None` for
    /// the catalog's default.
    pub(super) warehouse: Option<String>,
    /// The source of bearer tokens.
    pub(super) access: Access,
}

/// The variables of the environment in [`VARIABLES`] that are set, not empty and valid UTF-8.
struct Variables(BTreeMap<&'static str, String>);

impl Settings {
    /// Reads the settings. Variables that are empty or not in UTF-8 count as unset.
    ///
    /// # Errors
    /// If the URL, a variable or a file that it names is invalid. The error shows none of their values,
    /// except the path of a file.
    pub(super) fn new(
        url: &str,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, CatalogError> {
        let variables = Variables::new(variables);
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
        variables.check_encrypted(&base, "the URL of the catalog")?;
        base.set_query(None);
        let base = base.as_str().trim_end_matches('/').to_owned();
        Ok(Self {
            access: variables.access(&base)?,
            base,
            warehouse,
        })
    }
}

impl Variables {
    fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let known = variables.into_iter().filter_map(|(name, value)| {
            let name = VARIABLES.into_iter().find(|known| name == *known)?;
            let value = value.into_string().ok().filter(|value| !value.is_empty());
            Some((name, value?))
        });
        Self(known.collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the secret in the variable `name`, if it is set, after a check that a header may contain it.
    fn secret(&self, name: &str) -> Result<Option<&str>, CatalogError> {
        self.get(name).map(|value| graphic(name, value)).transpose()
    }

    /// Returns the source of tokens for the catalog at `base`. If both credentials and a token are set, the
    /// credentials are used.
    fn access(&self, base: &str) -> Result<Access, CatalogError> {
        if let Some((name, credential)) = self.credential()? {
            let (client_id, secret) = split_credential(name, &credential)?;
            return Ok(Access::Credentials(Credentials {
                client_id: client_id.map(str::to_owned),
                secret: secret.to_owned(),
                server: self.server(base)?,
                scope: self.get(SCOPE).unwrap_or(SCOPE_DEFAULT).to_owned(),
            }));
        }
        for name in TOKENS {
            if let Some(token) = self.secret(name)? {
                return Ok(Access::Token(token.to_owned()));
            }
        }
        Ok(Access::Open)
    }

    /// Returns the name of the environment variable that contains the client's credentials or the path of
    /// their file, and the credentials; `None` if neither variable is set. Both of them together are an
    /// error.
    fn credential(&self) -> Result<Option<(&'static str, String)>, CatalogError> {
        match (self.secret(CREDENTIAL)?, self.get(CREDENTIAL_FILE)) {
            (None, None) => Ok(None),
            (Some(credential), None) => Ok(Some((CREDENTIAL, credential.to_owned()))),
            (None, Some(path)) => {
                let text = read_file(path)?;
                let credential = graphic(CREDENTIAL_FILE, text.trim_end_matches(['\r', '\n']))?;
                Ok(Some((CREDENTIAL_FILE, credential.to_owned())))
            }
            (Some(_), Some(_)) => Err(CatalogError::Setting(format!(
                "{CREDENTIAL} and {CREDENTIAL_FILE} are both set: leave out one of them"
            ))),
        }
    }

    /// Returns the URL of the OAuth2 server. If no variable names it, the catalog itself is the
    /// server, at `{base}/v1/oauth/tokens`.
    fn server(&self, base: &str) -> Result<Url, CatalogError> {
        let own = format!("{base}/v1/oauth/tokens");
        let url = Url::parse(self.get(SERVER_URI).unwrap_or(&own)).ok();
        let url = url.filter(|url| is_plain(url) && url.query().is_none());
        let url = url.ok_or_else(|| {
            CatalogError::Setting(format!(
                "{SERVER_URI} must be an http or https URL without credentials and without a query"
            ))
        })?;
        self.check_encrypted(&url, SERVER_URI)?;
        Ok(url)
    }

    /// Checks that a URL uses TLS, unless the user allows unencrypted ones.
    fn check_encrypted(&self, url: &Url, what: &str) -> Result<(), CatalogError> {
        if url.scheme() == "http" && self.get(ALLOW_HTTP) != Some("true") {
            return Err(CatalogError::Setting(format!(
                "{what} is not encrypted (http); set {ALLOW_HTTP}=true to allow that"
            )));
        }
        Ok(())
    }
}

/// Splits `CLIENT_ID:CLIENT_SECRET`. Without a colon, the whole credential is the secret, as in other clients
/// of such catalogs.
fn split_credential<'c>(
    name: &str,
    credential: &'c str,
) -> Result<(Option<&'c str>, &'c str), CatalogError> {
    let (id, secret) = match credential.split_once(':') {
        Some((id, secret)) => (Some(id), secret),
        None => (None, credential),
    };
    if secret.is_empty() || id.is_some_and(str::is_empty) {
        return Err(CatalogError::Setting(format!(
            "{name} must have CLIENT_ID:CLIENT_SECRET, and one of both is empty"
        )));
    }
    Ok((id, secret))
}

/// Returns `value` if it is printable ASCII without spaces, which an HTTP header may contain. The error
/// quotes nothing of the value.
fn graphic<'v>(name: &str, value: &'v str) -> Result<&'v str, CatalogError> {
    if value.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(value)
    } else {
        Err(CatalogError::Setting(format!(
            "{name} must be printable ASCII, without a line break at its end"
        )))
    }
}

/// Reads the file with credentials that the user names in the environment. A file of more than
/// [`FILE_BYTES_MAX`] bytes is an error.
#[expect(
    clippy::disallowed_methods,
    reason = "the door to the file with credentials"
)]
fn read_file(path: &str) -> Result<String, CatalogError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| {
        let mut file = file.take(FILE_BYTES_MAX + 1);
        file.read_to_string(&mut text)
    });
    match read {
        Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => Err(CatalogError::Setting(format!(
            "{CREDENTIAL_FILE}: {path} has more than {FILE_BYTES_MAX} bytes, so it has no credentials"
        ))),
        Ok(_) => Ok(text),
        Err(error) => Err(CatalogError::Setting(format!(
            "{CREDENTIAL_FILE}: cannot read {path}: {error}"
        ))),
    }
}

/// Returns whether a URL is one of HTTP or HTTPS that has neither credentials nor a fragment. Errors show the
/// URLs of servers, so these must not hold credentials.
pub(crate) fn is_plain(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.fragment().is_none()
}

fn refused(reason: &str) -> CatalogError {
    CatalogError::Setting(reason.to_owned())
}

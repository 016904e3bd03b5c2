//! Tables of a REST catalog: how they are read, prepared and committed.
//!
//! A commit whose answer is lost, or is an error of the server, may have taken effect. So the table is
//! read again: it has the change or not, and in the second case the same commit is sent once more. It takes
//! effect at most once, because it requires the state before it. For the same reason a conflict is no conflict
//! if the table has the change.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::sync::{Arc, OnceLock};

use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::client::{ATTEMPTS, Client, Request};
use super::error::CatalogError;
use super::settings::Settings;
use super::transport::Answer;
use crate::iceberg::commit_request::{CommitRequest, stage_create};
use crate::iceberg::metadata::TableMetadata;

type Result<T> = std::result::Result<T, CatalogError>;

/// A REST catalog. Opening it sends no request: the first access to a table does.
pub(crate) struct RestCatalog {
    client: Client,
    /// The URL as the user wrote it.
    url: String,
    /// The URL before `/v1`.
    base: String,
    warehouse: Option<String>,
    /// The part that the configuration of the catalog adds to the paths of requests.
    prefix: OnceLock<String>,
}

/// The output leaves out the client, because it contains secrets.
impl fmt::Debug for RestCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestCatalog")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// A table, as loaded from a catalog.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct LoadedTable {
    #[serde(default)]
    pub(crate) metadata_location: Option<String>,
    /// The newest metadata.
    pub(crate) metadata: TableMetadata,
}

/// A table whose creation is prepared. The first commit creates it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct StagedTable {
    /// The identity that the catalog gives the table.
    pub(crate) table_uuid: String,
    /// The folder that the catalog gives the table.
    pub(crate) location: String,
    /// The properties of the table, including those that the catalog adds.
    #[serde(default)]
    pub(crate) properties: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Staged {
    metadata: StagedTable,
}

/// The configuration of a catalog. Entries of `overrides` take precedence over those of `defaults`.
#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    defaults: BTreeMap<String, Value>,
    #[serde(default)]
    overrides: BTreeMap<String, Value>,
}

impl RestCatalog {
    /// Opens the catalog at `url`, which ends before `/v1` and may have the query `warehouse=NAME`.
    /// `variables` are the environment variables: they contain the token, or the credentials for tokens.
    /// `runtime` sends the requests.
    ///
    /// # Errors
    /// If the URL or a variable is invalid.
    pub(crate) fn open(
        url: &str,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        runtime: Arc<Runtime>,
    ) -> Result<Self> {
        let Settings {
            base,
            warehouse,
            access,
        } = Settings::new(url, variables)?;
        Ok(Self {
            client: Client::new(access, runtime)?,
            url: url.to_owned(),
            base,
            warehouse,
            prefix: OnceLock::new(),
        })
    }

    /// Returns the URL as the user wrote it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Reads the table `KEYSPACE/TABLE`; `None` if the catalog does not have it.
    ///
    /// # Errors
    /// If the catalog refuses the request or does not answer.
    pub(crate) fn load(&self, table: &str) -> Result<Option<LoadedTable>> {
        let (namespace, name) = split(table);
        let path = ["namespaces", namespace, "tables", name];
        let request = self.request("reading the table", Method::GET, &path, None)?;
        match self.client.send(&request) {
            Answer::Refused { status, .. } if status == StatusCode::NOT_FOUND => Ok(None),
            answer => self.parse(&request, answer).map(Some),
        }
    }

    /// Prepares the creation of the table `KEYSPACE/TABLE` with the metadata `next`, and creates the
    /// namespace if it is absent. Returns `None` if the catalog has the table already.
    ///
    /// # Errors
    /// If the catalog refuses a request or does not answer.
    pub(crate) fn stage(&self, table: &str, next: &TableMetadata) -> Result<Option<StagedTable>> {
        let (namespace, name) = split(table);
        let path = ["namespaces", namespace, "tables"];
        let body = Some(stage_create(name, next));
        let request = self.request("creating a table", Method::POST, &path, body)?;
        let answer = match self.client.send(&request) {
            Answer::Refused { status, .. } if status == StatusCode::NOT_FOUND => {
                self.create_namespace(namespace)?;
                self.client.send(&request)
            }
            answer => answer,
        };
        match answer {
            Answer::Refused { status, .. } if status == StatusCode::CONFLICT => Ok(None),
            answer => self
                .parse(&request, answer)
                .map(|staged: Staged| Some(staged.metadata)),
        }
    }

    fn create_namespace(&self, name: &str) -> Result<()> {
        let body = Some(json!({"namespace": [name], "properties": {}}));
        let request = self.request(
            "creating the namespace",
            Method::POST,
            &["namespaces"],
            body,
        )?;
        match self.client.send(&request) {
            Answer::Done(_) => Ok(()),
            // By another publisher, or by an attempt without an answer.
            Answer::Refused { status, .. } if status == StatusCode::CONFLICT => Ok(()),
            Answer::Refused { reason, .. } | Answer::Unknown { reason } => {
                Err(request.failed(reason))
            }
        }
    }

    /// Commits a change of the table `KEYSPACE/TABLE`. Returns false if the table no longer meets the requirements
    /// of the commit. `has_change` returns whether the commit has taken effect, given the metadata of the table.
    ///
    /// # Errors
    /// If the catalog refuses the request, or if it does not answer. In the second case the commit may have
    /// taken effect.
    pub(crate) fn commit(
        &self,
        table: &str,
        change: &CommitRequest,
        has_change: impl Fn(&TableMetadata) -> bool,
    ) -> Result<bool> {
        let (namespace, name) = split(table);
        let path = ["namespaces", namespace, "tables", name];
        let body = Some(change.body(namespace, name));
        let request = self.request("committing the table", Method::POST, &path, body)?;
        let mut attempt = 1;
        loop {
            let unknown = match self.client.send_once(&request) {
                Answer::Done(_) => return Ok(true),
                Answer::Unknown { reason } => Some(reason),
                Answer::Refused { status, .. } if status == StatusCode::CONFLICT => None,
                Answer::Refused { reason, .. } => return Err(request.failed(reason)),
            };
            let found = self.load(table)?;
            if found.is_some_and(|found| has_change(&found.metadata)) {
                return Ok(true);
            }
            match unknown {
                None => return Ok(false),
                Some(_) if attempt < ATTEMPTS => self.client.pause(attempt),
                Some(reason) => {
                    return Err(request.failed(format!(
                        "{reason}; the table is as it was, and may change yet: publish again"
                    )));
                }
            }
            attempt += 1;
        }
    }

    /// Returns a request to the catalog. `call` is its name in errors. The parts of `path` follow
    /// the catalog's prefix of paths; they need no escapes, because ebb publishes only tables whose
    /// names have no characters that need escapes.
    fn request(
        &self,
        call: &'static str,
        method: Method,
        path: &[&str],
        body: Option<Value>,
    ) -> Result<Request> {
        let prefix = self.prefix()?;
        let path = path.join("/");
        let url = if prefix.is_empty() {
            format!("{}/v1/{path}", self.base)
        } else {
            format!("{}/v1/{prefix}/{path}", self.base)
        };
        Ok(Request {
            call,
            method,
            url: parse_url(&url)?,
            body,
        })
    }

    /// Parses the body of the answer to `request`. Returns an error if the request was refused, its effect is
    /// unknown, or the body is not the expected JSON.
    fn parse<T: DeserializeOwned>(&self, request: &Request, answer: Answer) -> Result<T> {
        match answer {
            Answer::Done(body) => serde_json::from_slice(&body).map_err(|error| {
                let error = self.client.without_secrets(&error.to_string());
                request.failed(format!(
                    "the answer is not that of an Iceberg REST catalog with tables of version 2: {error}"
                ))
            }),
            Answer::Refused { reason, .. } | Answer::Unknown { reason } => {
                Err(request.failed(reason))
            }
        }
    }

    /// Returns the prefix of the paths of all requests, which the catalog's configuration names; empty if it
    /// names none. Reads the configuration unless an earlier call has read it.
    fn prefix(&self) -> Result<&str> {
        if let Some(prefix) = self.prefix.get() {
            return Ok(prefix);
        }
        let mut url = parse_url(&format!("{}/v1/config", self.base))?;
        if let Some(warehouse) = &self.warehouse {
            url.query_pairs_mut().append_pair("warehouse", warehouse);
        }
        let request = Request {
            call: "reading the configuration of the catalog",
            method: Method::GET,
            url,
            body: None,
        };
        let answer = self.client.send(&request);
        let Configuration {
            defaults,
            overrides,
        } = self.parse(&request, answer)?;
        let of = |values: &BTreeMap<String, Value>| {
            let prefix = values.get("prefix").and_then(Value::as_str);
            prefix.map(|prefix| prefix.trim_matches('/').to_owned())
        };
        let prefix = of(&overrides).or_else(|| of(&defaults)).unwrap_or_default();
        if prefix.contains(['?', '#', '\\']) || prefix.split('/').any(|part| part == "..") {
            return Err(request.failed("its prefix is no part of a path".to_owned()));
        }
        Ok(self.prefix.get_or_init(|| prefix))
    }
}

/// Splits the name `KEYSPACE/TABLE`.
fn split(table: &str) -> (&str, &str) {
    table.split_once('/').unwrap_or(("", table))
}

fn parse_url(url: &str) -> Result<Url> {
    Url::parse(url)
        .map_err(|error| CatalogError::Setting(format!("the URL of the catalog, {url}: {error}")))
}

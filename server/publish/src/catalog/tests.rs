//! Tests of a client against a server in this process, with answers that a test chooses.

use std::ffi::OsString;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use super::settings::Settings;
use super::tokens::{Access, Credentials, Tokens};
use super::transport::Transport;
use super::{CatalogError, RestCatalog};
use crate::http_testing::{Request, Response, serve};
use crate::iceberg::commit_request::CommitRequest;
use crate::iceberg::metadata::{Snapshot, TableMetadata};

const TOKEN: &str = "HUSHHUSH";

fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    let pairs = pairs.iter();
    let owned = pairs.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    owned.collect()
}

fn runtime() -> Arc<Runtime> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    Arc::new(runtime.unwrap())
}

fn catalog(url: &str) -> RestCatalog {
    catalog_with(url, &[("EBB_CATALOG_TOKEN", TOKEN)])
}

fn catalog_with(url: &str, pairs: &[(&str, &str)]) -> RestCatalog {
    let variables = variables(&[pairs, &[("EBB_CATALOG_ALLOW_HTTP", "true")][..]].concat());
    RestCatalog::open(url, variables, runtime()).unwrap()
}

/// Returns metadata with one snapshot.
fn metadata() -> TableMetadata {
    let mut metadata = TableMetadata::new("u".to_owned(), "s3://lake/ks/t".to_owned());
    let snapshot = Snapshot {
        snapshot_id: 7,
        parent_snapshot_id: None,
        sequence_number: 1,
        timestamp_ms: 1,
        manifest_list: "s3://lake/ks/t/metadata/list.avro".to_owned(),
        summary: Default::default(),
        schema_id: 0,
    };
    metadata.add_snapshot(snapshot, "monday");
    metadata
}

/// Returns whether metadata has the snapshot of [`metadata`].
fn has_change(found: &TableMetadata) -> bool {
    found.has_snapshot(7)
}

fn ok(body: serde_json::Value) -> Option<Response> {
    Some(("200 OK", body.to_string().into()))
}

/// Starts the server of a catalog, and returns a client of it. The server itself responds to the
/// request for the catalog's configuration. This response sets no prefix for the paths of requests.
/// `answer` returns the responses to all other requests.
fn served(mut answer: impl FnMut(&Request) -> Option<Response> + Send + 'static) -> RestCatalog {
    let url = serve(move |request| {
        if request.path == "/api/v1/config" {
            return ok(json!({"defaults": {}, "overrides": {}}));
        }
        answer(request)
    });
    catalog(&format!("{url}/api/"))
}

/// Commits to a server that answers the first commit with the status `first`, or not at all. If
/// `takes_effect` is true, its table then has the snapshot, and later commits are conflicts. Otherwise the
/// second commit takes effect.
fn committed(first: Option<&'static str>, takes_effect: bool) -> Result<bool, CatalogError> {
    let (mut posts, mut has_snapshot) = (0, false);
    let catalog = served(move |request| {
        if request.method == "GET" {
            let mut found = metadata();
            if !has_snapshot {
                found.snapshots.clear();
            }
            return ok(json!({"metadata-location": "m", "metadata": found}));
        }
        posts += 1;
        if posts > 1 && has_snapshot {
            return Some(("409 Conflict", Vec::new()));
        }
        has_snapshot = takes_effect || posts > 1;
        match first {
            _ if posts > 1 => ok(json!({})),
            Some(status) => Some((status, Vec::new())),
            None => None,
        }
    });
    catalog.commit("ks/t", &CommitRequest::create(&metadata()), has_change)
}

#[test]
fn a_commit_of_unknown_outcome_is_looked_at_and_then_sent_again() {
    for first in [
        None,
        Some("500 Internal Server Error"),
        Some("502 Bad Gateway"),
        Some("503 Service Unavailable"),
        Some("504 Gateway Timeout"),
        Some("429 Too Many Requests"),
    ] {
        assert!(committed(first, true).unwrap(), "{first:?}");
        assert!(committed(first, false).unwrap(), "{first:?}");
    }
    // By the answer the requirements do not hold, because an attempt before it took effect.
    assert!(committed(Some("409 Conflict"), true).unwrap());
    assert!(!committed(Some("409 Conflict"), false).unwrap());
    let error = committed(Some("403 Forbidden"), false)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("403") && error.contains("EBB_CATALOG_TOKEN"),
        "{error}"
    );
}

#[test]
fn a_catalog_that_does_not_answer_is_an_error_after_some_attempts() {
    let catalog = served(|_| None);
    let error = catalog.load("ks/t").unwrap_err().to_string();
    assert!(
        error.starts_with("reading the table http://127.0.0.1:")
            && error.contains("/ks/tables/t: "),
        "{error}"
    );
}

#[test]
fn the_token_is_sent_and_is_in_no_error_and_no_debug_output() {
    let catalog = served(|request| {
        assert_eq!(request.headers["authorization"], format!("Bearer {TOKEN}"));
        let message = format!("the token {TOKEN} has expired");
        let body =
            json!({"error": {"message": message, "type": "NotAuthorizedException", "code": 401}});
        Some(("401 Unauthorized", body.to_string().into()))
    });
    let change = CommitRequest::create(&metadata());
    let errors = [
        catalog.load("ks/t").map(drop),
        catalog.stage("ks/t", &metadata()).map(drop),
        catalog.commit("ks/t", &change, has_change).map(drop),
    ];
    for error in errors {
        let error = error.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("the token ... has expired"), "{text}");
        for text in [text, format!("{error:?}"), format!("{catalog:?}")] {
            assert!(!text.contains(TOKEN), "{text}");
        }
    }
}

#[test]
fn a_table_of_another_version_and_an_answer_of_another_server_are_errors() {
    for body in [json!({"metadata": {"format-version": 3}}), json!("hello")] {
        let catalog = served(move |_| ok(body.clone()));
        let error = catalog.load("ks/t").unwrap_err().to_string();
        assert!(error.contains("tables of version 2"), "{error}");
    }
    let url = serve(|_| ok(json!({"overrides": {"prefix": "a/../b"}})));
    let error = catalog(&url).load("ks/t").unwrap_err().to_string();
    assert!(error.contains("no part of a path"), "{error}");
}

#[test]
fn the_configuration_is_read_once_for_the_warehouse_and_gives_the_prefix() {
    let mut configurations = 0;
    let url = serve(move |request| match &request.path[..] {
        "/v1/config?warehouse=my+lake" => {
            configurations += 1;
            assert_eq!(configurations, 1);
            ok(json!({"defaults": {"prefix": "no"}, "overrides": {"prefix": "a%1Fb/c"}}))
        }
        "/v1/a%1Fb/c/namespaces/ks/tables/t" => Some(("404 Not Found", Vec::new())),
        path => panic!("{path}"),
    });
    let catalog = catalog(&format!("{url}?warehouse=my%20lake"));
    assert!(catalog.load("ks/t").unwrap().is_none());
    assert!(catalog.load("ks/t").unwrap().is_none());
}

#[test]
fn settings_are_refused_without_a_word_of_them() {
    let new = |url: &str, pairs: &[(&str, &str)]| Settings::new(url, variables(pairs));
    for (url, reason) in [
        ("catalog.example.org", "http or https"),
        ("s3://HUSH/lake", "http or https"),
        ("https://HUSH@example.org", "credentials"),
        ("https://example.org?token=HUSH", "warehouse"),
        ("https://example.org?warehouse=a&token=HUSH", "warehouse"),
        ("https://example.org#HUSH", "credentials"),
        ("http://example.org", "EBB_CATALOG_ALLOW_HTTP"),
    ] {
        let error = new(url, &[]).err().unwrap().to_string();
        assert!(error.contains(reason) && !error.contains("HUSH"), "{error}");
    }
    for name in ["EBB_CATALOG_TOKEN", "ICEBERG_TOKEN"] {
        let error = new("https://example.org", &[(name, "HUSH\n")]);
        let error = error.err().unwrap().to_string();
        assert!(error.contains(name) && !error.contains("HUSH"), "{error}");
    }
    let settings = new(
        "https://example.org/api/?warehouse=lake",
        &[("ICEBERG_TOKEN", "b"), ("EBB_CATALOG_TOKEN", "a")],
    );
    let settings = settings.ok().unwrap();
    assert_eq!(settings.base, "https://example.org/api");
    assert_eq!(settings.warehouse.as_deref(), Some("lake"));
    let is_token = |access: &Access, expected: &str| match access {
        Access::Token(token) => token == expected,
        Access::Open | Access::Credentials(_) => false,
    };
    assert!(is_token(&settings.access, "a"));
    let settings = new(
        "https://example.org",
        &[("EBB_CATALOG_TOKEN", ""), ("ICEBERG_TOKEN", "b")],
    );
    assert!(is_token(&settings.ok().unwrap().access, "b"));
}

#[test]
fn credentials_of_a_client_come_from_a_variable_or_from_a_file() {
    let credentials = |pairs: &[(&str, &str)]| -> Result<Credentials, CatalogError> {
        match Settings::new("https://example.org/api", variables(pairs))?.access {
            Access::Credentials(credentials) => Ok(credentials),
            Access::Open | Access::Token(_) => panic!("no credentials"),
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("credential");
    std::fs::write(&file, "ebb:HUSH:2\n").unwrap();
    let file = file.to_str().unwrap();
    for name in ["EBB_CATALOG_CREDENTIAL", "EBB_CATALOG_CREDENTIAL_FILE"] {
        let value = if name.ends_with("FILE") {
            file
        } else {
            "ebb:HUSH:2"
        };
        let found = credentials(&[(name, value), ("ICEBERG_TOKEN", "t")]);
        let found = found.ok().unwrap();
        assert_eq!(found.client_id.as_deref(), Some("ebb"));
        assert_eq!((&found.secret[..], &found.scope[..]), ("HUSH:2", "catalog"));
        let server = "https://example.org/api/v1/oauth/tokens";
        assert_eq!(found.server.as_str(), server);
    }
    let found = credentials(&[
        ("EBB_CATALOG_CREDENTIAL", "HUSH"),
        (
            "EBB_CATALOG_OAUTH2_SERVER_URI",
            "https://login.example.org/token",
        ),
        ("EBB_CATALOG_SCOPE", "PRINCIPAL_ROLE:ALL"),
    ]);
    let found = found.ok().unwrap();
    assert_eq!(found.client_id, None);
    assert_eq!(found.server.as_str(), "https://login.example.org/token");
    assert_eq!(found.scope, "PRINCIPAL_ROLE:ALL");

    let credential = "EBB_CATALOG_CREDENTIAL";
    let server = "EBB_CATALOG_OAUTH2_SERVER_URI";
    for (pairs, reason) in [
        (&[(credential, "ebb:")][..], "CLIENT_ID:CLIENT_SECRET"),
        (&[(credential, ":HUSH")][..], "CLIENT_ID:CLIENT_SECRET"),
        (&[(credential, "ebb:HUSH\n")][..], "line break"),
        (&[("EBB_CATALOG_CREDENTIAL_FILE", "/absent")][..], "/absent"),
        (
            &[
                (credential, "ebb:HUSH"),
                ("EBB_CATALOG_CREDENTIAL_FILE", file),
            ][..],
            "both set",
        ),
        (
            &[
                (credential, "ebb:HUSH"),
                (server, "http://login.example.org"),
            ][..],
            "EBB_CATALOG_ALLOW_HTTP",
        ),
        (
            &[
                (credential, "ebb:HUSH"),
                (server, "https://a:HUSH@example.org"),
            ][..],
            "without credentials",
        ),
        (
            &[
                (credential, "ebb:HUSH"),
                (server, "https://example.org?secret=HUSH"),
            ][..],
            "without a query",
        ),
    ] {
        let error = credentials(pairs).err().unwrap().to_string();
        assert!(error.contains(reason) && !error.contains("HUSH"), "{error}");
    }
}

/// A catalog whose OAuth2 server issues the tokens `token-1`, `token-2` and so on to one client. The catalog
/// accepts only the newest one, unless its number is among `expired`. The catalog refuses any other request
/// with the status `refusal`.
#[derive(Default)]
struct Issuer {
    issued: usize,
    expired: Vec<usize>,
    refusal: &'static str,
    expires_in: Option<u64>,
}

impl Issuer {
    fn answer(&mut self, request: &Request) -> Option<Response> {
        if request.path == "/v1/oauth/tokens" {
            assert!(!request.headers.contains_key("authorization"));
            let form = std::str::from_utf8(&request.body).unwrap();
            let expected = "grant_type=client_credentials&client_id=ebb&client_secret=HUSH%262\
                            &scope=catalog";
            if form != expected {
                let body =
                    json!({"error": "invalid_client", "error_description": "not HUSH&3, HUSH%263"});
                return Some(("401 Unauthorized", body.to_string().into()));
            }
            self.issued += 1;
            let mut body = json!({
                "access_token": format!("token-{}", self.issued),
                "token_type": "bearer",
            });
            if let Some(expires_in) = self.expires_in {
                body["expires_in"] = json!(expires_in);
            }
            return ok(body);
        }
        let newest = format!("Bearer token-{}", self.issued);
        let is_newest = request.headers.get("authorization") == Some(&newest);
        if !is_newest || self.expired.contains(&self.issued) {
            let body = json!({"error": {"message": format!("not {newest}"), "type": "Expired"}});
            return Some((self.refusal, body.to_string().into()));
        }
        if request.path == "/v1/config" {
            return ok(json!({}));
        }
        ok(json!({"metadata-location": "m", "metadata": metadata()}))
    }

    /// Starts the server, and returns its URL.
    fn start(self) -> (String, Arc<Mutex<Self>>) {
        let issuer = Arc::new(Mutex::new(self));
        let shared = Arc::clone(&issuer);
        (
            serve(move |request| shared.lock().unwrap().answer(request)),
            issuer,
        )
    }
}

const CREDENTIAL: (&str, &str) = ("EBB_CATALOG_CREDENTIAL", "ebb:HUSH&2");

#[test]
fn a_token_is_issued_once_and_anew_when_the_catalog_refuses_it() {
    for refusal in ["401 Unauthorized", "419 Authentication Timeout"] {
        let (url, issuer) = Issuer {
            refusal,
            ..Issuer::default()
        }
        .start();
        let catalog = catalog_with(&url, &[CREDENTIAL]);
        for _ in 0..2 {
            assert!(catalog.load("ks/t").unwrap().is_some());
        }
        assert_eq!(issuer.lock().unwrap().issued, 1);
        issuer.lock().unwrap().expired = vec![1];
        let change = CommitRequest::create(&metadata());
        assert!(catalog.commit("ks/t", &change, has_change).unwrap());
        assert_eq!(issuer.lock().unwrap().issued, 2, "{refusal}");
        // A client that is refused with every token ends.
        issuer.lock().unwrap().expired = (0..100).collect();
        let error = catalog.load("ks/t").unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&refusal[..3]), "{text}");
        assert_eq!(issuer.lock().unwrap().issued, 3);
        for text in [text, format!("{error:?}"), format!("{catalog:?}")] {
            assert!(!text.contains("HUSH") && !text.contains("token-"), "{text}");
        }
    }
}

#[test]
fn a_missing_and_a_wrong_credential_are_refused_without_a_word_of_it() {
    let (url, issuer) = Issuer {
        refusal: "401 Unauthorized",
        ..Issuer::default()
    }
    .start();
    let error = catalog_with(&url, &[])
        .load("ks/t")
        .unwrap_err()
        .to_string();
    assert!(error.contains("401"), "{error}");
    let wrong = catalog_with(&url, &[("EBB_CATALOG_CREDENTIAL", "ebb:HUSH&3")]);
    let error = wrong.load("ks/t").unwrap_err().to_string();
    assert!(
        error.contains("invalid_client: not ...") && error.contains("EBB_CATALOG_CREDENTIAL"),
        "{error}"
    );
    assert!(!error.contains("HUSH"), "{error}");
    assert_eq!(issuer.lock().unwrap().issued, 0);
    // A catalog without such a server does not seem to lack the table.
    let url = serve(|_| Some(("404 Not Found", Vec::new())));
    let error = catalog_with(&url, &[CREDENTIAL]).load("ks/t").unwrap_err();
    let error = error.to_string();
    assert!(error.contains("EBB_CATALOG_OAUTH2_SERVER_URI"), "{error}");
}

#[test]
fn another_token_is_requested_before_the_end_of_the_first() {
    let (url, issuer) = Issuer {
        expires_in: Some(3600),
        ..Issuer::default()
    }
    .start();
    let access = Access::Credentials(Credentials {
        client_id: Some("ebb".to_owned()),
        secret: "HUSH&2".to_owned(),
        server: format!("{url}/v1/oauth/tokens").parse().unwrap(),
        scope: "catalog".to_owned(),
    });
    let passed_s = Arc::new(Mutex::new(0));
    let clock = {
        let passed_s = Arc::clone(&passed_s);
        let origin = Instant::now(); // clock: the origin of a clock that this test moves
        move || origin + Duration::from_secs(*passed_s.lock().unwrap())
    };
    let tokens = Tokens::new(access, Box::new(clock));
    let transport = Transport::new(runtime()).unwrap();
    for (at_s, issued) in [(0, 1), (3509, 1), (3510, 2), (7019, 2), (7020, 3)] {
        *passed_s.lock().unwrap() = at_s;
        let token = tokens.current(&transport).ok().unwrap();
        assert_eq!(token, Some(format!("token-{issued}")), "{at_s}");
        assert_eq!(issuer.lock().unwrap().issued, issued);
    }
}

//! A client against a server in this process, with answers that a test chooses.

use std::ffi::OsString;
use std::sync::Arc;

use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use super::settings::Settings;
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

fn catalog(url: &str) -> RestCatalog {
    let runtime: Runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let variables = variables(&[
        ("EBB_CATALOG_TOKEN", TOKEN),
        ("EBB_CATALOG_ALLOW_HTTP", "true"),
    ]);
    RestCatalog::open(url, variables, Arc::new(runtime)).unwrap()
}

/// Metadata with one snapshot.
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

fn ok(body: serde_json::Value) -> Option<Response> {
    Some(("200 OK", body.to_string().into()))
}

/// Starts a server of a catalog without a prefix. `answer` answers all requests but that for the
/// configuration.
fn served(mut answer: impl FnMut(&Request) -> Option<Response> + Send + 'static) -> RestCatalog {
    let url = serve(move |request| {
        if request.path == "/api/v1/config" {
            return ok(json!({"defaults": {}, "overrides": {}}));
        }
        answer(request)
    });
    catalog(&format!("{url}/api/"))
}

/// Commits to a server that answers the first commit so. Its table has the snapshot then, if `takes_effect`
/// is true. Later commits are conflicts with the first one, if that took effect.
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
    catalog.commit("ks/t", &CommitRequest::create(&metadata()), 7)
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
        catalog.commit("ks/t", &change, 7).map(drop),
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
    assert_eq!(settings.token.as_deref(), Some("a"));
    let settings = new(
        "https://example.org",
        &[("EBB_CATALOG_TOKEN", ""), ("ICEBERG_TOKEN", "b")],
    );
    assert_eq!(settings.ok().unwrap().token.as_deref(), Some("b"));
}

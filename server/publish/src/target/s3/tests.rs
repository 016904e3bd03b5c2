//! Targets in a bucket, against a server in this process, with answers that a test chooses.

use bytes::Bytes;
use ebb_model::types::CqlType;

use super::*;
use crate::data_file::{DataFileWriter, testing};
use crate::http_testing::{Request, Response, serve};
use crate::source::Source;
use crate::types::OnEmpty;

const SECRETS: [&str; 3] = ["AKIDEXAMPLE", "SECRETKEY", "SESSIONTOKEN"];

fn with(variables: &[(&str, &str)]) -> Result<Target> {
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    open("lake", "ebb", variables)
}

fn target(endpoint: &str) -> Target {
    let [key, secret, token] = SECRETS;
    with(&[
        ("AWS_ACCESS_KEY_ID", key),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_SESSION_TOKEN", token),
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_MAX_ATTEMPTS", "3"),
    ])
    .unwrap()
}

#[test]
fn a_create_whose_answer_was_lost_is_distinguished_from_a_rivals() {
    for (found, is_ours) in [("ours", true), ("theirs", false)] {
        let mut is_there = false;
        let endpoint = serve(move |request| match &request.method[..] {
            // The first request takes effect without an answer, and the client repeats it.
            "PUT" if !is_there => {
                is_there = true;
                None
            }
            "PUT" => Some(("412 Precondition Failed", Vec::new())),
            _ => Some(("200 OK\r\nETag: \"1\"", found.into())),
        });
        let created = target(&endpoint).create("v1", Bytes::from_static(b"ours"));
        assert_eq!(created.unwrap(), is_ours);
    }
}

#[test]
fn a_conflict_with_a_request_under_way_is_tried_again() {
    let mut puts = 0;
    let endpoint = serve(move |request| match &request.method[..] {
        "PUT" if puts == 0 => {
            puts += 1;
            Some(("409 Conflict", Vec::new()))
        }
        "PUT" => Some(("200 OK\r\nETag: \"1\"", Vec::new())),
        _ => Some(("404 Not Found", Vec::new())),
    });
    let created = target(&endpoint).create("v1", Bytes::from_static(b"ours"));
    assert!(created.unwrap());
}

#[test]
fn no_error_and_no_debug_output_has_credentials() {
    let [key, _, token] = SECRETS;
    let body = format!(
        "<?xml version=\"1.0\"?><Error><Code>InvalidToken</Code><Message>The token is malformed.\
         </Message><Token-0>{token}</Token-0><AWSAccessKeyId>{key}</AWSAccessKeyId></Error>"
    );
    let endpoint = serve(move |_| Some(("403 Forbidden", body.clone().into_bytes())));
    let target = target(&endpoint);
    let errors = [
        target.create("v1", Bytes::new()).map(drop),
        target.replace("v1", Bytes::new()),
        target.read("v1").map(drop),
        target.list("ks").map(drop),
        target.remove("v1"),
        target.upload("data").map(drop),
    ];
    let mut texts = vec![format!("{target:?}")];
    for error in errors {
        let error = error.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("s3://lake/ebb/"), "{text}");
        let answer = "InvalidToken: The token is malformed.";
        assert!(text.contains(answer), "{text}");
        texts.extend([text, format!("{error:?}")]);
    }
    for text in texts {
        for secret in SECRETS {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[test]
fn an_invalid_variable_is_refused_by_its_name() {
    for (name, value, reason) in [
        ("AWS_SECRET_ACCESS_KEY", "HUSH\n", "line break"),
        ("AWS_SESSION_TOKEN", "HUSH\u{c9}", "ASCII"),
        ("AWS_REGION", "us east", "region"),
        ("AWS_ENDPOINT_URL", "HUSH.example.org:9000", "a URL"),
        ("AWS_ENDPOINT_URL", "https://HUSH@s3.org", "credentials"),
        ("AWS_ENDPOINT_URL_S3", "https://s3.org?HUSH", "a query"),
        ("AWS_ENDPOINT_URL", "http://s3.org", "AWS_ALLOW_HTTP"),
        ("AWS_MAX_ATTEMPTS", "0", "1 to 20"),
        ("AWS_MAX_ATTEMPTS", "21", "1 to 20"),
        ("AWS_TIMEOUT", "soon", "Duration"),
    ] {
        let error = with(&[(name, value)]).unwrap_err().to_string();
        let is_named = name == "AWS_TIMEOUT" || error.contains(name);
        assert!(is_named && error.contains(reason), "{name}: {error}");
        assert!(!error.contains("HUSH"), "{name}: {error}");
    }
    assert!(with(&[("AWS_ENDPOINT_URL", ""), ("HOME", "\n")]).is_ok());
}

/// Returns a Parquet file with one column, `k`, of the values `values`.
fn parquet(values: std::ops::Range<i32>) -> Vec<u8> {
    let columns = testing::columns([("k", CqlType::Int)]);
    let mut writer = DataFileWriter::new(Vec::new(), &columns, OnEmpty::Refuse, 1 << 20).unwrap();
    for value in values {
        writer.append([Some(&value.to_be_bytes()[..])]).unwrap();
    }
    writer.finish("a.parquet".to_owned()).unwrap().0
}

/// Returns the answer of a bucket that contains only `file`, under the key `ebb/FOLDER/a.parquet`.
fn bucket_of_one(request: &Request, folder: &str, file: &[u8]) -> Response {
    let folder = format!("ebb/{folder}/");
    if request.path.contains("list-type=2") {
        let query = request.path.replace("%2F", "/");
        let prefix = format!("prefix={folder}");
        let is_in_folder = query.contains(&format!("{prefix}&")) || query.ends_with(&prefix);
        let listed = if is_in_folder {
            let length = file.len();
            format!(
                "<Contents><Key>{folder}a.parquet</Key><Size>{length}</Size><ETag>1</ETag>\
                 <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            )
        } else {
            String::new()
        };
        let body = format!("<ListBucketResult>{listed}</ListBucketResult>");
        return ("200 OK", body.into());
    }
    assert_eq!(request.path, format!("/lake/{folder}a.parquet"));
    let range = request.headers["range"].strip_prefix("bytes=").unwrap();
    let (from, to) = range.split_once('-').unwrap();
    let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
    let head = format!(
        "206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes {from}-{to}/{}",
        file.len()
    );
    (&*head.leak(), file[from..=to].to_vec())
}

#[test]
fn rows_of_a_bucket_are_read_with_the_credentials_and_no_error_has_them() {
    let file = parquet(0..1_000);
    let endpoint = serve(move |request| {
        assert!(request.headers["authorization"].contains("Credential=AKIDEXAMPLE/"));
        assert_eq!(request.headers["x-amz-security-token"], "SESSIONTOKEN");
        Some(bucket_of_one(request, "out", &file))
    });
    let source = Source::bucket(&target(&endpoint), "out", None).unwrap();
    let [file] = source.files() else {
        panic!("{source:?}");
    };
    let mut rows = source
        .rows(file, &[("k".to_owned(), CqlType::Int)])
        .unwrap();
    for value in 0_i32..1_000 {
        assert!(rows.next_row().unwrap());
        assert_eq!(rows.values(), [Some(value.to_be_bytes().to_vec())]);
    }
    assert!(!rows.next_row().unwrap());

    let [key, secret, token] = SECRETS;
    let shown = format!("{source:?}");
    let body = format!("<Error><Code>InvalidToken</Code><Token-0>{token}</Token-0></Error>");
    let endpoint = serve(move |_| Some(("403 Forbidden", body.clone().into_bytes())));
    let error = Source::bucket(&target(&endpoint), "out", None).unwrap_err();
    let texts = [shown, error.to_string(), format!("{error:?}")];
    assert!(
        texts[1].contains("s3://lake/ebb/out") && texts[1].contains("403"),
        "{error}"
    );
    for text in texts {
        assert!(
            ![key, secret, token]
                .iter()
                .any(|secret| text.contains(secret)),
            "{text}"
        );
    }
}

/// Regression: a list that failed for any reason was taken for the absence of a table.
#[test]
fn a_folder_that_may_not_be_listed_counts_as_one_without_a_table_and_another_error_ends_the_load() {
    for (status, is_loaded) in [
        ("403 Forbidden", true),
        ("401 Unauthorized", true),
        ("400 Bad Request", false),
    ] {
        let file = parquet(0..10);
        let endpoint = serve(move |request| {
            if request.path.contains("_delta_log") || request.path.contains(".hoodie") {
                let body = "<Error><Code>AccessDenied</Code></Error>";
                return Some((status, body.into()));
            }
            Some(bucket_of_one(request, "out", &file))
        });
        let loaded = Source::bucket(&target(&endpoint), "out", None);
        assert_eq!(loaded.is_ok(), is_loaded, "{status}: {loaded:?}");
    }
}

/// Programs other than Iceberg have folders called `metadata`, too. A list of all objects below
/// such a folder, at any depth, would take one request for each 1000 objects.
#[test]
fn only_the_objects_directly_in_a_folder_called_metadata_are_listed() {
    let file = parquet(0..10);
    let endpoint = serve(move |request| {
        if request.path.contains("metadata") {
            assert!(request.path.contains("delimiter="), "{}", request.path);
        }
        Some(bucket_of_one(request, "data", &file))
    });
    let loaded = Source::bucket(&target(&endpoint), "data", None);
    assert!(loaded.is_ok(), "{loaded:?}");
}

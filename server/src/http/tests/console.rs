//! The page.

use ebb_scheduler::runtime::Management;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::http::frozen::{get_if_present, whole_list};

/// The limit on the length of the script of the page, after compression by gzip, the usual measure for
/// scripts.
const SCRIPT_GZIP_BYTES_MAX: usize = 150_000;

/// Sends a request without a token, and returns the status, the headers (in lower case) and the body of the
/// response. `tag` is the entity tag of the copy that the client has.
fn look(server: &HttpServer, path: &str, tag: Option<&str>) -> (u16, String, String) {
    // A line of the head after that of the host.
    let known = tag.map(|tag| format!("\r\nIf-None-Match: {tag}"));
    let host = format!("localhost{}", known.unwrap_or_default());
    let (status, answer) = ask(server, &format!("GET {path}"), &host, None, "");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, head.to_ascii_lowercase(), body.to_string())
}

#[test]
fn the_page_comes_without_a_token_and_names_assets_that_are_there() {
    let (_dir, _node, server) = serve();
    let (status, head, page) = look(&server, "/", None);
    assert_eq!(status, 200, "{head}");
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(head.contains("cache-control: no-cache"), "{head}");
    let named: Vec<&str> = (page.split('"').filter(|part| part.starts_with("/assets/"))).collect();
    assert_eq!(named.len(), 3, "{page}");
    for asset in named {
        let (status, head, body) = look(&server, asset, None);
        assert_eq!((status, body.is_empty()), (200, false), "{asset}: {head}");
        let is_hashed = asset.starts_with("/assets/console-");
        assert_eq!(head.contains("immutable"), is_hashed, "{asset}: {head}");
    }
    let (status, _, problem) = look(&server, "/assets/none.js", None);
    assert_eq!(status, 404, "{problem}");
    // The page is all that is open.
    assert_eq!(look(&server, "/v1/jobs", None).0, 401);
}

#[test]
fn the_script_of_the_page_has_at_most_150_kilobytes_after_gzip() {
    let (_dir, _node, server) = serve();
    let (_, _, page) = look(&server, "/", None);
    let scripts: Vec<&str> = page
        .split('"')
        .filter(|part| part.ends_with(".js"))
        .collect();
    assert_eq!(scripts.len(), 1, "{page}");
    let (status, _, script) = look(&server, scripts[0], None);
    assert_eq!(status, 200, "{script}");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(script.as_bytes()).unwrap();
    let bytes = gzip.finish().unwrap().len();
    assert!(bytes <= SCRIPT_GZIP_BYTES_MAX, "{bytes} bytes");
}

#[test]
fn the_page_lets_in_nothing_but_its_own_and_is_sent_once() {
    let (_dir, _node, server) = serve();
    let (_, head, page) = look(&server, "/", None);
    let policy = head
        .lines()
        .find(|line| line.starts_with("content-security-policy:"));
    let policy = policy.unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(
        !page.contains("<style") && !page.contains("style="),
        "{page}"
    );
    assert!(
        !page.contains("http://") && !page.contains("https://"),
        "{page}"
    );
    let tag = head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "))
        .unwrap();
    let (status, _, body) = look(&server, "/", Some(tag));
    assert_eq!((status, &body[..]), (304, ""));
    // By a name that is not this server's there is no page either.
    let (status, _) = ask(&server, "GET /", "evil.example", None, "");
    assert_eq!(status, 421);
}

#[test]
fn the_page_is_frozen_into_one_file_with_what_the_server_answers() {
    let (dir, _node, server) = serve();
    let client = client(dir.path());
    let output = OutputPlace::File(dir.path().join("pi.tsv"));
    let id = client.submit(&pi(1, output)).unwrap().record.id;
    wait_for_end(&client, &id);
    let notes = vec!["it ended </script>".to_string()];
    let page = freeze(&client, 60, notes).unwrap();
    drop(server);
    let scripts: Vec<&str> = page.split("</script>").collect();
    assert_eq!(scripts.len(), 3, "what is kept ends no script");
    assert!(scripts[1].starts_with("\n<script type=\"module\">"));
    assert!(!scripts[0].contains("/assets/"), "it needs nothing else");
    let (_, kept) = scripts[0].split_once("id=\"frozen\">").unwrap();
    let kept: Value = serde_json::from_str(kept).unwrap();
    assert_eq!(kept["notes"][0], "it ended </script>");
    assert!(kept["answers"]["/v1/load"]["cores"].is_u64());
    assert_eq!(kept["answers"]["/v1/jobs"]["jobs"][0]["record"]["id"], id);
    let job = &kept["answers"][&format!("/v1/jobs/{id}")];
    assert_eq!(job["record"]["state"], "succeeded");
    let attempts = &kept["answers"][&format!("/v1/jobs/{id}/attempts")];
    let attempts = attempts["attempts"].as_array();
    assert!(attempts.is_some_and(|all| !all.is_empty()));
}

/// Regression: `ebb demo --policy none` ended with an error in place of its report.
#[test]
fn the_page_of_a_server_without_a_forecast_is_frozen_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = data(dir.path());
    let db = Options {
        create_if_missing: true,
        ..Options::default()
    };
    let mut options = NodeOptions::for_tests();
    options.colocated.runtime.management = Management::Unmanaged;
    let node = Arc::new(Node::open(&data, db, options).unwrap());
    let metrics = Metrics::of(Arc::clone(&node));
    let http = HttpOptions::default();
    let _server = HttpServer::start(&data, Arc::clone(&node), metrics, http).unwrap();
    let page = freeze(&client(dir.path()), 60, Vec::new()).unwrap();
    let (_, kept) = page.split_once("id=\"frozen\">").unwrap();
    let (kept, _) = kept.split_once("</script>").unwrap();
    let kept: Value = serde_json::from_str(kept).unwrap();
    assert!(kept["answers"]["/v1/load"]["cores"].is_u64());
    assert_eq!(kept["answers"].get("/v1/forecast"), None);
}

#[test]
fn all_pages_of_a_list_are_frozen_as_one() {
    let (dir, node, _server) = serve();
    let app = node.db().unwrap().keyspace("app").unwrap();
    for name in ["one", "two", "three"] {
        app.create_snapshot(name).unwrap();
    }
    let client = client(dir.path());
    let list = whole_list(&client, "/v1/snapshots?limit=2", "snapshots").unwrap();
    let snapshots = list["snapshots"].as_array().unwrap();
    let names: Vec<_> = snapshots.iter().map(|it| it["name"].as_str()).collect();
    assert_eq!(names, [Some("three"), Some("two"), Some("one")]);
    assert!(list["next"].is_null());
}

/// Regression: no page was made if a table was dropped, or a job left the history, between the
/// requests for the list and for its details.
#[test]
fn tables_and_jobs_that_are_gone_are_left_out_of_a_frozen_page() {
    let (dir, _node, _server) = serve();
    let client = client(dir.path());
    for gone in ["/v1/tables/app/none", "/v1/jobs/1/attempts"] {
        let answer = get_if_present(&client, gone).unwrap();
        assert_eq!(answer, None, "{gone}");
    }
    assert!(get_if_present(&client, "/v1/tables").unwrap().is_some());
    let problem = refused(get_if_present(&client, "/v1/load?seconds=0"));
    assert_eq!(problem.status, 400);
}

//! A server whose clients log in as roles: each token must belong to one.

use super::roles::{ADA, add_ada, check, token_of};
use super::session::{log_in, pipelined};
use super::*;

/// Starts a server that requires a role of each token, and has the role `ada` without permissions. The
/// directory of its database lasts as long as the first value.
fn served() -> (TempDir, Arc<Node>, HttpServer) {
    let dir = tempfile::tempdir().unwrap();
    let options = HttpOptions {
        address: Some((Ipv4Addr::LOCALHOST, 0).into()),
        requires_roles: true,
        ..HttpOptions::default()
    };
    let (node, server) = serve_with(dir.path(), options);
    add_ada(&node);
    (dir, node, server)
}

#[test]
fn a_token_without_a_role_is_refused_with_the_command_that_makes_another() {
    let (dir, _node, server) = served();
    let without_role = token(dir.path(), Scope::Admin);
    let remedy = "`ebb token create --role`";
    for request in [
        "GET /metrics",
        "GET /v1/session",
        "GET /v1/events",
        "POST /v1/jobs",
    ] {
        let answer = ask(&server, request, "localhost", Some(&without_role), "");
        check(request, answer, 401, remedy);
    }
    let (status, answer) = log_in(&server, &without_role, &[]);
    assert!(!answer.contains("set-cookie"), "{answer}");
    check("POST /v1/session", (status, answer), 401, remedy);
    assert_eq!(
        ask(&server, "GET /health/ready", "localhost", None, "").0,
        200
    );
    // The server's own user needs no token, and so no role.
    assert_eq!(client(dir.path()).list().unwrap(), []);
}

/// Regression: the responses beyond the limit of an address had only the time to wait.
#[test]
fn the_cause_is_in_each_response_to_a_refused_token() {
    let (dir, _node, server) = served();
    let without_role = token(dir.path(), Scope::Read);
    let responses = pipelined(&server, &without_role, 100);
    assert!(responses.contains("HTTP/1.1 429 "), "{responses}");
    let responses: Vec<&str> = responses.split("HTTP/1.1 ").skip(1).collect();
    assert_eq!(responses.len(), 100);
    for response in responses {
        assert!(response.contains("belongs to no role"), "{response}");
    }
}

#[test]
fn the_token_of_a_role_without_permissions_reads_metrics_and_lists() {
    let (dir, _node, server) = served();
    let ada = token_of(dir.path(), ADA, Scope::Read);
    for path in [
        "/metrics",
        "/openapi.json",
        "/v1/jobs",
        "/v1/keyspaces",
        "/v1/load",
        "/v1/policies",
        "/v1/profiles",
        "/v1/roles",
        "/v1/snapshots",
        "/v1/tables",
    ] {
        let (status, answer) = ask(&server, &format!("GET {path}"), "localhost", Some(&ada), "");
        assert_eq!(status, 200, "{path}: {answer}");
    }
    let (status, answer) = log_in(&server, &ada, &[]);
    let principal = r#"{"scope":"read","name":"test","role":"ada"}"#;
    assert!(answer.ends_with(principal), "{answer}");
    assert_eq!(status, 200);
}

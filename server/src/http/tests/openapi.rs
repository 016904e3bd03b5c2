//! The OpenAPI description of the routes.

use super::*;

/// Returns the body of a response, parsed as JSON.
fn json(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Collects the targets of all `$ref`s in a description.
fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str));
            members.values().for_each(|value| references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// Returns a request to a described route, with a name in place of each parameter of its path.
fn with_names(route: &str) -> String {
    let parameters = ["{id}", "{keyspace}", "{name}", "{table}"];
    (parameters.iter()).fold(route.to_owned(), |route, parameter| {
        route.replace(parameter, "none")
    })
}

#[test]
fn every_described_route_is_served_and_every_reference_resolves() {
    let (dir, _node, server) = serve();
    let token = token(dir.path(), Scope::Admin);
    let ask = |request: &str| ask(&server, request, "localhost", Some(&token), "");
    let (status, answer) = ask("GET /openapi.json");
    assert_eq!(status, 200, "{answer}");
    let description = json(&answer);
    let mut all = Vec::new();
    references(&description, &mut all);
    assert!(all.len() > 50, "{all:?}");
    for reference in all {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(description.pointer(pointer).is_some(), "{reference}");
    }
    let session = &description["components"]["securitySchemes"]["session"];
    let port = server.address().unwrap().port();
    assert_eq!(session["name"], format!("ebb_session_{port}"));
    let paths = description["paths"].as_object().unwrap();
    assert!(paths.contains_key("/v1/events"), "{paths:?}");
    assert!(paths.contains_key("/v1/jobs/{id}/attempts"), "{paths:?}");
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let what = format!("{} {path}", method.to_uppercase());
            let named = operation["operationId"].is_string() && operation["summary"].is_string();
            assert!(named, "{what}: {operation}");
            // The event stream has no end.
            if path == "/v1/events" {
                continue;
            }
            let (status, answer) = ask(&with_names(&what));
            assert!(status != 405 && status < 500, "{what}: {answer}");
            assert!(!answer.contains("there is no /"), "{what}: {answer}");
        }
    }
    for change in ["cancel", "restart", "discard"] {
        let path = format!("/v1/jobs/{{id}}/{change}");
        let text = &description["paths"][&path]["post"]["description"];
        // A description has the line ends of its comment.
        let text = text.as_str().unwrap_or_default().replace('\n', " ");
        assert!(text.contains("scope `admin`"), "{path}: {text}");
    }
    // The fields that a client sends are in the schema.
    let sent = serde_json::to_value(pi(1, OutputPlace::Terminal)).unwrap();
    let described = &description["components"]["schemas"]["JobRequest"]["properties"];
    for field in sent.as_object().unwrap().keys() {
        assert!(described.get(field).is_some(), "{field} in {described}");
    }
}

#[test]
fn the_description_names_its_format_and_the_version_of_the_server() {
    let (dir, _node, server) = serve();
    let read = token(dir.path(), Scope::Read);
    let (_, answer) = ask(&server, "GET /openapi.json", "localhost", Some(&read), "");
    let description = json(&answer);
    let format = description["openapi"].as_str().unwrap();
    assert!(format.starts_with("3.1."), "{format}");
    assert_eq!(description["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn every_described_route_requires_a_token_and_every_change_scope_jobs() {
    let (dir, _node, server) = serve();
    let read = token(dir.path(), Scope::Read);
    let ask = |request: &str, token: Option<&Token>| ask(&server, request, "localhost", token, "");
    let (_, answer) = ask("GET /openapi.json", Some(&read));
    let description = json(&answer);
    let mut changes = 0;
    for (path, methods) in description["paths"].as_object().unwrap() {
        // Health checks are for every client. A login has its token in the body.
        if path.starts_with("/health/") || path == "/v1/session" {
            continue;
        }
        for method in methods.as_object().unwrap().keys() {
            let request = with_names(&format!("{} {path}", method.to_uppercase()));
            let (status, answer) = ask(&request, None);
            assert_eq!(status, 401, "{request}: {answer}");
            if method != "get" {
                let (status, answer) = ask(&request, Some(&read));
                assert_eq!(status, 403, "{request}: {answer}");
                changes += 1;
            }
        }
    }
    assert!(changes > 10, "{changes}");
}

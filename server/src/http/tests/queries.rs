//! Queries of CQL, which an administrator lists and kills.

use std::sync::Mutex;

use super::*;

/// A source of two queries, a read with the id 1 and a change of the schema with the id 2. It keeps
/// the ids of killed queries.
#[derive(Debug, Default)]
struct TwoQueries(Mutex<Vec<u64>>);

impl Queries for TwoQueries {
    fn list(&self) -> Vec<QueryView> {
        let view = |id, lane: &str| QueryView {
            id,
            address: "127.0.0.1:7".to_string(),
            user: None,
            keyspace: Some("app".to_string()),
            statement: "a statement".to_string(),
            statements: 1,
            lane: lane.to_string(),
            state: "running".to_string(),
            waits_for: None,
            queued_ms: 0,
            running_ms: 5,
        };
        vec![view(1, "range"), view(2, "schema")]
    }

    fn kill(&self, id: u64) -> Option<bool> {
        if id == 1 {
            self.0.lock().unwrap().push(id);
        }
        (1..=2).contains(&id).then_some(id == 1)
    }
}

#[test]
fn a_token_for_admin_lists_queries_and_kills_those_that_only_read() {
    let dir = tempfile::tempdir().unwrap();
    let queries = Arc::new(TwoQueries::default());
    let options = HttpOptions {
        address: Some((Ipv4Addr::LOCALHOST, 0).into()),
        queries: Some(queries.clone()),
        ..HttpOptions::default()
    };
    let (_node, server) = serve_with(dir.path(), options);
    let [_, jobs, admin] = Scope::ALL.map(|scope| token(dir.path(), scope));
    let ask = |request: &str, token: &Token| ask(&server, request, "localhost", Some(token), "");
    let invalid = "GET /v1/queries?limit=0";
    for request in ["GET /v1/queries", invalid, "DELETE /v1/queries/1"] {
        assert_eq!(ask(request, &jobs).0, 403, "{request}");
    }
    assert_eq!(ask(invalid, &admin).0, 400);
    let (status, answer) = ask("GET /v1/queries", &admin);
    assert_eq!(status, 200, "{answer}");
    let listed: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(listed["queries"][1]["lane"], "schema", "{listed}");
    for (id, expected) in [("1", 204), ("2", 409), ("3", 404), ("x", 400)] {
        let (status, answer) = ask(&format!("DELETE /v1/queries/{id}"), &admin);
        assert_eq!(status, expected, "{answer}");
    }
    assert_eq!(*queries.0.lock().unwrap(), [1]);
    let audit = fs::read_to_string(data(dir.path()).join("audit.log")).unwrap();
    assert!(audit.contains("\"DELETE /v1/queries/1\""), "{audit}");
}

//! The console as a file: the page with a server's responses of one moment.
//!
//! The file refers to nothing outside of it, so it can be kept, sent and opened without a server.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::client::{JobsClient, Result};
use super::routes::in_one_file;

/// The JSON that the page's script reads in place of a server's responses.
#[derive(Serialize)]
struct Frozen {
    at_unix_ms: u64,
    seconds: u32,
    notes: Vec<String>,
    /// Responses by path, without the query.
    answers: Map<String, Value>,
}

/// Fetches all data that the page shows, and returns one HTML file with the page and the data. The
/// page shows the last `seconds`, 1 to 86,400. `notes` are paragraphs of text above the charts.
///
/// # Errors
/// When the server refuses a request, or does not answer.
pub fn freeze(client: &JobsClient, seconds: u32, notes: Vec<String>) -> Result<String> {
    let mut answers = Map::new();
    let session = json!({"scope": "read", "name": ""});
    answers.insert("/v1/session".to_string(), session);
    for (path, query) in [
        ("/v1/load", format!("seconds={seconds}")),
        ("/v1/forecast", format!("seconds={seconds}")),
        ("/v1/jobs", "limit=1000".to_string()),
        ("/v1/snapshots", "limit=1000".to_string()),
        ("/v1/tables", "limit=1000".to_string()),
    ] {
        let answer: Value = client.get(&format!("{path}?{query}"))?;
        answers.insert(path.to_string(), answer);
    }
    let text = |value: &Value, key: &str| value[key].as_str().map(str::to_string);
    let tables = answers["/v1/tables"]["tables"].as_array().cloned();
    let tables = tables.unwrap_or_default().into_iter().filter_map(|table| {
        let (keyspace, table) = (text(&table, "keyspace")?, text(&table, "table")?);
        Some(format!("/v1/tables/{keyspace}/{table}"))
    });
    let jobs = answers["/v1/jobs"]["jobs"].as_array().cloned();
    let jobs = jobs.unwrap_or_default().into_iter().filter_map(|job| {
        let id = text(&job["record"], "id")?;
        Some(format!("/v1/jobs/{id}/attempts"))
    });
    for path in tables.chain(jobs) {
        let answer: Value = client.get(&path)?;
        answers.insert(path, answer);
    }
    let at_unix_ms = answers["/v1/load"]["now_unix_ms"].as_u64();
    let frozen = Frozen {
        at_unix_ms: at_unix_ms.unwrap_or_default(),
        seconds,
        notes,
        answers,
    };
    let frozen = serde_json::to_string(&frozen).expect("maps have text keys only");
    Ok(in_one_file(&frozen))
}

//! The console as a file: the page with a server's responses of one moment.
//!
//! The file refers to nothing outside of it, so it can be kept, sent and opened without a server.

use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::client::{ClientError, JobsClient, Result};
use super::routes::in_one_file;

/// The data in a console page that is saved as one file, as JSON. The page's script reads this data in place
/// of the responses of a server.
#[derive(Serialize)]
struct Frozen {
    at_unix_ms: u64,
    seconds: u32,
    notes: Vec<String>,
    /// The server's responses, by the path of the request without its query parameters.
    answers: Map<String, Value>,
}

/// Fetches the data that a saved page shows, and returns one HTML file with the console's page and the data.
/// The page shows the load of the last `seconds`, 1 to 86,400, and the forecast of the next `seconds`, if the server
/// has one. `notes` are paragraphs of text above the charts.
///
/// # Errors
/// When the server refuses a request, or does not answer.
pub fn freeze(client: &JobsClient, seconds: u32, notes: Vec<String>) -> Result<String> {
    let mut answers = Map::new();
    let session = json!({"scope": "read", "name": ""});
    answers.insert("/v1/session".to_string(), session);
    let load: Value = client.get(&format!("/v1/load?seconds={seconds}"))?;
    answers.insert("/v1/load".to_string(), load);
    match client.get(&format!("/v1/forecast?seconds={seconds}")) {
        Ok(forecast) => {
            answers.insert("/v1/forecast".to_string(), forecast);
        }
        // A runtime without a policy has no forecast.
        Err(ClientError::Refused(problem))
            if problem.status == StatusCode::UNPROCESSABLE_ENTITY => {}
        Err(error) => return Err(error),
    }
    for name in ["jobs", "snapshots", "tables"] {
        let path = format!("/v1/{name}");
        let list = whole_list(client, &format!("{path}?limit=1000"), name)?;
        answers.insert(path, list);
    }
    let text = |value: &Value, key: &str| value[key].as_str().map(str::to_string);
    let tables = answers["/v1/tables"]["tables"].as_array().cloned();
    let tables = tables.unwrap_or_default().into_iter().filter_map(|table| {
        let (keyspace, table) = (text(&table, "keyspace")?, text(&table, "table")?);
        Some(format!("/v1/tables/{keyspace}/{table}"))
    });
    let jobs = answers["/v1/jobs"]["jobs"].as_array().cloned();
    let mut attempts = Vec::new();
    for job in jobs.unwrap_or_default() {
        if let Some(id) = text(&job["record"], "id") {
            attempts.push(format!("/v1/jobs/{id}/attempts"));
            answers.insert(format!("/v1/jobs/{id}"), job);
        }
    }
    for path in tables.chain(attempts) {
        if let Some(answer) = get_if_present(client, &path)? {
            answers.insert(path, answer);
        }
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

/// Fetches a table or the attempts of a job. Returns `None` if there is no such table or job: it
/// may have been dropped after it was listed.
pub(super) fn get_if_present(client: &JobsClient, path: &str) -> Result<Option<Value>> {
    match client.get(path) {
        Ok(answer) => Ok(Some(answer)),
        Err(ClientError::Refused(problem)) if problem.status == StatusCode::NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}

/// Fetches all pages of a list, and returns one page with all elements. `first` is the path of the first
/// page, with a query. `name` is the member of a page that has its elements.
pub(super) fn whole_list(client: &JobsClient, first: &str, name: &str) -> Result<Value> {
    let parts = |mut page: Value| {
        let next = page["next"].as_str().map(str::to_string);
        let elements = match page.get_mut(name).map(Value::take) {
            Some(Value::Array(elements)) => elements,
            _ => Vec::new(),
        };
        (elements, next)
    };
    let elements = client.pages(first, parts)?;
    let list = [
        (name.to_string(), Value::Array(elements)),
        ("next".to_string(), Value::Null),
    ];
    Ok(Value::Object(Map::from_iter(list)))
}

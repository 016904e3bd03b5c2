//! The load, the forecast, what-if questions and event streams.

use std::cell::{OnceCell, RefCell};
use std::io::{BufRead, BufReader};

use ebb_jobs::history::{BackupRequest, History, MaintenanceOptions};
use serde_json::Map;

use super::*;
use crate::node::learner_tests;

fn json(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Opens a stream of the events that follow the event with the id `last`. For `None`, the stream has new
/// events only.
fn stream(server: &HttpServer, token: &Token, last: Option<&str>) -> BufReader<TcpStream> {
    let mut stream = connect(server);
    let last = last.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
    let request = format!(
        "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{last}\r\n",
        token.reveal()
    );
    stream.write_all(request.as_bytes()).unwrap();
    BufReader::new(stream)
}

/// The number of samples of the load after which a test stops waiting for another event. The server sends a
/// sample each second.
const SAMPLES_MAX: usize = 180;

/// The most lines that [`next`] reads before it fails: more than a response has before its [`SAMPLES_MAX`]th
/// sample, including the lines of HTTP's chunks and of other events.
const LINES_MAX: usize = 10 * SAMPLES_MAX;

/// Reads lines up to the next one that begins with `begins`, and returns the rest of that line;
/// `None` at the end of the stream.
fn next(stream: &mut BufReader<TcpStream>, begins: &str) -> Option<String> {
    for _ in 0..LINES_MAX {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        if let Some(rest) = line.strip_prefix(begins) {
            return Some(rest.trim_end().to_string());
        }
    }
    panic!("no {begins:?} in {LINES_MAX} lines")
}

/// Waits for the next event of this kind, and returns its data.
fn event(stream: &mut BufReader<TcpStream>, kind: &str) -> Value {
    let begins = format!("event: {kind}");
    next(stream, &begins).unwrap_or_else(|| panic!("no {kind}"));
    serde_json::from_str(&next(stream, "data: ").unwrap()).unwrap()
}

/// Regression: a server for few connections gave all of them to event streams, and answered nothing else.
/// Streams over the port also took the permits of streams over the socket.
#[test]
fn event_streams_leave_half_of_the_connections_to_requests() {
    let dir = tempfile::tempdir().unwrap();
    let options = HttpOptions {
        address: Some((Ipv4Addr::LOCALHOST, 0).into()),
        connections_max: Some(8),
        ..HttpOptions::default()
    };
    let (_node, server) = serve_with(dir.path(), options);
    let token = token(dir.path(), Scope::Admin);
    let mut streams = [(); 4].map(|()| stream(&server, &token, None));
    for stream in &mut streams {
        event(stream, "sample");
    }
    for (request, status) in [("GET /v1/events", 503), ("GET /v1/jobs", 200)] {
        let answer = ask(&server, request, "localhost", Some(&token), "");
        assert_eq!(answer.0, status, "{}", answer.1);
        // Regression: the refusal of a stream had no such header.
        let is_retried = answer.1.contains("\r\nretry-after: 10\r\n");
        assert_eq!(is_retried, status == 503, "{}", answer.1);
    }
    let path = data(dir.path()).join(SOCKET);
    let mut own = UnixStream::connect(path).unwrap();
    let request = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    own.write_all(request).unwrap();
    let mut line = String::new();
    BufReader::new(own).read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
}

#[test]
fn a_job_is_predicted_and_what_another_would_change() {
    let (dir, node, server) = serve();
    let token = token(dir.path(), Scope::Admin);
    let post = |body: &str| ask(&server, "POST /v1/what-if", "localhost", Some(&token), body);
    let mut events = stream(&server, &token, None);
    event(&mut events, "sample");
    let goal = JobRequest {
        goal_s: Some(3600.0),
        ..pi(1 << 36, OutputPlace::File(dir.path().join("pi.tsv")))
    };
    let job = node.submit(goal).unwrap();
    let id = job.id();
    assert_eq!(event(&mut events, "job")["id"], id);
    let mut samples = (0..SAMPLES_MAX).map(|_| event(&mut events, "sample"));
    assert!(samples.any(|sample| sample["shares"][id].as_f64() > Some(0.0)));
    let prediction = until_some("a prediction", || job.prediction());
    assert!(
        prediction.low_unix_ms < prediction.finish_unix_ms,
        "{prediction:?}"
    );
    assert!(
        prediction.finish_unix_ms < prediction.high_unix_ms,
        "{prediction:?}"
    );
    assert!(
        prediction.method.starts_with("lookahead/"),
        "{prediction:?}"
    );
    assert!(prediction.slack_s.unwrap() < 3600.0, "{prediction:?}");
    let view = client(dir.path()).show(id, Duration::ZERO).unwrap();
    assert_eq!(
        view.prediction.unwrap().goal_unix_ms,
        prediction.goal_unix_ms
    );

    let (status, answer) = post(r#"{"maps": 3, "map_s": 0.5, "goal_s": 60}"#);
    assert_eq!(status, 200, "{answer}");
    let small = json(&answer);
    assert_eq!(small["meets_goal"], true, "{small}");
    assert_eq!(small["victims"], Value::Array(Vec::new()), "{small}");
    let [now, finish] = ["now_unix_ms", "finish_unix_ms"].map(|time| small[time].as_u64());
    assert!(now.is_some() && now <= finish, "{small}");
    let (status, answer) = post(&format!(r#"{{"like": "{id}"}}"#));
    assert_eq!((status, &json(&answer)["meets_goal"]), (200, &Value::Null));
    for wrong in [
        r#"{"maps": 0, "map_s": 1}"#,
        r#"{"maps": 1, "map_s": -1}"#,
        r#"{"maps": 1, "map_s": 1, "goal_s": 0}"#,
        r#"{"maps": "many"}"#,
        r#"{"like": 7}"#,
        "[]",
    ] {
        let (status, answer) = post(wrong);
        assert!((400..500).contains(&status), "{wrong}: {answer}");
    }
    assert_eq!(post(r#"{"like": "17"}"#).0, 404);
    job.cancel();
    job.wait();
    // Its state may have changed any number of times before.
    loop {
        let change = event(&mut events, "job");
        assert_eq!(change["id"], id);
        if change["state"] == "cancelled" {
            break;
        }
    }
    assert_eq!(job.prediction(), None);
}

/// Regression: a console without jobs did not show a backup that a command had started.
#[test]
fn the_start_and_the_end_of_a_backup_are_events() {
    let (dir, node, server) = serve();
    write_a_row(&node);
    let token = token(dir.path(), Scope::Read);
    let mut stream = stream(&server, &token, None);
    event(&mut stream, "sample");
    let stream = RefCell::new(stream);
    let started = OnceCell::new();
    let request = BackupRequest {
        target: "monday".to_string(),
        options: MaintenanceOptions {
            by: "a test".to_string(),
            rate_bytes_per_s: None,
        },
    };
    let target = dir.path().join("backups/monday");
    let made = node.backup(&target, &request, &|| {
        let _started = started.get_or_init(|| event(&mut stream.borrow_mut(), "job"));
        true
    });
    made.unwrap();
    let ended = event(&mut stream.borrow_mut(), "job");
    let id = node.show("last", Duration::ZERO).unwrap().record.id;
    for (change, state) in [(started.get().unwrap(), "running"), (&ended, "succeeded")] {
        assert_eq!(*change, serde_json::json!({"id": id, "state": state}));
    }
}

/// Regression: the CPU time of a backup was in no share, so the console drew its cores as free.
#[test]
fn a_backup_is_among_the_shares() {
    let (dir, node, server) = serve();
    write_a_row(&node);
    let token = token(dir.path(), Scope::Read);
    let events = RefCell::new(stream(&server, &token, None));
    let share_after_sample = || {
        event(&mut events.borrow_mut(), "sample");
        let request = "GET /v1/load?seconds=60";
        let load = json(&ask(&server, request, "localhost", Some(&token), "").1);
        load["shares"].as_array()?.first().cloned()
    };
    let share = OnceCell::<Value>::new();
    let request = BackupRequest {
        target: "monday".to_string(),
        options: MaintenanceOptions {
            by: "a test".to_string(),
            rate_bytes_per_s: None,
        },
    };
    let target = dir.path().join("backups/monday");
    let made = node.backup(&target, &request, &|| {
        let _share = share.get_or_init(|| {
            let mut shares = (0..SAMPLES_MAX).filter_map(|_| share_after_sample());
            shares.next().unwrap()
        });
        true
    });
    made.unwrap();
    let share = share.get().unwrap();
    let id = node.show("last", Duration::ZERO).unwrap().record.id;
    assert_eq!(
        (&share["job_id"], &share["name"]),
        (&id.into(), &"backup".into())
    );
}

/// Regression: clients that follow the events still had a discarded job as an unfinished one.
#[test]
fn the_discard_of_a_job_is_an_event() {
    let (dir, node, server) = serve();
    let request = pi(1, OutputPlace::File(dir.path().join("pi.tsv")));
    let history = History::open(node.db().unwrap()).unwrap();
    let id = history.begin(&request, Vec::new(), None).unwrap().id;
    let token = token(dir.path(), Scope::Read);
    let mut stream = stream(&server, &token, None);
    event(&mut stream, "sample");
    client(dir.path()).discard(&id).unwrap();
    let ended = event(&mut stream, "job");
    assert_eq!(ended, serde_json::json!({"id": id, "state": "cancelled"}));
}

#[test]
fn the_load_of_the_last_seconds_and_the_forecast_are_served() {
    let (dir, node, server) = serve();
    let token = token(dir.path(), Scope::Read);
    let get = |path: &str| {
        ask(
            &server,
            &format!("GET {path}"),
            "localhost",
            Some(&token),
            "",
        )
    };
    let mut events = stream(&server, &token, None);
    let app = node.db().unwrap().keyspace("app").unwrap();
    // Before the first control cycle the capacity is 0, and there is no forecast.
    let mut samples = (0..SAMPLES_MAX).map(|_| event(&mut events, "sample"));
    let sample = samples.find(|sample| sample["capacity_cores"].as_f64() > Some(0.0));
    let sample = sample.unwrap();
    app.create_snapshot("s").unwrap();
    let created = event(&mut events, "snapshot");
    assert_eq!(
        (&created["name"], &created["change"]),
        (&"s".into(), &"created".into())
    );
    app.delete_snapshot("s").unwrap();
    assert_eq!(event(&mut events, "snapshot")["change"], "deleted");
    let load = json(&get("/v1/load?seconds=3600").1);
    let samples = load["samples"].as_array().unwrap();
    let mut point = sample.clone();
    let shares = point.as_object_mut().unwrap().remove("shares");
    assert_eq!(
        shares,
        Some(Value::Object(Map::new())),
        "no job used anything"
    );
    assert!(samples.contains(&point), "{point} in {load}");
    let unused = point["analytics_cores"].as_f64().unwrap();
    assert!(
        unused.is_sign_positive(),
        "{unused}, which ebb top would show"
    );
    assert_eq!(load["objective"]["ratio"], 1.1);
    // The latency without jobs is unknown.
    assert_eq!(point.get("bound_us"), Some(&Value::Null));
    let forecast = json(&get("/v1/forecast?seconds=60").1);
    assert_eq!(forecast["source"], "last-ten-minutes");
    assert_eq!(forecast.get("refused"), Some(&Value::Null));
    // No job has ended, so no error of a prediction is known.
    let error = forecast["predictions"].get("mean_error_ratio");
    assert_eq!(error, Some(&Value::Null));
    // A forecast of any length has 120 steps, and a point at both ends.
    assert_eq!(forecast["points"].as_array().unwrap().len(), 121);
    for wrong in [
        "/v1/load?seconds=0",
        "/v1/load?seconds=99999",
        "/v1/forecast?days=1",
    ] {
        assert_eq!(get(wrong).0, 400, "{wrong}");
    }
}

#[test]
fn a_learned_forecast_follows_the_time_of_day() {
    let (dir, node, server) = serve();
    let token = token(dir.path(), Scope::Read);
    let directory = data(dir.path());
    fs::write(directory.join("load.csv"), learner_tests::record(3)).unwrap();
    let midnight_s = learner_tests::MIDNIGHT_S + 3 * 86_400;
    learner_tests::learn_at(&node, &directory, midnight_s);
    let request = "GET /v1/forecast?seconds=86400";
    let forecast = until_some("the plan of a control cycle", || {
        let forecast = json(&ask(&server, request, "localhost", Some(&token), "").1);
        // There are five points an hour.
        let at = |hour: usize| forecast["points"][hour * 5]["load_cores"].as_f64();
        let is_daily = at(15) > at(3);
        is_daily.then_some(forecast)
    });
    assert_eq!(forecast["source"], "learned");
    assert_eq!(forecast.get("refused"), Some(&Value::Null));
}

#[test]
fn a_stream_goes_on_where_it_was_and_ends_with_the_server() {
    let (dir, _node, server) = serve();
    let token = token(dir.path(), Scope::Read);
    let mut first = stream(&server, &token, None);
    let id = next(&mut first, "id: ").unwrap();
    let following = next(&mut first, "id: ").unwrap();
    drop(first);
    let mut again = stream(&server, &token, Some(&id));
    assert_eq!(next(&mut again, "id: ").unwrap(), following);
    let mut unknown = stream(&server, &token, Some("1"));
    event(&mut unknown, "reset");
    for id in ["x", "-1", "99999999999999999999"] {
        event(&mut stream(&server, &token, Some(id)), "reset");
    }
    assert!(server.drain(LONG), "streams do not keep it");
    assert_eq!(next(&mut unknown, "never"), None);
}

#[test]
fn two_hundred_streams_get_events_and_the_server_answers_other_requests() {
    let (dir, _node, server) = serve();
    let token = token(dir.path(), Scope::Read);
    let open = || stream(&server, &token, None);
    let mut streams: Vec<_> = (0..200).map(|_| open()).collect();
    let of_each = |stream: &mut BufReader<TcpStream>| {
        let ids = (0..3).map(|_| next(stream, "id: ").unwrap());
        ids.last().unwrap()
    };
    let last: Vec<String> = streams.iter_mut().map(of_each).collect();
    assert_eq!(last.len(), 200);
    let (status, _) = ask(&server, "GET /v1/load", "localhost", Some(&token), "");
    assert_eq!(status, 200);
}

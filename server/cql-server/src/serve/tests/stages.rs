//! Latencies by stage.

use super::*;

/// Returns the names of the stages, with the number of requests in each; `None` if the server does
/// not measure stages.
fn totals(server: &CqlServer) -> Option<[(&'static str, u64); 3]> {
    let stages = server.counters().stages()?;
    Some(stages.map(|(stage, counts)| (stage, counts.total())))
}

#[test]
fn only_point_requests_count_and_they_count_in_every_stage() {
    let (fake, server) = server(ServeOptions {
        stage_latencies: true,
        ..options()
    });
    fake.gate.open();
    let mut client = Client::new(&server);
    let (text, keyspace) = ("which", None);
    client.send(1, &Request::Prepare { text, keyspace });
    client.receive();
    client.query(2, "scan all");
    client.receive();
    client.query(3, "nonsense");
    client.error();
    for stream in 4..7 {
        client.query(stream, "which");
        client.receive();
    }
    // A response counts as sent only after the client may have received it.
    let expected = ["queued", "executed", "sent"].map(|stage| (stage, 3));
    wait::until("all responses to be counted", || {
        totals(&server) == Some(expected)
    });
}

#[test]
fn stages_are_not_measured_unless_the_option_is_on() {
    let (_, server) = server(options());
    let mut client = Client::new(&server);
    client.query(1, "which");
    client.receive();
    assert_eq!(totals(&server), None);
}

//! Jobs that failed or were cancelled, and whose requests are submitted again.

use ebb_jobs::history::History;

use super::*;

#[test]
fn a_cancelled_job_is_retried_as_another_job_and_one_that_succeeded_is_not() {
    let (dir, _node, server) = serve();
    let own = client(dir.path());
    let request = pi(
        1 << 50,
        OutputPlace::File(dir.path().join("outputs/pi.tsv")),
    );
    let first = own.submit(&request).unwrap().record.id;
    let running = refused(own.retry(&first));
    assert_eq!((running.status, running.failure), (409, Failure::Invalid));
    assert!(running.detail.contains("cancel it first"), "{running}");
    assert!(own.cancel(&first).unwrap());
    wait_for_end(&own, &first);
    for refused in [refused(own.restart(&first)), refused(own.discard(&first))] {
        assert_eq!(refused.status, 409, "{refused}");
        assert!(refused.detail.contains("was cancelled"), "{refused}");
    }
    let again = own.retry(&first).unwrap().record;
    assert_ne!(again.id, first);
    assert_eq!((again.starts, &again.request), (1, &request.to_json()));
    assert!(own.cancel(&again.id).unwrap());
    wait_for_end(&own, &again.id);

    // Over the network a retry takes what the submission of the request takes.
    let [jobs, admin] = [Scope::Jobs, Scope::Admin].map(|scope| token(dir.path(), scope));
    let retry = |id: &str, token: &Token| {
        let request = format!("POST /v1/jobs/{id}/retry");
        ask(&server, &request, "localhost", Some(token), "")
    };
    let (status, answer) = retry(&first, &jobs);
    assert_eq!(status, 403, "{answer}");
    let (status, answer) = retry(&first, &admin);
    assert_eq!(status, 201, "{answer}");
    let last = own.show("last", Duration::ZERO).unwrap().record.id;
    assert!(
        answer.contains(&format!("location: /v1/jobs/{last}\r\n")),
        "{answer}"
    );
    // Regression: scope `jobs` was enough to end a job over files.
    for change in ["cancel", "restart", "discard"] {
        let request = format!("POST /v1/jobs/{last}/{change}");
        let (status, answer) = ask(&server, &request, "localhost", Some(&jobs), "");
        assert_eq!(status, 403, "{change}: {answer}");
    }
    assert!(own.cancel(&last).unwrap());
    wait_for_end(&own, &last);
    let elsewhere = pi(1 << 50, OutputPlace::File(dir.path().join("elsewhere.tsv")));
    let outside = own.submit(&elsewhere).unwrap().record.id;
    assert!(own.cancel(&outside).unwrap());
    wait_for_end(&own, &outside);
    let (status, answer) = retry(&outside, &admin);
    assert_eq!(
        status, 403,
        "it is not below the root for outputs: {answer}"
    );

    let done = pi(1, OutputPlace::File(dir.path().join("done.tsv")));
    let done = own.submit(&done).unwrap().record.id;
    wait_for_end(&own, &done);
    let succeeded = refused(own.retry(&done));
    assert_eq!(succeeded.status, 409);
    assert!(succeeded.detail.contains("nothing to retry"), "{succeeded}");
    assert_eq!(own.list().unwrap().len(), 5);
}

/// Regression: a restart over the network wrote outside of the root for outputs, and could publish with the
/// credentials of the server.
#[test]
fn a_restart_over_the_network_requires_an_output_that_a_submission_may_have() {
    let (dir, node, server) = serve();
    let own = client(dir.path());
    let history = History::open(node.db().unwrap()).unwrap();
    // A server that is killed leaves jobs unfinished, also those that came over its socket.
    let begin = |request: &JobRequest| history.begin(request, Vec::new(), None).unwrap().id;
    let [inside, elsewhere] = ["outputs/pi.tsv", "pi.tsv"].map(|path| dir.path().join(path));
    let inside_job = begin(&pi(1, OutputPlace::File(inside.clone())));
    let outside_job = begin(&pi(1, OutputPlace::File(elsewhere.clone())));
    let bucket_job = begin(&pi(
        1,
        OutputPlace::Iceberg("s3://lake/ebb".parse().unwrap()),
    ));
    let mut by_catalog = pi(1, OutputPlace::Iceberg("lake".parse().unwrap()));
    by_catalog.application = ApplicationRequest::Publish(PublishRequest {
        catalog: Some("https://catalog.example.org".parse().unwrap()),
        ..PublishRequest::default()
    });
    let catalog_job = begin(&by_catalog);
    let admin = token(dir.path(), Scope::Admin);
    let restart = |id: &str| {
        let request = format!("POST /v1/jobs/{id}/restart");
        ask(&server, &request, "localhost", Some(&admin), "")
    };
    for (id, reason) in [
        (&outside_job, "does not lie below"),
        (&bucket_job, "the credentials of the server"),
        (&catalog_job, "the credentials of the server"),
    ] {
        let (status, answer) = restart(id);
        assert_eq!(status, 403, "{answer}");
        assert!(answer.contains(reason), "{answer}");
        let state = own.show(id, Duration::ZERO).unwrap().record.state;
        assert_eq!(state, RecordState::Started, "{reason}");
    }
    let (status, answer) = restart(&inside_job);
    assert_eq!(status, 200, "{answer}");
    // Over the socket, an output may have any place.
    own.restart(&outside_job).unwrap();
    for (id, output) in [(&inside_job, inside), (&outside_job, elsewhere)] {
        let end = wait_for_end(&own, id);
        assert_eq!(end.report.outcome, Outcome::Succeeded);
        assert!(output.exists(), "{output:?}");
    }
}

/// Regression: the response had the record before this end, as that of a job that had only started.
#[test]
fn the_response_to_a_discard_has_the_end_of_the_job() {
    let (dir, node, _server) = serve();
    let own = client(dir.path());
    let request = pi(1, OutputPlace::File(dir.path().join("pi.tsv")));
    let history = History::open(node.db().unwrap()).unwrap();
    let id = history.begin(&request, Vec::new(), None).unwrap().id;
    let discarded = own.discard(&id).unwrap();
    assert_eq!(discarded.record.state, RecordState::Cancelled);
    assert!(discarded.record.ended_unix_ms.is_some());
    assert_eq!(discarded, own.show(&id, Duration::ZERO).unwrap());
}

#[test]
fn a_command_with_a_key_starts_a_job_once() {
    let (dir, _node, _server) = serve();
    let own = client(dir.path());
    let to = |name: &str| pi(1, OutputPlace::File(dir.path().join(name)));
    let first = own.submit_once(&to("a.tsv"), "nightly").unwrap().record.id;
    wait_for_end(&own, &first);
    let again = own.submit_once(&to("a.tsv"), "nightly").unwrap().record.id;
    assert_eq!(again, first);
    let other = refused(own.submit_once(&to("b.tsv"), "nightly"));
    assert_eq!(other.status, 422, "{other}");
    assert_eq!(own.list().unwrap().len(), 1);
}

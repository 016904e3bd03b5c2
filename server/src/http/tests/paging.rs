//! Lists by pages: of names, of profiles and attempts, of backups.

use std::ops::ControlFlow;

use super::*;

/// Fetches a list by pages of `limit` elements, and returns its elements, each converted by `of`. `list` is
/// the path of the list, and the member of a page that has the elements.
fn by_pages(
    server: &HttpServer,
    token: &Token,
    list: (&str, &str),
    limit: usize,
    of: impl Fn(&Value) -> String,
) -> Vec<String> {
    let (path, member) = list;
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let request = format!("GET {path}?limit={limit}{after}");
        let (status, answer) = ask(server, &request, "localhost", Some(token), "");
        assert_eq!(status, 200, "{answer}");
        let page: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        let elements = page[member].as_array().unwrap();
        assert!((1..=limit).contains(&elements.len()), "{page}");
        all.extend(elements.iter().map(&of));
        match page["next"].as_str() {
            // Names of this test need no escapes in a query, but for the slash, which may stand there.
            Some(next) => after = format!("&after={next}"),
            None => return all,
        }
    }
}

#[test]
fn keyspaces_and_backups_are_listed_by_pages_in_the_order_of_their_names() {
    let (dir, node, server) = serve();
    let token = token(dir.path(), Scope::Admin);
    let db = node.db().unwrap();
    for name in ["c", "a", "e", "b", "d"] {
        db.keyspace(name).unwrap();
        db.backup(dir.path().join("backups").join(name)).unwrap();
    }
    for limit in [1, 2, 5, 100] {
        let list = ("/v1/keyspaces", "keyspaces");
        let text = |name: &Value| name.as_str().unwrap().to_string();
        let keyspaces = by_pages(&server, &token, list, limit, text);
        let own = |name: &String| !name.starts_with("ebb_");
        let own: Vec<_> = keyspaces.into_iter().filter(own).collect();
        assert_eq!(own, ["a", "b", "c", "d", "e"], "by {limit}");
        let list = ("/v1/backups", "backups");
        let name = |backup: &Value| backup["name"].as_str().unwrap().to_string();
        let backups = by_pages(&server, &token, list, limit, name);
        assert_eq!(backups, ["a", "b", "c", "d", "e"], "by {limit}");
    }
    assert!(
        client(dir.path())
            .keyspaces()
            .unwrap()
            .contains(&"e".to_string())
    );
}

/// Regression: the folder of an interrupted backup was listed, although it does not open as the database.
#[test]
fn an_unfinished_backup_is_not_listed() {
    let (dir, node, server) = serve();
    let token = token(dir.path(), Scope::Read);
    let names = || {
        let (status, answer) = ask(&server, "GET /v1/backups", "localhost", Some(&token), "");
        assert_eq!(status, 200, "{answer}");
        let (_, list) = answer.split_once("\r\n\r\n").unwrap();
        let list: Value = serde_json::from_str(list).unwrap();
        let backups = list["backups"].as_array().unwrap().iter();
        let name = |backup: &Value| backup["name"].as_str().unwrap().to_owned();
        backups.map(name).collect::<Vec<_>>()
    };
    let (db, backups) = (node.db().unwrap(), dir.path().join("backups"));
    db.backup(backups.join("sunday")).unwrap();
    let mut running = db.start_backup(backups.join("monday")).unwrap();
    assert_eq!(names(), ["sunday"]);
    let copied = running.copy(&mut |_| ControlFlow::Continue(()));
    assert!(copied.unwrap().is_continue());
    assert_eq!(names(), ["sunday"]);
    let finished = running.finish(&mut |_| ControlFlow::Continue(()));
    assert!(finished.unwrap().is_some());
    assert_eq!(names(), ["monday", "sunday"]);
}

#[test]
fn running_jobs_are_listed_without_those_that_have_ended() {
    let (dir, _node, _server) = serve();
    let client = client(dir.path());
    let submit = |points, name| {
        let to = OutputPlace::File(dir.path().join(name));
        client.submit(&pi(points, to)).unwrap().record.id
    };
    let ended = submit(1, "ended");
    wait_for_end(&client, &ended);
    let running = submit(1 << 50, "running");
    let listed = client.all_running().unwrap().into_iter();
    let listed: Vec<_> = listed.map(|job| job.record.id).collect();
    assert_eq!(listed, std::slice::from_ref(&running));
    assert!(client.cancel(&running).unwrap());
    wait_for_end(&client, &running);
}

#[test]
fn profiles_and_attempts_are_listed_by_pages_and_a_client_gets_all() {
    let (dir, _node, server) = serve();
    let token = token(dir.path(), Scope::Read);
    let own = client(dir.path());
    // Jobs with other arguments have profiles of their own.
    let ids: Vec<_> = (1..=3)
        .map(|points| {
            let to = OutputPlace::File(dir.path().join(format!("{points}.tsv")));
            let id = own.submit(&pi(points, to)).unwrap().record.id;
            wait_for_end(&own, &id);
            id
        })
        .collect();
    let job = |profile: &Value| profile["job"].as_str().unwrap().to_string();
    let all = own.profiles().unwrap();
    let attempts = own.attempts(&ids[0]).unwrap();
    assert_eq!(all.len(), 3);
    assert!(!attempts.is_empty());
    for limit in [1, 2, 1000] {
        let list = ("/v1/profiles", "profiles");
        let listed = by_pages(&server, &token, list, limit, job);
        let expected: Vec<_> = all.iter().map(|profile| profile.job.clone()).collect();
        assert_eq!(listed, expected, "by {limit}");
        let path = format!("/v1/jobs/{}/attempts", ids[0]);
        let listed = by_pages(
            &server,
            &token,
            (&path, "attempts"),
            limit,
            Value::to_string,
        );
        let expected = attempts.iter().map(|attempt| {
            let value = serde_json::to_value(attempt).unwrap();
            value.to_string()
        });
        assert_eq!(listed, expected.collect::<Vec<_>>(), "by {limit}");
    }
}

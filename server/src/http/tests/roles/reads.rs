//! Tokens of a role show the rows, jobs, profiles and roles that the role may read, and no others.

use ebb_jobs::history::{JobRecord, MaintenanceOptions, Submission};

use super::*;
use crate::http::outline::{Reads, outline};

#[test]
fn a_role_sees_options_and_errors_only_of_jobs_whose_inputs_it_may_read() {
    let (dir, node, server) = served();
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    let table = app.existing_table("t").unwrap();
    table.put(b"k", b"secret").unwrap();
    let request = json!({
        "application": {"aggregate": {"of": ["value"]}},
        "inputs": [{"table": {"table": "app.t"}}],
        "output": {"to": {"table": "app.sums"}},
        "directory": "/",
    });
    let own = client(dir.path());
    let request = JobRequest::from_json(request).unwrap();
    let id = own.submit(&request).unwrap().record.id;
    wait_for_end(&own, &id);
    let ada = token_of(dir.path(), ADA, Scope::Read);
    let without_role = token(dir.path(), Scope::Read);
    let seen = |token: &Token| {
        let paths = [String::new(), format!("/{id}"), format!("/{id}/attempts")];
        paths.map(|path| {
            let request = format!("GET /v1/jobs{path}");
            let (status, answer) = ask(&server, &request, "localhost", Some(token), "");
            assert_eq!(status, 200, "{answer}");
            answer
        })
    };
    let quotes = |answer: &String| answer.contains("secret");
    // Regression: the error of a job that others had submitted showed every role a value of their table.
    for answer in seen(&ada) {
        assert!(!quotes(&answer), "{answer}");
        assert!(!answer.contains("\"of\""), "{answer}");
        let hidden = "the role of this token may not read what the job reads";
        assert!(answer.contains(hidden), "{answer}");
    }
    assert!(seen(&without_role).iter().all(quotes));
    grant(&node, Permission::Select, &Resource::table("app", "t"));
    assert!(seen(&ada).iter().all(quotes));
    let nothing = pi(1, OutputPlace::Table("app.pi".parse().unwrap()));
    let mut record = JobRecord::new("1".to_string(), &nothing, Vec::new(), 1);
    assert_eq!(Reads::of(&record), Reads::Tables(Vec::new()));
    record.request = json!({"application": {"other": {}}});
    assert_eq!(Reads::of(&record), Reads::Others, "no build knows it");
    record.submission = Some(Submission::new(&[0; 32], &[1; 32]));
    let seen = outline(JobView::remembered(record)).record;
    assert_eq!(seen.submission, None, "it has a hash of the options");
}

/// Regression: every role was shown the descriptions of damage, which may have keys of rows.
#[test]
fn a_role_sees_which_files_a_verification_found_damaged_and_no_description_of_the_damage() {
    let options = MaintenanceOptions {
        by: "nightly".to_string(),
        rate_bytes_per_s: None,
    };
    let damage = json!([{"path": "000007.sst", "offset": 0, "detail": "the key is secret"}]);
    for (application, report) in [
        ("verify", json!({"verify": {"findings": damage}})),
        ("backup", json!({"backup": {"damaged": damage}})),
        (
            "restore",
            json!({"restore": {"restored": damage, "left": damage}}),
        ),
    ] {
        let record = JobRecord {
            application: application.to_string(),
            request: json!({"application": {application: options}}),
            state: RecordState::Succeeded,
            report: Some(report),
            ..JobRecord::of_verification("1".to_string(), &options, 1)
        };
        assert_eq!(Reads::of(&record), Reads::Others);
        let seen = outline(JobView::remembered(record.clone())).record;
        assert_eq!(seen.request, record.request);
        let report = json!(seen.report).to_string();
        assert!(report.contains("000007.sst"), "{report}");
        assert!(!report.contains("secret"), "{report}");
    }
}

#[test]
fn a_role_sees_profiles_only_of_jobs_whose_inputs_it_may_read() {
    let (dir, node, server) = served();
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    app.existing_table("t").unwrap().put(b"k", b"a b").unwrap();
    let words = JobRequest::from_json(wordcount("app.t", None, "app.words")).unwrap();
    let nothing = pi(1, OutputPlace::Table("app.pi".parse().unwrap()));
    let own = client(dir.path());
    let [words, _] = [words, nothing].map(|request| {
        let id = own.submit(&request).unwrap().record.id;
        let report = wait_for_end(&own, &id).report;
        assert_eq!(report.outcome, Outcome::Succeeded);
        id
    });
    let ada = token_of(dir.path(), ADA, Scope::Read);
    let without_role = token(dir.path(), Scope::Read);
    let listed = |token: &Token| {
        let (status, answer) = ask(&server, "GET /v1/profiles", "localhost", Some(token), "");
        assert_eq!(status, 200, "{answer}");
        let profiles = body(&answer)["profiles"].as_array().cloned();
        let profiles = profiles.into_iter().flatten();
        let names = profiles.map(|profile| profile["application"].clone());
        names.collect::<Vec<Value>>()
    };
    // Regression: the names of all inputs, also of files, were shown to every role.
    assert_eq!(listed(&ada), ["pi"]);
    assert_eq!(listed(&without_role), ["pi", "wordcount"]);
    grant(&node, Permission::Select, &Resource::table("app", "t"));
    assert_eq!(listed(&ada), ["pi", "wordcount"]);
    let history = History::open(node.db().unwrap()).unwrap();
    history.forget(&words).unwrap();
    assert_eq!(listed(&ada), ["pi"], "nothing shows what it read");
    assert_eq!(listed(&without_role), ["pi", "wordcount"]);
}

#[test]
fn a_role_lists_the_roles_granted_to_it_and_with_describe_all() {
    let (dir, node, server) = served();
    for (name, id) in [("eve", 1), ("team", 2)] {
        let role = Role {
            id,
            ..Role::default()
        };
        change(&node, |roles| roles.with_new(name, role));
    }
    change(&node, |roles| roles.with_member("team", "ada"));
    let ada = token_of(dir.path(), ADA, Scope::Read);
    let listed = || {
        let (status, answer) = ask(&server, "GET /v1/roles", "localhost", Some(&ada), "");
        assert_eq!(status, 200, "{answer}");
        let roles = body(&answer)["roles"].as_array().cloned();
        let names = roles.into_iter().flatten().map(|role| role["name"].clone());
        names.collect::<Vec<Value>>()
    };
    // Regression: every token listed all roles, and which of them are superusers.
    assert_eq!(listed(), ["ada", "team"]);
    grant(&node, Permission::Describe, &Resource::AllRoles);
    assert_eq!(listed(), ["ada", "eve", "team"]);
}

#[test]
fn a_role_with_select_on_a_table_reads_its_rows() {
    let (dir, node, server) = served();
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    app.existing_table("t").unwrap().put(b"k", b"v").unwrap();
    let [read, jobs] = [Scope::Read, Scope::Jobs].map(|scope| token_of(dir.path(), ADA, scope));
    let key = json!({"key": "k"}).to_string();
    let get = |token: &Token, table: &str| {
        let request = format!("POST /v1/tables/{table}/get");
        let (status, answer) = ask(&server, &request, "localhost", Some(token), &key);
        (status, body(&answer))
    };
    assert_eq!(get(&jobs, "app/t").0, 403);
    grant(&node, Permission::Select, &Resource::AllKeyspaces);
    let row = json!({"key": "k", "value": "v"});
    assert_eq!(get(&jobs, "app/t"), (200, row));
    assert_eq!(get(&read, "app/t").0, 403);
    assert_eq!(get(&jobs, "ebb_system/roles").0, 403);
    let scan = "POST /v1/tables/app/t/scan";
    let (status, answer) = ask(&server, scan, "localhost", Some(&jobs), "{}");
    assert_eq!(status, 200, "{answer}");
    assert_eq!(body(&answer)["rows"][0]["key"], "k");
}

#[test]
fn jobs_that_read_the_keyspace_of_the_system_take_scope_admin() {
    let (dir, node, server) = served();
    grant(&node, Permission::Select, &Resource::AllKeyspaces);
    grant(&node, Permission::Modify, &Resource::AllKeyspaces);
    let [jobs, admin] = [Scope::Jobs, Scope::Admin].map(|scope| token(dir.path(), scope));
    let ada = token_of(dir.path(), ADA, Scope::Jobs);
    let estimate = |token: &Token, input: &str| {
        let (request, body) = ("POST /v1/jobs/estimate", wordcount(input, None, "app.out"));
        let body = body.to_string();
        ask(&server, request, "localhost", Some(token), &body)
    };
    for (token, reason) in [(&jobs, "needs scope admin"), (&ada, "needs a superuser")] {
        let answer = estimate(token, "ebb_system.roles");
        check("estimate", answer, 403, reason);
        let (status, answer) = estimate(token, "app.t");
        assert_ne!(status, 403, "{answer}");
    }
    let (status, answer) = estimate(&admin, "ebb_system.roles");
    assert_ne!(status, 403, "{answer}");
}

//! Sessions, security headers, and rate limits.

use super::*;

/// Sends a request with these headers, and returns the status and the whole text of the response.
fn send(server: &HttpServer, request: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let mut stream = connect(server);
    let mut text = format!("{request} HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

/// Returns the value of a header of a response.
fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = answer.split("\r\n").take_while(|line| !line.is_empty());
    let found = lines.find_map(|line| line.split_once(": ").filter(|(of, _)| *of == name));
    found.map(|(_, value)| value)
}

/// Returns the responses to `count` requests with this token, all sent over one connection without waiting
/// for a response.
pub(super) fn pipelined(server: &HttpServer, token: &Token, count: usize) -> String {
    let request = format!(
        "GET /v1/session HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        token.reveal()
    );
    let last = request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let all = request.repeat(count - 1) + &last;
    let mut stream = connect(server);
    let mut reader = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut responses = String::new();
        reader.read_to_string(&mut responses).unwrap();
        responses
    });
    stream.write_all(all.as_bytes()).unwrap();
    reading.join().unwrap()
}

pub(super) fn log_in(
    server: &HttpServer,
    token: &Token,
    headers: &[(&str, &str)],
) -> (u16, String) {
    let body = serde_json::json!({"token": token.reveal()}).to_string();
    send(server, "POST /v1/session", headers, &body)
}

#[test]
fn a_page_logs_in_and_its_cookie_is_as_good_as_the_token() {
    let (dir, _node, server) = serve();
    let token = token(dir.path(), Scope::Jobs);
    let (status, answer) = log_in(&server, &token, &[("Sec-Fetch-Site", "same-origin")]);
    assert_eq!(status, 200, "{answer}");
    assert!(
        answer.ends_with(r#"{"scope":"jobs","name":"test","role":null}"#),
        "{answer}"
    );
    let set = header(&answer, "set-cookie").unwrap();
    let (cookie, attributes) = set.split_once("; ").unwrap();
    assert_eq!(attributes, "HttpOnly; SameSite=Strict; Path=/");
    let port = server.address().unwrap().port();
    let name = format!("ebb_session_{port}");
    assert!(cookie.starts_with(&format!("{name}=")), "{cookie}");
    let malformed = format!("{name}=ebb_1_2");
    assert!(!answer.contains(&token.reveal()), "{answer}");
    let cookie = ("Cookie", cookie);
    let status = |request: &str, headers: &[_]| send(&server, request, headers, "").0;
    assert_eq!(status("GET /v1/session", &[cookie]), 200);
    assert_eq!(status("GET /v1/jobs", &[cookie]), 200);
    assert_eq!(status("GET /v1/jobs", &[("Cookie", &*malformed)]), 401);
    for (headers, expected) in [
        (&[cookie][..], 403),
        (&[cookie, ("Sec-Fetch-Site", "cross-site")], 403),
        (
            &[
                cookie,
                ("Sec-Fetch-Site", "same-site"),
                ("Origin", "http://localhost:1"),
            ],
            403,
        ),
        (&[cookie, ("Origin", "http://localhost:2")], 403),
        (&[cookie, ("Origin", "http://localhost:1")], 404),
        (&[cookie, ("Sec-Fetch-Site", "same-origin")], 404),
    ] {
        assert_eq!(
            status("POST /v1/jobs/1/cancel", headers),
            expected,
            "{headers:?}"
        );
    }
    let own = [cookie, ("Sec-Fetch-Site", "same-origin")];
    let (status, answer) = send(&server, "DELETE /v1/session", &own, "");
    assert_eq!(status, 204);
    let deleted = header(&answer, "set-cookie").unwrap();
    assert!(
        deleted.starts_with(&format!("{name}=; Max-Age=0; ")),
        "{deleted}"
    );
    assert_eq!(send(&server, "GET /v1/jobs", &[cookie], "").0, 401);
}

/// CORS headers would let pages of other sites read responses, and send requests with a token.
#[test]
fn no_response_has_cors_headers() {
    let (dir, _node, server) = serve();
    let bearer = format!("Bearer {}", token(dir.path(), Scope::Admin).reveal());
    let origin = ("Origin", "http://evil.example");
    let with_token = [origin, ("Authorization", &*bearer)];
    let preflight = [
        origin,
        ("Access-Control-Request-Method", "POST"),
        (
            "Access-Control-Request-Headers",
            "authorization, content-type",
        ),
    ];
    let preflight_with_token = [&preflight[..], &with_token[1..]].concat();
    for (request, headers, expected) in [
        ("GET /v1/jobs", &with_token[..], 200),
        ("GET /openapi.json", &with_token, 200),
        ("GET /metrics", &with_token, 200),
        ("GET /health/live", &[origin], 200),
        ("GET /", &[origin], 200),
        ("GET /v1/jobs", &[origin], 401),
        ("OPTIONS /v1/jobs", &preflight, 401),
        ("OPTIONS /v1/session", &preflight, 403),
        ("OPTIONS /health/live", &preflight, 405),
        ("OPTIONS /v1/jobs", &preflight_with_token[..], 405),
    ] {
        let (status, answer) = send(&server, request, headers, "");
        assert_eq!(status, expected, "{request}: {answer}");
        let (head, _) = answer.split_once("\r\n\r\n").unwrap();
        let is_cors = |line: &str| line.to_ascii_lowercase().starts_with("access-control-");
        assert!(!head.lines().any(is_cors), "{request}: {head}");
    }
}

/// Regression: browsers send cookies to every port of an address, and a login at one server replaced the cookie
/// of another.
#[test]
fn servers_of_one_address_have_sessions_beside_each_other() {
    let logged_in = [(); 2].map(|()| {
        let (dir, node, server) = serve();
        let token = token(dir.path(), Scope::Read);
        let (_, answer) = log_in(&server, &token, &[]);
        let set = header(&answer, "set-cookie").unwrap();
        let cookie = set.split("; ").next().unwrap().to_owned();
        (dir, node, server, cookie)
    });
    let [(.., first), (.., second)] = &logged_in;
    let name = |cookie: &str| cookie.split('=').next().unwrap().to_owned();
    assert_ne!(name(first), name(second));
    let both = format!("{first}; {second}");
    for (.., server, _) in &logged_in {
        let (status, answer) = send(server, "GET /v1/jobs", &[("Cookie", &*both)], "");
        assert_eq!(status, 200, "{answer}");
    }
}

#[test]
fn a_session_ends_with_its_token_and_is_not_begun_by_others() {
    let (dir, _node, server) = serve();
    let token = token(dir.path(), Scope::Read);
    for (name, value) in [
        ("Sec-Fetch-Site", "cross-site"),
        ("Origin", "http://evil.example"),
    ] {
        assert_eq!(log_in(&server, &token, &[(name, value)]).0, 403, "{name}");
    }
    assert_eq!(log_in(&server, &Token::random(), &[]).0, 401);
    for (body, status) in [("", 400), ("{}", 422), (r#"{"token":7}"#, 422)] {
        let sent = send(&server, "POST /v1/session", &[], body);
        assert_eq!(sent.0, status, "{body}");
    }
    let (_, answer) = log_in(&server, &token, &[]);
    let set = header(&answer, "set-cookie").unwrap();
    let cookie = ("Cookie", set.split("; ").next().unwrap());
    assert_eq!(send(&server, "GET /v1/jobs", &[cookie], "").0, 200);
    let own = [cookie, ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(
        send(&server, "POST /v1/jobs/1/cancel", &own, "").0,
        403,
        "it may look only"
    );
    let file = TokenFile::of(&data(dir.path()));
    assert!(file.change(|all| all.revoke(&token.id())).unwrap());
    assert_eq!(send(&server, "GET /v1/jobs", &[cookie], "").0, 401);
}

/// Regression: while other clients of its address sent invalid tokens, a page whose token was revoked got 429, and
/// did not show the login.
#[test]
fn a_session_whose_token_is_refused_ends_whatever_its_address_has_sent() {
    let (dir, _node, server) = serve();
    let [revoked, next] = [(); 2].map(|()| token(dir.path(), Scope::Read));
    let (_, answer) = log_in(&server, &revoked, &[]);
    let set = header(&answer, "set-cookie").unwrap();
    let cookie = ("Cookie", set.split("; ").next().unwrap());
    let file = TokenFile::of(&data(dir.path()));
    assert!(file.change(|all| all.revoke(&revoked.id())).unwrap());
    let responses = pipelined(&server, &Token::random(), 100);
    assert!(responses.contains("HTTP/1.1 429 "), "{responses}");
    for cause in [
        "there is no such token, or it has expired or was revoked",
        "the request has no token",
    ] {
        let (status, answer) = send(&server, "GET /v1/session", &[cookie], "");
        assert_eq!(status, 401, "{answer}");
        assert!(answer.contains(cause), "{answer}");
    }
    assert_eq!(log_in(&server, &next, &[]).0, 200);
}

/// Regression: a token that was cut off when it was copied got the response to a request without a
/// token.
#[test]
fn a_malformed_token_is_refused_as_malformed() {
    let (dir, _node, server) = serve();
    let token = token(dir.path(), Scope::Read);
    let malformed = ("Authorization", "Bearer ebb_4b62fa2b_ad78");
    let (status, answer) = send(&server, "GET /v1/jobs", &[malformed], "");
    assert_eq!(status, 401, "{answer}");
    assert!(answer.contains("this token is malformed"), "{answer}");
    let (status, answer) = send(&server, "GET /v1/jobs", &[], "");
    assert_eq!(status, 401, "{answer}");
    assert!(answer.contains("the request has no token"), "{answer}");
    // A cookie is a credential of its own.
    let (_, answer) = log_in(&server, &token, &[]);
    let set = header(&answer, "set-cookie").unwrap();
    let cookie = ("Cookie", set.split("; ").next().unwrap());
    let sent = send(&server, "GET /v1/jobs", &[malformed, cookie], "");
    assert_eq!(sent.0, 200, "{}", sent.1);
}

/// Regression: clients without a token could send a body of 1 MiB over each connection, and fill the memory.
#[test]
fn the_body_of_a_login_is_limited_to_what_a_token_needs() {
    let (dir, _node, server) = serve();
    let head = "POST /v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    // The headers suffice for a refusal: the server does not wait for this body.
    let announced = format!("{head}Content-Length: 65536\r\n\r\n");
    // A chunk of 4097 bytes. The last chunk is missing, so the server has read all bytes when it responds.
    let spaces = " ".repeat(4097);
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n1001\r\n{spaces}");
    for request in [announced, chunked] {
        let mut stream = connect(&server);
        stream.write_all(request.as_bytes()).unwrap();
        let (status, answer) = answer_on(stream);
        assert_eq!(status, 413, "{answer}");
    }
    let token = token(dir.path(), Scope::Read);
    assert_eq!(log_in(&server, &token, &[]).0, 200);
}

/// Regression: a client without a token could make the server buffer 400 KiB of headers for each connection.
#[test]
fn headers_that_are_too_long_are_refused_and_the_server_goes_on() {
    let (_dir, _node, server) = serve();
    let head = "GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-Long: ";
    // As many bytes as the server buffers, and no end of the headers: the server has read all bytes when it
    // responds.
    let long = "x".repeat((64 << 10) - head.len());
    let mut stream = connect(&server);
    stream
        .write_all(format!("{head}{long}").as_bytes())
        .unwrap();
    let (status, answer) = answer_on(stream);
    assert_eq!(status, 431, "{answer}");
    let shorter = "x".repeat(32 << 10);
    let (status, answer) = send(&server, "GET /health/live", &[("X-Long", &*shorter)], "");
    assert_eq!(status, 200, "{answer}");
}

#[test]
fn every_response_has_security_headers() {
    let (_dir, _node, server) = serve();
    for request in [
        "GET /health/live",
        "GET /v1/jobs",
        "GET /nowhere",
        "PUT /health/live",
    ] {
        let (_, answer) = send(&server, request, &[], "");
        let policy = header(&answer, "content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';"),
            "{policy}"
        );
        assert_eq!(
            header(&answer, "x-content-type-options"),
            Some("nosniff"),
            "{request}"
        );
        assert_eq!(
            header(&answer, "cache-control"),
            Some("no-store"),
            "{request}"
        );
    }
}

#[test]
fn too_many_bad_tokens_or_requests_are_refused_for_a_while() {
    let (dir, _node, server) = serve();
    let token = token(dir.path(), Scope::Read);
    let count =
        |responses: &str, status: u16| responses.matches(&format!("HTTP/1.1 {status} ")).count();
    // Beyond the first ten, one in two seconds is allowed: 100 of them would take three minutes.
    let responses = pipelined(&server, &Token::random(), 100);
    let (bad, refused) = (count(&responses, 401), count(&responses, 429));
    assert_eq!(bad + refused, 100);
    assert!(bad >= 10 && refused > 0, "{bad} {refused}");
    let (_, first_refused) = responses.split_once("HTTP/1.1 429 ").unwrap();
    let wait_s: u64 = (header(first_refused, "retry-after").unwrap())
        .parse()
        .unwrap();
    assert!((1..=2).contains(&wait_s), "{first_refused}");
    // A good token from the same address is served, up to a rate of its own.
    let responses = pipelined(&server, &token, 600);
    let (served, refused) = (count(&responses, 200), count(&responses, 429));
    assert_eq!(served + refused, 600);
    assert!(served >= 400 && refused > 0, "{served} {refused}");
    // Health checks have no limit: they show no token.
    assert_eq!(send(&server, "GET /health/live", &[], "").0, 200);
}

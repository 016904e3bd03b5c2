//! A server of HTTP in the process of a test, with answers that the test chooses.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) struct Request {
    pub(crate) method: String,
    /// The path, with the query.
    pub(crate) path: String,
    /// The headers by their names, which are in lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// The first part of an answer (the status, which further headers may follow), and its body.
pub(crate) type Response = (&'static str, Vec<u8>);

/// Starts a server, and returns its URL. The server calls `answer` for one request at a time. If `answer`
/// returns `None`, the connection ends without an answer.
pub(crate) fn serve(answer: impl FnMut(&Request) -> Option<Response> + Send + 'static) -> String {
    let answer = Mutex::new(answer);
    serve_at_once(move |request| (*answer.lock().unwrap())(request))
}

/// Starts a server as [`serve`] does, but one that calls `answer` for several requests at once.
pub(crate) fn serve_at_once(
    answer: impl Fn(&Request) -> Option<Response> + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), Arc::clone(&answer));
            thread::spawn(move || {
                let Some(request) = read_request(&stream) else {
                    return;
                };
                let Some((head, body)) = answer(&request) else {
                    return;
                };
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                // A client that was killed does not read it.
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&body);
            });
        }
    });
    url
}

/// Reads a whole request; `None` if the connection ends too early.
fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim_end().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let headers = lines[1..].iter().filter_map(|line| line.split_once(':'));
    let headers: HashMap<String, String> = headers
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length");
    let length = length.map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut first = lines[0].split(' ');
    Some(Request {
        method: first.next()?.to_owned(),
        path: first.next()?.to_owned(),
        headers,
        body,
    })
}

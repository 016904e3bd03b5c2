//! `ebb top`: a running server in a terminal.
//!
//! ```text
//!   server ─ each second ─> Model ─> view ─> terminal
//!   keys ─────────────────────┘ │
//!                               └─> cancel a job, a backup or a verification
//! ```
//!
//! `model` has the state of the screen and the effects of keys, and `view` draws it. Neither uses a
//! terminal or a server, so that tests can run them. `requests` makes the requests to the server, beside
//! the reading of keys.

mod model;
mod requests;
mod view;

use std::io::{IsTerminal, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebb_server::http::JobsClient;
use ebb_server::jobs::Jobs;
use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::disable_raw_mode;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use self::model::{Deed, Model, ServerState};
use self::requests::{Request, Requests, Response};
use super::attached::Attached;
use super::error::CliError;
use super::interrupt;

const EXAMPLES: &str = "\
Examples:
  ebb top
  ebb top --data /var/lib/ebb
  EBB_TOKEN=... ebb top --server http://10.0.0.5:9043

Keys: up and down choose a job, a backup or a verification; c, then y, cancels it; space holds
the screen still; q ends the command. With --server, watching needs a token of scope read,
cancelling a job scope jobs, and cancelling a backup or a verification scope admin.";

/// The time between two requests to the server.
const EVERY: Duration = Duration::from_secs(1);
/// The longest wait for a key while the server has not responded: the terminal and the thread of the requests
/// have no common event to wait for.
const RESPONSE_POLL: Duration = Duration::from_millis(50);
/// How long the end of the command waits for responses to cancellations.
const CANCEL_WAIT: Duration = Duration::from_secs(2);
/// The exit code when the terminal is gone: 128 plus the number of SIGHUP, the convention of shells.
const EXIT_HANGUP: i32 = 129;

/// Watch a running server: its load, its jobs and when they will be done, backups, its tables.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
}

pub(super) fn run(args: Args) -> Result<()> {
    let client = args.attached.client()?;
    if !stdout().is_terminal() {
        let text = "top needs a terminal, and stdout is none: use ebb jobs --json in scripts";
        return Err(CliError::Usage(text.to_string()).into());
    }
    // The first request comes before the screen is taken, so that an error is printed as usual.
    let mut model = Model::new(client.data().display().to_string());
    model.show(look(&client)?);
    let mut requests = Requests::start(move |request| respond(&client, request))?;
    // A second signal ends the process even while `watch` waits for a terminal that takes no output.
    let stopped = interrupt::cancelled_with(give_terminal_back)?;
    end_with_terminal()?;
    let mut terminal = ratatui::init();
    let ended = watch(&mut requests, &mut model, &mut terminal, &stopped);
    ratatui::restore();
    ended?;
    requests.finish(CANCEL_WAIT)
}

/// Restores the terminal before an exit that runs no destructors. (The destructor of
/// [`DefaultTerminal`] would show the cursor, which each picture hides.) Restores the terminal's
/// modes first, because the output that follows may block if the window of the terminal does not
/// respond. After this first step, the next signal ends the process.
fn give_terminal_back() {
    // An error here or below is of a terminal that is gone.
    let _ = disable_raw_mode();
    interrupt::end_at_next();
    ratatui::restore();
    let _ = execute!(stdout(), Show);
}

/// Starts a thread that ends the process when its terminal is gone. Without the thread, the wait
/// for a key would not return then, and would keep a core busy. SIGHUP does not suffice: the system
/// sends it only to some processes of the terminal, and they may ignore it.
fn end_with_terminal() -> Result<()> {
    let terminal = stdout();
    let wait = move || {
        let mut ends = [PollFd::new(&terminal, PollFlags::empty())];
        // Keys are no event here: only a signal ends the wait earlier.
        while poll(&mut ends, None) == Err(Errno::INTR) {}
        if !ends[0].revents().is_empty() {
            std::process::exit(EXIT_HANGUP);
        }
    };
    let thread = thread::Builder::new().name("ebb-terminal".to_owned());
    (thread.spawn(wait).map(drop)).context("cannot start a thread")
}

fn look(client: &JobsClient) -> Result<ServerState> {
    Ok(ServerState {
        load: client.load(model::SECONDS)?,
        jobs: client.all_running()?,
        // A server of an older version has no list of tables.
        tables: client.tables().unwrap_or_default(),
    })
}

/// Sends a request to the server, and waits for the response for as long as that takes.
fn respond(client: &JobsClient, request: Request) -> Response {
    match request {
        Request::State => Response::State(look(client)),
        Request::Cancel(id) => {
            let is_stopping = client.cancel(&id).map_err(Into::into);
            Response::Cancel { id, is_stopping }
        }
    }
}

/// Shows a response of the server. The screen that a key holds shows no newer state.
fn show(model: &mut Model, response: Response) {
    match response {
        Response::State(_) if model.is_held() => {}
        Response::State(Ok(state)) => model.show(state),
        Response::State(Err(error)) => model.tell(error.to_string()),
        Response::Cancel { id, is_stopping } => model.tell(match is_stopping {
            Ok(true) => format!("cancelling {id}"),
            Ok(false) => format!("too late for {id}: its output is being put in place"),
            Err(error) => error.to_string(),
        }),
    }
}

/// Shows the state of the server until a key or a signal ends the command.
fn watch(
    requests: &mut Requests,
    model: &mut Model,
    terminal: &mut DefaultTerminal,
    stopped: &AtomicBool,
) -> Result<()> {
    let mut looked = Instant::now();
    while !stopped.load(Ordering::Relaxed) {
        let now = Instant::now();
        while let Some(response) = requests.next_response(now)? {
            show(model, response);
        }
        let silence = requests.silence(now);
        model.note_silence(silence);
        terminal.draw(|frame| view::draw(frame, model))?;
        let next_look = EVERY.saturating_sub(looked.elapsed());
        let wait = silence.map_or(next_look, |_| next_look.min(RESPONSE_POLL));
        if event::poll(wait)?
            && let Event::Key(key) = event::read()?
        {
            match model.press(key) {
                Deed::Nothing => {}
                Deed::End => return Ok(()),
                Deed::Cancel(id) => {
                    model.tell(format!("asking the server to cancel {id}"));
                    requests.send(Request::Cancel(id), Instant::now());
                }
            }
        }
        if looked.elapsed() >= EVERY {
            looked = Instant::now();
            if !model.is_held() && !requests.is_open(&Request::State) {
                requests.send(Request::State, looked);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use ebb_server::http::ClientTls;

    use super::*;

    /// Accepts a connection for each of `answers`, sends it as the response to the first request of the
    /// connection, and returns the first lines of the requests.
    fn serve(listener: &TcpListener, answers: &[&str]) -> Vec<String> {
        let serve_one = |answer: &&str| {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head = lines.map(Result::unwrap);
            let head: Vec<_> = head.take_while(|line| !line.is_empty()).collect();
            let length = answer.len();
            let headers = format!("Content-Length: {length}\r\nConnection: close");
            write!(stream, "HTTP/1.1 200 OK\r\n{headers}\r\n\r\n{answer}").unwrap();
            head[0].clone()
        };
        answers.iter().map(serve_one).collect()
    }

    /// Regression: the whole history was read each second, to show the running jobs.
    #[test]
    fn top_requests_running_jobs_only() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers = [
            r#"{"now_unix_ms":1,"cores":1,"objective":null,"samples":[],"guard":[],"shares":[]}"#,
            r#"{"jobs":[],"next":null}"#,
            r#"{"tables":[],"next":null}"#,
        ];
        let server = thread::spawn(move || serve(&listener, &answers));
        let client = JobsClient::at(&url, None, &ClientTls::default()).unwrap();
        look(&client).unwrap();
        let requests = server.join().unwrap();
        let expected = "GET /v1/jobs?state=running&limit=1000 HTTP/1.1";
        assert_eq!(requests[1], expected, "{requests:?}");
    }
}

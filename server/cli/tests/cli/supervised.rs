//! `ebb serve` under a supervisor that waits for notifications, as systemd does.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use ebb_cql::client::Client;
use ebb_cql::protocol::{Compression, Response};
use ebb_test_support::wait::{HANG, uninterrupted, until_some};
use rustix::fs::OFlags;
use rustix::process::Signal;

use crate::failed_write::{LIMIT, create_table, write_until_one_fails};
use crate::place::{Place, Running};
use crate::serving::{Server, query};

/// Commands of a shell that then executes a server in its own process. The variable
/// SYSTEMD_EXEC_PID has the id of this process, so the server finds that systemd started it. There
/// is no socket for notifications, as with `Type=simple`.
pub const AS_SYSTEMD: &str = "unset NOTIFY_SOCKET && export SYSTEMD_EXEC_PID=$$";

/// The socket of a supervisor, for notifications.
struct Supervisor(UnixDatagram);

impl Supervisor {
    /// Binds the socket, as the file `notify` of the place.
    fn bind(place: &Place) -> Self {
        let socket = UnixDatagram::bind(place.path("notify")).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        Self(socket)
    }

    /// Binds the socket, and returns it with a command that starts a server which sends to it.
    fn with_server(place: &Place) -> (Self, Command) {
        let mut command = place.command("serve --cql 127.0.0.1:0 --overload-wait 0s");
        command.env("NOTIFY_SOCKET", place.path("notify"));
        (Self::bind(place), command)
    }

    /// Waits for the next message.
    fn next(&self) -> String {
        let mut message = [0; 256];
        let length = uninterrupted(|| self.0.recv(&mut message)).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    }

    /// Waits until the server is ready, and returns its address for CQL.
    fn ready(&self) -> String {
        let ready = self.next();
        let address = ready.strip_prefix("READY=1\nSTATUS=answers CQL on ");
        address.expect(&ready).trim_end().to_owned()
    }
}

#[test]
fn systemd_gets_ready_watchdog_and_stopping_messages() {
    let place = Place::new();
    let (supervisor, mut command) = Supervisor::with_server(&place);
    command
        .env("WATCHDOG_USEC", "200000")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut server = Running::start(&mut command);
    let next = || supervisor.next();

    let address = supervisor.ready();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    assert_eq!([next(), next()], ["WATCHDOG=1\n"; 2]);
    server.signal(Signal::TERM);
    let after = std::iter::repeat_with(next).find(|message| message != "WATCHDOG=1\n");
    assert_eq!(after.unwrap(), "STOPPING=1\nSTATUS=stopping\n");
    let status = until_some("the end of the server", || server.status());
    assert!(status.success());
}

/// With a message that the service stops, systemd would end the process when the stop timeout is over; and
/// without the messages of the watchdog, during a long start.
#[test]
fn for_systemd_a_new_start_after_a_failed_write_is_a_reload() {
    let place = Place::new();
    let supervisor = Supervisor::bind(&place);
    // The time of the watchdog is so long that threads feed it once, when they begin.
    let path = place.path("notify");
    let variables = format!("NOTIFY_SOCKET={} WATCHDOG_USEC=86400000000", path.display());
    let setup = format!("{LIMIT} && export {variables}");
    let mut server = Server::start_after(&place, &setup, "");
    assert_eq!(supervisor.ready(), server.address());
    assert_eq!(supervisor.next(), "WATCHDOG=1\n");
    let mut client = server.client();
    create_table(&mut client);
    write_until_one_fails(&mut client);
    let reload = supervisor.next();
    assert!(
        reload.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reload}"
    );
    assert_eq!(supervisor.next(), "WATCHDOG=1\n");
    server.until_started_again();
    assert_eq!(supervisor.ready(), server.address());
    assert_eq!(server.stop(), Some(0));
}

/// Regression: `systemctl reload` of a server without TLS stopped it with exit code 0, after which the unit
/// does not start it again.
#[test]
fn a_reload_without_tls_does_not_stop_a_supervised_server() {
    let place = Place::new();
    let (supervisor, command) = Supervisor::with_server(&place);
    let mut server = Server::start_by(command, "");
    assert_eq!(supervisor.ready(), server.address());
    if crate::signals::heard().contains(&"-HUP") {
        server.signal(Signal::HUP);
        server.error_line_with("SIGHUP has no effect");
    }
    let answer = query(&mut server.client(), "SELECT key FROM system.local");
    assert!(matches!(answer, Ok(Response::Rows(_))), "{answer:?}");
    assert_eq!(server.stop(), Some(0));
}

/// Regression: a reload also stopped a server whose unit has no notifications, as with `Type=simple`.
#[test]
fn sighup_without_tls_stops_only_a_server_that_systemd_did_not_start() {
    if !crate::signals::heard().contains(&"-HUP") {
        return;
    }
    let place = Place::new();
    let server = Server::start_after(&place, "unset NOTIFY_SOCKET SYSTEMD_EXEC_PID", "");
    server.signal(Signal::HUP);
    assert_eq!(server.wait(), Some(0));
    let mut server = Server::start_after(&place, AS_SYSTEMD, "");
    server.signal(Signal::HUP);
    server.error_line_with("SIGHUP has no effect");
    assert_eq!(server.stop(), Some(0));
}

/// Regression: a SIGHUP that came before the new program listened for signals ended the server.
#[test]
fn a_reload_does_not_stop_a_server_that_starts_again() {
    if !crate::signals::heard().contains(&"-HUP") {
        return;
    }
    let place = Place::new();
    let settings = "cluster-name = \"here\"";
    place.write("ebb.toml", settings);
    let setup = format!("mkfifo gate && {AS_SYSTEMD} && {LIMIT}");
    let mut server = Server::start_after(&place, &setup, "--config ebb.toml");
    // The next start waits for its settings, before it listens for signals.
    let path = place.path("ebb.toml");
    std::fs::rename(place.path("gate"), &path).unwrap();
    let mut client = server.client();
    create_table(&mut client);
    write_until_one_fails(&mut client);
    // The flag makes `open` fail as long as the server has not opened the other end.
    let mut options = File::options();
    options
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let mut pipe = until_some("the new start to read its settings", || {
        options.open(&path).ok()
    });
    server.signal(Signal::HUP);
    pipe.write_all(settings.as_bytes()).unwrap();
    drop(pipe);
    server.until_started_again();
    server.error_line_with("SIGHUP has no effect");
    assert_eq!(server.stop(), Some(0));
}

/// Regression: the server ended when it could not print the addresses that it listens on.
#[test]
fn a_server_starts_with_a_full_disk_behind_its_stdout() {
    let place = Place::new();
    let (supervisor, mut command) = Supervisor::with_server(&place);
    let full = File::options().write(true).open("/dev/full").unwrap();
    command.stdout(full).stderr(Stdio::null());
    let mut server = Running::start(&mut command);
    let mut client = Client::connect(&*supervisor.ready(), Compression::None).unwrap();
    client.socket().set_read_timeout(Some(HANG)).unwrap();
    let answer = query(&mut client, "SELECT key FROM system.local");
    assert!(matches!(answer, Ok(Response::Rows(_))), "{answer:?}");
    drop(client);
    server.signal(Signal::TERM);
    let status = until_some("the end of the server", || server.status());
    assert!(status.success());
}

//! `ebb serve` under a supervisor that waits for notifications, as systemd does.

use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use ebb_test_support::wait::{HANG, uninterrupted, until_some};
use rustix::process::Signal;

use crate::place::{Place, Running};

#[test]
fn systemd_gets_ready_watchdog_and_stopping_messages() {
    let place = Place::new();
    let path = place.dir.path().join("notify");
    let heard = UnixDatagram::bind(&path).unwrap();
    heard.set_read_timeout(Some(HANG)).unwrap();
    let mut command = place.command("serve --cql 127.0.0.1:0 --overload-wait 0s");
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "200000")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut server = Running::start(&mut command);
    let next = || {
        let mut message = [0; 256];
        let length = uninterrupted(|| heard.recv(&mut message)).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };

    let ready = next();
    assert!(
        ready.starts_with("READY=1\nSTATUS=answers CQL on 127.0.0.1:"),
        "{ready}"
    );
    assert_eq!([next(), next()], ["WATCHDOG=1\n"; 2]);
    server.signal(Signal::TERM);
    let after = std::iter::repeat_with(next).find(|message| message != "WATCHDOG=1\n");
    assert_eq!(after.unwrap(), "STOPPING=1\nSTATUS=stopping\n");
    let status = until_some("the end of the server", || server.status());
    assert!(status.success());
}

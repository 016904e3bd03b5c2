//! `ebb top` in a terminal of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Command;

use ebb_test_support::wait::until;
use rustix::io::ioctl_fionbio;
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::place::{Place, Running};
use crate::serving::Server;
use crate::signals;

/// A word of the last line that `ebb top` draws, after which its screen is complete. One word,
/// because the blanks between words are not printed.
const FOOTER: &[u8] = b"choose";
/// The escape sequence that leaves the terminal's alternate screen, so that the terminal shows its
/// earlier content again.
const LEAVE_SCREEN: &[u8] = b"\x1b[?1049l";
/// The escape sequence after which a terminal shows its cursor again.
const SHOW_CURSOR: &[u8] = b"\x1b[?25h";

/// A pseudo-terminal. The program under test has one end. The test has the end that otherwise belongs to a
/// terminal emulator: it reads the output there, and types keys.
struct Terminal {
    window: File,
    program: OwnedFd,
    /// The output of the program, as far as it was read.
    printed: Vec<u8>,
}

impl Terminal {
    fn open() -> Self {
        // Without CLOEXEC, programs would hold the end of the window open.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let window = openpt(flags).unwrap();
        grantpt(&window).unwrap();
        unlockpt(&window).unwrap();
        let program = ioctl_tiocgptpeer(&window, flags).unwrap();
        let size = Winsize {
            ws_row: 30,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&window, size).unwrap();
        ioctl_fionbio(&window, true).unwrap();
        Self {
            window: window.into(),
            program,
            printed: Vec::new(),
        }
    }

    /// Starts `ebb top`, and waits for its first picture. This terminal is not the controlling terminal of
    /// the process, so the process gets no signals from it.
    #[track_caller]
    fn top(&mut self, place: &Place) -> Running {
        let mut command = place.command("top");
        let end = || self.program.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        let top = Running::start(&mut command);
        // Its copies of the end of the program.
        drop(command);
        until("the first picture", || self.has_printed(FOOTER));
        top
    }

    /// Sends `keys` to the program, as a terminal emulator does when they are pressed.
    fn press(&mut self, keys: &[u8]) {
        self.window.write_all(keys).unwrap();
    }

    fn has_printed(&mut self, text: &[u8]) -> bool {
        let mut part = [0; 4096];
        while let Ok(bytes @ 1..) = self.window.read(&mut part) {
            self.printed.extend_from_slice(&part[..bytes]);
        }
        self.printed
            .windows(text.len())
            .any(|printed| printed == text)
    }

    /// Writes to the program's end of the terminal until the terminal takes no more, because nothing reads
    /// the other end. Returns whether the terminal took at least one byte.
    fn fill(&self) -> bool {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let mut end: File = ioctl_tiocgptpeer(&self.window, flags).unwrap().into();
        ioctl_fionbio(&end, true).unwrap();
        let mut has_room = false;
        while let Ok(1..) = end.write(&[b'.'; 1024]) {
            has_room = true;
        }
        has_room
    }

    /// Returns whether the terminal shows the keys that are pressed, as it does for a shell.
    fn echoes(&self) -> bool {
        let modes = tcgetattr(&self.program).unwrap().local_modes;
        modes.contains(LocalModes::ECHO)
    }
}

#[test]
fn a_signal_ends_top_and_gives_the_terminal_back() {
    let place = Place::new();
    let _server = Server::start(&place, "");
    let mut terminal = Terminal::open();
    assert!(terminal.echoes());
    let mut top = terminal.top(&place);
    assert!(!terminal.echoes());
    top.signal(Signal::TERM);
    // Pictures in between are read, so that the process does not wait for room.
    until("the end of top", || {
        terminal.has_printed(LEAVE_SCREEN) && top.has_ended()
    });
    assert!(top.status().unwrap().success());
    assert!(terminal.echoes());
}

/// Regression: the second signal left the terminal without echo, and with the picture on it.
#[test]
fn a_second_signal_ends_top_and_gives_the_terminal_back() {
    let [first, second, ..] = signals::heard()[..] else {
        return;
    };
    let place = Place::new();
    let _server = Server::start(&place, "");
    let mut terminal = Terminal::open();
    let mut top = terminal.top(&place);
    // A stopped process receives both as soon as it goes on.
    for signal in ["-STOP", first, second, "-CONT"] {
        send(&top, signal);
    }
    until("the end of top", || {
        terminal.has_printed(LEAVE_SCREEN) && top.has_ended()
    });
    let code = top.status().unwrap().code();
    assert!(code.is_some_and(|code| code > 128), "{code:?}");
    assert!(terminal.echoes());
    // Regression: the cursor stayed hidden.
    assert!(terminal.has_printed(SHOW_CURSOR));
}

/// Regression: the process waited for the terminal, whatever signals came.
#[test]
fn a_third_signal_ends_top_though_its_terminal_takes_no_more_output() {
    let [first, second, ..] = signals::heard()[..] else {
        return;
    };
    let place = Place::new();
    let _server = Server::start(&place, "");
    let mut terminal = Terminal::open();
    let mut top = terminal.top(&place);
    // The kernel moves what it has taken, so there may be room again after a moment.
    until("a full terminal", || !terminal.fill());
    for signal in [first, second] {
        send(&top, signal);
    }
    // Signals that come before the modes of the terminal are set have no effect.
    until("the end of top", || {
        send(&top, first);
        top.has_ended()
    });
    assert!(terminal.echoes());
}

/// Sends a signal by the name that `kill` takes.
fn send(top: &Running, signal: &str) {
    let pid = top.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status();
    assert!(sent.unwrap().success());
}

/// Regression: no key was read while the server did not respond.
#[test]
fn keys_end_top_though_the_server_is_silent() {
    let place = Place::new();
    let server = Server::start(&place, "");
    // The last one is Ctrl-C, which is a key in the raw mode of the terminal.
    let keys: [&[u8]; 3] = [b"q", b"\x1b", b"\x03"];
    let mut all = keys.map(|key| {
        let mut terminal = Terminal::open();
        let top = terminal.top(&place);
        (key, terminal, top)
    });
    server.signal(Signal::STOP);
    for (key, terminal, top) in &mut all {
        until("the note that the server is silent", || {
            terminal.has_printed(b"responded")
        });
        terminal.press(key);
        until("the end of top", || {
            terminal.has_printed(LEAVE_SCREEN) && top.has_ended()
        });
        assert!(top.status().unwrap().success(), "{key:?}");
        assert!(terminal.echoes());
    }
}

/// Regression: the process used a core for ever.
#[test]
fn top_ends_when_its_terminal_is_gone_and_no_signal_comes() {
    let place = Place::new();
    let _server = Server::start(&place, "");
    let mut terminal = Terminal::open();
    let mut top = terminal.top(&place);
    drop(terminal);
    until("the end of top", || top.has_ended());
    assert!(!top.status().unwrap().success());
}

//! The Unix socket of a server: `jobs.sock` in the directory of the database.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

/// The name of the socket's file.
pub const SOCKET: &str = "jobs.sock";

/// The most connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// The address of the socket. A socket address has 107 bytes for the path of the file. If the path
/// is longer, the address has another path to the same file: one that begins with the open
/// directory's entry in `/proc/self/fd`.
struct Address {
    path: PathBuf,
    /// The directory, which is open for as long as the address is used; `None` if the path was
    /// short enough.
    _directory: Option<File>,
}

impl Address {
    fn of(data: &Path) -> io::Result<Self> {
        let path = data.join(SOCKET);
        if SocketAddrUnix::new(&path).is_ok() {
            return Ok(Self {
                path,
                _directory: None,
            });
        }
        let directory = File::open(data)?;
        let number = directory.as_raw_fd();
        Ok(Self {
            path: format!("/proc/self/fd/{number}/{SOCKET}").into(),
            _directory: Some(directory),
        })
    }
}

/// Listens on a socket in the directory `data`. The caller must hold the lock of the database: a socket that
/// exists was then left by a killed server, and is removed.
pub(super) fn listen_in(data: &Path) -> io::Result<UnixListener> {
    remove(data)?;
    let address = Address::of(data)?;
    // Neither the processes of tasks nor a program that replaces this one may inherit the socket.
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Set before `bind` creates the file, so that the file never has another mode.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(&address.path)?)?;
    listen(&socket, BACKLOG)?;
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Removes the socket, if it is there.
pub(super) fn remove(data: &Path) -> io::Result<()> {
    match fs::remove_file(data.join(SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Connects to the server of the database in `data`; `None` if no server listens.
pub(super) fn connect(data: &Path) -> io::Result<Option<UnixStream>> {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
    let connected = Address::of(data).and_then(|address| UnixStream::connect(&address.path));
    match connected {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if [ConnectionRefused, NotADirectory, NotFound].contains(&error.kind()) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

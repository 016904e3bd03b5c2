//! The token file: `tokens.json` in the directory of the database. Commands change it whether a server
//! runs or not, and a running server notices the change.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::Tokens;

/// The name of the token file.
pub const FILE: &str = "tokens.json";
/// The lock file that a process holds while it changes the token file.
const LOCK: &str = "tokens.lock";
/// The name of the file to which the next version of the token file is written. Once it is complete, it is
/// renamed to [`FILE`].
const NEXT: &str = "tokens.json.new";
/// The mode of the token file: only its owner may read it.
const MODE: u32 = 0o600;
const VERSION: u32 = 1;
/// The most bytes that a token file may have. A larger file is refused as damaged.
const BYTES_MAX: u64 = 16 << 20;

/// The reason why the tokens cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The system refuses an operation on the file at `path`.
    #[error("{path}: {source}")]
    System { path: PathBuf, source: io::Error },
    /// The file is too long, cannot be parsed, or has another version than this build reads.
    #[error(
        "{path} is no file of tokens that this build reads: {cause}; move it away, and make new tokens"
    )]
    Damaged {
        path: PathBuf,
        /// The fault of the file.
        cause: String,
    },
    /// The file gives permissions to users other than its owner.
    #[error(
        "{path} can be read by users other than its owner: run chmod 600 {path}, and revoke its tokens if others may have read them"
    )]
    Open { path: PathBuf },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    tokens: Tokens,
}

/// The inode of a file, the time of its last change in seconds and nanoseconds (`ctime`), and its
/// length. If all are equal, the file has not changed.
type Identity = (u64, i64, i64, u64);

/// The token file in a directory.
#[derive(Debug, Clone)]
pub struct TokenFile {
    dir: PathBuf,
}

impl TokenFile {
    /// Returns the token file of the database in `data`.
    #[must_use]
    pub fn of(data: &Path) -> Self {
        Self {
            dir: data.to_path_buf(),
        }
    }

    /// Reads all tokens. Returns none if there is no file.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or gives permissions to users other than its owner.
    pub fn read(&self) -> Result<Tokens, TokenFileError> {
        let path = self.dir.join(FILE);
        let system = |source| TokenFileError::System {
            path: path.clone(),
            source,
        };
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Tokens::default()),
            Err(error) => return Err(system(error)),
        };
        if metadata.mode() & 0o077 != 0 {
            return Err(TokenFileError::Open { path });
        }
        let damaged = |cause: String| TokenFileError::Damaged {
            path: path.clone(),
            cause,
        };
        if metadata.len() > BYTES_MAX {
            return Err(damaged(format!("it has {} bytes", metadata.len())));
        }
        let bytes = fs::read(&path).map_err(system)?;
        let contents: Contents =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        match contents.version {
            VERSION => Ok(contents.tokens),
            other => Err(damaged(format!("it is of version {other}"))),
        }
    }

    /// Changes the tokens under a lock that all processes take, so that no change is lost. The new file
    /// replaces the old one as a whole. Returns the value that `change` returned.
    ///
    /// # Errors
    /// See [`read`](Self::read). Also when the new file cannot be written: the old one stays, except after a
    /// failed sync of the directory, which leaves the new file, though a crash may bring the old one back.
    pub fn change<T>(&self, change: impl FnOnce(&mut Tokens) -> T) -> Result<T, TokenFileError> {
        let system = |path: &Path| {
            let path = path.to_path_buf();
            move |source| TokenFileError::System { path, source }
        };
        let lock_path = self.dir.join(LOCK);
        let create = |path: &Path| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(MODE);
            options.open(path).map_err(system(path))
        };
        let lock = create(&lock_path)?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| system(&lock_path)(error.into()))?;
        let mut tokens = self.read()?;
        let value = change(&mut tokens);
        let contents = Contents {
            version: VERSION,
            tokens,
        };
        let text = serde_json::to_string_pretty(&contents).expect("tokens have text keys only");
        let (next, path) = (self.dir.join(NEXT), self.dir.join(FILE));
        let mut file = create(&next)?;
        let written = file
            .set_permissions(Permissions::from_mode(MODE))
            .and_then(|()| file.write_all(text.as_bytes()))
            .and_then(|()| file.sync_all());
        written.map_err(system(&next))?;
        fs::rename(&next, &path).map_err(system(&path))?;
        let directory = File::open(&self.dir).and_then(|dir| dir.sync_all());
        directory.map_err(system(&self.dir))?;
        Ok(value)
    }

    fn identity(&self) -> Option<Identity> {
        let metadata = fs::metadata(self.dir.join(FILE)).ok()?;
        Some((
            metadata.ino(),
            metadata.ctime(),
            metadata.ctime_nsec(),
            metadata.len(),
        ))
    }
}

/// The current tokens, cached in memory. The token file is read again only if it has changed.
#[derive(Debug)]
pub struct WatchedTokens {
    file: TokenFile,
    seen: Mutex<Option<(Option<Identity>, Arc<Tokens>)>>,
}

impl WatchedTokens {
    /// Creates a cache of the tokens in `file`.
    #[must_use]
    pub fn new(file: TokenFile) -> Self {
        Self {
            file,
            seen: Mutex::default(),
        }
    }

    /// Returns the current tokens.
    ///
    /// # Errors
    /// See [`TokenFile::read`].
    pub fn now(&self) -> Result<Arc<Tokens>, TokenFileError> {
        // Taken before the file is read: the next call then notices a change in between.
        let identity = self.file.identity();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, tokens)) = &*seen
            && *of == identity
        {
            return Ok(Arc::clone(tokens));
        }
        *seen = None;
        let tokens = Arc::new(self.file.read()?);
        *seen = Some((identity, Arc::clone(&tokens)));
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::tokens::{Scope, Token, TokenRecord};

    fn add(file: &TokenFile) -> Token {
        let token = Token::random();
        let record = TokenRecord::new(&token, "a", Scope::Admin, SystemTime::now(), None);
        file.change(|tokens| tokens.add(record)).unwrap();
        token
    }

    #[test]
    fn a_server_sees_what_commands_change() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::of(dir.path());
        let watched = WatchedTokens::new(file.clone());
        assert_eq!(*watched.now().unwrap(), Tokens::default());
        let tokens = [add(&file), add(&file)];
        for token in &tokens {
            let tokens = watched.now().unwrap();
            let record = tokens.record_of(token, SystemTime::now()).unwrap();
            assert_eq!(record.scope, Scope::Admin);
        }
        assert!(Arc::ptr_eq(
            &watched.now().unwrap(),
            &watched.now().unwrap()
        ));
        assert!(file.change(|all| all.revoke(&tokens[0].id())).unwrap());
        assert_eq!(watched.now().unwrap().iter().count(), 1);
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().mode();
        assert_eq!(mode & 0o777, MODE);
    }

    #[test]
    fn a_file_that_is_damaged_or_open_to_other_users_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::of(dir.path());
        add(&file);
        let path = dir.path().join(FILE);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(file.read(), Err(TokenFileError::Open { .. })));
        fs::set_permissions(&path, Permissions::from_mode(MODE)).unwrap();
        let whole = fs::read(&path).unwrap();
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            assert!(
                matches!(file.read(), Err(TokenFileError::Damaged { .. })),
                "{end}"
            );
        }
        fs::write(
            &path,
            String::from_utf8(whole)
                .unwrap()
                .replace("\"version\": 1", "\"version\": 2"),
        )
        .unwrap();
        let error = file.change(|_| ()).unwrap_err().to_string();
        assert!(error.contains("version 2"), "{error}");
    }

    #[test]
    fn changes_of_many_threads_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::of(dir.path());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        add(&file);
                    }
                });
            }
        });
        assert_eq!(file.read().unwrap().iter().count(), 20);
    }
}

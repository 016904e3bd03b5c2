//! The text that the jobs read: real, and on the machine already.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde::Serialize;

/// Text beyond this many bytes is left out: the jobs read what there is as
/// often as their size asks for.
pub const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Where the text came from, and how much it was.
#[derive(Debug, Clone, Serialize)]
pub struct Corpus {
    /// What it is, for people.
    pub description: String,
    /// The folders.
    pub paths: Vec<PathBuf>,
    /// Files that were loaded.
    pub files: u64,
    /// Lines, one row each.
    pub rows: u64,
    /// Bytes of the lines.
    pub bytes: u64,
}

/// Where text is: the folder asked for, or sources that a machine which built
/// this program has.
///
/// # Errors
/// When the folder does not exist, or nothing was found.
pub fn find(asked: Option<&Path>) -> Result<(String, Vec<PathBuf>)> {
    if let Some(path) = asked {
        if !path.exists() {
            bail!(
                "there is no {}; name a folder or file of text with --text",
                path.display()
            );
        }
        return Ok((path.display().to_string(), vec![path.to_path_buf()]));
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        // A crate that was installed lies among others.
        .filter(|folder| folder.join("Cargo.toml").is_file())
        .map(Path::to_path_buf);
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    let registry = cargo.map(|cargo| cargo.join("registry").join("src"));
    let candidates = [
        ("this repository", repository),
        ("the sources of the Rust packages that it uses", registry),
    ];
    let found: Vec<_> = candidates
        .into_iter()
        .filter_map(|(what, path)| path.filter(|path| path.is_dir()).map(|path| (what, path)))
        .collect();
    if found.is_empty() {
        bail!("no sources of Rust packages are on this machine; name a folder of text with --text");
    }
    let description = found
        .iter()
        .map(|(what, _)| *what)
        .collect::<Vec<_>>()
        .join(" and ");
    Ok((
        description,
        found.into_iter().map(|(_, path)| path).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = find(Some(Path::new("/no/such/folder")))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/no/such/folder") && error.contains("--text"),
            "{error}"
        );
    }

    #[test]
    fn the_repository_itself_is_text_enough() {
        assert!(find(None).unwrap().0.contains("this repository"));
    }
}

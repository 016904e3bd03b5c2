//! The text that the jobs read: real text that is on the machine already.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde::Serialize;

/// The number of bytes of text after which the loading of text stops. Jobs that need more input
/// read the same text repeatedly.
pub const TEXT_BYTES_MAX: u64 = 64 << 20;

/// The source and the size of the loaded text.
#[derive(Debug, Clone, Serialize)]
pub struct Corpus {
    /// A description of the source, for people.
    pub description: String,
    /// The folders (or the one file) that the text was loaded from.
    pub paths: Vec<PathBuf>,
    /// The number of loaded files.
    pub files: u64,
    /// The number of loaded lines. Each line is a row of the table.
    pub rows: u64,
    /// Total length of the loaded lines, in bytes.
    pub bytes: u64,
}

/// Finds text: the folder or file `asked`. If it is `None`, finds the folders of this repository
/// and of the package sources that Cargo has downloaded, as far as they exist on this machine.
/// Returns a description for people, and the paths.
///
/// # Errors
/// If `asked` does not exist, or `asked` is `None` and neither folder exists.
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
        // Without a workspace around it, the crate comes from a registry and not from the
        // repository.
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
    fn the_error_names_a_missing_folder() {
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

//! Recognition of Parquet files and Iceberg tables, whose columns have types, among the paths of a load.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use ebb_jobs::request::PublishTarget;
use ebb_text::check_exists;
use ebb_text::reader::{Content, ForeignContent};

use super::Args;
use crate::error::CliError;

/// The extension of the name of a Parquet file, in any case.
const PARQUET: &str = "parquet";

/// The ends of the names of the metadata files of Iceberg tables. The same as in `ebb-publish`, which a build may
/// lack.
const METADATA_ENDS: [&str; 2] = [".metadata.json", ".metadata.json.gz"];

/// The prefix of URLs of S3, which name a bucket, and a file or a folder in it.
const BUCKET: &str = "s3://";

/// The prefixes with which Hadoop and Spark write URLs of S3.
const HADOOP_BUCKETS: [&str; 2] = ["s3a://", "s3n://"];

/// An input with typed columns, as a path of the command line names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Parquet files.
    Files(Vec<PathBuf>),
    /// The folder or the metadata file of an Iceberg table, and the tag or branch that the user named.
    Table { path: PathBuf, tag: Option<String> },
    /// A URL of S3. Only a look into the bucket shows whether it names a file, a folder or a table.
    Bucket {
        bucket: String,
        key: String,
        tag: Option<String>,
    },
}

/// Returns the inputs that the paths of the command line name; `None` if no path names Parquet files or an
/// Iceberg table.
///
/// # Errors
/// If some paths are text and others are not, if one does not exist, or if an option does not fit the kind of
/// input.
pub(super) fn inputs(args: &Args) -> Result<Option<Vec<Input>>> {
    // A user who names the format does not need the names of files.
    let found = |path: &Path| -> Result<Option<Input>, CliError> {
        if args.format.is_some() {
            return Ok(None);
        }
        match bucket_url(path) {
            Some(url) => in_bucket(&url).map(Some),
            None => Ok(input(local(path))),
        }
    };
    let mut inputs = Vec::new();
    let mut text = None;
    for path in &args.paths {
        match found(path)? {
            Some(input) => inputs.push(input),
            None => text = Some(path),
        }
    }
    let usage = |text: String| Err(CliError::Usage(text).into());
    if inputs.is_empty() {
        if args.tag.is_some() || !args.columns.is_empty() {
            return usage(
                "--columns and --tag are for Parquet files and Iceberg tables, and no PATH is one"
                    .to_owned(),
            );
        }
        return Ok(None);
    }
    if let Some(text) = text {
        return usage(format!(
            "{} is no Parquet file and no Iceberg table, and another PATH is: load each by a \
             command of its own",
            text.display()
        ));
    }
    for path in inputs.iter().flat_map(Input::files) {
        check_exists(path)?;
    }
    args.refuse_text_options()?;
    set_tag(&mut inputs, args.tag.as_deref())?;
    Ok(Some(inputs))
}

/// Sets the tag of all inputs to `option`, the value of `--tag`: the name of a tag or branch of an Iceberg
/// table. `None` changes nothing.
///
/// # Errors
/// If `--tag` is given, but a path has a tag already (`PATH@TAG`), or an input is a Parquet file, which
/// has no tags.
fn set_tag(inputs: &mut [Input], option: Option<&str>) -> Result<(), CliError> {
    let Some(option) = option else {
        return Ok(());
    };
    for input in inputs {
        match input {
            Input::Table { tag, .. } | Input::Bucket { tag, .. } if tag.is_none() => {
                *tag = Some(option.to_owned());
            }
            Input::Table { path, .. } => return Err(has_tag(&path.display().to_string())),
            Input::Bucket { bucket, key, .. } => {
                return Err(has_tag(&format!("{BUCKET}{bucket}/{key}")));
            }
            Input::Files(_) => {
                return Err(CliError::Usage(
                    "--tag is for Iceberg tables, and a PATH is none".to_owned(),
                ));
            }
        }
    }
    Ok(())
}

fn has_tag(path: &str) -> CliError {
    CliError::Usage(format!("{path} has a tag behind it: leave out --tag"))
}

impl Input {
    /// Returns the paths of the input if it is on this machine; an empty slice for an input in a bucket.
    fn files(&self) -> &[PathBuf] {
        match self {
            Self::Files(files) => files,
            Self::Table { path, .. } => std::slice::from_ref(path),
            Self::Bucket { .. } => &[],
        }
    }
}

/// Returns the URL, with the prefix [`BUCKET`] in place of one of Hadoop's; `None` if the path is no URL of
/// S3.
fn bucket_url(path: &Path) -> Option<Cow<'_, str>> {
    let path = path.to_str()?;
    if path.starts_with(BUCKET) {
        return Some(path.into());
    }
    let mut starts = HADOOP_BUCKETS.iter();
    let place = starts.find_map(|start| path.strip_prefix(start))?;
    Some(format!("{BUCKET}{place}").into())
}

/// Returns the path that a URL of a file names, `file:///PATH` or `file:/PATH` as Hadoop and Spark write it. Other
/// paths stay as they are.
fn local(path: &Path) -> &Path {
    let url = path.to_str().and_then(|path| path.strip_prefix("file:"));
    let place = url.map(|url| match url.strip_prefix("//") {
        Some(place) if place.starts_with('/') => place,
        _ => url,
    });
    // A path that begins with two slashes would name another machine.
    let place = place.filter(|place| place.starts_with('/') && !place.starts_with("//"));
    place.map_or(path, Path::new)
}

/// Returns the Parquet files or the Iceberg table that a path names; `None` if the path names neither, and so may
/// name text.
fn input(path: &Path) -> Option<Input> {
    let table = |path: &Path, tag: Option<&str>| Input::Table {
        path: path.to_path_buf(),
        tag: tag.map(str::to_owned),
    };
    if path.is_dir() {
        if is_table(path) {
            return Some(table(path, None));
        }
        return parquet_files(path).map(Input::Files);
    }
    if is_parquet(path) {
        return Some(Input::Files(vec![path.to_path_buf()]));
    }
    if is_metadata(path.file_name()?.to_str()?) {
        return Some(table(path, None));
    }
    let (folder, tag) = path.to_str()?.rsplit_once('@')?;
    let folder = Path::new(folder);
    (!path.exists() && is_table(folder)).then(|| table(folder, Some(tag)))
}

/// Parses a URL of S3. An `@` in the last part of the key begins a tag, unless the part is the name of a
/// Parquet file or of a metadata file. An `@` before the last part is an error: the text before it may be
/// credentials.
fn in_bucket(url: &str) -> Result<Input, CliError> {
    if let Some((folder, name)) = url.rsplit_once('/')
        && folder.len() > BUCKET.len()
        && name.contains('@')
        && is_file_of_columns(name)
    {
        // The rules for keys are those of a target, which has no `@` anywhere.
        let (bucket, key) = bucket(&format!("{folder}/{}", name.replace('@', "-")))?;
        let folder = &key[..key.len() - name.len()];
        return Ok(Input::Bucket {
            key: format!("{folder}{name}"),
            bucket,
            tag: None,
        });
    }
    let tagged = url.rsplit_once('@');
    let tagged = tagged.filter(|(place, tag)| {
        let place = place.strip_prefix(BUCKET).unwrap_or_default();
        place.contains('/') && !tag.contains('/')
    });
    let (place, tag) = match tagged {
        Some((place, tag)) => (place, Some(tag.to_owned())),
        None => (url, None),
    };
    let (bucket, key) = bucket(place)?;
    Ok(Input::Bucket { bucket, key, tag })
}

/// Returns the bucket and the key of a URL.
fn bucket(url: &str) -> Result<(String, String), CliError> {
    match url.parse::<PublishTarget>().map_err(CliError::Usage)? {
        PublishTarget::Bucket { name, prefix } => Ok((name, prefix)),
        PublishTarget::Folder(path) => Err(CliError::Usage(format!(
            "{} is no s3://BUCKET/KEY",
            path.display()
        ))),
    }
}

/// Returns whether a name is that of a Parquet file, or of a metadata file of an Iceberg table.
fn is_file_of_columns(name: &str) -> bool {
    is_named_parquet(Path::new(name)) || is_metadata(name)
}

/// Returns whether a name is that of a metadata file of an Iceberg table.
fn is_metadata(name: &str) -> bool {
    METADATA_ENDS.iter().any(|end| name.ends_with(end))
}

/// Returns whether a path names a Parquet file, by its extension, or by the content of the file, if
/// it exists.
fn is_parquet(path: &Path) -> bool {
    is_named_parquet(path) || has_parquet(path).unwrap_or(false)
}

fn is_named_parquet(path: &Path) -> bool {
    let end = path.extension();
    end.is_some_and(|end| end.eq_ignore_ascii_case(PARQUET))
}

/// Returns whether a file has the bytes of a Parquet file. Reads nothing from a pipe, because the load would
/// miss these bytes.
fn has_parquet(path: &Path) -> io::Result<bool> {
    let is_file = fs::metadata(path)?.is_file();
    Ok(is_file && Content::of(&File::open(path)?)? == Err(ForeignContent::Parquet))
}

/// Returns whether a folder is that of an Iceberg table: it has a folder with metadata files.
fn is_table(folder: &Path) -> bool {
    let entries = fs::read_dir(folder.join("metadata")).into_iter().flatten();
    let mut names = entries.flatten().map(|entry| entry.file_name());
    names.any(|name| is_metadata(&name.to_string_lossy()))
}

/// Returns the Parquet files of a folder, ascending by name; `None` if it has none, or contains other files
/// or folders. Names that begin with a dot or an underscore are ignored: other engines write such files, too.
fn parquet_files(folder: &Path) -> Option<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        if entry.file_name().to_string_lossy().starts_with(['.', '_']) {
            continue;
        }
        let path = entry.path();
        if path.is_dir() || !is_parquet(&path) {
            return None;
        }
        files.push(path);
    }
    files.sort();
    (!files.is_empty()).then_some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_columns_are_recognized_by_their_names_or_their_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for folder in [
            "spark",
            "mixed",
            "table",
            "table/metadata",
            "empty",
            "deep",
            "deep/day=1",
        ] {
            fs::create_dir(path(folder)).unwrap();
        }
        for file in [
            "a.parquet",
            "B.PARQUET",
            "a.csv",
            "mail@home",
            "spark/_SUCCESS",
            "spark/.part-1.parquet.crc",
            "spark/part-2.parquet",
            "spark/part-1.parquet",
            "mixed/a.parquet",
            "mixed/a.csv",
            "deep/day=1/a.parquet",
            "table/metadata/00001-x.metadata.json",
        ] {
            fs::write(path(file), "").unwrap();
        }
        // Without a name that ends in .parquet, control characters distinguish a Parquet file from a text that
        // begins and ends like one.
        fs::write(path("part-0"), "PAR1\x15\x04, then columns, PAR1").unwrap();
        fs::write(path("text"), "PAR1, and a line of text that ends in PAR1").unwrap();
        fs::write(path("word"), "PAR1").unwrap();
        let table = |name: &str, tag: Option<&str>| {
            let tag = tag.map(str::to_owned);
            let path = path(name);
            Some(Input::Table { path, tag })
        };
        let parts = ["spark/part-1.parquet", "spark/part-2.parquet"].map(path);
        assert_eq!(input(&path("spark")), Some(Input::Files(parts.into())));
        // A name is enough, also that of an absent file, for an error that names the missing file.
        for name in ["a.parquet", "absent.parquet", "B.PARQUET", "part-0"] {
            assert_eq!(input(&path(name)), Some(Input::Files(vec![path(name)])));
        }
        assert_eq!(input(&path("table")), table("table", None));
        assert_eq!(input(&path("table@monday")), table("table", Some("monday")));
        let metadata = "table/metadata/00001-x.metadata.json";
        assert_eq!(input(&path(metadata)), table(metadata, None));
        for text in [
            "a.csv",
            "mail@home",
            "mixed",
            "empty",
            "deep",
            "a.csv@tag",
            "absent",
            "text",
            "word",
        ] {
            assert_eq!(input(&path(text)), None, "{text}");
        }
        assert_eq!(input(Path::new("-")), None);
    }

    /// Regression: a compressed metadata file with the name of old versions of Iceberg was loaded as text, and in
    /// a bucket, its `@` began a tag.
    #[test]
    fn each_name_of_a_metadata_file_names_a_table_also_with_an_at_sign() {
        for name in [
            "v7.metadata.json",
            "v7.gz.metadata.json",
            "v7.metadata.json.gz",
            "a@7.metadata.json.gz",
        ] {
            let path = PathBuf::from(format!("absent/t/metadata/{name}"));
            let local = Input::Table {
                path: path.clone(),
                tag: None,
            };
            assert_eq!(input(&path), Some(local), "{name}");
            let remote = Input::Bucket {
                bucket: "lake".to_owned(),
                key: format!("t/metadata/{name}"),
                tag: None,
            };
            let url = format!("s3://lake/t/metadata/{name}");
            assert_eq!(in_bucket(&url).unwrap(), remote, "{name}");
        }
    }

    #[test]
    fn a_url_of_a_file_names_a_path_of_this_machine() {
        for (url, path) in [
            ("file:///srv/t", "/srv/t"),
            ("file:/srv/a b%20@x", "/srv/a b%20@x"),
            ("file://host/srv/t", "file://host/srv/t"),
            ("file:////host/t", "file:////host/t"),
            ("file:t", "file:t"),
            ("/srv/file:/t", "/srv/file:/t"),
        ] {
            assert_eq!(local(Path::new(url)), Path::new(path), "{url}");
        }
    }

    #[test]
    fn a_place_in_a_bucket_has_a_key_and_maybe_a_tag_and_no_credentials() {
        let bucket = |key: &str, tag: Option<&str>| Input::Bucket {
            bucket: "lake".to_owned(),
            key: key.to_owned(),
            tag: tag.map(str::to_owned),
        };
        for (url, found) in [
            ("s3://lake", bucket("", None)),
            ("s3://lake/a/b.parquet", bucket("a/b.parquet", None)),
            ("s3://lake/db/t/", bucket("db/t", None)),
            ("s3://lake/db/t@monday", bucket("db/t", Some("monday"))),
            // A name with an `@` was once taken for a table and its tag.
            ("s3://lake/a@b.parquet", bucket("a@b.parquet", None)),
            (
                "s3://lake/db/t/metadata/a@1.metadata.json",
                bucket("db/t/metadata/a@1.metadata.json", None),
            ),
        ] {
            assert_eq!(in_bucket(url).unwrap(), found, "{url}");
            let hadoop = url.replacen("s3:", "s3a:", 1);
            for url in [url, &hadoop] {
                let url = bucket_url(Path::new(url)).unwrap();
                assert_eq!(in_bucket(&url).unwrap(), found, "{url}");
            }
        }
        assert_eq!(bucket_url(Path::new("lake/s3://t")), None);
        for url in [
            "s3://HUSH@lake",
            "s3://KEY:HUSH@lake/db/t",
            "s3://HUSH@lake.parquet",
            "s3://KEY:HUSH@lake/a.parquet",
            "s3://KEY:HUSH@lake/a@b.parquet",
            "s3://lake/HUSH b@c.parquet",
            "s3://lake/db/t?X-Amz-Signature=HUSH",
            "s3://lake//HUSH",
        ] {
            let error = in_bucket(url).unwrap_err().to_string();
            assert!(!error.contains("HUSH"), "{error}");
        }
    }
}

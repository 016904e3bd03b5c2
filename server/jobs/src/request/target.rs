//! The target of a publication, as a user names it: the path of a folder, or a URL.
//!
//! The target goes into records of jobs, and into metadata that every reader of the tables sees. So a URL
//! must not contain credentials, and an error does not show a URL that may contain some.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The target of a publication: a folder, or a bucket of S3. Its text is a path or `s3://BUCKET/PREFIX`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum PublishTarget {
    /// A folder, which may be absent or have earlier publications.
    Folder(PathBuf),
    /// A bucket of S3.
    Bucket {
        /// The name of the bucket.
        name: String,
        /// The common start of all keys, without slashes at its ends. Empty for the whole bucket.
        prefix: String,
    },
}

impl FromStr for PublishTarget {
    type Err = String;

    /// Parses `s3://BUCKET/PREFIX`, `file:///FOLDER`, `file:/FOLDER`, or a path.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return refuse("the target is empty: name s3://BUCKET/PREFIX or the path of a folder");
        }
        let url = text.split_once("://");
        let url = url.filter(|(scheme, _)| is_scheme(scheme));
        // Hadoop and Spark write URLs of files with one slash.
        let of_file = || {
            text.strip_prefix("file:")
                .filter(|rest| rest.starts_with('/'))
        };
        let url = url.or_else(|| Some(("file", of_file()?)));
        let Some((scheme, rest)) = url else {
            return Ok(Self::Folder(text.into()));
        };
        if rest.contains('@') {
            return refuse(
                "the URL has an @: credentials are not part of it, and come from \
                 AWS_ACCESS_KEY_ID and the other variables of the environment",
            );
        }
        if rest.contains(['?', '#', '%']) {
            return refuse(
                "the URL has a query, a fragment or an escape (?, #, %): name the place \
                 alone, and put settings into variables of the environment",
            );
        }
        match scheme {
            "file" if rest.starts_with('/') => Ok(Self::Folder(rest.into())),
            "s3" => bucket(rest),
            _ => refuse(
                "a target is s3://BUCKET/PREFIX, file:///FOLDER or the path of a folder, and this URL \
                 is none of them",
            ),
        }
    }
}

impl TryFrom<String> for PublishTarget {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PublishTarget> for String {
    fn from(target: PublishTarget) -> Self {
        target.to_string()
    }
}

impl fmt::Display for PublishTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Bucket { name, prefix } if prefix.is_empty() => write!(f, "s3://{name}"),
            Self::Bucket { name, prefix } => write!(f, "s3://{name}/{prefix}"),
        }
    }
}

fn bucket(rest: &str) -> Result<PublishTarget, String> {
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    if !is_plain(name) {
        return refuse(
            "the bucket in the URL is missing, or has characters besides letters, \
             digits, '.', '-', '_', '=' and '+'",
        );
    }
    let is_part = |part: &str| is_plain(part) && part != "." && part != "..";
    if !prefix.is_empty() && !prefix.split('/').all(is_part) {
        // Other parts would be escaped in the key, in the location, or in only one of them.
        return refuse(
            "the prefix in the URL has a part that is empty, '.' or '..', or characters \
             besides letters, digits, '.', '-', '_', '=' and '+'",
        );
    }
    Ok(PublishTarget::Bucket {
        name: name.to_owned(),
        prefix: prefix.to_owned(),
    })
}

/// Returns whether `text` can be the scheme of a URL. A path may contain `://`, too, but mostly has a
/// slash before it, which no scheme contains.
fn is_scheme(text: &str) -> bool {
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_of_scheme)
}

/// Returns whether a part of a location has the same form in a URL, in a key of S3, and for Iceberg.
fn is_plain(part: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_=+".contains(&byte);
    !part.is_empty() && part.bytes().all(is_plain)
}

fn refuse<T>(reason: &str) -> Result<T, String> {
    Err(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_scheme_distinguishes_folders_and_buckets() {
        let folder = |path: &str| PublishTarget::Folder(path.into());
        let bucket = |name: &str, prefix: &str| PublishTarget::Bucket {
            name: name.to_owned(),
            prefix: prefix.to_owned(),
        };
        for (text, target, shown) in [
            ("lake", folder("lake"), "lake"),
            (
                "/srv/s3:/50% #1",
                folder("/srv/s3:/50% #1"),
                "/srv/s3:/50% #1",
            ),
            ("./s3://x", folder("./s3://x"), "./s3://x"),
            ("file:///srv/lake", folder("/srv/lake"), "/srv/lake"),
            ("file:/srv/lake", folder("/srv/lake"), "/srv/lake"),
            ("file:lake", folder("file:lake"), "file:lake"),
            ("s3://lake", bucket("lake", ""), "s3://lake"),
            ("s3://lake/", bucket("lake", ""), "s3://lake"),
            (
                "s3://a.b-1/ebb/day=1/",
                bucket("a.b-1", "ebb/day=1"),
                "s3://a.b-1/ebb/day=1",
            ),
        ] {
            let parsed: PublishTarget = text.parse().unwrap();
            assert_eq!(parsed, target, "{text}");
            assert_eq!(json!(parsed), shown, "{text}");
            let read: PublishTarget = serde_json::from_value(json!(parsed)).unwrap();
            assert_eq!(read, target, "{text}");
        }
    }

    #[test]
    fn an_error_shows_nothing_of_a_rejected_url() {
        for (text, word) in [
            ("s3://KEYID:SECRET@lake/ebb", "credentials"),
            ("s3://KEYID:SEC/RET@lake/ebb", "credentials"),
            ("file://user@/srv/lake", "credentials"),
            ("s3://lake/ebb?X-Amz-Signature=SECRET", "query"),
            ("s3://lake/ebb#SECRET", "fragment"),
            ("file:///srv/a%20b", "escape"),
            ("file:/srv/SECRET#b", "fragment"),
            ("file://SECRET", "none of them"),
            ("s3://", "bucket"),
            ("s3:///ebb", "bucket"),
            ("s3://KEYID:SECRET/ebb", "bucket"),
            ("s3://lake/a//b", "prefix"),
            ("s3://lake/../b", "prefix"),
            ("s3://lake/SECRET b", "prefix"),
            ("file://SECRET/srv", "none of them"),
            ("https://SECRET.s3.amazonaws.com/lake", "none of them"),
            ("SECRET://lake", "none of them"),
            ("", "empty"),
        ] {
            let error = text.parse::<PublishTarget>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
            let sent = serde_json::from_value::<PublishTarget>(json!(text));
            let sent = sent.unwrap_err().to_string();
            for secret in ["KEYID", "SEC", "RET@"] {
                let is_shown = error.contains(secret) || sent.contains(secret);
                assert!(!is_shown, "{text}: {error}, {sent}");
            }
        }
    }
}

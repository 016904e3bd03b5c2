//! The locations of files, as the metadata of a table names them.

/// The beginnings of locations by which engines name buckets of S3.
const BUCKETS: [&str; 3] = ["s3://", "s3a://", "s3n://"];

/// The location of a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Location<'l> {
    /// An absolute path on a machine.
    Path(&'l str),
    /// An object or a folder in a bucket of S3, as `BUCKET/KEY`.
    Bucket(&'l str),
    /// Any other location: a relative path, or a URL that is neither a file's nor one of S3.
    Other(&'l str),
}

impl<'l> Location<'l> {
    pub(super) fn new(text: &'l str) -> Self {
        if let Some(place) = BUCKETS.iter().find_map(|scheme| text.strip_prefix(scheme)) {
            return Self::Bucket(place);
        }
        let path = match text.strip_prefix("file:") {
            None => text,
            Some(path) => match path.strip_prefix("//") {
                // The name of a machine may stand before the path.
                Some(path) if path.starts_with('/') => path,
                _ => path,
            },
        };
        if path.starts_with('/') {
            Self::Path(path)
        } else {
            Self::Other(path)
        }
    }

    /// Returns the path of the location relative to the folder `folder`; `None` if the location does not lie
    /// below it.
    pub(super) fn below(self, folder: Self) -> Option<&'l str> {
        let (path, folder) = match (self, folder) {
            (Self::Path(path), Self::Path(folder))
            | (Self::Bucket(path), Self::Bucket(folder))
            | (Self::Other(path), Self::Other(folder)) => (path, folder),
            _ => return None,
        };
        let below = path.strip_prefix(folder.trim_end_matches('/'))?;
        let below = below.strip_prefix('/')?;
        // A location that ends with a slash gives names with two, which would be an absolute path.
        Some(below.trim_start_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_lies_below_a_folder_of_the_same_kind_whatever_its_scheme() {
        let below = |name, folder| Location::new(name).below(Location::new(folder));
        for (name, folder) in [
            ("file:/w/t/data/a b=%20", "/w/t"),
            ("/w/t/data/a b=%20", "file:///w/t/"),
            ("/w/t//data/a b=%20", "/w/t/"),
            ("s3a://w/t/data/a b=%20", "s3://w/t"),
            ("gs://w/t/data/a b=%20", "gs://w/t"),
        ] {
            assert_eq!(below(name, folder), Some("data/a b=%20"), "{name}");
        }
        for (name, folder) in [
            ("/w/t2/x", "/w/t"),
            ("s3://w/t/x", "/w/t"),
            ("s3://w2/t/x", "s3://w/t"),
            ("/w/t", "/w/t"),
        ] {
            assert_eq!(below(name, folder), None, "{name}");
        }
        assert_eq!(Location::new("file://host/x"), Location::Path("//host/x"));
        assert_eq!(Location::new("t/x"), Location::Other("t/x"));
    }
}

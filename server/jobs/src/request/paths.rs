//! The paths at which this process finds the files of a request.

use std::path::{Path, PathBuf};

use ebb_text::FileError;

use super::{InputRequest, JobRequest, OutputPlace, PublishTarget};

/// The paths at which this process finds the files of a request. They are resolved once, before any
/// file is opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    /// The files of each input, in the order of the request; an empty list for an input that does
    /// not read files.
    pub(crate) inputs: Vec<Vec<PathBuf>>,
    /// The file that the application reads in addition to its inputs, if it reads one.
    pub(crate) file: Option<PathBuf>,
    /// The file or folder of the output; `None` if the output is neither.
    pub(crate) output: Option<PathBuf>,
}

impl Paths {
    /// Calls `check` for each path that the job reads: the files and folders of its inputs, and the
    /// file that the application reads in addition.
    pub(crate) fn check_read(
        &self,
        check: impl FnMut(&Path) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let read = self.inputs.iter().flatten().chain(&self.file);
        read.map(PathBuf::as_path).try_for_each(check)
    }
}

impl JobRequest {
    /// Returns the paths of the request's files.
    pub(crate) fn paths(&self) -> Paths {
        let found = |path: &PathBuf| resolve(&self.directory, path);
        let inputs = self.inputs.iter().map(|input| match input {
            InputRequest::Text(text) => text.paths.iter().map(found).collect(),
            InputRequest::Csv(csv) => csv.paths.iter().map(found).collect(),
            InputRequest::JsonLines(json) => json.paths.iter().map(found).collect(),
            InputRequest::Table(_) | InputRequest::Generated(_) => Vec::new(),
        });
        Paths {
            inputs: inputs.collect(),
            file: (self.application.file()).map(|path| resolve(&self.directory, path)),
            output: match &self.output.to {
                OutputPlace::File(path)
                | OutputPlace::Folder(path)
                | OutputPlace::Spool(path)
                | OutputPlace::Iceberg(PublishTarget::Folder(path)) => Some(found(path)),
                OutputPlace::Iceberg(PublishTarget::Bucket { .. })
                | OutputPlace::Table(_)
                | OutputPlace::Terminal => None,
            },
        }
    }
}

/// Resolves `path` below `directory` if it is relative. If `directory` is the current
/// directory, the path stays relative, so that messages show it as in the request.
fn resolve(directory: &Path, path: &Path) -> PathBuf {
    match std::env::current_dir() {
        Ok(here) if here == directory => path.to_path_buf(),
        _ => directory.join(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{ApplicationRequest, GeneratedInput, TextInput, WordcountRequest};

    #[test]
    fn relative_paths_start_from_the_request_s_directory_and_stay_short_from_here() {
        let application = ApplicationRequest::Wordcount(WordcountRequest { reduces: 1 });
        let text = ["a.txt", "/b"].map(PathBuf::from).to_vec();
        let inputs = vec![
            InputRequest::Generated(GeneratedInput {
                records: 1,
                seed: 1,
            }),
            InputRequest::Text(TextInput {
                paths: text,
                skip_bad: false,
            }),
        ];
        let output = OutputPlace::File("out.tsv".into()).into();
        let mut request = JobRequest::new(application, inputs, output, "/far");
        let paths = |names: [&str; 2], output: &str| Paths {
            inputs: vec![Vec::new(), names.map(PathBuf::from).to_vec()],
            file: None,
            output: Some(output.into()),
        };
        assert_eq!(request.paths(), paths(["/far/a.txt", "/b"], "/far/out.tsv"));
        request.directory = std::env::current_dir().unwrap();
        assert_eq!(request.paths(), paths(["a.txt", "/b"], "out.tsv"));
    }
}

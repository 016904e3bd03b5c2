//! Where the files are that a request names.

use std::path::{Path, PathBuf};

use crate::jobs::request::{ApplicationRequest, InputRequest, JobRequest};

/// What a request reads, as it is found from here: looked up once, before any of it is
/// opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Paths {
    /// Of each input, in the order of the request; none of one that is no files.
    pub(super) inputs: Vec<Vec<PathBuf>>,
    /// The scenario of a simulation, where one is named.
    pub(super) scenario: Option<PathBuf>,
}

impl Paths {
    /// Those of `request`.
    pub(super) fn of(request: &JobRequest) -> Self {
        let found = |path: &PathBuf| resolve(&request.directory, path);
        let inputs = request.inputs.iter().map(|input| match input {
            InputRequest::Text(text) => text.paths.iter().map(found).collect(),
            InputRequest::Csv(csv) => csv.paths.iter().map(found).collect(),
            InputRequest::JsonLines(json) => json.paths.iter().map(found).collect(),
            InputRequest::Table(_) | InputRequest::Generated(_) => Vec::new(),
        });
        Self {
            inputs: inputs.collect(),
            scenario: match &request.application {
                ApplicationRequest::Simulate(options) => options.scenario.as_ref().map(found),
                _ => None,
            },
        }
    }
}

/// `path` as it is found: below `directory` where it is relative. Where that is the
/// directory of this process it stays as it is, so that messages name it as it was asked
/// for.
pub(super) fn resolve(directory: &Path, path: &Path) -> PathBuf {
    match std::env::current_dir() {
        Ok(here) if here == directory => path.to_path_buf(),
        _ => directory.join(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::request::{GeneratedInput, OutputPlace, TextInput, WordcountRequest};

    #[test]
    fn relative_paths_start_from_the_request_s_directory_and_stay_short_from_here() {
        let application = ApplicationRequest::Wordcount(WordcountRequest { reduces: 1 });
        let text = ["a.txt", "/b"].map(PathBuf::from).to_vec();
        let inputs = vec![
            InputRequest::Generated(GeneratedInput {
                records: 1,
                seed: 1,
            }),
            InputRequest::Text(TextInput { paths: text }),
        ];
        let output = OutputPlace::Terminal.into();
        let mut request = JobRequest::new(application, inputs, output, "/far");
        let paths = |names: [&str; 2]| Paths {
            inputs: vec![Vec::new(), names.map(PathBuf::from).to_vec()],
            scenario: None,
        };
        assert_eq!(Paths::of(&request), paths(["/far/a.txt", "/b"]));
        request.directory = std::env::current_dir().unwrap();
        assert_eq!(Paths::of(&request), paths(["a.txt", "/b"]));
    }
}

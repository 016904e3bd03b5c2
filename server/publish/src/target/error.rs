//! Errors of targets, without the credentials that answers of servers contain.

use std::io;

use object_store::Error;

/// The text that `object_store` puts before the status and the body of an error response.
const STATUS: &str = "non-2xx status code: ";
/// The text that `object_store` puts before the body of a response that has a success status, and whose
/// body reports an error.
const RESPONSE: &str = "error response: ";

#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// A setting for the target is not valid, or this build does not have targets of its kind.
    #[error("{0}")]
    Refused(String),
    /// The folder cannot be used.
    #[error("{path}: {error}")]
    Folder {
        /// The path of the folder.
        path: String,
        error: io::Error,
    },
    /// The thread that sends parts of uploads cannot be started.
    #[error("starting the thread of a target: {0}")]
    Thread(io::Error),
    /// There is no disk space for a part of an upload: see [`Upload::taking_space`](super::Upload::taking_space).
    #[error("{0}")]
    DiskFull(#[source] io::Error),
    /// An object cannot be read, written, listed or removed.
    #[error("{call} {url}: {reason}")]
    Object {
        call: &'static str,
        /// The location of the object.
        url: String,
        reason: String,
    },
    /// The target lets two publishers create the same object. The field is the location of the target.
    #[error(
        "{0} does not refuse to create an object twice, so two publishers could overwrite each other; choose a target that does"
    )]
    CreatesTwice(String),
}

/// Returns the text of an error. If the error contains a server's response, the text shows only the status,
/// the code and the message of the response: S3 repeats key ids and session tokens in the body of an error
/// response.
pub(super) fn reason(error: &Error) -> String {
    let text = error.to_string();
    let Some((before, status, body)) = split_answer(&text) else {
        return text;
    };
    let parts = [status, element(body, "Code"), element(body, "Message")];
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    format!("{before}{}", parts.join(": "))
}

/// Returns whether a server rejected a request for a lack of permission. S3 answers so with the
/// status 403, and Google's servers with 401 if the request has no credentials. `object_store` has
/// variants for such errors, but not if the request was a list: then only the text of the error has
/// the status. So the text decides for every error.
pub(super) fn is_denied(error: &Error) -> bool {
    let text = error.to_string();
    let status = split_answer(&text).and_then(|(_, status, _)| status);
    status.is_some_and(|status| status.starts_with("401") || status.starts_with("403"))
}

/// Splits the text of an error that contains a server's response: the text before the response, its status
/// (`None` if the text does not show one), and its body. `None` for the text of another error.
fn split_answer(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let after = |mark: &str| Some(text.split_at(text.find(mark)? + mark.len()));
    if let Some((before, answer)) = after(STATUS) {
        let (status, body) = answer.split_once(": ").unwrap_or((answer, ""));
        return Some((before, Some(status), body));
    }
    let (before, body) = after(RESPONSE)?;
    Some((before, None, body))
}

/// Returns the text of the first XML element `name`; `None` if there is no such element.
fn element<'b>(body: &'b str, name: &str) -> Option<&'b str> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        reason(&Error::Generic {
            store: "S3",
            source: text.into(),
        })
    }

    #[test]
    fn of_an_answer_only_the_code_and_the_message_are_shown() {
        let body = "<?xml version=\"1.0\"?><Error><Code>ExpiredToken</Code>\
                    <Message>The provided token has expired.</Message>\
                    <Token-0>SESSION</Token-0></Error>";
        let status = format!("PUT http://s3/b/k - Server returned {STATUS}400 Bad Request: {body}");
        assert_eq!(
            shown(&status),
            "Generic S3 error: PUT http://s3/b/k - Server returned non-2xx status code: \
             400 Bad Request: ExpiredToken: The provided token has expired."
        );
        assert_eq!(
            shown(&format!("Server returned {RESPONSE}{body}")),
            "Generic S3 error: Server returned error response: \
             ExpiredToken: The provided token has expired."
        );
        assert_eq!(
            shown(&format!("{STATUS}403 Forbidden: the key SECRET")),
            "Generic S3 error: non-2xx status code: 403 Forbidden"
        );
        assert_eq!(
            shown("no space is left"),
            "Generic S3 error: no space is left"
        );
    }
}

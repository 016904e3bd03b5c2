//! Asks the server of a database, for programs that wait for the answer.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebb_jobs::history::{JobAttempt, ProfileRecord};
use ebb_jobs::request::JobRequest;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

use super::problem::Problem;
use super::socket;
use super::wire::{Cancelled, Estimate, JobList, JobView, Keyspaces, RestartView};

/// The longest answer that is read, in bytes: the attempts of a large job have some.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Why a server's answer is none.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server refuses; says why.
    #[error("{0}")]
    Refused(Problem),
    /// It does not answer: it has stopped, or was killed.
    #[error("the server of {data} does not answer: {cause}")]
    Gone {
        /// The directory of its database.
        data: PathBuf,
        /// What the system or the protocol says.
        cause: String,
    },
    /// What it says is not understood: it is of another version.
    #[error(
        "the server of {data} answers what this build of ebb does not understand: {cause}; use \
         the build that serves"
    )]
    Strange {
        /// The directory of its database.
        data: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The system refuses.
    #[error("cannot reach the server of {data}: {source}")]
    System {
        /// The directory of its database.
        data: PathBuf,
        /// Why.
        source: io::Error,
    },
}

type Result<T> = std::result::Result<T, ClientError>;

/// A client of the server that holds a database. It keeps no connection between two
/// questions.
#[derive(Debug)]
pub struct JobsClient {
    data: PathBuf,
    runtime: Runtime,
}

impl JobsClient {
    /// The client of the server that holds the database in `data`; `None` where no server
    /// does.
    ///
    /// # Errors
    /// When the system refuses, as of another user's server.
    pub fn of(data: &Path) -> Result<Option<Self>> {
        let system = |source| ClientError::System {
            data: data.to_path_buf(),
            source,
        };
        if socket::connect(data).map_err(system)?.is_none() {
            return Ok(None);
        }
        let runtime = Builder::new_current_thread().enable_io().build();
        Ok(Some(Self {
            data: data.to_path_buf(),
            runtime: runtime.map_err(system)?,
        }))
    }

    /// The directory of the database.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Starts a job.
    ///
    /// # Errors
    /// As [`Node::submit`](crate::node::Node::submit); when the server does not answer.
    pub fn submit(&self, request: &JobRequest) -> Result<JobView> {
        self.ask(Method::POST, "/v1/jobs", Some(request))
    }

    /// How long a job would take.
    ///
    /// # Errors
    /// As [`Node::expect`](crate::node::Node::expect); when the server does not answer.
    pub fn estimate(&self, request: &JobRequest) -> Result<Estimate> {
        self.ask(Method::POST, "/v1/jobs/estimate", Some(request))
    }

    /// All jobs that are remembered.
    ///
    /// # Errors
    /// When the history cannot be read, or the server does not answer; so for the others.
    pub fn jobs(&self) -> Result<Vec<JobView>> {
        let list: JobList = self.get("/v1/jobs")?;
        Ok(list.jobs)
    }

    /// A job, after waiting for its end for at most `wait`.
    ///
    /// # Errors
    /// When there is none.
    pub fn job(&self, id: &str, wait: Duration) -> Result<JobView> {
        self.get(&format!("{}?wait_ms={}", path(id), wait.as_millis()))
    }

    /// The attempts at a job's tasks.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn attempts(&self, id: &str) -> Result<Vec<JobAttempt>> {
        self.get(&format!("{}/attempts", path(id)))
    }

    /// Asks a job to stop. False when it has ended, or its output is being put in place.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn cancel(&self, id: &str) -> Result<bool> {
        let cancelled: Cancelled = self.ask(Method::DELETE, &path(id), None)?;
        Ok(cancelled.stopping)
    }

    /// Starts an unfinished job again.
    ///
    /// # Errors
    /// As [`Node::restart`](crate::node::Node::restart).
    pub fn restart(&self, id: &str) -> Result<RestartView> {
        self.ask(Method::POST, &format!("{}/restart", path(id)), None)
    }

    /// Ends an unfinished job without starting it again.
    ///
    /// # Errors
    /// As [`Node::discard`](crate::node::Node::discard).
    pub fn discard(&self, id: &str) -> Result<JobView> {
        self.ask(Method::POST, &format!("{}/discard", path(id)), None)
    }

    /// What tasks took, by application.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn profiles(&self) -> Result<Vec<ProfileRecord>> {
        self.get("/v1/profiles")
    }

    /// The names of the keyspaces.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn keyspaces(&self) -> Result<Vec<String>> {
        let names: Keyspaces = self.get("/v1/keyspaces")?;
        Ok(names.keyspaces)
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.ask(Method::GET, path, None)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&JobRequest>,
    ) -> Result<T> {
        let body = body.map(|request| request.to_json().to_string());
        let (status, answer) = self.runtime.block_on(self.exchange(method, path, body))?;
        if !status.is_success() {
            return Err(match serde_json::from_slice(&answer) {
                Ok(problem) => ClientError::Refused(problem),
                Err(_) => self.strange(format!("status {status}")),
            });
        }
        serde_json::from_slice(&answer).map_err(|error| self.strange(error))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<(StatusCode, Bytes)> {
        let gone = |cause: &dyn std::fmt::Display| ClientError::Gone {
            data: self.data.clone(),
            cause: cause.to_string(),
        };
        let stream = socket::connect(&self.data).map_err(|error| gone(&error))?;
        let stream = stream.ok_or_else(|| gone(&"it has stopped"))?;
        let stream = stream.set_nonblocking(true).map(|()| stream);
        let stream = stream.and_then(UnixStream::from_std);
        let stream = TokioIo::new(stream.map_err(|error| gone(&error))?);
        let (mut sender, connection) =
            (http1::handshake(stream).await).map_err(|error| gone(&error))?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.unwrap_or_default())));
        let request = request.map_err(|error| self.strange(error))?;
        let answer = async {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((head.status, body.to_bytes()))
        };
        tokio::pin!(answer);
        tokio::select! {
            answer = &mut answer => answer,
            // It has no more to send: what it sent is there to be read.
            _closed = connection => answer.await,
        }
        .map_err(|error| gone(&error))
    }

    fn strange(&self, cause: impl std::fmt::Display) -> ClientError {
        ClientError::Strange {
            data: self.data.clone(),
            cause: cause.to_string(),
        }
    }
}

/// The path of a job. Of an id, whoever wrote it, only what can stand in a path.
fn path(id: &str) -> String {
    let mut path = "/v1/jobs/".to_string();
    for byte in id.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' => path.push(byte.into()),
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

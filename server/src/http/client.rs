//! A blocking client for the server of a database.

mod database;

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebb_jobs::history::{JobAttempt, ProfileRecord};
use ebb_jobs::request::JobRequest;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

use super::client_tls::{self, ClientTls};
use super::idempotency::KEY as IDEMPOTENCY_KEY;
use super::paths::{self, escaped};
use super::port::{Port, shown};
use super::problem::Problem;
use super::queries::{QueryList, QueryView};
use super::socket;
use super::wire::{
    AttemptList, Cancelled, Configuration, JobList, Keyspaces, ProfileList, RoleList, RoleView,
    SnapshotList, SnapshotRenewal, SnapshotRequest, SnapshotView, TableList, TableSummary,
};
use crate::jobs::{Estimate, JobView, Jobs, ReadJobs, RestartView};
use crate::live::{Load, WhatIfAnswer};

/// The longest response that is read, in bytes; a longer one is an error. The list of a large job's attempts
/// has several MiB.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The reason why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server responded with an error: it refused the request, or failed to execute it.
    #[error("{0}")]
    Refused(Problem),
    /// There is no whole response, for example because the server has stopped, cannot be reached, or has a
    /// certificate that the client does not trust, or requires one of the client. Also if the response is longer
    /// than the client reads.
    #[error("the server of {data} does not answer: {cause}")]
    Gone {
        /// The directory of the server's database, or the URL of the server.
        data: PathBuf,
        /// The error of the system or of the protocol.
        cause: String,
    },
    /// The response cannot be parsed, most likely because the server is of another version.
    #[error(
        "the server of {data} sent an answer that this build of ebb cannot read: {cause}; use the \
         build that the server runs"
    )]
    Strange {
        /// The directory of the server's database, or the URL of the server.
        data: PathBuf,
        /// The error of the parser, or the unexpected status.
        cause: String,
    },
    /// It is unknown whether a server listens in the directory, for example because another user owns it.
    #[error("cannot look for a server in {data}: {source}")]
    Unseen {
        /// The directory of the database.
        data: PathBuf,
        source: io::Error,
    },
    /// The client cannot be created: the URL is not of the form `http://HOST:PORT` or `https://HOST:PORT`,
    /// the token cannot be part of a header, a file of TLS cannot be read or has wrong contents, or the system
    /// lacks a resource.
    #[error("cannot reach the server of {data}: {source}")]
    System {
        /// The directory of the server's database, or the URL of the server.
        data: PathBuf,
        source: io::Error,
    },
}

pub(super) type Result<T> = std::result::Result<T, ClientError>;

/// A client of a server, for all requests of commands and not only for those about jobs. Each request uses a
/// connection of its own. Apart from the errors that a function names, each request also fails when the
/// server refuses the token, is overloaded, or does not answer.
#[derive(Debug)]
pub struct JobsClient {
    /// The directory of the database, or the URL of the server, as errors name it.
    data: PathBuf,
    port: Option<Port>,
    runtime: Runtime,
}

impl JobsClient {
    /// Returns a client of the server that has the database in `data` open; `None` if no server has it open.
    ///
    /// # Errors
    /// When the system refuses the connection, such as to another user's server, or lacks a resource.
    pub fn of(data: &Path) -> Result<Option<Self>> {
        match socket::connect(data) {
            Ok(None) => Ok(None),
            Ok(Some(_)) => Self::new(data, Ok(None)).map(Some),
            Err(source) => Err(ClientError::Unseen {
                data: data.to_path_buf(),
                source,
            }),
        }
    }

    /// Returns a client of the server at `url`, such as `http://HOST:PORT`, with `token` as its credential.
    /// If `url` has no port, the port is that of the scheme. For `https`, `tls` has the files of the authorities
    /// that the client trusts, and of its certificate. Reads the files now, and connects with the first request
    /// only.
    ///
    /// # Errors
    /// When `url` has another form, or is `https` without authorities. Also when the token cannot be part of a
    /// header, a file cannot be read or has wrong contents, or the system lacks a resource.
    pub fn at(url: &str, token: Option<String>, tls: &ClientTls) -> Result<Self> {
        let port = Port::at(url, token, tls).map(Some);
        Self::new(Path::new(&shown(url)), port)
    }

    fn new(data: &Path, port: io::Result<Option<Port>>) -> Result<Self> {
        let system = |source| ClientError::System {
            data: data.to_path_buf(),
            source,
        };
        let runtime = Builder::new_current_thread().enable_io().build();
        Ok(Self {
            data: data.to_path_buf(),
            port: port.map_err(system)?,
            runtime: runtime.map_err(system)?,
        })
    }

    /// Returns the directory of the database, or the URL of the server.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Returns the names of the keyspaces.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn keyspaces(&self) -> Result<Vec<String>> {
        self.pages("/v1/keyspaces?limit=1000", |page: Keyspaces| {
            (page.keyspaces, page.next)
        })
    }

    /// Returns the roles of CQL.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn roles(&self) -> Result<Vec<RoleView>> {
        self.pages("/v1/roles?limit=1000", |page: RoleList| {
            (page.roles, page.next)
        })
    }

    /// Returns the queries of CQL that wait or run, the oldest first.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn queries(&self) -> Result<Vec<QueryView>> {
        self.pages("/v1/queries?limit=1000", |page: QueryList| {
            (page.queries, page.next)
        })
    }

    /// Returns the configuration of the server.
    ///
    /// # Errors
    /// When the token is not one for `admin`, or the server does not answer.
    pub fn configuration(&self) -> Result<Configuration> {
        self.get("/v1/config")
    }

    /// Kills a query of CQL that only reads.
    ///
    /// # Errors
    /// When there is no such query, it may change something, or the server does not answer.
    pub fn kill_query(&self, id: u64) -> Result<()> {
        self.answer(Method::DELETE, &format!("/v1/queries/{id}"), None)
    }

    /// Returns the snapshots of `keyspace`, or of all keyspaces for `None`, the newest first. With `exact`,
    /// the server counts the bytes that they pin instead of estimating them, and the list includes the
    /// snapshots that ebb keeps for publications.
    ///
    /// # Errors
    /// When there is no such keyspace, or the server does not answer.
    pub fn snapshots(&self, keyspace: Option<&str>, exact: bool) -> Result<SnapshotList> {
        let of = keyspace.map_or(String::new(), |of| format!("&keyspace={}", escaped(of)));
        let first = format!("/v1/snapshots?limit=1000&exact={exact}{of}");
        let mut list: SnapshotList = self.get(&first)?;
        while let Some(after) = list.next {
            let more: SnapshotList = self.get(&format!("{first}&after={}", escaped(&after)))?;
            list.snapshots.extend(more.snapshots);
            list.next = more.next;
        }
        Ok(list)
    }

    /// Creates a snapshot.
    ///
    /// # Errors
    /// When there is a snapshot of this name, or the keyspace or table does not exist.
    pub fn create_snapshot(&self, request: &SnapshotRequest) -> Result<SnapshotView> {
        self.post("/v1/snapshots", request)
    }

    /// Makes a snapshot expire `expires_in` from now, or never for `None`.
    ///
    /// # Errors
    /// When there is no such snapshot.
    pub fn renew_snapshot(
        &self,
        keyspace: &str,
        name: &str,
        expires_in: Option<Duration>,
    ) -> Result<SnapshotView> {
        let renewal = SnapshotRenewal {
            expires_in_s: expires_in.map(|time| time.as_secs_f64()),
        };
        self.post(
            &format!("{}/renew", paths::snapshot(keyspace, name)),
            &renewal,
        )
    }

    /// Deletes a snapshot.
    ///
    /// # Errors
    /// When there is no such snapshot.
    pub fn delete_snapshot(&self, keyspace: &str, name: &str) -> Result<()> {
        self.answer(Method::DELETE, &paths::snapshot(keyspace, name), None)
    }

    /// Returns the load of the last `seconds` seconds, 1 to 86,400.
    ///
    /// # Errors
    /// When `seconds` is out of range, or the server does not answer.
    pub fn load(&self, seconds: u32) -> Result<Load> {
        self.get(&format!("/v1/load?seconds={seconds}"))
    }

    /// Returns the tables of the database.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn tables(&self) -> Result<Vec<TableSummary>> {
        self.pages("/v1/tables?limit=1000", |page: TableList| {
            (page.tables, page.next)
        })
    }

    /// Returns the metrics, in Prometheus' text format.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn metrics(&self) -> Result<String> {
        let text = self.body(Method::GET, "/metrics", None, None)?;
        String::from_utf8(text.into()).map_err(|error| self.strange(error))
    }

    /// Predicts the end of a hypothetical job, and the goals that other jobs would miss because of it. `job`
    /// is a body of `POST /v1/what-if`.
    ///
    /// # Errors
    /// When the job is invalid, or the server has no profile of such jobs or does not answer.
    pub fn what_if(&self, job: &Value) -> Result<WhatIfAnswer> {
        self.post("/v1/what-if", job)
    }

    /// Returns the running jobs of an application, the newest first, at most 100.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn running(&self, application: &str) -> Result<Vec<JobView>> {
        let application = escaped(application);
        let list: JobList = self.get(&format!("/v1/jobs?state=running&name={application}"))?;
        Ok(list.jobs)
    }

    /// Returns all running jobs, with backups and verifications, the newest first.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn all_running(&self) -> Result<Vec<JobView>> {
        self.pages("/v1/jobs?state=running&limit=1000", |page: JobList| {
            (page.jobs, page.next)
        })
    }

    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.answer(Method::GET, path, None)
    }

    /// Fetches all pages of a list. `first` is the path of the first page, and has query parameters. `parts`
    /// splits a page into its elements and the cursor of the next page, which is `None` on the last page.
    pub(super) fn pages<P: DeserializeOwned, T>(
        &self,
        first: &str,
        parts: impl Fn(P) -> (Vec<T>, Option<String>),
    ) -> Result<Vec<T>> {
        let (mut all, mut next) = parts(self.get(first)?);
        while let Some(after) = next {
            let path = format!("{first}&after={}", escaped(&after));
            let (page, following) = parts(self.get(&path)?);
            if page.is_empty() {
                break;
            }
            all.extend(page);
            next = following;
        }
        Ok(all)
    }

    fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        self.answer(Method::POST, path, Some(json!(body).to_string()))
    }

    /// Starts a job. Within a day, further calls with the same key and request return the same job, and
    /// start no other one.
    ///
    /// # Errors
    /// When an earlier, different request had the key, and for the reasons at [`Jobs::submit`].
    pub fn submit_once(&self, request: &JobRequest, key: &str) -> Result<JobView> {
        let body = Some(json!(request).to_string());
        self.answer_once(Method::POST, "/v1/jobs", body, Some(key))
    }

    /// Sends `POST` without a body to the path of a job, followed by `/` and `change`, the name of the
    /// change.
    fn change<T: DeserializeOwned>(&self, id: &str, change: &str) -> Result<T> {
        self.answer(Method::POST, &format!("{}/{change}", paths::job(id)), None)
    }

    fn answer<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<T> {
        self.answer_once(method, path, body, None)
    }

    /// Sends a request, with an idempotency key if there is one, and parses the response.
    fn answer_once<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        key: Option<&str>,
    ) -> Result<T> {
        let answer = self.body(method, path, body, key)?;
        // A response without content has no body.
        let answer = if answer.is_empty() {
            &b"null"[..]
        } else {
            &answer
        };
        serde_json::from_slice(answer).map_err(|error| self.strange(error))
    }

    /// Sends a request, and returns the body of a successful response.
    ///
    /// # Errors
    /// When the response has another status than 2xx, or there is none.
    fn body(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        key: Option<&str>,
    ) -> Result<Bytes> {
        let exchange = self.exchange(method, path, body, key);
        let (status, answer) = self.runtime.block_on(exchange)?;
        if status.is_success() {
            return Ok(answer);
        }
        Err(match serde_json::from_slice(&answer) {
            Ok(problem) => ClientError::Refused(problem),
            Err(_) => self.strange(format!("status {status}")),
        })
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        key: Option<&str>,
    ) -> Result<(StatusCode, Bytes)> {
        let gone = |error: io::Error| self.gone(error);
        let host = match &self.port {
            Some(port) => &port.address,
            None => "localhost",
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, host)
            .header(CONTENT_TYPE, "application/json");
        let token = self.port.as_ref().and_then(|port| port.token.as_ref());
        let request = match token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        };
        let request = match key {
            Some(key) => request.header(IDEMPOTENCY_KEY, key),
            None => request,
        };
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())));
        let request = request.map_err(|error| self.strange(error))?;
        if let Some(port) = &self.port {
            let connected = port.connect().await;
            let stream = connected.map_err(|error| self.broken(&error))?;
            return self.exchanged(stream, request).await;
        }
        let stream = socket::connect(&self.data).map_err(gone)?;
        let stream = stream.ok_or_else(|| self.gone("it has stopped"))?;
        let stream = stream.set_nonblocking(true).map(|()| stream);
        let stream = stream.and_then(UnixStream::from_std).map_err(gone)?;
        self.exchanged(stream, request).await
    }

    /// Sends a request over a new connection, and returns the status and the body of the response.
    async fn exchanged(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes)> {
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| self.gone(error))?;
        let answer = async {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?;
            Ok::<_, Box<dyn StdError + Send + Sync>>((head.status, body.to_bytes()))
        };
        tokio::pin!(answer);
        tokio::select! {
            answer = &mut answer => answer,
            // The server has closed the connection: its response is in the buffer. If there is none, the error
            // of the connection has the reason.
            closed = connection => answer.await.map_err(|error| match closed {
                Ok(()) => error,
                Err(reason) => reason.into(),
            }),
        }
        .map_err(|error: Box<dyn StdError + Send + Sync>| self.broken(&*error))
    }

    /// Returns the error for a connection that broke. Its text has all causes, because hyper's errors leave
    /// them out of their own, and advice if the server sent an alert about the client's certificate.
    fn broken(&self, error: &(dyn StdError + 'static)) -> ClientError {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        if let Some(advice) = client_tls::advice(error) {
            text.push_str("; ");
            text.push_str(advice);
        }
        self.gone(text)
    }

    fn gone(&self, cause: impl std::fmt::Display) -> ClientError {
        ClientError::Gone {
            data: self.data.clone(),
            cause: cause.to_string(),
        }
    }

    fn strange(&self, cause: impl std::fmt::Display) -> ClientError {
        ClientError::Strange {
            data: self.data.clone(),
            cause: cause.to_string(),
        }
    }
}

impl ReadJobs for JobsClient {
    type Error = ClientError;

    fn list(&self) -> Result<Vec<JobView>> {
        let mut jobs = self.pages("/v1/jobs?limit=1000", |page: JobList| {
            (page.jobs, page.next)
        })?;
        jobs.reverse();
        Ok(jobs)
    }

    fn show(&self, id: &str, wait: Duration) -> Result<JobView> {
        self.get(&format!("{}?wait_ms={}", paths::job(id), wait.as_millis()))
    }

    fn attempts(&self, id: &str) -> Result<Vec<JobAttempt>> {
        let first = format!("{}/attempts?limit=10000", paths::job(id));
        self.pages(&first, |page: AttemptList| (page.attempts, page.next))
    }

    fn profiles(&self) -> Result<Vec<ProfileRecord>> {
        self.pages("/v1/profiles?limit=1000", |page: ProfileList| {
            (page.profiles, page.next)
        })
    }
}

impl Jobs for JobsClient {
    fn submit(&self, request: &JobRequest) -> Result<JobView> {
        self.post("/v1/jobs", request)
    }

    fn estimate(&self, request: &JobRequest) -> Result<Estimate> {
        self.post("/v1/jobs/estimate", request)
    }

    fn cancel(&self, id: &str) -> Result<bool> {
        let cancelled: Cancelled = self.change(id, "cancel")?;
        Ok(cancelled.stopping)
    }

    fn restart(&self, id: &str) -> Result<RestartView> {
        self.change(id, "restart")
    }

    fn retry(&self, id: &str) -> Result<JobView> {
        self.change(id, "retry")
    }

    fn discard(&self, id: &str) -> Result<JobView> {
        self.change(id, "discard")
    }
}

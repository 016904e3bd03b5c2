//! Jobs in lists, as JSON that is kept.
//!
//! A job that does not run looks the same until its record changes. To decode the records of a thousand
//! jobs and to encode their views takes far more CPU than to read their rows, and consoles list jobs each
//! second. So a view is encoded once, and is taken again while the stored row has the same bytes. A list
//! reads the rows nevertheless: what it shows never depends on who changed them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_jobs::JobError;
use ebb_jobs::history::{JobRow, RecordState};
use ebb_storage::Db;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::outline::{Reads, outline};
use super::problem::{Problem, broken};
use crate::jobs::JobView;
use crate::tokens::Principal;

/// The most bytes of stored rows and of views that the cache keeps. A thousand short jobs take some 5 MB; a
/// single request may have a megabyte.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// A job in a list, with the properties by which lists choose jobs, and its JSON: `view` is complete;
/// `outline` has no options and errors, and is for roles that may not read the job's input.
#[derive(Debug)]
pub(super) struct ListedJob {
    pub id: String,
    pub application: String,
    pub has_ended: bool,
    reads: Reads,
    view: Box<RawValue>,
    outline: Box<RawValue>,
}

impl ListedJob {
    /// Creates a job of a list from its view.
    ///
    /// # Errors
    /// When the view cannot be JSON, which does not happen.
    pub(super) fn of(view: &JobView) -> Result<Self, Problem> {
        Ok(Self {
            id: view.record.id.clone(),
            application: view.record.application.clone(),
            has_ended: view.record.state != RecordState::Started,
            reads: Reads::of(&view.record),
            view: to_raw_value(view).map_err(broken)?,
            outline: to_raw_value(&outline(view.clone())).map_err(broken)?,
        })
    }

    /// Returns the JSON of the job that the principal may see.
    fn json_for(&self, principal: &Principal, db: Option<&Db>) -> &RawValue {
        if self.reads.are_open_to(principal, db) {
            &self.view
        } else {
            &self.outline
        }
    }
}

/// The bytes of JSON after which a page of jobs ends. A request of a job may have a megabyte. A page of a
/// thousand short jobs has some 2 MB. Rows, views and outlines of such a page fit into the cache.
const PAGE_BYTES_MAX: usize = 2 << 20;

/// The jobs of a page, while they are gathered. A page ends by its number of jobs or by its bytes.
#[derive(Debug)]
pub(super) struct GatheredJobs {
    pub jobs: Vec<Arc<ListedJob>>,
    /// The id of the last job, if another one follows on the next page.
    pub next: Option<String>,
    bytes: usize,
    limit: usize,
}

impl GatheredJobs {
    /// Creates an empty page for at most `limit` jobs, at least 1.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            jobs: Vec::new(),
            next: None,
            bytes: 0,
            limit,
        }
    }

    /// Adds a job, and returns whether it is on this page. The first job always is, however long it is. If
    /// another one is not, the page is complete.
    pub(super) fn add(&mut self, job: Arc<ListedJob>) -> bool {
        let bytes = self.bytes + job.view.get().len();
        let is_full = self.jobs.len() == self.limit || bytes > PAGE_BYTES_MAX;
        if is_full && let Some(last) = self.jobs.last() {
            self.next = Some(last.id.clone());
            return false;
        }
        self.bytes = bytes;
        self.jobs.push(job);
        true
    }
}

/// A page of jobs. In JSON it is a [`JobList`](super::wire::JobList).
#[derive(Serialize)]
struct JobPage<'j> {
    jobs: Vec<&'j RawValue>,
    next: Option<&'j str>,
}

/// Returns a page of jobs as JSON, as the principal may see them. `next` is the cursor of the next page.
///
/// # Errors
/// When the page cannot be JSON, which does not happen.
pub(super) fn page_json(
    principal: &Principal,
    db: Option<&Db>,
    jobs: &[Arc<ListedJob>],
    next: Option<&str>,
) -> Result<Vec<u8>, Problem> {
    /// The space, in bytes, for the rest of a page's JSON: the names of its two members, and the
    /// cursor `next`, which is the id of a job.
    const AROUND_BYTES: usize = 64;
    let jobs = jobs.iter().map(|job| job.json_for(principal, db));
    let jobs: Vec<&RawValue> = jobs.collect();
    let bytes: usize = jobs.iter().map(|view| view.get().len() + 1).sum();
    let mut json = Vec::with_capacity(bytes + AROUND_BYTES);
    serde_json::to_writer(&mut json, &JobPage { jobs, next }).map_err(broken)?;
    Ok(json)
}

/// A cache of the views of jobs that do not run, from earlier lists.
#[derive(Debug, Default)]
pub(super) struct JobViews(Mutex<Cache>);

/// Jobs by their ids. If they take more than [`KEPT_BYTES_MAX`], the oldest are dropped: lists begin with the
/// newest jobs, and the history deletes the oldest.
#[derive(Debug, Default)]
struct Cache {
    jobs: BTreeMap<Vec<u8>, CachedJob>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedJob {
    /// The row of the history from which the view was made. The view is out of date once the row differs.
    json: Box<[u8]>,
    job: Arc<ListedJob>,
}

impl CachedJob {
    fn bytes(&self) -> usize {
        self.json.len() + self.job.view.get().len() + self.job.outline.get().len()
    }
}

impl JobViews {
    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the listed job for a row of the history, in the form of a job that does not run. The result
    /// comes from the cache if the row has not changed since it was cached.
    ///
    /// # Errors
    /// When the row is not a job.
    pub(super) fn remembered(&self, row: &JobRow) -> Result<Arc<ListedJob>, Problem> {
        if let Some(known) = self.lock().known(row) {
            return Ok(known);
        }
        let record = row.record().map_err(JobError::from)?;
        let job = Arc::new(ListedJob::of(&JobView::remembered(record))?);
        self.lock().keep(row, Arc::clone(&job));
        Ok(job)
    }
}

impl Cache {
    fn known(&self, row: &JobRow) -> Option<Arc<ListedJob>> {
        let cached = self.jobs.get(row.id())?;
        (*cached.json == *row.json()).then(|| Arc::clone(&cached.job))
    }

    fn keep(&mut self, row: &JobRow, job: Arc<ListedJob>) {
        let json = row.json().into();
        let cached = CachedJob { json, job };
        self.bytes += cached.bytes();
        if let Some(before) = self.jobs.insert(row.id().to_vec(), cached) {
            self.bytes -= before.bytes();
        }
        while self.bytes > KEPT_BYTES_MAX
            && let Some((_, oldest)) = self.jobs.pop_first()
        {
            self.bytes -= oldest.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use ebb_jobs::history::JobRecord;
    use ebb_jobs::pi::Variant;
    use ebb_jobs::request::{ApplicationRequest, JobRequest, OutputPlace, PiRequest};
    use serde_json::json;

    use super::*;
    use crate::http::wire::JobList;

    fn record(id: u32) -> JobRecord {
        let application = ApplicationRequest::Pi(PiRequest {
            points: 1,
            seed: 1,
            variant: Variant::Plain,
        });
        let output = OutputPlace::Terminal.into();
        let request = JobRequest::new(application, Vec::new(), output, "/");
        JobRecord::new(format!("{id:013}"), &request, Vec::new(), 1)
    }

    #[test]
    fn a_view_is_made_once_for_a_row_and_again_when_the_row_has_changed() {
        let (views, begun) = (JobViews::default(), record(7));
        let first = views.remembered(&JobRow::of(&begun)).unwrap();
        let again = views.remembered(&JobRow::of(&begun)).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert!(!first.has_ended);
        let ended = JobRecord {
            state: RecordState::Failed,
            ended_unix_ms: Some(2),
            report: Some(json!({"outcome": {"kind": "failed"}})),
            ..begun
        };
        let after = views.remembered(&JobRow::of(&ended)).unwrap();
        assert!(after.has_ended);
        let view: JobView = serde_json::from_str(after.view.get()).unwrap();
        assert_eq!(view, JobView::remembered(ended));
        assert_eq!(views.lock().jobs.len(), 1);
    }

    #[test]
    fn a_page_is_the_json_of_a_list_of_views() {
        let (views, records) = (JobViews::default(), [record(9), record(8)]);
        let rows = records.each_ref().map(JobRow::of);
        let jobs = rows.map(|row| views.remembered(&row).unwrap());
        for next in [None, Some("0000000000008")] {
            let expected = JobList {
                jobs: records.clone().map(JobView::remembered).into(),
                next: next.map(str::to_owned),
            };
            let page = page_json(&Principal::owner(), None, &jobs, next).unwrap();
            assert_eq!(page, serde_json::to_vec(&expected).unwrap());
        }
    }

    fn long_job(id: u32, bytes: usize) -> Arc<ListedJob> {
        let job = JobRecord {
            report: Some(json!("r".repeat(bytes))),
            ..record(id)
        };
        Arc::new(ListedJob::of(&JobView::remembered(job)).unwrap())
    }

    /// Regression: a page was bounded by its number of jobs alone, and had a gigabyte with long requests.
    #[test]
    fn a_page_ends_by_its_jobs_or_by_its_bytes() {
        let page_of = |limit: usize, bytes: &[usize]| {
            let mut page = GatheredJobs::new(limit);
            let mut ids = (0..u32::try_from(bytes.len()).unwrap()).rev().zip(bytes);
            let is_whole = ids.all(|(id, bytes)| page.add(long_job(id, *bytes)));
            assert_eq!(is_whole, page.next.is_none());
            (page.jobs.len(), page.next)
        };
        let third = PAGE_BYTES_MAX / 3;
        assert_eq!(page_of(3, &[1, 1, 1]), (3, None));
        assert_eq!(page_of(2, &[1, 1, 1]), (2, Some(record(1).id)));
        let long = [third, third, third, 1];
        assert_eq!(page_of(1000, &long), (2, Some(record(2).id)));
        let single = [PAGE_BYTES_MAX, 1];
        assert_eq!(page_of(1000, &single), (1, Some(record(1).id)));
    }

    #[test]
    fn the_newest_jobs_are_kept_within_the_bound() {
        let views = JobViews::default();
        let long = |id| JobRecord {
            report: Some(json!("r".repeat(KEPT_BYTES_MAX / 8))),
            ..record(id)
        };
        for id in (0..20).rev() {
            views.remembered(&JobRow::of(&long(id))).unwrap();
        }
        let kept = views.lock();
        assert!(kept.bytes <= KEPT_BYTES_MAX);
        let bytes: usize = kept.jobs.values().map(CachedJob::bytes).sum();
        assert_eq!(kept.bytes, bytes);
        let newest = record(19).id.into_bytes();
        assert!(kept.jobs.contains_key(&newest), "lists begin with it");
        let oldest = record(0).id.into_bytes();
        assert!(!kept.jobs.contains_key(&oldest));
    }
}

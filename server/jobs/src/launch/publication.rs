//! The source and the target of a publication, opened.

use super::input::{OpenInput, OpenPlace};
use super::site::Site;
use crate::application::PublicationSite;
use crate::error::JobError;
use crate::history::CommitRecord;
use crate::request::{InputRequest, JobRequest, OutputPlace, Paths, PublishTarget};

/// Returns the opened source and the target of a publication; `None` for another job. The caller
/// must have checked `request`.
pub(super) fn of<'a>(
    request: &'a JobRequest,
    paths: &Paths,
    inputs: &'a [OpenInput],
    site: &Site,
    commits: &CommitRecord,
) -> Result<Option<PublicationSite<'a>>, JobError> {
    let OutputPlace::Iceberg(target) = &request.output.to else {
        return Ok(None);
    };
    let target = match &paths.output {
        Some(folder) => PublishTarget::Folder(folder.clone()),
        None => target.clone(),
    };
    let place = match &target {
        PublishTarget::Folder(folder) => Some(site.place_in(folder)),
        PublishTarget::Bucket { .. } => None,
    };
    let no_database = || JobError::NoDatabase(request.output.to.to_string());
    let db = site.db.clone().ok_or_else(no_database)?;
    let table = |(asked, opened): (&'a InputRequest, &'a OpenInput)| match (asked, &opened.place) {
        (InputRequest::Table(asked), OpenPlace::Table(table) | OpenPlace::Cql(table, _)) => {
            Some((&asked.table, table))
        }
        _ => None,
    };
    let snapshot = inputs.iter().find_map(|opened| opened.snapshot.as_ref());
    Ok(Some(PublicationSite {
        db,
        tables: request
            .inputs
            .iter()
            .zip(inputs)
            .filter_map(table)
            .collect(),
        snapshot: snapshot.map_or("", |snapshot| snapshot.name()),
        target,
        place,
        task_memory_bytes: site.task_memory_bytes,
        commits: commits.clone(),
    }))
}

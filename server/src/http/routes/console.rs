//! The console: a page over the other routes, embedded with its assets.
//!
//! The sources and the build script are in `server/console`. The built files are checked in, so
//! that the server builds with Rust alone. They contain no data of the database, so they are served
//! without a token; the page then asks the user for one.

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use ebb_jobs::Failure;
use rust_embed::{EmbeddedFile, RustEmbed};

use super::Served;
use super::answer::Named;
use crate::http::problem::Problem;

#[derive(RustEmbed)]
#[folder = "console/dist"]
struct Files;

pub(super) fn routes() -> Router<Served> {
    Router::new()
        .route("/", get(page))
        .route("/assets/{name}", get(asset))
}

/// Returns the console's page as one file, with its style and its script. `frozen` is JSON that the script
/// reads in place of responses.
pub(in crate::http) fn in_one_file(frozen: &str) -> String {
    let text = |path: &str| {
        let file = Files::get(path).expect("the page names what is embedded");
        String::from_utf8(file.data.into_owned()).expect("what is embedded is text")
    };
    let mut page = String::new();
    for line in text("index.html").lines() {
        let named = line.split('"').find(|part| part.starts_with("/assets/"));
        let asset = || text(named.unwrap_or_default().trim_start_matches('/'));
        if line.contains("rel=\"stylesheet\"") {
            page += &format!("<style>{}</style>", asset());
        } else if line.starts_with("<script") {
            // Only `</script>` ends a script element.
            let kept = frozen.replace('<', "\\u003c");
            page += &format!(
                "<script type=\"application/json\" id=\"frozen\">{kept}</script>\n\
                 <script type=\"module\">{}</script>",
                asset()
            );
        } else if named.is_none() {
            page += line;
        }
        page.push('\n');
    }
    page
}

async fn page(headers: HeaderMap) -> Result<Response, Problem> {
    // The page names the assets of its build, so browsers must revalidate it each time.
    file("index.html", &headers, "no-cache")
}

async fn asset(Named(name): Named<String>, headers: HeaderMap) -> Result<Response, Problem> {
    // The names of these assets contain the hash of their content.
    let keep = if name.starts_with("console-") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    file(&format!("assets/{name}"), &headers, keep)
}

fn file(path: &str, asked: &HeaderMap, keep: &'static str) -> Result<Response, Problem> {
    let file = Files::get(path).ok_or_else(|| {
        let detail = format!("there is no /{path}");
        Problem::new(StatusCode::NOT_FOUND, Failure::NotFound, detail)
    })?;
    let tag = tag(&file);
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(media_type(path))),
        (CACHE_CONTROL, HeaderValue::from_static(keep)),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            HeaderValue::from_static("same-origin"),
        ),
        (ETAG, tag.clone()),
    ];
    if asked.get(IF_NONE_MATCH) == Some(&tag) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, file.data).into_response())
}

fn tag(file: &EmbeddedFile) -> HeaderValue {
    let hash = file.metadata.sha256_hash();
    let hex: String = hash.iter().take(16).map(|b| format!("{b:02x}")).collect();
    HeaderValue::from_str(&format!("\"{hex}\"")).expect("hexadecimal digits")
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

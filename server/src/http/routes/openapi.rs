//! The OpenAPI description of the routes, generated from their handlers.

use std::sync::Arc;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use ebb_scheduler::runtime::TaskMeasures;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, ObjectBuilder, Ref, RefOr, ResponseBuilder, Type};
use utoipa::{OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use super::Served;
use crate::http::access::takes_key;
use crate::http::idempotency::KEY_BYTES_MAX;
use crate::http::problem::Problem;

/// The parts of the description that belong to no single route.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "ebb",
        description = "Jobs, snapshots, tables and numbers of a server of ebb",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT"),
    ),
    // Utoipa does not find the type in the pairs of a profile.
    components(schemas(Problem, TaskMeasures)),
    security(("token" = []), ("session" = [])),
)]
struct Head;

/// Returns a router without routes, whose OpenAPI description has only the parts that belong to no route.
pub(super) fn empty() -> OpenApiRouter<Served> {
    OpenApiRouter::with_openapi(Head::openapi())
}

/// Returns the routes of `described`, and the route `/openapi.json` with their description. `cookie_name` is
/// the name of the session cookie.
pub(super) fn served(described: OpenApiRouter<Served>, cookie_name: &str) -> Router<Served> {
    let (router, mut description) = described.split_for_parts();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "as `ebb token create` prints it; where clients of CQL log in, it must belong to a role",
        ))
        .build();
    let components = description.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    let text = "as POST /v1/session sets it; its name has the port of the server";
    let cookie = ApiKeyValue::with_description(cookie_name, text);
    let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(cookie));
    components.add_security_scheme("session", cookie);
    for (path, item) in &mut description.paths.paths {
        let operations = [
            &mut item.get,
            &mut item.post,
            &mut item.put,
            &mut item.delete,
        ];
        operations.into_iter().flatten().for_each(may_fail);
        let changes = [&mut item.post, &mut item.put, &mut item.delete];
        if takes_key(path) {
            changes.into_iter().flatten().for_each(may_come_again);
        }
    }
    let json = description
        .to_json()
        .expect("a description has text keys only");
    let json: Arc<str> = json.into();
    let described = async move || {
        let media_type = HeaderValue::from_static("application/json");
        ([(CONTENT_TYPE, media_type)], String::from(&*json))
    };
    router.route("/openapi.json", get(described))
}

/// Adds the header parameter `Idempotency-Key` to an operation. With this header, a retry does not make a
/// change twice.
fn may_come_again(operation: &mut Operation) {
    let key = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(KEY_BYTES_MAX))
        .pattern(Some("^[!-~]+$"));
    let key = ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .description(Some(
            "For a day after a request succeeded, the same request with the same key gets its response",
        ))
        .schema(Some(key));
    let parameters = operation.parameters.get_or_insert_default();
    parameters.push(RefOr::T(key.build()));
}

/// Adds the response for errors to an operation. All operations have the same form of errors.
fn may_fail(operation: &mut Operation) {
    let problem = Content::new(Some(RefOr::Ref(Ref::from_schema_name(Problem::name()))));
    let refused = ResponseBuilder::new()
        .description("The reason why the request failed (RFC 9457)")
        .content("application/problem+json", problem)
        .build();
    let responses = &mut operation.responses.responses;
    responses.insert("default".to_string(), RefOr::T(refused));
}

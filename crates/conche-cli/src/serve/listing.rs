//! Files and directories as links (RFC 6690).

use conche::codec::Body;
use conche::server::{Rejection, Request, Resource, Router};
use conche::{Code, ContentFormat};

/// A file or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Below what is served, without a slash at either end.
    pub path: String,
    pub format: Option<ContentFormat>,
    pub directory: bool,
    /// In bytes.
    pub size: Option<u32>,
    /// It is a symbolic link.
    pub is_link: bool,
}

/// Links to these entries, those that the request's query asks for. They are written and chosen by a router that has them
/// as its resources: it knows how.
pub async fn links(entries: &[Entry], request: &Request) -> Result<Vec<u8>, Rejection> {
    let failed = |problem: String| Rejection::new(Code::INTERNAL_SERVER_ERROR, problem);
    // A brace would be part of a pattern.
    let entries = entries.iter().filter(|entry| !entry.path.contains(['{', '}']));
    let router = entries.fold(Router::new(), |router: Router, entry| {
        let mut resource = Resource::new();
        if let Some(format) = entry.format {
            resource = resource.format(format);
        }
        if let Some(size) = entry.size {
            resource = resource.size(size);
        }
        router.route(&format!("/{}{}", entry.path, if entry.directory { "/" } else { "" }), resource)
    });
    let body = request.queries().fold(Body::builder().path("/.well-known/core"), |body, query| body.query(&query));
    let body = body.build().map_err(|error| Rejection::new(Code::BAD_REQUEST, error.to_string()))?;
    let service = router.into_service().map_err(|error| failed(error.to_string()))?;
    let asked = Request::from_body(request.peer(), Code::GET, &body).ok_or_else(|| failed("no request".to_owned()))?;
    Ok(service.respond(asked).await.payload_bytes().to_vec())
}

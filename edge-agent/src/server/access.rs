//! Who may call what, and the load line on whatever they get back.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{Extensions, HeaderMap, HeaderValue, Method};
use terrace_contract::headers;
use terrace_identity::{Identity, Peer};
use terrace_wire::error::Code;

use super::Agent;
use super::error::ApiError;
use crate::engine::CacheDomain;

/// What a caller is to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A policy's router: everything, and its `x-terrace-*` headers are believed.
    Router,
    /// The operator: the status, nothing else.
    Operator,
    /// An SDK on this machine, through `--plain-listen`: everything, but its `x-terrace-*` headers are nothing.
    Local,
    /// A gateway's client, through `--gateway-listen`: the wire, and no `x-terrace-*` header is believed.
    Gateway,
}

/// Marks requests that came by `--gateway-listen`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gateway;

/// The role of a connection. One without a certificate can only have come by the loopback listener or a gateway's.
fn role(extensions: &Extensions) -> Result<Role, ApiError> {
    match extensions.get::<Peer>() {
        None if extensions.get::<Gateway>().is_some() => Ok(Role::Gateway),
        None => Ok(Role::Local),
        Some(Peer(Identity::Policy { .. })) => Ok(Role::Router),
        Some(Peer(Identity::Operator { .. })) => Ok(Role::Operator),
        Some(Peer(other @ Identity::Tier { .. })) => Err(forbidden(format!("{other} may not call an agent"))),
    }
}

fn forbidden(message: String) -> ApiError {
    ApiError::new(Code::Forbidden, message)
}

/// Who may find whose computed prompts in the KV cache: callers of one policy that its router gives the same name, all of
/// the loopback listener together, and all of a gateway's. A router that names nobody shares with nobody.
pub(super) fn cache_domain(extensions: &Extensions, given: &HeaderMap) -> CacheDomain {
    match (extensions.get::<Peer>(), given.get(headers::CACHE_DOMAIN)) {
        (None, _) if extensions.get::<Gateway>().is_some() => CacheDomain::of(&[b"gateway"]),
        (None, _) => CacheDomain::of(&[b"local"]),
        (Some(_), None) => CacheDomain::alone(),
        (Some(Peer(identity)), Some(name)) => {
            CacheDomain::of(&[b"router", identity.to_string().as_bytes(), name.as_bytes()])
        }
    }
}

/// Lets through who may, with the [`Role`] as an extension.
pub(super) async fn guard(State(agent): State<Arc<Agent>>, mut request: Request, next: Next) -> Response {
    let allowed = role(request.extensions()).and_then(|role| match role {
        Role::Operator if (request.method(), request.uri().path()) != (&Method::GET, "/terrace/status") => {
            Err(forbidden("the operator may only GET /terrace/status".into()))
        }
        role => Ok(role),
    });
    let text =
        request.headers().get(headers::LOAD_FORMAT).is_some_and(|form| form.as_bytes().eq_ignore_ascii_case(b"text"));
    let gateway = matches!(allowed, Ok(Role::Gateway));
    let mut response = match allowed {
        Ok(role) => {
            request.extensions_mut().insert(role);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    };
    let load = agent.engine.load();
    let line = if gateway { load.to_gateway_header(text) } else { load.to_header() };
    if let Ok(mut load) = HeaderValue::from_str(&line) {
        // Another one each time: HTTP/2 need not remember it.
        load.set_sensitive(true);
        response.headers_mut().insert(headers::LOAD, load);
    }
    response
}

//! A tier, checked and taken apart: what it becomes cannot fail to build. Pure.

use terrace_crds::shared::NamespacesFrom;
use terrace_crds::tier::{self, Endpoint, HostPath, HttpSource, ImageSource, ModelClaim, Tier, TierSpec};

use crate::apply::Owner;
use crate::children::Site;
use crate::problem::Invalid;

/// A tier that can be built.
#[derive(Debug, Clone)]
pub struct ValidTier {
    /// The object.
    pub owner: Owner,
    /// What it asks for.
    pub spec: TierSpec,
    /// Its backend, of which there is exactly one.
    pub backend: Valid,
}

/// Exactly one backend.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "one a tier and reconcile, never a list of them")]
pub enum Valid {
    /// Agents.
    Fleet(Box<Fleet>),
    /// An endpoint: nothing to build.
    Endpoint(Endpoint),
}

/// A fleet and its model's one source.
#[derive(Debug, Clone)]
pub struct Fleet {
    /// As written.
    pub spec: tier::Fleet,
    /// Where the model comes from.
    pub source: Source,
}

/// Exactly one source.
#[derive(Debug, Clone)]
pub enum Source {
    /// A download, with the digest that it must have.
    Http {
        /// Where from.
        http: HttpSource,
        /// SHA-256, hex.
        sha256: String,
    },
    /// An image.
    Image(ImageSource),
    /// A claim.
    Claim(ModelClaim),
    /// A file on the node.
    HostPath(HostPath),
}

/// Checks a tier.
///
/// # Errors
/// The first thing that is wrong, with what to write instead.
pub fn validate(owner: Owner, tier: &Tier, site: &Site) -> Result<ValidTier, Invalid> {
    Invalid::check(tier)?;
    let spec = tier.spec.clone();
    let backend = match (&spec.backend.fleet, &spec.backend.endpoint) {
        (Some(fleet), None) => Valid::Fleet(Box::new(Fleet { spec: fleet.clone(), source: source(fleet, site)? })),
        (None, Some(endpoint)) => {
            if spec.allowed_policies.namespaces.from != NamespacesFrom::Same {
                return Err(Invalid::spec(terrace_crds::sentence::ENDPOINT_SAME));
            }
            Valid::Endpoint(endpoint.clone())
        }
        _ => return Err(Invalid::spec(terrace_crds::sentence::ONE_BACKEND)),
    };
    Ok(ValidTier { owner, spec, backend })
}

fn source(fleet: &tier::Fleet, site: &Site) -> Result<Source, Invalid> {
    let source = fleet.model.source.clone();
    match (source.http, source.image, source.claim, source.host_path) {
        (Some(http), None, None, None) => match &fleet.model.sha256 {
            Some(sha256) => Ok(Source::Http { http, sha256: sha256.to_string() }),
            None => Err(Invalid::spec(terrace_crds::sentence::HTTP_SHA256)),
        },
        (None, Some(image), None, None) => Ok(Source::Image(image)),
        (None, None, Some(claim), None) => Ok(Source::Claim(claim)),
        (None, None, None, Some(host)) => {
            let path = host.path.as_str();
            let under =
                |allowed: &String| path.strip_prefix(allowed.trim_end_matches('/')).is_some_and(|p| p.starts_with('/'));
            if site.allowed_host_paths.iter().any(under) {
                return Ok(Source::HostPath(host));
            }
            Err(Invalid::new(
                "HostPathNotAllowed",
                format!(
                    "spec.backend.fleet.model.source.hostPath.path: {path} is not under a path that the operator allows \
                     ({}): start the operator with --allowed-host-paths, or use http, image or claim",
                    if site.allowed_host_paths.is_empty() { "none".into() } else { site.allowed_host_paths.join(", ") }
                ),
            ))
        }
        _ => Err(Invalid::spec(terrace_crds::sentence::ONE_SOURCE)),
    }
}

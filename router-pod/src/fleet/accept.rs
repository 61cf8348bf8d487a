//! Whether a snapshot may be used. Pure: a document, what is in use, and the operator's public key go in.
//!
//! A snapshot is refused whole, with the last good one kept: half of a policy is not a policy.

use terrace_contract::names::AUTO_MODEL;
use terrace_contract::snapshot::Snapshot;
use terrace_contract::tier::Backend;
use terrace_contract::trust::Boundary;
use terrace_contract::{UnknownVersion, check_version};
use terrace_identity::signing::{self, SigningError};
use terrace_privacy::Rules;

/// Why a snapshot is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not a snapshot at all.
    #[error("it is not a snapshot: {0}")]
    Malformed(String),
    /// Of a version that is not read here.
    #[error(transparent)]
    Version(#[from] UnknownVersion),
    /// Not the operator's.
    #[error("{0}")]
    Signature(#[from] SigningError),
    /// The operator's public key cannot be read.
    #[error("the operator's public key {path} cannot be read: {why}")]
    Key {
        /// The file.
        path: String,
        /// Why not.
        why: String,
    },
    /// Its revision is not that of its content.
    #[error("its revision is not the digest of its content")]
    Revision,
    /// Of another policy.
    #[error("it is of policy {found}, and this router serves {wanted}")]
    OtherPolicy {
        /// What it is of.
        found: String,
        /// What this router serves.
        wanted: String,
    },
    /// Older than the one in use.
    #[error("it is older than the one in use: a generation in it has been passed")]
    Older,
    /// It contradicts itself.
    #[error("{field}: {problem}")]
    Invalid {
        /// Where.
        field: String,
        /// What.
        problem: String,
    },
}

/// The policy that a router serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Reads a document and checks all of it; gives the policy's rules with it, since one whose entities do not compile
/// is no policy.
///
/// # Errors
/// [`Refused`]: the first rule that it breaks.
pub fn read(
    bytes: &[u8],
    wanted: &Wanted,
    in_use: Option<&Snapshot>,
    public_key: &str,
) -> Result<(Snapshot, Rules), Refused> {
    // Version first: a document of another version may not parse as one of this.
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|e| Refused::Malformed(e.to_string()))?;
    let version = value.get("schemaVersion").and_then(serde_json::Value::as_u64).unwrap_or_default();
    check_version(u32::try_from(version).unwrap_or(u32::MAX))?;
    let snapshot: Snapshot = serde_json::from_value(value).map_err(|e| Refused::Malformed(e.to_string()))?;
    let rules = check(&snapshot, wanted, in_use, public_key)?;
    Ok((snapshot, rules))
}

/// Checks a snapshot.
///
/// # Errors
/// [`Refused`]: the first rule that it breaks.
pub fn check(
    snapshot: &Snapshot,
    wanted: &Wanted,
    in_use: Option<&Snapshot>,
    public_key: &str,
) -> Result<Rules, Refused> {
    check_version(snapshot.schema_version)?;
    signing::verify(snapshot, public_key)?;
    if snapshot.revision != snapshot.digest() {
        return Err(Refused::Revision);
    }
    let policy = &snapshot.policy;
    let found = Wanted { namespace: policy.namespace.clone(), name: policy.name.clone() };
    if found != *wanted {
        return Err(Refused::OtherPolicy { found: found.to_string(), wanted: wanted.to_string() });
    }
    if let Some(used) = in_use {
        if used.policy.uid != policy.uid || used.cluster_uid != snapshot.cluster_uid {
            let named = |s: &Snapshot| format!("{wanted} with UID {} in cluster {}", s.policy.uid, s.cluster_uid);
            return Err(Refused::OtherPolicy { found: named(snapshot), wanted: named(used) });
        }
        if snapshot.generations.older_than(&used.generations) {
            return Err(Refused::Older);
        }
    }
    validate(snapshot)
}

fn validate(snapshot: &Snapshot) -> Result<Rules, Refused> {
    let invalid = |field: String, problem: &str| -> Result<Rules, Refused> {
        Err(Refused::Invalid { field, problem: problem.to_owned() })
    };
    if !snapshot.policy.sensitivity.boundaries.is_sound() {
        return invalid("policy.sensitivity.boundaries".into(), "a higher class may travel further than a lower one");
    }
    if snapshot.tiers.is_empty() {
        return invalid("tiers".into(), "the ladder is empty");
    }
    for (i, tier) in snapshot.tiers.iter().enumerate() {
        let field = |name: &str| format!("tiers[{i}].{name}");
        if tier.uid.is_empty() {
            return invalid(field("uid"), "it is empty");
        }
        if snapshot.tiers[..i].iter().any(|t| t.uid == tier.uid) {
            return invalid(field("uid"), "the tier is on the ladder twice");
        }
        if i > 0 && snapshot.tiers[i - 1].boundary > tier.boundary {
            return invalid(field("boundary"), "it is nearer than the tier before it");
        }
        if tier.backend.model().is_empty() || tier.backend.model() == AUTO_MODEL {
            return invalid(field("backend.model"), "a tier's model needs a name, and `auto` is the policy's");
        }
        if let Backend::Endpoint(endpoint) = &tier.backend {
            let url = crate::dispatch::target::Target::parse(&endpoint.url);
            let Ok(url) = url else {
                return invalid(field("backend.endpoint.url"), "it is no http or https URL without user and query");
            };
            if tier.boundary == Boundary::Public && !url.tls {
                return invalid(field("backend.endpoint.url"), "a Public endpoint needs https");
            }
            if tier.boundary == Boundary::Device {
                return invalid(field("boundary"), "an endpoint is never inside the Device boundary");
            }
        }
    }
    if let Some(device) = snapshot.devices.iter().find(|d| d.address.parse::<std::net::IpAddr>().is_err()) {
        return invalid(format!("devices[{}].address", device.pod), "it is no IP address");
    }
    Rules::compile(&snapshot.policy.sensitivity)
        .or_else(|e| invalid("policy.sensitivity.entities".into(), &e.to_string()))
}

//! Which Secrets an endpoint's credential may come from. A Secret says itself, by annotation, which hosts it may be
//! sent to: whoever can write a Tier cannot send someone else's key to a host of their own.

use std::collections::BTreeMap;

use kube::ResourceExt;
use terrace_crds::ALLOWED_HOSTS;
use terrace_crds::shared::SecretKeyRef;
use terrace_crds::tier::Endpoint;

/// One file that a router finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The Secret.
    pub secret: String,
    /// The key in it.
    pub key: String,
    /// The file's name.
    pub file: String,
}

/// Why a credential cannot be used; nothing of it is mounted then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Reason of the condition `CredentialsResolved`.
    pub reason: &'static str,
    /// What to do.
    pub message: String,
}

/// The annotations of a Secret; none: there is no such Secret.
pub type Annotations<'a> = dyn Fn(&str) -> Option<BTreeMap<String, String>> + 'a;

/// The entries of an endpoint that may be mounted.
///
/// # Errors
/// When one that it names may not, or does not exist.
pub fn of(endpoint: &Endpoint, annotations: &Annotations<'_>) -> Result<Vec<Entry>, Trouble> {
    let mut entries = Vec::new();
    if let Some(credentials) = &endpoint.credentials {
        let secret = &credentials.secret_ref;
        let annotations = exists(secret, annotations)?;
        let host = terrace_crds::validate::ladder::host(endpoint.url.as_str());
        let allowed = annotations.get(ALLOWED_HOSTS).map(String::as_str).unwrap_or_default();
        if !allowed.split(',').map(str::trim).any(|one| !one.is_empty() && one.eq_ignore_ascii_case(&host)) {
            return Err(Trouble {
                reason: "HostNotAllowed",
                message: format!(
                    "Secret {} does not allow {host}: its owner adds it with kubectl annotate secret {} {ALLOWED_HOSTS}={host}",
                    secret.name, secret.name
                ),
            });
        }
        entries.push(entry(secret));
    }
    if let Some(authority) = &endpoint.ca_certificate {
        exists(&authority.secret_ref, annotations)?;
        entries.push(entry(&authority.secret_ref));
    }
    Ok(entries)
}

fn exists(secret: &SecretKeyRef, annotations: &Annotations<'_>) -> Result<BTreeMap<String, String>, Trouble> {
    annotations(secret.name.as_str()).ok_or_else(|| Trouble {
        reason: "SecretNotFound",
        message: format!(
            "Secret {} does not exist in the tier's namespace: create it with the key {}",
            secret.name, secret.key
        ),
    })
}

fn entry(secret: &SecretKeyRef) -> Entry {
    Entry { secret: secret.name.to_string(), key: secret.key.to_string(), file: secret.key.to_string() }
}

/// The annotations of a Secret as the watch sees them.
pub fn annotations_in<'a>(
    world: &'a crate::world::World,
    namespace: &'a str,
) -> impl Fn(&str) -> Option<BTreeMap<String, String>> + 'a {
    move |name| world.secret(namespace, name).map(|secret| secret.annotations().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        serde_json::from_value(serde_json::json!({
            "url": "https://api.example.com:8443/v1", "model": "big",
            "credentials": {"secretRef": {"name": "cloud", "key": "apiKey"}},
        }))
        .unwrap()
    }

    fn annotated(hosts: &'static str) -> impl Fn(&str) -> Option<BTreeMap<String, String>> {
        move |name| (name == "cloud").then(|| [(ALLOWED_HOSTS.to_owned(), hosts.to_owned())].into())
    }

    #[test]
    fn a_secret_goes_only_to_the_hosts_that_it_allows() {
        assert_eq!(of(&endpoint(), &annotated("other.example.com, API.example.com")).unwrap()[0].file, "apiKey");
        for hosts in ["", "example.com", "api.example.com.evil.com", "*"] {
            assert_eq!(of(&endpoint(), &annotated(hosts)).unwrap_err().reason, "HostNotAllowed", "{hosts}");
        }
        assert_eq!(of(&endpoint(), &|_: &str| None).unwrap_err().reason, "SecretNotFound");
    }
}

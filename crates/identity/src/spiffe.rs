//! The names in certificates: `spiffe://<cluster-uid>/ns/<namespace>/tier/<name>` and its two siblings.

use std::fmt;
use std::str::FromStr;

/// Who a certificate speaks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identity {
    /// The agents of one tier.
    Tier {
        /// UID of the cluster.
        cluster: String,
        /// Namespace of the tier.
        namespace: String,
        /// Name of the tier.
        name: String,
    },
    /// The routers of one policy.
    Policy {
        /// UID of the cluster.
        cluster: String,
        /// Namespace of the policy.
        namespace: String,
        /// Name of the policy.
        name: String,
    },
    /// The operator.
    Operator {
        /// UID of the cluster.
        cluster: String,
    },
}

/// A URI that is none of Terrace's identities.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{uri:?} is not an identity: expected spiffe://<cluster-uid>/ns/<namespace>/tier/<name>, \
     spiffe://<cluster-uid>/ns/<namespace>/policy/<name> or spiffe://<cluster-uid>/operator"
)]
pub struct ParseIdentityError {
    /// What was there.
    pub uri: String,
}

impl Identity {
    /// The identity of a tier's agents.
    pub fn tier(cluster: &str, namespace: &str, name: &str) -> Self {
        Identity::Tier { cluster: cluster.into(), namespace: namespace.into(), name: name.into() }
    }

    /// The identity of a policy's routers.
    pub fn policy(cluster: &str, namespace: &str, name: &str) -> Self {
        Identity::Policy { cluster: cluster.into(), namespace: namespace.into(), name: name.into() }
    }

    /// The operator's identity.
    pub fn operator(cluster: &str) -> Self {
        Identity::Operator { cluster: cluster.into() }
    }

    /// UID of the cluster that it belongs to.
    pub fn cluster(&self) -> &str {
        match self {
            Identity::Tier { cluster, .. } | Identity::Policy { cluster, .. } | Identity::Operator { cluster } => {
                cluster
            }
        }
    }

    /// The URI SAN; the same as its `Display`.
    pub fn uri(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Tier { cluster, namespace, name } => write!(f, "spiffe://{cluster}/ns/{namespace}/tier/{name}"),
            Identity::Policy { cluster, namespace, name } => {
                write!(f, "spiffe://{cluster}/ns/{namespace}/policy/{name}")
            }
            Identity::Operator { cluster } => write!(f, "spiffe://{cluster}/operator"),
        }
    }
}

impl FromStr for Identity {
    type Err = ParseIdentityError;

    fn from_str(uri: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let path = uri.strip_prefix("spiffe://")?;
            let parts: Vec<&str> = path.split('/').collect();
            if !parts.iter().all(|part| is_segment(part)) {
                return None;
            }
            match parts[..] {
                [cluster, "operator"] => Some(Identity::operator(cluster)),
                [cluster, "ns", namespace, "tier", name] => Some(Identity::tier(cluster, namespace, name)),
                [cluster, "ns", namespace, "policy", name] => Some(Identity::policy(cluster, namespace, name)),
                _ => None,
            }
        };
        parse().ok_or_else(|| ParseIdentityError { uri: uri.to_owned() })
    }
}

/// Lower-case letters, digits, `-` and `.`: nothing that a URI could write in two ways.
pub(crate) fn is_segment(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_identity_survives_a_round_trip() {
        for (identity, uri) in [
            (Identity::tier("u-1", "shop", "edge"), "spiffe://u-1/ns/shop/tier/edge"),
            (Identity::policy("u-1", "shop", "chat"), "spiffe://u-1/ns/shop/policy/chat"),
            (Identity::operator("u-1"), "spiffe://u-1/operator"),
        ] {
            assert_eq!(identity.to_string(), uri);
            assert_eq!(uri.parse(), Ok(identity));
        }
    }

    #[test]
    fn what_is_only_like_an_identity_is_refused() {
        for uri in [
            "",
            "spiffe://",
            "spiffe:///operator",
            "https://u/operator",
            "spiffe://u/operator/",
            "spiffe://u/Operator",
            "spiffe://u/ns/shop/tier/",
            "spiffe://u/ns/shop/tier/a/b",
            "spiffe://u/ns/shop/pod/a",
            "spiffe://u/ns//tier/a",
            "spiffe://u/ns/shop/tier/%61",
            "spiffe://u/ns/shop/tier/*",
            "spiffe://u:1/operator",
            "spiffe://u/operator?x",
        ] {
            assert!(uri.parse::<Identity>().is_err(), "{uri}");
        }
    }
}

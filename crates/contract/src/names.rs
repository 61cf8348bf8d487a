//! Ports, paths and names that more than one program knows.

/// The router's client port.
pub const ROUTER_PORT: u16 = 8080;
/// The router's client port with TLS.
pub const ROUTER_TLS_PORT: u16 = 8443;
/// The agent's port (mTLS, HTTP/2).
pub const AGENT_PORT: u16 = 8443;
/// The operator's fleet port (mTLS).
pub const FLEET_PORT: u16 = 9443;
/// Admin port of every program: `/livez`, `/readyz`, `/metrics`.
pub const ADMIN_PORT: u16 = 9090;

/// Where a pod finds its leaf, key and authority: `tls.crt`, `tls.key`, `ca.crt`; a router also `snapshot.pub`.
pub const IDENTITY_DIR: &str = "/etc/terrace/identity";
/// One folder a tier (by UID), one file a key.
pub const CREDENTIALS_DIR: &str = "/etc/terrace/credentials";
/// One file a caller: its value is the key or `sha256:<hex>` of it.
pub const API_KEYS_DIR: &str = "/etc/terrace/api-keys";
/// The mounted copy of the snapshot: `snapshot.json`.
pub const SNAPSHOT_DIR: &str = "/etc/terrace/snapshot";

/// The name by which a client leaves the choice to the policy.
pub const AUTO_MODEL: &str = "auto";
/// The label of a feature that no budget names.
pub const OTHER_FEATURE: &str = "other";
/// The label of a model or role outside the closed set.
pub const OTHER: &str = "_other";

/// Path of the snapshot stream of one policy.
pub fn snapshot_path(namespace: &str, policy: &str) -> String {
    format!("/v1/snapshots/{namespace}/{policy}")
}

/// Path of the reports.
pub const REPORT_PATH: &str = "/v1/reports";

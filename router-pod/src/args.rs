//! The command line: raw arguments parsed once into typed ones.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use terrace_contract::names;

/// Terrace's router: puts each request on the cheapest tier that is allowed, able and quick enough to answer it.
#[derive(Debug, Clone, Parser)]
#[command(name = "terrace-router", version)]
pub struct Args {
    /// Name of the RoutingPolicy that this router serves.
    #[arg(long, env = "TERRACE_POLICY")]
    pub policy: String,

    /// Namespace of the RoutingPolicy.
    #[arg(long, env = "TERRACE_NAMESPACE")]
    pub namespace: String,

    /// Follow this snapshot file instead of an operator.
    #[arg(long, env = "TERRACE_SNAPSHOT", conflicts_with = "operator", required_unless_present = "operator")]
    pub snapshot: Option<PathBuf>,

    /// `host:port` of the operator's fleet port: snapshots come from there, reports go there.
    #[arg(long, env = "TERRACE_OPERATOR")]
    pub operator: Option<String>,

    /// Folder of the mounted copy of the snapshot, to start from while the operator is away.
    #[arg(long, env = "TERRACE_SNAPSHOT_DIR", requires = "operator")]
    pub snapshot_dir: Option<PathBuf>,

    /// Folder of this router's own volume: the last full snapshot, the egress ledger and what was spent today are kept there.
    #[arg(long, env = "TERRACE_STATE_DIR")]
    pub state_dir: Option<PathBuf>,

    /// Address for clients.
    #[arg(long, env = "TERRACE_LISTEN", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,

    /// Address for probes and metrics.
    #[arg(long, env = "TERRACE_ADMIN_LISTEN", default_value = "0.0.0.0:9090")]
    pub admin_listen: SocketAddr,

    /// Folder with tls.crt, tls.key, ca.crt and snapshot.pub.
    #[arg(long, env = "TERRACE_IDENTITY_DIR", default_value = names::IDENTITY_DIR)]
    pub identity_dir: PathBuf,

    /// Folder of endpoint credentials: `<tier uid>/<key>`.
    #[arg(long, env = "TERRACE_CREDENTIALS_DIR", default_value = names::CREDENTIALS_DIR)]
    pub credentials_dir: PathBuf,

    /// Folder of API keys: one file a caller.
    #[arg(long, env = "TERRACE_API_KEYS_DIR", default_value = names::API_KEYS_DIR)]
    pub api_keys_dir: PathBuf,

    /// Folder with tls.crt and tls.key for clients (the policy's listener.tls); absent: clients speak plain HTTP.
    #[arg(long, env = "TERRACE_TLS_DIR")]
    pub tls_dir: Option<PathBuf>,

    /// Permit endpoints on loopback: for a fleet on one machine.
    #[arg(long, env = "TERRACE_ALLOW_LOOPBACK")]
    pub allow_loopback: bool,

    /// Decisions that are kept in memory for `terrace explain --request-id`, a few kilobytes each; 0: none.
    #[arg(long, env = "TERRACE_DECISIONS", default_value_t = 500)]
    pub decisions: usize,

    /// Longest wait for requests in flight when told to stop, in seconds.
    #[arg(long, env = "TERRACE_DRAIN_TIMEOUT", default_value_t = 30)]
    pub drain_timeout: u64,

    /// Write the bound addresses to this file as JSON, once requests are answered: the policy has come, /readyz says 200.
    #[arg(long, env = "TERRACE_PORT_FILE")]
    pub port_file: Option<PathBuf>,

    /// End when the program that started this one does.
    #[arg(long, hide = true)]
    pub end_with_parent: bool,

    /// UID of this pod.
    #[arg(long, env = "POD_UID", default_value = "", hide_default_value = true)]
    pub pod_uid: String,

    /// Name of this pod.
    #[arg(long, env = "POD_NAME", default_value = "terrace-router")]
    pub pod_name: String,

    /// Name of this pod's node.
    #[arg(long, env = "NODE_NAME", default_value = "", hide_default_value = true)]
    pub node_name: String,
}

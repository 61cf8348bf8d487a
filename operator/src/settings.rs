//! What the operator is started with.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Parser;

use crate::children::Site;

/// Terrace's operator: watches Tiers, RoutingPolicies and LatencyBudgets, runs agents and routers, tells routers what
/// to do and says in status what they did.
#[derive(Debug, Clone, Parser)]
#[command(name = "terrace-operator", version, about)]
pub struct Settings {
    /// The operator's own namespace: its Lease and the fleet's authority are there.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: String,
    /// Where routers fetch snapshots and bring reports (mutual TLS).
    #[arg(long, default_value = "0.0.0.0:9443", value_name = "ADDRESS")]
    pub fleet_listen: SocketAddr,
    /// Health and metrics.
    #[arg(long, default_value = "0.0.0.0:9090", value_name = "ADDRESS")]
    pub admin_listen: SocketAddr,
    /// Image of the routers.
    #[arg(long, env = "TERRACE_ROUTER_IMAGE", value_name = "IMAGE")]
    pub router_image: String,
    /// Image of the agents.
    #[arg(long, env = "TERRACE_AGENT_IMAGE", value_name = "IMAGE")]
    pub agent_image: String,
    /// Image of the agents that run on an NVIDIA GPU; absent: that of the others, which then say that they have no CUDA.
    #[arg(long, env = "TERRACE_AGENT_CUDA_IMAGE", value_name = "IMAGE")]
    pub agent_cuda_image: Option<String>,
    /// Paths of nodes that a tier's model may lie under, comma separated; none by default.
    #[arg(long, value_delimiter = ',', value_name = "PATH")]
    pub allowed_host_paths: Vec<String>,
    /// Where traces go over OTLP/HTTP; handed on to routers and agents.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// This replica's name in the Lease.
    #[arg(long, env = "POD_NAME", default_value = "terrace-operator", value_name = "NAME")]
    pub pod_name: String,
    /// Where other replicas reach this one; absent: the address of `--fleet-listen`.
    #[arg(long, env = "POD_IP", value_name = "IP")]
    pub pod_ip: Option<IpAddr>,
    /// Written once, when the operator listens: its addresses as JSON. Whether it is ready, /readyz of `admin` says.
    #[arg(long, value_name = "FILE")]
    pub port_file: Option<PathBuf>,
}

impl Settings {
    /// What builds need of it.
    pub fn site(&self) -> Site {
        Site {
            namespace: self.namespace.clone(),
            router_image: self.router_image.clone(),
            agent_image: self.agent_image.clone(),
            agent_cuda_image: self.agent_cuda_image.clone().unwrap_or_else(|| self.agent_image.clone()),
            otlp_endpoint: self.otlp_endpoint.clone().filter(|e| !e.is_empty()),
            allowed_host_paths: self.allowed_host_paths.iter().filter(|p| !p.is_empty()).cloned().collect(),
        }
    }
}

//! Envoy as a process: it asks the picker about each request (ext_proc) and sends it where that says (ORIGINAL_DST
//! by header), as the Inference Extension's own chart for a proxy without a Gateway controller configures it.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::super::server::{ApiServer, free_ports};
use super::super::told;
use super::ask::Client;
use crate::programs;
use crate::wait::{self, secs};

/// The header that says which agent answered: Envoy writes it for these tests.
pub(super) const SERVED_BY: &str = "x-served-by";

/// A running Envoy; it ends when this value goes.
pub(super) struct Envoy {
    child: Child,
    /// `ip:port` for clients.
    pub address: String,
    log: PathBuf,
}

impl Envoy {
    /// Starts it before the picker that listens at this port, and waits until it passes requests on.
    pub(super) async fn start(server: &ApiServer, picker: u16, client: &Client) -> anyhow::Result<Envoy> {
        let program = programs()?.join("bin/envoy");
        ensure!(program.exists(), "{} is not there: e2e/cluster/build.sh api-server", program.display());
        let [port] = free_ports()?;
        let (file, log) = (server.folder().join("envoy.json"), server.folder().join("envoy.log"));
        std::fs::write(&file, config(port, picker).to_string())?;
        let out = std::fs::File::create(&log)?;
        let mut command = Command::new(program);
        command.arg("--config-path").arg(&file);
        command.args(["--concurrency", "1", "--log-level", "warning", "--disable-hot-restart"]);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).kill_on_drop(true);
        let child = command.spawn().context("cannot start envoy")?;
        let mut envoy = Envoy { child, address: format!("127.0.0.1:{port}"), log };
        wait::until("an answer through Envoy", secs(40), async || {
            let said = client.get(&envoy.address, "/v1/models").await?;
            ensure!(said.status == 200, "{} {}", said.status, said.text());
            Ok(())
        })
        .await
        .with_context(|| envoy.tail())?;
        ensure!(envoy.child.try_wait()?.is_none(), "{}", envoy.tail());
        Ok(envoy)
    }

    /// The end of its log, for a failure.
    pub(super) fn tail(&self) -> String {
        told::tail("Envoy", &self.log)
    }
}

fn config(port: u16, picker: u16) -> Value {
    let kind = |name: &str| format!("type.googleapis.com/envoy.{name}");
    let at = |port: u16| json!({"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}});
    // What the picker needs of a request and of its answer: it reads both, and lets them through piece by piece.
    let streamed = json!({"request_header_mode": "SEND", "response_header_mode": "SEND",
        "request_body_mode": "FULL_DUPLEX_STREAMED", "response_body_mode": "FULL_DUPLEX_STREAMED",
        "request_trailer_mode": "SEND", "response_trailer_mode": "SEND"});
    let pick = json!({"name": "envoy.filters.http.ext_proc", "typed_config": {
        "@type": kind("extensions.filters.http.ext_proc.v3.ExternalProcessor"),
        "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}, "timeout": "10s"},
        "processing_mode": streamed, "message_timeout": "60s"}});
    let send = json!({"name": "envoy.filters.http.router",
        "typed_config": {"@type": kind("extensions.filters.http.router.v3.Router")}});
    let routes = json!({"virtual_hosts": [{"name": "all", "domains": ["*"],
        "response_headers_to_add": [{"header": {"key": SERVED_BY, "value": "%UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"}}],
        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "agents", "timeout": "0s"}}]}]});
    let manager = json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": {
        "@type": kind("extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "clients", "route_config": routes, "http_filters": [pick, send]}});
    let mut listener = at(port);
    listener["name"] = "clients".into();
    listener["filter_chains"] = json!([{"filters": [manager]}]);
    let agents = json!({"name": "agents", "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "5s",
        "original_dst_lb_config": {"use_http_header": true, "http_header_name": "x-gateway-destination-endpoint"}});
    // The picker makes itself a certificate at its start, which nobody could check.
    let tls = json!({"name": "envoy.transport_sockets.tls", "typed_config": {
        "@type": kind("extensions.transport_sockets.tls.v3.UpstreamTlsContext"),
        "common_tls_context": {"alpn_protocols": ["h2"]}}});
    let options = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": kind("extensions.upstreams.http.v3.HttpProtocolOptions"),
        "explicit_http_config": {"http2_protocol_options": {}}}});
    let asked = json!({"name": "picker", "type": "STATIC", "connect_timeout": "5s", "transport_socket": tls,
        "typed_extension_protocol_options": options,
        "load_assignment": {"cluster_name": "picker", "endpoints": [{"lb_endpoints": [{"endpoint": at(picker)}]}]}});
    json!({"static_resources": {"listeners": [listener], "clusters": [agents, asked]}})
}

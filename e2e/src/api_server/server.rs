//! etcd, kube-apiserver and kube-controller-manager on free ports of the loopback: no root, no nodes. All end when this value goes.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::process::{Child, Command};

use super::audit::Audit;
use super::rest::Rest;
use crate::wait::{self, secs};
use crate::{Place, programs, shell};

/// A control plane without nodes.
pub struct ApiServer {
    folder: tempfile::TempDir,
    bin: PathBuf,
    port: u16,
    etcd: u16,
    /// What is written down of requests.
    policy: String,
    processes: Vec<Child>,
}

/// The administrator's token; it goes with the folder.
const TOKEN: &str = "throw-away-administrator";

impl ApiServer {
    /// Starts all three and waits until the API server is ready.
    pub async fn up(place: &Place) -> anyhow::Result<ApiServer> {
        let bin = programs()?.join("bin");
        anyhow::ensure!(
            bin.join("kube-apiserver").exists(),
            "{} is not built: e2e/cluster/build.sh api-server",
            bin.join("kube-apiserver").display()
        );
        let folder = tempfile::Builder::new().prefix("terrace-api-").tempdir()?;
        let [port, etcd, peer, manager] = free_ports()?;
        let root = folder.path().to_owned();
        let at = |name: &str| root.join(name).display().to_string();
        let policy = place.arg("e2e/cluster/audit.yaml");
        let mut server = ApiServer { folder, bin, port, etcd, policy, processes: Vec::new() };
        std::fs::write(at("tokens.csv"), format!("{TOKEN},admin,admin,system:masters\n"))?;
        for words in [
            ["genrsa", "-out", &at("sa.key"), "2048"].as_slice(),
            &["rsa", "-in", &at("sa.key"), "-pubout", "-out", &at("sa.pub")],
        ] {
            let mut openssl = Command::new("openssl");
            openssl.args(words);
            shell::run(openssl, None, secs(30)).await?;
        }
        let (clients, peers) = (format!("http://127.0.0.1:{etcd}"), format!("http://127.0.0.1:{peer}"));
        server.start(
            "etcd",
            &[
                "--data-dir",
                &at("etcd"),
                "--unsafe-no-fsync",
                "--listen-client-urls",
                &clients,
                "--advertise-client-urls",
                &clients,
                "--listen-peer-urls",
                &peers,
                "--initial-advertise-peer-urls",
                &peers,
                "--initial-cluster",
                &format!("default={peers}"),
            ],
        )?;
        server.start_api_server().await?;
        std::fs::write(server.kubeconfig(), server.kubeconfig_with(TOKEN))?;
        server.start(
            "kube-controller-manager",
            &[
                &format!("--kubeconfig={}", server.kubeconfig()),
                "--bind-address=127.0.0.1",
                &format!("--secure-port={manager}"),
                "--leader-elect=false",
                // Nodes have no kubelet here that would say every few seconds that it lives.
                "--controllers=*,-node-lifecycle-controller",
                &format!("--cert-dir={}", at("manager")),
                &format!("--service-account-private-key-file={}", at("sa.key")),
                &format!("--root-ca-file={}", at("api/apiserver.crt")),
                "--use-service-account-credentials=false",
            ],
        )?;
        wait::until("the default service account", secs(60), async || {
            server.kubectl(&["get", "serviceaccount", "default"]).await.map(drop)
        })
        .await?;
        Ok(server)
    }

    /// (Re)starts the API server alone, and waits until it is ready.
    pub async fn start_api_server(&mut self) -> anyhow::Result<()> {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let words = [
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={}", self.port),
            format!("--cert-dir={}", at("api")),
            format!("--token-auth-file={}", at("tokens.csv")),
            format!("--service-account-key-file={}", at("sa.pub")),
            format!("--service-account-signing-key-file={}", at("sa.key")),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            "--service-cluster-ip-range=10.96.0.0/16".into(),
            "--authorization-mode=RBAC".into(),
            format!("--audit-policy-file={}", self.policy),
            format!("--audit-log-path={}", at("audit.log")),
        ];
        self.start("kube-apiserver", &words.iter().map(String::as_str).collect::<Vec<_>>())?;
        let certificate = self.folder.path().join("api/apiserver.crt");
        wait::until("the API server", secs(60), async || {
            anyhow::ensure!(certificate.exists(), "no certificate yet");
            std::fs::write(self.kubeconfig(), self.kubeconfig_with(TOKEN))?;
            self.kubectl(&["get", "--raw", "/readyz"]).await.map(drop)
        })
        .await
    }

    /// Ends the API server and waits until it is gone; etcd keeps its state.
    pub async fn stop_api_server(&mut self) -> anyhow::Result<()> {
        // The API server is started after etcd, and only it is ever restarted: the last of its name.
        let mut child = self.processes.remove(1);
        child.kill().await.context("cannot end kube-apiserver")
    }

    fn start(&mut self, name: &str, words: &[&str]) -> anyhow::Result<()> {
        let log = std::fs::File::create(self.folder.path().join(format!("{name}.log")))?;
        let mut command = Command::new(self.bin.join(name));
        command.args(words).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let place = if name == "kube-apiserver" { 1 } else { self.processes.len() };
        self.processes.insert(place, child);
        Ok(())
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> String {
        self.folder.path().join("kubeconfig").display().to_string()
    }

    /// What the API server wrote down of requests.
    pub fn audit(&self) -> Audit {
        Audit::new(self.folder.path().join("audit.log"))
    }

    /// Its HTTP, as the administrator.
    pub fn rest(&self) -> anyhow::Result<Rest> {
        Rest::new(&self.folder.path().join("api/apiserver.crt"), self.port, TOKEN)
    }

    /// A kubeconfig's text for a bearer token.
    pub fn kubeconfig_with(&self, token: &str) -> String {
        self.kubeconfig_at(&format!("https://127.0.0.1:{}", self.port), token)
    }

    /// The same, for an API server that is reached at `url`.
    pub fn kubeconfig_at(&self, url: &str, token: &str) -> String {
        let certificate = self.folder.path().join("api/apiserver.crt");
        serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority": certificate}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]})
        .to_string()
    }

    /// A folder for a test's own files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A `kubectl` command, not yet run.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.bin.join("kubectl"));
        command.env("KUBECONFIG", self.kubeconfig()).env("HOME", self.folder.path()).args(words);
        command
    }

    /// `kubectl`, within 30 s.
    pub async fn kubectl(&self, words: &[&str]) -> anyhow::Result<String> {
        shell::run(self.command(words), None, Duration::from_secs(30)).await
    }

    /// `helm`, run to its end; a failure is no error here.
    pub async fn helm(&self, words: &[&str]) -> anyhow::Result<shell::Output> {
        let mut command = Command::new(self.bin.join("helm"));
        command.env("KUBECONFIG", self.kubeconfig()).env("HOME", self.folder.path()).args(words);
        shell::output(command, None, secs(60)).await
    }

    /// Objects as YAML, applied.
    pub async fn apply(&self, yaml: &str) -> anyhow::Result<String> {
        shell::run(self.command(&["apply", "--server-side", "-f", "-"]), Some(yaml), secs(30)).await
    }
}

/// Ports that were free a moment ago: these programs take numbers, not sockets.
pub(super) fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut listeners = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}

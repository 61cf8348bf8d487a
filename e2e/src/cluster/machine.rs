//! The running cluster: `e2e/cluster/*.sh`, and commands inside it. It goes when this value goes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tokio::process::Command;

use crate::wait::{self, secs};
use crate::{Place, shell};

/// A two-node cluster on this machine.
pub struct Machine {
    scripts: PathBuf,
    state: PathBuf,
    background: std::sync::Mutex<Vec<tokio::process::Child>>,
    keep: bool,
}

impl Machine {
    /// Starts it, and waits until its nodes are Ready and DNS answers.
    pub async fn up(place: &Place, keep: bool) -> anyhow::Result<Machine> {
        let machine = Machine {
            scripts: place.at("e2e/cluster"),
            state: place.at("target/e2e/cluster"),
            background: Default::default(),
            keep,
        };
        shell::run(machine.script("down.sh"), None, secs(60)).await?;
        shell::run(machine.script("up.sh"), None, secs(400)).await?;
        Ok(machine)
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new(self.scripts.join(name));
        command.env("CLUSTER", &self.state).env_remove("KUBECONFIG").env_remove("NODE").env_remove("HERE");
        command
    }

    fn inside(&self, node: Option<&str>, words: &[&str]) -> Command {
        let mut command = self.script("in.sh");
        if let Some(node) = node {
            command.env("NODE", node);
        }
        command.args(words);
        command
    }

    /// A command beside the control plane.
    pub async fn run(&self, words: &[&str], limit: Duration) -> anyhow::Result<String> {
        shell::run(self.inside(None, words), None, limit).await
    }

    /// A command on a node.
    pub async fn on(&self, node: &str, words: &[&str], limit: Duration) -> anyhow::Result<String> {
        shell::run(self.inside(Some(node), words), None, limit).await
    }

    /// `kubectl`, within 30 s.
    pub async fn kubectl(&self, words: &[&str]) -> anyhow::Result<String> {
        self.run(&[&["kubectl"], words].concat(), secs(30)).await
    }

    /// An object or a list as JSON.
    pub async fn get(&self, words: &[&str]) -> anyhow::Result<Value> {
        let text = self.kubectl(&[&["get", "-o", "json"], words].concat()).await?;
        serde_json::from_str(&text).context("kubectl printed no JSON")
    }

    /// `kubectl apply` of objects.
    pub async fn apply(&self, namespace: &str, objects: &[Value]) -> anyhow::Result<()> {
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let words = ["kubectl", "--namespace", namespace, "apply", "--server-side", "-f", "-"];
        shell::run(self.inside(None, &words), Some(&list), secs(30)).await.map(drop)
    }

    /// `kubectl apply` of YAML.
    pub async fn apply_text(&self, namespace: &str, yaml: &str) -> anyhow::Result<()> {
        shell::run(self.inside(None, &["kubectl", "--namespace", namespace, "apply", "-f", "-"]), Some(yaml), secs(30))
            .await
            .map(drop)
    }

    /// YAML as kubectl reads it, each document as JSON.
    pub async fn as_json(&self, yaml: &str) -> anyhow::Result<Vec<Value>> {
        let words = ["kubectl", "create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-"];
        let text = shell::run(self.inside(None, &words), Some(yaml), secs(30)).await?;
        let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        documents.map(|d| d.context("kubectl printed no JSON")).collect()
    }

    /// `kubectl wait`: the condition is True within `limit`.
    pub async fn condition(
        &self,
        namespace: &str,
        object: &str,
        condition: &str,
        limit: Duration,
    ) -> anyhow::Result<()> {
        let timeout = format!("--timeout={}s", limit.as_secs());
        let condition = format!("--for=condition={condition}");
        self.run(&["kubectl", "--namespace", namespace, "wait", &condition, object, &timeout], limit + secs(10))
            .await
            .map(drop)
    }

    /// Applies a file or folder of the project.
    pub async fn apply_files(&self, namespace: &str, path: &str) -> anyhow::Result<()> {
        self.kubectl(&["--namespace", namespace, "apply", "-f", path]).await.map(drop)
    }

    /// `helm`, within three minutes.
    pub async fn helm(&self, words: &[&str]) -> anyhow::Result<String> {
        self.run(&[&["helm"], words].concat(), secs(180)).await
    }

    /// Puts an image archive on every node.
    pub async fn import(&self, archive: &str) -> anyhow::Result<()> {
        for node in ["n1", "n2"] {
            self.on(node, &["ctr", "-n", "k8s.io", "images", "import", archive], secs(60)).await?;
        }
        Ok(())
    }

    /// A program beside the control plane that runs until the cluster ends.
    pub fn background(&self, words: &[&str], log: &str) -> anyhow::Result<()> {
        let file = std::fs::File::create(self.state.join("log").join(log))?;
        let mut command = self.inside(None, words);
        command.stdin(std::process::Stdio::null()).stdout(file.try_clone()?).stderr(file).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("cannot start {words:?}"))?;
        self.background.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(child);
        Ok(())
    }

    /// An http answer of something inside, as JSON: with curl, beside the control plane.
    pub async fn http(&self, words: &[&str]) -> anyhow::Result<Value> {
        let text = self
            .run(
                &[&["curl", "--silent", "--show-error", "--fail-with-body", "--max-time", "10"], words].concat(),
                secs(15),
            )
            .await?;
        if text.is_empty() {
            Ok(Value::Null)
        } else {
            serde_json::from_str(&text).with_context(|| format!("{words:?} answered {text}"))
        }
    }

    /// The address of a Service: the cluster's own DNS is for pods.
    pub async fn address(&self, namespace: &str, service: &str) -> anyhow::Result<String> {
        let object = self.get(&["--namespace", namespace, "service", service]).await?;
        object["spec"]["clusterIP"]
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("Service {namespace}/{service} has no address"))
    }

    /// Waits until `probe` of a `kubectl get -o json` holds.
    pub async fn until(
        &self,
        what: &str,
        words: &[&str],
        limit: Duration,
        probe: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        wait::until(what, limit, async || {
            let value = self.get(words).await?;
            anyhow::ensure!(probe(&value), "{}", shorten(&value));
            Ok(value)
        })
        .await
    }

    /// Lines of the API server's audit log.
    pub fn audit(&self) -> anyhow::Result<Vec<Value>> {
        let log = std::fs::read_to_string(self.state.join("log/audit.log")).context("no audit log")?;
        log.lines().map(|line| serde_json::from_str(line).context("audit log")).collect()
    }

    /// What a person would look at first after a failure.
    pub async fn evidence(&self) -> String {
        const LOOKS: &[&str] = &[
            "kubectl get tr,rp,lb,pods,daemonsets,deployments,services -A -o wide",
            "kubectl get events -A --sort-by=.lastTimestamp | tail -30",
            "for k in tr rp lb; do kubectl get $k -A -o yaml; done | sed -n '/status:/,/^- api/p' | head -200",
            "for n in terrace-system shop models outside; do for p in $(kubectl -n $n get pods -o name); do echo \"== $n $p\"; \
             kubectl -n $n logs $p --all-containers --tail=40; kubectl -n $n logs $p --previous --tail=20 2>/dev/null; \
             kubectl -n $n get $p -o jsonpath='{range .status.containerStatuses[*]}{.state}{.lastState}{end}'; echo; done; done",
        ];
        let mut said = String::new();
        for look in LOOKS {
            let command = self.inside(None, &["bash", "-c", look]);
            let text = match shell::output(command, None, secs(60)).await {
                Ok(done) => done.stdout + &done.stderr,
                Err(error) => format!("{error:#}"),
            };
            said += &format!("--- {look}\n{text}\n");
        }
        said
    }

    /// Ends it: nothing is left but its logs.
    pub async fn down(self) -> anyhow::Result<()> {
        if self.keep {
            return Ok(());
        }
        shell::run(self.script("down.sh"), None, secs(60)).await.map(drop)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if !self.keep {
            // Blocking on purpose: a runner that is interrupted must not leave a cluster behind. Down twice is down.
            let _ = std::process::Command::new(self.scripts.join("down.sh"))
                .env("CLUSTER", &self.state)
                .env_remove("HERE")
                .status();
        }
    }
}

fn shorten(value: &Value) -> String {
    let status = value.get("status").unwrap_or(value).to_string();
    status.chars().take(1500).collect()
}

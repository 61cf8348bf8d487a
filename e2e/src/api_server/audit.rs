//! The API server's audit log: who asked for what, and when.

use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;

/// The log of one API server.
pub(super) struct Audit(PathBuf);

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// Name of whoever asked.
    pub user: String,
    /// Which of a service account's tokens was shown: its `jti`.
    pub token: String,
    /// For example `patch`.
    pub verb: String,
    /// `group/resource/subresource`, for example `terrace.dev/tiers/status`; `/secrets` of the core group.
    pub resource: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Status of the answer.
    pub code: u64,
    /// When the API server began with it.
    pub received: Timestamp,
}

impl Request {
    /// Whether it asks for a change, other than of the Lease.
    pub fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch") && !self.resource.starts_with("coordination.k8s.io/")
    }

    /// Verb and object, to be read.
    pub fn line(&self) -> String {
        format!("{} {} {}/{} ({})", self.verb, self.resource, self.namespace, self.name, self.code)
    }

    fn read(event: &Value) -> Option<Request> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["objectRef"];
        let mut resource = format!("{}/{}", text(&object["apiGroup"]), text(&object["resource"]));
        if let Some(sub) = object["subresource"].as_str() {
            resource = format!("{resource}/{sub}");
        }
        let credential = &event["user"]["extra"]["authentication.kubernetes.io/credential-id"][0];
        Some(Request {
            user: text(&event["user"]["username"]),
            token: text(credential).trim_start_matches("JTI=").to_owned(),
            verb: text(&event["verb"]),
            resource,
            namespace: text(&object["namespace"]),
            name: text(&object["name"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            received: event["requestReceivedTimestamp"].as_str()?.parse().ok()?,
        })
    }
}

impl Audit {
    pub(super) fn new(path: PathBuf) -> Audit {
        Audit(path)
    }

    /// Where the log ends now.
    pub(super) fn mark(&self) -> anyhow::Result<u64> {
        Ok(std::fs::metadata(&self.0)?.len())
    }

    /// What came after a mark.
    pub(super) fn since(&self, mark: u64) -> anyhow::Result<Vec<Request>> {
        let mut file = std::fs::File::open(&self.0)?;
        file.seek(SeekFrom::Start(mark))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // The last line may be half written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| Ok(Request::read(&serde_json::from_str(line)?)))
            .filter_map(|read: anyhow::Result<_>| read.transpose())
            .collect()
    }

    /// What the operator's account changed after a mark.
    pub(super) fn writes(&self, mark: u64) -> anyhow::Result<Vec<Request>> {
        let ours = |r: &Request| r.user.ends_with(":terrace-operator") && r.writes();
        Ok(self.since(mark)?.into_iter().filter(ours).collect())
    }
}

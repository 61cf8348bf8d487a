//! Children reach the API server here, and only here: server-side apply of what differs, nothing when nothing does,
//! and deletion of what a changed spec no longer wants.
//!
//! What a step hands over carries its state in its type: `build` makes [`Prepared`], [`Applier::apply`] turns it into
//! [`Applied`], and status is made from that, so it provably follows the writes.

mod live;
mod same;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt};
use serde::Serialize;
use serde_json::Value;
use terrace_contract::canonical;

pub use live::{ChildKind, Live};

/// The field manager of everything that the operator owns.
pub const MANAGER: &str = "terrace-operator";
/// Label of every child: what `managed-by` says, and what the watches on children select.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Label of every child: the UID of its owner. Pruning goes by it.
pub const OWNER: &str = "terrace.dev/owner-uid";
/// Annotation of every child: the SHA-256 of what was asked for. It shows a field that is no longer wanted.
const WANTED: &str = "terrace.dev/wanted";

/// A resource version that no object has: an apply that bears it makes an object and never joins one that is there.
const NO_VERSION: &str = "1";

/// Why children could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An object of that name exists and is not ours. It is never adopted.
    #[error("{kind} {name:?} exists and does not belong to {owner}: rename one of the two, or delete the {kind}")]
    NameConflict {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The object that wants the name.
        owner: String,
    },
    /// A child of an earlier object of the same name is still going away.
    #[error("{kind} {name:?} belongs to an earlier object of this name and is being deleted: this heals by itself")]
    Leftover {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The API server said no, or did not answer.
    #[error("cannot {verb} {kind} {name:?}: {}", sentence(source))]
    Api {
        /// What was tried.
        verb: &'static str,
        /// On which kind.
        kind: &'static str,
        /// On which object.
        name: String,
        /// The answer.
        source: Box<kube::Error>,
    },
}

impl Error {
    /// Whether the API server refused for want of a permission.
    pub fn forbidden(&self) -> bool {
        matches!(self, Error::Api { source, .. } if code(source) == Some(403))
    }

    /// Whether the API server refused this object rather than being away or too busy.
    pub fn refused(&self) -> bool {
        let Error::Api { source, .. } = self else { return false };
        code(source).is_some_and(|c| (400..500).contains(&c) && c != 429) && !self.terminating()
    }

    /// Whether the namespace is going away, and takes nothing new.
    fn terminating(&self) -> bool {
        let Error::Api { source, .. } = self else { return false };
        let kube::Error::Api(status) = source.as_ref() else { return false };
        let causes = status.details.as_ref().map(|d| d.causes.as_slice()).unwrap_or_default();
        causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
    }
}

/// The HTTP status of an API error.
pub fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// What an API error says, without the layers around it: of a refusal the API server's own sentence, which names the
/// verb and the resource.
pub fn sentence(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut inner: &dyn std::error::Error = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

/// Who owns the children of one reconciliation.
#[derive(Debug, Clone)]
pub struct Owner {
    /// API version of the kind.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Namespace, also of every child.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

impl Owner {
    /// The reference that makes Kubernetes delete the children with their owner.
    pub fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            // Asking for it needs a permission on the owner's finalizers, and nothing here waits in the foreground.
            block_owner_deletion: None,
        }
    }

    fn owns(&self, object: &DynamicObject) -> bool {
        object.owner_references().iter().any(|o| o.uid == self.uid && o.controller == Some(true))
    }

    /// Whether the object belonged to an earlier object of the same kind and name.
    fn succeeds(&self, object: &DynamicObject) -> bool {
        object.labels().get(MANAGED_BY).is_some_and(|by| by == MANAGER)
            && object.owner_references().iter().any(|o| o.kind == self.kind && o.name == self.name && o.uid != self.uid)
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// One child as it should be.
#[derive(Debug, Clone)]
pub struct Child {
    /// Its kind.
    pub kind: ChildKind,
    /// The object.
    pub object: DynamicObject,
}

/// Children that were built and not yet applied.
#[derive(Debug, Clone, Default)]
pub struct Prepared(pub Vec<Child>);

impl Prepared {
    /// Adds one child. Kubernetes' types always serialize.
    pub fn push<T: Serialize>(&mut self, kind: ChildKind, object: &T) {
        if let Ok(object) = serde_json::to_value(object).and_then(serde_json::from_value) {
            self.0.push(Child { kind, object });
        }
    }

    /// The children as one list of JSON objects, for golden files.
    pub fn to_json(&self) -> Vec<Value> {
        self.0.iter().filter_map(|c| serde_json::to_value(&c.object).ok()).collect()
    }
}

/// What an apply came to.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// Children in the cluster now, as the API server answered.
    pub children: Vec<Child>,
    /// Writes that were needed.
    pub writes: usize,
    /// Children that are no longer wanted and were deleted.
    pub pruned: usize,
}

impl Applied {
    /// The child of this kind and name.
    pub fn get(&self, kind: ChildKind, name: &str) -> Option<&DynamicObject> {
        self.children.iter().find(|c| c.kind == kind && c.object.name_any() == name).map(|c| &c.object)
    }
}

/// Applies children.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    live: Live,
}

impl Applier {
    /// With the children that the watches see.
    pub fn new(client: Client, live: Live) -> Self {
        Self { client, live }
    }

    /// The children that the watches see.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// A child as it is: as the watches see it, or, since they lag behind what was only just made, as the API server says.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn read(&self, kind: ChildKind, namespace: &str, name: &str) -> Result<Option<DynamicObject>, Error> {
        match self.live.get(kind, namespace, name) {
            Some(object) => Ok(Some((*object).clone())),
            None => self.api(kind, namespace).get_opt(name).await.map_err(|e| failed("get", kind, name, e)),
        }
    }

    /// Brings the cluster to what was prepared and deletes what else the owner had.
    ///
    /// # Errors
    /// The first child that could not be applied; the ones before it are.
    pub async fn apply(&self, owner: &Owner, prepared: Prepared) -> Result<Applied, Error> {
        let mut applied = Applied::default();
        for Child { kind, object } in prepared.0 {
            let (object, wrote) = self.one(owner, kind, stamp(owner, object)).await?;
            applied.writes += usize::from(wrote);
            applied.children.push(Child { kind, object });
        }
        for kind in ChildKind::OPTIONAL {
            for orphan in self.live.of_owner(kind, owner) {
                if applied.get(kind, &orphan.name_any()).is_none() {
                    self.delete(kind, &orphan).await?;
                    applied.pruned += 1;
                }
            }
        }
        Ok(applied)
    }

    async fn one(
        &self,
        owner: &Owner,
        kind: ChildKind,
        mut want: DynamicObject,
    ) -> Result<(DynamicObject, bool), Error> {
        let name = want.name_any();
        let api = self.api(kind, &owner.namespace);
        // The watches see only what bears our label: a stranger of that name shows only when asked for.
        let mut have = self.read(kind, &owner.namespace, &name).await?;
        let mut again = false;
        loop {
            match have {
                Some(have) if owner.owns(&have) => {
                    if same::same(&have, &want, WANTED) {
                        return Ok((have, false));
                    }
                    // This very object: one that took its name since is not meant.
                    want.metadata.uid = have.metadata.uid;
                    want.metadata.resource_version = None;
                }
                // Kubernetes' garbage collector takes it away; the deletion sets off another pass.
                Some(have) if owner.succeeds(&have) => return Err(Error::Leftover { kind: kind.name(), name }),
                Some(_) => return Err(Error::NameConflict { kind: kind.name(), name, owner: owner.to_string() }),
                None => {
                    want.metadata.uid = None;
                    want.metadata.resource_version = Some(NO_VERSION.into());
                }
            }
            let params = PatchParams::apply(MANAGER).force();
            match api.patch(&name, &params, &Patch::Apply(&want)).await {
                Ok(object) => return Ok((object, true)),
                // It is not what was seen: look whose it is now.
                Err(error) if !again && matches!(code(&error), Some(409 | 422)) => again = true,
                Err(error) => return Err(failed("patch", kind, &name, error)),
            }
            have = api.get_opt(&name).await.map_err(|e| failed("get", kind, &name, e))?;
        }
    }

    async fn delete(&self, kind: ChildKind, object: &DynamicObject) -> Result<(), Error> {
        let name = object.name_any();
        let preconditions = Some(Preconditions { uid: object.uid(), ..Preconditions::default() });
        let params = DeleteParams { preconditions, ..DeleteParams::background() };
        match self.api(kind, &object.namespace().unwrap_or_default()).delete(&name, &params).await {
            Ok(_) => Ok(()),
            // Gone already, or replaced by another object that is not the one meant.
            Err(error) if matches!(code(&error), Some(404 | 409)) => Ok(()),
            Err(error) => Err(failed("delete", kind, &name, error)),
        }
    }

    fn api(&self, kind: ChildKind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &kind.resource())
    }
}

fn failed(verb: &'static str, kind: ChildKind, name: &str, source: kube::Error) -> Error {
    Error::Api { verb, kind: kind.name(), name: name.to_owned(), source: Box::new(source) }
}

/// Adds what every child bears: owner, labels, and the digest of what is wanted.
fn stamp(owner: &Owner, mut object: DynamicObject) -> DynamicObject {
    object.metadata.namespace = Some(owner.namespace.clone());
    object.metadata.owner_references = Some(vec![owner.reference()]);
    let labels = object.labels_mut();
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels.insert(OWNER.into(), owner.uid.clone());
    let digest = canonical::sha256(&object);
    object.annotations_mut().insert(WANTED.into(), digest);
    object
}

//! Events of Kubernetes, for what a person should hear of once: counted by Kubernetes when it comes again.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::events::{Event, EventType};

use crate::context::Context;
use crate::kinds::Kind;

/// Warns about an object.
pub async fn warn(context: &Context, kind: Kind, object: &DynamicObject, reason: &str, note: String) {
    let owner = kind.owner(object);
    let reference = ObjectReference {
        api_version: Some(owner.api_version),
        kind: Some(owner.kind),
        namespace: Some(owner.namespace),
        name: Some(object.name_any()),
        uid: Some(owner.uid),
        ..ObjectReference::default()
    };
    let event = Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some(note),
        action: "Reconcile".into(),
        secondary: None,
    };
    if let Err(error) = context.events.publish(&event, &reference).await {
        // Status says it too: an event that is lost loses nothing.
        tracing::debug!(%error, reason, "cannot publish an event (verbs create, patch on events.events.k8s.io)");
    }
}

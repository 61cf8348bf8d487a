//! Writing status: only when it says something new.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};

use crate::apply::{MANAGER, code};
use crate::conditions::Want;
use crate::kinds::Kind;

/// Writes `status` unless it is what the object already says; whether it was written.
///
/// # Errors
/// When the API server refuses or does not answer. An object that is gone is no error.
pub async fn write<S: Serialize + Sync>(
    client: &Client,
    kind: Kind,
    object: &DynamicObject,
    status: &S,
) -> Result<bool, kube::Error> {
    let wanted = serde_json::to_value(status).map_err(kube::Error::SerdeError)?;
    if object.data.get("status").is_some_and(|have| *have == wanted) {
        return Ok(false);
    }
    let resource = kind.resource();
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &object.namespace().unwrap_or_default(), &resource);
    let document = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": object.name_any(), "uid": object.uid()},
        "status": wanted,
    });
    match api.patch_status(&object.name_any(), &PatchParams::apply(MANAGER).force(), &Patch::Apply(&document)).await {
        Ok(_) => Ok(true),
        Err(error) if matches!(code(&error), Some(404 | 409)) => Ok(false), // gone, or another object by now
        Err(error) => Err(error),
    }
}

/// The status that an object has; an empty one if it does not parse.
pub fn of<S: serde::de::DeserializeOwned + Default>(object: &DynamicObject) -> S {
    object.data.get("status").cloned().map(serde_json::from_value).and_then(Result::ok).unwrap_or_default()
}

/// The condition that names fields which do nothing yet.
pub fn fields_active(inactive: &[String]) -> Want {
    if inactive.is_empty() {
        return Want::yes("FieldsActive", "AllActive", "");
    }
    let message = format!("accepted, but without effect in this version: {}", inactive.join(", "));
    Want::no("FieldsActive", "NotYetActive", message)
}

/// Only the conditions, for an object of which nothing else can be said.
pub fn only_conditions(old: &Value, wanted: Vec<Want>, generation: i64) -> Value {
    let old = old.get("conditions").cloned().and_then(|c| serde_json::from_value::<Vec<_>>(c).ok()).unwrap_or_default();
    let conditions = crate::conditions::merge(&old, wanted, generation, jiff::Timestamp::now());
    json!({"observedGeneration": generation, "conditions": conditions})
}

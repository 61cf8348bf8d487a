//! Terrace's kinds as they come from the API server. They are watched untyped, so that one object which no longer
//! parses (written by another version) affects itself alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use terrace_crds::{GROUP, VERSION};

use crate::apply::Owner;

/// One of the three kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A rung.
    Tier,
    /// A ladder.
    RoutingPolicy,
    /// What a feature may take.
    LatencyBudget,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 3] = [Kind::Tier, Kind::RoutingPolicy, Kind::LatencyBudget];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tier => "Tier",
            Kind::RoutingPolicy => "RoutingPolicy",
            Kind::LatencyBudget => "LatencyBudget",
        }
    }

    /// How the API server is asked for it.
    pub fn resource(self) -> ApiResource {
        let plural = match self {
            Kind::Tier => "tiers",
            Kind::RoutingPolicy => "routingpolicies",
            Kind::LatencyBudget => "latencybudgets",
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, self.name()), plural)
    }

    /// The object of this kind, as the owner of its children.
    pub fn owner<K: Resource>(self, object: &K) -> Owner {
        Owner {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: self.name().to_owned(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
        }
    }

    /// A reference to one object.
    pub fn reference(self, namespace: &str, name: &str) -> ObjectRef<DynamicObject> {
        ObjectRef::new_with(name, self.resource()).within(namespace)
    }
}

/// The object as its type; if it does not parse, what is wrong, without any of its values.
pub type Parsed<K> = Result<Arc<K>, String>;

/// The objects of one kind, each parsed once for every version of it.
pub struct Objects<K> {
    store: Store<DynamicObject>,
    kind: Kind,
    parsed: Mutex<HashMap<ObjectRef<DynamicObject>, (Option<String>, Parsed<K>)>>,
}

impl<K: DeserializeOwned> Objects<K> {
    /// Over the store that a watch fills.
    pub fn new(kind: Kind, store: Store<DynamicObject>) -> Self {
        Self { store, kind, parsed: Mutex::default() }
    }

    /// The store itself.
    pub fn store(&self) -> Store<DynamicObject> {
        self.store.clone()
    }

    /// One object, if there is one.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Parsed<K>> {
        let object = self.store.get(&self.kind.reference(namespace, name))?;
        Some(self.parse(&object))
    }

    /// Every object that parses.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.store.state().iter().filter_map(|object| self.parse(object).ok()).collect()
    }

    /// References to every object.
    pub fn references(&self) -> Vec<ObjectRef<DynamicObject>> {
        let reference = |o: &Arc<DynamicObject>| ObjectRef::from_obj_with(o.as_ref(), self.kind.resource());
        self.store.state().iter().map(reference).collect()
    }

    /// The object as its type.
    pub fn parse(&self, object: &DynamicObject) -> Parsed<K> {
        let reference = ObjectRef::from_obj_with(object, self.kind.resource());
        let version = object.resource_version();
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seen, result)) = parsed.get(&reference)
            && *seen == version
        {
            return result.clone();
        }
        let result = serde_json::to_value(object)
            .and_then(serde_json::from_value)
            .map(Arc::new)
            .map_err(|error| error.to_string());
        if parsed.len() > 2 * self.store.len() + 64 {
            parsed.clear(); // objects that are gone; what is left is parsed anew when it is next asked for
        }
        parsed.insert(reference, (version, result.clone()));
        result
    }
}

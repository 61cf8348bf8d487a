//! The three kinds as one thing: their schemas, and what all of them can do.

use std::sync::LazyLock;

use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::validate::Violation;
use crate::{LatencyBudget, RoutingPolicy, Tier, render, validate};

/// One of the kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`Tier`].
    Tier,
    /// [`RoutingPolicy`].
    RoutingPolicy,
    /// [`LatencyBudget`].
    LatencyBudget,
}

impl Kind {
    /// Every kind, in the order in which objects are best applied.
    pub const ALL: [Kind; 3] = [Kind::Tier, Kind::RoutingPolicy, Kind::LatencyBudget];

    /// Its name in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Tier => "Tier",
            Kind::RoutingPolicy => "RoutingPolicy",
            Kind::LatencyBudget => "LatencyBudget",
        }
    }

    /// The kind of this name.
    pub fn parse(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Its schema, as the API server holds it.
    pub fn schema(self) -> &'static Value {
        static SCHEMAS: LazyLock<Vec<(String, Value)>> = LazyLock::new(|| {
            render::definitions()
                .into_iter()
                .map(|definition| {
                    let schema = definition.spec.versions.first().and_then(|v| v.schema.as_ref());
                    let schema = schema.and_then(|s| s.open_api_v3_schema.as_ref()).map(|s| serde_json::json!(s));
                    (definition.spec.names.kind, schema.unwrap_or_default())
                })
                .collect()
        });
        SCHEMAS.iter().find(|(name, _)| name == self.as_str()).map_or(&Value::Null, |(_, schema)| schema)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An object of one of the kinds.
pub trait Object: Resource<DynamicType = ()> + Serialize + DeserializeOwned {
    /// Which one.
    const KIND: Kind;
    /// The Rust twins of the rules that hold between fields, and what CEL cannot check.
    fn rules(&self, found: &mut Vec<Violation>);
    /// The Rust twins of the rules that hold between this object and what it was before.
    fn change_rules(&self, _old: &Self, _found: &mut Vec<Violation>) {}
}

impl Object for Tier {
    const KIND: Kind = Kind::Tier;
    fn rules(&self, found: &mut Vec<Violation>) {
        validate::tier::rules(&self.spec, found);
    }
    fn change_rules(&self, old: &Self, found: &mut Vec<Violation>) {
        validate::tier::change_rules(&self.spec, &old.spec, found);
    }
}

impl Object for RoutingPolicy {
    const KIND: Kind = Kind::RoutingPolicy;
    fn rules(&self, found: &mut Vec<Violation>) {
        validate::routing_policy::rules(self, found);
    }
}

impl Object for LatencyBudget {
    const KIND: Kind = Kind::LatencyBudget;
    fn rules(&self, found: &mut Vec<Violation>) {
        validate::latency_budget::rules(&self.spec, found);
    }
}

//! How sensitive requests are, and where each class may go.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terrace_contract::{policy, trust};

use crate::choice::choice;
use crate::sentence;
use crate::shared::{Boundary, Class};
use crate::text::{Duration, Word};

/// How sensitive requests are, and where each class may go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sensitivity {
    /// The floor of every request: required. A request's class is the highest of this, its label, what the detector
    /// finds and the conversation's earlier class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlabelled: Option<Class>,
    /// The widest boundary of each class.
    #[serde(default)]
    pub boundaries: Boundaries,
    /// Which score the detector uses.
    #[serde(default)]
    pub detector: Detector,
    /// Which classes may be anonymised to go further; absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anonymise: Option<Anonymise>,
    /// Which classes may go further when the caller consents; absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consent: Option<Consent>,
    /// Regions where data of a class, and of every higher one, may be processed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"]))]
    pub residency: Vec<Residency>,
    /// The policy's own entities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub entities: Vec<Entity>,
    /// With an older snapshot, Public is only for class Public.
    #[serde(default = "max_policy_age")]
    pub max_policy_age: Duration,
}

fn max_policy_age() -> Duration {
    "1h".into()
}

impl Sensitivity {
    /// Whether the floor is not said: such a policy is refused. It also keeps such a value out of the schema's defaults.
    pub fn is_unsaid(&self) -> bool {
        self.unlabelled.is_none() && *self == Self::default()
    }
}

impl Default for Sensitivity {
    fn default() -> Self {
        Self {
            unlabelled: None,
            boundaries: Boundaries::default(),
            detector: Detector::default(),
            anonymise: None,
            consent: None,
            residency: Vec::new(),
            entities: Vec::new(),
            max_policy_age: max_policy_age(),
        }
    }
}

/// The widest boundary of each class. No class is wider than a lower one, and restricted is never Public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.restricted != 'Public'").message(sentence::RESTRICTED).field_path(".restricted"),
    // The names of the boundaries happen to sort by width: Device < Private < Public.
    validation = Rule::new("self.restricted <= self.confidential && self.confidential <= self.internal && self.internal <= self.public").message(sentence::MONOTONE),
)]
pub struct Boundaries {
    /// Of class Public.
    #[serde(default = "widest")]
    pub public: Boundary,
    /// Of class Internal.
    #[serde(default = "inside")]
    pub internal: Boundary,
    /// Of class Confidential.
    #[serde(default = "inside")]
    pub confidential: Boundary,
    /// Of class Restricted.
    #[serde(default = "inside")]
    pub restricted: Boundary,
}

fn widest() -> Boundary {
    Boundary::Public
}

fn inside() -> Boundary {
    Boundary::Private
}

impl Default for Boundaries {
    fn default() -> Self {
        Self { public: widest(), internal: inside(), confidential: inside(), restricted: inside() }
    }
}

impl From<Boundaries> for trust::Boundaries {
    fn from(b: Boundaries) -> Self {
        Self {
            public: b.public.into(),
            internal: b.internal.into(),
            confidential: b.confidential.into(),
            restricted: b.restricted.into(),
        }
    }
}

choice! {
    /// Which score the detector uses.
    #[derive(Default)]
    Detector => policy::Detector {
        /// The highest single finding, plus a little for each further one.
        #[default]
        Score,
        /// PRISM as published: the sum of category weights.
        Prism,
    }
}

/// Which classes may be anonymised to go further.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!('Restricted' in self.classes)").message(sentence::ANONYMISE_RESTRICTED).field_path(".classes"))]
pub struct Anonymise {
    /// The classes; never Restricted.
    #[schemars(length(min = 1, max = 4), extend("x-kubernetes-list-type" = "set"))]
    pub classes: Vec<Class>,
    /// The widest boundary that an anonymised request may cross.
    pub up_to: Boundary,
}

/// Which classes may go further when the caller consents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!('Restricted' in self.classes)").message(sentence::CONSENT_RESTRICTED).field_path(".classes"))]
pub struct Consent {
    /// The classes; never Restricted.
    #[schemars(length(min = 1, max = 4), extend("x-kubernetes-list-type" = "set"))]
    pub classes: Vec<Class>,
    /// How long a consent holds.
    #[serde(default = "consent_ttl")]
    pub ttl: Duration,
}

fn consent_ttl() -> Duration {
    "2m".into()
}

/// Regions where data of a class, and of every higher one, may be processed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Residency {
    /// The class.
    pub class: Class,
    /// Values of a tier's `region`.
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "set"))]
    pub regions: Vec<Word>,
}

/// One entity of the policy's own. One that does not compile fails the whole policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entity {
    /// Its name in reasons and the ledger.
    #[serde(rename = "type")]
    pub kind: Word,
    /// The class of a request that has one.
    pub class: Class,
    /// A regular expression.
    #[schemars(length(min = 1, max = 512))]
    pub pattern: String,
}

//! How sensitive a request is, and how far it may travel.

use serde::{Deserialize, Serialize};

/// How sensitive a request is. Ordered: a higher class is never allowed further than a lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Class {
    /// May be read by anyone.
    Public,
    /// For the organisation.
    Internal,
    /// Personal or confidential.
    Confidential,
    /// Never leaves the private boundary.
    Restricted,
}

impl Class {
    /// Every class, lowest first.
    pub const ALL: [Class; 4] = [Class::Public, Class::Internal, Class::Confidential, Class::Restricted];

    /// The name used in manifests, metrics and headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Public => "Public",
            Class::Internal => "Internal",
            Class::Confidential => "Confidential",
            Class::Restricted => "Restricted",
        }
    }

    /// Reads a label as clients write it, in any case.
    pub fn parse(label: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|c| c.as_str().eq_ignore_ascii_case(label.trim()))
    }
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How far data travels to reach a tier. Ordered: nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Boundary {
    /// On the device's own node.
    Device,
    /// Inside the organisation's own network.
    Private,
    /// Anywhere.
    Public,
}

impl Boundary {
    /// The name used in manifests, metrics and headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Boundary::Device => "Device",
            Boundary::Private => "Private",
            Boundary::Public => "Public",
        }
    }
}

impl std::fmt::Display for Boundary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The widest boundary of each class. Monotone: a higher class never has a wider one; `restricted` is never Public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Boundaries {
    /// For class Public.
    pub public: Boundary,
    /// For class Internal.
    pub internal: Boundary,
    /// For class Confidential.
    pub confidential: Boundary,
    /// For class Restricted.
    pub restricted: Boundary,
}

impl Boundaries {
    /// The widest boundary that a request of this class may cross.
    pub fn of(&self, class: Class) -> Boundary {
        match class {
            Class::Public => self.public,
            Class::Internal => self.internal,
            Class::Confidential => self.confidential,
            Class::Restricted => self.restricted,
        }
    }

    /// Whether no class is wider than a lower one and Restricted stays inside Private.
    pub fn is_sound(&self) -> bool {
        self.restricted < Boundary::Public
            && self.restricted <= self.confidential
            && self.confidential <= self.internal
            && self.internal <= self.public
    }
}

impl Default for Boundaries {
    fn default() -> Self {
        Self {
            public: Boundary::Public,
            internal: Boundary::Private,
            confidential: Boundary::Private,
            restricted: Boundary::Private,
        }
    }
}

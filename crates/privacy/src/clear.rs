//! Clearances: the proof that a request may cross a boundary, bound to the exact bytes and the exact destination.
//!
//! [`clear`] takes the tree that is to be sent, refuses what was not classified, asks the policy, and makes the bytes
//! itself. The bytes can only be had through [`Cleared::recheck`], which asks again, each time something is written: the
//! narrower of the policy at admission and the policy now wins.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use terrace_contract::policy::{Policy, Sensitivity};
use terrace_contract::reason::Reason;
use terrace_contract::tier::{Backend, Tier};
use terrace_contract::trust::{Boundary, Class};

use crate::classify::Classified;
use crate::{segments, write};

/// The policy and tier of a moment.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// The policy in use.
    pub policy: &'a Policy,
    /// The destination as the snapshot has it.
    pub tier: &'a Tier,
    /// Age of the snapshot, microseconds.
    pub policy_age_us: u64,
}

/// Why a request may not be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Too far for its class.
    #[error("class {class} may not travel to boundary {boundary}")]
    Boundary {
        /// Class of the request.
        class: Class,
        /// Boundary of the tier.
        boundary: Boundary,
    },
    /// The policy is too old to send anything but class Public to a Public tier.
    #[error(
        "the policy is older than sensitivity.maxPolicyAge: a Public tier takes only class Public until it is renewed"
    )]
    StalePolicy,
    /// Its class may not be processed there.
    #[error("class {class} may not be processed in region {region:?} (sensitivity.residency)")]
    Residency {
        /// Class of the request.
        class: Class,
        /// Region of the tier.
        region: String,
    },
    /// Plain http carries no Restricted, and nothing to a Public tier.
    #[error("class {class} is not sent over plain http to boundary {boundary}: give the tier an https URL")]
    PlainHttp {
        /// Class of the request.
        class: Class,
        /// Boundary of the tier.
        boundary: Boundary,
    },
    /// The policy's detection changed since the request was classified.
    #[error("sensitivity changed since this request was classified: classify it again")]
    PolicyChanged,
    /// The tier is another one, or changed, since the clearance was made.
    #[error("the tier changed since this clearance was made: make another")]
    TierChanged,
    /// The body holds a text that was not classified.
    #[error("{pointer} was not in the request that was classified: what is derived from a request is classified again")]
    Unscanned {
        /// Its place, with foreign keys by position.
        pointer: String,
    },
}

impl Denied {
    /// The reason code.
    pub fn reason(&self) -> Reason {
        match self {
            Denied::Boundary { .. } | Denied::PlainHttp { .. } => Reason::Boundary,
            Denied::StalePolicy | Denied::PolicyChanged | Denied::TierChanged => Reason::StalePolicy,
            Denied::Residency { .. } => Reason::Residency,
            Denied::Unscanned { .. } => Reason::Unreadable,
        }
    }
}

/// A body that may be sent to one tier. Only [`clear`] makes one, and its bytes can be had only by asking again:
///
/// ```compile_fail
/// fn forge<B>(body: B) -> terrace_privacy::Cleared<B> {
///     terrace_privacy::Cleared { body }
/// }
/// ```
/// ```compile_fail
/// fn swap<B>(cleared: &mut terrace_privacy::Cleared<B>, body: B) {
///     cleared.body = body;
/// }
/// ```
/// ```compile_fail
/// fn take<B>(cleared: terrace_privacy::Cleared<B>) -> B {
///     cleared.body
/// }
/// ```
/// ```compile_fail
/// fn read(json: &str) -> terrace_privacy::Cleared<bytes::Bytes> {
///     serde_json::from_str(json).unwrap()
/// }
/// ```
#[derive(Clone)]
pub struct Cleared<B> {
    body: B,
    pass: Pass,
}

/// What a clearance is for.
#[derive(Debug, Clone)]
struct Pass {
    class: Class,
    /// Whether a trusted label stands instead of the floor.
    below_floor: bool,
    entities: Vec<String>,
    /// The policy's sensitivity at admission.
    admission: Arc<Sensitivity>,
    tier_uid: String,
    tier_name: String,
    generation: i64,
    boundary: Boundary,
    region: String,
    processor: String,
}

/// Clears the tree that is to be sent for a tier.
///
/// ```no_run
/// # use terrace_privacy::{Request, Rules, Terms, clear};
/// # fn send(_: &bytes::Bytes) {}
/// # fn example(
/// #     request: serde_json::Value, upstream: serde_json::Value, admission: Terms<'_>, now: Terms<'_>,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let rules = Rules::compile(&admission.policy.sensitivity)?;
/// let request = Request { body: &request, label: None, trust_label: false, session: None };
/// let classified = rules.classify(&request, &mut || false);
/// let cleared = clear(&upstream, &classified, &admission)?;
/// send(cleared.recheck(&now)?); // again before each write
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Denied`]: the request may not go there, or the body is not what was classified.
pub fn clear(body: &Value, classified: &Classified, terms: &Terms<'_>) -> Result<Cleared<Bytes>, Denied> {
    let tier = terms.tier;
    let pass = Pass {
        class: classified.class(),
        below_floor: classified.below_floor(),
        entities: classified.entities().keys().cloned().collect(),
        admission: Arc::clone(classified.sensitivity()),
        tier_uid: tier.uid.clone(),
        tier_name: tier.name.clone(),
        generation: tier.generation,
        boundary: tier.boundary,
        region: tier.region.clone(),
        processor: tier.processor.clone(),
    };
    pass.check(terms)?;
    scanned(body, classified, tier.backend.model())?;
    let mut bytes = Vec::new();
    // Memory can always be written to; were it not so, an empty body would cross, and nothing of the request.
    let written = write::json(body, &mut bytes).map(|()| bytes);
    Ok(Cleared { body: written.unwrap_or_default().into(), pass })
}

impl<B> Cleared<B> {
    /// Asks again and gives the body out for one write.
    ///
    /// # Errors
    /// [`Denied`]: it may not go there any more.
    pub fn recheck(&self, terms: &Terms<'_>) -> Result<&B, Denied> {
        self.pass.check(terms)?;
        Ok(&self.body)
    }

    /// The class of the request.
    pub fn class(&self) -> Class {
        self.pass.class
    }
    /// Types of what was found in it.
    pub fn entities(&self) -> &[String] {
        &self.pass.entities
    }
    /// UID of the destination.
    pub fn tier_uid(&self) -> &str {
        &self.pass.tier_uid
    }
    /// Name of the destination.
    pub fn tier_name(&self) -> &str {
        &self.pass.tier_name
    }
    /// Generation of the destination.
    pub fn generation(&self) -> i64 {
        self.pass.generation
    }
    /// Boundary of the destination.
    pub fn boundary(&self) -> Boundary {
        self.pass.boundary
    }
    /// Region of the destination.
    pub fn region(&self) -> &str {
        &self.pass.region
    }
    /// Who processes it there.
    pub fn processor(&self) -> &str {
        &self.pass.processor
    }
}

impl Cleared<Bytes> {
    /// The body for the ledger's digest: this crate alone reads it without asking.
    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }
}

/// Shows where a body goes, never what it is.
impl<B> std::fmt::Debug for Cleared<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cleared")
            .field("class", &self.pass.class)
            .field("tier", &self.pass.tier_name)
            .field("boundary", &self.pass.boundary)
            .finish_non_exhaustive()
    }
}

impl Pass {
    fn check(&self, terms: &Terms<'_>) -> Result<(), Denied> {
        let (now, tier) = (&terms.policy.sensitivity, terms.tier);
        let same = tier.uid == self.tier_uid && tier.generation == self.generation && tier.boundary == self.boundary;
        if !same {
            return Err(Denied::TierChanged);
        }
        if now.entities != self.admission.entities || now.detector != self.admission.detector {
            return Err(Denied::PolicyChanged);
        }
        let class = if self.below_floor { self.class } else { self.class.max(now.unlabelled) };
        for sensitivity in [&self.admission, now] {
            sensitivity.permits(class, tier, terms.policy_age_us).map_err(|reason| match reason {
                Reason::StalePolicy => Denied::StalePolicy,
                Reason::Residency => Denied::Residency { class, region: tier.region.clone() },
                _ => Denied::Boundary { class, boundary: tier.boundary },
            })?;
        }
        let plain = matches!(&tier.backend, Backend::Endpoint(e) if !has_tls(&e.url));
        if plain && (class == Class::Restricted || tier.boundary == Boundary::Public) {
            return Err(Denied::PlainHttp { class, boundary: tier.boundary });
        }
        Ok(())
    }
}

fn has_tls(url: &str) -> bool {
    url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// Whether every text of the body was classified. The model's name comes from the tier; the API's own words and field
/// names are no content.
fn scanned(body: &Value, classified: &Classified, model: &str) -> Result<(), Denied> {
    let mut path = Vec::new();
    if check_texts(body, classified, model, &mut path) {
        Ok(())
    } else {
        Err(Denied::Unscanned { pointer: segments::pointer(&path) })
    }
}

/// Leaves the path of the first text that was not classified.
fn check_texts(value: &Value, classified: &Classified, model: &str, path: &mut Vec<segments::Step>) -> bool {
    use segments::Step;
    let mut within = |step: Step, value: &Value| {
        path.push(step);
        let fine = check_texts(value, classified, model, path);
        if fine {
            path.pop();
        }
        fine
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(s) => {
            let own = path[..] == [Step::Field("model")] && s == model;
            own || segments::is_wire_word(s) || classified.saw(s)
        }
        Value::Array(items) => items.iter().enumerate().all(|(i, v)| within(Step::Index(i), v)),
        Value::Object(map) => map.iter().enumerate().all(|(at, (key, v))| match segments::field(key) {
            Some(name) => within(Step::Field(name), v),
            None => classified.saw(key) && within(Step::Key(at), v),
        }),
    }
}

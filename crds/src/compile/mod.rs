//! Kinds to snapshot: defaults filled in, units resolved, references followed. Pure. The one who asks adds devices and
//! time, and signs.

mod budget;
mod policy;
mod tier;

use kube::{Resource, ResourceExt};
use terrace_contract::SCHEMA_VERSION;
use terrace_contract::snapshot::{Generations, Snapshot};

pub use crate::validate::ladder::Refused;

use crate::kinds::Object;
use crate::validate::{self, Violation, ladder};
use crate::{LatencyBudget, RoutingPolicy, Tier};

/// Compiles a policy with the tiers of its ladder that it may use, in their order, and the budgets that hold.
///
/// `routers` are the replicas that share its limits. The snapshot has its revision, but no devices, time or signature.
///
/// # Errors
/// The policy, one of its tiers or one of its budgets is refused, or they do not fit together.
pub fn compile(
    policy: &RoutingPolicy,
    tiers: &[&Tier],
    budgets: &[&LatencyBudget],
    cluster_uid: &str,
    routers: u32,
) -> Result<Snapshot, Refused> {
    sound(policy)?;
    tiers.iter().try_for_each(|tier| sound(*tier))?;
    budgets.iter().try_for_each(|budget| sound(*budget))?;
    ladder::check(policy, tiers)?;
    let mut snapshot = Snapshot {
        schema_version: SCHEMA_VERSION,
        cluster_uid: cluster_uid.to_owned(),
        revision: String::new(),
        generations: Generations {
            policy: generation(policy),
            tiers: tiers.iter().map(|tier| (uid(*tier), generation(*tier))).collect(),
            budgets: budgets.iter().map(|budget| (uid(*budget), generation(*budget))).collect(),
        },
        issued_at_us: 0,
        policy: policy::compile(policy)?,
        tiers: tiers.iter().map(|tier| tier::compile(tier, cluster_uid)).collect::<Result<_, _>>()?,
        budgets: budgets.iter().map(|budget| budget::compile(budget)).collect::<Result<_, _>>()?,
        routers,
        devices: Vec::new(),
        signature: String::new(),
    };
    snapshot.revision = snapshot.digest();
    Ok(snapshot)
}

fn sound<T: Object>(object: &T) -> Result<(), Refused> {
    validate::validate(object).map_err(|invalid| Refused { reason: "InvalidSpec", violations: invalid.0 })
}

fn uid<T: Resource>(object: &T) -> String {
    object.uid().unwrap_or_default()
}

fn generation<T: Resource>(object: &T) -> i64 {
    object.meta().generation.unwrap_or_default()
}

/// A number of the contract, from what validation has already let pass: what is left is a number that is too large.
fn number<T>(value: Option<T>, path: &str) -> Result<T, Refused> {
    let sentence = "the number is too large: write a smaller one";
    value.ok_or_else(|| Refused { reason: "InvalidSpec", violations: vec![Violation::new(path, sentence)] })
}

/// A whole number that the schema keeps from being negative.
fn whole(value: i32) -> u32 {
    u32::try_from(value).unwrap_or_default()
}

/// A percent that the schema keeps from 0 to 100.
fn percent(value: i32) -> u8 {
    u8::try_from(value.clamp(0, 100)).unwrap_or(100)
}

//! The controller of Tiers: dereference, validate, build, apply, status.

mod agent;
mod build;
mod dereference;
mod model;
mod pods;
mod status;
mod validate;

use kube::api::DynamicObject;
use terrace_crds::TierStatus;

pub use build::build;
pub use dereference::Facts;
pub use status::status;
pub use validate::{Fleet, Source, Valid, ValidTier, validate};

use crate::context::{Context, Done, Error};
use crate::events;
use crate::kinds::Kind;
use crate::outcome::Outcome;
use crate::pki::Files;

/// One pass.
///
/// # Errors
/// When the API server refuses or does not answer.
pub async fn reconcile(context: &Context, object: &DynamicObject) -> Result<Done, Error> {
    let owner = Kind::Tier.owner(object);
    let tier = match context.world.tiers.parse(object) {
        Ok(tier) => tier,
        Err(error) => return context.unparsable(Kind::Tier, object, &error, &status::CONDITIONS).await,
    };
    let mut facts = dereference::dereference(context, &owner, &tier.spec).await?;
    let outcome = match validate(owner.clone(), &tier, &context.site) {
        Ok(valid) => {
            let files = match valid.backend {
                Valid::Fleet(_) => context.pki.tier_files(&owner.namespace, &owner.name, facts.files.as_ref())?,
                Valid::Endpoint(_) => Files::new(),
            };
            let applied = context.applier.apply(&owner, build(&valid, files.clone(), &context.site)).await;
            facts.files = (!files.is_empty()).then_some(files);
            Outcome::of(applied)?
        }
        Err(invalid) => Outcome::Refused(invalid),
    };
    let old: TierStatus = crate::status::of(object);
    let inactive = terrace_crds::inactive_fields(tier.as_ref());
    let generation = object.metadata.generation.unwrap_or(0);
    let new = status(&tier.spec, &owner.name, generation, &inactive, &outcome, &facts, &old);
    if rejected(&new) && !rejected(&old) {
        let note = "the endpoint refuses the credential: renew the key in its Secret".to_owned();
        events::warn(context, Kind::Tier, object, "CredentialRejected", note).await;
    }
    context.finish(Kind::Tier, object, &new, outcome).await
}

fn rejected(status: &TierStatus) -> bool {
    status.conditions.iter().any(|c| c.type_ == "Reachable" && c.status == "False" && c.reason == "CredentialRejected")
}

//! The controller of RoutingPolicies: dereference, validate, build, apply, status.

mod build;
mod resolve;
mod router;
mod status;
mod traffic;
mod validate;

use kube::ResourceExt;
use kube::api::DynamicObject;
use terrace_crds::shared::Workload;
use terrace_crds::{RoutingPolicy, RoutingPolicyStatus, router_child};

pub use build::{SNAPSHOT_FILE, build, replicas};
pub use resolve::{Resolved, Unresolved, resolve};
pub use validate::{Credentials, ValidPolicy, compile, valid};

use crate::apply::{ChildKind, Live};
use crate::context::{Context, Done, Error};
use crate::kinds::Kind;
use crate::outcome::Outcome;
use crate::{pki, snapshot};

/// One pass.
///
/// # Errors
/// When the API server refuses or does not answer.
pub async fn reconcile(context: &Context, object: &DynamicObject) -> Result<Done, Error> {
    let owner = Kind::RoutingPolicy.owner(object);
    let policy = match context.world.policies.parse(object) {
        Ok(policy) => policy,
        Err(error) => return context.unparsable(Kind::RoutingPolicy, object, &error, &status::CONDITIONS).await,
    };
    let resolved = resolve(&context.world, &policy, &context.site);
    let routers = router_count(&policy, &context.world.live);
    let outcome = match compile(&policy, &resolved, context.pki.cluster(), routers) {
        Ok(compiled) => {
            let revision = compiled.revision.clone();
            let child = router_child(&owner.name);
            let map = context.applier.read(ChildKind::ConfigMap, &owner.namespace, &child).await?;
            let mounted = snapshot::mounted(compiled, &context.pki, map.as_ref());
            let valid = valid(owner.clone(), &policy, &resolved, mounted, &context.world);
            let secret = context.applier.read(ChildKind::Secret, &owner.namespace, &child).await?;
            let files = secret.and_then(|secret| pki::files_of(&secret));
            let files = context.pki.policy_files(&owner.namespace, &owner.name, files.as_ref())?;
            let applied = context.applier.apply(&owner, build(&valid, files, &context.site)).await;
            (Outcome::of(applied)?, revision)
        }
        Err(invalid) => (Outcome::Refused(invalid), String::new()),
    };
    let (outcome, revision) = outcome;
    let old: RoutingPolicyStatus = crate::status::of(object);
    let facts = status::Facts {
        policy: &policy,
        resolved: &resolved,
        outcome: &outcome,
        revision: &revision,
        pods: context.world.routers(&owner.namespace, &owner.name),
        view: context.fold().view(&owner.uid, terrace_telemetry::time::now_us()),
        inactive: terrace_crds::inactive_fields(policy.as_ref()),
        now: jiff::Timestamp::now(),
    };
    let status = status::status(&facts, &old);
    status::events(context, object, &old, &status).await;
    context.finish(Kind::RoutingPolicy, object, &status, outcome).await
}

/// Routers that share the policy's limits: as many as are wanted; of a DaemonSet as many as there are nodes for it.
pub fn router_count(policy: &RoutingPolicy, live: &Live) -> u32 {
    let wanted = match policy.spec.router.workload {
        Workload::Deployment => i64::from(replicas(&policy.spec.router).unwrap_or(1)),
        Workload::DaemonSet => {
            let (namespace, name) = (policy.namespace().unwrap_or_default(), router_child(&policy.name_any()));
            let set = live.get(ChildKind::DaemonSet, &namespace, &name);
            set.and_then(|s| s.data.get("status")?.get("desiredNumberScheduled")?.as_i64()).unwrap_or(1)
        }
    };
    u32::try_from(wanted).unwrap_or(1).max(1)
}

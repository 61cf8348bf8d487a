//! Where clearances are asked for and asked again: the only two calls into privacy that dispatch makes.

use bytes::Bytes;
use serde_json::Value;
use terrace_contract::reason::Reason;
use terrace_contract::tier::Tier;
use terrace_privacy::ledger::Crossing;
use terrace_privacy::{Cleared, Terms, clear};

use super::failure::Failure;
use crate::app::App;
use crate::job::Job;

impl App {
    /// Clears the body built for a tier, by the policy under which the request was admitted.
    ///
    /// # Errors
    /// The reason why it may not go there.
    pub fn clear(&self, job: &Job, built: &Value, tier: &Tier, now_us: u64) -> Result<Cleared<Bytes>, Reason> {
        let snapshot = &job.in_use.snapshot;
        let terms = Terms { policy: &snapshot.policy, tier, policy_age_us: self.fleet.policy_age_us(snapshot, now_us) };
        clear(built, &job.classified, &terms).map_err(|denied| {
            tracing::debug!(tier = %tier.name, %denied, "not cleared");
            denied.reason()
        })
    }

    /// Gives the bytes out for one write: asks by the policy in use now, and records the crossing before it happens.
    ///
    /// # Errors
    /// [`Failure::NotCleared`]: by now it may not go there, or it could not be recorded.
    pub fn write(&self, cleared: &Cleared<Bytes>, request_id: &str, attempt: u32) -> Result<Bytes, Failure> {
        let in_use = self.fleet.in_use().ok_or(Failure::NotCleared(Reason::StalePolicy))?;
        let now = self.clock.now_us();
        let tier = in_use.tiers.iter().find(|tier| tier.uid == cleared.tier_uid());
        let terms = Terms {
            policy: &in_use.snapshot.policy,
            tier: tier.ok_or(Failure::NotCleared(Reason::StalePolicy))?,
            policy_age_us: self.fleet.policy_age_us(&in_use.snapshot, now),
        };
        let bytes = cleared.recheck(&terms).map_err(|denied| Failure::NotCleared(denied.reason()))?.clone();
        let crossing = Crossing { at_us: now, request_id, attempt };
        self.egress
            .record(cleared, crossing, in_use.snapshot.policy.ledger_on_write_failure, &self.metrics)
            .map_err(|_| Failure::NotCleared(Reason::Boundary))?;
        Ok(bytes)
    }
}

//! The Lease as a record: what it says and what follows from it. Pure; time is passed in.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

/// What to do about a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// It is ours.
    Renew,
    /// Nobody holds it, or the holder went silent.
    Take,
    /// This identity holds it.
    Wait(String),
}

/// The last change that was seen, by our own clock.
#[derive(Debug, Default)]
pub(super) struct Seen(Option<(String, Option<MicroTime>, Instant)>);

impl Seen {
    pub(super) fn judge(&mut self, lease: &Lease, me: &str, duration: Duration, now: Instant) -> Step {
        let holder = holder(lease);
        if holder == me {
            return Step::Renew;
        }
        if holder.is_empty() {
            return Step::Take;
        }
        let renewed = lease.spec.as_ref().and_then(|s| s.renew_time.clone());
        match &self.0 {
            Some((seen, at, since)) if *seen == holder && *at == renewed => {
                if now.duration_since(*since) > duration {
                    Step::Take
                } else {
                    Step::Wait(holder)
                }
            }
            _ => {
                self.0 = Some((holder.clone(), renewed, now));
                Step::Wait(holder)
            }
        }
    }
}

/// Whoever holds it; empty: nobody.
pub(super) fn holder(lease: &Lease) -> String {
    lease.spec.as_ref().and_then(|s| s.holder_identity.clone()).unwrap_or_default()
}

pub(super) fn new(name: &str, me: &str, duration: Duration, now: Timestamp) -> Lease {
    let lease = Lease { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, spec: None };
    held(lease, me, duration, now, true)
}

pub(super) fn held(mut lease: Lease, me: &str, duration: Duration, now: Timestamp, taken: bool) -> Lease {
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    spec.holder_identity = Some(me.to_owned());
    spec.lease_duration_seconds = i32::try_from(duration.as_secs()).ok();
    spec.renew_time = Some(MicroTime(now));
    if taken {
        spec.acquire_time = Some(MicroTime(now));
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0) + 1);
    }
    lease
}

pub(super) fn released(mut lease: Lease) -> Lease {
    if let Some(spec) = &mut lease.spec {
        spec.holder_identity = Some(String::new());
    }
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_secs(15);

    fn lease(holder: &str, renewed: i64) -> Lease {
        held(Lease::default(), holder, LASTS, Timestamp::from_second(renewed).unwrap(), true)
    }

    #[test]
    fn our_own_is_renewed_and_a_free_one_is_taken() {
        let now = Instant::now();
        assert_eq!(Seen::default().judge(&lease("me", 1), "me", LASTS, now), Step::Renew);
        assert_eq!(Seen::default().judge(&released(lease("other", 1)), "me", LASTS, now), Step::Take);
        assert_eq!(Seen::default().judge(&Lease::default(), "me", LASTS, now), Step::Take);
    }

    #[test]
    fn a_holder_is_outwaited_by_our_clock_however_old_its_record_looks() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let wait = Step::Wait("other".into());
        assert_eq!(seen.judge(&lease("other", 1), "me", LASTS, start), wait);
        assert_eq!(seen.judge(&lease("other", 1), "me", LASTS, start + LASTS), wait);
        assert_eq!(seen.judge(&lease("other", 2), "me", LASTS, start + LASTS * 2), wait, "it was renewed");
        assert_eq!(seen.judge(&lease("other", 2), "me", LASTS, start + LASTS * 4), Step::Take);
    }
}

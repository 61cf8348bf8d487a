//! When a tier that is full has room again, and what would come of a request that waits for it.

use terrace_contract::tier::{Backend, Tier};

use crate::constrain;
use crate::plan::{Forecast, Room};
use crate::predict::{self, Neutral, Work};
use crate::view::{BreakerState, DeviceView, EndpointView, Freshness};

/// A minute, over which rates are granted.
const MINUTE_US: f64 = 60e6;

/// Of a fleet whose devices are full; none: it has no device that will answer.
///
/// The next answer to end is half done on average, so that of K answers of time S one ends every S / K.
pub fn of_devices(work: Work, devices: &[DeviceView], neutral: Neutral) -> Option<Room> {
    let answers = |d: &&DeviceView| {
        d.ready && d.breaker != BreakerState::Open && matches!(d.freshness(), Freshness::Fresh | Freshness::Stale)
    };
    let (mut best, mut a_second) = (None::<(Forecast, f64)>, 0.0);
    for view in devices.iter().filter(answers) {
        let device = predict::device(work, view, constrain::in_flight(view, view.freshness()), || neutral);
        let each = device.service_us() / device.slots();
        a_second += 1e6 / each.max(1.0);
        let now = device.now();
        if best.is_none_or(|(least, _)| now.first_token_us < least.first_token_us) {
            best = Some((now, 0.5 * each));
        }
    }
    let (now, until_us) = best?;
    let Forecast { first_token_us, finish_us } = now;
    Some(Room { first_token_us, finish_us, until_us, each_us: 1e6 / a_second })
}

/// Of an endpoint that is full or in a pause; `idle` is its forecast if it had nothing else to do.
pub fn of_endpoint(idle: Forecast, tier: &Tier, e: &EndpointView, now_us: u64) -> Room {
    let cooling = e.cooling_until_us.saturating_sub(now_us) as f64;
    let per_minute = match &tier.backend {
        Backend::Endpoint(endpoint) => endpoint.limits.requests_per_minute,
        Backend::Fleet(_) => None,
    };
    let (until_us, each_us) = if cooling > 0.0 {
        (cooling, 0.0)
    } else if e.requests_left == Some(0) {
        let each = MINUTE_US / f64::from(per_minute.unwrap_or(1).max(1));
        (each, each)
    } else if e.concurrency_left == Some(0) {
        let each = idle.finish_us / f64::from(e.in_flight.max(1));
        (0.5 * each, each)
    } else {
        // The minute's tokens are used up: how soon there are enough again hangs on who else asks.
        (constrain::RETRY_FULL_US as f64, constrain::RETRY_FULL_US as f64)
    };
    let (first_token_us, finish_us) = (until_us + idle.first_token_us, until_us + idle.finish_us);
    Room { first_token_us, finish_us, until_us, each_us }
}

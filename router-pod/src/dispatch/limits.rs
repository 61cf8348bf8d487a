//! How long each part of a request may take; separate, since a slow part is found soonest by its own limit.

use std::time::Duration;

use terrace_contract::policy::{Budget, OnMiss};
use terrace_decide::Forecast;
use tokio::time::Instant;

/// Longest silence between two events of a stream.
pub const BETWEEN_TOKENS: Duration = Duration::from_secs(30);
/// Longest that a client may leave a stream unread.
pub const UNREAD: Duration = Duration::from_secs(30);
/// The whole request, when no budget says otherwise.
const TOTAL: Duration = Duration::from_secs(600);
/// First token of an attempt after which nothing else can be tried.
const FIRST_TOKEN_LAST: Duration = Duration::from_secs(180);
/// First token of an attempt while something else can be tried, when no budget says otherwise.
const FIRST_TOKEN: Duration = Duration::from_secs(60);
/// An attempt is given up for another only after this many times its forecast: giving up costs what was done so far.
const PATIENCE: f64 = 3.0;
/// What the hop to an agent costs, taken from the time that it is told.
const HOP: Duration = Duration::from_millis(2);

/// The whole request, of which its chain had so much left when it came: hard before the first token. `onMiss: Degrade`
/// serves late rather than not at all.
pub fn total(budget: Option<&Budget>, chain_left: Option<Duration>) -> Duration {
    match budget {
        Some(b) if b.on_miss != OnMiss::Degrade => {
            Duration::from_micros(b.total_us).min(chain_left.unwrap_or(TOTAL)).min(TOTAL)
        }
        _ => TOTAL,
    }
}

/// When an answer that has begun must be whole.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    /// Then.
    pub at: Instant,
    /// The field that says so.
    pub field: &'static str,
}

/// When the answer to a request that came at `started` must be whole; none: it may go on for as long as it keeps coming.
pub fn ends(budget: Option<&Budget>, chain_left: Option<Duration>, started: Instant) -> Option<Ends> {
    let budget = budget.filter(|b| b.on_miss != OnMiss::Degrade)?;
    let own = (Duration::from_micros(budget.total_us), "spec.total");
    let (time, field) = chain_left.map_or(own, |left| if left < own.0 { (left, "spec.chain.total") } else { own });
    Some(Ends { at: started.checked_add(time)?, field })
}

/// The time to the first token of a request that is refused rather than answered late; none: late is better than nothing.
pub fn strict_first_token(budget: Option<&Budget>) -> Option<Duration> {
    budget.filter(|b| b.on_miss == OnMiss::Reject).map(|b| Duration::from_micros(b.first_token_us))
}

/// The first token of one attempt at a request that came `elapsed` ago, never past what remains of the whole request.
pub fn first_token(
    budget: Option<&Budget>,
    forecast: Forecast,
    last: bool,
    (elapsed, remaining): (Duration, Duration),
) -> Duration {
    if let Some(strict) = strict_first_token(budget) {
        return strict.saturating_sub(elapsed).min(remaining);
    }
    if last {
        return FIRST_TOKEN_LAST.min(remaining);
    }
    given_up(budget, forecast.first_token_us, remaining)
}

/// An attempt that is given up for another when nothing has come by then, of which this was forecast.
pub fn given_up(budget: Option<&Budget>, forecast_us: f64, remaining: Duration) -> Duration {
    let patience = Duration::from_micros((forecast_us.max(0.0) * PATIENCE) as u64);
    let limit = budget.map_or(FIRST_TOKEN, |b| Duration::from_micros(b.first_token_us).max(patience));
    limit.min(remaining)
}

/// `x-terrace-deadline-ms`: what remains, less the hop.
pub fn deadline_ms(remaining: Duration) -> u64 {
    u64::try_from(remaining.saturating_sub(HOP).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_contract::policy::Priority;

    fn budget(on_miss: OnMiss) -> Budget {
        Budget {
            uid: String::new(),
            name: String::new(),
            features: vec![],
            first_token_us: 100_000,
            total_us: 400_000,
            objective_basis_points: 9900,
            window_us: 1,
            on_miss,
            priority: Priority::Interactive,
            chain: None,
        }
    }

    #[test]
    fn a_budget_is_hard_unless_it_may_be_served_late() {
        assert_eq!(total(Some(&budget(OnMiss::Overflow)), None), Duration::from_millis(400));
        assert_eq!(total(Some(&budget(OnMiss::Degrade)), None), TOTAL);
        assert_eq!(total(None, None), TOTAL);
        for (left, want) in [(90, 90), (900, 400)] {
            let left = Some(Duration::from_millis(left));
            assert_eq!(
                total(Some(&budget(OnMiss::Reject)), left),
                Duration::from_millis(want),
                "the smaller of the two"
            );
            assert_eq!(total(Some(&budget(OnMiss::Degrade)), left), TOTAL);
        }
    }

    #[test]
    fn an_answer_that_has_begun_ends_with_its_budget() {
        let (now, ms) = (Instant::now(), Duration::from_millis);
        let told = |b: Option<&Budget>, left| ends(b, left, now).map(|ends| (ends.at - now, ends.field));
        let b = budget(OnMiss::Overflow);
        assert_eq!(told(Some(&b), None), Some((ms(400), "spec.total")));
        assert_eq!(told(Some(&b), Some(ms(90))), Some((ms(90), "spec.chain.total")));
        assert_eq!(told(Some(&budget(OnMiss::Degrade)), Some(ms(90))), None, "served late");
        assert_eq!(told(None, None), None);
    }

    #[test]
    fn an_attempt_is_given_up_only_for_another_and_past_its_forecast() {
        let forecast = Forecast { first_token_us: 50_000.0, finish_us: 0.0 };
        let long = (Duration::ZERO, Duration::from_secs(999));
        let b = budget(OnMiss::Overflow);
        assert_eq!(first_token(Some(&b), forecast, false, long), Duration::from_millis(150));
        assert_eq!(first_token(Some(&b), forecast, true, long), FIRST_TOKEN_LAST);
        let (ms, none) = (Duration::from_millis, Duration::ZERO);
        assert_eq!(first_token(None, forecast, false, (none, ms(7))), ms(7));
        // Refused rather than late: whatever else could be tried, and from when the request came.
        let b = budget(OnMiss::Reject);
        for last in [false, true] {
            assert_eq!(first_token(Some(&b), forecast, last, long), ms(100));
            assert_eq!(first_token(Some(&b), forecast, last, (ms(70), ms(330))), ms(30));
            assert_eq!(first_token(Some(&b), forecast, last, (ms(170), ms(230))), none);
        }
        assert_eq!(deadline_ms(Duration::from_millis(400)), 398);
    }
}

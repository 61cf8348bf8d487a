//! When the first token and the end of an answer would come.
//!
//! For a request of C prompt tokens (h of them cached) and G expected output tokens on a device with prefill rate P,
//! decode step a + c b at batch b, and K slots, n of them taken:
//!
//! ```text
//! wait   = 0 if n < K else time for a slot
//! ttft   = rtt + max(wait, queued / P) + (C - h) / (0.8 P)
//! finish = ttft + G (a + c b)
//! ```
//!
//! `ttft` and what follows it are stretched by the device's own quantile corrections: the second has what later prompts
//! will take from the decode steps, which no report can know. A budget is kept if it is kept by a G that the answer
//! will most likely not exceed. A device of which nothing is known gets its tier's mean, a tier of which nothing is
//! known gets [`UNKNOWN`]: neutral, never zero load.

use crate::constrain::in_flight;
use crate::plan::Forecast;
use crate::signals::{Deadline, Signals};
use crate::view::{DeviceView, EndpointView, Rates};

/// Rates of a tier of which nothing is known.
pub const UNKNOWN: Rates = Rates { prefill_rate: 400.0, step_base_us: 25_000.0, step_per_sequence_us: 2_000.0 };
/// Round trip of which nothing is known.
const UNKNOWN_RTT_US: f64 = 2_000.0;
/// The same for an endpoint.
const UNKNOWN_ENDPOINT_RTT_US: f64 = 60_000.0;
/// Rates of an endpoint of which nothing is known.
const UNKNOWN_ENDPOINT: Rates = Rates { prefill_rate: 4_000.0, step_base_us: 20_000.0, step_per_sequence_us: 0.0 };
/// Prefill of a new prompt shares the device with decoding.
const PREFILL_SHARE: f64 = 0.8;
/// Forecasts must lie within this part of the budget.
const MARGIN: f64 = 0.9;

/// The work that a request is.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    prompt: f64,
    output: f64,
    likely: f64,
}

impl Work {
    /// Of a request.
    pub fn of(signals: &Signals) -> Self {
        Self {
            prompt: f64::from(signals.prompt_tokens),
            output: f64::from(signals.expected_output_tokens),
            likely: f64::from(signals.likely_output_tokens.max(signals.expected_output_tokens)),
        }
    }
}

/// What is taken for a device that has not reported.
#[derive(Debug, Clone, Copy)]
pub struct Neutral {
    rates: Rates,
    in_flight: f64,
    slots: f64,
}

impl Neutral {
    /// The mean of the devices that have reported.
    pub fn of(devices: &[DeviceView]) -> Self {
        let (mut n, mut sum) = (0.0, [0.0f64; 5]);
        for d in devices {
            if let Some(rates) = known(d) {
                let slots = d.report.as_ref().map_or(1, |r| r.load.slots.max(1));
                let values = [
                    rates.prefill_rate,
                    rates.step_base_us,
                    rates.step_per_sequence_us,
                    f64::from(in_flight(d, d.freshness())),
                    f64::from(slots),
                ];
                n += 1.0;
                sum.iter_mut().zip(values).for_each(|(s, v)| *s += v);
            }
        }
        if n == 0.0 {
            return Self { rates: UNKNOWN, in_flight: 0.0, slots: 1.0 };
        }
        let [prefill_rate, step_base_us, step_per_sequence_us, in_flight, slots] = sum.map(|s| s / n);
        Self { rates: Rates { prefill_rate, step_base_us, step_per_sequence_us }, in_flight, slots }
    }
}

#[inline]
fn known(d: &DeviceView) -> Option<Rates> {
    let load = &d.report.as_ref()?.load;
    (load.prefill_rate > 0.0 && load.step_base_us > 0.0).then_some(Rates {
        prefill_rate: load.prefill_rate,
        step_base_us: load.step_base_us,
        step_per_sequence_us: load.step_per_sequence_us,
    })
}

/// One device for one request. A decision asks a few things of each of thousands of devices, so each is worked out
/// only when it is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Device<'a> {
    view: &'a DeviceView,
    work: Work,
    rates: Rates,
    slots: f64,
    /// Requests that it has.
    pub in_flight: f64,
    /// Whether it has shown how fast it is.
    pub measured: bool,
    /// From now to when the prompt's own turn begins, with the round trip.
    until_turn_us: f64,
    rtt_us: f64,
    prefill_us: f64,
    /// One decode step with this answer among the others.
    step_us: f64,
}

/// Looks at one device that has `in_flight` requests; `neutral` is asked only for one of which something is not known.
///
/// Always inlined: a value of this size that is handed over in memory costs as much as all the rest of a decision.
#[inline(always)]
pub fn device(work: Work, d: &DeviceView, in_flight: u32, mut neutral: impl FnMut() -> Neutral) -> Device<'_> {
    let measured = known(d);
    let rates = measured.unwrap_or_else(|| neutral().rates);
    let own = f64::from(in_flight);
    let (slots, n, queued) = match &d.report {
        Some(r) => (f64::from(r.load.slots.max(1)), own, r.load.queued_prefill_tokens),
        None => (neutral().slots, own.max(neutral().in_flight), 0),
    };
    let queued = queued.saturating_add(d.own_prompt_tokens_since_report) as f64;
    let rtt_us = d.rtt_us.map_or(UNKNOWN_RTT_US, |r| r as f64);
    let per_token_us = 1e6 / (PREFILL_SHARE * rates.prefill_rate);
    let cached = f64::from(d.cached_tokens).min(work.prompt);
    // A slot frees when one of K answers, each half done on average, ends; those that wait go first.
    let wait = if n < slots { 0.0 } else { work.output * step_us(&rates, slots) * ((n - slots + 0.5) / slots) };
    Device {
        view: d,
        work,
        rates,
        slots,
        in_flight: n,
        measured: measured.is_some(),
        until_turn_us: wait.max(queued * per_token_us) + rtt_us,
        rtt_us,
        prefill_us: (work.prompt - cached) * per_token_us,
        step_us: step_us(&rates, (n + 1.0).min(slots)),
    }
}

/// One decode step of a batch.
#[inline]
fn step_us(rates: &Rates, batch: f64) -> f64 {
    rates.step_base_us + rates.step_per_sequence_us * batch
}

impl Device<'_> {
    #[inline]
    fn until(&self, tokens: f64, correction: f64, pace: f64) -> Forecast {
        let first_token_us = (self.until_turn_us + self.prefill_us) * stretch(correction);
        Forecast { first_token_us, finish_us: first_token_us + tokens * self.step_us * stretch(pace) }
    }

    /// As it is now.
    #[inline]
    pub fn now(&self) -> Forecast {
        self.until(self.work.output, self.view.correction, self.view.pace)
    }

    /// As it is now when things go badly: an answer as long as it may likely be, a device as slow as it likely gets.
    #[inline]
    pub fn likely(&self) -> Forecast {
        self.until(self.work.likely, self.view.tail_correction, self.view.tail_pace)
    }

    /// If it had nothing else to do.
    #[inline]
    pub fn idle(&self) -> Forecast {
        let first_token_us = (self.rtt_us + self.prefill_us) * stretch(self.view.correction);
        let step = step_us(&self.rates, 1.0) * stretch(self.view.pace);
        Forecast { first_token_us, finish_us: first_token_us + self.work.output * step }
    }

    /// What everyone else there loses by one more: the time of its prompt, and its part of each decode step.
    #[inline]
    pub fn others_us(&self) -> f64 {
        self.in_flight * (self.prefill_us + self.work.output * self.rates.step_per_sequence_us)
    }

    /// Whether that makes an answer late which was sent from here and has begun.
    #[inline]
    pub fn harms(&self) -> bool {
        self.view.own_slack_us.is_some_and(|slack| self.prefill_us > slack as f64)
    }

    /// Whether it has not shown yet how fast it is, and has nothing to do.
    #[inline]
    pub fn untried(&self) -> bool {
        let quiet = self.view.report.is_none_or(|r| r.load.running + r.load.queued == 0);
        !self.measured && self.view.own_in_flight == 0 && quiet
    }

    /// Tokens a second that it has left.
    #[inline]
    pub fn spare(&self) -> f64 {
        (self.slots - self.in_flight) * 1e6 / self.step_us
    }

    /// How long an answer takes of a slot when all are taken.
    pub fn service_us(&self) -> f64 {
        self.prefill_us + self.work.output * step_us(&self.rates, self.slots)
    }

    /// Answers at once.
    pub fn slots(&self) -> f64 {
        self.slots
    }

    /// Tokens a second with all slots taken.
    pub fn capacity(&self) -> f64 {
        self.slots * 1e6 / step_us(&self.rates, self.slots)
    }
}

#[inline]
fn stretch(correction: f64) -> f64 {
    if correction > 0.0 { correction } else { 1.0 }
}

/// Forecasts a device of a tier that has none.
pub fn unknown_device(work: Work) -> Forecast {
    let first = UNKNOWN_RTT_US + work.prompt / (PREFILL_SHARE * UNKNOWN.prefill_rate) * 1e6;
    let step = UNKNOWN.step_base_us + UNKNOWN.step_per_sequence_us;
    Forecast { first_token_us: first, finish_us: first + work.output * step }
}

/// What is forecast of an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint {
    /// As it is now.
    pub now: Forecast,
    /// As it is now, with an answer as long as it may likely be.
    pub likely: Forecast,
    /// If it had nothing else to do.
    pub idle: Forecast,
}

/// Forecasts an endpoint.
pub fn endpoint(work: Work, e: &EndpointView) -> Endpoint {
    let rates = e.rates.filter(|r| r.prefill_rate > 0.0).unwrap_or(UNKNOWN_ENDPOINT);
    let rtt = e.rtt_us.map_or(UNKNOWN_ENDPOINT_RTT_US, |r| r as f64);
    let stretch = stretch(e.correction);
    let forecast = |queue: f64, batch: f64, tokens: f64| {
        let first = (rtt + queue + work.prompt / rates.prefill_rate * 1e6) * stretch;
        let step = rates.step_base_us + rates.step_per_sequence_us * batch;
        Forecast { first_token_us: first, finish_us: first + tokens * step * stretch }
    };
    let (queue, batch) = (e.queue_us as f64, f64::from(e.in_flight) + 1.0);
    Endpoint {
        now: forecast(queue, batch, work.output),
        likely: forecast(queue, batch, work.likely),
        idle: forecast(0.0, 1.0, work.output),
    }
}

/// Whether a forecast lies within the budget, with a margin.
#[inline]
pub fn feasible(forecast: Forecast, deadline: Option<&Deadline>) -> bool {
    deadline.is_none_or(|d| {
        forecast.first_token_us <= MARGIN * d.first_token_us as f64 && forecast.finish_us <= MARGIN * d.total_us as f64
    })
}

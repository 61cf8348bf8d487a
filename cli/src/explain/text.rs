//! An explanation for people.

use std::fmt::Write as _;

use terrace_contract::explanation::{Attempt, Explanation, Forecast, Rung, Signals};
use terrace_contract::reason::Reason;

/// The explanation as lines.
pub fn render(explanation: &Explanation) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", text.trim_end());
    };
    let id = explanation.request_id.as_deref().unwrap_or("not sent");
    line(format!("request   {id}"));
    line(format!("policy    {}, revision {}", explanation.policy, explanation.revision));
    signals(&explanation.signals, &mut line);
    line(String::new());
    line("tiers, nearest first".to_owned());
    explanation.tiers.iter().for_each(|tier| rung(tier, &mut line));
    line(String::new());
    let decided = explanation.decided.as_deref().map_or_else(String::new, |tier| format!(", {tier} suits it best"));
    match &explanation.refusal {
        Some(refused) => line(format!("plan: refused{decided}\n  {}: {}", refused.code, refused.message)),
        None => line(format!("plan{decided}")),
    }
    if let Some(wait) = explanation.wait {
        line(format!("  it would wait for room, if it has the time: {}", times(wait)));
    }
    for (index, tried) in explanation.attempts.iter().enumerate() {
        attempt(index + 1, tried, &mut line);
    }
    if let Some(became) = &explanation.became {
        line(String::new());
        let by = became.tier.as_deref().map_or_else(String::new, |tier| format!(" by {tier}"));
        let first = became.first_token_us.map_or_else(String::new, |us| format!("first token {}, ", ms(us)));
        line(format!("it became {:?}{by}: {first}whole {}", became.outcome, ms(became.total_us)));
        became.reasons.iter().for_each(|&reason| line(format!("  {}", why(reason))));
    }
    if explanation.at_us == 0 {
        line(String::new());
        line("from manifests alone: every device and endpoint is taken to be there and idle, and as fast as a Simulation".into());
        line("among the manifests says; without one nothing is measured yet, and forecasts are assumptions".into());
    }
    out
}

fn signals(signals: &Signals, line: &mut impl FnMut(String)) {
    line(format!("class     {}", signals.class));
    signals.class_reasons.iter().for_each(|&reason| line(format!("          {}", why(reason))));
    let most = signals.max_output_tokens.map_or_else(String::new, |n| format!(", {n} asked for at most"));
    line(format!(
        "tokens    prompt {}, answer {} expected, {} likely at most{most}",
        signals.prompt_tokens, signals.expected_output_tokens, signals.likely_output_tokens
    ));
    let needs: Vec<String> = signals.needs.iter().map(|need| format!("{need:?}")).collect();
    let needs = if needs.is_empty() { String::new() } else { format!(", needs {}", needs.join(", ")) };
    line(format!("asks for  model {}, feature {}{needs}", signals.model, signals.feature));
    match &signals.budget {
        None => line("budget    none covers the feature".to_owned()),
        Some(budget) => line(format!(
            "budget    first token {}, whole {}; if that is missed: {:?}; {:?}",
            ms(budget.first_token_us),
            ms(budget.total_us),
            budget.on_miss,
            budget.priority
        )),
    }
    if let Some(chain) = &signals.chain {
        let step = if chain.step { "; a short structured call, for which near is preferred" } else { "" };
        line(format!(
            "chain     call {} of {}, {} of {} left, {} of it went to connecting so far{step}",
            chain.hop,
            chain.max_hops,
            ms(chain.left_us),
            ms(chain.total_us),
            ms(chain.transport_us)
        ));
    }
    let judged = if signals.complex { "complex" } else { "simple" };
    let because =
        if signals.complexity.is_empty() { String::new() } else { format!(" ({})", signals.complexity.join(", ")) };
    let task = signals.task.as_deref().map_or_else(String::new, |task| format!(", task {task}"));
    line(format!("judged    {judged}{because}{task}: asks for quality {}", signals.floor));
    let (weights, whose) = (signals.weights, if signals.preferred { "the caller's preference" } else { "the policy" });
    line(format!(
        "weights   quality {}, latency {}, cost {}, privacy {}, availability {} ({whose})",
        weights.quality, weights.latency, weights.cost, weights.privacy, weights.availability
    ));
}

fn rung(tier: &Rung, line: &mut impl FnMut(String)) {
    line(format!("  {}  {}, model {}", tier.name, tier.boundary, tier.model));
    tier.ruled_out.iter().for_each(|&reason| line(format!("    ruled out: {}", why(reason))));
    if let Some(devices) = &tier.devices {
        let out: u32 = devices.ruled_out.iter().map(|out| out.count).sum();
        line(format!("    devices   {} of {} left", devices.count - out.min(devices.count), devices.count));
        for out in &devices.ruled_out {
            let more = if usize::try_from(out.count).is_ok_and(|n| n > out.nodes.len()) { ", …" } else { "" };
            line(format!("      {} out ({}{more}): {}", out.count, out.nodes.join(", "), why(out.reason)));
        }
    }
    if let Some(score) = &tier.score {
        let able = if score.able { "" } else { ", not able enough" };
        line(format!(
            "    score     {:.3} now, {:.3} idle{able}: quality {:.2}, latency {:.2}, cost {:.2}, privacy {:.2}, availability {:.2}",
            score.now, score.idle, score.quality, score.latency, score.cost, score.privacy, score.availability
        ));
    }
    if let Some(forecast) = tier.forecast {
        line(format!("    forecast  {}{}", times(forecast), price(tier.cost_micros.unwrap_or(0))));
    }
}

fn attempt(number: usize, attempt: &Attempt, line: &mut impl FnMut(String)) {
    let nodes = if attempt.nodes.is_empty() { String::new() } else { format!(" ({})", attempt.nodes.join(", then ")) };
    let marks = [
        (attempt.overflow, ", overflow"),
        (attempt.degraded, ", marked degraded"),
        (attempt.only_after_failure, ", only after a failure"),
        (attempt.insists, ", though it may be down: nothing else is left"),
    ];
    let marks: String = marks.into_iter().filter(|(on, _)| *on).map(|(_, mark)| mark).collect();
    line(format!(
        "  {number}. {}{nodes}{marks}: {}{}",
        attempt.tier,
        times(attempt.forecast),
        price(attempt.cost_micros)
    ));
    attempt.reasons.iter().for_each(|&reason| line(format!("     {}", why(reason))));
}

fn why(reason: Reason) -> String {
    format!("{reason}: {}", reason.sentence())
}

fn times(forecast: Forecast) -> String {
    format!("first token {}, whole {}", ms(forecast.first_token_us), ms(forecast.finish_us))
}

fn price(micros: u64) -> String {
    format!(", price {:.6}", micros as f64 / 1e6)
}

fn ms(us: u64) -> String {
    format!("{} ms", us.div_ceil(1000))
}

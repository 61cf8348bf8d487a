//! Calls that share one budget, and what would come of waiting for room.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use common::{deadline, device, devices, far, policy, signals, view};
use terrace_contract::policy::{Chain, Degrade, OnMiss, OverflowMode, Policy, Weights};
use terrace_contract::reason::Reason;
use terrace_decide::complexity::{self, Prompt};
use terrace_decide::{Attempt, FleetView, Hop, Outcome, Plan, Prefer, Refusal, Signals, decide};

const CHAIN: Chain = Chain { max_hops: 12, total_us: 5_000_000 };

/// A call of a chain that has been going on for so long.
fn hop(number: u32, elapsed_ms: u64, on_miss: OnMiss) -> Signals {
    let hop = Hop { structured: true, ..Hop::of(&CHAIN, number, elapsed_ms * 1000, 0) };
    let deadline = deadline(1_000, 4_000, on_miss).map(|deadline| deadline.within(hop.left_us));
    Signals { hop: Some(hop), deadline, expected_output_tokens: 8, likely_output_tokens: 16, ..signals() }
}

fn tiers(plan: &Plan) -> Vec<&str> {
    plan.attempts.iter().map(|attempt| attempt.tier.name.as_str()).collect()
}

fn refusal(plan: &Plan) -> &Refusal {
    match &plan.outcome {
        Outcome::Refuse(refusal) => refusal,
        Outcome::Go => panic!("not refused: {:?}", tiers(plan)),
    }
}

#[test]
fn past_its_calls_or_its_time_a_chain_is_refused_and_told_which() {
    for on_miss in [OnMiss::Overflow, OnMiss::Reject] {
        let calls = decide(&hop(13, 0, on_miss), &view(), &policy(), 0.0);
        assert_eq!(
            (refusal(&calls), refusal(&calls).code()),
            (&Refusal::ChainHops { max_hops: 12 }, "budget_exceeded")
        );
        assert!(refusal(&calls).to_string().contains("spec.chain.maxHops"));
        let time = decide(&hop(3, 5_000, on_miss), &view(), &policy(), 0.0);
        assert_eq!(refusal(&time), &Refusal::ChainTime { total_us: 5_000_000 });
        assert!(refusal(&time).to_string().contains("5000 ms (LatencyBudget spec.chain.total)"));
        // The controls: the last call of the chain, at the last moment that leaves time for an answer.
        assert_eq!(decide(&hop(12, 4_000, on_miss), &view(), &policy(), 0.0).outcome, Outcome::Go);
    }
}

#[test]
fn with_degrade_a_call_past_its_chain_is_answered_by_the_nearest_tier_and_marked() {
    for (number, elapsed, reason) in [(13, 0, Reason::ChainHops), (3, 5_000, Reason::ChainTime)] {
        let quality = Signals { prefer: Some(Prefer::Quality), ..hop(number, elapsed, OnMiss::Degrade) };
        let plan = decide(&quality, &view(), &policy(), 0.0);
        assert_eq!(tiers(&plan), ["edge", "private", "cloud"]);
        let marked = |attempt: &Attempt| attempt.degraded && attempt.reasons == [reason, Reason::Degraded];
        assert!(plan.attempts.iter().all(marked), "{:?}", plan.attempts);
        assert_eq!(plan.decided.as_ref().map(|tier| tier.name.as_str()), Some("cloud"));
        let fail = Policy { degrade: Degrade::Fail, ..policy() };
        assert_eq!(
            tiers(&decide(&quality, &view(), &fail, 0.0))[0],
            "cloud",
            "a nearer answer is not wanted: it is late"
        );
    }
}

/// A cloud that is far away, and nearly as cheap and as quick as the devices beside that.
fn far_cloud() -> (FleetView, Policy) {
    let mut view = view();
    view.tiers.remove(1);
    far(&mut view, 1).rtt_us = Some(200_000);
    std::sync::Arc::make_mut(&mut view.tiers[1].tier).cost = Default::default();
    let weights = Weights { quality: 50, latency: 50, cost: 0, privacy: 0, availability: 0 };
    (view, Policy { weights, ..policy() })
}

#[test]
fn a_short_structured_call_of_a_chain_stays_near() {
    let (view, policy) = far_cloud();
    let call = hop(2, 100, OnMiss::Overflow);
    let alone = Signals { hop: None, ..call.clone() };
    assert_eq!(tiers(&decide(&alone, &view, &policy, 0.0))[0], "cloud", "a call of its own is worth the way");
    assert_eq!(tiers(&decide(&call, &view, &policy, 0.0))[0], "edge");
    // What is asked in words, or has a long answer, is weighed as ever.
    let mut prose = call.clone();
    prose.hop.as_mut().unwrap().structured = false;
    let long = Signals { likely_output_tokens: 1_000, ..call.clone() };
    for other in [prose, long] {
        assert!(!other.is_step());
        let quality = decide(&other, &view, &policy, 0.0).scores[0].quality;
        assert!(quality < decide(&call, &view, &policy, 0.0).scores[0].quality);
    }
    // Nor does it go against what its caller or its policy asks for.
    let quality = Signals { prefer: Some(Prefer::Quality), ..call };
    assert_eq!(tiers(&decide(&quality, &view, &policy, 0.0))[0], "cloud");
}

#[test]
fn the_less_a_chain_has_left_the_more_the_way_counts() {
    let (view, policy) = far_cloud();
    let latency = |elapsed| {
        let scores = decide(&hop(2, elapsed, OnMiss::Overflow), &view, &policy, 0.0).scores;
        scores[0].latency - scores.last().unwrap().latency
    };
    assert!(latency(2_500) > 1.5 * latency(0), "{} {}", latency(2_500), latency(0));
}

#[test]
fn a_transcript_and_its_tools_do_not_make_a_step_hard() {
    let judge = |last_user, step| {
        complexity::judge(&policy().complexity, &Prompt { last_user, prompt_tokens: 3_000, tools: 9, step }).complex
    };
    assert!(judge("go on", false) && !judge("go on", true));
    assert!(judge("prove the theorem", true), "its words still do");
}

#[test]
fn what_is_full_says_what_would_come_of_waiting() {
    let mut busy = view();
    *devices(&mut busy) = vec![device("a", 4, 4), device("b", 4, 4)];
    far(&mut busy, 1).concurrency_left = Some(0);
    far(&mut busy, 2).cooling_until_us = busy.now_us + 7_000_000;
    let plan = decide(&signals(), &busy, &policy(), 0.0);
    assert!(matches!(refusal(&plan), Refusal::Overloaded { .. }));
    let room = plan.room.unwrap();
    assert!(0.0 < room.until_us && room.until_us < room.first_token_us && room.first_token_us < room.finish_us);
    assert!(room.first_token_us < 7_000_000.0, "the private tier, not the cloud in its pause: {room:?}");
    assert!(room.after(3).finish_us > room.after(1).finish_us);

    // Without overflow only the tier itself is waited for, and a tier that is down is not waited for at all.
    let stay = Policy {
        overflow: terrace_contract::policy::Overflow { mode: OverflowMode::Disabled, max_percent: 100 },
        ..policy()
    };
    assert!(decide(&signals(), &busy, &stay, 0.0).room.unwrap().first_token_us > room.first_token_us);
    let mut down = view();
    devices(&mut down).clear();
    (far(&mut down, 1).credential, far(&mut down, 2).credential) = (false, false);
    assert_eq!(decide(&signals(), &down, &policy(), 0.0).room, None);
    assert_eq!(decide(&signals(), &view(), &policy(), 0.0).room, None);
}

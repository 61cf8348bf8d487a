//! A second attempt beside one whose first token is late.

use crate::support::{Act, Scripted, World, client, post, question, stream, streamed, until};
use terrace_contract::policy::{Hedge, HedgeMode, OnMiss};
use terrace_contract::trust::Boundary;
use terrace_decide::hedge::ENOUGH;

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_late_first_token_is_answered_by_another_device_and_the_first_attempt_ends() {
    for streams in [true, false] {
        let mut slow = (Scripted::new("small", 8, Act::Say("one")), "one");
        let mut fast = (Scripted::new("small", 8, Act::Say("two")), "two");
        let mut world = World::new();
        world.agents("edge", Boundary::Device, &[&slow.0, &fast.0]).await;
        world.snapshot.policy.hedge = Hedge { mode: HedgeMode::Free, percentile: 95 };
        world.start().await;
        let ask = async |listen| {
            if streams {
                let events = stream(listen, CHAT, &[], &streamed("hi")).await;
                let reasons = events.headers["x-terrace-reason"].to_str().unwrap().to_owned();
                return (client::text(&events.rest().await), reasons);
            }
            let reply = post(listen, CHAT, &[], &question("hi")).await;
            (reply.content(), reply.header("x-terrace-reason").to_owned())
        };
        for _ in 0..ENOUGH {
            ask(world.listen).await;
        }
        slow.0.always(Act::Stall);
        // On a busy machine the quick device may seem late too: then the second attempt is the one that loses.
        let won = "terrace_hedges_total{tier=\"edge\",outcome=\"won\"} ";
        let mut hedged = 0;
        for _ in 0..100 {
            if world.metrics().contains(won) {
                break;
            }
            let (text, reasons) = ask(world.listen).await;
            assert_eq!(text, fast.1);
            if reasons.contains("hedged") {
                hedged += 1;
            } else {
                // The quick one was asked first, and may be for ever by what has been measured: now it is the slow one.
                slow.0.always(Act::Say(slow.1));
                std::mem::swap(&mut slow, &mut fast);
                slow.0.always(Act::Stall);
            }
        }
        assert!(hedged > 0 && world.metrics().contains(won), "{hedged}");
        until("the first attempt is cancelled at its device", || slow.0.cancelled() > 0 && slow.0.running() == 0).await;
        world.until_metrics("terrace_attempts_total{tier=\"edge\",outcome=\"outrun\"} ").await;
        world.until_metrics("terrace_requests_in_flight 0").await;
    }
}

#[tokio::test]
async fn a_tier_with_a_price_is_asked_beside_another_only_where_the_policy_says_any_and_never_past_a_boundary() {
    for (mode, class, goes) in
        [(HedgeMode::Any, "Public", true), (HedgeMode::Free, "Public", false), (HedgeMode::Any, "Restricted", false)]
    {
        let (edge, cloud) = (Scripted::new("small", 8, Act::Say("near")), Scripted::new("big", 8, Act::Say("far")));
        let mut world = World::new();
        world.agents("edge", Boundary::Device, &[&edge]).await;
        world.endpoint("cloud", Boundary::Public, &cloud).await;
        world.snapshot.policy.hedge = Hedge { mode, percentile: 95 };
        world.budget("soon", &["soon"], 2_000, 3_000, OnMiss::Overflow);
        world.start().await;
        for _ in 0..ENOUGH {
            assert_eq!(post(world.listen, CHAT, &[], &question("hi")).await.content(), "near");
        }
        edge.always(Act::Stall);
        let headers = [("x-terrace-class", class), ("x-terrace-feature", "soon")];
        let reply = post(world.listen, CHAT, &headers, &question("hi")).await;
        let won = world.metrics().contains("terrace_hedges_total{tier=\"cloud\",outcome=\"won\"} ");
        let told = reply.header("x-terrace-reason").contains("hedged");
        assert_eq!((won, told), (goes, goes), "{mode:?} {class}: {reply:?}");
        if goes {
            assert_eq!((reply.content().as_str(), reply.header("x-terrace-tier")), ("far", "cloud"));
        }
        if class == "Restricted" {
            assert_eq!((reply.status.as_u16(), cloud.count()), (504, 0), "{reply:?}");
        }
    }
}

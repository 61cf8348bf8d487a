//! Texts that are only read: their hidden states, beside whatever else the engine does. And what it says of answers:
//! confidence by the model's own distribution.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/asking.rs"]
mod asking;
#[path = "support/device.rs"]
mod device;
#[path = "support/tiny.rs"]
mod tiny;

use std::time::Duration;

use asking::{ask, collect, engine, idle, model};
use device::Device;
use terrace_agent::engine::{Engine, EngineConfig, GenerateRequest, HiddenStates, Refused, Sampling};
use terrace_agent::model::{Feed, Pooling, Rows, Wanted};

/// Some text of this length; those of one `kind` begin alike.
fn text(kind: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| (i * 53 + kind * 101 + 7) % 256).collect()
}

fn pooled(tokens: Vec<u32>, pooling: Pooling) -> GenerateRequest {
    GenerateRequest { hidden: Some(pooling), ..GenerateRequest::new(tokens, 0) }
}

/// Each by an engine that has seen nothing else.
async fn alone(texts: &[Vec<u32>], pooling: Pooling) -> Vec<HiddenStates> {
    let mut states = Vec::new();
    for tokens in texts {
        states.push(ask(&engine(EngineConfig::default()), pooled(tokens.clone(), pooling)).await.hidden.unwrap());
    }
    states
}

#[tokio::test]
async fn several_texts_go_in_one_step_and_each_is_pooled_as_alone() {
    let device = Device::new();
    // Time for all of them.
    let step_limit = Duration::from_secs(1);
    let config = EngineConfig { max_sequences: 4, step_limit, clock: device.clock(), ..EngineConfig::default() };
    let handle = Engine::start(device.carry(model(4, None)), config).unwrap();
    let texts: Vec<Vec<u32>> = (0..4).map(|i| text(i, 4 + i as usize)).collect();
    for pooling in [Pooling::MeanAndLast, Pooling::Last] {
        let expected = alone(&texts, pooling).await;
        let before = device.steps().len();
        device.permit(0);
        let events: Vec<_> = texts.iter().map(|t| handle.submit(pooled(t.clone(), pooling)).unwrap().1).collect();
        device.open();
        for (events, expected) in events.into_iter().zip(expected) {
            let answer = collect(events).await;
            let usage = answer.done().usage;
            assert_eq!((usage.completion, answer.text.as_str()), (0, ""));
            assert_eq!(answer.hidden, Some(expected), "{pooling:?}");
        }
        let steps = &device.steps()[before..];
        // One step may have begun before all were there; the next takes the rest.
        assert!(steps.len() <= 2, "{steps:?}");
        idle(&handle).await;
    }
}

#[tokio::test]
async fn a_text_that_gives_its_memory_back_is_pooled_as_if_nothing_had_happened() {
    let texts = [text(2, 140)];
    let expected = alone(&texts, Pooling::MeanAndLast).await;
    let device = Device::new();
    let config = EngineConfig { max_sequences: 2, prefill_chunk: 1, clock: device.clock(), ..EngineConfig::default() };
    // Room for the text beside a sequence that begins with six blocks, and for one block more. They take turns, so the
    // sequence has long decoded when the text is through.
    let handle = Engine::start(device.carry(model(2, Some(16))), config).unwrap();
    device.permit(0);
    let (_, answer) = handle.submit(GenerateRequest::new(text(1, 95), 100)).unwrap();
    let (_, reading) = handle.submit(pooled(texts[0].clone(), Pooling::MeanAndLast)).unwrap();
    device.open();
    let found = collect(reading).await;
    assert_eq!(found.hidden.as_ref(), Some(&expected[0]));
    assert!(collect(answer).await.done().usage.completion > 22);
    assert!(handle.stats().preemptions > 0, "nothing was tested");
    idle(&handle).await;
}

#[tokio::test]
async fn a_corpus_leaves_the_beginnings_of_chats_in_the_cache() {
    let handle = Engine::start(model(1, Some(16)), EngineConfig::default()).unwrap();
    let chat = || GenerateRequest::new(text(1, 70), 2);
    ask(&handle, chat()).await;
    for kind in 10..40 {
        ask(&handle, pooled(text(kind, 150), Pooling::MeanAndLast)).await;
    }
    assert_eq!(ask(&handle, chat()).await.done().usage.cached, 64);
    assert_eq!(handle.stats().evictions, 0);
    // One that is answered as well is a prompt like any other.
    let both = GenerateRequest { hidden: Some(Pooling::MeanAndLast), ..GenerateRequest::new(text(3, 70), 2) };
    ask(&handle, both).await;
    assert_eq!(ask(&handle, GenerateRequest::new(text(3, 70), 2)).await.done().usage.cached, 64);
    idle(&handle).await;
}

#[tokio::test]
async fn a_text_may_fill_the_context_and_an_answer_needs_room() {
    let handle = engine(EngineConfig::default());
    let limit = tiny::CONTEXT as usize;
    for pooling in [Pooling::MeanAndLast, Pooling::Last] {
        let states = ask(&handle, pooled(text(1, limit), pooling)).await.hidden.unwrap();
        assert_eq!((states.last.len(), states.mean.is_some()), (tiny::WIDTH, pooling == Pooling::MeanAndLast));
    }
    let too_long = |tokens| Err(Refused::ContextTooLong { tokens, limit });
    let refused = |request| handle.submit(request).map(|_| ());
    assert_eq!(refused(pooled(text(1, limit + 1), Pooling::Last)), too_long(limit + 1));
    assert_eq!(refused(GenerateRequest::new(text(1, limit), 1)), too_long(limit));
    assert_eq!(handle.model().width, tiny::WIDTH);
    idle(&handle).await;
}

/// Temperature, filters and penalties change what is said and nothing of how sure the model is of it.
#[tokio::test]
async fn confidence_is_of_the_distribution_before_temperature_filters_and_penalties() {
    let handle = engine(EngineConfig::default());
    let prompt = text(4, 20);
    let sampling = Sampling {
        temperature: 1.8,
        top_k: 40,
        presence_penalty: 1.5,
        repetition_penalty: 1.3,
        seed: Some(3),
        ..Sampling::default()
    };
    let answer = ask(&handle, GenerateRequest { sampling, ..GenerateRequest::new(prompt.clone(), 60) }).await;
    let ids = answer.ids();
    assert!(ids.len() >= 20, "{} tokens", ids.len());

    // The same tokens through the network, and the definitions in 64 bits.
    let mut network = model(1, None).network;
    let blocks: Vec<u32> = (0..16).collect();
    let wanted = Wanted { logits: Rows::All, hidden: None };
    let mut rows = Vec::new();
    // As the engine has them: a prompt's last two blocks are computed as an answer's.
    let (begin, end) = prompt.split_at(((prompt.len() - 1) / 16).saturating_sub(1) * 16);
    let parts = [(begin, 0, begin.len()), (end, begin.len(), 0), (&ids[..], prompt.len(), 0)];
    for (tokens, position, prompt) in parts.into_iter().filter(|(tokens, ..)| !tokens.is_empty()) {
        rows.extend(network.step(&[Feed { blocks: &blocks, tokens, position, prompt, wanted }]).remove(0).logits);
    }
    let (mut logprobs, mut entropy, mut margin) = (Vec::new(), 0.0, 0.0);
    for (row, id) in rows[prompt.len() - 1..].iter().zip(&ids) {
        let largest = row.iter().copied().fold(f32::MIN, f32::max);
        let weights: Vec<f64> = row.iter().map(|x| f64::from(x - largest).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut probabilities: Vec<f64> = weights.iter().map(|w| w / total).collect();
        logprobs.push(probabilities[*id as usize].ln());
        entropy -= probabilities.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>();
        probabilities.sort_by(|a, b| b.total_cmp(a));
        margin += probabilities[0] - probabilities[1];
    }
    let count = ids.len() as f64;
    logprobs.sort_by(f64::total_cmp);
    // Nearest rank.
    let percentile = |p: f64| logprobs[((p / 100.0 * count).ceil().max(1.0) as usize).min(logprobs.len()) - 1];
    let found = answer.done().confidence.unwrap();
    for (name, found, expected) in [
        ("mean", found.mean, logprobs.iter().sum::<f64>() / count),
        ("min", found.min, logprobs[0]),
        ("p05", found.p05, percentile(5.0)),
        ("p10", found.p10, percentile(10.0)),
        ("p25", found.p25, percentile(25.0)),
        ("p50", found.p50, percentile(50.0)),
        ("entropy", found.entropy, entropy / count),
        ("margin", found.margin, margin / count),
    ] {
        assert!((found - expected).abs() < 1e-4, "{name}: {found}, not {expected}");
    }
    assert_eq!(found.tokens as usize, ids.len());
    // The control: the likeliest was not always taken.
    assert!(found.min < -2.0, "{found:?}");
}

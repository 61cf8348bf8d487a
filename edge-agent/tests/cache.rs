//! The KV cache from outside: what is computed once is found again by whoever may find it, memory has a limit, and
//! neither changes what is said.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/asking.rs"]
mod asking;
#[path = "support/tiny.rs"]
mod tiny;

use asking::{ask, collect, engine, idle, model};
use terrace_agent::device::Cpu;
use terrace_agent::engine::{CacheDomain, Engine, EngineConfig, FinishReason, GenerateRequest, Sampling};
use terrace_agent::model::{BLOCK_TOKENS, Feed, Pooling, Rows, Wanted};

/// Some prompt of this length; those of one `kind` begin alike.
fn prompt(kind: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| (i * 53 + kind * 101 + 7) % 256).collect()
}

#[tokio::test]
async fn a_prefix_is_computed_once_and_the_text_is_the_same_to_the_bit() {
    let handle = engine(EngineConfig::default());
    let cold = ask(&handle, GenerateRequest::new(prompt(1, 100), 30)).await;
    let warm = ask(&handle, GenerateRequest::new(prompt(1, 100), 30)).await;
    assert_eq!((cold.done().usage.cached, warm.done().usage.cached), (0, 96));
    assert_eq!(warm.tokens, cold.tokens);
    assert_eq!(warm.text, cold.text);

    // The next turn of a chat: prompt and answer so far, and more. The answer's blocks are found too.
    let mut turn = prompt(1, 100);
    turn.extend(cold.ids());
    turn.extend(prompt(9, 20));
    let history = ask(&handle, GenerateRequest::new(turn.clone(), 10)).await;
    // All but the answer's last token went through the network.
    let went_through = 100 + cold.ids().len() - 1;
    assert_eq!(history.done().usage.cached as usize, went_through / BLOCK_TOKENS * BLOCK_TOKENS);
    let fresh = engine(EngineConfig::default());
    let again = ask(&fresh, GenerateRequest::new(turn, 10)).await;
    // With AMX, what was said is computed otherwise when it comes back as a prompt: nearly the same, not the same bits.
    if Cpu::detect() != Cpu::Amx {
        assert_eq!(again.tokens, history.tokens);
    }

    // Partly shared: up to the block where they part.
    let mut parting = prompt(1, 100);
    parting[70] = 3;
    assert_eq!(ask(&handle, GenerateRequest::new(parting, 1)).await.done().usage.cached, 64);
    idle(&handle).await;
}

#[tokio::test]
async fn nobody_finds_what_another_domain_asked() {
    let handle = engine(EngineConfig::default());
    let of = |name: &str| GenerateRequest {
        cache: CacheDomain::of(&[name.as_bytes()]),
        ..GenerateRequest::new(prompt(1, 80), 2)
    };
    let cached = async |name| ask(&handle, of(name)).await.done().usage.cached;
    assert_eq!([cached("a").await, cached("b").await, cached("a").await, cached("b").await], [0, 0, 64, 64]);
}

#[tokio::test]
async fn several_that_begin_alike_compute_it_once_even_at_once() {
    let handle = engine(EngineConfig { max_sequences: 4, ..EngineConfig::default() });
    let all: Vec<_> = (0..4)
        .map(|i| {
            let mut tokens = prompt(1, 128);
            tokens.extend(prompt(20 + i, 10));
            handle.submit(GenerateRequest::new(tokens, 5)).unwrap().1
        })
        .collect();
    let mut cached = Vec::new();
    for events in all {
        cached.push(collect(events).await.done().usage.cached);
    }
    cached.sort_unstable();
    assert_eq!(cached, [0, 128, 128, 128]);
    idle(&handle).await;
}

/// A cache for one long sequence, shared by several: they take turns, none is lost, and each says what it says alone.
#[tokio::test]
async fn memory_is_a_limit_and_who_is_preempted_says_the_same() {
    let blocks = 16;
    let config = EngineConfig { max_sequences: 6, queue_limit: 20, ..EngineConfig::default() };
    let small = Engine::start(model(6, Some(blocks)), config).unwrap();
    assert_eq!(small.load().total_kv_blocks, blocks);
    let alone = engine(EngineConfig::default());
    let requests: Vec<GenerateRequest> = (0..12u32)
        .map(|i| GenerateRequest {
            sampling: Sampling { temperature: 0.8, seed: Some(u64::from(i)), ..Sampling::default() },
            ..GenerateRequest::new(prompt(i, 20 + 7 * i as usize), 100)
        })
        .collect();
    let all: Vec<_> = requests.iter().map(|r| small.submit(r.clone()).unwrap().1).collect();
    for (request, events) in requests.into_iter().zip(all) {
        let answer = collect(events).await;
        let expected = ask(&alone, request).await;
        assert_eq!(answer.tokens, expected.tokens);
        assert_eq!(answer.done().finish_reason, expected.done().finish_reason);
    }
    let stats = small.stats();
    assert!(stats.preemptions > 0 && stats.evictions > 0, "room for all, so nothing was tested: {stats:?}");
    idle(&small).await;
    // The longest that fits still does, after all that.
    let longest = ask(&small, GenerateRequest::new(prompt(3, 200), 1000)).await;
    assert!(longest.done().finish_reason == FinishReason::Length || longest.done().usage.completion < 56);
    assert!(longest.done().usage.prompt + longest.done().usage.completion <= 256);
    idle(&small).await;
}

#[tokio::test]
async fn choices_share_their_prompt_and_each_says_what_it_says_alone() {
    let warm = |seed| GenerateRequest {
        sampling: Sampling { temperature: 1.0, seed: Some(seed), ..Sampling::default() },
        ..GenerateRequest::new(prompt(4, 75), 40)
    };
    let alone = engine(EngineConfig::default());
    let mut expected = Vec::new();
    for seed in 5..9 {
        expected.push(ask(&alone, warm(seed)).await.tokens);
    }
    assert!(expected[0] != expected[1]);
    // Room for all at once, and for two at a time.
    for slots in [4, 2] {
        let handle = engine(EngineConfig { max_sequences: slots, ..EngineConfig::default() });
        let (_, choices) = handle.submit_choices(warm(5), 4).unwrap();
        for (events, expected) in choices.into_iter().zip(&expected) {
            assert_eq!(&collect(events).await.tokens, expected, "{slots} slots");
        }
        idle(&handle).await;
        // The first choice's client goes; the others do not notice.
        let (_, mut choices) = handle.submit_choices(warm(5), 4).unwrap();
        drop(choices.remove(0));
        drop(choices.remove(1));
        for (events, expected) in choices.into_iter().zip([&expected[1], &expected[3]]) {
            assert_eq!(&collect(events).await.tokens, expected, "{slots} slots, two cancelled");
        }
        idle(&handle).await;
    }
}

#[tokio::test]
async fn hidden_states_are_the_networks_mean_and_last() {
    let tokens = prompt(2, 90);
    let mut network = model(1, None).network;
    let blocks: Vec<u32> = (0..6).collect();
    let wanted = Wanted { logits: Rows::None, hidden: Some(Pooling::MeanAndLast) };
    let prompt = Feed { blocks: &blocks, tokens: &tokens, position: 0, prompt: tokens.len(), wanted };
    let output = network.step(&[prompt]).remove(0);
    let expected = output.hidden.unwrap();

    let handle = engine(EngineConfig { prefill_chunk: 32, ..EngineConfig::default() });
    let asked = |hidden, max_tokens| GenerateRequest {
        hidden: Some(hidden),
        ..GenerateRequest::new(tokens.clone(), max_tokens)
    };
    // All of a prompt whose states are wanted is computed alike; of a chat's, the end is computed as its answer is.
    ask(&handle, asked(Pooling::Last, 3)).await;
    // The mean is over every token, so nothing is taken from the cache; the last needs only itself.
    for (pooling, max_tokens, cached) in
        [(Pooling::MeanAndLast, 0, 0), (Pooling::Last, 0, 80), (Pooling::MeanAndLast, 4, 0)]
    {
        let answer = ask(&handle, asked(pooling, max_tokens)).await;
        let hidden = answer.hidden.as_ref().unwrap();
        assert_eq!(hidden.last, expected.last, "{pooling:?}");
        let usage = answer.done().usage;
        assert_eq!((usage.cached, usage.completion), (cached, max_tokens), "{pooling:?}");
        match &hidden.mean {
            Some(mean) => {
                assert_eq!(pooling, Pooling::MeanAndLast);
                let whole: Vec<f32> = expected.sum.iter().map(|s| (s / 90.0) as f32).collect();
                assert_eq!(mean, &whole);
            }
            None => assert_eq!(pooling, Pooling::Last),
        }
    }
    idle(&handle).await;
}

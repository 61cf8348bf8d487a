use super::*;
use proptest::prelude::*;

fn counts(sampling: Sampling, logits: &[f32], draws: usize) -> Vec<usize> {
    let mut sampler = Sampler::new(Sampling { seed: Some(7), ..sampling }, &[]);
    let mut counts = vec![0; logits.len()];
    for _ in 0..draws {
        counts[sampler.sample(logits, None) as usize] += 1;
    }
    counts
}

#[test]
fn greedy_takes_the_lowest_of_equals() {
    assert_eq!(counts(Sampling::default(), &[0.0, 2.0, 2.0, -1.0], 3), [0, 3, 0, 0]);
}

#[test]
fn draws_follow_the_probabilities() {
    let logits = [0.5f32.ln(), 0.3f32.ln(), 0.2f32.ln()];
    let drawn = counts(Sampling { temperature: 1.0, ..Sampling::default() }, &logits, 20_000);
    for (count, share) in drawn.iter().zip([0.5, 0.3, 0.2]) {
        assert!((*count as f64 / 20_000.0 - share).abs() < 0.015, "{drawn:?}");
    }
}

#[test]
fn filters_leave_only_what_they_allow() {
    let logits = [0.5f32.ln(), 0.3f32.ln(), 0.15f32.ln(), 0.05f32.ln()];
    let hot = Sampling { temperature: 1.0, ..Sampling::default() };
    assert_eq!(counts(Sampling { top_k: 2, ..hot.clone() }, &logits, 500)[2..], [0, 0]);
    assert_eq!(counts(Sampling { top_p: 0.75, ..hot.clone() }, &logits, 500)[2..], [0, 0]);
    assert_eq!(counts(Sampling { top_p: 0.0, ..hot.clone() }, &logits, 500)[1..], [0, 0, 0]);
    assert_eq!(counts(Sampling { min_p: 0.2, ..hot.clone() }, &logits, 500)[3..], [0]);
    assert!(counts(hot, &logits, 500).iter().all(|c| *c > 0));
}

#[test]
fn the_same_seed_draws_the_same() {
    let logits: Vec<f32> = (0..50).map(|i| (i as f32 * 0.7).sin()).collect();
    let draw = |seed| {
        let mut s = Sampler::new(Sampling { temperature: 1.3, seed: Some(seed), ..Sampling::default() }, &[]);
        (0..40).map(|_| s.sample(&logits, None)).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn penalties_push_down_what_was_said() {
    let sampling = Sampling { presence_penalty: 5.0, ..Sampling::default() };
    let mut s = Sampler::new(sampling, &[]);
    let said: Vec<u32> = (0..3).map(|_| s.sample(&[3.0, 2.0, 1.0], None)).collect();
    assert_eq!(said, [0, 1, 2]);
    let mut s = Sampler::new(Sampling { repetition_penalty: 4.0, ..Sampling::default() }, &[0]);
    assert_eq!(s.sample(&[3.0, 2.0, 1.0], None), 1);
    // Once costs 1.5, twice 3: the second token is said twice before the third is better than either.
    let mut s = Sampler::new(Sampling { frequency_penalty: 1.5, ..Sampling::default() }, &[]);
    let said: Vec<u32> = (0..4).map(|_| s.sample(&[3.0, 2.9, 0.5], None)).collect();
    assert_eq!(said, [0, 1, 0, 1]);
}

#[test]
fn a_bias_comes_before_the_penalties() {
    // 1 + 4 halved by the repetition penalty is 2.5; the other way round it would be 4.5 and win.
    let sampling = Sampling { repetition_penalty: 2.0, logit_bias: [(0, 4.0)].into(), ..Sampling::default() };
    assert_eq!(Sampler::new(sampling, &[0]).sample(&[1.0, 3.0], None), 1);
}

#[test]
fn a_mask_without_a_bit_for_any_token_is_none() {
    assert_eq!(Sampler::new(Sampling::default(), &[]).sample(&[1.0, 3.0], Some(&[0])), 1);
    assert_eq!(Sampler::new(Sampling::default(), &[]).sample(&[1.0, 3.0], Some(&[0, 7])), 1);
}

#[test]
fn the_top_is_sorted_and_normalised() {
    let logits = [0.1f32.ln(), 0.6f32.ln(), 0.3f32.ln()];
    let top = top(&logits, 0.0, 2);
    assert_eq!(top.iter().map(|t| t.0).collect::<Vec<_>>(), [1, 2]);
    assert!((top[0].1.exp() - 0.6).abs() < 1e-6);
}

/// What may be drawn, as the definitions say it, with nothing left out or done in passing.
fn by_definition(sampling: &Sampling, logits: &[f32]) -> Vec<u32> {
    let exact: Vec<f64> = logits.iter().map(|x| (f64::from(*x) / f64::from(sampling.temperature)).exp()).collect();
    let total: f64 = exact.iter().sum();
    let mut all: Vec<(u32, f64)> = exact.iter().enumerate().map(|(id, e)| (id as u32, e / total)).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let likeliest = all[0].1;
    all.retain(|(_, p)| *p >= f64::from(sampling.min_p) * likeliest);
    if sampling.top_k > 0 {
        all.truncate(sampling.top_k as usize);
    }
    let left: f64 = all.iter().map(|(_, p)| p).sum();
    let mut sum = 0.0;
    let mut kept = Vec::new();
    for (id, p) in all {
        if sum >= f64::from(sampling.top_p) * left && !kept.is_empty() {
            break;
        }
        sum += p;
        kept.push(id);
    }
    kept
}

/// Logits on a coarse grid, so that no sum of weights lies within rounding of a threshold.
fn logits() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec((-20i8..20).prop_map(|x| f32::from(x) * 0.37), 2..120)
}

fn sampling() -> impl Strategy<Value = Sampling> {
    let filters = (0.3f32..2.0, 0.05f32..1.0, 0u32..40, 0.0f32..0.5);
    let penalties = (0.5f32..2.0, -2.0f32..2.0, -2.0f32..2.0);
    (filters, penalties, any::<u64>()).prop_map(|((temperature, top_p, top_k, min_p), (r, p, f), seed)| Sampling {
        temperature,
        top_p,
        top_k,
        min_p,
        repetition_penalty: r,
        presence_penalty: p,
        frequency_penalty: f,
        logit_bias: Default::default(),
        seed: Some(seed),
    })
}

fn allows(mask: &[u32], id: u32) -> bool {
    mask.get(id as usize / 32).is_some_and(|word| word & (1 << (id % 32)) != 0)
}

proptest! {
    #[test]
    fn candidates_are_those_of_the_definitions(logits in logits(), sampling in sampling()) {
        let found: Vec<u32> = candidates(&sampling, &logits).into_iter().map(|(id, _)| id).collect();
        let expected = by_definition(&sampling, &logits);
        // A threshold may fall exactly between two: then one more or less is right.
        prop_assert!(found.len().abs_diff(expected.len()) <= 1, "{found:?} {expected:?}");
        let both = found.len().min(expected.len());
        prop_assert_eq!(&found[..both], &expected[..both]);
    }

    #[test]
    fn what_is_drawn_is_a_candidate_and_the_mask_is_never_broken(
        logits in logits(), sampling in sampling(), mask in prop::collection::vec(any::<u32>(), 1..4),
    ) {
        let some = (0..logits.len() as u32).any(|id| allows(&mask, id));
        let mut sampler = Sampler::new(sampling.clone(), &[1, 2, 3]);
        let mut greedy = Sampler::new(Sampling { temperature: 0.0, ..sampling }, &[1, 2, 3]);
        for _ in 0..20 {
            let (drawn, best) = (sampler.sample(&logits, Some(&mask)), greedy.sample(&logits, Some(&mask)));
            prop_assert!((drawn as usize) < logits.len() && (best as usize) < logits.len());
            prop_assert!(!some || allows(&mask, drawn) && allows(&mask, best));
        }
    }

    #[test]
    fn a_bias_of_a_hundred_decides(logits in logits(), sampling in sampling(), which in any::<prop::sample::Index>()) {
        let id = which.index(logits.len()) as u32;
        let with = |bias: f32| Sampling { logit_bias: [(id, bias)].into(), repetition_penalty: 1.0, ..sampling.clone() };
        prop_assert_eq!(Sampler::new(with(100.0), &[]).sample(&logits, None), id);
        prop_assert_ne!(Sampler::new(with(-100.0), &[]).sample(&logits, None), id);
    }

    #[test]
    fn a_seed_is_a_text_whatever_the_rest(logits in logits(), sampling in sampling()) {
        let draw = || {
            let mut sampler = Sampler::new(sampling.clone(), &[0]);
            (0..30).map(|_| sampler.sample(&logits, None)).collect::<Vec<_>>()
        };
        prop_assert_eq!(draw(), draw());
    }
}

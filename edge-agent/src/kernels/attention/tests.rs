use super::*;

const HEADS: usize = 4;
const KV_HEADS: usize = 2;

/// Queries, keys and values of some rows, made up.
fn projections(a: &Attention, rows: usize, seed: f32) -> Vec<f32> {
    (0..rows * a.row()).map(|i| (i as f32 * 0.61 + seed).sin() * (1.0 + (i % 7) as f32 * 0.3)).collect()
}

fn angles(a: &Attention, positions: usize) -> Vec<f32> {
    (0..positions)
        .flat_map(|p| {
            let half = a.width / 2;
            let angle = move |i: usize| p as f32 * 100f32.powf(-2.0 * i as f32 / a.width as f32);
            (0..half).map(move |i| angle(i).cos()).chain((0..half).map(move |i| angle(i).sin()))
        })
        .collect()
}

/// The textbook: rotate, score against everything up to oneself (or as far back as the window), softmax, sum. For the
/// rows from `first` on.
fn reference(a: &Attention, qkv: &[f32], angles: &[f32], first: usize) -> Vec<f64> {
    let rows = qkv.len() / a.row();
    let head = |row: usize, head: usize| &qkv[row * a.row() + head * a.width..][..a.width];
    let rotated = |row: usize, h: usize| {
        let mut to = vec![0.0; a.width];
        rotate(a.style, head(row, h), &angles[row * a.width..(row + 1) * a.width], 1.0, &mut to);
        to
    };
    let keys: Vec<Vec<Vec<f32>>> =
        (0..a.kv_heads).map(|kv| (0..rows).map(|row| rotated(row, a.heads + kv)).collect()).collect();
    let mut out = Vec::new();
    for row in first..rows {
        for h in 0..a.heads {
            let kv = h * a.kv_heads / a.heads;
            let q = rotated(row, h);
            let seen = a.visible(row);
            let score = |s: usize| -> f64 {
                let dot: f64 = q.iter().zip(&keys[kv][s]).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                dot * f64::from(a.scale)
            };
            let scores: Vec<f64> = seen.clone().map(score).collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let scores: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
            let total: f64 = scores.iter().sum();
            out.extend((0..a.width).map(|i| {
                let value = |s: usize| f64::from(head(s, a.heads + a.kv_heads + kv)[i]);
                seen.clone().zip(&scores).map(|(s, w)| w / total * value(s)).sum::<f64>()
            }));
        }
    }
    out
}

/// What comes out when the rows go in as chunks of these lengths, all as a prompt's or as an answer's, beside another
/// sequence that is ahead or behind and the other way.
fn run(a: &Attention, qkv: &[f32], angles: &[f32], chunks: &[usize], beside: bool, prompt: bool) -> Vec<f32> {
    let rows = qkv.len() / a.row();
    let blocks = rows.div_ceil(BLOCK_TOKENS) as u32;
    // In no order, and the old content is of no account.
    let own: Vec<u32> = (0..blocks).map(|i| 2 * (i ^ 1)).collect();
    let others: Vec<u32> = (0..blocks).rev().map(|i| 2 * i + 1).collect();
    let size = 2 * (blocks as usize + 1) * a.block();
    let (mut keys, mut values) = (vec![f16::NAN; size], vec![f16::NAN; size]);
    let other = projections(a, rows, 9.0);
    let (mut position, mut found) = (0, Vec::new());
    for (turn, &len) in chunks.iter().enumerate() {
        let part = |x: &[f32]| x[position * a.row()..(position + len) * a.row()].to_vec();
        let mut spans = vec![Span { blocks: &own, position, len, prompt }];
        let mut batch = part(qkv);
        if beside {
            let at = if turn % 2 == 0 { 0 } else { 1 };
            spans.insert(at, Span { blocks: &others, position, len, prompt: !prompt });
            batch = if at == 0 { [part(&other), batch].concat() } else { [batch, part(&other)].concat() };
        }
        let turns = angles[position * a.width..(position + len) * a.width].repeat(spans.len());
        let mut out = vec![0.0; batch.len() / a.row() * a.heads * a.width];
        a.run(&batch, &spans, &turns, &mut keys, &mut values, &mut out);
        let own = len * a.heads * a.width;
        let at = if beside && turn % 2 == 0 { out.len() - own } else { 0 };
        found.extend_from_slice(&out[at..at + own]);
        position += len;
    }
    assert_eq!(position, rows);
    found
}

/// Lengths that add up to `rows`, of many sizes and none a stretch's.
fn uneven(rows: usize) -> Vec<usize> {
    let (mut chunks, mut left) = (Vec::new(), rows);
    for len in [1, 30, 3, 100, 1, 1, 77, 2, 5].into_iter().cycle() {
        chunks.push(len.min(left));
        left -= chunks[chunks.len() - 1];
        if left == 0 {
            return chunks;
        }
    }
    chunks
}

#[test]
fn it_is_the_textbooks_and_the_same_bits_whatever_the_chunks_and_the_company() {
    for (width, rows, style, window) in [
        (64, 600, RotaryStyle::Interleaved, None),
        (64, 300, RotaryStyle::Halves, Some(5)),
        (32, 560, RotaryStyle::Halves, Some(270)),
        (12, 300, RotaryStyle::Halves, None),
        (16, 40, RotaryStyle::Interleaved, Some(21)),
    ] {
        let a = Attention { heads: HEADS, kv_heads: KV_HEADS, width, scale: 0.1, window, style };
        let (qkv, angles) = (projections(&a, rows, 0.0), angles(&a, rows));
        // Around the borders of stretches, and the end.
        let first = rows.saturating_sub(50);
        let expected = reference(&a, &qkv, &angles, first);
        for prompt in [false, true] {
            let whole = run(&a, &qkv, &angles, &[rows], false, prompt);
            let found = &whole[first * a.heads * a.width..];
            for (f, e) in found.iter().zip(&expected) {
                assert!((f64::from(*f) - e).abs() < 4e-3, "{a:?}, prompt: {prompt}: {f} {e}");
            }
            for beside in [false, true] {
                let parts = run(&a, &qkv, &angles, &uneven(rows), beside, prompt);
                let same = parts.iter().zip(&whole).all(|(p, w)| p.to_bits() == w.to_bits());
                assert!(same && parts.len() == whole.len(), "{a:?}, prompt: {prompt}, beside: {beside}");
            }
            let single = run(&a, &qkv, &angles, &vec![1; rows], true, prompt);
            let same = single.iter().zip(&whole).all(|(p, w)| p.to_bits() == w.to_bits());
            assert!(same, "{a:?}, prompt: {prompt}, row by row");
        }
    }
}

#[test]
fn heads_of_one_group_need_not_fill_a_tile() {
    for (heads, kv_heads) in [(9, 3), (8, 1), (7, 7), (5, 1)] {
        let a = Attention { heads, kv_heads, width: 32, scale: 0.2, window: None, style: RotaryStyle::Halves };
        let (qkv, angles) = (projections(&a, 70, 1.0), angles(&a, 70));
        let expected = reference(&a, &qkv, &angles, 0);
        for prompt in [false, true] {
            let whole = run(&a, &qkv, &angles, &[70], false, prompt);
            for (f, e) in whole.iter().zip(&expected) {
                assert!((f64::from(*f) - e).abs() < 4e-3, "{heads}/{kv_heads}, prompt: {prompt}: {f} {e}");
            }
            let parts = run(&a, &qkv, &angles, &uneven(70), true, prompt);
            let same = parts.iter().zip(&whole).all(|(p, w)| p.to_bits() == w.to_bits());
            assert!(same, "{heads}/{kv_heads}, prompt: {prompt}");
        }
    }
}

/// Scores so far apart that weights vanish: nothing becomes a number that is none.
#[test]
fn large_scores_stay_numbers() {
    let a = Attention { heads: 1, kv_heads: 1, width: 32, scale: 40.0, window: None, style: RotaryStyle::Halves };
    let (qkv, angles) = (projections(&a, 530, 2.0), angles(&a, 530));
    for prompt in [false, true] {
        let whole = run(&a, &qkv, &angles, &[530], false, prompt);
        assert!(whole.iter().all(|x| x.abs() < 3.0), "a mean is inside what it is of");
        let parts = run(&a, &qkv, &angles, &uneven(530), false, prompt);
        assert!(parts.iter().zip(&whole).all(|(p, w)| p.to_bits() == w.to_bits()));
    }
}

/// With the processor's tiles, where it has them, every number is what the wider registers give, as near as sixteen bits
/// of a factor can tell.
#[test]
fn tiles_give_what_registers_give() {
    for (width, window) in [(64, None), (32, Some(40)), (96, Some(300)), (256, None)] {
        let style = RotaryStyle::Halves;
        let a = Attention { heads: 6, kv_heads: 2, width, scale: 1.0 / (width as f32).sqrt(), window, style };
        let (qkv, angles) = (projections(&a, 700, 4.0), angles(&a, 700));
        let [tiles, registers] = [true, false].map(|prompt| run(&a, &qkv, &angles, &[700], false, prompt));
        let square = |x: f64| x * x;
        let off: f64 = tiles.iter().zip(&registers).map(|(t, r)| square(f64::from(t - r))).sum();
        let norm: f64 = registers.iter().map(|r| square(f64::from(*r))).sum();
        let off = (off / norm).sqrt();
        assert!(off < 1e-4, "{width} {window:?}: {off}");
        #[cfg(target_arch = "x86_64")]
        assert!(off > 0.0 || !amx::takes(width), "{width} {window:?}: the tiles were not used");
    }
}

//! What the products reach on this machine: `kernels [THREADS] [CPU]`, for example `kernels 2 avx2`.
//!
//! For every kind of weights: the rate at which one row of activations reads weights that no cache holds, beside the
//! rate at which plain loads read memory in the same run; and what several rows at once compute, from a matrix that the
//! second cache holds, as a prompt's where the processor has something of its own for those. Each figure is the lower quartile of many short runs, since other programs may share the cores.
#![expect(clippy::print_stdout, reason = "its output")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use terrace_agent::device::Cpu;
use terrace_agent::gguf::GgmlType;
use terrace_agent::kernels::{Matrix, set_threads};

/// More than any cache holds, read in pieces: a short run is seldom interrupted.
const LARGE: usize = 128 << 20;
const PIECE: usize = 1 << 20;
const COLUMNS: usize = 1536;
const COUNTS: [usize; 9] = [1, 2, 4, 7, 8, 15, 16, 64, 256];
/// As many rows as this, or more, count as a prompt's.
const PROMPT: usize = 16;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let threads: usize = arguments.next().map_or(Ok(1), |n| n.parse())?;
    if let Some(cpu) = arguments.next() {
        cpu.parse::<Cpu>().and_then(Cpu::choose).map_err(anyhow::Error::msg)?;
    }
    set_threads(threads);
    println!("{} on {threads} threads; memory reads at {:.1} GB/s", Cpu::detect(), memory(threads));
    print!("kind    GB/s |  GFLOP/s of rows at once:");
    COUNTS.iter().for_each(|count| print!(" {count:>6}"));
    println!();
    for kind in GgmlType::ALL {
        print!("{:<6} {:>5.1} | {:25}", kind.to_string(), decode(kind), "");
        COUNTS.iter().for_each(|count| print!(" {:>6.1}", compute(kind, *count)));
        println!();
    }
    Ok(())
}

/// GB/s of plain loads, all threads together.
fn memory(threads: usize) -> f64 {
    let reader = || {
        let data = vec![1u64; LARGE / 8];
        let mut pieces = data.chunks(PIECE / 8).cycle();
        let seconds = quartile(Duration::from_secs(1), || {
            let mut sums = [0u64; 16];
            for numbers in pieces.next().into_iter().flat_map(|piece| piece.chunks_exact(16)) {
                sums.iter_mut().zip(numbers).for_each(|(sum, x)| *sum = sum.wrapping_add(*x));
            }
            black_box(sums);
        });
        PIECE as f64 / seconds / 1e9
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(reader)).collect();
        readers.into_iter().filter_map(|reader| reader.join().ok()).sum()
    })
}

/// GB/s of weights with one row of activations.
fn decode(kind: GgmlType) -> f64 {
    let row = COLUMNS / kind.block_len() * kind.block_bytes();
    let matrices: Vec<_> = (0..LARGE / PIECE).map(|_| matrix(kind, (PIECE / row).next_multiple_of(8))).collect();
    let x = activations(COLUMNS);
    let mut pieces = matrices.iter().cycle();
    let mut out = Vec::new();
    let seconds = quartile(Duration::from_secs(1), || {
        if let Some((matrix, packed)) = pieces.next() {
            out.resize(matrix.rows, 0.0);
            matrix.multiply(packed, &x, 0, &mut out);
        }
    });
    matrices[0].1.len() as f64 / seconds / 1e9
}

/// GFLOP/s of `count` rows of activations: two for each weight.
fn compute(kind: GgmlType, count: usize) -> f64 {
    let (matrix, packed) = matrix(kind, 192);
    let x = activations(count * COLUMNS);
    let mut out = vec![0.0; matrix.rows * count];
    let prompts = if count >= PROMPT { count } else { 0 };
    let seconds = quartile(Duration::from_millis(150), || matrix.multiply(&packed, &x, prompts, &mut out));
    (2 * matrix.rows * COLUMNS * count) as f64 / seconds / 1e9
}

/// Weights of no model: a pattern of bytes whose scales are small numbers.
fn matrix(kind: GgmlType, rows: usize) -> (Matrix, Vec<u8>) {
    let length = rows * COLUMNS / kind.block_len() * kind.block_bytes();
    let bytes: Vec<u8> = (0..length).map(|i| (i * 7 % 33) as u8).collect();
    Matrix::pack(kind, &bytes, rows, COLUMNS)
}

fn activations(length: usize) -> Vec<f32> {
    (0..length).map(|i| (i as f32 * 0.77).sin()).collect()
}

/// Seconds that a quarter of the runs stay under.
fn quartile(budget: Duration, mut run: impl FnMut()) -> f64 {
    run();
    let began = Instant::now();
    let mut times = Vec::new();
    while began.elapsed() < budget || times.len() < 8 {
        let start = Instant::now();
        run();
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 4]
}

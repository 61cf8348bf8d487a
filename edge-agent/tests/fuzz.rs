//! The fuzz targets over their corpus and seeded changes of it: a short form of `make fuzz`, on every run of the tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "../../fuzz/src/targets.rs"]
mod targets;
#[path = "support/tiny.rs"]
mod tiny;

use std::path::Path;

/// Changed inputs of each target.
const CHANGES: usize = 2000;
const SEED: u64 = 20_260_101;

/// The corpus of a target: small files that each reach something of their own.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
        .into_iter()
        .map(|f| (f.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(f).unwrap()))
        .collect()
}

/// xorshift: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end.max(1)
    }

    /// A few changes of one input: bits, numbers that lie at borders, cuts, and parts of another.
    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                _ if bytes.is_empty() => bytes.push(self.below(256) as u8),
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'{', b'\n'][self.below(8)],
                2 => bytes.truncate(at),
                3 => bytes[at..].iter_mut().take(1 << self.below(4)).for_each(|b| *b = 0xff),
                4 => drop(bytes.remove(at)),
                _ => {
                    let from = self.below(other.len());
                    let part = &other[from..(from + self.below(64)).min(other.len())];
                    bytes.splice(at..at, part.iter().copied());
                }
            }
        }
    }
}

/// Says which input it was, should a target panic.
struct Says(String);

impl Drop for Says {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was {}", self.0);
        }
    }
}

fn run(name: &str) {
    let (_, target) = targets::TARGETS.into_iter().find(|(n, _)| *n == name).unwrap();
    let corpus = corpus(name);
    for (file, bytes) in &corpus {
        let _says = Says(format!("fuzz/corpus/{name}/{file}"));
        target(bytes);
    }
    let mut random = Random(SEED);
    for index in 0..CHANGES {
        let (file, bytes) = &corpus[random.below(corpus.len())];
        let mut bytes = bytes.clone();
        let other = random.below(corpus.len());
        random.change(&mut bytes, &corpus[other].1);
        let _says = Says(format!("change {index} (seed {SEED}), of fuzz/corpus/{name}/{file}: {bytes:?}"));
        target(&bytes);
    }
}

#[test]
fn gguf() {
    run("gguf");
}

#[test]
fn tokenizer() {
    run("tokenizer");
}

#[test]
fn template() {
    run("template");
}

#[test]
fn wire() {
    run("wire");
}

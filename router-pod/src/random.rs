//! The one source of randomness: ids, secrets, and the draw of strategies that choose at random.
//!
//! The machine's own in a router; a seeded one in a simulation, which must come out the same for the same seed.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use ring::rand::{SecureRandom as _, SystemRandom};
use terrace_contract::canonical;

/// Random bytes that are fetched at once for ids.
const AHEAD: usize = 256 * 16;

/// Randomness.
#[derive(Default)]
pub struct Random {
    source: Source,
    /// What ids are made of next, each byte once: one call to the system for many ids.
    ahead: Mutex<Vec<u8>>,
}

/// Nothing of what will come.
impl std::fmt::Debug for Random {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Random").field("source", &self.source).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
enum Source {
    #[default]
    System,
    /// Of SplitMix64 (Steele, Lea and Flood, 2014).
    Seeded(Mutex<u64>),
}

/// The system gives no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes: check /dev/urandom")]
pub struct NoRandomness;

impl Random {
    /// What follows from this seed, and can be foretold from it: for simulations alone, never for secrets.
    pub fn seeded(seed: u64) -> Self {
        Self { source: Source::Seeded(Mutex::new(seed)), ahead: Mutex::default() }
    }

    /// 64 even bits, never for secrets.
    pub fn word(&self) -> u64 {
        match &self.source {
            // A key that each thread makes once of the system's bytes and counts up: even, and without a system call.
            Source::System => RandomState::new().build_hasher().finish(),
            Source::Seeded(state) => next(state),
        }
    }

    /// A number in `0..1`.
    pub fn draw(&self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fills with bytes that are fit for secrets.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        match &self.source {
            Source::System => SystemRandom::new().fill(bytes).map_err(|_| NoRandomness),
            Source::Seeded(state) => {
                for part in bytes.chunks_mut(8) {
                    part.copy_from_slice(&next(state).to_le_bytes()[..part.len()]);
                }
                Ok(())
            }
        }
    }

    /// A new id: 128 random bits.
    pub fn id(&self) -> String {
        let mut bytes = [0u8; 16];
        if self.next_of_ahead(&mut bytes).is_err() {
            // Ids need only differ from one another; a system without randomness still counts time.
            bytes = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |d| d.as_nanos())
                .to_be_bytes();
        }
        canonical::hex(&bytes)
    }

    /// Takes bytes that were fetched ahead, and fetches more when there are none.
    fn next_of_ahead(&self, bytes: &mut [u8; 16]) -> Result<(), NoRandomness> {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if ahead.len() < bytes.len() {
            let mut more = vec![0; AHEAD];
            self.fill(&mut more)?;
            *ahead = more;
        }
        let rest = ahead.len() - bytes.len();
        bytes.copy_from_slice(&ahead[rest..]);
        ahead.truncate(rest);
        Ok(())
    }
}

fn next(state: &Mutex<u64>) -> u64 {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_are_hex() {
        let random = Random::default();
        let (one, other) = (random.id(), random.id());
        assert_ne!(one, other);
        assert!(one.len() == 32 && one.bytes().all(|b| b.is_ascii_hexdigit()));
    }

    #[test]
    fn a_seed_gives_the_same_again_and_another_seed_something_else() {
        let of = |seed: u64| {
            let random = Random::seeded(seed);
            (random.id(), random.draw(), random.id())
        };
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        // The reference value of SplitMix64 for seed 0.
        assert_eq!(next(&Mutex::new(0)), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn draws_spread_evenly_over_zero_to_one() {
        for random in [Random::default(), Random::seeded(1)] {
            let mean = (0..4096).map(|_| random.draw()).sum::<f64>() / 4096.0;
            assert!((0.45..0.55).contains(&mean), "{mean}");
        }
    }
}

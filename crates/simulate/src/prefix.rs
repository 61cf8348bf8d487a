//! A device's prefix cache: blocks of prompts it has seen, the least recently used forgotten first.

use std::collections::BTreeMap;

use crate::trace::BLOCK_TOKENS;

/// Blocks of one device.
#[derive(Debug, Default)]
pub struct PrefixCache {
    room: usize,
    clock: u64,
    used: BTreeMap<u64, u64>,
    oldest: BTreeMap<u64, u64>,
}

impl PrefixCache {
    /// Room for so many tokens.
    pub fn of_tokens(tokens: u64) -> Self {
        Self { room: (tokens / u64::from(BLOCK_TOKENS)) as usize, ..Self::default() }
    }

    /// Tokens of a prompt that it holds. The last token is always fed, else there were no first one to sample from.
    pub fn hit(&mut self, blocks: &[u64], prompt_tokens: u32) -> u32 {
        let known = blocks.iter().take_while(|block| self.used.contains_key(block)).count();
        self.insert(&blocks[..known]);
        u32::try_from(known).unwrap_or(0).saturating_mul(BLOCK_TOKENS).min(prompt_tokens.saturating_sub(1))
    }

    /// Keeps the blocks of a prompt.
    pub fn insert(&mut self, blocks: &[u64]) {
        if self.room == 0 {
            return;
        }
        // From the end, so that the beginning of a prompt is the newest and is forgotten last.
        for block in blocks.iter().rev() {
            self.clock += 1;
            if let Some(before) = self.used.insert(*block, self.clock) {
                self.oldest.remove(&before);
            }
            self.oldest.insert(self.clock, *block);
        }
        while self.used.len() > self.room {
            let Some((_, block)) = self.oldest.pop_first() else { return };
            self.used.remove(&block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_prefix_hits_and_the_oldest_is_forgotten() {
        let mut cache = PrefixCache::of_tokens(3 * u64::from(BLOCK_TOKENS));
        cache.insert(&[1, 2]);
        assert_eq!(cache.hit(&[1, 2, 9], 2_000), 1_024);
        assert_eq!(cache.hit(&[2], 2_000), 512);
        assert_eq!(cache.hit(&[9, 1], 2_000), 0);
        assert_eq!(cache.hit(&[1], 512), 511, "one token is always fed");
        cache.insert(&[3, 4]);
        assert_eq!(cache.hit(&[2], 2_000), 0, "the least recently used is gone");
        assert_eq!(cache.hit(&[1], 2_000), 512);
        assert_eq!(PrefixCache::of_tokens(100).hit(&[1], 2_000), 0);
    }
}

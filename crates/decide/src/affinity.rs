//! Which device holds how much of a prompt already: blocks of prompts by name, remembered a device.
//!
//! A name stands for a block and everything before it, so equal names mean equal prefixes. What a device still holds
//! only it knows; a router remembers what it sent there and forgets by overwriting, as a device does when its cache is
//! full. A wrong guess costs a forecast that is too early, which the device's correction learns, never an answer.

/// The names of the blocks that a prompt begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefix {
    /// Names in order. Made with a secret and the caller's domain, so that they say nothing of the text and never match
    /// across those who may not share.
    pub blocks: Vec<u64>,
    /// Tokens of one block.
    pub block_tokens: u32,
}

/// Log2 of the number of blocks remembered of a device: 8 KiB each, once something was sent there.
const ROOM_BITS: u32 = 10;

/// Blocks that a device was sent. A table in which each block has one place and a newer one takes it.
#[derive(Debug, Clone, Default)]
pub struct Held(Vec<u64>);

/// Where a name has its place (Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, 6.4).
fn place(name: u64) -> usize {
    (name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - ROOM_BITS)) as usize
}

impl Held {
    /// Tokens of a prompt that are held.
    pub fn tokens(&self, prefix: &Prefix) -> u32 {
        if self.0.is_empty() {
            return 0;
        }
        let known = prefix.blocks.iter().take_while(|&&name| self.0.get(place(name)) == Some(&name)).count();
        u32::try_from(known).unwrap_or(u32::MAX).saturating_mul(prefix.block_tokens)
    }

    /// A prompt was computed there.
    pub fn keep(&mut self, prefix: &Prefix) {
        if prefix.blocks.is_empty() {
            return;
        }
        self.0.resize(1 << ROOM_BITS, 0);
        // From the end, so that of two blocks for one place the earlier stays: later ones are nothing without it.
        for &name in prefix.blocks.iter().rev() {
            if let Some(slot) = self.0.get_mut(place(name)) {
                *slot = name;
            }
        }
    }

    /// It is not there any more: the device restarted.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(blocks: &[u64]) -> Prefix {
        Prefix { blocks: blocks.to_vec(), block_tokens: 100 }
    }

    #[test]
    fn only_an_unbroken_beginning_counts() {
        let mut held = Held::default();
        assert_eq!(held.tokens(&prefix(&[1, 2])), 0);
        held.keep(&prefix(&[1, 2, 3]));
        assert_eq!(held.tokens(&prefix(&[1, 2, 9])), 200);
        assert_eq!(held.tokens(&prefix(&[9, 1])), 0);
        held.forget();
        assert_eq!(held.tokens(&prefix(&[1])), 0);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_newest_stays() {
        let mut held = Held::default();
        (1..100_000u64).for_each(|name| held.keep(&prefix(&[name])));
        assert_eq!(held.0.len(), 1 << ROOM_BITS);
        assert_eq!(held.tokens(&prefix(&[99_999])), 100);
        assert_eq!(held.tokens(&prefix(&[1])), 0);
    }
}

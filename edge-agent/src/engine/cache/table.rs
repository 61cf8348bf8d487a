//! One sequence's blocks.

use super::{Key, Pool};
use crate::model::BLOCK_TOKENS;

/// Every block is held by somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct NoRoom;

/// The blocks of one sequence, in order. Give them back with [`Table::release`]: dropping one loses its blocks.
#[derive(Debug)]
pub(in crate::engine) struct Table {
    root: Key,
    blocks: Vec<u32>,
    /// Names of the full blocks at its head, as far as they are known.
    keys: Vec<Key>,
}

impl Table {
    /// An empty one of a domain.
    pub(in crate::engine) fn new(root: Key) -> Self {
        Table { root, blocks: Vec::new(), keys: Vec::new() }
    }

    /// The blocks, as the network wants them.
    pub(in crate::engine) fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    /// The name that the next full block will have, if these tokens fill it.
    pub(in crate::engine) fn next_key(&self, tokens: &[u32]) -> Option<Key> {
        let at = self.keys.len() * BLOCK_TOKENS;
        Some(self.keys.last().unwrap_or(&self.root).then(tokens.get(at..at + BLOCK_TOKENS)?))
    }

    /// Takes over full blocks that hold the next tokens already, all but the last token at most. `filled` tokens are in
    /// the table; returns how many are then.
    pub(in crate::engine) fn adopt(&mut self, pool: &mut Pool, tokens: &[u32], filled: usize) -> usize {
        if filled != self.keys.len() * BLOCK_TOKENS {
            return filled;
        }
        while let Some(key) = self.next_key(&tokens[..tokens.len().saturating_sub(1)]) {
            let Some(found) = pool.find(&key) else { break };
            match self.blocks.get_mut(self.keys.len()) {
                Some(own) => pool.release(std::mem::replace(own, found)),
                None => self.blocks.push(found),
            }
            self.keys.push(key);
        }
        self.keys.len() * BLOCK_TOKENS
    }

    /// Blocks that a sequence of this domain and these tokens would need from a pool, beside those that are held by
    /// others already; and how many tokens it would find computed.
    pub(in crate::engine) fn forecast(root: Key, pool: &Pool, tokens: &[u32]) -> (usize, usize) {
        let mut probe = Table::new(root);
        let mut held = 0;
        while let Some(key) = probe.next_key(&tokens[..tokens.len().saturating_sub(1)]) {
            let Some(is_held) = pool.peek(&key) else { break };
            held += usize::from(is_held);
            probe.keys.push(key);
        }
        (tokens.len().div_ceil(BLOCK_TOKENS) - held, probe.keys.len() * BLOCK_TOKENS)
    }

    /// Makes room for this many tokens in all. On failure it keeps what it got.
    ///
    /// # Errors
    /// When no block can be had.
    pub(in crate::engine) fn reserve(&mut self, pool: &mut Pool, tokens: usize) -> Result<(), NoRoom> {
        while self.blocks.len() < tokens.div_ceil(BLOCK_TOKENS) {
            self.blocks.push(pool.take().ok_or(NoRoom)?);
        }
        Ok(())
    }

    /// Makes the blocks of some positions its own before they are written; adds to `copies` which block has to be copied
    /// where, in that order, also when it fails.
    ///
    /// # Errors
    /// When no block can be had for a copy.
    pub(in crate::engine) fn own(
        &mut self,
        pool: &mut Pool,
        positions: std::ops::Range<usize>,
        copies: &mut Vec<(u32, u32)>,
    ) -> Result<(), NoRoom> {
        let blocks = positions.start / BLOCK_TOKENS..positions.end.div_ceil(BLOCK_TOKENS).min(self.blocks.len());
        for block in self.blocks.get_mut(blocks).unwrap_or_default() {
            if pool.is_shared(*block) {
                let copy = pool.take().ok_or(NoRoom)?;
                let shared = std::mem::replace(block, copy);
                pool.release(shared);
                copies.push((shared, copy));
            }
        }
        Ok(())
    }

    /// Makes findable what is full. `filled` of the tokens are in the table.
    pub(in crate::engine) fn publish(&mut self, pool: &mut Pool, tokens: &[u32], filled: usize) {
        while let Some(key) = self.next_key(&tokens[..filled]) {
            let Some(&block) = self.blocks.get(self.keys.len()) else { return };
            pool.publish(block, key);
            self.keys.push(key);
        }
    }

    /// A second sequence of the same past: every block is shared until one of the two writes to it.
    pub(in crate::engine) fn fork(&self, pool: &mut Pool) -> Table {
        self.blocks.iter().for_each(|&block| pool.hold(block));
        Table { root: self.root, blocks: self.blocks.clone(), keys: self.keys.clone() }
    }

    /// Gives every block back, the last first: of what stays findable, ends are forgotten before beginnings.
    pub(in crate::engine) fn release(&mut self, pool: &mut Pool) {
        while let Some(block) = self.blocks.pop() {
            pool.release(block);
        }
        self.keys.clear();
    }
}

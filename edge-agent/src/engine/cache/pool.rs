//! All blocks of the cache, counted. A block is held by one or more tables, or idle (held by nobody, full, findable),
//! or free.

use std::collections::{BTreeMap, HashMap};

use super::Key;

/// The allocator.
#[derive(Debug)]
pub(in crate::engine) struct Pool {
    blocks: Vec<Block>,
    free: Vec<u32>,
    /// By the time of their last use: the first is evicted first.
    idle: BTreeMap<u64, u32>,
    index: HashMap<Key, u32>,
    clock: u64,
    evictions: u64,
}

#[derive(Debug, Clone, Default)]
struct Block {
    holders: u32,
    key: Option<Key>,
    /// Its place among the idle ones, while it is one.
    since: u64,
}

impl Pool {
    pub(in crate::engine) fn new(blocks: usize) -> Self {
        Pool {
            blocks: vec![Block::default(); blocks],
            free: (0..blocks as u32).rev().collect(),
            idle: BTreeMap::new(),
            index: HashMap::new(),
            clock: 0,
            evictions: 0,
        }
    }

    /// Blocks that can be had: free ones, and idle ones whose content would be forgotten.
    pub(in crate::engine) fn available(&self) -> usize {
        self.free.len() + self.idle.len()
    }

    /// Idle blocks that were given away so far.
    pub(in crate::engine) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// A block of no content, held once; evicts the least recently used where none is free.
    pub(super) fn take(&mut self) -> Option<u32> {
        let block = match self.free.pop() {
            Some(block) => block,
            None => {
                let (_, block) = self.idle.pop_first()?;
                self.evictions += 1;
                if let Some(key) = self.blocks[block as usize].key.take() {
                    self.index.remove(&key);
                }
                block
            }
        };
        self.blocks[block as usize].holders = 1;
        Some(block)
    }

    /// The block of this name, held once more.
    pub(super) fn find(&mut self, key: &Key) -> Option<u32> {
        let block = *self.index.get(key)?;
        self.hold(block);
        Some(block)
    }

    /// Whether a block of this name is there, and if so whether it is held by anyone.
    pub(super) fn peek(&self, key: &Key) -> Option<bool> {
        self.index.get(key).map(|block| self.blocks[*block as usize].holders > 0)
    }

    /// One holder more.
    pub(super) fn hold(&mut self, block: u32) {
        let state = &mut self.blocks[block as usize];
        if state.holders == 0 {
            self.idle.remove(&state.since);
        }
        state.holders += 1;
    }

    /// One holder less. The last one leaves it idle if it can be found again, else free.
    pub(super) fn release(&mut self, block: u32) {
        let state = &mut self.blocks[block as usize];
        if state.holders == 0 {
            // Were it to happen, two sequences would share a block and read each other: leave it be, and say so.
            tracing::error!(block, "a block of the KV cache was released twice");
            return;
        }
        state.holders -= 1;
        if state.holders > 0 {
            return;
        }
        if state.key.is_some() {
            self.clock += 1;
            state.since = self.clock;
            self.idle.insert(self.clock, block);
        } else {
            self.free.push(block);
        }
    }

    /// Makes a full block findable. Where its name is taken already (two sequences computed the same at once), it
    /// stays nameless and is free once released.
    pub(super) fn publish(&mut self, block: u32, key: Key) {
        if let std::collections::hash_map::Entry::Vacant(vacant) = self.index.entry(key) {
            vacant.insert(block);
            self.blocks[block as usize].key = Some(key);
        }
    }

    /// Whether more than one table holds it.
    pub(super) fn is_shared(&self, block: u32) -> bool {
        self.blocks[block as usize].holders > 1
    }

    /// What must hold after every operation.
    #[cfg(test)]
    pub(super) fn check(&self, held: &HashMap<u32, u32>) {
        let mut seen = vec![0; self.blocks.len()];
        for &block in self.free.iter().chain(self.idle.values()) {
            seen[block as usize] += 1;
            assert_eq!(self.blocks[block as usize].holders, 0, "block {block} is held and given away");
        }
        for (number, block) in self.blocks.iter().enumerate() {
            assert_eq!(block.holders, held.get(&(number as u32)).copied().unwrap_or(0), "holders of block {number}");
            assert_eq!(seen[number], u32::from(block.holders == 0), "block {number} is lost or listed twice");
            if let Some(key) = &block.key {
                assert_eq!(self.index.get(key), Some(&(number as u32)), "block {number} is found under another name");
            }
        }
        for (since, block) in &self.idle {
            assert!(self.blocks[*block as usize].since == *since && self.blocks[*block as usize].key.is_some());
        }
        assert_eq!(self.index.len(), self.blocks.iter().filter(|b| b.key.is_some()).count());
    }
}

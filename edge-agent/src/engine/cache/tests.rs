//! Whatever happens to sequences, no block is lost, given away twice, or written under a reader.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{CacheDomain, Key, Pool, Salt, Table};
use crate::model::BLOCK_TOKENS;

/// What may happen. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum Event {
    /// A prompt: so many tokens of one of a few texts, then some of its own; in one of two domains.
    Admit { text: u32, shared: usize, own: usize, domain: usize },
    /// The network computes some of what a sequence has left.
    Compute { of: usize, tokens: usize },
    /// A sampled token.
    Append { of: usize, token: u32 },
    /// Another choice of the same prompt.
    Fork { of: usize },
    /// Its blocks are needed by others: it gives all back and begins anew.
    Preempt { of: usize },
    /// It ends, or its client goes.
    End { of: usize },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..3u32, 0..60usize, 0..40usize, 0..2usize)
            .prop_map(|(text, shared, own, domain)| Event::Admit { text, shared, own, domain }),
        8 => (any::<usize>(), 1..50usize).prop_map(|(of, tokens)| Event::Compute { of, tokens }),
        6 => (any::<usize>(), 0..4u32).prop_map(|(of, token)| Event::Append { of, token }),
        2 => any::<usize>().prop_map(|of| Event::Fork { of }),
        2 => any::<usize>().prop_map(|of| Event::Preempt { of }),
        2 => any::<usize>().prop_map(|of| Event::End { of }),
    ]
}

struct Sequence {
    root: Key,
    tokens: Vec<u32>,
    filled: usize,
    table: Table,
}

/// The cache's content: what was computed at each position is everything up to it, as one number.
struct World {
    pool: Pool,
    content: Vec<[u64; BLOCK_TOKENS]>,
    roots: [Key; 2],
    sequences: Vec<Sequence>,
}

/// What the network computes for the last of these tokens.
fn computed(root: Key, tokens: &[u32]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (root, tokens).hash(&mut hasher);
    hasher.finish()
}

impl World {
    fn new(blocks: usize) -> World {
        let salt = Salt::fresh().unwrap();
        let root = |name: &[u8]| salt.root(&CacheDomain::of(&[name]));
        let content = vec![[0; BLOCK_TOKENS]; blocks];
        World { pool: Pool::new(blocks), content, roots: [root(b"a"), root(b"b")], sequences: Vec::new() }
    }

    fn apply(&mut self, event: Event) {
        let count = self.sequences.len();
        match event {
            Event::Admit { text, shared, own, domain } => {
                let text = (0..shared).map(|i| text * 1000 + i as u32);
                let own = (0..own).map(|i| count as u32 * 7 + i as u32);
                let tokens: Vec<u32> = std::iter::once(1).chain(text).chain(own).collect();
                let root = self.roots[domain];
                let (need, found) = Table::forecast(root, &self.pool, &tokens);
                if need > self.pool.available() {
                    return;
                }
                let mut table = Table::new(root);
                let filled = table.adopt(&mut self.pool, &tokens, 0);
                assert_eq!(filled, found);
                assert!(filled < tokens.len() && filled.is_multiple_of(BLOCK_TOKENS));
                assert_eq!(table.reserve(&mut self.pool, tokens.len()), Ok(()), "{need} blocks were promised");
                self.sequences.push(Sequence { root, tokens, filled, table });
            }
            Event::Compute { of, tokens } if count > 0 => self.compute(of % count, tokens),
            Event::Append { of, token } if count > 0 => {
                let sequence = &mut self.sequences[of % count];
                if sequence.filled == sequence.tokens.len() {
                    sequence.tokens.push(token);
                }
            }
            Event::Fork { of } if count > 0 => {
                let Sequence { root, ref tokens, filled, ref table } = self.sequences[of % count];
                let twin = Sequence { root, tokens: tokens.clone(), filled, table: table.fork(&mut self.pool) };
                self.sequences.push(twin);
            }
            Event::Preempt { of } if count > 0 => {
                let sequence = &mut self.sequences[of % count];
                sequence.table.release(&mut self.pool);
                sequence.filled = sequence.table.adopt(&mut self.pool, &sequence.tokens, 0);
            }
            Event::End { of } if count > 0 => {
                self.sequences.swap_remove(of % count).table.release(&mut self.pool);
            }
            _ => {}
        }
    }

    /// As the loop does: what others computed meanwhile, room, own blocks, copies, then the step.
    fn compute(&mut self, of: usize, tokens: usize) {
        let Sequence { root, tokens: all, filled, table } = &mut self.sequences[of];
        *filled = table.adopt(&mut self.pool, all, *filled);
        let end = (*filled + tokens).min(all.len());
        let mut copies = Vec::new();
        let room =
            table.reserve(&mut self.pool, end).and_then(|()| table.own(&mut self.pool, *filled..end, &mut copies));
        for (from, to) in copies {
            self.content[to as usize] = self.content[from as usize];
        }
        if room.is_err() {
            table.release(&mut self.pool);
            *filled = 0;
            return;
        }
        for position in *filled..end {
            let block = table.blocks()[position / BLOCK_TOKENS] as usize;
            self.content[block][position % BLOCK_TOKENS] = computed(*root, &all[..=position]);
        }
        *filled = end;
        table.publish(&mut self.pool, all, end);
    }

    fn check(&self) {
        let mut held = HashMap::new();
        for sequence in &self.sequences {
            for block in sequence.table.blocks() {
                *held.entry(*block).or_default() += 1;
            }
            for position in 0..sequence.filled {
                let block = sequence.table.blocks()[position / BLOCK_TOKENS] as usize;
                let expected = computed(sequence.root, &sequence.tokens[..=position]);
                assert_eq!(
                    self.content[block][position % BLOCK_TOKENS],
                    expected,
                    "position {position} was written over"
                );
            }
        }
        self.pool.check(&held);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_sequence_of_events_loses_or_mixes_blocks(
        blocks in 1..24usize,
        events in proptest::collection::vec(event(), 1..120),
    ) {
        let mut world = World::new(blocks);
        for event in events {
            world.apply(event);
            world.check();
        }
        for sequence in &mut world.sequences {
            sequence.table.release(&mut world.pool);
        }
        world.sequences.clear();
        world.check();
        prop_assert_eq!(world.pool.available(), blocks);
    }
}

fn filled(world: &mut World, domain: usize, tokens: &[u32]) -> usize {
    let mut table = Table::new(world.roots[domain]);
    let found = table.adopt(&mut world.pool, tokens, 0);
    table.reserve(&mut world.pool, tokens.len()).unwrap();
    world.sequences.push(Sequence { root: world.roots[domain], tokens: tokens.to_vec(), filled: found, table });
    let of = world.sequences.len() - 1;
    world.compute(of, usize::MAX / 2);
    found
}

#[test]
fn what_was_computed_is_found_by_the_same_domain_only_and_never_wholly() {
    let mut world = World::new(64);
    let tokens: Vec<u32> = (0..64).collect();
    assert_eq!(filled(&mut world, 0, &tokens), 0);
    assert_eq!(filled(&mut world, 1, &tokens), 0, "another domain's blocks");
    // The last token is always computed: its logits are wanted.
    assert_eq!(filled(&mut world, 0, &tokens), 48);
    let mut longer = tokens.clone();
    longer.extend(100..140);
    assert_eq!(filled(&mut world, 0, &longer), 64);
    let mut parting = longer.clone();
    parting[40] = 7;
    assert_eq!(filled(&mut world, 0, &parting), 32, "shared up to the block where they part");
    world.check();
}

#[test]
fn the_least_recently_used_is_forgotten_first_and_ends_before_beginnings() {
    let mut world = World::new(8);
    let (old, new): (Vec<u32>, Vec<u32>) = ((0..81).collect(), (200..249).collect());
    for tokens in [&old, &new] {
        filled(&mut world, 0, tokens);
        world.sequences.pop().unwrap().table.release(&mut world.pool);
    }
    // Of the five full blocks of the first, one was needed: its last.
    assert_eq!((world.pool.evictions(), world.pool.available()), (1, 8));
    assert_eq!(Table::forecast(world.roots[0], &world.pool, &old).1, 64);
    assert_eq!(Table::forecast(world.roots[0], &world.pool, &new).1, 48);
    world.check();
}

//! One step for everyone: which tokens go in, room for them, the network, what follows from its numbers.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::cache::{CacheDomain, Table};
use super::lane::Lane;
use super::plan::{Prompt, share};
use super::rates::{Rates, Work};
use super::run::{Engine, Verdict};
use super::sequence::Turn;
use crate::model::{BLOCK_TOKENS, Feed, Output, Wanted};

/// How long a step waits for the grammars of some while others have something to compute.
const GRACE: Duration = Duration::from_millis(2);
/// How long finding out how fast the device is may take.
const CALIBRATION: Duration = Duration::from_millis(300);
/// How long it is believed, where nothing else has been measured.
const BELIEVED: Duration = Duration::from_secs(5);

impl Engine {
    /// Runs one step, if anyone has something to compute.
    pub(super) fn step(&mut self) {
        self.catch_up();
        let planned = self.plan();
        let fed = self.make_room(planned);
        if fed.is_empty() {
            return;
        }
        self.steps += 1;
        let lanes: Vec<(&Lane, usize)> = fed
            .iter()
            .filter_map(|&(order, tokens)| Some((self.lanes.iter().find(|lane| lane.order == order)?, tokens)))
            .collect();
        let feeds: Vec<Feed<'_>> = lanes
            .iter()
            .map(|(lane, tokens)| Feed {
                blocks: lane.table.blocks(),
                tokens: &lane.tokens[lane.position..lane.position + tokens],
                position: lane.position,
                prompt: lane.as_prompt(*tokens),
                wanted: lane.wanted(*tokens),
            })
            .collect();
        let works: Vec<Work> = lanes.iter().map(|(lane, tokens)| lane.work(*tokens)).collect();
        let began = self.clock.now();
        let outputs = self.network.step(&feeds);
        let took = self.clock.now().duration_since(began);
        let work = works.iter().fold(Work::default(), |sum, work| sum.and(*work));
        self.rates.measured(work, took);
        self.shared.doubted.store(false, Relaxed);
        let parts = self.parts(&works, took);
        for (((order, tokens), output), part) in fed.into_iter().zip(outputs).zip(parts) {
            self.advance(order, tokens, output, part, work.decoding);
        }
    }

    /// Which lanes get how many tokens; the oldest lane first.
    fn plan(&mut self) -> Vec<(u64, usize)> {
        // What others computed since the last step need not be computed again.
        self.lanes.iter_mut().for_each(|lane| lane.adopt(&mut self.pool));
        let mut decoding = Work::default();
        let mut prompts: Vec<&mut Lane> = Vec::new();
        let mut planned = Vec::new();
        for lane in self.lanes.iter_mut().filter(|lane| lane.unheard.is_none()) {
            if lane.decodes() {
                decoding = decoding.and(Work::decode(lane.position));
                planned.push((lane.order, 1));
            } else {
                prompts.push(lane);
            }
        }
        prompts.sort_by_key(|lane| (lane.served, lane.order));
        // Of several that begin alike one computes; the others take it over in the next step.
        let mut begun = HashSet::new();
        prompts.retain(|lane| {
            let aligned = lane.adopts() && lane.position.is_multiple_of(BLOCK_TOKENS);
            let all_but_last = &lane.tokens[..lane.tokens.len() - 1];
            let key = if aligned { lane.table.next_key(all_but_last) } else { None };
            key.is_none_or(|key| begun.insert(key))
        });
        let needs: Vec<Prompt> = prompts.iter().map(|lane| lane.prompt()).collect();
        let shares = share(&self.limits, &self.rates, decoding, &needs);
        for (lane, tokens) in prompts.into_iter().zip(shares).filter(|(_, tokens)| *tokens > 0) {
            lane.served = self.steps + 1;
            planned.push((lane.order, whole_blocks(lane.prompt(), tokens)));
        }
        planned.sort_unstable();
        planned
    }

    /// Lets those sample whose grammar was not there in time. Others wait for it a moment, so that all advance together,
    /// but no longer; with nobody else it is waited for as long as a step may take.
    fn catch_up(&mut self) {
        let unheard = |lane: &&Lane| lane.unheard.is_some();
        let orders: Vec<u64> = self.lanes.iter().filter(unheard).map(|lane| lane.order).collect();
        let mut patience = if orders.len() < self.lanes.len() { GRACE } else { self.limits.beside };
        for order in orders {
            let Some(lane) = self.lanes.iter_mut().find(|lane| lane.order == order) else { continue };
            let began = Instant::now();
            if lane.sequence.ready(patience)
                && let Some(logits) = lane.unheard.take()
            {
                self.turn(order, &logits);
            }
            patience = patience.saturating_sub(began.elapsed());
        }
    }

    /// Gets blocks for what is planned, from the youngest sequences if there are no others, and the copies done that
    /// keep sequences of one past apart. Returns what can be fed.
    fn make_room(&mut self, planned: Vec<(u64, usize)>) -> Vec<(u64, usize)> {
        let mut copies = Vec::new();
        let mut fed = Vec::new();
        for (order, tokens) in planned {
            // The oldest come first, so whoever is preempted here was not fed yet.
            while let Some(lane) = self.lanes.iter_mut().find(|lane| lane.order == order) {
                let positions = lane.position..lane.position + tokens;
                let room = lane.table.reserve(&mut self.pool, positions.end);
                if room.and_then(|()| lane.table.own(&mut self.pool, positions, &mut copies)).is_ok() {
                    fed.push((order, tokens));
                    break;
                }
                if !self.preempt_youngest() {
                    break;
                }
            }
        }
        for (from, to) in copies {
            self.network.copy_block(from, to);
        }
        fed
    }

    /// A step's time, divided by what each lane made it do.
    fn parts(&self, works: &[Work], took: Duration) -> Vec<Duration> {
        let weights: Vec<f64> = works.iter().map(|work| self.rates.predict(*work).as_secs_f64() + 1e-9).collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| took.mul_f64(weight / total)).collect()
    }

    /// What follows for one lane.
    fn advance(&mut self, order: u64, tokens: usize, output: Output, part: Duration, batch: usize) {
        let Some(index) = self.lanes.iter().position(|lane| lane.order == order) else { return };
        let lane = &mut self.lanes[index];
        lane.sequence.compute += part;
        if lane.decodes() {
            lane.sequence.steps += 1;
            lane.sequence.batched += batch as u64;
        }
        lane.position += tokens;
        if lane.publishes() {
            lane.table.publish(&mut self.pool, &lane.tokens, lane.position);
        }
        lane.pooled(output.hidden);
        if lane.left() > 0 {
            return;
        }
        let logits = output.logits.into_iter().next().unwrap_or_default();
        // Siblings begin where the prompt ends: with the same blocks and the same logits.
        let siblings = std::mem::take(&mut lane.siblings);
        let mut orders = vec![order];
        for (sequence, place) in siblings {
            let room = self.lanes.len() < self.shared.slots as usize;
            let Some(lane) = self.lanes.iter().find(|lane| lane.order == order) else { return };
            self.admitted += 1;
            let twin = lane.fork(room.then_some(&mut self.pool), self.admitted, sequence, place);
            if room {
                orders.push(twin.order);
                self.lanes.push(twin);
            } else {
                self.pause(twin);
            }
        }
        for order in orders {
            self.turn(order, &logits);
        }
    }

    /// What a lane says to new logits.
    fn turn(&mut self, order: u64, logits: &[f32]) {
        let Some(index) = self.lanes.iter().position(|lane| lane.order == order) else { return };
        let lane = &mut self.lanes[index];
        if !lane.sequence.ready(Duration::ZERO) {
            lane.unheard = Some(logits.to_vec());
            return;
        }
        let turn = lane.sequence.turn(logits, &self.tokenizer, self.clock.now());
        if let Turn::Continues(id) = turn {
            return lane.tokens.push(id);
        }
        let mut lane = self.lanes.remove(index);
        lane.table.release(&mut self.pool);
        // Whoever hears of the end is told of the load without it.
        self.publish();
        match turn {
            Turn::Continues(_) => {}
            Turn::Ends(reason) => {
                if lane.sequence.request.max_tokens > 0 {
                    self.shared.measured_answer(lane.sequence.completion());
                }
                lane.sequence.end(reason, self.clock.now());
            }
            Turn::Fails(failure) => _ = Verdict::Failed(failure).goes_on(&lane.sequence.events),
        }
    }

    /// A few steps of nothing, so that rates are known when the first request comes.
    pub(super) fn calibrate(&mut self) {
        let mut table = Table::new(self.salt.root(&CacheDomain::default()));
        let room = self.pool.available().min(4) * BLOCK_TOKENS;
        if table.reserve(&mut self.pool, room).is_ok() {
            self.try_out(table.blocks());
        }
        table.release(&mut self.pool);
        self.calibrated = self.clock.now();
    }

    /// Measures anew on an idle device that has refused somebody since it last did anything: rates from a bad moment, when
    /// the machine was starved, would keep out all that could correct them.
    pub(super) fn believe(&mut self) {
        let due = self.clock.now().duration_since(self.calibrated) >= BELIEVED;
        if due && self.is_idle() && self.shared.doubted.swap(false, Relaxed) {
            self.rates = Rates::default();
            self.calibrate();
            self.publish();
        }
    }

    fn try_out(&mut self, blocks: &[u32]) {
        let most = (blocks.len() * BLOCK_TOKENS).min(64);
        let tokens = vec![0; most];
        let mut run = |position: usize, tokens: &[u32]| {
            let began = self.clock.now();
            let prompt = if tokens.len() == 1 { 0 } else { tokens.len() };
            self.network.step(&[Feed { blocks, tokens, position, prompt, wanted: Wanted::NEXT }]);
            self.shared.moved();
            self.clock.now().duration_since(began)
        };
        let began = self.clock.now();
        // The first step fetches the weights from memory for the first time, and starts threads.
        run(0, &tokens[..1]);
        let one = run(0, &tokens[..1]);
        self.rates.measured(Work::decode(0), one);
        // On a slow device a long chunk would take too long.
        let longest = (CALIBRATION.as_secs_f64() / 4.0 / one.as_secs_f64().max(1e-6)) as usize;
        for len in [most, most / 2, most / 4, 1, 1] {
            let len = len.min(longest).max(1);
            if self.clock.now().duration_since(began) > CALIBRATION {
                break;
            }
            let work = if len == 1 { Work::decode(0) } else { Work::prefill(0, len) };
            let took = run(0, &tokens[..len]);
            self.rates.measured(work, took);
        }
    }
}

/// As many tokens as end at a block's border, so that others can take the blocks over; all if it is the prompt's end or
/// less than a block.
fn whole_blocks(prompt: Prompt, tokens: usize) -> usize {
    let end = (prompt.position + tokens) / BLOCK_TOKENS * BLOCK_TOKENS;
    if tokens < prompt.left && end > prompt.position { end - prompt.position } else { tokens }
}

//! Positions as rotations: frequencies, and the ways in which they are stretched for a context longer than the one that a
//! model was first trained on.

use super::family::Family;
use crate::gguf::{GgufError, Metadata};

/// How far each pair of a head's numbers turns from one position to the next.
#[derive(Debug, Clone)]
pub(super) struct Rotary {
    frequencies: Vec<f64>,
    /// Length of a rotated number; above one only for YaRN.
    magnitude: f64,
}

impl Rotary {
    /// `base^(-2i/width)` for each pair `i`.
    pub(super) fn plain(base: f64, width: usize) -> Self {
        let frequency = |i: usize| base.powf(-2.0 * i as f64 / width as f64);
        Rotary { frequencies: (0..width / 2).map(frequency).collect(), magnitude: 1.0 }
    }

    /// The family's, with the scaling that the file asks for; `trained` is its context.
    ///
    /// # Errors
    /// When the file asks for a scaling that is not built, or with numbers that make no sense.
    pub(super) fn from_metadata(
        m: &Metadata,
        family: &Family,
        width: usize,
        trained: usize,
    ) -> Result<Self, GgufError> {
        let base = above(m, family.key("rope.freq_base"), 1.0)?.unwrap_or(10_000.0);
        let plain = Rotary::plain(base, width);
        let kind = family.key("rope.scaling.type");
        let factor = match above(m, family.key("rope.scaling.factor"), 0.0)? {
            None => above(m, family.key("rope.scale_linear"), 0.0)?.unwrap_or(1.0),
            Some(factor) => factor,
        };
        match m.optional_string(&kind)? {
            Some("none") => Ok(plain),
            None | Some("linear") => Ok(plain.slower(|_| factor)),
            Some("yarn") => plain.yarn(m, family, base, factor, trained),
            Some(other) => {
                Err(GgufError::key(kind, format!("`{other}` is not supported; these are: none, linear, yarn")))
            }
        }
    }

    /// Each frequency over a factor of its own, as Llama 3 stores them.
    pub(super) fn slower(mut self, factor: impl Fn(usize) -> f64) -> Self {
        self.frequencies.iter_mut().enumerate().for_each(|(i, f)| *f /= factor(i));
        self
    }

    /// YaRN (Peng et al. 2023, section 3.2 and equation 22): fast rotations stay, slow ones are stretched, those
    /// between are mixed, and everything grows by a little.
    fn yarn(
        mut self,
        m: &Metadata,
        family: &Family,
        base: f64,
        factor: f64,
        trained: usize,
    ) -> Result<Self, GgufError> {
        for (name, usual) in [("yarn_ext_factor", 1.0), ("yarn_log_multiplier", 0.0)] {
            let key = family.key(&format!("rope.scaling.{name}"));
            if m.optional_f32(&key)?.is_some_and(|found| found != usual) {
                return Err(GgufError::key(key, format!("is only supported as {usual}")));
            }
        }
        let number = |name: &str| above(m, family.key(&format!("rope.scaling.{name}")), 0.0);
        let original = match m.optional_u32(&family.key("rope.scaling.original_context_length"))? {
            None | Some(0) => trained as f64,
            Some(original) => f64::from(original),
        };
        let width = 2.0 * self.frequencies.len() as f64;
        // The pair that turns so many times within the original context.
        let pair = |turns: f64| width * (original / (turns * std::f64::consts::TAU)).ln() / (2.0 * base.ln());
        let fast = pair(number("yarn_beta_fast")?.unwrap_or(32.0)).floor().max(0.0);
        let slow = pair(number("yarn_beta_slow")?.unwrap_or(1.0)).ceil().min(width - 1.0);
        for (i, frequency) in self.frequencies.iter_mut().enumerate() {
            let stretched = ((i as f64 - fast) / (slow - fast).max(0.001)).clamp(0.0, 1.0);
            *frequency *= stretched / factor + 1.0 - stretched;
        }
        let grown = if factor > 1.0 { 1.0 + 0.1 * factor.ln() } else { 1.0 };
        self.magnitude = grown * number("attn_factor")?.unwrap_or(1.0);
        Ok(self)
    }

    /// For each position, the cosines of all pairs and then the sines.
    pub(super) fn angles(&self, positions: impl Iterator<Item = usize>) -> Vec<f32> {
        let mut angles = Vec::with_capacity(positions.size_hint().0 * 2 * self.frequencies.len());
        for position in positions {
            let sines = angles.len() + self.frequencies.len();
            angles.resize(sines + self.frequencies.len(), 0.0);
            for (i, frequency) in self.frequencies.iter().enumerate() {
                let (sin, cos) = (position as f64 * frequency).sin_cos();
                angles[sines - self.frequencies.len() + i] = (cos * self.magnitude) as f32;
                angles[sines + i] = (sin * self.magnitude) as f32;
            }
        }
        angles
    }
}

/// A number that may be missing, and must be larger than another.
pub(super) fn above(m: &Metadata, key: String, least: f64) -> Result<Option<f64>, GgufError> {
    match m.optional_f32(&key)?.map(f64::from) {
        Some(found) if found <= least => Err(GgufError::key(key, format!("{found} is not above {least}"))),
        found => Ok(found),
    }
}

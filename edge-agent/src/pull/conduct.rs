//! What a source did over several attempts, for whoever asks why there is no model.

use std::time::Duration;

/// Counted over the attempts of one download.
#[derive(Debug, Default)]
pub(super) struct Conduct {
    attempts: u32,
    /// Answers that began at the first byte where a later one was asked for.
    anew: u32,
    /// Answers that did not go with what was there.
    unfit: u32,
    /// Bytes of the whole file, as the source last said.
    whole: Option<u64>,
}

impl Conduct {
    pub(super) fn attempt(&mut self) {
        self.attempts += 1;
    }

    /// An answer with a body from byte `begin` on, where `from` was asked for.
    pub(super) fn body(&mut self, from: u64, begin: u64, whole: Option<u64>) {
        self.anew += u32::from(from > 0 && begin == 0);
        self.whole = whole;
    }

    pub(super) fn unfit(&mut self) {
        self.unfit += 1;
    }

    /// What it did that an honest source does not, if anything, with the next step. `furthest` is the last byte it ever
    /// came to, `limit` how long nothing more has come.
    pub(super) fn told(&self, furthest: u64, limit: Duration) -> Option<String> {
        if self.anew + self.unfit == 0 {
            return None;
        }
        let of = self.whole.map_or_else(String::new, |whole| format!(" of {whole}"));
        let mut did = Vec::new();
        if self.anew > 0 {
            did.push(format!("sent the file from its beginning where the rest was asked for {}", times(self.anew)));
        }
        if self.unfit > 0 {
            did.push(format!("answered the range that was asked for wrongly {}", times(self.unfit)));
        }
        Some(format!(
            "in {} attempts it came to byte {furthest}{of} and no further within {} s (--pull-patience); it {}: use a \
             source that answers range requests (206 with the bytes asked for), or one whose connections last",
            self.attempts,
            limit.as_secs_f32(),
            did.join(" and "),
        ))
    }
}

fn times(n: u32) -> String {
    if n == 1 { "once".into() } else { format!("{n} times") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_amiss_is_told() {
        let limit = Duration::from_secs(120);
        let mut conduct = Conduct::default();
        for (from, begin) in [(0, 0), (500, 500)] {
            conduct.attempt();
            conduct.body(from, begin, Some(900));
        }
        assert_eq!(conduct.told(700, limit), None);
        conduct.attempt();
        conduct.body(700, 0, Some(900));
        conduct.unfit();
        conduct.unfit();
        let told = conduct.told(700, limit).unwrap();
        for part in ["3 attempts", "byte 700 of 900", "120 s", "beginning", "once and", "wrongly 2 times", "206"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}

//! Stop strings, which may begin in one token and end in another: text that could still become one is held back.

/// Watches one answer's text.
#[derive(Debug)]
pub(super) struct StopMatcher {
    stops: Vec<String>,
    held: String,
}

/// What a piece of text led to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Watched {
    /// This much is certain; may be empty.
    Certain(String),
    /// A stop string came up: this is what stood before it.
    Stopped(String),
}

impl StopMatcher {
    pub(super) fn new(mut stops: Vec<String>) -> Self {
        stops.retain(|s| !s.is_empty());
        StopMatcher { stops, held: String::new() }
    }

    pub(super) fn push(&mut self, text: &str) -> Watched {
        if self.stops.is_empty() {
            return Watched::Certain(text.to_owned());
        }
        self.held.push_str(text);
        if let Some(at) = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.held.truncate(at);
            return Watched::Stopped(std::mem::take(&mut self.held));
        }
        let could_begin = |at: usize| self.stops.iter().any(|stop| stop.starts_with(&self.held[at..]));
        let certain = self.held.char_indices().map(|(at, _)| at).find(|&at| could_begin(at));
        let rest = self.held.split_off(certain.unwrap_or(self.held.len()));
        Watched::Certain(std::mem::replace(&mut self.held, rest))
    }

    /// No more text comes: what was held back is certain.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(stops: &[&str]) -> StopMatcher {
        StopMatcher::new(stops.iter().map(|s| (*s).to_owned()).collect())
    }

    #[test]
    fn a_stop_string_over_three_tokens_is_found() {
        let mut m = matcher(&["###END"]);
        assert_eq!(m.push("text ##"), Watched::Certain("text ".into()));
        assert_eq!(m.push("#E"), Watched::Certain(String::new()));
        assert_eq!(m.push("ND and more"), Watched::Stopped(String::new()));
    }

    #[test]
    fn what_only_looked_like_one_comes_out() {
        let mut m = matcher(&["aab"]);
        assert_eq!(m.push("aa"), Watched::Certain(String::new()));
        assert_eq!(m.push("a"), Watched::Certain("a".into()));
        assert_eq!(m.push("c"), Watched::Certain("aac".into()));
        assert_eq!(m.push("xa"), Watched::Certain("x".into()));
        assert_eq!(m.finish(), "a");
    }

    #[test]
    fn the_earliest_of_several_wins_and_borders_fall_on_characters() {
        let mut m = matcher(&["ö!", "é"]);
        assert_eq!(m.push("aö"), Watched::Certain("a".into()));
        assert_eq!(m.push("éö!"), Watched::Stopped("ö".into()));
        assert_eq!(matcher(&[""]).push("abc"), Watched::Certain("abc".into()));
    }
}

//! Calls in an answer's text, as the text comes.

use super::format::Format;

/// What a piece of text turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) enum Said {
    /// Text of the answer.
    Text(String),
    /// A whole call: which tool, and its arguments. One that was cut off is never told: half of its JSON is none.
    Call(usize, String),
}

/// Reads one answer. Its grammar has taken care that a call which begins is well-formed; text that only looks like one
/// stays text.
#[derive(Debug)]
pub(in crate::server) struct CallReader {
    format: Format,
    names: Vec<String>,
    state: State,
    held: String,
    /// White space that the answer began with: nothing, if a call follows.
    space: String,
    spoken: bool,
    /// Whether the answer is calls and nothing else: then what never became one is no text either.
    only_calls: bool,
    /// Of the call that is being read.
    arguments: String,
    /// Whether the answer ended inside of a call.
    cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the beginning, where an unmarked call may stand.
    Start,
    /// Text, in which a marker may come.
    Text,
    /// A call's head is expected; the first has `open` before it.
    Head { first: bool },
    /// Inside of a call's arguments: of which tool, and how deep.
    Arguments { tool: usize, depth: u32, quoted: bool, escaped: bool },
    /// Behind arguments.
    Tail,
    /// Behind a call.
    After,
    /// No call can come any more.
    Over,
}

/// How what is held compares with what is expected.
enum Match<T> {
    /// It begins with it: so many bytes.
    Whole(T, usize),
    /// It may yet become it.
    Open,
    Not,
}

impl CallReader {
    /// For calls of these functions; whether the answer has to be calls.
    pub(in crate::server) fn new(format: Format, names: Vec<String>, only_calls: bool) -> Self {
        let state = if format.is_marked() { State::Text } else { State::Start };
        let (held, space, arguments) = (String::new(), String::new(), String::new());
        CallReader { format, names, state, held, space, spoken: false, only_calls, arguments, cut: false }
    }

    /// Whether the answer, now that it is finished, was cut off inside of a call.
    pub(in crate::server) fn is_cut(&self) -> bool {
        self.cut
    }

    /// More text.
    pub(in crate::server) fn push(&mut self, text: &str) -> Vec<Said> {
        self.held.push_str(text);
        let mut said = Vec::new();
        while self.step(&mut said) {}
        said
    }

    /// No more text comes.
    pub(in crate::server) fn finish(&mut self) -> Vec<Said> {
        let left = std::mem::take(&mut self.held);
        let mut said = Vec::new();
        match self.state {
            State::Start | State::Text => self.text(&left, &mut said),
            State::Head { .. } | State::Arguments { .. } => self.cut = true,
            State::Tail | State::After | State::Over => {}
        }
        self.state = State::Over;
        said
    }

    /// One step through what is held; false: more is needed.
    fn step(&mut self, said: &mut Vec<Said>) -> bool {
        match self.state {
            State::Start => match self.start() {
                Match::Whole(tool, length) => self.begin(tool, length),
                Match::Open => return false,
                Match::Not => self.state = State::Text,
            },
            State::Text => return self.in_text(said),
            State::Head { first } => match self.head(&self.held, first) {
                Match::Whole(tool, length) => self.begin(tool, length),
                Match::Open => return false,
                Match::Not => self.state = State::Over,
            },
            State::Arguments { .. } => return self.in_arguments(said),
            State::Tail => match literal(&self.held, self.format.tail) {
                Match::Whole((), length) => self.skip(length, State::After),
                Match::Open => return false,
                Match::Not => self.state = State::Over,
            },
            State::After => match self.after() {
                Match::Whole((), length) => self.skip(length, State::Head { first: false }),
                Match::Open => return false,
                Match::Not => self.state = State::Over,
            },
            State::Over => {
                self.held.clear();
                return false;
            }
        }
        true
    }

    /// A call at the very beginning, with its marker or without.
    fn start(&self) -> Match<usize> {
        let marker = self.format.marker.unwrap_or_default();
        match literal(&self.held, marker) {
            Match::Whole((), length) if length > 0 => match self.head(&self.held[length..], true) {
                Match::Whole(tool, more) => Match::Whole(tool, length + more),
                other => other,
            },
            Match::Open if !marker.is_empty() => Match::Open,
            _ => self.head(&self.held, true),
        }
    }

    fn head(&self, held: &str, first: bool) -> Match<usize> {
        let opens = if first { self.format.open } else { &[""] };
        let mut open = false;
        for before in opens {
            for (tool, name) in self.names.iter().enumerate() {
                let expected = [before, self.format.head, name, self.format.middle].concat();
                match literal(held, &expected) {
                    Match::Whole((), length) => return Match::Whole(tool, length),
                    Match::Open => open = true,
                    Match::Not => {}
                }
            }
        }
        if open { Match::Open } else { Match::Not }
    }

    fn after(&self) -> Match<()> {
        let Some(between) = self.format.between else { return Match::Not };
        let marker = if between.marked { self.format.marker.unwrap_or_default() } else { "" };
        literal(&self.held, &[between.text, marker].concat())
    }

    fn begin(&mut self, tool: usize, length: usize) {
        self.skip(length, State::Arguments { tool, depth: 0, quoted: false, escaped: false });
    }

    fn skip(&mut self, length: usize, state: State) {
        self.held.drain(..length);
        self.state = state;
    }

    fn in_text(&mut self, said: &mut Vec<Said>) -> bool {
        let held = std::mem::take(&mut self.held);
        let Some(marker) = self.format.marker.filter(|_| self.format.is_marked()) else {
            self.text(&held, said);
            return false;
        };
        if let Some(at) = held.find(marker) {
            self.text(&held[..at], said);
            self.held = held[at + marker.len()..].to_owned();
            self.state = State::Head { first: true };
            return true;
        }
        let begins = |at: &usize| marker.starts_with(&held[*at..]);
        let certain = held.char_indices().map(|(at, _)| at).find(begins).unwrap_or(held.len());
        self.text(&held[..certain], said);
        self.held = held[certain..].to_owned();
        false
    }

    fn in_arguments(&mut self, said: &mut Vec<Said>) -> bool {
        let State::Arguments { tool, mut depth, mut quoted, mut escaped } = self.state else { return false };
        let mut end = None;
        for (at, byte) in self.held.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b'{' | b'[' if !quoted => depth += 1,
                b'}' | b']' if !quoted => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        end = Some(at + 1);
                        break;
                    }
                }
                _ => {}
            }
        }
        let rest = self.held.split_off(end.unwrap_or(self.held.len()));
        self.arguments.push_str(&std::mem::replace(&mut self.held, rest));
        if end.is_none() {
            self.state = State::Arguments { tool, depth, quoted, escaped };
            return false;
        }
        said.push(Said::Call(tool, std::mem::take(&mut self.arguments)));
        self.state = State::Tail;
        true
    }

    fn text(&mut self, text: &str, said: &mut Vec<Said>) {
        if text.is_empty() || self.only_calls {
            return;
        }
        if self.spoken {
            said.push(Said::Text(text.to_owned()));
            return;
        }
        self.space.push_str(text);
        if !self.space.trim().is_empty() {
            self.spoken = true;
            said.push(Said::Text(std::mem::take(&mut self.space)));
        }
    }
}

fn literal(held: &str, expected: &str) -> Match<()> {
    if held.starts_with(expected) {
        Match::Whole((), expected.len())
    } else if expected.starts_with(held) {
        Match::Open
    } else {
        Match::Not
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tools::testing::{HERMES, LLAMA, MISTRAL, OTHER};

    /// Everything that an answer says, in pieces of so many characters; pieces of the same kind joined.
    fn read(template: &str, answer: &str, size: usize) -> Vec<Said> {
        read_as(template, answer, size, false).0
    }

    /// Likewise, where the answer has to be calls; and whether it was cut off inside of one.
    fn read_as(template: &str, answer: &str, size: usize, only_calls: bool) -> (Vec<Said>, bool) {
        let names = ["find", "find_all"].map(String::from).to_vec();
        let mut reader = CallReader::new(Format::of(template), names, only_calls);
        let characters: Vec<char> = answer.chars().collect();
        let pieces = characters.chunks(size).map(|c| c.iter().collect::<String>());
        let mut said: Vec<Said> = pieces.flat_map(|piece| reader.push(&piece)).collect();
        said.extend(reader.finish());
        let said = said.into_iter().fold(Vec::new(), |mut joined, next| {
            match (joined.last_mut(), &next) {
                (Some(Said::Text(text)), Said::Text(more)) => text.push_str(more),
                _ => joined.push(next),
            }
            joined
        });
        (said, reader.is_cut())
    }

    fn text(text: &str) -> Said {
        Said::Text(text.into())
    }

    fn call(tool: usize, arguments: &str) -> [Said; 1] {
        [Said::Call(tool, arguments.into())]
    }

    #[test]
    fn every_family_is_read_however_it_is_cut() {
        let tricky = r#"{"a": "}\"{", "b": [{"c": "ö<tool_call>"}]}"#;
        let hermes = |name: &str, arguments: &str| {
            format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
        };
        let two = [hermes("find", tricky), hermes("find_all", "{}")].join("\n");
        let both = [call(0, tricky), call(1, "{}")].concat();
        let list = format!(
            "[{{\"name\": \"find\", \"arguments\": {tricky}}}, {{\"name\": \"find_all\", \"arguments\": {{}}}}]"
        );
        let llama = format!("{{\"name\": \"find_all\", \"parameters\": {tricky}}}");
        let lines =
            format!("{{\"name\": \"find\", \"arguments\": {tricky}}}\n{{\"name\": \"find_all\", \"arguments\": {{}}}}");
        let cases: Vec<(&str, String, Vec<Said>)> = vec![
            (HERMES, two.clone(), both.clone()),
            (HERMES, format!("\n\n{two}"), both.clone()),
            (HERMES, format!("Let me see.\n{two}"), [vec![text("Let me see.\n")], both.clone()].concat()),
            (HERMES, "a < b <tool_ no".into(), vec![text("a < b <tool_ no")]),
            (HERMES, " <tool".into(), vec![text(" <tool")]),
            (MISTRAL, format!("[TOOL_CALLS]{list}"), both.clone()),
            (MISTRAL, format!("[TOOL_CALLS] {list}"), both.clone()),
            (MISTRAL, format!("Yes. {list}"), vec![text(&format!("Yes. {list}"))]),
            (LLAMA, llama.clone(), call(1, tricky).to_vec()),
            (LLAMA, format!("<|python_tag|>{llama}"), call(1, tricky).to_vec()),
            (
                LLAMA,
                "{\"name\": \"Bob\", \"parameters\": 1}".into(),
                vec![text("{\"name\": \"Bob\", \"parameters\": 1}")],
            ),
            (LLAMA, "<|python".into(), vec![text("<|python")]),
            (OTHER, lines, both),
            (OTHER, "{\"name\": \"finder\"}".into(), vec![text("{\"name\": \"finder\"}")]),
            (OTHER, "Hello".into(), vec![text("Hello")]),
        ];
        for (template, answer, expected) in cases {
            for size in [1, 2, 3, 7, 1000] {
                assert_eq!(read(template, &answer, size), expected, "{answer} in pieces of {size}");
            }
        }
    }

    #[test]
    fn an_answer_that_was_cut_off_keeps_what_it_said() {
        assert_eq!(read(HERMES, "Let me see.\n<tool_call>\n{\"na", 5), [text("Let me see.\n")]);
        assert_eq!(read(OTHER, "{\"na", 5), [text("{\"na")]);
    }

    #[test]
    fn a_call_that_was_cut_is_no_call_and_its_fragment_is_no_text() {
        let head = |format: &Format| [format.marker.unwrap_or_default(), format.open[0], format.head].concat();
        for template in [HERMES, MISTRAL, LLAMA, OTHER] {
            let format = Format::of(template);
            let arguments = "{\"a\": [1, \"}\"]}";
            let whole = [head(&format).as_str(), "find", format.middle, arguments].concat();
            for end in 0..=whole.len() {
                let (said, cut) = read_as(template, &whole[..end], 3, true);
                let expected = if end == whole.len() { call(0, arguments).to_vec() } else { Vec::new() };
                assert_eq!(said, expected, "{template}: {}", &whole[..end]);
                let inside = end > whole.len() - arguments.len() && end < whole.len();
                assert!(cut || !inside, "{template}: {}", &whole[..end]);
                assert!(!cut || end < whole.len(), "{template}: what is missing is no part of the call");
            }
        }
        // What was whole before it stays.
        let two = "<tool_call>\n{\"name\": \"find\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"find";
        assert_eq!(read_as(HERMES, two, 4, false), (call(0, "{}").to_vec(), true));
    }
}

//! The grammar of an answer that may or must call tools, in llguidance's Lark syntax.

use std::fmt::Write as _;

use serde_json::Value;
use terrace_wire::tools::{Tool, ToolChoice};

use super::format::Format;
use crate::grammar::Grammar;

/// Calls of one answer at most: a small model may repeat itself.
const MOST_CALLS: usize = 16;

/// What an answer's grammar depends on.
pub(in crate::server) struct Rules<'a> {
    pub(in crate::server) format: &'a Format,
    pub(in crate::server) tools: &'a [Tool],
    pub(in crate::server) choice: &'a ToolChoice,
    pub(in crate::server) parallel: bool,
    /// The marker's id, if it is a control token.
    pub(in crate::server) marker: Option<u32>,
    /// What an answer without calls must be; none: any text.
    pub(in crate::server) content: Option<Value>,
}

impl Rules<'_> {
    pub(in crate::server) fn grammar(self) -> Grammar {
        let mut rules = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut rules);
        let arguments =
            self.tools.iter().enumerate().map(|(i, tool)| (format!("arguments_{i}"), tool.parameters.clone()));
        let content = self.content.map(|schema| ("content".to_owned(), schema));
        Grammar::rules(rules, arguments.chain(content).collect())
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let Format { open, head, middle, tail, between, close, .. } = self.format;
        let marker = self.marker();
        let marked = self.format.is_marked();
        let start = match (self.choice, &self.content, marked) {
            (ToolChoice::Required | ToolChoice::Named(_), ..) => "called",
            (_, Some(_), _) => "@content | called",
            (_, None, true) if self.marker.is_some() => "ANY (called)?",
            (_, None, true) => "TEXT | before calls",
            (_, None, false) => "TEXT | called",
        };
        writeln!(out, "start: {start}")?;
        let optional = if marker.is_some() && !marked { "?" } else { "" };
        writeln!(out, "called: {}{optional} calls", marker.as_deref().unwrap_or_default())?;

        let opens: Vec<String> = open.iter().filter(|o| !o.is_empty()).map(|o| quoted(o)).collect();
        let opens = if opens.is_empty() { String::new() } else { format!("({})", opens.join(" | ")) };
        let more = match between.filter(|_| self.parallel) {
            None => String::new(),
            Some(between) => {
                let marker = marker.as_deref().filter(|_| between.marked).unwrap_or_default();
                format!("({} {marker} one){{0,{}}}", quoted(between.text), MOST_CALLS - 1)
            }
        };
        let close = if close.is_empty() { String::new() } else { quoted(close) };
        writeln!(out, "calls: {opens} one {more} {close}")?;

        let wanted = |i: &usize| !matches!(self.choice, ToolChoice::Named(only) if only != i);
        let wanted: Vec<usize> = (0..self.tools.len()).filter(wanted).collect();
        let each: Vec<String> = wanted.iter().map(|i| format!("HEAD_{i} @arguments_{i}")).collect();
        writeln!(out, "one: ({}) {}", each.join(" | "), quoted(tail))?;
        for &i in &wanted {
            writeln!(out, "HEAD_{i}: {}", quoted(&[head, self.tools[i].name.as_str(), middle].concat()))?;
        }
        if !start.contains("ANY") && !start.contains("TEXT") {
            return Ok(());
        }
        writeln!(out, "ANY: /(?s:.*)/")?;
        if start.contains("before") {
            let marker = marker.unwrap_or_default();
            writeln!(out, "before[lazy]: ANY {marker}\nCALLING: ANY {marker} ANY\nTEXT: ANY & ~CALLING")
        } else if start.contains("TEXT") {
            let heads: Vec<String> = wanted.iter().map(|i| format!("HEAD_{i}")).collect();
            writeln!(out, "CALLING: ({}) ANY\nTEXT: ANY & ~CALLING", heads.join(" | "))
        } else {
            Ok(())
        }
    }

    fn marker(&self) -> Option<String> {
        match (self.marker, self.format.marker) {
            (Some(id), _) => Some(format!("<[{id}]>")),
            (None, marker) => marker.map(quoted),
        }
    }
}

/// As a string of the grammar.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::testing::{CONTROL, Taken, grammars, takes};
    use crate::server::tools::testing::{HERMES, LLAMA, MISTRAL, OTHER};
    use serde_json::json;
    use terrace_wire::tools::read_tools;

    fn tools() -> Vec<Tool> {
        let number = json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"],
            "additionalProperties": false});
        let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": number}});
        read_tools(Some(&json!([tool("f"), tool("f_2")]))).unwrap()
    }

    struct Case {
        template: &'static str,
        one: &'static str,
        two: &'static str,
    }

    const CASES: [Case; 4] = [
        Case {
            template: HERMES,
            one: "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>",
            two: "<tool_call>\n{\"name\": \"f_2\", \"arguments\": {\"x\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": -2}}\n</tool_call>",
        },
        Case {
            template: MISTRAL,
            one: "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"x\": 1}}]",
            two: "[TOOL_CALLS] [{\"name\": \"f_2\", \"arguments\": {\"x\": 1}}, {\"name\": \"f\", \"arguments\": {\"x\":2}}]",
        },
        Case { template: LLAMA, one: "{\"name\": \"f\", \"parameters\": {\"x\": 1}}", two: "" },
        Case {
            template: OTHER,
            one: "{\"name\": \"f\", \"arguments\": {\"x\": 1}}",
            two: "{\"name\": \"f_2\", \"arguments\": {\"x\": 1}}\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}",
        },
    ];

    /// Each template with its marker as text, and as a control token where it has one.
    fn each(check: impl Fn(&Case, &str, &dyn Fn(ToolChoice, bool, Option<Value>, &str) -> Taken)) {
        let (grammars, tools) = (grammars(), tools());
        for case in &CASES {
            let format = Format::of(case.template);
            let markers: &[Option<u32>] = if format.marker.is_some() { &[None, Some(CONTROL)] } else { &[None] };
            for &marker in markers {
                let control = if marker.is_some() { format.marker.unwrap() } else { "" };
                let takes = |choice: ToolChoice, parallel: bool, content: Option<Value>, text: &str| {
                    let rules = Rules { format: &format, tools: &tools, choice: &choice, parallel, marker, content };
                    takes(&grammars.compile(&rules.grammar()).unwrap(), text, control)
                };
                check(case, control, &takes);
            }
        }
    }

    #[test]
    fn an_answer_may_be_words_or_calls() {
        each(|case, control, takes| {
            let auto = |text: &str| takes(ToolChoice::Auto, true, None, text);
            assert_eq!(auto("It is {1} <b> [2]."), Taken::Whole, "{} {control}", case.template);
            assert_eq!(auto(""), Taken::Whole);
            assert_eq!(auto(case.one), Taken::Whole, "{} {control}", case.one);
            assert_eq!(auto(case.two), Taken::Whole, "{} {control}", case.two);
            assert_eq!(auto("{\"name\": \"Ann\"}"), Taken::Whole, "{} {control}", case.template);
            if Format::of(case.template).is_marked() {
                assert_eq!(auto(&format!("Let me see. {}", case.one)), Taken::Whole, "{} {control}", case.one);
            }
            // Once a call has begun it is one.
            let wrong = case.one.replace("1}", "\"1\"}");
            assert_eq!(auto(&wrong), Taken::Not(wrong.find("\"1\"").unwrap()), "{wrong} {control}");
            assert_eq!(auto(&case.one[..case.one.len() - 1]), Taken::Part, "{} {control}", case.one);
        });
    }

    #[test]
    fn what_is_required_comes_and_nothing_else() {
        each(|case, control, takes| {
            let required = |text: &str| takes(ToolChoice::Required, true, None, text);
            assert_eq!(required("It is"), Taken::Not(0), "{} {control}", case.template);
            assert_eq!(required(case.one), Taken::Whole, "{} {control}", case.one);
            assert_eq!(required(case.two), if case.two.is_empty() { Taken::Part } else { Taken::Whole });
            let second = |text: &str| takes(ToolChoice::Named(1), true, None, text);
            assert!(matches!(second(case.one), Taken::Not(at) if at > 2), "{} {control}", case.one);
            assert_eq!(second(&case.one.replace("\"f\"", "\"f_2\"")), Taken::Whole, "{} {control}", case.one);
        });
    }

    #[test]
    fn one_call_is_one() {
        each(|case, control, takes| {
            assert_eq!(takes(ToolChoice::Auto, false, None, case.one), Taken::Whole);
            if !case.two.is_empty() {
                assert!(
                    matches!(takes(ToolChoice::Auto, false, None, case.two), Taken::Not(_)),
                    "{} {control}",
                    case.two
                );
            }
        });
    }

    #[test]
    fn an_answer_in_words_may_have_a_schema() {
        let content = || Some(json!({"type": "object", "properties": {"y": {"type": "boolean"}}, "required": ["y"]}));
        each(|case, control, takes| {
            if Format::of(case.template).is_marked() {
                assert_eq!(takes(ToolChoice::Auto, true, content(), "{\"y\": true}"), Taken::Whole, "{control}");
                assert_eq!(takes(ToolChoice::Auto, true, content(), case.one), Taken::Whole, "{} {control}", case.one);
                assert_eq!(takes(ToolChoice::Auto, true, content(), "Yes"), Taken::Not(0), "{control}");
            }
        });
    }
}

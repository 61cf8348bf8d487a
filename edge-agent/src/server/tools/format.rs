//! How a model writes calls, told by its chat template: a handful of families, each trained on one form.

/// The form of calls. A call is `head`, the function's name, `middle`, the arguments as JSON, `tail`; several calls
/// have `between` between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Format {
    /// Whether the template takes tools and calls itself. If not, they are put into words before it.
    pub(in crate::server) native: bool,
    /// What stands before the first call and in no other text, often a control token.
    pub(in crate::server) marker: Option<&'static str>,
    /// Whether a call may come without it.
    pub(in crate::server) marker_optional: bool,
    /// Before the first call, behind the marker; the model may write any of these.
    pub(in crate::server) open: &'static [&'static str],
    pub(in crate::server) head: &'static str,
    pub(in crate::server) middle: &'static str,
    pub(in crate::server) tail: &'static str,
    /// None: one call an answer. Begins with the marker's place where each call has its own.
    pub(in crate::server) between: Option<Between>,
    /// After the last call.
    pub(in crate::server) close: &'static str,
    /// Whether ids must be nine letters and digits.
    pub(in crate::server) short_ids: bool,
}

/// What stands between two calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Between {
    pub(in crate::server) text: &'static str,
    /// Whether the marker comes behind it.
    pub(in crate::server) marked: bool,
}

/// Hermes 2 and 3, Qwen 2.5 and 3: `<tool_call>` and JSON and `</tool_call>`, any number of them.
const HERMES: Format = Format {
    native: true,
    marker: Some("<tool_call>"),
    marker_optional: false,
    open: &[""],
    head: "\n{\"name\": \"",
    middle: "\", \"arguments\": ",
    tail: "}\n</tool_call>",
    between: Some(Between { text: "\n", marked: true }),
    close: "",
    short_ids: false,
};

/// Mistral 7B v0.3, Nemo and Large: `[TOOL_CALLS]` and a JSON list.
const MISTRAL: Format = Format {
    native: true,
    marker: Some("[TOOL_CALLS]"),
    marker_optional: false,
    open: &["[", " ["],
    head: "{\"name\": \"",
    middle: "\", \"arguments\": ",
    tail: "}",
    between: Some(Between { text: ", ", marked: false }),
    close: "]",
    short_ids: true,
};

/// Llama 3.1, 3.2 and 3.3: an answer that is one JSON object, now and then behind `<|python_tag|>`.
const LLAMA: Format = Format {
    native: true,
    marker: Some("<|python_tag|>"),
    marker_optional: true,
    open: &[""],
    head: "{\"name\": \"",
    middle: "\", \"parameters\": ",
    tail: "}",
    between: None,
    close: "",
    short_ids: false,
};

/// Any other model: told in words to answer with JSON objects.
const GENERIC: Format = Format {
    native: false,
    marker: None,
    marker_optional: true,
    open: &[""],
    head: "{\"name\": \"",
    middle: "\", \"arguments\": ",
    tail: "}",
    between: Some(Between { text: "\n", marked: false }),
    close: "",
    short_ids: false,
};

impl Format {
    /// What a template's text says.
    pub(in crate::server) fn of(template: &str) -> Format {
        let has = |text: &str| template.contains(text);
        // Newer forms in the same families, which are not JSON.
        let other = ["<function=", "<arg_key>", "[ARGS]"].into_iter().any(has);
        if !has("tools") || other {
            GENERIC
        } else if has("<tool_call>") {
            HERMES
        } else if has("[TOOL_CALLS]") {
            MISTRAL
        } else if has("<|python_tag|>") || has("ipython") && has("\"parameters\": ") {
            LLAMA
        } else {
            GENERIC
        }
    }

    /// Whether an answer that holds no call can be told from one that does by its first token that differs.
    pub(in crate::server) fn is_marked(&self) -> bool {
        self.marker.is_some() && !self.marker_optional
    }
}

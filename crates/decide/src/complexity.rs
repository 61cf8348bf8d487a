//! How hard a request is: by length alone, or by length, task words (English and Chinese) and structure.
//!
//! The verdict is a floor of quality, not a tier: which tiers reach it is the ladder's business.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use serde::{Deserialize, Serialize};
use terrace_contract::policy::{Complexity, ComplexityMode};

/// The quality that a complex request asks of a tier, if any permitted tier has it.
pub const COMPLEX_FLOOR: u8 = 70;
/// Points from which a request counts as complex.
const COMPLEX_FROM: i32 = 2;

/// What is looked at: the request's shape and the text of the last user turn.
#[derive(Clone, Copy)]
pub struct Prompt<'a> {
    /// Text of the last user turn.
    pub last_user: &'a str,
    /// Tokens of the whole prompt.
    pub prompt_tokens: u32,
    /// Tools that the model may call.
    pub tools: usize,
    /// Whether it is a short structured call of a chain: there the length of the transcript and the tools on offer are
    /// the same at every call, and say nothing of how hard this one is.
    pub step: bool,
}

/// How hard a request is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Whether it needs a more able tier.
    pub complex: bool,
    /// The quality (0-100) that it asks of a tier; 0: any.
    pub floor: u8,
    /// The task, as `capability.quality.tasks` names it; none: not recognised.
    pub task: Option<String>,
    /// Points for and against, and what gave them; never words of the prompt.
    pub signals: Vec<Signal>,
}

impl Verdict {
    /// Any tier will do.
    pub fn simple() -> Self {
        Self { complex: false, floor: 0, task: None, signals: Vec::new() }
    }

    /// A more able tier is needed.
    pub fn complex() -> Self {
        Self { complex: true, floor: COMPLEX_FLOOR, task: None, signals: Vec::new() }
    }
}

/// What speaks for or against complexity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Signal {
    /// Longer than the policy's threshold.
    Long,
    /// A word of a task that needs an able model.
    HardTask,
    /// A word of a task that any model does.
    EasyTask,
    /// Several steps or questions.
    Steps,
    /// Tools to choose among.
    Tools,
}

impl Signal {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Long => "long",
            Signal::HardTask => "hardTask",
            Signal::EasyTask => "easyTask",
            Signal::Steps => "steps",
            Signal::Tools => "tools",
        }
    }

    fn points(self) -> i32 {
        match self {
            Signal::Long | Signal::HardTask => 2,
            Signal::EasyTask => -2,
            Signal::Steps | Signal::Tools => 1,
        }
    }
}

/// Judges a prompt as the policy says. `Learned` has no weights yet and judges by rules: the operator names the
/// field in `FieldsActive`.
pub fn judge(policy: &Complexity, prompt: &Prompt<'_>) -> Verdict {
    let mut signals = Vec::new();
    let mut task = None;
    if prompt.prompt_tokens > policy.max_prompt_tokens && !prompt.step {
        signals.push(Signal::Long);
    }
    if policy.mode != ComplexityMode::Static {
        let found = words(prompt.last_user);
        task = found.task;
        if found.hard {
            signals.push(Signal::HardTask);
        }
        if found.easy {
            signals.push(Signal::EasyTask);
        }
        if steps(prompt.last_user) {
            signals.push(Signal::Steps);
        }
        if prompt.tools > 1 && !prompt.step {
            signals.push(Signal::Tools);
        }
    }
    let complex = signals.iter().map(|s| s.points()).sum::<i32>() >= COMPLEX_FROM;
    Verdict { complex, floor: if complex { COMPLEX_FLOOR } else { 0 }, task: task.map(str::to_owned), signals }
}

/// Words of tasks, and the task's name. `+` needs an able model, `-` does not, `=` only names the task.
const WORDS: &[(char, &str, &[&str])] = &[
    ('+', "legal", &["contract", "contracts", "clause", "liability", "lawsuit", "合同", "条款", "法律"]),
    (
        '+',
        "math",
        &["prove", "proof", "theorem", "derive", "integral", "equation", "calculate", "证明", "推导", "方程", "计算"],
    ),
    (
        '+',
        "reasoning",
        &[
            "step by step",
            "reason through",
            "trade-off",
            "trade-offs",
            "tradeoffs",
            "strategy",
            "root cause",
            "why does",
            "compare and contrast",
            "evaluate",
            "critique",
            "analyse",
            "analyze",
            "一步一步",
            "逐步",
            "分析",
            "推理",
            "评估",
            "比较",
        ],
    ),
    (
        '+',
        "code",
        &[
            "refactor",
            "implement",
            "debug",
            "algorithm",
            "function that",
            "write code",
            "write a program",
            "unit test",
            "regex",
            "sql query",
            "stack trace",
            "代码",
            "编程",
            "算法",
            "函数",
            "调试",
            "重构",
        ],
    ),
    ('+', "creative", &["poem", "story", "essay", "screenplay", "lyrics", "novel", "诗", "故事", "作文", "小说"]),
    (
        '-',
        "classify",
        &[
            "classify",
            "categorise",
            "categorize",
            "label this",
            "sentiment",
            "spam or not",
            "yes or no",
            "分类",
            "情感",
        ],
    ),
    ('-', "extract", &["extract", "list the names", "find the date", "提取", "抽取"]),
    ('-', "translate", &["translate", "translation", "翻译"]),
    (
        '-',
        "faq",
        &[
            "faq",
            "frequently asked",
            "opening hours",
            "business hours",
            "return policy",
            "reset my password",
            "track my order",
            "shipping cost",
            "常见问题",
            "营业时间",
            "退货",
            "密码重置",
        ],
    ),
    (
        '-',
        "greeting",
        &["hello", "good morning", "good evening", "how are you", "thank you", "thanks", "你好", "早上好", "谢谢"],
    ),
    ('=', "summarise", &["summarise", "summarize", "summary", "tl;dr", "总结", "摘要", "概括"]),
];

struct Lexicon {
    automaton: AhoCorasick,
    /// By pattern: index into [`WORDS`].
    group: Vec<usize>,
}

fn lexicon() -> Option<&'static Lexicon> {
    static LEXICON: OnceLock<Option<Lexicon>> = OnceLock::new();
    LEXICON
        .get_or_init(|| {
            let (mut patterns, mut group) = (Vec::new(), Vec::new());
            for (index, (_, _, words)) in WORDS.iter().enumerate() {
                for word in *words {
                    patterns.push(*word);
                    group.push(index);
                }
            }
            let automaton = AhoCorasickBuilder::new().ascii_case_insensitive(true).build(patterns).ok()?;
            Some(Lexicon { automaton, group })
        })
        .as_ref()
}

#[derive(Default)]
struct Found {
    hard: bool,
    easy: bool,
    task: Option<&'static str>,
}

/// Finds task words that stand alone. Han words need no border; others have no letter or digit beside them. The
/// task is the first hard one, else the first easy one, else the first named.
fn words(text: &str) -> Found {
    let mut found = Found::default();
    let Some(lexicon) = lexicon() else { return found };
    let bytes = text.as_bytes();
    let mut best = 3;
    for hit in lexicon.automaton.find_overlapping_iter(text) {
        let ascii = bytes[hit.start()].is_ascii();
        let inside = |at: Option<usize>| at.and_then(|i| bytes.get(i)).is_some_and(u8::is_ascii_alphanumeric);
        if ascii && (inside(hit.start().checked_sub(1)) || inside(Some(hit.end()))) {
            continue;
        }
        let (kind, task, _) = WORDS[lexicon.group[hit.pattern().as_usize()]];
        let rank = match kind {
            '+' => {
                found.hard = true;
                0
            }
            '-' => {
                found.easy = true;
                1
            }
            _ => 2,
        };
        if rank < best {
            (best, found.task) = (rank, Some(task));
        }
    }
    found
}

/// Whether the text has at least three numbered or bulleted lines, or three questions.
fn steps(text: &str) -> bool {
    let item = |line: &str| {
        let line = line.trim_start();
        line.starts_with("- ") || line.starts_with("* ") || {
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
            rest.len() < line.len() && rest.starts_with(['.', ')', '、'])
        }
    };
    text.lines().filter(|l| item(l)).take(3).count() == 3
        || text.chars().filter(|c| matches!(c, '?' | '\u{ff1f}')).take(3).count() == 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Complexity = Complexity { mode: ComplexityMode::Rules, max_prompt_tokens: 50 };

    fn of(text: &str, prompt_tokens: u32) -> Verdict {
        judge(&RULES, &Prompt { last_user: text, prompt_tokens, tools: 0, step: false })
    }

    #[test]
    fn forty_tokens_about_the_risks_of_a_contract_go_up() {
        let verdict = of("Summarise the key risks of this contract.", 40);
        assert!(verdict.complex);
        assert_eq!((verdict.floor, verdict.task.as_deref()), (COMPLEX_FLOOR, Some("legal")));
    }

    #[test]
    fn two_hundred_tokens_of_faq_stay() {
        let verdict = of("From the FAQ below, what are your opening hours on Sunday? ...", 200);
        assert!(!verdict.complex, "{verdict:?}");
        assert_eq!(verdict.task.as_deref(), Some("faq"));
    }

    #[test]
    fn chinese_task_words_count_without_borders() {
        assert!(of("请帮我审查这份合同的风险", 20).complex);
        assert!(!of("请把下面的句子翻译成英文", 120).complex);
    }

    #[test]
    fn a_word_inside_another_is_not_that_word() {
        assert!(!of("My contractor is late.", 8).complex);
        assert!(!of("This is improved.", 8).complex);
    }

    #[test]
    fn static_mode_sees_only_the_length() {
        let fixed = Complexity { mode: ComplexityMode::Static, max_prompt_tokens: 50 };
        let judge = |text, prompt_tokens| {
            judge(&fixed, &Prompt { last_user: text, prompt_tokens, tools: 3, step: false }).complex
        };
        assert!(!judge("prove this contract", 50));
        assert!(judge("hello", 51));
    }

    #[test]
    fn steps_and_tools_together_go_up_and_neither_alone() {
        let text = "1. open it\n2. read it\n3. close it";
        assert!(!of(text, 20).complex);
        assert!(judge(&RULES, &Prompt { last_user: text, prompt_tokens: 20, tools: 2, step: false }).complex);
    }
}

//! Answers that keep to a grammar: JSON, a JSON Schema, a tool's call. `llguidance` says which tokens may come next; this
//! room hands it the model's vocabulary, once, when it is first needed, and keeps its work beside the network's: the
//! mask of the next token is made while the step that needs it is computed.

mod apart;
mod classes;
mod constraint;
mod ends;
mod fault;
mod idle;
mod keys;
mod limits;
mod lint;
mod parts;
mod pattern;
mod place;
mod plain;
mod refs;
mod size;
mod source;
mod vocabulary;

use std::sync::{Arc, OnceLock};

use llguidance::api::ParserLimits;
use llguidance::toktrie::InferenceCapabilities;
use llguidance::{Matcher, ParserFactory, TokenParser};
use serde_json::Value;

pub use constraint::{Compiled, Constraint, Lost};
pub use fault::Fault;
pub use place::{Place, Step};
pub use size::{Size, TooLarge};
pub use source::Grammar;

use crate::gguf::Tokenizer;
use constraint::Worker;

/// Text inside of JSON strings, of which most of a vocabulary is made: those tokens are looked at together. With more
/// such sets masks are no quicker, and each is a copy of the vocabulary in memory.
const STRINGS: &str = r#"[^"\\\x00-\x1F\x7F]{1,30}"#;
/// States of one answer's lexer at most; each takes one or two kilobytes.
const MOST_STATES: usize = 20_000;

/// Stack of a thread that compiles: what is not used takes no memory.
const STACK: usize = 64 << 20;

/// What makes constraints for one model. Cheap until the first is asked for.
pub struct Grammars {
    tokenizer: Arc<Tokenizer>,
    made: OnceLock<Result<Made, Unusable>>,
}

struct Made {
    factory: ParserFactory,
    worker: Worker,
}

/// Why there is no constraint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The model's vocabulary is larger than what can be searched.
    #[error("the model's vocabulary is too large for constrained answers")]
    Vocabulary,
    /// No thread could be made.
    #[error("no thread for constrained answers: raise the limit of processes")]
    Thread,
    /// The grammar cannot be followed: what it says is beyond what is supported, or it allows nothing.
    #[error("the grammar cannot be followed")]
    Grammar,
}

impl Grammars {
    /// For a model's vocabulary.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        Grammars { tokenizer, made: OnceLock::new() }
    }

    /// Compiles a grammar. The first call takes a second or so, others milliseconds: not for a thread that others wait
    /// for.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn compile(&self, grammar: &Grammar) -> Result<Compiled, Unusable> {
        let made = self.made()?;
        deep(|| Ok(Compiled::new(made.parser(grammar)?, made.worker.clone())))?
    }

    /// What is wrong with a JSON Schema; none if it can be followed.
    ///
    /// # Errors
    /// [`Unusable`], but never for the schema itself.
    pub fn fault(&self, schema: &Value) -> Result<Option<Fault>, Unusable> {
        let made = self.made()?;
        deep(|| made.fault(schema))
    }

    fn made(&self) -> Result<&Made, Unusable> {
        self.made.get_or_init(|| self.make()).as_ref().map_err(Clone::clone)
    }

    fn make(&self) -> Result<Made, Unusable> {
        let began = std::time::Instant::now();
        let vocabulary = vocabulary::environment(&self.tokenizer).ok_or(Unusable::Vocabulary)?;
        let mut factory = ParserFactory::new(&vocabulary, InferenceCapabilities::default(), &[STRINGS.to_owned()])
            .map_err(|_| Unusable::Vocabulary)?;
        // Its own log and its verbose errors repeat what answers say.
        factory.quiet();
        *factory.limits_mut() =
            ParserLimits { verbose_errors: false, max_lexer_states: MOST_STATES, ..ParserLimits::default() };
        let worker = Worker::start().map_err(|_| Unusable::Thread)?;
        tracing::info!(millis = began.elapsed().as_millis() as u64, "the vocabulary is ready for constrained answers");
        Ok(Made { factory, worker })
    }
}

/// Runs it where there is room for what follows reference after reference by recursion.
fn deep<T: Send>(run: impl FnOnce() -> T + Send) -> Result<T, Unusable> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("schema".into()).stack_size(STACK).spawn_scoped(scope, run);
        thread.map_err(|_| Unusable::Thread)?.join().map_err(|_| Unusable::Grammar)
    })
}

/// What a schema in plain words must be beyond what `llguidance` looks at itself, and what is said of one that is not.
const BOUNDS: [(fn(&Value) -> bool, &str); 3] = [
    (limits::fits, "has too many combinations with what it is joined with: write it out as one schema"),
    (
        ends::always,
        "needs itself inside of itself and so never ends: make it optional, nullable, or a list that may be empty",
    ),
    (
        keys::kept,
        "members of names that are not listed cannot be counted past those required: list them, or lower the count",
    ),
];
/// What is said of a schema with more parts than are looked at.
const TOO_MANY: &str = "has more than 5000 objects and lists: make it smaller";

impl Made {
    fn parser(&self, grammar: &Grammar) -> Result<TokenParser, Unusable> {
        let mut size = Size::default();
        let fine = |schema: &Value| limits::few(schema) && lint::first(schema).is_none();
        if !grammar.schemas().all(|schema| size.add(schema).is_ok() && fine(schema)) {
            return Err(Unusable::Grammar);
        }
        let plain = grammar.with(plain::plain);
        if !plain.schemas().all(|schema| BOUNDS.iter().all(|(kept, _)| kept(schema))) {
            return Err(Unusable::Grammar);
        }
        self.compiled(&plain)
    }

    /// Of schemas in plain words.
    fn compiled(&self, plain: &Grammar) -> Result<TokenParser, Unusable> {
        // Why is not said: its errors repeat the schema.
        let parser = self.factory.create_parser(plain.top_level()).map_err(|_| Unusable::Grammar)?;
        // Some that nothing fits compile all the same, and then nothing may come.
        match Matcher::new(Ok(parser.deep_clone())).compute_mask() {
            Ok(_) => Ok(parser),
            Err(_) => Err(Unusable::Grammar),
        }
    }

    fn fault(&self, schema: &Value) -> Option<Fault> {
        if let Err(limit) = Size::default().add(schema) {
            return Some(Fault::wrong(Place::new(), limit.to_string()));
        }
        if !limits::few(schema) {
            return Some(Fault::wrong(Place::new(), TOO_MANY));
        }
        if let Some(fault) = lint::first(schema) {
            return Some(fault);
        }
        for (kept, what) in BOUNDS {
            if let Some(place) = fault::first(schema, |trial| kept(&plain::plain(trial))) {
                return Some(Fault::beyond(place, what));
            }
        }
        let compiles = |trial: &Value| self.compiled(&Grammar::schema(plain::plain(trial))).is_ok();
        fault::first(schema, compiles).map(Fault::found)
    }
}

impl std::fmt::Debug for Grammars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammars").field("made", &self.made.get().is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod plain_tests;
#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests {
    use super::testing::{Taken, grammars, takes};
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_is_kept_to_the_byte() {
        let grammars = grammars();
        let person = json!({"type": "object", "additionalProperties": false, "required": ["name", "age"],
            "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"$ref": "#/$defs/age"}},
            "$defs": {"age": {"type": "integer", "minimum": 0, "maximum": 120}}});
        let compiled = grammars.compile(&Grammar::schema(person)).unwrap();
        for (text, taken) in [
            (r#"{"name": "Zoë", "age": 7}"#, Taken::Whole),
            ("{\n  \"name\":\"Zo\\u001f\",\n  \"age\": 120\n}", Taken::Whole),
            (r#"{"name": "Z"#, Taken::Part),
            (r#"{"name": "Z", "age": 121}"#, Taken::Not(23)),
            (r#"{"age": 1"#, Taken::Not(2)),
            (r#"{"name": "abcdef"#, Taken::Not(15)),
            (r#"{"name": "a", "age": 1} "#, Taken::Not(23)),
            ("Sure: ", Taken::Not(0)),
        ] {
            assert_eq!(takes(&compiled, text, ""), taken, "{text}");
        }
        // White space is bounded, so that an answer cannot go on with nothing but that.
        assert_eq!(takes(&compiled, &format!("{{{}", " ".repeat(30)), ""), Taken::Not(3));
        assert_eq!(takes(&compiled, "{\n\n", ""), Taken::Not(2));
        let object = grammars.compile(&Grammar::object()).unwrap();
        assert_eq!(takes(&object, r#"{"a": [1, null, {"b": -2.5e3}], "c": ""}"#, ""), Taken::Whole);
        assert_eq!(takes(&object, "[", ""), Taken::Not(0));
    }

    #[test]
    fn a_callers_options_for_the_compiler_are_not_obeyed() {
        let lenient = json!({"type": "integer", "not": {"const": 1}, "x-guidance": {"lenient": true}});
        assert_eq!(grammars().compile(&Grammar::schema(lenient)).unwrap_err(), Unusable::Grammar);
    }

    /// None of them may end the process or take long, whether it can be followed or not.
    #[test]
    fn schemas_that_mean_harm_do_none() {
        let grammars = grammars();
        let two = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
        let tree = json!({"properties": {"l": {"$ref": "#/$defs/t"}, "r": {"$ref": "#/$defs/u"}}});
        let chain = |around: fn(Value) -> Value| {
            let link = |i: usize| (format!("d{i}"), around(json!({"$ref": format!("#/$defs/d{}", i + 1)})));
            let defs = (0..1500).map(link).chain([("d1500".into(), json!({"type": "null"}))]);
            json!({"$ref": "#/$defs/d0", "$defs": defs.collect::<serde_json::Map<_, _>>()})
        };
        let nested =
            (0..60).fold(json!({"type": "null"}), |inner, _| json!({"type": "array", "items": inner, "minItems": 2}));
        let schemas = [
            json!({"allOf": vec![two; 30]}),
            json!({"allOf": [{"$ref": "#/$defs/t"}, {"$ref": "#/$defs/u"}], "$defs": {"t": tree, "u": tree}}),
            chain(|next| next),
            chain(|next| json!({"type": "array", "items": next})),
            chain(|next| json!({"anyOf": [{"type": "string"}, next]})),
            chain(|next| json!({"allOf": [next, {"type": "object"}]})),
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 1_000_000_000}),
            json!({"type": "string", "minLength": 1_000_000_000}),
            json!({"type": "string", "pattern": "^((a{1,1000}){1,1000}){1,1000}$"}),
            json!({"type": "string", "pattern": "(".repeat(5000)}),
            json!({"type": "integer", "minimum": -1e300, "maximum": 1e300, "multipleOf": 0.000_1}),
            json!({"enum": (0..50_000).map(|i| format!("value {i}")).collect::<Vec<_>>()}),
            json!({"type": "object", "required": (0..3000).map(|i| format!("p{i}")).collect::<Vec<_>>()}),
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}}),
            nested,
        ];
        for schema in schemas {
            let began = std::time::Instant::now();
            if let Ok(compiled) = grammars.compile(&Grammar::schema(schema.clone())) {
                // Lost or not.
                let _ = compiled.begin().allowed();
            }
            let (took, text) = (began.elapsed(), schema.to_string());
            assert!(took.as_secs() < 10, "{took:?}: {}", &text[..text.len().min(80)]);
        }
    }
}

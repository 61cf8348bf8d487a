//! The chat template that a file carries: Jinja as Hugging Face's tools run it.

use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, ErrorKind, Value, context};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::control::Controls;
use super::{GgufError, Metadata, Prompt, Tokenizer};

const KEY: &str = "tokenizer.chat_template";
const NAME: &str = "chat";

/// Makes one prompt of a conversation.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    controls: Arc<Controls>,
    bos: String,
    eos: String,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate").field("bytes", &self.source.len()).finish_non_exhaustive()
    }
}

/// The template does not take these messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It says so itself (`raise_exception`), in words that stand in the template.
    #[error("the model's chat template refuses these messages: {0}")]
    Refused(String),
    /// It does something that cannot be done with them. Nothing of the messages is repeated here.
    #[error("the model's chat template fails on these messages in line {line}: {kind}; send plain text messages")]
    Failed {
        /// Line of the template.
        line: usize,
        /// What went wrong there.
        kind: String,
    },
    /// They hold every mark that could tell their words from the template's.
    #[error("the messages hold all of the code points U+FDD0 to U+FDEF, which are no characters: send text")]
    Marks,
}

impl ChatTemplate {
    /// The file's template; none if it has none.
    ///
    /// # Errors
    /// When it is not a template.
    pub fn from_metadata(metadata: &Metadata, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, GgufError> {
        let Some(source) = metadata.optional_string(KEY)? else { return Ok(None) };
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| GgufError::key(KEY, e.kind().to_string()))?);
        environment.set_fuel(Some(50_000_000));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", strftime_now);
        environment.add_filter("tojson", to_json);
        environment
            .add_template_owned(NAME, source.to_owned())
            .map_err(|e| GgufError::key(KEY, format!("line {}: {}", e.line().unwrap_or(0), e.kind())))?;
        Ok(Some(ChatTemplate {
            environment,
            source: source.to_owned(),
            controls: tokenizer.shared_controls().clone(),
            bos: tokenizer.bos_text().to_owned(),
            eos: tokenizer.eos_text().to_owned(),
        }))
    }

    /// The template's own text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The prompt that asks for the next answer of the assistant. `messages` are OpenAI's (`role`, `content`, …);
    /// `tools` its list of tools, if any. Control tokens that a message writes out stay words.
    ///
    /// # Errors
    /// [`TemplateError`]; it never repeats what the messages say.
    pub fn render(
        &self,
        messages: &[serde_json::Value],
        tools: Option<&serde_json::Value>,
    ) -> Result<Prompt, TemplateError> {
        let values: Vec<&serde_json::Value> = messages.iter().chain(tools).collect();
        let mark = Controls::mark_for(&values, &self.source).ok_or(TemplateError::Marks)?;
        let messages: Vec<_> = messages.iter().map(|message| self.controls.mark_all(message, mark)).collect();
        let variables = context! {
            messages => Value::from(Serde(messages)),
            tools => tools.map(|tools| Value::from(Serde(self.controls.mark_all(tools, mark)))),
            add_generation_prompt => true,
            bos_token => self.bos.as_str(),
            eos_token => self.eos.as_str(),
        };
        let template = self.environment.get_template(NAME).map_err(|e| self.explain(&e))?;
        let text = template.render(variables).map_err(|e| self.explain(&e))?;
        Ok(Prompt { text, mark: Some(mark) })
    }

    fn explain(&self, error: &minijinja::Error) -> TemplateError {
        match error.detail() {
            // A message built from a user's words is not in the template's text, and is not repeated.
            Some(words) if !words.is_empty() && self.source.contains(words) => TemplateError::Refused(words.to_owned()),
            _ => TemplateError::Failed { line: error.line().unwrap_or(0), kind: error.kind().to_string() },
        }
    }
}

/// Today by the machine's clock in UTC, as the templates that ask for the date want it.
fn strftime_now(format: String) -> Result<String, minijinja::Error> {
    jiff::fmt::strtime::format(&format, &jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC))
        .map_err(|_| minijinja::Error::new(ErrorKind::InvalidOperation, "strftime_now does not know this format"))
}

/// As Python's `json.dumps(value, ensure_ascii=False)` writes it, which is what models were trained on; Jinja's own filter
/// of this name escapes for HTML.
fn to_json(value: Value, options: Kwargs) -> Result<String, minijinja::Error> {
    let indent = options.get::<Option<usize>>("indent")?;
    options.get::<Option<bool>>("ensure_ascii")?;
    options.assert_all_used()?;
    match indent {
        None => dump(&value, Spaced),
        Some(width) => dump(&value, PrettyFormatter::with_indent(" ".repeat(width.min(16)).as_bytes())),
    }
}

fn dump(value: &Value, formatter: impl Formatter) -> Result<String, minijinja::Error> {
    let mut out = Vec::new();
    let failed = || minijinja::Error::new(ErrorKind::BadSerialization, "tojson cannot write this value");
    value.serialize(&mut Serializer::with_formatter(&mut out, formatter)).map_err(|_| failed())?;
    String::from_utf8(out).map_err(|_| failed())
}

/// A space behind each comma and colon.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, to: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, to: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, to: &mut W) -> std::io::Result<()> {
        to.write_all(b": ")
    }
}

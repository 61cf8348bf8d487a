//! The chat template that a file carries: Jinja as Hugging Face's tools run it.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Value, context};

use super::{GgufError, Metadata};

const KEY: &str = "tokenizer.chat_template";
const NAME: &str = "chat";

/// Makes one prompt of a conversation.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
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
}

impl ChatTemplate {
    /// The file's template; none if it has none.
    ///
    /// # Errors
    /// When it is not a template.
    pub fn from_metadata(metadata: &Metadata, bos: &str, eos: &str) -> Result<Option<ChatTemplate>, GgufError> {
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
        environment
            .add_template_owned(NAME, source.to_owned())
            .map_err(|e| GgufError::key(KEY, format!("line {}: {}", e.line().unwrap_or(0), e.kind())))?;
        Ok(Some(ChatTemplate { environment, source: source.to_owned(), bos: bos.to_owned(), eos: eos.to_owned() }))
    }

    /// The prompt that asks for the next answer of the assistant. `messages` are OpenAI's (`role`, `content`, …);
    /// `tools` its list of tools, if any.
    ///
    /// # Errors
    /// [`TemplateError`]; it never repeats what the messages say.
    pub fn render(
        &self,
        messages: &[serde_json::Value],
        tools: Option<&serde_json::Value>,
    ) -> Result<String, TemplateError> {
        let variables = context! {
            messages => Value::from(Serde(messages)),
            tools => tools.map(|t| Value::from(Serde(t))),
            add_generation_prompt => true,
            bos_token => self.bos.as_str(),
            eos_token => self.eos.as_str(),
        };
        let template = self.environment.get_template(NAME).map_err(|e| self.explain(&e))?;
        template.render(variables).map_err(|e| self.explain(&e))
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

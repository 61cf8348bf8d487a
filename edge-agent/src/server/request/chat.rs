//! A chat completion: conversation, tools and format to a prompt and a grammar.

use serde_json::Value;
use terrace_wire::chat::ChatRequest;
use terrace_wire::error::{Code, ErrorBody};
use terrace_wire::format::{ResponseFormat, schema_pointer};
use terrace_wire::pointer::Pointer;
use terrace_wire::tools::{Tool, ToolChoice, read_allowed, read_choice, read_tools};

use super::{Calls, Job, check_length, check_model, of, sampling};
use crate::engine::GenerateRequest;
use crate::grammar::{Compiled, Fault, Grammar, Size, Step, Unusable};
use crate::server::Agent;
use crate::server::error::ApiError;
use crate::server::tools::format::Format;
use crate::server::tools::history;
use crate::server::tools::rules::Rules;

pub(super) fn read(agent: &Agent, body: Value) -> Result<Job, ApiError> {
    let root = Pointer::root();
    sampling::check_bias(&body, agent.engine.model().vocabulary)?;
    let request = ChatRequest::from_value(body)?;
    check_model(agent, &request.params.model)?;
    if request.top_logprobs.is_some() && !request.logprobs {
        return Err(ErrorBody::invalid(&root.key("top_logprobs"), "needs logprobs: true").into());
    }
    let wanted = Wanted::read(&request)?;
    let at = root.key("messages");
    let template = agent
        .engine
        .chat_template()
        .ok_or_else(|| ErrorBody::unsupported(&at, "the model has no chat template: use /v1/completions"))?;
    let format = Format::of(template.source());
    let offered = request.tools.as_ref().filter(|_| wanted.calls());
    let messages = history::messages(&format, &request.messages, offered)?;
    let refused = |e: &dyn std::fmt::Display| ErrorBody::invalid(&at, e);
    let prompt = template.render(&messages, offered.filter(|_| format.native)).map_err(|e| refused(&e))?;
    check_length(agent, prompt.bytes(), &at)?;
    let tokenizer = agent.engine.tokenizer();
    let tokens = tokenizer.encode_prompt(&prompt).map_err(|e| refused(&e))?;

    let marker = format.marker.and_then(|marker| tokenizer.control(marker)).filter(|_| wanted.calls());
    let alternatives = request.top_logprobs.unwrap_or(0) as u8;
    let names = || wanted.tools.iter().map(|t| t.name.clone()).collect();
    let calls = wanted.calls().then(|| Calls { format, names: names(), required: wanted.choice != ToolChoice::Auto });
    let kept = wanted.place();
    let grammar = wanted.grammar(agent, &format, marker).map_err(|error| match &kept {
        Some(at) if error.body.error.param.is_none() => error.at(at),
        _ => error,
    })?;
    let generate = GenerateRequest {
        sampling: sampling::read(&request.params),
        stop: request.params.stop.strings(),
        top_logprobs: alternatives,
        grammar,
        shown: marker.into_iter().collect(),
        ..GenerateRequest::new(tokens, request.output_limit().unwrap_or(agent.model.context_tokens))
    };
    let logprobs = request.logprobs.then_some(alternatives);
    Ok(Job { calls, logprobs, kept, ..of(&request.params, vec![generate], vec![at]) })
}

/// What the answer is to be.
struct Wanted {
    /// Those that may be called.
    tools: Vec<Tool>,
    /// Where each of them stands among the request's.
    indices: Vec<usize>,
    choice: ToolChoice,
    parallel: Option<bool>,
    format: ResponseFormat,
}

impl Wanted {
    fn read(request: &ChatRequest) -> Result<Self, ErrorBody> {
        let mut tools = read_tools(request.tools.as_ref())?;
        let mut size = Size::default();
        if let Some(i) = tools.iter().position(|t| t.parameters.get("type").is_some_and(|kind| kind != "object")) {
            let at = parameters(i).key("type");
            return Err(ErrorBody::invalid(&at, "must be object: arguments have names"));
        }
        for parameters in tools.iter_mut().filter_map(|tool| tool.parameters.as_object_mut()) {
            parameters.entry("type").or_insert_with(|| "object".into());
        }
        if request.parallel_tool_calls.is_some() && tools.is_empty() {
            return Err(ErrorBody::invalid(&Pointer::root().key("parallel_tool_calls"), "needs tools"));
        }
        let (choice, indices) = match read_allowed(request.tool_choice.as_ref(), &tools)? {
            Some(allowed) => allowed,
            None => (read_choice(request.tool_choice.as_ref(), &tools)?, (0..tools.len()).collect()),
        };
        let mut tools: Vec<Tool> = indices.iter().map(|i| tools[*i].clone()).collect();
        let format = ResponseFormat::read(request.response_format.as_ref())?;
        if let ResponseFormat::Schema(schema) = &format {
            size.add(schema).map_err(|limit| ErrorBody::invalid(&schema_pointer(), limit))?;
        }
        for (i, tool) in indices.iter().zip(&mut tools).filter(|_| choice != ToolChoice::None) {
            match size.add(&tool.parameters) {
                Ok(()) => {}
                Err(limit) if tool.strict => return Err(ErrorBody::invalid(&parameters(*i), limit)),
                Err(_) => tool.parameters = any_object(),
            }
        }
        Ok(Wanted { tools, indices, choice, parallel: request.parallel_tool_calls, format })
    }

    /// Whether the answer may hold calls.
    fn calls(&self) -> bool {
        self.choice != ToolChoice::None
    }

    /// Where what the answer has to keep to stands; none: anything goes.
    fn place(&self) -> Option<Pointer> {
        match &self.format {
            ResponseFormat::Schema(_) => Some(schema_pointer()),
            _ if self.calls() => Some(Pointer::root().key("tools")),
            ResponseFormat::Object => Some(Pointer::root().key("response_format")),
            ResponseFormat::Text => None,
        }
    }

    /// Whether an answer may hold several calls. Where nothing is said: not of a function that is named, as with OpenAI, and
    /// not of a model that was never taught calls, which would repeat the first one until it is cut off.
    fn several(&self, format: &Format) -> bool {
        self.parallel.unwrap_or(format.native && !matches!(self.choice, ToolChoice::Named(_)))
    }

    /// What keeps the answer to it; none: anything goes.
    fn grammar(mut self, agent: &Agent, format: &Format, marker: Option<u32>) -> Result<Option<Compiled>, ApiError> {
        if self.calls() {
            return self.calling(agent, format, marker).map(Some);
        }
        let (grammar, schema) = match self.format {
            ResponseFormat::Text => return Ok(None),
            ResponseFormat::Object => (Grammar::object(), None),
            ResponseFormat::Schema(schema) => (Grammar::schema(schema.clone()), Some(schema)),
        };
        match (agent.grammars.compile(&grammar), schema) {
            (Ok(compiled), _) => Ok(Some(compiled)),
            (Err(Unusable::Grammar), Some(schema)) => {
                let fault = agent.grammars.fault(&schema).map_err(|e| unusable(&e))?;
                Err(fault
                    .map_or_else(|| unusable(&Unusable::Grammar), |found| refused(schema_pointer(), &found).into()))
            }
            (Err(e), _) => Err(unusable(&e)),
        }
    }

    fn calling(&mut self, agent: &Agent, format: &Format, marker: Option<u32>) -> Result<Compiled, ApiError> {
        let content = match std::mem::replace(&mut self.format, ResponseFormat::Text) {
            ResponseFormat::Text => None,
            _ if self.choice == ToolChoice::Auto && !format.is_marked() => {
                let what =
                    "this model's calls are JSON as well: leave tools out, or set tool_choice to none or required";
                return Err(ErrorBody::unsupported(&Pointer::root().key("response_format"), what).into());
            }
            ResponseFormat::Object => Some(serde_json::json!({"type": "object"})),
            ResponseFormat::Schema(schema) => Some(schema),
        };
        // Whether a schema is at fault shows only once the whole is compiled; most never are.
        if let Ok(compiled) = self.compile(agent, format, marker, content.clone()) {
            return Ok(compiled);
        }
        for (i, tool) in self.indices.iter().zip(&mut self.tools) {
            if tool.strict {
                if let Some(found) = agent.grammars.fault(&tool.parameters).map_err(|e| unusable(&e))? {
                    return Err(refused(parameters(*i), &found).into());
                }
            } else if agent.grammars.compile(&Grammar::schema(tool.parameters.clone())).is_err() {
                tool.parameters = any_object();
            }
        }
        if let Some(schema) = &content
            && let Some(found) = agent.grammars.fault(schema).map_err(|e| unusable(&e))?
        {
            return Err(refused(schema_pointer(), &found).into());
        }
        self.compile(agent, format, marker, content).map_err(|e| unusable(&e))
    }

    fn compile(
        &self,
        agent: &Agent,
        format: &Format,
        marker: Option<u32>,
        content: Option<Value>,
    ) -> Result<Compiled, Unusable> {
        let Wanted { tools, choice, .. } = self;
        let rules = Rules { format, tools, choice, parallel: self.several(format), marker, content };
        agent.grammars.compile(&rules.grammar())
    }
}

/// Where a tool's parameters stand.
fn parameters(tool: usize) -> Pointer {
    Pointer::root().key("tools").index(tool).key("function").key("parameters")
}

/// Without `strict` arguments are the model's best effort; an object they are all the same.
fn any_object() -> Value {
    serde_json::json!({"type": "object"})
}

/// What is wrong with the schema that stands there.
fn refused(at: Pointer, fault: &Fault) -> ErrorBody {
    let place = fault.place.iter().fold(at, |at, step| match step {
        Step::Key(key) => at.key(key),
        Step::Nth(n) => at.nth(*n),
        Step::Index(i) => at.index(*i),
    });
    if fault.unsupported {
        ErrorBody::unsupported(&place, &fault.what)
    } else {
        ErrorBody::invalid(&place, &fault.what)
    }
}

fn unusable(error: &Unusable) -> ApiError {
    match error {
        Unusable::Vocabulary => ApiError::new(Code::UnsupportedFeature, error.to_string()),
        Unusable::Thread | Unusable::Grammar => ApiError::new(Code::Internal, error.to_string()),
    }
}

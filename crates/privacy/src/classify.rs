//! How sensitive a request is, and why.
//!
//! Class = the highest of the policy's floor, the caller's label, the detector's and the conversation's earlier class. A
//! key with `trustLabel` may label below the floor, never below the detector. Whatever goes wrong with the detector
//! makes the request Restricted.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::BuildHasher as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use foldhash::quality::RandomState;
use regex_automata::meta::{BuildError, Regex};
use regex_automata::{Input, PatternSet};
use serde_json::Value;
use terrace_contract::policy::Sensitivity;
use terrace_contract::reason::Reason;
use terrace_contract::trust::Class;

use crate::borders::{self, Borders};
use crate::detect::{self, decode, secrets};
use crate::normalise::normalise;
use crate::segments::{self, Segment, Stop};

/// Score from which a request is Confidential.
const CONFIDENTIAL: f64 = 0.35;
/// Score from which it is Restricted.
const RESTRICTED: f64 = 0.80;
/// What each distinct entity adds.
const EACH: f64 = 0.03;
/// Text of one request that is read, bytes.
const MAX_TEXT: usize = 256 * 1024;
/// Findings that are kept with their place.
const MAX_FINDINGS: usize = 64;
/// Memory of the automaton of a policy's own patterns, bytes.
const MAX_AUTOMATON: usize = 8 << 20;

/// A policy's sensitivity, compiled once.
#[derive(Debug, Clone)]
pub struct Rules {
    sensitivity: Arc<Sensitivity>,
    entities: Option<Regex>,
}

/// A pattern of the policy that does not compile: the whole policy fails.
#[derive(Debug, thiserror::Error)]
#[error(
    "sensitivity.entities[{index}] ({name}): the pattern does not compile: correct it, for example \"ACME-[0-9]{{4}}\""
)]
pub struct EntityError {
    /// Position in the list.
    pub index: usize,
    /// The entity's type.
    pub name: String,
    /// What is wrong with it.
    #[source]
    pub source: Box<BuildError>,
}

impl Rules {
    /// Compiles a policy's sensitivity.
    ///
    /// # Errors
    /// [`EntityError`] for the first pattern that does not compile.
    pub fn compile(sensitivity: &Sensitivity) -> Result<Self, EntityError> {
        let config = || Regex::config().nfa_size_limit(Some(MAX_AUTOMATON)).onepass(false);
        let patterns: Vec<&str> = sensitivity.entities.iter().map(|e| e.pattern.as_str()).collect();
        for (index, entity) in sensitivity.entities.iter().enumerate() {
            Regex::builder().configure(config()).build(&entity.pattern).map_err(|source| EntityError {
                index,
                name: entity.r#type.clone(),
                source: Box::new(source),
            })?;
        }
        let all = Regex::builder().configure(config()).build_many(&patterns).map_err(|source| EntityError {
            index: 0,
            name: "all together".to_owned(),
            source: Box::new(source),
        })?;
        let entities = (!patterns.is_empty()).then_some(all);
        Ok(Self { sensitivity: Arc::new(sensitivity.clone()), entities })
    }

    /// Classifies a request. `over_time` says whether the detector's time is used up; it is asked between texts.
    pub fn classify(&self, request: &Request<'_>, over_time: &mut dyn FnMut() -> bool) -> Classified {
        let mut seen = Seen::new(self);
        let read = if secrets::ready() {
            catch_unwind(AssertUnwindSafe(|| seen.read(request.body, over_time))).unwrap_or(Err(Reason::DetectorError))
        } else {
            Err(Reason::DetectorError)
        };
        let forced = read.err();
        let detector = if forced.is_some() { Class::Restricted } else { seen.class() };

        let floor = match request.label {
            Some(label) if request.trust_label => label,
            label => label.map_or(self.sensitivity.unlabelled, |l| l.max(self.sensitivity.unlabelled)),
        };
        let class = floor.max(detector).max(request.session.unwrap_or(Class::Public));
        let mut reasons = Vec::new();
        let mut because = |applies: bool, reason| {
            if applies {
                reasons.push(reason);
            }
        };
        because(detector == class && class > Class::Public, forced.unwrap_or(Reason::ClassDetector));
        because(request.session == Some(class), Reason::ClassSession);
        because(request.label == Some(class), Reason::ClassLabel);
        because(floor == class && request.label != Some(class), Reason::ClassFloor);
        Classified {
            class,
            detector,
            reasons,
            forced,
            entities: seen.counts(),
            findings: seen.findings,
            texts: texts(request.body),
            sensitivity: Arc::clone(&self.sensitivity),
            below_floor: request.trust_label && request.label.is_some(),
        }
    }
}

/// A request to classify.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Its tree as the client sent it, unknown fields included.
    pub body: &'a Value,
    /// The caller's label.
    pub label: Option<Class>,
    /// Whether the caller's key may label below the floor.
    pub trust_label: bool,
    /// The class that the conversation had before.
    pub session: Option<Class>,
}

/// Where something was found; never what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Type of the entity.
    pub entity: String,
    /// JSON pointer of the text, with foreign keys by position.
    pub pointer: String,
}

/// A request's class. Only [`Rules::classify`] makes one:
///
/// ```compile_fail
/// let forged = terrace_privacy::Classified { class: terrace_contract::trust::Class::Public, ..todo!() };
/// ```
/// ```compile_fail
/// let forged = terrace_privacy::Classified::default();
/// ```
#[derive(Clone)]
pub struct Classified {
    class: Class,
    detector: Class,
    reasons: Vec<Reason>,
    forced: Option<Reason>,
    entities: BTreeMap<String, u32>,
    findings: Vec<Finding>,
    /// Hashes of every text and key that was there: nothing else can be cleared.
    texts: Texts,
    sensitivity: Arc<Sensitivity>,
    below_floor: bool,
}

impl Classified {
    /// The class.
    pub fn class(&self) -> Class {
        self.class
    }
    /// What the detector alone makes of it.
    pub fn detector(&self) -> Class {
        self.detector
    }
    /// What gave the class.
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }
    /// Why the class was forced to Restricted; none: it was not.
    pub fn forced(&self) -> Option<Reason> {
        self.forced
    }
    /// Types of what was found, with the number of distinct values.
    pub fn entities(&self) -> &BTreeMap<String, u32> {
        &self.entities
    }
    /// Places of the first findings.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub(crate) fn saw(&self, text: &str) -> bool {
        self.texts.contains(&hash(text))
    }
    pub(crate) fn sensitivity(&self) -> &Arc<Sensitivity> {
        &self.sensitivity
    }
    /// Whether the floor does not apply, because a trusted label stands instead.
    pub(crate) fn below_floor(&self) -> bool {
        self.below_floor
    }
}

impl std::fmt::Debug for Classified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Classified")
            .field("class", &self.class)
            .field("reasons", &self.reasons)
            .field("entities", &self.entities)
            .finish_non_exhaustive()
    }
}

/// What the detector has seen of one request.
struct Seen<'r> {
    rules: &'r Rules,
    bytes: usize,
    /// Highest score so far.
    score: f64,
    /// Highest class of the policy's own entities so far.
    own: Class,
    /// Type and hash of each distinct value.
    distinct: BTreeSet<(String, u64)>,
    findings: Vec<Finding>,
    matched: PatternSet,
    borders: Borders,
}

impl<'r> Seen<'r> {
    fn new(rules: &'r Rules) -> Self {
        Self {
            rules,
            bytes: 0,
            score: 0.0,
            own: Class::Public,
            distinct: BTreeSet::new(),
            findings: Vec::new(),
            matched: PatternSet::new(rules.entities.as_ref().map_or(0, Regex::pattern_len)),
            borders: Borders::default(),
        }
    }

    fn read(&mut self, body: &Value, over_time: &mut dyn FnMut() -> bool) -> Result<(), Reason> {
        let mut stopped = Reason::Unreadable;
        let walked = segments::walk(body, &mut |segment| {
            self.bytes += segment.text.len();
            if self.bytes > MAX_TEXT {
                return false;
            }
            if over_time() {
                stopped = Reason::DetectorTimeout;
                return false;
            }
            self.text(&segment);
            true
        });
        match walked {
            Ok(()) => Ok(()),
            Err(Stop::Unreadable) => Err(Reason::Unreadable),
            Err(Stop::Visitor) => Err(stopped),
        }
    }

    fn text(&mut self, segment: &Segment<'_>) {
        let text = normalise(segment.text);
        self.entities(&text, segment);
        // A pattern may ask for characters that normalising changes.
        if text != segment.text {
            self.entities(segment.text, segment);
        }
        self.scan(&text, segment);
        let across = self.borders.add(&text, segment);
        for (before, after) in &across.sides {
            self.across(before, after, segment);
        }
        across.digits.iter().for_each(|joined| self.scan(joined, segment));
    }

    /// What two texts make only together.
    fn across(&mut self, before: &str, after: &str, segment: &Segment<'_>) {
        if self.rules.entities.is_some() {
            let alone = [self.matching(before), self.matching(after)].concat();
            for joined in [format!("{before}{after}"), format!("{before} {after}")] {
                for index in self.matching(&joined).into_iter().filter(|index| !alone.contains(index)) {
                    self.entity(index, "", segment);
                }
            }
        }
        borders::scan(before, after, &mut |kind, value| {
            self.score = self.score.max(kind.score());
            self.found(kind.name(), value, segment);
        });
    }

    fn scan(&mut self, text: &str, segment: &Segment<'_>) {
        self.plain(text, segment);
        decode::decoded(text, &mut |inner| {
            self.entities(inner, segment);
            self.plain(inner, segment);
        });
    }

    fn plain(&mut self, text: &str, segment: &Segment<'_>) {
        detect::plain(text, &mut |kind, value| {
            self.score = self.score.max(kind.score());
            self.found(kind.name(), value, segment);
        });
    }

    /// The policy's own patterns.
    fn entities(&mut self, text: &str, segment: &Segment<'_>) {
        for index in self.matching(text) {
            self.entity(index, text, segment);
        }
    }

    fn matching(&mut self, text: &str) -> Vec<usize> {
        let Some(regex) = &self.rules.entities else { return Vec::new() };
        self.matched.clear();
        regex.which_overlapping_matches(&Input::new(text), &mut self.matched);
        self.matched.iter().map(|p| p.as_usize()).collect()
    }

    fn entity(&mut self, index: usize, text: &str, segment: &Segment<'_>) {
        let entity = &self.rules.sensitivity.entities[index];
        self.own = self.own.max(entity.class);
        self.found(&entity.r#type, text, segment);
    }

    fn found(&mut self, entity: &str, value: &str, segment: &Segment<'_>) {
        if self.distinct.insert((entity.to_owned(), hash(value))) && self.findings.len() < MAX_FINDINGS {
            let pointer = segments::pointer(segment.path);
            self.findings.push(Finding { entity: entity.to_owned(), pointer });
        }
    }

    fn class(&self) -> Class {
        let score = if self.score > 0.0 { self.score + EACH * (self.distinct.len() as f64 - 1.0) } else { 0.0 };
        let scored = if score >= RESTRICTED {
            Class::Restricted
        } else if score >= CONFIDENTIAL {
            Class::Confidential
        } else {
            Class::Public
        };
        scored.max(self.own)
    }

    fn counts(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for (entity, _) in &self.distinct {
            *counts.entry(entity.clone()).or_insert(0) += 1;
        }
        counts
    }
}

/// Hashes of texts.
type Texts = HashSet<u64, RandomState>;

/// Hashes of every string and key of a tree.
fn texts(body: &Value) -> Texts {
    fn add(value: &Value, into: &mut Texts) {
        match value {
            Value::String(s) => {
                into.insert(hash(s));
            }
            Value::Array(items) => items.iter().for_each(|v| add(v, into)),
            Value::Object(map) => map.iter().for_each(|(key, v)| {
                into.insert(hash(key));
                add(v, into);
            }),
            _ => {}
        }
    }
    let mut into = Texts::default();
    add(body, &mut into);
    into
}

/// The same for the same text within this process, and no other's: texts whose hashes are alike cannot be prepared.
fn hash(text: &str) -> u64 {
    static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    SECRET.hash_one(text)
}

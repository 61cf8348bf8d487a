//! A request that ends without an answer: the code, the sentence, and what goes with them.

use terrace_contract::reason::Reason;
use terrace_contract::report::Outcome;
use terrace_wire::error::{Code, ErrorBody};

/// Why a request ends without an answer. Its sentences name places and limits, never content.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The stable code.
    pub code: Code,
    /// What, where, and what to do.
    pub message: String,
    /// The field at fault, as a JSON pointer.
    pub param: Option<String>,
    /// When to come back.
    pub retry_after_us: Option<u64>,
    /// Reason codes of the plan and of the attempts.
    pub reasons: Vec<Reason>,
    /// The last place that was tried.
    pub tried: Option<Box<Tried>>,
}

/// A place that was tried, as headers name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Name of the tier.
    pub tier: String,
    /// The device's node, or the endpoint's host.
    pub device: String,
    /// Its boundary.
    pub boundary: &'static str,
}

impl Refusal {
    /// A refusal with this sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), param: None, retry_after_us: None, reasons: Vec::new(), tried: None }
    }

    /// A refusal that the wire already put into words.
    pub fn of_body(code: Code, body: ErrorBody) -> Self {
        Self { param: body.error.param, ..Self::new(code, body.error.message) }
    }

    /// As the client gets it.
    pub fn body(&self) -> ErrorBody {
        let mut body = ErrorBody::new(self.code, self.message.as_str());
        body.error.param.clone_from(&self.param);
        body
    }

    /// With a time to come back.
    #[must_use]
    pub fn after(mut self, us: u64) -> Self {
        self.retry_after_us = Some(us);
        self
    }

    /// With reasons.
    #[must_use]
    pub fn because(mut self, reasons: impl IntoIterator<Item = Reason>) -> Self {
        for reason in reasons {
            if !self.reasons.contains(&reason) {
                self.reasons.push(reason);
            }
        }
        self
    }

    /// Whether the same request is refused again however often it is sent.
    pub fn is_final(&self) -> bool {
        let chain = [Reason::ChainHops, Reason::ChainTime];
        self.code.fails_closed() || self.reasons.iter().any(|reason| chain.contains(reason))
    }

    /// What the report counts it as.
    pub fn outcome(&self) -> Outcome {
        match self.code {
            Code::BoundaryDenied | Code::Forbidden | Code::ConsentRequired => Outcome::Denied,
            Code::PermittedTiersUnavailable
            | Code::Overloaded
            | Code::OverflowCapped
            | Code::NoPolicy
            | Code::Draining
            | Code::BudgetExceeded => Outcome::Unavailable,
            Code::UpstreamFailed | Code::Internal => Outcome::Failed,
            _ => Outcome::Invalid,
        }
    }
}

impl From<terrace_decide::Refusal> for Refusal {
    fn from(refusal: terrace_decide::Refusal) -> Self {
        use terrace_decide::Refusal as Plan;
        let (code, retry_after_us) = match &refusal {
            Plan::ModelNotFound { .. } => (Code::ModelNotFound, None),
            Plan::BoundaryDenied { .. } => (Code::BoundaryDenied, None),
            Plan::UnsupportedFeature { .. } => (Code::UnsupportedFeature, None),
            Plan::ContextTooLong { .. } => (Code::ContextTooLong, None),
            Plan::PermittedTiersUnavailable { retry_after_us } | Plan::SpendLimit { retry_after_us } => {
                (Code::PermittedTiersUnavailable, Some(*retry_after_us))
            }
            Plan::Overloaded { retry_after_us } => (Code::Overloaded, Some(*retry_after_us)),
            Plan::OverflowCapped { retry_after_us, .. } => (Code::OverflowCapped, Some(*retry_after_us)),
            Plan::BudgetExceeded { .. } | Plan::ChainHops { .. } | Plan::ChainTime { .. } => {
                (Code::BudgetExceeded, None)
            }
        };
        let why = match &refusal {
            Plan::ChainHops { .. } => Some(Reason::ChainHops),
            Plan::ChainTime { .. } => Some(Reason::ChainTime),
            _ => None,
        };
        Self { retry_after_us, ..Self::new(code, refusal.to_string()) }.because(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_contract::trust::{Boundary, Class};

    #[test]
    fn a_plan_and_the_wire_name_a_refusal_alike() {
        use terrace_decide::Refusal as Plan;
        let all = [
            Plan::ModelNotFound { known: vec![] },
            Plan::BoundaryDenied { class: Class::Restricted, widest: Boundary::Private },
            Plan::UnsupportedFeature { missing: vec![] },
            Plan::ContextTooLong { needed: 2, limit: 1 },
            Plan::PermittedTiersUnavailable { retry_after_us: 1 },
            Plan::SpendLimit { retry_after_us: 1 },
            Plan::Overloaded { retry_after_us: 1 },
            Plan::OverflowCapped { max_percent: 1, retry_after_us: 1 },
            Plan::BudgetExceeded { first_token_us: 1, finish_us: 1 },
            Plan::ChainHops { max_hops: 1 },
            Plan::ChainTime { total_us: 1 },
        ];
        for plan in all {
            let code = plan.code();
            assert_eq!(Refusal::from(plan).code.as_str(), code);
        }
    }
}

//! Conditions as api.md wants them: always all present, in a fixed order, with a transition time that moves only when
//! the status does.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Reason of a condition that has nothing to say about this object.
pub const NOT_APPLICABLE: &str = "NotApplicable";

/// One condition as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    kind: &'static str,
    status: &'static str,
    reason: String,
    message: String,
}

impl Want {
    /// It holds.
    pub fn yes(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, status: "True", reason: reason.into(), message: message.into() }
    }

    /// It does not.
    pub fn no(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, status: "False", reason: reason.into(), message: message.into() }
    }

    /// Nobody knows (yet).
    pub fn unknown(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, status: "Unknown", reason: reason.into(), message: message.into() }
    }

    /// It has nothing to say about this object, which is good.
    pub fn not_applicable(kind: &'static str) -> Self {
        Self::yes(kind, NOT_APPLICABLE, "")
    }

    /// What `old` says of the same condition; this one where it says nothing.
    pub fn or_as_before(self, old: &[Condition]) -> Self {
        let Some(before) = old.iter().find(|c| c.type_ == self.kind) else { return self };
        let status = match before.status.as_str() {
            "True" => "True",
            "False" => "False",
            _ => "Unknown",
        };
        Self { kind: self.kind, status, reason: before.reason.clone(), message: before.message.clone() }
    }

    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.status == "True"
    }

    /// Whether it is known not to hold.
    pub fn fails(&self) -> bool {
        self.status == "False"
    }

    /// Its reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Its message.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// The conditions to write, given those that are there.
pub fn merge(old: &[Condition], wanted: Vec<Want>, generation: i64, now: Timestamp) -> Vec<Condition> {
    wanted
        .into_iter()
        .map(|want| {
            let before = old.iter().find(|c| c.type_ == want.kind && c.status == want.status);
            Condition {
                last_transition_time: before.map_or(Time(whole_second(now)), |c| c.last_transition_time.clone()),
                message: limit(want.message),
                observed_generation: Some(generation),
                reason: want.reason,
                status: want.status.into(),
                type_: want.kind.into(),
            }
        })
        .collect()
}

/// Kubernetes keeps times to the second.
pub fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Kubernetes allows 32 KiB; people read less.
fn limit(mut message: String) -> String {
    const MOST: usize = 1024;
    if message.len() > MOST {
        let cut = (0..=MOST).rev().find(|i| message.is_char_boundary(*i)).unwrap_or(0);
        message.truncate(cut);
        message.push('…');
    }
    message
}

/// A new time unless the old one is near enough: what is only a sign of life is not worth a write.
pub fn steady(old: Option<&Time>, new: Timestamp) -> Time {
    const NEAR_SECONDS: i64 = 300;
    match old {
        Some(old) if (new.as_second() - old.0.as_second()).abs() < NEAR_SECONDS => old.clone(),
        _ => Time(whole_second(new)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let at = |s| Timestamp::from_second(s).unwrap();
        let first = merge(&[], vec![Want::unknown("Ready", "NoReports", "")], 1, at(10));
        let same = merge(&first, vec![Want::unknown("Ready", "NoTraffic", "none yet")], 2, at(20));
        assert_eq!((same[0].last_transition_time.0, same[0].observed_generation), (at(10), Some(2)));
        let turned = merge(&same, vec![Want::yes("Ready", "Serving", "")], 2, at(30));
        assert_eq!(turned[0].last_transition_time.0, at(30));
    }

    #[test]
    fn what_was_said_before_stands_and_nothing_said_before_changes_nothing() {
        let at = Timestamp::from_second(10).unwrap();
        let old = merge(&[], vec![Want::no("Reporting", "NoReports", "m")], 1, at);
        assert_eq!(Want::yes("Reporting", "Reporting", "").or_as_before(&old), Want::no("Reporting", "NoReports", "m"));
        assert_eq!(Want::yes("Ready", "Serving", "").or_as_before(&old), Want::yes("Ready", "Serving", ""));
    }

    #[test]
    fn a_sign_of_life_is_not_worth_a_write() {
        let at = |s| Timestamp::from_second(s).unwrap();
        let old = Time(at(1_000));
        assert_eq!(steady(Some(&old), at(1_299)), old);
        assert_eq!(steady(Some(&old), at(1_300)).0, at(1_300));
    }
}

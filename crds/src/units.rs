//! Strings with a form as integers: microseconds, bytes, micro-units, basis points. Exact, without floats; a fraction
//! below the unit is dropped. None: the text has another form, or the number does not fit.

use terrace_contract::units::{self, fit, parts};

use crate::text::{Bytes, Decimal, Duration, Money, Objective};

impl Duration {
    /// Microseconds.
    pub fn micros(&self) -> Option<u64> {
        let mut rest = self.as_str();
        let mut nanos = 0u128;
        while !rest.is_empty() {
            let number = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
            let (amount, tail) = rest.split_at(number);
            let letters = tail.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            let scale: u128 = match unit {
                "ns" => 1,
                "us" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" => 60 * 1_000_000_000,
                "h" => 3_600 * 1_000_000_000,
                _ => return None,
            };
            // Minutes and hours are not powers of ten: a fraction is taken in billionths first.
            nanos = nanos.checked_add(parts(amount, 1_000_000_000)?.checked_mul(scale)? / 1_000_000_000)?;
            rest = tail;
        }
        if self.as_str().is_empty() { None } else { fit(nanos / 1_000) }
    }
}

impl Bytes {
    /// Bytes.
    pub fn bytes(&self) -> Option<u64> {
        units::bytes(self.as_str())
    }
}

impl Money {
    /// Micro-units of its currency.
    pub fn micros(&self) -> Option<u64> {
        fit(parts(self.as_str(), 1_000_000)?)
    }
}

impl Decimal {
    /// Millionths.
    pub fn micros(&self) -> Option<u64> {
        fit(parts(self.as_str(), 1_000_000)?)
    }
}

impl Objective {
    /// Hundredths of a percent.
    pub fn basis_points(&self) -> Option<u32> {
        u32::try_from(parts(self.as_str(), 100)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_microseconds() {
        for (text, micros) in [
            ("100ms", Some(100_000)),
            ("1h30m", Some(5_400_000_000)),
            ("0.5s", Some(500_000)),
            ("1.5h", Some(5_400_000_000)),
            ("999ns", Some(0)),
            ("720h", Some(2_592_000_000_000)),
            ("", None),
            ("5", None),
            ("s", None),
            (".5s", None),
            ("5 s", None),
            ("5d", None),
            ("999999999h999999999h", Some(7_199_999_992_800_000_000)),
            ("999999999h999999999h999999999h", None),
        ] {
            assert_eq!(Duration::from(text).micros(), micros, "{text:?}");
        }
    }

    #[test]
    fn money_and_percents_are_exact() {
        assert_eq!(Money::from("0.15").micros(), Some(150_000));
        assert_eq!(Money::from("0.000001").micros(), Some(1));
        assert_eq!(Money::from("1e3").micros(), None);
        assert_eq!(Decimal::from("0.4").micros(), Some(400_000));
        assert_eq!(Objective::from("99.9").basis_points(), Some(9_990));
    }
}

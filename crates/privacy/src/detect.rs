//! What is sensitive in one text: numbers that prove themselves ([`digits`], [`iban`]), addresses ([`email`], [`ipv6`]), secrets
//! by their makers' prefixes ([`secrets`]).
//!
//! Input is normalised text. Findings go to a callback, so that nothing is allocated for a clean text.

pub mod decode;
pub mod digits;
pub mod email;
pub mod iban;
pub mod ipv6;
pub mod join;
mod pieces;
pub mod secrets;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// E-mail address.
    Email,
    /// Payment card number.
    Card,
    /// International bank account number.
    Iban,
    /// US social security number.
    Ssn,
    /// Chinese resident identity number.
    ResidentId,
    /// Telephone number.
    Phone,
    /// IP address.
    Ip,
    /// A vendor's key or token.
    ApiKey,
    /// A private key in PEM form.
    PrivateKey,
    /// A signed token.
    Jwt,
    /// An address with a password in it.
    ConnectionString,
    /// A password or key given by name.
    Password,
}

impl Kind {
    /// Its name in reasons and in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Email => "EmailAddress",
            Kind::Card => "CreditCard",
            Kind::Iban => "Iban",
            Kind::Ssn => "UsSsn",
            Kind::ResidentId => "CnResidentId",
            Kind::Phone => "PhoneNumber",
            Kind::Ip => "IpAddress",
            Kind::ApiKey => "ApiKey",
            Kind::PrivateKey => "PrivateKey",
            Kind::Jwt => "Jwt",
            Kind::ConnectionString => "ConnectionString",
            Kind::Password => "Password",
        }
    }

    /// How sensitive one of it makes a request, 0..=1.
    pub fn score(self) -> f64 {
        match self {
            Kind::Card | Kind::Iban | Kind::ApiKey | Kind::PrivateKey | Kind::ConnectionString => 0.95,
            Kind::Ssn | Kind::ResidentId | Kind::Jwt => 0.90,
            Kind::Password => 0.60,
            Kind::Email | Kind::Phone => 0.40,
            Kind::Ip => 0.36,
        }
    }
}

/// What is called for each finding, with the text found.
pub type Report<'r> = dyn FnMut(Kind, &str) + 'r;

/// Looks at one normalised text. What is encoded in it is decoded and looked at too.
pub fn scan(text: &str, report: &mut Report<'_>) {
    plain(text, report);
    decode::decoded(text, &mut |inner| plain(inner, report));
}

/// Looks at one normalised text as it stands, not at what is encoded in it.
pub fn plain(text: &str, report: &mut Report<'_>) {
    digits::scan(text, report);
    iban::scan(text, report);
    ipv6::scan(text, report);
    email::scan(text, report);
    secrets::scan(text, report);
}

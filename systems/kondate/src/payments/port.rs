//! The port: what the product asks of a payment provider.

use std::fmt;

use nagaya_server::Later;

use super::standing::State;

/// What a provider answers, some time.
pub type Asked<'a, T> = Later<'a, Result<T, Refused>>;

/// A payment provider. It keeps the cards; the product knows tokens for them.
///
/// Whatever has a `key` happens once under it: asked again with the same key and the rest the same, the provider gives the
/// answer of the first time, a refusal included. Keys are ULIDs, made for each act before the provider first hears of it.
/// What could not be asked, or was not answered in time, is [`Refused::Unavailable`]; it is asked again.
pub trait Payments: Send + Sync + fmt::Debug + 'static {
    /// What it is called in the items that are its own.
    fn name(&self) -> &str;

    /// Attaches the card behind a token, so that it can be charged later, and tells what may be shown of it. Attaching it
    /// again changes nothing.
    fn card<'a>(&'a self, token: &'a Token) -> Asked<'a, Card>;

    /// Lets the card behind a token go. One that is gone already is fine.
    fn forget<'a>(&'a self, token: &'a Token) -> Asked<'a, ()>;

    /// Takes an amount, in the currency's smallest unit.
    fn charge<'a>(&'a self, token: &'a Token, amount: u64, currency: &'a str, key: &'a str) -> Asked<'a, ChargeId>;

    /// Starts a subscription to a plan. The provider renews it by itself.
    fn subscribe<'a>(&'a self, token: &'a Token, plan: &'a str, key: &'a str) -> Asked<'a, Standing>;

    /// Lets a subscription end with the period that is paid for.
    fn cancel<'a>(&'a self, subscription: &'a str) -> Asked<'a, Standing>;

    /// Takes a cancellation back, as long as the period runs.
    fn resume<'a>(&'a self, subscription: &'a str) -> Asked<'a, Standing>;

    /// How a subscription stands now.
    fn standing<'a>(&'a self, subscription: &'a str) -> Asked<'a, Standing>;
}

/// What may be shown of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Whose card it is, such as `visa`.
    pub brand: String,
    /// Its last four digits.
    pub last4: String,
    /// The month after which it is no good, from 1.
    pub exp_month: u8,
    /// The year of that month.
    pub exp_year: u16,
}

/// What the provider knows a charge by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeId(pub String);

/// How a subscription stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// What the provider knows it by from now on.
    pub subscription: String,
    /// Its state.
    pub state: State,
    /// The end of the period that is paid for, in milliseconds since 1970.
    pub period_end: i64,
    /// Whether it ends with that period.
    pub ends: bool,
}

/// Why a provider does not do what it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It will not, for this reason: a sentence that the user may read.
    Declined(String),
    /// It cannot be asked now. Whether it has done it is not known.
    Unavailable,
}

/// What a provider knows a card by: never a card number, and never in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token; `None` if it is a card number instead.
    pub fn new(text: &str) -> Option<Self> {
        (!is_card_number(text)).then(|| Token(text.to_owned()))
    }

    /// The token itself, for the provider's eyes.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Whether a text is as long as a card number, has its check digit right, and has nothing else in it but what people put
/// between digits. Wide digits are what a Japanese keyboard gives.
fn is_card_number(text: &str) -> bool {
    let digit = |letter: char| match letter {
        '０'..='９' => Some(u32::from(letter) - u32::from('０')),
        _ => letter.to_digit(10),
    };
    let between = |letter: &char| letter.is_whitespace() || matches!(letter, '-' | '‐' | '－' | 'ー' | '.');
    let digits: Option<Vec<u32>> = text.chars().filter(|letter| !between(letter)).map(digit).collect();
    let Some(digits) = digits.filter(|digits| (13..=19).contains(&digits.len())) else { return false };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match (at % 2, digit * 2) {
            (0, _) => *digit,
            (_, twice) => twice / 10 + twice % 10,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn card_numbers_are_no_tokens() {
        let check = |text: &str, is: bool| assert_eq!(is_card_number(text), is, "{text}");
        for number in ["4242424242424242", "4242 4242 4242 4242", "5555-5555-5555-4444", "378282246310005"] {
            check(number, true);
        }
        check("3566002020360505", true);
        check("4222222222222", true);
        check("６０１１ ００００ ００００ ０００４", true);
        check(" 4242.4242.4242.4242\n", true);
        // The check digit is wrong, there are too few or too many digits, or something else.
        check("4242424242424241", false);
        check("424242424242", false);
        check("42424242424242424242", false);
        check("tok_4242424242424242", false);
        check("pm_1Nxyz", false);
        check("", false);
    }

    #[test]
    fn tokens_do_not_show_themselves() {
        let token = Token::new("tok_visa").expect("a token");
        assert_eq!(format!("{token:?}"), "Token");
    }
}

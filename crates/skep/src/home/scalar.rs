//! The small types of the YAML files: each says what it expects and refuses the rest itself.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_saphyr::Spanned;
use skep_core::money::Money;

use super::expect::EXPECTED;

/// A whole number within bounds.
#[derive(Clone, Copy)]
pub struct BoundedInteger<const LEAST: u64, const MOST: u64>(pub u64);

impl<const LEAST: u64, const MOST: u64> BoundedInteger<LEAST, MOST> {
    fn words() -> String {
        format!("a whole number from {LEAST} to {MOST}")
    }
}

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for BoundedInteger<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = u64::deserialize(deserializer)?;
        if (LEAST..=MOST).contains(&value) {
            Ok(Self(value))
        } else {
            Err(de::Error::custom(Self::words()))
        }
    }
}

impl<const LEAST: u64, const MOST: u64> JsonSchema for BoundedInteger<LEAST, MOST> {
    fn schema_name() -> Cow<'static, str> {
        format!("Whole{LEAST}To{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "integer", "minimum": LEAST, "maximum": MOST, EXPECTED: Self::words()
        })
    }
}

/// The sampling temperature: any number from 0 to 1.
#[derive(Clone, Copy)]
pub struct Temperature(pub f64);

const TEMPERATURE_WORDS: &str = "a number from 0 to 1";

impl<'de> Deserialize<'de> for Temperature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(de::Error::custom(TEMPERATURE_WORDS))
        }
    }
}

impl JsonSchema for Temperature {
    fn schema_name() -> Cow<'static, str> {
        "Temperature".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "number", "minimum": 0, "maximum": 1, EXPECTED: TEMPERATURE_WORDS
        })
    }
}

/// An amount of money.
#[derive(Clone, Copy)]
pub struct Dollars(pub Money);

const MOST_DOLLARS: f64 = 1_000_000.0;
const DOLLARS_WORDS: &str = "a number from 0 to 1000000 (dollars)";

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        let allowed = Some(value).filter(|value| (0.0..=MOST_DOLLARS).contains(value));
        let money = allowed.and_then(Money::from_dollars);
        money.map(Self).ok_or_else(|| de::Error::custom(DOLLARS_WORDS))
    }
}

impl JsonSchema for Dollars {
    fn schema_name() -> Cow<'static, str> {
        "Dollars".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "number", "minimum": 0, "maximum": 1_000_000, EXPECTED: DOLLARS_WORDS
        })
    }
}

/// A length of time such as `90m`, `24h` or `7d`.
#[derive(Clone, Copy)]
pub struct Period(pub Duration);

const PERIOD_WORDS: &str = "a length of time such as 90m, 24h or 7d, from 1m to 3650d";

impl std::str::FromStr for Period {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unit = match text.chars().last() {
            Some('m') => 60,
            Some('h') => 3600,
            Some('d') => 24 * 3600,
            _ => return Err(PERIOD_WORDS),
        };
        let digits = &text[..text.len() - 1];
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let count: u64 = if plain { digits.parse().unwrap_or(u64::MAX) } else { 0 };
        match count.checked_mul(unit) {
            Some(seconds) if (60..=3650 * 24 * 3600).contains(&seconds) => {
                Ok(Self(Duration::from_secs(seconds)))
            }
            _ => Err(PERIOD_WORDS),
        }
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+[mhd]$", EXPECTED: PERIOD_WORDS })
    }
}

/// A string with its position, for problems found later. `${NAME}` is expanded when the file is
/// resolved. No `Debug`: it may be a secret.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct TextScalar(#[schemars(with = "String")] Spanned<String>);

impl TextScalar {
    pub fn as_str(&self) -> &str {
        &self.0.value
    }

    pub fn at(&self) -> (u32, u32) {
        let place = self.0.referenced;
        (place.line() as u32, place.column() as u32)
    }
}

/// For a key that may be absent but not empty: `allowed_tools:` with nothing behind it means an
/// empty list, never "use the default".
pub fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods() {
        let cases = [("90m", 5400), ("24h", 86_400), ("7d", 604_800), ("1m", 60)];
        for (text, seconds) in cases {
            let parsed: Result<Period, _> = text.parse();
            assert_eq!(parsed.map(|period| period.0.as_secs()), Ok(seconds), "{text}");
        }
        for bad in ["", "7", "d", "7 d", "-7d", "+7d", "7w", "0m", "99999999999999999999d", "7日"]
        {
            assert!(bad.parse::<Period>().is_err(), "{bad}");
        }
    }
}

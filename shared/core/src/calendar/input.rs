//! I am a calendar as it is written, in an event and in a row.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The intervals of one day: `["09:00", "17:00"]` each, in order and apart; at most 8. `24:00` closes with the day.
pub type Intervals = Vec<[String; 2]>;

/// A holiday as it is written: `"2026-12-25"`, or `{"date": "2026-12-25", "name": "Christmas Day"}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolidayInput {
    /// The day, `YYYY-MM-DD`, of the years 2000 to 9999.
    pub date: String,
    /// What it is called; at most 64 characters, none of them a control character.
    pub name: String,
}

impl<'de> Deserialize<'de> for HolidayInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Named {
            date: String,
            #[serde(default)]
            name: String,
        }
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = HolidayInput;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a date, or an object with date and name")
            }
            fn visit_str<E: de::Error>(self, date: &str) -> Result<HolidayInput, E> {
                Ok(HolidayInput { date: date.to_owned(), name: String::new() })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<HolidayInput, A::Error> {
                let Named { date, name } = Named::deserialize(MapAccessDeserializer::new(map))?;
                Ok(HolidayInput { date, name })
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for HolidayInput {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "HolidayInput".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let date = schemars::json_schema!({ "type": "string", "format": "date" });
        schemars::json_schema!({
            "description": "A day, or a day and its name.",
            "anyOf": [
                date,
                {
                    "type": "object",
                    "properties": { "date": date, "name": { "type": "string", "maxLength": super::check::LONGEST_NAME } },
                    "required": ["date"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

impl Serialize for HolidayInput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { date, name } = self;
        if name.is_empty() {
            return serializer.serialize_str(date);
        }
        let mut named = serializer.serialize_struct("Holiday", 2)?;
        named.serialize_field("date", date)?;
        named.serialize_field("name", name)?;
        named.end()
    }
}

/// A day that opens otherwise than its weekday says, be it a holiday or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OpeningInput {
    /// The day, `YYYY-MM-DD`.
    pub date: String,
    /// When it is open, instead of what the weekday says; at least one interval.
    pub hours: Intervals,
    /// What it is called; at most 64 characters, none of them a control character.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// Opening hours as they are written. A day left out is closed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the days of the week")]
pub struct HoursInput {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mon: Intervals,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tue: Intervals,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wed: Intervals,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thu: Intervals,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fri: Intervals,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sat: Intervals,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sun: Intervals,
}

impl HoursInput {
    /// The days by their names, from Monday.
    pub(super) fn days(&self) -> [(&'static str, &Intervals); 7] {
        let Self { mon, tue, wed, thu, fri, sat, sun } = self;
        [("mon", mon), ("tue", tue), ("wed", wed), ("thu", thu), ("fri", fri), ("sat", sat), ("sun", sun)]
    }
}

/// A calendar as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CalendarInput {
    /// An IANA zone, like `Europe/London`, spelled as the zone data spells it.
    pub time_zone: String,
    /// When it is open.
    pub hours: HoursInput,
    /// Days on which it is closed whatever the hours say; at most 2,000. A day that is named twice has both names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holidays: Vec<HolidayInput>,
    /// Days with hours of their own; at most 366. They win over a holiday and over the weekday.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub openings: Vec<OpeningInput>,
}

/// What became of a calendar's holidays when others were added. Days, each in the order of their dates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Added {
    /// Those that were no holidays before.
    pub new: Vec<HolidayInput>,
    /// Those that had another name, or none.
    pub renamed: Vec<HolidayInput>,
    /// How many it had already, by the same name or with nothing to rename them.
    pub known: usize,
}

impl CalendarInput {
    /// Adds holidays, and sorts all by date. A day that is one already takes the new name, if there is one; none is taken away.
    /// What comes out must be checked again.
    pub fn add_holidays(&mut self, holidays: &[HolidayInput]) -> Added {
        // Dates are of one form, so that the order of texts is theirs.
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for HolidayInput { date, name } in std::mem::take(&mut self.holidays) {
            super::check::also_named(all.entry(date).or_default(), &name);
        }
        let mut added = Added::default();
        for holiday in holidays {
            let HolidayInput { date, name } = holiday;
            match all.get_mut(date) {
                None => {
                    all.insert(date.clone(), name.clone());
                    added.new.push(holiday.clone());
                }
                Some(known) if !name.is_empty() && known != name => {
                    known.clone_from(name);
                    added.renamed.push(holiday.clone());
                }
                Some(_) => added.known += 1,
            }
        }
        let short = |name: String| name.chars().take(super::check::LONGEST_NAME).collect();
        self.holidays = all.into_iter().map(|(date, name)| HolidayInput { date, name: short(name) }).collect();
        added
    }
}

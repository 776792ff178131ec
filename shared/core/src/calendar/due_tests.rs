#![allow(clippy::indexing_slicing, reason = "a test may fail loudly")]

use super::super::step::MOST_DAYS_NAMED;
use super::super::tests::{at, calendar};
use super::*;

/// The content of stored reminders is hashed over these texts.
#[test]
fn a_rule_has_one_text_for_ever() {
    let text = |notice: &str, deadline: Option<(&str, &str)>| {
        let deliver_by = deadline.map(|(notice, time)| DeadlineInput { notice: notice.into(), local_time: time.into() });
        let (calendar, renewal_date, local_time) = ("uk".into(), "2027-01-31".into(), "09:00".into());
        let input = DueInput { calendar, renewal_date, notice: notice.into(), local_time, deliver_by };
        input.check("rule").expect("a rule").to_string()
    };
    assert_eq!(text("P1M", None), "uk: 2027-01-31 minus P1M at 09:00");
    assert_eq!(text("P01M", Some(("1BD", "24:00"))), "uk: 2027-01-31 minus P1M at 09:00, by minus 1BD at 24:00");
    assert_eq!(text("10BD", Some(("P0Y", "17:30"))), "uk: 2027-01-31 minus 10BD at 09:00, by minus P0D at 17:30");
}

const GB: &str = r#"{"time_zone":"Europe/London","hours":{"mon":[["09:00","17:00"]],"tue":[["09:00","17:00"]],
    "wed":[["09:00","17:00"]],"thu":[["09:00","12:00"],["13:00","17:00"]],"fri":[["09:00","17:00"]]},
    "holidays":[{"date":"2026-12-25","name":"Christmas Day"},{"date":"2026-12-28","name":"Boxing Day (substitute)"}],
    "openings":[{"date":"2027-01-02","hours":[["10:00","12:00"]],"name":"Stocktaking"}]}"#;

fn rule(renewal_date: &str, notice: &str, local_time: &str, deliver_by: Option<(&str, &str)>) -> DueRule {
    let deliver_by =
        deliver_by.map(|(notice, local_time)| DeadlineInput { notice: notice.into(), local_time: local_time.into() });
    let input = DueInput {
        calendar: "gb".into(),
        renewal_date: renewal_date.into(),
        notice: notice.into(),
        local_time: local_time.into(),
        deliver_by,
    };
    input.check("rule").expect("a rule")
}

fn lines(steps: &[Step]) -> Vec<String> {
    steps.iter().map(Step::to_string).collect()
}

#[test]
fn each_step_is_a_line() {
    let window = rule("2026-12-25", "P0D", "09:00", None).window(&calendar(GB), None).expect("due");
    assert_eq!(
        lines(&window.steps),
        [
            "renewal date: Fri 2026-12-25",
            "minus P0D: Fri 2026-12-25",
            "at 09:00 in Europe/London: 2026-12-25T09:00:00.000Z (UTC+00:00; holiday Christmas Day)",
            "passed over: Fri 2026-12-25 (holiday Christmas Day)",
            "passed over: Sat 2026-12-26 to Sun 2026-12-27 (closed)",
            "passed over: Mon 2026-12-28 (holiday Boxing Day (substitute))",
            "deliver_after 2026-12-29T09:00:00.000Z: next business instant, Tue 2026-12-29 09:00 (UTC+00:00)",
        ]
    );
    assert_eq!((window.deliver_after, window.deliver_by), (at("2026-12-29T09:00:00.000Z"), None));

    let window = rule("2026-12-31", "3BD", "18:00", Some(("P1D", "24:00"))).window(&calendar(GB), None).expect("due");
    assert_eq!(
        lines(&window.steps),
        [
            "renewal date: Thu 2026-12-31",
            "no business day: Fri 2026-12-25 (holiday Christmas Day)",
            "no business day: Mon 2026-12-28 (holiday Boxing Day (substitute))",
            "minus 3BD: Thu 2026-12-24",
            "at 18:00 in Europe/London: 2026-12-24T18:00:00.000Z (UTC+00:00; open 09:00 to 12:00, 13:00 to 17:00)",
            "passed over: Thu 2026-12-24 (open 09:00 to 12:00, 13:00 to 17:00, which is over)",
            "passed over: Fri 2026-12-25 (holiday Christmas Day)",
            "passed over: Sat 2026-12-26 to Sun 2026-12-27 (closed)",
            "passed over: Mon 2026-12-28 (holiday Boxing Day (substitute))",
            "deliver_after 2026-12-29T09:00:00.000Z: next business instant, Tue 2026-12-29 09:00 (UTC+00:00)",
            "deliver_by, from the renewal date:",
            "minus P1D: Wed 2026-12-30",
            "at 24:00, the end of Wed 2026-12-30, in Europe/London: 2026-12-31T00:00:00.000Z (UTC+00:00; open 09:00 to 17:00)",
        ]
    );
    assert_eq!(window.deliver_by, Some(at("2026-12-31T00:00:00.000Z")));

    let given = at("2027-01-02T12:00:00.000Z");
    let window = rule("2027-03-31", "P1M29D", "09:30", None).window(&calendar(GB), Some(at("2027-02-02T00:00:00.000Z")));
    let window = window.expect("due");
    assert_eq!(lines(&window.steps)[1], "minus P1M29D: Sat 2027-01-30 (counted from the end of a month that has no such day)");
    let window = rule("2027-01-02", "P0D", "09:30", None).window(&calendar(GB), Some(given)).expect("due");
    assert_eq!(
        lines(&window.steps)[2..],
        [
            "at 09:30 in Europe/London: 2027-01-02T09:30:00.000Z (UTC+00:00; its own hours Stocktaking, open 10:00 to 12:00)",
            "deliver_after 2027-01-02T10:00:00.000Z: next business instant, Sat 2027-01-02 10:00 (UTC+00:00)",
            "deliver_by 2027-01-02T12:00:00.000Z: as given",
        ]
    );
}

#[test]
fn a_deadline_at_the_end_of_a_day_is_told_as_that_days() {
    let steps = |zone: &str, renewal_date: &str, holiday: &str| {
        let hours = r#"{"mon":[["09:00","17:00"]],"fri":[["18:00","24:00"]]}"#;
        let calendar = calendar(&format!(r#"{{"time_zone":"{zone}","hours":{hours},"holidays":["{holiday}"]}}"#));
        let window = rule(renewal_date, "P1M", "09:00", Some(("P1D", "24:00"))).window(&calendar, None).expect("due");
        (lines(&window.steps).pop().expect("a step"), window.deliver_by)
    };
    let (line, by) = steps("Europe/Berlin", "2026-12-05", "2026-12-07");
    assert_eq!(
        line,
        "at 24:00, the end of Fri 2026-12-04, in Europe/Berlin: 2026-12-04T23:00:00.000Z (UTC+01:00; open 18:00 to 24:00)"
    );
    assert_eq!(by, Some(at("2026-12-04T23:00:00.000Z")));
    // What the next day is makes no difference.
    let (line, _) = steps("Europe/Berlin", "2026-12-08", "2026-12-08");
    assert!(line.starts_with("at 24:00, the end of Mon 2026-12-07, in Europe/Berlin: "), "{line}");
    assert!(line.ends_with("(UTC+01:00; open 09:00 to 17:00)"), "{line}");
    // Clocks go forward, or back, at the end of the day.
    let (line, _) = steps("Asia/Beirut", "2027-03-28", "2027-01-01");
    assert_eq!(
        line,
        "at 24:00, the end of Sat 2027-03-27, in Asia/Beirut, which clocks skip (a gap: 60 minutes forward), so Sun 2027-03-28 \
         01:00: 2027-03-27T22:00:00.000Z (UTC+03:00; closed)"
    );
    let (line, _) = steps("Atlantic/Azores", "2027-10-31", "2027-01-01");
    assert_eq!(
        line,
        "at 24:00, the end of Sat 2027-10-30, in Atlantic/Azores, which comes twice (a fold: clocks go back), so the earlier: \
         2027-10-31T00:00:00.000Z (UTC+00:00; closed)"
    );
}

#[test]
fn a_gap_is_later_and_a_fold_is_the_earlier() {
    let all_day = r#"[["00:00","24:00"]]"#;
    let days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"].map(|day| format!("\"{day}\":{all_day}")).join(",");
    for (zone, date, time, due, line) in [
        (
            "America/New_York",
            "2027-03-14",
            "02:30",
            "2027-03-14T07:30:00.000Z",
            "at 02:30 in America/New_York, which clocks skip (a gap: 60 minutes forward), so Sun 2027-03-14 03:30: \
             2027-03-14T07:30:00.000Z (UTC-04:00; open 00:00 to 24:00)",
        ),
        (
            "America/New_York",
            "2027-11-07",
            "01:30",
            "2027-11-07T05:30:00.000Z",
            "at 01:30 in America/New_York, which comes twice (a fold: clocks go back), so the earlier: \
             2027-11-07T05:30:00.000Z (UTC-04:00; open 00:00 to 24:00)",
        ),
        (
            "Australia/Lord_Howe",
            "2027-10-03",
            "02:15",
            "2027-10-02T15:45:00.000Z",
            "at 02:15 in Australia/Lord_Howe, which clocks skip (a gap: 30 minutes forward), so Sun 2027-10-03 02:45: \
             2027-10-02T15:45:00.000Z (UTC+11:00; open 00:00 to 24:00)",
        ),
        // A whole day that was skipped: the next one.
        (
            "Pacific/Apia",
            "2011-12-30",
            "10:00",
            "2011-12-30T20:00:00.000Z",
            "at 10:00 in Pacific/Apia, which clocks skip (a gap: 1440 minutes forward), so Sat 2011-12-31 10:00: \
             2011-12-30T20:00:00.000Z (UTC+14:00; open 00:00 to 24:00)",
        ),
    ] {
        let calendar = calendar(&format!(r#"{{"time_zone":"{zone}","hours":{{{days}}}}}"#));
        let window = rule(date, "P0D", time, None).window(&calendar, None).expect("due");
        assert_eq!(window.deliver_after, at(due), "{zone} {date} {time}");
        assert_eq!(lines(&window.steps)[2], line);
    }
}

#[test]
fn a_refusal_says_why_and_how_far_it_came() {
    let gb = calendar(GB);
    let refused =
        |renewal, notice, deliver_by| rule(renewal, notice, "09:00", None).window(&gb, deliver_by).expect_err("refused");
    // The deadline is the instant itself: nothing is left before it.
    for deadline in ["2026-12-29T09:00:00.000Z", "2026-12-26T09:00:00.000Z"] {
        let refused = refused("2026-12-25", "P0D", Some(at(deadline)));
        let error = refused.field_error("rule", "deliver_by");
        let message = format!("later than 2026-12-29T09:00:00.000Z, the first business instant; got {deadline}");
        assert_eq!(error, FieldError::new("no_business_instant", "deliver_by", message));
        assert_eq!(refused.steps.len(), 8);
    }
    assert!(rule("2026-12-25", "P0D", "09:00", None).window(&gb, Some(at("2026-12-29T09:00:00.001Z"))).is_ok());
    let by_rule = rule("2026-12-25", "P1D", "17:00", Some(("1BD", "17:00"))).window(&gb, None).expect_err("refused");
    assert_eq!(by_rule.field_error("rule", "deliver_by").field, "rule.deliver_by");

    assert_eq!(refused("2000-01-01", "P1D", None).field_error("r", "d").code, "out_of_bounds");
    assert_eq!(refused("2001-01-01", "P10Y", None).field_error("r", "d").field, "r.renewal_date");
    assert_eq!(refused("2000-01-03", "1BD", None).field_error("r", "d").field, "r.renewal_date");
    assert_eq!(refused("9999-12-31", "P0D", None).why, NotDue::OutOfRange);

    // Open on one day only: nothing after it, and nothing but it before.
    let once = calendar(r#"{"time_zone":"UTC","hours":{},"openings":[{"date":"2026-06-01","hours":[["09:00","10:00"]]}]}"#);
    let of = |renewal, notice, deadline| rule(renewal, notice, "09:00", deadline).window(&once, None).map(|w| w.deliver_after);
    assert_eq!(of("2026-06-01", "P0D", None), Ok(at("2026-06-01T09:00:00.000Z")));
    assert_eq!(of("2025-05-31", "P0D", None), Ok(at("2026-06-01T09:00:00.000Z")), "366 days ahead");
    let error = of("2025-05-30", "P0D", None).expect_err("too far ahead").field_error("r", "d");
    assert_eq!((error.code, error.field.as_str()), ("no_business_instant", "r.calendar"));
    assert!(error.message.ends_with("no business instant from 2025-05-30 to 2026-05-31"), "{}", error.message);
    assert_eq!(of("2026-12-24", "1BD", None), Ok(at("2026-06-01T09:00:00.000Z")));
    let error = of("2026-12-24", "2BD", None).expect_err("only one").field_error("r", "d");
    assert_eq!((error.code, error.field.as_str()), ("no_business_day", "r.notice"));
    let error = of("2026-06-01", "P0D", Some(("2BD", "09:00"))).expect_err("none before").field_error("r", "d");
    assert_eq!((error.code, error.field.as_str()), ("no_business_day", "r.deliver_by.notice"));
}

#[test]
fn many_closed_days_are_not_told_one_by_one() {
    let names: Vec<String> = (1..=28).flat_map(|d| [1, 2, 3].map(|m| format!(r#""2027-{m:02}-{d:02}""#))).collect();
    let all: Vec<&str> = vec!["mon", "tue", "wed", "thu", "fri"];
    let hours: Vec<String> = all.iter().map(|day| format!(r#""{day}":[["09:00","17:00"]]"#)).collect();
    let json = format!(r#"{{"time_zone":"UTC","hours":{{{}}},"holidays":[{}]}}"#, hours.join(","), names.join(","));
    let window = rule("2027-02-01", "P31D", "09:00", None).window(&calendar(&json), None).expect("due");
    assert!(window.steps.len() <= MOST_DAYS_NAMED + 5, "{}", window.steps.len());
    let closed = rule("2027-02-01", "P0D", "09:00", None).window(&calendar(&json), None).expect("due");
    let lines = lines(&closed.steps);
    assert!(lines.iter().any(|line| line == "passed over: 16 more days"), "{lines:?}");
    // Those that do not count as business days are counted, too: whoever counts by hand comes to the same date.
    let counted = rule("2027-04-01", "3BD", "09:00", None).window(&calendar(&json), None).expect("due");
    let lines = self::lines(&counted.steps);
    let named = lines.iter().filter(|line| line.starts_with("no business day: ") && !line.ends_with(" more holidays")).count();
    assert_eq!(named, counted.steps.iter().filter(|step| matches!(step, super::super::step::Step::NotCounted { .. })).count());
    let far = rule("2027-04-01", "10BD", "09:00", None).window(&calendar(&json), None).expect("due");
    let lines = self::lines(&far.steps);
    let more: Vec<&String> = lines.iter().filter(|line| line.ends_with(" more holidays")).collect();
    let days = lines.iter().filter(|line| line.starts_with("no business day: ") && !line.ends_with(" more holidays")).count();
    assert_eq!((days, more), (MOST_DAYS_NAMED, vec![&format!("no business day: {} more holidays", 84 - MOST_DAYS_NAMED)]));
}

#[test]
fn what_is_wrong_with_a_rule_is_named() {
    let input: DueInput = serde_json::from_str(
        r#"{"calendar":"g b","renewal_date":"2026-2-1","notice":"PT24H","local_time":"24:00",
            "deliver_by":{"notice":"1 day","local_time":"noon"}}"#,
    )
    .expect("a rule");
    let found: Vec<(&str, String)> =
        input.check("rule").expect_err("wrong").into_iter().map(|FieldError { code, field, .. }| (code, field)).collect();
    let expected = [
        ("invalid_field", "calendar"),
        ("invalid_date", "renewal_date"),
        ("invalid_notice", "notice"),
        ("invalid_time", "local_time"),
        ("invalid_notice", "deliver_by.notice"),
        ("invalid_time", "deliver_by.local_time"),
    ];
    assert_eq!(found, expected.map(|(code, field)| (code, format!("rule.{field}"))));
    assert!(serde_json::from_str::<DueInput>(r#"{"calendar":"g","renewal_date":"","notice":"","local_time":"","x":1}"#).is_err());
}

//! Calendars and dates at random, many of them where clocks change. What is open is told here from what is written, apart from
//! the code under test.

use jiff::civil::Weekday;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use super::super::due::{DueRule, NotDue, Refused};
use super::super::notice::Notice;
use super::super::tests::{at, calendar, day};
use super::super::{CalendarInput, HolidayInput, HoursInput, Intervals, OpeningInput};
use super::*;
use crate::id::CalendarId;

const MINUTE: i64 = 60_000;

/// Zones with gaps and folds of an hour, half an hour, two hours and a whole day, at night and at midnight, and without any.
const ZONES: [&str; 12] = [
    "Europe/London",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Asia/Kathmandu",
    "Pacific/Apia",
    "America/St_Johns",
    "Africa/Cairo",
    "Antarctica/Troll",
    "Asia/Gaza",
    "America/Havana",
    "UTC",
];

fn time(minute: u16) -> String {
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

/// Cuts a day at a few minutes, and opens every other piece.
fn intervals() -> impl Strategy<Value = Intervals> {
    let minute = prop_oneof![0..=1_440_u16, 0..=240_u16, Just(0_u16), Just(1_440_u16)];
    btree_set(minute, 0..6).prop_map(|minutes| {
        let minutes: Vec<u16> = minutes.into_iter().collect();
        minutes.chunks_exact(2).map(|pair| [time(pair[0]), time(pair[1])]).collect()
    })
}

fn week() -> impl Strategy<Value = HoursInput> {
    (intervals(), intervals(), intervals(), intervals(), intervals(), intervals(), intervals())
        .prop_map(|(mon, tue, wed, thu, fri, sat, sun)| HoursInput { mon, tue, wed, thu, fri, sat, sun })
}

/// A day of the years 2000 to 2031, often one around which clocks change or changed somewhere.
fn date() -> impl Strategy<Value = Date> {
    let near = [
        "2027-03-14",
        "2027-03-28",
        "2027-10-31",
        "2027-11-07",
        "2027-04-04",
        "2027-10-03",
        "2027-09-05",
        "2011-12-30",
        "2006-10-29",
    ];
    prop_oneof![
        (0..near.len(), -2..4_i32).prop_map(move |(i, days)| day(near[i]).saturating_add(days.days())),
        (2001..2031_i16, 1..13_i8, 1..32_i8)
            .prop_map(|(y, m, d)| Date::new(y, m, d).unwrap_or_else(|_| jiff::civil::date(y, m, 28))),
    ]
}

fn written() -> impl Strategy<Value = CalendarInput> {
    let opening = intervals().prop_filter("open", |hours| !hours.is_empty());
    (0..ZONES.len(), week(), vec(date(), 0..8), btree_map(date(), opening, 0..3))
        .prop_map(|(zone, hours, holidays, openings)| CalendarInput {
            time_zone: ZONES[zone].to_owned(),
            hours,
            holidays: holidays.into_iter().map(|day| HolidayInput { date: day.to_string(), name: String::new() }).collect(),
            openings: openings
                .into_iter()
                .map(|(day, hours)| OpeningInput { date: day.to_string(), hours, name: String::new() })
                .collect(),
        })
        .prop_filter("open at all", |input| input.check("c").is_ok())
}

/// Whether it is open, from what is written alone.
fn open(written: &CalendarInput, at: Timestamp) -> bool {
    let zone = jiff::tz::TimeZone::get(&written.time_zone).expect("a zone");
    let local = zone.to_datetime(jiff::Timestamp::from_millisecond(at.as_millis()).expect("an instant"));
    let today = local.date().to_string();
    let HoursInput { mon, tue, wed, thu, fri, sat, sun } = &written.hours;
    let own = written.openings.iter().find(|opening| opening.date == today).map(|opening| &opening.hours);
    let holiday = written.holidays.iter().any(|holiday| holiday.date == today);
    let hours = match (own, holiday, local.date().weekday()) {
        (Some(hours), ..) => hours,
        (None, true, _) => return false,
        (None, false, Weekday::Monday) => mon,
        (None, false, Weekday::Tuesday) => tue,
        (None, false, Weekday::Wednesday) => wed,
        (None, false, Weekday::Thursday) => thu,
        (None, false, Weekday::Friday) => fri,
        (None, false, Weekday::Saturday) => sat,
        (None, false, Weekday::Sunday) => sun,
    };
    // Texts of the form HH:MM are in the order of time, 24:00 included.
    let now = local.strftime("%H:%M").to_string();
    hours.iter().any(|[opens, closes]| *opens <= now && now < *closes)
}

fn notice() -> impl Strategy<Value = Notice> {
    prop_oneof![
        Just(Notice::Civil { years: 0, months: 0, weeks: 0, days: 0 }),
        (0..2_u16, 0..14_u16, 0..3_u16, 0..40_u16).prop_map(|(years, months, weeks, days)| Notice::Civil {
            years,
            months,
            weeks,
            days
        }),
        (0..20_u16).prop_map(Notice::BusinessDays),
    ]
}

fn minute_of_day() -> impl Strategy<Value = u16> {
    prop_oneof![0..1_440_u16, 0..240_u16]
}

fn rule(renewal_date: Date, notice: Notice, minute: u16) -> DueRule {
    let (hour, minute) = (i8::try_from(minute / 60).expect("an hour"), i8::try_from(minute % 60).expect("a minute"));
    let calendar = CalendarId::new("c").expect("a name");
    DueRule { calendar, renewal_date, notice, local_time: jiff::civil::time(hour, minute, 0, 0), deadline: None }
}

proptest! {
    /// Not before the candidate, within opening hours, and the first such instant: every boundary, of the hours and of the
    /// zone, is on a whole minute, so looking at the minutes in between is looking at all instants.
    #[test]
    fn the_next_business_instant_is_the_first_one(
        written in written(),
        date in date(),
        minute in minute_of_day(),
        ms in prop_oneof![Just(0_i64), 0..MINUTE],
    ) {
        let calendar = written.check("c").expect("valid");
        let midnight = calendar.start_of(date).expect("in range").as_millis();
        let from = Timestamp::from_millis(midnight + i64::from(minute) * MINUTE + ms);
        prop_assert_eq!(calendar.is_open(from), open(&written, from));
        let found = calendar.next_open(from);
        // Far fewer than the days that are looked at, so that this ends.
        let last = found.map_or_else(|_| from.as_millis() + 400 * 1_440 * MINUTE, Timestamp::as_millis);
        let last = last.min(from.as_millis() + 20 * 1_440 * MINUTE);
        if let Ok(found) = found {
            prop_assert!(found >= from && open(&written, found), "{from} {found}");
        }
        let first_whole = from.as_millis().div_euclid(MINUTE) * MINUTE + MINUTE;
        prop_assert!(found == Ok(from) || !open(&written, from));
        for at in (first_whole..last).step_by(60_000) {
            prop_assert!(!open(&written, Timestamp::from_millis(at)), "{} is open", Timestamp::from_millis(at));
        }
    }

    /// A rule's instant is not before its candidate and never earlier for a later renewal date.
    #[test]
    fn due_never_decreases_with_the_renewal_date(
        written in written(),
        renewal in date(),
        later in 0..70_i32,
        notice in notice(),
        minute in minute_of_day(),
    ) {
        let calendar = written.check("c").expect("valid");
        let of = |date: Date| rule(date, notice, minute).window(&calendar, None).map(|window| window.deliver_after);
        let days: Vec<Date> = renewal.series(1.day()).take(usize::try_from(later).expect("few") + 2).collect();
        let dues: Vec<Timestamp> = days.into_iter().filter_map(|day| of(day).ok()).collect();
        prop_assert!(dues.is_sorted(), "{dues:?}");
        for due in dues {
            prop_assert!(open(&written, due));
        }
    }

    /// Without a notice the candidate is the renewal date's local time, by the rule for gaps and folds, told here in another way:
    /// of the instants at which the wall shows the time the first; if there is none, the first that shows it when the wall is
    /// read as if clocks had not gone forward yet.
    #[test]
    fn the_candidate_follows_the_rule_for_gaps_and_folds(zone in 0..ZONES.len(), date in date(), minutes in -240..240_i64) {
        let zone = jiff::tz::TimeZone::get(ZONES[zone]).expect("a zone");
        // Around the next time that clocks change, if they do.
        let midnight = zone.to_ambiguous_timestamp(date.to_datetime(Time::midnight())).compatible().expect("in range");
        let change = zone.following(midnight).next().map_or(midnight, |change| change.timestamp());
        let asked = zone.to_datetime(change).checked_add(minutes.minutes()).expect("in range");
        let placed = super::super::zone::place(&zone, asked).expect("in range");
        let wall = |at: i64| zone.to_datetime(jiff::Timestamp::from_millisecond(at).expect("an instant"));
        let around = placed.at.as_millis() - 1_500 * MINUTE..placed.at.as_millis() + 1_500 * MINUTE;
        match around.clone().step_by(60_000).find(|at| wall(*at) == asked) {
            Some(first) => prop_assert_eq!(placed.at.as_millis(), first),
            None => {
                let jump = around.step_by(60_000).find(|at| wall(*at) > asked).expect("a jump");
                let before = wall(jump - MINUTE);
                let missing = asked.duration_since(before).as_millis() - i128::from(MINUTE);
                prop_assert_eq!(i128::from(placed.at.as_millis()), i128::from(jump) + missing);
            }
        }
    }

    #[test]
    fn business_days_are_counted_one_by_one(written in written(), date in date(), count in 0..30_u16) {
        let calendar = written.check("c").expect("valid");
        match calendar.business_days_before(date, count) {
            Ok(found) => {
                let between = found.series(1.day()).take_while(|day| *day < date).filter(|day| calendar.is_business_day(*day));
                prop_assert_eq!(between.count(), usize::from(count));
                prop_assert!(count == 0 || calendar.is_business_day(found));
            }
            Err(few) => prop_assert!(few.found < count && few.before == date),
        }
    }

    /// Any date that can be written, any notice, and calendars that open on one day of all time.
    #[test]
    fn no_date_is_too_extreme(
        written in written(),
        only in any::<bool>(),
        year in prop_oneof![2000..2003_i16, 9_996..=9_999_i16, 2000..=9_999_i16],
        (month, day) in (1..13_i8, 1..29_i8),
        notice in notice(),
        minute in minute_of_day(),
    ) {
        let mut written = written;
        if only {
            written.hours = HoursInput::default();
            written.openings.truncate(1);
        }
        let Ok(calendar) = written.check("c") else { return Ok(()) };
        let renewal = Date::new(year, month, day).expect("a date");
        match rule(renewal, notice, minute).window(&calendar, None) {
            Ok(window) => prop_assert!(open(&written, window.deliver_after)),
            Err(Refused { why: NotDue::NoneLeft { .. }, .. }) => prop_assert!(false, "there is no deadline"),
            Err(_) => {}
        }
    }
}

#[test]
fn opening_hours_in_a_gap_or_a_fold_are_what_the_wall_shows() {
    for (zone, hours, from, found) in [
        // They begin within the gap: open when it ends.
        ("America/New_York", r#"[["02:30","05:00"]]"#, "2027-03-14T05:00:00.000Z", "2027-03-14T07:00:00.000Z"),
        // They lie within the gap: not that day.
        ("America/New_York", r#"[["02:15","02:45"]]"#, "2027-03-14T05:00:00.000Z", "2027-03-21T06:15:00.000Z"),
        // They lie within the fold: open twice.
        ("America/New_York", r#"[["01:15","01:45"]]"#, "2027-11-07T05:00:00.000Z", "2027-11-07T05:15:00.000Z"),
        ("America/New_York", r#"[["01:15","01:45"]]"#, "2027-11-07T05:45:00.000Z", "2027-11-07T06:15:00.000Z"),
        // They end within the fold: the wall shows an open time again when clocks go back.
        ("America/New_York", r#"[["00:00","01:30"]]"#, "2027-11-07T05:40:00.000Z", "2027-11-07T06:00:00.000Z"),
        // Midnight is skipped: open when the day begins.
        ("America/Santiago", r#"[["00:00","24:00"]]"#, "2027-09-04T10:00:00.000Z", "2027-09-05T04:00:00.000Z"),
        // Clocks go back over midnight: the day before is there once more.
        ("America/Havana", r#"[["00:00","00:30"]]"#, "2027-11-07T04:29:59.999Z", "2027-11-07T04:29:59.999Z"),
        ("America/Havana", r#"[["00:00","00:30"]]"#, "2027-11-07T04:30:00.000Z", "2027-11-07T05:00:00.000Z"),
    ] {
        let sunday = calendar(&format!(r#"{{"time_zone":"{zone}","hours":{{"sun":{hours}}}}}"#));
        assert_eq!(sunday.next_open(at(from)), Ok(at(found)), "{zone} {hours} {from}");
    }
}

#[test]
fn the_search_ends() {
    let once =
        calendar(r#"{"time_zone":"Africa/Cairo","hours":{},"openings":[{"date":"2026-06-01","hours":[["09:00","10:00"]]}]}"#);
    let none = NoneAhead { from: day("2026-06-01"), to: day("2027-06-02") };
    assert_eq!(once.next_open(at("2026-06-01T07:00:00.000Z")), Err(none));
    assert!(
        once.next_open(Timestamp::from_millis(i64::MAX)).is_err() && once.next_open(Timestamp::from_millis(i64::MIN)).is_err()
    );
    assert_eq!(once.business_days_before(day("2026-06-02"), 1), Ok(day("2026-06-01")));
    let few = TooFew { found: 1, from: day("2026-06-02").saturating_sub(MOST_DAYS_BACK.days()), before: day("2026-06-02") };
    assert_eq!(once.business_days_before(day("2026-06-02"), 2), Err(few));
    // Every Monday is a holiday.
    let mondays: Vec<String> = day("2026-01-05").series(7.days()).take(200).map(|monday| format!("\"{monday}\"")).collect();
    let json = format!(r#"{{"time_zone":"UTC","hours":{{"mon":[["09:00","17:00"]]}},"holidays":[{}]}}"#, mondays.join(","));
    assert!(calendar(&json).next_open(at("2026-01-01T00:00:00.000Z")).is_err());
}

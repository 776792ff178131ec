#![allow(clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{CalendarInput, HoursInput};
use super::*;

fn file(events: &str) -> String {
    format!("BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//example//EN\n{events}END:VCALENDAR\n")
}

fn event(properties: &str) -> String {
    file(&format!("BEGIN:VEVENT\n{properties}\nEND:VEVENT\n"))
}

fn dates(import: &Import) -> Vec<(&str, &str)> {
    import.holidays.iter().map(|holiday| (holiday.date.as_str(), holiday.name.as_str())).collect()
}

/// As public holiday files are: CRLF, a zone, an alarm, categories, a name in another language.
const PLAIN: &str = "\u{feff}BEGIN:VCALENDAR\r\nVERSION:2.0\r\nMETHOD:PUBLISH\r\nX-WR-CALNAME:Feiertage\r\nBEGIN:VTIMEZONE\r\n\
    TZID:Europe/Berlin\r\nBEGIN:STANDARD\r\nDTSTART:19961027T030000\r\nRRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\r\n\
    END:STANDARD\r\nEND:VTIMEZONE\r\nBEGIN:VEVENT\r\nUID:1@example\r\nDTSTAMP:20260101T000000Z\r\n\
    DTSTART;VALUE=DATE:20261225\r\nDTEND;VALUE=DATE:20261227\r\nSUMMARY;LANGUAGE=de:Weihnachten\\, beide Tage\\; zwe\r\n i T\r\n\tage\r\n\
    TRANSP:TRANSPARENT\r\nBEGIN:VALARM\r\nTRIGGER:-PT15M\r\nDTSTART:20200101\r\nEND:VALARM\r\nEND:VEVENT\r\n\
    begin:vevent\r\ndtstart:20270101\r\nsummary:Neujahr\r\nend:vevent\r\n\
    BEGIN:VTODO\r\nDTSTART;VALUE=DATE:20270102\r\nEND:VTODO\r\n\
    BEGIN:VEVENT\r\nDTSTART;VALUE=\"DATE\";X-A=\"a:b;c\":20270106\r\nDURATION:P1D\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n\r\n";

#[test]
fn reads_a_plain_file_and_reports_each_line() {
    let import = read(PLAIN.as_bytes()).expect("a file");
    let name = "Weihnachten, beide Tage; zwei Tage";
    assert_eq!(dates(&import), [("2026-12-25", name), ("2026-12-26", name), ("2027-01-01", "Neujahr"), ("2027-01-06", "")]);
    assert_eq!(
        import.lines(),
        [
            "3 events read, 4 days; 3 ignored",
            "read: line 12: 2026-12-25 to 2026-12-26 Weihnachten, beide Tage; zwei Tage",
            "read: line 26: 2027-01-01 Neujahr",
            "read: line 33: 2027-01-06",
            "ignored: line 5: VTIMEZONE: it is no event",
            "ignored: line 21: VALARM: it is no event",
            "ignored: line 30: VTODO: it is no event",
        ]
    );
    let with_lf = read(PLAIN.replace("\r\n", "\n").as_bytes()).expect("a file");
    assert_eq!(with_lf, import);
    // What is read is what a calendar takes.
    let hours = HoursInput { mon: vec![["09:00".into(), "17:00".into()]], ..HoursInput::default() };
    let input = CalendarInput { time_zone: "UTC".into(), hours, holidays: import.holidays, openings: Vec::new() };
    assert!(input.check("calendar").is_ok());
}

#[test]
fn what_is_no_holiday_is_ignored_and_reported() {
    use WhyIgnored as W;
    for (properties, why) in [
        ("DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY", W::Repeats("RRULE")),
        ("RDATE;VALUE=DATE:20261226\nDTSTART;VALUE=DATE:20261225", W::Repeats("RDATE")),
        ("DTSTART;VALUE=DATE:20261225\nRECURRENCE-ID;VALUE=DATE:20261225", W::Repeats("RECURRENCE-ID")),
        ("DTSTART;TZID=Europe/London:20261225T090000\nDTEND;TZID=Europe/London:20261225T100000", W::Timed),
        ("DTSTART:20261225T000000Z", W::Timed),
        ("DTSTART;VALUE=DATE:20261225\nDTEND:20261225T120000Z", W::EndsWithinADay),
        ("DTSTART;VALUE=DATE:20261225\nDURATION:PT24H", W::EndsWithinADay),
        ("DTSTART;VALUE=DATE:20261225\nDURATION:-P1D", W::EndsWithinADay),
        ("SUMMARY:Christmas", W::NoStart),
        ("DTSTART;VALUE=DATE:20261301", W::NoDate("DTSTART")),
        ("DTSTART;VALUE=DATE:2026-12-25", W::NoDate("DTSTART")),
        ("DTSTART;VALUE=DATE:19991225", W::NoDate("DTSTART")),
        ("DTSTART;VALUE=DATE:", W::NoDate("DTSTART")),
        ("DTSTART;VALUE=DATE:ü26122", W::NoDate("DTSTART")),
        ("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261232", W::NoDate("DTEND")),
        ("DTSTART;VALUE=DATE:99991231", W::NoDate("DTEND")),
        ("DTSTART;VALUE=DATE:20261225\nDURATION:P9999999999W", W::EndsWithinADay),
        ("DTSTART;VALUE=DATE:20261225\nDURATION:P306783378W", W::TooLong),
        ("DTSTART;VALUE=DATE:20261225\nDTSTART;VALUE=DATE:20261226", W::Twice("DTSTART")),
        ("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261226\nDTEND;VALUE=DATE:20261227", W::Twice("DTEND")),
        ("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261226\nDURATION:P1D", W::Twice("DTEND or DURATION")),
        ("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261225", W::EndsBeforeItsEnd),
        ("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261224", W::EndsBeforeItsEnd),
        ("DTSTART;VALUE=DATE:20261225\nDURATION:P0D", W::EndsBeforeItsEnd),
        ("DTSTART;VALUE=DATE:20261225\nDURATION:P63D", W::TooLong),
        ("DTSTART;VALUE=DATE:20261225\nSTATUS:CANCELLED", W::Cancelled),
    ] {
        let import = read(event(properties).as_bytes()).expect("a file");
        let ignored = Ignored { line: 4, what: import.ignored.first().map_or("", |one| &one.what).to_owned(), why };
        assert_eq!((import.holidays.len(), import.read.len(), &import.ignored), (0, 0, &vec![ignored]), "{properties}");
    }
    for (properties, days) in [
        ("DTSTART;VALUE=DATE:20261225\nDURATION:P62D", 62),
        ("DTSTART;VALUE=DATE:20261225\nDURATION:+P1W", 7),
        ("DTSTART;VALUE=DATE:20261225\nSTATUS:TENTATIVE", 1),
        ("DTSTART;VALUE=DATE;TZID=Europe/London:20261225", 1),
        ("DTSTART:20261225\nDTEND:20261227", 2),
        // A month's and a year's end.
        ("DTSTART;VALUE=DATE:20261230\nDTEND;VALUE=DATE:20270102", 3),
    ] {
        let import = read(event(properties).as_bytes()).expect("a file");
        assert_eq!((import.holidays.len(), import.ignored_count), (days, 0), "{properties}");
    }
}

#[test]
fn a_line_that_is_wrong_is_reported_and_its_event_is_read_if_its_days_do_not_depend_on_it() {
    let within = "BEGIN:VALARM\nno property\nEND:VALARM";
    let properties =
        format!("DTSTART;VALUE=DATE:20261225\nX-A;B\u{7}=c:d\nSUMMARY:No\u{fffd}l\ndescription;=b:c\nX-A;B:c\n{within}");
    let mut bytes = event(&properties).into_bytes();
    // Latin-1 instead of UTF-8.
    let place = bytes.windows(3).position(|window| window == "\u{fffd}".as_bytes()).expect("there");
    bytes.splice(place..place + 3, [0xeb]);
    bytes.extend_from_slice(b"LATE:1\nBEGIN:VEVENT\nEND:VEVENT\n");
    let import = read(&bytes).expect("a file");
    assert_eq!(dates(&import), [("2026-12-25", "")]);
    let told: Vec<String> = import.ignored.iter().map(Ignored::to_string).collect();
    assert_eq!(
        told,
        [
            "line 6: line: it is no property, like NAME:value",
            "line 7: line: it is no UTF-8",
            "line 8: line: it is no property, like NAME:value",
            "line 9: line: it is no property, like NAME:value",
            "line 10: VALARM: it is no event",
            "line 11: line: it is no property, like NAME:value",
            "line 15: LATE: it stands outside a VCALENDAR",
            "line 16: VEVENT: it stands outside a VCALENDAR",
        ]
    );
}

#[test]
fn a_line_that_is_wrong_and_may_say_which_days_an_event_takes_makes_no_holiday() {
    for (line, why) in [
        ("DTEND;VALUE=DATE", "it is no property, like NAME:value"),
        ("DTEND;VALUE=DATE;X=\":20261227", "it is no property, like NAME:value"),
        ("dtend;=DATE:20261227", "it is no property, like NAME:value"),
        ("DTEND:2026122\u{fffd}", "it is no UTF-8"),
        ("DTSTART;VALUE=DA\u{fffd}E:20261224", "it is no UTF-8"),
        ("DURATION;X:P2D", "it is no property, like NAME:value"),
        ("RRULE;FREQ:YEARLY", "it is no property, like NAME:value"),
        ("RDATE;VALUE:20261227", "it is no property, like NAME:value"),
        ("EXRULE;A:B", "it is no property, like NAME:value"),
        ("EXDATE:\u{fffd}", "it is no UTF-8"),
        ("RECURRENCE-ID;RANGE:20261225", "it is no property, like NAME:value"),
        ("STATUS:CANCELL\u{fffd}D", "it is no UTF-8"),
        ("END\u{fffd}", "it is no UTF-8"),
        ("RRULE", "it is no property, like NAME:value"),
        ("STATUS CANCELLED", "it is no property, like NAME:value"),
        ("D\u{fffd}END:20261227", "it is no UTF-8"),
        ("DT END:20261227", "it is no property, like NAME:value"),
        (":20261227", "it is no property, like NAME:value"),
        ("\u{7}", "it is no property, like NAME:value"),
    ] {
        let good = "BEGIN:VEVENT\nDTSTART:20270101\nEND:VEVENT\n";
        let text = file(&format!("BEGIN:VEVENT\nDTSTART;VALUE=DATE:20261225\nSUMMARY:Noel\n{line}\nEND:VEVENT\n{good}"));
        // Latin-1 instead of UTF-8.
        let mut bytes = text.into_bytes();
        if let Some(place) = bytes.windows(3).position(|window| window == "\u{fffd}".as_bytes()) {
            bytes.splice(place..place + 3, [0xeb]);
        }
        let import = read(&bytes).expect("a file");
        assert_eq!(dates(&import), [("2027-01-01", "")], "{line}: the events beside it are read");
        let told: Vec<String> = import.ignored.iter().map(Ignored::to_string).collect();
        let event = "line 4: event \"Noel\": its line 7 cannot be read, and may say which days it takes";
        assert_eq!(told, [format!("line 7: line: {why}"), event.to_owned()], "{line}");
    }
    // What contradicts itself, or says something that it cannot say, is no date and no status.
    for (properties, why) in [
        ("DTSTART;VALUE=DATE-TIME:20261225", WhyIgnored::NoDate("DTSTART")),
        ("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=D\u{7}TE:20261227", WhyIgnored::NoDate("DTEND")),
        ("DTSTART;VALUE=DATE:20261225\nSTATUS:CANCELLE", WhyIgnored::NoStatus),
        ("DTSTART;VALUE=DATE:20261225\nSTATUS:", WhyIgnored::NoStatus),
    ] {
        let import = read(event(properties).as_bytes()).expect("a file");
        assert_eq!((import.holidays.len(), import.ignored.first().map(|one| one.why)), (0, Some(why)), "{properties}");
    }
}

#[test]
fn a_file_that_is_not_whole_is_refused() {
    for (text, expected) in [
        ("", IcsError::NoCalendar { line: 1 }),
        ("\n\n<html>\n", IcsError::NoCalendar { line: 3 }),
        ("BEGIN:VEVENT\nEND:VEVENT\n", IcsError::NoCalendar { line: 1 }),
        ("BEGIN:VCALENDAR\n", IcsError::CutOff { line: 1, component: "VCALENDAR".into() }),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20261225\n", IcsError::CutOff { line: 2, component: "VEVENT".into() }),
        (
            "BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VCALENDAR\n",
            IcsError::Nesting { line: 3, expected: "VEVENT".into(), got: "VCALENDAR".into() },
        ),
        (
            "BEGIN:VCALENDAR\nEND:VCALENDAR\nEND:VCALENDAR\n",
            IcsError::Nesting { line: 3, expected: "nothing".into(), got: "VCALENDAR".into() },
        ),
        ("BEGIN:VCALENDAR\nmethod:cancel\nEND:VCALENDAR\n", IcsError::Cancels { line: 2 }),
    ] {
        let error = read(text.as_bytes()).expect_err("refused");
        assert_eq!((error.field_error("file").code, &error), ("invalid_file", &expected), "{text}");
    }
    let deep = format!("BEGIN:VCALENDAR\n{}", "BEGIN:VEVENT\n".repeat(DEEPEST));
    assert_eq!(read(deep.as_bytes()), Err(IcsError::TooDeep { line: DEEPEST + 1 }));
    let large = read(&vec![b'\n'; MOST_FILE_BYTES + 1]).expect_err("too large").field_error("file");
    assert_eq!((large.code, large.message.as_str()), ("out_of_bounds", "at most 1048576 bytes; got 1048577"));
}

#[test]
fn too_much_is_refused_and_what_is_ignored_is_counted() {
    let days = |count: i32| -> String {
        let first = jiff::civil::date(2026, 1, 1);
        let days = first.series(jiff::Span::new().days(1)).take(usize::try_from(count).expect("few"));
        days.map(|day| format!("BEGIN:VEVENT\nDTSTART:{}\nEND:VEVENT\n", day.strftime("%Y%m%d"))).collect()
    };
    let most = i32::try_from(MOST_HOLIDAYS).expect("few");
    assert_eq!(read(file(&days(most)).as_bytes()).expect("a file").holidays.len(), MOST_HOLIDAYS);
    let error = read(file(&days(most + 1)).as_bytes()).expect_err("too many");
    assert_eq!((error.field_error("f").code, error), ("out_of_bounds", IcsError::TooMany { line: 3 * MOST_HOLIDAYS + 4 }));
    // The same day again and again is too many events, and its names end somewhere.
    let same = |count: usize| -> String {
        let events = (0..count).map(|i| format!("BEGIN:VEVENT\nDTSTART:20261225\nSUMMARY:Day {i}\nEND:VEVENT\n"));
        file(&events.collect::<String>())
    };
    assert!(matches!(read(same(MOST_HOLIDAYS + 1).as_bytes()), Err(IcsError::TooMany { .. })));
    let import = read(same(MOST_HOLIDAYS).as_bytes()).expect("a file");
    assert_eq!(import.holidays.len(), 1);
    assert!(import.holidays[0].name.starts_with("Day 0 / Day 1 / ") && import.holidays[0].name.len() <= LONGEST_NAME);
    let import = read(file(&"BEGIN:VTODO\nEND:VTODO\n".repeat(MOST_TOLD + 7)).as_bytes()).expect("a file");
    assert_eq!((import.ignored.len(), import.ignored_count), (MOST_TOLD, MOST_TOLD + 7));
    assert_eq!(import.lines().last().map(String::as_str), Some("ignored: 7 more"));
}

#[test]
fn names_are_of_one_line_and_not_too_long() {
    for (written, meant) in [
        (r"A\nB\NC", "A B C"),
        (r"A\\nB", r"A\nB"),
        (r"A\,B\;C\:", "A,B;C:"),
        ("A\u{7}B\tC  D ", "A B C D"),
        ("A\\", "A"),
        (&"ü".repeat(LONGEST_NAME + 1), &"ü".repeat(LONGEST_NAME)),
    ] {
        let import = read(event(&format!("DTSTART:20261225\nSUMMARY:{written}\nSUMMARY:Second")).as_bytes()).expect("a file");
        assert_eq!(dates(&import), [("2026-12-25", meant)], "{written:?}");
    }
}

/// What a file may be made of, rightly and wrongly.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let text = |text: &'static str| Just(text.as_bytes().to_vec());
    prop_oneof![
        2 => text("BEGIN:VEVENT"), 2 => text("END:VEVENT"), 1 => text("BEGIN:VCALENDAR"), 1 => text("END:VCALENDAR"),
        1 => text("BEGIN:\u{7}"), 1 => text("END:\u{7}"), 1 => text("RRULE:FREQ=DAILY"), 1 => text("DTEND:99991231"),
        2 => text("DTSTART;VALUE=DATE:20261225"), 1 => text("DTSTART;VALUE=DATE;X=\":20261225"), 1 => text("DURATION:P2147483647W"),
        1 => text("SUMMARY:a\\"), 1 => Just(b" \xc3\xbc".to_vec()), 1 => Just(b" \xc3".to_vec()), 1 => text("\t"), 1 => text(";=:"), 1 => text("A;B=C:\u{0}"),
        2 => vec(any::<u8>(), 0..30),
    ]
}

/// The properties that an event's days depend on, with values that may be any.
fn properties() -> impl Strategy<Value = String> {
    let value =
        || prop_oneof!["[0-9]{8}", "20[0-9]{2}(0[1-9]|1[0-2])[0-2][0-9]", "9999123[01]", "[+]?P[0-9]{1,11}[DW]", "\\PC{0,12}"];
    let start = prop_oneof![2 => Just("DTSTART:20261225".to_owned()), 1 => value().prop_map(|value| format!("DTSTART:{value}"))];
    let name = prop_oneof!["DTEND", "DURATION", "SUMMARY", "STATUS;X=Y", "DTEND;VALUE=DATE"];
    (start, vec((name, value()), 0..3)).prop_map(|(start, more)| {
        let more = more.into_iter().map(|(name, value)| format!("\n{name}:{value}"));
        start + &more.collect::<String>()
    })
}

fn anything() -> impl Strategy<Value = Vec<u8>> {
    let lines = (vec((piece(), any::<bool>()), 0..40), any::<bool>()).prop_map(|(lines, whole)| {
        let mut bytes = if whole { b"BEGIN:VCALENDAR\n".to_vec() } else { Vec::new() };
        for (line, crlf) in lines {
            bytes.extend(line);
            bytes.extend_from_slice(if crlf { b"\r\n" } else { b"\n" });
        }
        bytes
    });
    let events = vec(properties(), 0..6).prop_map(|events| {
        let events = events.into_iter().map(|properties| format!("BEGIN:VEVENT\n{properties}\nEND:VEVENT\n"));
        file(&events.collect::<String>()).into_bytes()
    });
    prop_oneof![1 => vec(any::<u8>(), 0..300), 1 => lines, 2 => events]
}

/// Events of one or a few days, well formed.
fn events() -> impl Strategy<Value = Vec<(Date, i32, String)>> {
    let day = (2000..9_999_i16, 1..13_i8, 1..29_i8).prop_map(|(y, m, d)| jiff::civil::date(y, m, d));
    vec((day, 1..5_i32, "[a-zäöü漢 ,;\\\\]{0,40}"), 0..12)
}

fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace(',', "\\,").replace(';', "\\;")
}

proptest! {
    /// Whatever comes, it is an answer, and what the answer holds can be put into a calendar.
    #[test]
    fn never_panics(bytes in anything()) {
        if let Ok(import) = read(&bytes) {
            let dates: Vec<&str> = import.holidays.iter().map(|holiday| holiday.date.as_str()).collect();
            prop_assert!(dates.is_sorted() && dates.iter().collect::<BTreeSet<_>>().len() == dates.len());
            prop_assert!(import.holidays.len() <= MOST_HOLIDAYS);
            prop_assert!(import.lines().iter().all(|line| !line.chars().any(char::is_control)), "{:?}", import.lines());
            let hours = HoursInput { mon: vec![["09:00".into(), "17:00".into()]], ..HoursInput::default() };
            let input = CalendarInput { time_zone: "UTC".into(), hours, holidays: import.holidays, openings: Vec::new() };
            prop_assert!(input.check("c").is_ok());
        }
    }

    /// Folding a file anywhere, within characters too, and ending its lines either way changes nothing but line numbers.
    #[test]
    fn folding_changes_nothing(events in events(), folds in vec((1..60_usize, any::<bool>(), any::<bool>()), 1..9)) {
        let mut text = String::new();
        for (from, days, name) in &events {
            let until = from.saturating_add(jiff::Span::new().days(*days));
            let (from, until, name) = (from.strftime("%Y%m%d"), until.strftime("%Y%m%d"), escaped(name));
            text += &format!("BEGIN:VEVENT\nDTSTART;VALUE=DATE:{from}\nDTEND;VALUE=DATE:{until}\nSUMMARY:{name}\nEND:VEVENT\n");
        }
        let text = file(&text);
        let plain = read(text.as_bytes()).expect("a file");
        prop_assert_eq!((plain.read.len(), plain.ignored_count), (events.len(), 0));
        let mut days: BTreeSet<Date> = BTreeSet::new();
        for ((from, count, name), read) in events.iter().zip(&plain.read) {
            days.extend(from.series(jiff::Span::new().days(1)).take(usize::try_from(*count).expect("few")));
            prop_assert_eq!(&read.name, &name.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        let read_days: Vec<String> = plain.holidays.iter().map(|holiday| holiday.date.clone()).collect();
        prop_assert_eq!(read_days, days.iter().map(Date::to_string).collect::<Vec<_>>());

        let mut folded = Vec::new();
        let (mut room, mut turn) = (folds[0].0, 0);
        for line in text.as_bytes().split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            for byte in line {
                folded.push(*byte);
                room -= 1;
                if room == 0 {
                    turn += 1;
                    let (every, crlf, tab) = folds[turn % folds.len()];
                    folded.extend_from_slice(match (crlf, tab) {
                        (true, true) => b"\r\n\t".as_slice(),
                        (true, false) => b"\r\n ",
                        (false, true) => b"\n\t",
                        (false, false) => b"\n ",
                    });
                    room = every;
                }
            }
            folded.extend_from_slice(if folds[0].1 { b"\r\n" } else { b"\n" });
        }
        let again = read(&folded).expect("a file");
        prop_assert_eq!(again.holidays, plain.holidays);
        prop_assert_eq!(again.ignored_count, 0);
    }
}

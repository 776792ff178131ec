//! Business calendars as an operator writes and reads them, over the in-memory ports.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::time::Duration;

use punctual_adapters::memory::{MemoryControl, MemoryLedger};
use punctual_core::calendar::zone_data;
use punctual_core::clock::{ClockError, Now};
use punctual_core::destination::StageRules;
use punctual_core::id::Correlation;
use punctual_core::ports::Time;
use punctual_core::time::Timestamp;
use punctual_inspect::Inspect;
use punctual_operate::{Operate, Response};
use serde_json::value::RawValue;
use serde_json::{Value, json};

const MARGIN: Duration = Duration::from_secs(10);

/// A clock that stands.
struct Standing;

impl Time for Standing {
    fn now(&self) -> Result<Now, ClockError> {
        Ok(Now::exactly(Timestamp::from_millis(1_796_115_600_000)))
    }

    fn time_left(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn wait_until(&self, at: Timestamp) -> Result<Now, ClockError> {
        Ok(Now::exactly(at))
    }

    async fn pause(&self, _how_long: Duration) {}

    fn random(&self) -> f64 {
        0.5
    }

    fn unique(&self) -> String {
        "owner".to_owned()
    }
}

#[derive(Default)]
struct World {
    ledger: MemoryLedger,
    control: MemoryControl,
}

impl World {
    async fn operate(&self, mut event: Value) -> Response {
        event["by"] = "ann".into();
        event["why"] = "the law".into();
        event["evidence"] = "OPS-1".into();
        event["calendar_id"] = "uk".into();
        let rules = StageRules { allow_local: false, secret_prefix: "punctual/test/".into() };
        let by = Correlation::of_request("test");
        let (ledger, control) = (&self.ledger, &self.control);
        let ticks = punctual_adapters::memory::MemoryTicks::default();
        let operate = Operate { ledger, control, ticks: &ticks, time: &Standing, rules: &rules, margin: MARGIN, by };
        operate.handle(&RawValue::from_string(event.to_string()).unwrap()).await.unwrap()
    }

    async fn put(&self, zone: &str, expected_version: Option<u64>) -> Response {
        let calendar = json!({
            "time_zone": zone,
            "hours": {"mon": [["09:00", "17:00"]]},
            "holidays": [{"date": "2026-12-25", "name": "Christmas"}],
        });
        self.operate(json!({"action": "put_calendar", "calendar": calendar, "expected_version": expected_version})).await
    }

    async fn import(&self, events: &str) -> Response {
        let ics = format!("BEGIN:VCALENDAR\n{events}END:VCALENDAR\n");
        self.operate(json!({"action": "import_holidays", "ics": ics})).await
    }

    async fn inspect(&self, id: Option<&str>) -> punctual_inspect::Response {
        let event = json!({"action": "calendar", "calendar_id": id});
        let letters = punctual_adapters::memory::MemoryDeadLetters::default();
        let (ledger, control) = (&self.ledger, &self.control);
        let inspect =
            Inspect { ledger, control, letters: &letters, time: &Standing, tick: Duration::from_secs(60), margin: MARGIN };
        inspect.handle(&RawValue::from_string(event.to_string()).unwrap()).await.unwrap()
    }
}

fn event(day: &str, name: &str) -> String {
    format!("BEGIN:VEVENT\nDTSTART;VALUE=DATE:{day}\nSUMMARY:{name}\nEND:VEVENT\n")
}

#[tokio::test]
async fn a_calendar_is_versioned_and_the_same_again_is_nothing() {
    let world = World::default();
    assert_eq!(world.put("Europe/London", None).await.version, Some(1));
    let again = world.put("Europe/London", None).await;
    assert_eq!((again.version, again.did.as_str()), (Some(1), "nothing: uk is so already"));
    let blind = world.put("Europe/Paris", None).await;
    let error = &blind.errors[0];
    assert_eq!((blind.ok, error.code, error.field.as_str()), (false, "missing_field", "expected_version"));
    assert!(error.message.starts_with("the stored version, 1; "), "{}", error.message);
    let outdated = world.put("Europe/Paris", Some(0)).await;
    assert_eq!((outdated.errors[0].code, outdated.errors[0].field.as_str()), ("conflict", "expected_version"));
    let replaced = world.put("Europe/Paris", Some(1)).await;
    assert_eq!(replaced.version, Some(2));
    // Its answer was lost, and it is sent again.
    let again = world.put("Europe/Paris", Some(1)).await;
    assert_eq!((again.ok, again.version, again.did.as_str()), (true, Some(2), "nothing: uk is so already"));
    assert!(replaced.did.ends_with("reminders that are stored keep their instants: reschedule moves them"), "{replaced:?}");
    let wrong = world.put("Europe/Atlantis", None).await;
    assert_eq!((wrong.errors[0].code, wrong.errors[0].field.as_str()), ("unknown_time_zone", "calendar.time_zone"));
}

#[tokio::test]
async fn a_calendar_that_is_replaced_says_which_days_went_and_which_came() {
    let world = World::default();
    world.put("Europe/London", None).await;
    world.import(&[event("20261225", "Christmas"), event("20270326", "Good Friday"), event("20270329", "")].concat()).await;
    let put = async |days: &Value, version: u64| {
        let mut calendar = json!({"time_zone": "Europe/London", "hours": {"mon": [["09:00", "17:00"]]}});
        calendar.as_object_mut().unwrap().extend(days.as_object().unwrap().clone());
        world.operate(json!({"action": "put_calendar", "calendar": calendar, "expected_version": version})).await
    };
    let opening =
        |hours: &str, name: &str| json!({"date": "2026-12-24", "hours": [["09:00", hours], ["13:00", "14:00"]], "name": name});
    let days = json!({
        "holidays": ["2027-01-01", {"date": "2026-12-25", "name": "Christmas Day"}],
        "openings": [opening("12:00", "Christmas Eve")],
    });
    let replaced = put(&days, 2).await;
    let lines = [
        "holidays: 2 removed, 1 added, 1 changed",
        "holiday removed: 2027-03-26 Good Friday",
        "holiday removed: 2027-03-29",
        "holiday added: 2027-01-01",
        "holiday changed: 2026-12-25 Christmas Day; before: Christmas",
        "openings: 0 removed, 1 added, 0 changed",
        "opening added: 2026-12-24 09:00 to 12:00, 13:00 to 14:00 Christmas Eve",
    ];
    assert_eq!((replaced.version, &replaced.report[..]), (Some(3), &lines.map(str::to_owned)[..]));
    assert!(replaced.did.contains("; holidays: 2 removed, 1 added, 1 changed; openings: 0 removed, 1 added, 0 changed; "));
    let other = json!({"holidays": days["holidays"], "openings": [opening("11:00", "")]});
    let lines = [
        "openings: 0 removed, 0 added, 1 changed",
        "opening changed: 2026-12-24 09:00 to 11:00, 13:00 to 14:00; before: 09:00 to 12:00, 13:00 to 14:00 Christmas Eve",
    ];
    assert_eq!(put(&other, 3).await.report, lines);
    // Many are counted, and told as far as a person reads.
    let many: Vec<String> = (1..=12).flat_map(|month| (1..=28).map(move |day| format!("2028-{month:02}-{day:02}"))).collect();
    put(&json!({"holidays": many}), 4).await;
    let none = put(&json!({}), 5).await;
    assert_eq!((none.report.len(), none.report[0].as_str()), (102, "holidays: 336 removed, 0 added, 0 changed"), "{none:?}");
    assert_eq!(none.report[101], "holidays removed: 236 more");
    assert!(none.did.contains("; holidays: 336 removed, 0 added, 0 changed; "), "{}", none.did);
}

#[tokio::test]
async fn an_import_adds_and_renames_and_says_all_that_it_did() {
    let world = World::default();
    assert_eq!(world.import(&event("20270326", "Good Friday")).await.errors[0].code, "unknown_calendar");
    world.put("Europe/London", None).await;
    let timed = "BEGIN:VEVENT\nDTSTART:20270101T090000Z\nSUMMARY:Meeting\nEND:VEVENT\n";
    let file = [event("20261225", "Christmas Day"), event("20270326", "Good Friday"), timed.to_owned()].concat();
    let imported = world.import(&file).await;
    assert_eq!(imported.version, Some(2), "{imported:?}");
    assert!(imported.did.starts_with("imported holidays into calendar uk: 1 new, 1 renamed, 0 known, 1 ignored"));
    assert_eq!(imported.report[0], "2 events read, 2 days; 1 ignored");
    assert!(imported.report.iter().any(|line| line.starts_with("ignored: line 10: ") && line.contains("time of day")));
    let end = ["new: 2027-03-26 Good Friday", "renamed: 2026-12-25 Christmas Day"];
    assert_eq!(imported.report[imported.report.len() - 2..], end);
    let again = world.import(&file).await;
    assert_eq!((again.version, again.did.as_str()), (Some(2), "nothing: calendar uk has all 2 of them already"));
}

#[tokio::test]
async fn a_file_of_which_nothing_is_read_is_refused_with_its_report() {
    let world = World::default();
    world.put("Europe/London", None).await;
    let nothing = world.import("BEGIN:VEVENT\nDTSTART:20270101T090000Z\nEND:VEVENT\n").await;
    assert_eq!((nothing.ok, nothing.errors[0].code), (false, "nothing_read"));
    assert_eq!(nothing.report[0], "0 events read, 0 days; 1 ignored");
    assert_eq!(world.import("BEGIN:VEVENT\n").await.errors[0].field, "ics", "a file that is cut off");
}

#[tokio::test]
async fn inspect_shows_the_days_who_wrote_them_and_the_zone_data() {
    let world = World::default();
    let none = world.inspect(Some("uk")).await;
    assert_eq!((none.errors[0].code, none.errors[0].field.as_str()), ("not_found", "calendar_id"));
    world.put("Europe/London", None).await;
    world.import(&event("20270326", "Good Friday")).await;
    let all = world.inspect(None).await.calendars.unwrap();
    assert_eq!((all.zone_data, all.found[0].version, &all.found[0].calendar), (zone_data(), 2, &None));
    assert_eq!(all.found[0].holidays.as_ref().map(|days| (days.count, days.last.as_str())), Some((2, "2027-03-26")));
    let one = world.inspect(Some("uk")).await;
    assert_eq!(one.text[0], format!("zone data {}", zone_data()));
    assert!(
        one.text[1].starts_with("uk: Europe/London, 2 holidays until 2027-03-26, 0 openings; version 2 of "),
        "{:?}",
        one.text
    );
    assert_eq!(one.text[3], "holiday 2027-03-26 Good Friday");
    assert_eq!(one.calendars.unwrap().found[0].calendar.as_ref().map(|calendar| calendar.holidays.len()), Some(2));
}

//! The control table: business calendars.

use punctual_core::calendar::{CalendarInput, HolidayInput, StoredCalendar};
use punctual_core::destination::Change;
use punctual_core::id::CalendarId;
use punctual_core::ports::{Control as _, Stored};

use crate::rows::at;
use crate::worlds::World;

fn id(name: &str) -> CalendarId {
    CalendarId::new(name).expect("a calendar id")
}

fn spec(text: &str) -> CalendarInput {
    serde_json::from_str(text).expect("a calendar")
}

fn calendar(name: &str, version: u64, holiday: &str) -> StoredCalendar {
    let spec = spec(&format!(
        r#"{{"time_zone":"Europe/London","hours":{{"mon":[["09:00","12:30"],["13:30","24:00"]]}},
            "holidays":["2027-01-01",{{"date":"2026-12-25","name":"{holiday}"}}],
            "openings":[{{"date":"2026-12-24","hours":[["09:00","12:00"]],"name":"Christmas Eve"}}]}}"#
    ));
    let changed = Change { at: at(0), by: "ann".into(), why: "the year's \"days\"\n".into() };
    StoredCalendar { id: id(name), spec, version, changed }
}

pub(crate) async fn calendars_are_versioned(world: &impl World) {
    let control = world.control();
    assert_eq!(control.calendars().await.unwrap(), []);
    let (first, second) = (calendar("uk", 1, "Christmas Day"), calendar("uk", 2, "Noël"));
    assert_eq!(control.put_calendar(&second, 1).await.unwrap(), Stored::Conflict, "nothing to replace");
    assert_eq!(control.put_calendar(&first, 0).await.unwrap(), Stored::Done);
    assert_eq!(control.put_calendar(&first, 0).await.unwrap(), Stored::Done, "this very write again");
    assert_eq!(control.put_calendar(&calendar("uk", 1, "another"), 0).await.unwrap(), Stored::Conflict, "it exists");
    assert_eq!(control.calendars().await.unwrap(), std::slice::from_ref(&first));
    assert_eq!(control.put_calendar(&second, 1).await.unwrap(), Stored::Done);
    assert_eq!(control.put_calendar(&calendar("uk", 2, "another"), 1).await.unwrap(), Stored::Conflict, "written since");
    assert_eq!(control.lookup_calendars(&[id("uk")]).await.unwrap(), std::slice::from_ref(&second));
    assert_eq!(control.destinations().await.unwrap(), [], "a calendar is no destination");
}

pub(crate) async fn looks_up_each_calendar_once(world: &impl World) {
    let control = world.control();
    assert_eq!(control.lookup_calendars(&[]).await.unwrap(), []);
    let stored = [calendar("at", 1, "a"), calendar("de", 1, "b"), calendar("uk", 1, "c")];
    for calendar in &stored {
        control.put_calendar(calendar, 0).await.unwrap();
    }
    let mut found = control.lookup_calendars(&[id("uk"), id("at"), id("uk"), id("nobody")]).await.unwrap();
    found.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(found, [stored[0].clone(), stored[2].clone()]);
    assert_eq!(control.calendars().await.unwrap(), stored);
}

pub(crate) async fn the_largest_calendar_fits_into_a_row(world: &impl World) {
    let mut large = calendar("large", 1, "x");
    let dates = (2027..2099).flat_map(|year| (1..=28).map(move |day| format!("{year}-05-{day:02}"))).take(2_000);
    large.spec.holidays = dates.map(|date| HolidayInput { date, name: "é".repeat(40) }).collect();
    large.spec.check("calendar").expect("within the bounds");
    assert_eq!(world.control().put_calendar(&large, 0).await.unwrap(), Stored::Done);
    assert_eq!(world.control().lookup_calendars(&[id("large")]).await.unwrap(), [large]);
}

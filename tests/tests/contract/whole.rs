//! The ledger from end to end: every row of a destination, page by page, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::delivery::Delivery;
use punctual_core::id::{DeliveryId, DestinationId, IdempotencyKey};
use punctual_core::ports::{Created, Ledger as _, Rows, RowsNamed, RowsPage, RowsQuery};

use crate::rows::{at, full, payload, row};
use crate::worlds::{self, Difference, World};

fn query(from: i64, until: i64, limit: Option<u32>) -> RowsQuery {
    RowsQuery { destination: row(0).destination, from: at(from), until: at(until), start: None, limit }
}

/// All pages.
async fn all(ledger: &impl Rows, mut query: RowsQuery) -> Vec<RowsPage> {
    let mut pages = Vec::new();
    loop {
        let page = ledger.rows(&query).await.unwrap();
        query.start = page.next.clone();
        pages.push(page);
        if query.start.is_none() {
            return pages;
        }
    }
}

fn ids(pages: &[RowsPage]) -> BTreeSet<DeliveryId> {
    let ids: Vec<DeliveryId> = pages.iter().flat_map(|page| page.rows.iter().map(|row| row.id.clone())).collect();
    let set: BTreeSet<DeliveryId> = ids.iter().cloned().collect();
    assert_eq!(set.len(), ids.len(), "a row is read twice");
    set
}

async fn create(world: &impl World, rows: &[Delivery]) {
    for row in rows {
        assert_eq!(world.ledger().create(row, &payload(0, "{}")).await.unwrap(), Created::New);
    }
}

/// Every row of a destination as it is, page by page: payloads, aliases, locks and other destinations' rows fill pages, and
/// are in none.
pub(crate) async fn all_rows_of_a_destination_are_read_page_by_page(world: &impl World) {
    let mut rows: Vec<Delivery> = (0..20).map(row).collect();
    rows.push(full(20));
    create(world, &rows).await;
    let other = Delivery { destination: DestinationId::new("other").expect("a destination"), ..row(30) };
    create(world, std::slice::from_ref(&other)).await;
    let migrated = DeliveryId::new("old-31").expect("an id");
    let migrated = Delivery { idempotency_key: IdempotencyKey::new("key-31").expect("a key"), id: migrated, ..row(31) };
    assert_eq!(world.ledger().create(&migrated, &payload(31, "{}")).await.unwrap(), Created::New);
    rows.push(migrated);

    let expected: BTreeMap<DeliveryId, Delivery> = rows.into_iter().map(|row| (row.id.clone(), row)).collect();
    for limit in [Some(1), Some(3), None] {
        let pages = all(world.ledger(), query(-1_000_000, 1_000_000, limit)).await;
        assert_eq!(ids(&pages), expected.keys().cloned().collect(), "{limit:?}");
        let most = limit.map_or(usize::MAX, |limit| usize::try_from(limit).expect("few"));
        assert!(pages.iter().all(|page| page.rows.len() <= most && page.unreadable.is_empty()));
        let units: f64 = pages.iter().map(|page| page.read_units).sum();
        assert_eq!(units > 0.0, !world.differs(Difference::ReadsAreFree), "{limit:?}");
        for row in pages.into_iter().flat_map(|page| page.rows) {
            assert_eq!(expected.get(&row.id), Some(&row));
        }
    }
}

pub(crate) async fn a_row_counts_from_its_creation_to_its_deadline(world: &impl World) {
    // Created a minute before noon, with two hours from noon on.
    let one = row(1);
    create(world, std::slice::from_ref(&one)).await;
    for (from, until, there) in [
        (-1_000, -60, false),
        (-1_000, -59, true),
        (0, 1, true),
        (7_199, 9_000, true),
        (7_200, 9_000, true),
        (7_201, 9_000, false),
    ] {
        let found = ids(&all(world.ledger(), query(from, until, None)).await);
        assert_eq!(found.contains(&one.id), there, "{from} to {until}");
    }
}

pub(crate) async fn an_empty_ledger_has_one_empty_page(world: &impl World) {
    let pages = all(world.ledger(), query(-1_000, 1_000, None)).await;
    assert_eq!((pages.len(), ids(&pages).len()), (1, 0));
    assert_eq!(world.ledger().rows_named(&[]).await.unwrap(), RowsNamed::default());
}

pub(crate) async fn rows_of_any_destination_are_read_by_their_ids(world: &impl World) {
    let other = Delivery { destination: DestinationId::new("other").expect("a destination"), ..row(2) };
    create(world, &[row(1), other.clone()]).await;
    let mut found = world.ledger().rows_named(&[row(1).id, other.id.clone(), row(3).id]).await.unwrap();
    found.rows.sort_by_key(|row| row.destination.to_string());
    assert_eq!(found, RowsNamed { rows: vec![row(1), other], unreadable: Vec::new() });
}

#[tokio::test]
async fn a_damaged_row_is_named_and_its_page_goes_on() {
    let world = worlds::dynoxide("damaged_page").await;
    let (good, bad) = (row(1), row(2));
    create(&world, &[good.clone(), bad.clone()]).await;
    let update = world.client.update_item().table_name(&world.ledger_table);
    let update = update.key("delivery_id", worlds::s(&bad.id)).key("item", worlds::s("delivery"));
    let update = update.update_expression("SET version = :x").expression_attribute_values(":x", worlds::s("secret"));
    update.send().await.expect("an update");
    let pages = all(world.ledger(), query(-1_000, 1_000, None)).await;
    assert_eq!(ids(&pages), BTreeSet::from([good.id.clone()]));
    let unreadable: Vec<&String> = pages.iter().flat_map(|page| &page.unreadable).collect();
    assert_eq!(unreadable, [bad.id.as_str()]);
    let named = world.ledger().rows_named(&[good.id.clone(), bad.id.clone(), row(3).id]).await.unwrap();
    assert_eq!(named, RowsNamed { rows: vec![good], unreadable: vec![bad.id.to_string()] });
}

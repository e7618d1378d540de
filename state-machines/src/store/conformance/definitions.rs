//! Definitions are kept under their hash, and names stand for them.

use super::Fixture;
use super::words::*;
use crate::store::{Definition, Deployed, KeepError};

/// What is kept is read, and keeping it again changes nothing.
pub async fn a_definition_is_kept_once<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.open().await;
    assert_eq!(store.definition("d1").await.unwrap(), None);
    assert_eq!(store.deployed().await.unwrap(), []);
    let first = definition("copying", "d1");
    let again = Definition {
        at_ms: 99,
        ..first.clone()
    };
    for one in [&first, &again] {
        store.keep_definition(one).await.unwrap();
        let text = store.definition("d1").await.unwrap();
        assert_eq!(text.as_ref(), Some(&first.text));
        let deployed = Deployed {
            name: "copying".to_owned(),
            hash: "d1".to_owned(),
            at_ms: 5,
        };
        assert_eq!(store.deployed().await.unwrap(), [deployed]);
    }
}

/// A name stands for what was last kept under it; what it stood for before is
/// still there for the executions that run it.
pub async fn a_name_stands_for_the_last_one<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.open().await;
    let stands = [
        ("d1", "copying", 5),
        ("d2", "copying", 6),
        ("d2", "alias", 7),
        ("d1", "copying", 8),
    ];
    for (hash, name, at_ms) in stands {
        let next = Definition {
            at_ms,
            ..definition(name, hash)
        };
        store.keep_definition(&next).await.unwrap();
    }
    let deployed = store.deployed().await.unwrap();
    let seen: Vec<_> = deployed
        .iter()
        .map(|one| (one.name.as_str(), one.hash.as_str(), one.at_ms))
        .collect();
    assert_eq!(seen, [("alias", "d2", 7), ("copying", "d1", 8)]);
    assert!(store.definition("d2").await.unwrap().is_some());
}

/// A name that is withdrawn stands for nothing; its definition is kept for the
/// executions that run it, and the name may be given again.
pub async fn a_name_that_is_withdrawn_stands_for_nothing<F: Fixture>() {
    let fixture = F::fresh().await;
    let store = fixture.open().await;
    let kept = definition("copying", "d1");
    store.keep_definition(&kept).await.unwrap();
    for stood in [true, false] {
        assert_eq!(store.withdraw("copying").await.unwrap(), stood);
        assert_eq!(store.deployed().await.unwrap(), []);
    }
    assert_eq!(
        store.definition("d1").await.unwrap(),
        Some(kept.text.clone())
    );
    store.keep_definition(&kept).await.unwrap();
    assert_eq!(store.deployed().await.unwrap().len(), 1);
    store.check().await.unwrap();
}

/// Another text under the same hash is refused, and moves no name.
pub async fn a_hash_names_one_text<F: Fixture>() {
    let (_fixture, store) = start::<F>().await;
    let before = store.deployed().await.unwrap();
    let other = Definition {
        text: "{}".to_owned(),
        ..definition("other", "d1")
    };
    let refused = store.keep_definition(&other).await;
    assert!(matches!(refused, Err(KeepError::Conflict { hash }) if hash == "d1"));
    assert_eq!(store.deployed().await.unwrap(), before);
}

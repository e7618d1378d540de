//! Definitions by hash, and their deployments.

use super::StoreFixture;
use super::helpers::*;
use crate::store::{Deployment, SaveDefinitionError, StoredDefinition};

/// A saved definition can be read, and saving it again changes nothing.
pub async fn saving_a_definition_again_changes_nothing<F: StoreFixture>() {
    let fixture = F::fresh().await;
    let store = fixture.open().await;
    assert_eq!(store.definition("d1").await.unwrap(), None);
    assert_eq!(store.deployed().await.unwrap(), []);
    let first = definition("copying", "d1");
    let again = StoredDefinition {
        at_ms: 99,
        ..first.clone()
    };
    for one in [&first, &again] {
        store.save_definition(one).await.unwrap();
        let text = store.definition("d1").await.unwrap();
        assert_eq!(text.as_ref(), Some(&first.text));
        let deployed = Deployment {
            name: "copying".to_owned(),
            hash: "d1".to_owned(),
            at_ms: 5,
        };
        assert_eq!(store.deployed().await.unwrap(), [deployed]);
    }
}

/// A name refers to the definition saved last. Earlier definitions remain for the
/// executions that run them.
pub async fn a_name_refers_to_the_last_definition<F: StoreFixture>() {
    let fixture = F::fresh().await;
    let store = fixture.open().await;
    let stands = [
        ("d1", "copying", 5),
        ("d2", "copying", 6),
        ("d2", "alias", 7),
        ("d1", "copying", 8),
    ];
    for (hash, name, at_ms) in stands {
        let next = StoredDefinition {
            at_ms,
            ..definition(name, hash)
        };
        store.save_definition(&next).await.unwrap();
    }
    let deployed = store.deployed().await.unwrap();
    let seen: Vec<_> = deployed
        .iter()
        .map(|one| (one.name.as_str(), one.hash.as_str(), one.at_ms))
        .collect();
    assert_eq!(seen, [("alias", "d2", 7), ("copying", "d1", 8)]);
    assert!(store.definition("d2").await.unwrap().is_some());
}

/// A withdrawn deployment is gone. Its definition remains for the executions that
/// run it, and the name can be used again.
pub async fn a_withdrawn_deployment_is_gone<F: StoreFixture>() {
    let fixture = F::fresh().await;
    let store = fixture.open().await;
    let kept = definition("copying", "d1");
    store.save_definition(&kept).await.unwrap();
    for stood in [true, false] {
        assert_eq!(store.withdraw("copying").await.unwrap(), stood);
        assert_eq!(store.deployed().await.unwrap(), []);
    }
    assert_eq!(
        store.definition("d1").await.unwrap(),
        Some(kept.text.clone())
    );
    store.save_definition(&kept).await.unwrap();
    assert_eq!(store.deployed().await.unwrap().len(), 1);
    store.check().await.unwrap();
}

/// Another text under the same hash is refused and deploys nothing.
pub async fn a_hash_names_one_text<F: StoreFixture>() {
    let (_fixture, store) = start::<F>().await;
    let before = store.deployed().await.unwrap();
    let other = StoredDefinition {
        text: "{}".to_owned(),
        ..definition("other", "d1")
    };
    let refused = store.save_definition(&other).await;
    assert!(matches!(refused, Err(SaveDefinitionError::Conflict { hash }) if hash == "d1"));
    assert_eq!(store.deployed().await.unwrap(), before);
}

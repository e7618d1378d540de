//! The state machine of a slice's record: every transition that a compare-and-swap
//! may make, and no other. Pure.
//!
//! ```text
//!            claim                 seal                    commit
//!   (none) ────────► Copying ◄───────────► Sealing(E) ────────────► Window
//!                       │       retreat        │                   │      │
//!                       └──── abort ────┐      └─ abort, at an     │      │ reverse: a new
//!                                       ▼        epoch > E ─┐      │      │ migration, Copying
//!   (none) ◄── release ────────────── Aborting ◄────────────┘      │      ▼
//!   (none) ◄── release ── Cleaning ◄──────────────────── clean ────┘
//!                                   relax: Window, no longer synchronous
//!
//!   when the owner is permanently gone:
//!   Window ── reverse_without_owner ──► Copying ── seal ──► Sealing(E)
//!                                                               │ commit_without_source
//!   (none) ◄──────────────── release ─────────────── Window ◄───┘
//! ```
//! A reverse migration that started with its owner can still abandon it in
//! `Sealing(E)`, by `commit_without_source`. One that started without its owner can
//! only go forward: the owner's state is unknown, so there is nothing to retreat to.
//!
//! Epochs are never reused: a transition that needs one takes the next above all
//! epochs that were ever issued (`spent`).

use ballast_domain::moving::{
    ActiveMigration, LastMigration, MigrationId, MigrationPhase, SliceRoute,
};
use ballast_domain::tenant::Epoch;

/// Why a transition is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    /// Another migration is active on the slice.
    #[error("migration {} is active on the slice", .0.0)]
    Busy(MigrationId),
    /// The target owns the slice already.
    #[error("the target owns the slice already")]
    AlreadyOwner,
    /// The migration is not active on the slice.
    #[error("the migration is not active on the slice")]
    NotActive,
    /// A forward migration cannot abandon its source: the target may lack rows from
    /// before the migration.
    #[error("only a reverse migration can abandon its source")]
    NotReverse,
    /// The migration has abandoned its source and can only go forward.
    #[error("the migration has abandoned its source")]
    AbandonsOwner,
    /// The migration is in another phase.
    #[error("the migration is in phase {}", .0.name())]
    WrongPhase(MigrationPhase),
}

type TransitionResult<S> = Result<SliceRoute<S>, TransitionError>;

fn next_epoch<S>(route: &SliceRoute<S>) -> Epoch {
    Epoch(route.spent.0 + 1)
}

fn active_migration<S: Clone>(
    route: &SliceRoute<S>,
    id: &MigrationId,
) -> Result<ActiveMigration<S>, TransitionError> {
    route
        .active_migration(id)
        .cloned()
        .ok_or(TransitionError::NotActive)
}

fn with_phase<S>(
    route: SliceRoute<S>,
    moving: ActiveMigration<S>,
    phase: MigrationPhase,
) -> SliceRoute<S> {
    SliceRoute {
        moving: Some(ActiveMigration { phase, ..moving }),
        ..route
    }
}

/// Starts a migration. With `sync`, a write after the cutover is acknowledged only
/// when both sides have it.
pub fn claim<S: Clone + PartialEq>(
    route: &SliceRoute<S>,
    id: &MigrationId,
    to: S,
    sync: bool,
) -> TransitionResult<S> {
    if let Some(other) = &route.moving {
        return Err(TransitionError::Busy(other.migration_id.clone()));
    }
    if to == route.owner {
        return Err(TransitionError::AlreadyOwner);
    }
    Ok(start_migration(route, id, to, sync))
}

fn start_migration<S: Clone>(
    route: &SliceRoute<S>,
    id: &MigrationId,
    to: S,
    sync: bool,
) -> SliceRoute<S> {
    let prepared = next_epoch(route);
    SliceRoute {
        spent: prepared,
        moving: Some(ActiveMigration {
            migration_id: id.clone(),
            from: route.owner.clone(),
            to,
            prepared,
            gives_up: false,
            sync,
            phase: MigrationPhase::Copying,
        }),
        ..route.clone()
    }
}

/// Decides the seal: from now on the source may be sealed, at a new epoch.
pub fn seal<S: Clone>(route: &SliceRoute<S>, id: &MigrationId) -> TransitionResult<S> {
    let moving = active_migration(route, id)?;
    match moving.phase {
        MigrationPhase::Copying => {
            let epoch = next_epoch(route);
            let route = SliceRoute {
                spent: epoch,
                ..route.clone()
            };
            Ok(with_phase(route, moving, MigrationPhase::Sealing { epoch }))
        }
        other => Err(TransitionError::WrongPhase(other)),
    }
}

/// Makes the target the owner: the point of no return.
pub fn commit<S: Clone>(route: &SliceRoute<S>, id: &MigrationId) -> TransitionResult<S> {
    let moving = active_migration(route, id)?;
    match moving.gives_up {
        true => Err(TransitionError::AbandonsOwner),
        false => transfer_ownership(route, moving),
    }
}

/// Makes the target the owner at the epoch of the seal.
fn transfer_ownership<S: Clone>(
    route: &SliceRoute<S>,
    moving: ActiveMigration<S>,
) -> TransitionResult<S> {
    match moving.phase {
        MigrationPhase::Sealing { epoch } => {
            let route = SliceRoute {
                owner: moving.to.clone(),
                epoch,
                ..route.clone()
            };
            Ok(with_phase(route, moving, MigrationPhase::Window))
        }
        other => Err(TransitionError::WrongPhase(other)),
    }
}

/// Makes the target the owner although the source was not sealed and may have more
/// writes, which are lost. Either this or [`commit`] happens, never both. The
/// `Window` that follows is only left by [`release`]: the source is not compared
/// with, returned to, or cleaned up.
pub fn commit_without_source<S: Clone>(
    route: &SliceRoute<S>,
    id: &MigrationId,
) -> TransitionResult<S> {
    let mut moving = active_migration(route, id)?;
    if !id.is_back() {
        return Err(TransitionError::NotReverse);
    }
    moving.gives_up = true;
    transfer_ownership(route, moving)
}

/// Starts the reverse migration without the owner, which is neither read nor sent
/// commands. The owner may not even know that it owns the slice, so the slice
/// cannot return to it.
pub fn reverse_without_owner<S: Clone>(
    route: &SliceRoute<S>,
    id: &MigrationId,
    back: &MigrationId,
) -> TransitionResult<S> {
    let mut then = reverse(route, id, back)?;
    if let Some(moving) = &mut then.moving {
        moving.gives_up = true;
    }
    Ok(then)
}

/// Postpones the cutover: the source takes writes again, at a new epoch, and copying
/// continues. The shard refuses a delayed seal command by its epoch.
pub fn retreat<S: Clone>(route: &SliceRoute<S>, id: &MigrationId) -> TransitionResult<S> {
    let moving = active_migration(route, id)?;
    match moving.phase {
        _ if moving.gives_up => Err(TransitionError::AbandonsOwner),
        MigrationPhase::Sealing { .. } => {
            let epoch = next_epoch(route);
            let route = SliceRoute {
                epoch,
                spent: epoch,
                ..route.clone()
            };
            Ok(with_phase(route, moving, MigrationPhase::Copying))
        }
        other => Err(TransitionError::WrongPhase(other)),
    }
}

/// Aborts the migration before its cutover. If the source may have been sealed, it
/// continues at a new epoch, so that the shard refuses a delayed seal command.
pub fn abort<S: Clone>(route: &SliceRoute<S>, id: &MigrationId) -> TransitionResult<S> {
    let moving = active_migration(route, id)?;
    match moving.phase {
        _ if moving.gives_up => Err(TransitionError::AbandonsOwner),
        MigrationPhase::Copying => Ok(with_phase(route.clone(), moving, MigrationPhase::Aborting)),
        MigrationPhase::Sealing { .. } => {
            let epoch = next_epoch(route);
            let route = SliceRoute {
                epoch,
                spent: epoch,
                ..route.clone()
            };
            Ok(with_phase(route, moving, MigrationPhase::Aborting))
        }
        other => Err(TransitionError::WrongPhase(other)),
    }
}

/// Starts the reverse migration: a migration of its own, to the shard that the
/// slice came from and that still has its copy.
pub fn reverse<S: Clone>(
    route: &SliceRoute<S>,
    id: &MigrationId,
    back: &MigrationId,
) -> TransitionResult<S> {
    let moving = active_migration(route, id)?;
    match moving.phase {
        MigrationPhase::Window if !moving.gives_up => {
            let last = Some(LastMigration {
                migration_id: id.clone(),
                moved: true,
            });
            let route = SliceRoute {
                last,
                ..route.clone()
            };
            // Writes stay synchronous until the slice is back.
            Ok(start_migration(&route, back, moving.from, moving.sync))
        }
        other => Err(TransitionError::WrongPhase(other)),
    }
}

/// Stops waiting for both sides: from now on the owner alone acknowledges writes.
/// Used when the copy's shard is unreachable and an operator prefers taking votes
/// to waiting, or when the copy is damaged and made anew. It cannot be undone: later
/// writes may be on one side only.
pub fn relax<S: Clone>(route: &SliceRoute<S>, id: &MigrationId) -> TransitionResult<S> {
    let mut moving = active_migration(route, id)?;
    let phase = moving.phase;
    if moving.gives_up || moving.also_durable_on().is_none() {
        return Err(TransitionError::WrongPhase(phase));
    }
    moving.sync = false;
    Ok(with_phase(route.clone(), moving, phase))
}

/// Ends the window: the source's copy is removed, so the slice cannot return.
pub fn clean<S: Clone>(route: &SliceRoute<S>, id: &MigrationId) -> TransitionResult<S> {
    let moving = active_migration(route, id)?;
    match moving.phase {
        MigrationPhase::Window if !moving.gives_up => {
            Ok(with_phase(route.clone(), moving, MigrationPhase::Cleaning))
        }
        other => Err(TransitionError::WrongPhase(other)),
    }
}

/// Ends the migration and frees the record.
pub fn release<S: Clone>(route: &SliceRoute<S>, id: &MigrationId) -> TransitionResult<S> {
    let moving = active_migration(route, id)?;
    let moved = match moving.phase {
        MigrationPhase::Cleaning => true,
        MigrationPhase::Window if moving.gives_up => true,
        MigrationPhase::Aborting => false,
        other => return Err(TransitionError::WrongPhase(other)),
    };
    let last = Some(LastMigration {
        migration_id: moving.migration_id,
        moved,
    });
    Ok(SliceRoute {
        moving: None,
        last,
        ..route.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> MigrationId {
        MigrationId("m-back".to_owned())
    }

    /// A record with the migration in each phase, and without one.
    fn records() -> [(&'static str, SliceRoute<u8>); 9] {
        let placed = SliceRoute::placed(0);
        let copying = claim(&placed, &id(), 1, false).unwrap();
        let sealing = seal(&copying, &id()).unwrap();
        let aborting = abort(&sealing, &id()).unwrap();
        let window = commit(&sealing, &id()).unwrap();
        let abandoned = commit_without_source(&sealing, &id()).unwrap();
        let forth = MigrationId("m".to_owned());
        let there = claim(&placed, &forth, 1, true).and_then(|route| seal(&route, &forth));
        let there = there.and_then(|route| commit(&route, &forth)).unwrap();
        let returning = reverse_without_owner(&there, &forth, &id()).unwrap();
        let leaving = seal(&returning, &id()).unwrap();
        let cleaning = clean(&window, &id()).unwrap();
        [
            ("none", placed),
            ("copying", copying),
            ("sealing", sealing),
            ("aborting", aborting),
            ("window", window),
            ("cleaning", cleaning),
            ("returning", returning),
            ("leaving", leaving),
            ("abandoned", abandoned),
        ]
    }

    fn describe_result(changed: &TransitionResult<u8>) -> String {
        match changed {
            Err(TransitionError::Busy(_)) => "busy".to_owned(),
            Err(TransitionError::AlreadyOwner) => "there".to_owned(),
            Err(_) => "-".to_owned(),
            Ok(route) => {
                let gives_up = route.moving.as_ref().is_some_and(|moving| moving.gives_up);
                let phase = match route.moving.as_ref().map(|moving| moving.phase) {
                    Some(MigrationPhase::Window) if gives_up => "abandoned",
                    Some(MigrationPhase::Copying) if gives_up => "returning",
                    None => "none",
                    Some(MigrationPhase::Copying) => "copying",
                    Some(MigrationPhase::Sealing { .. }) => "sealing",
                    Some(MigrationPhase::Aborting) => "aborting",
                    Some(MigrationPhase::Window) => "window",
                    Some(MigrationPhase::Cleaning) => "cleaning",
                };
                format!(
                    "{phase} {}@{}/{}",
                    route.owner, route.epoch.0, route.spent.0
                )
            }
        }
    }

    /// The result of every transition on every record: the phase, then owner @ epoch
    /// / highest epoch issued. A window allows `clean` or `reverse`, and neither
    /// result allows the other; a seal allows one of `commit`,
    /// `commit_without_source` and `abort`. A migration that has abandoned its
    /// source only goes forward.
    const TABLE: &str = "\
record     claim                  seal                   commit                 commit_without_source  retreat                abort                  clean                  reverse                reverse_without_owner  release
none       copying 0@1/2          -                      -                      -                      -                      -                      -                      -                      -                      -
copying    busy                   sealing 0@1/3          -                      -                      -                      aborting 0@1/2         -                      -                      -                      -
sealing    busy                   -                      window 1@3/3           abandoned 1@3/3        copying 0@4/4          aborting 0@4/4         -                      -                      -                      -
aborting   busy                   -                      -                      -                      -                      -                      -                      -                      -                      none 0@4/4
window     busy                   -                      -                      -                      -                      -                      cleaning 1@3/3         copying 1@3/4          returning 1@3/4        -
cleaning   busy                   -                      -                      -                      -                      -                      -                      -                      -                      none 1@3/3
returning  busy                   sealing 1@3/5          -                      -                      -                      -                      -                      -                      -                      -
leaving    busy                   -                      -                      abandoned 0@5/5        -                      -                      -                      -                      -                      -
abandoned  busy                   -                      -                      -                      -                      -                      -                      -                      -                      none 1@3/3
";

    #[test]
    fn every_transition_of_every_record() {
        type Transition = fn(&SliceRoute<u8>) -> TransitionResult<u8>;
        let transitions: [(&str, Transition); 10] = [
            ("claim", |route| {
                claim(route, &MigrationId("n".to_owned()), 1 - route.owner, false)
            }),
            ("seal", |route| seal(route, &id())),
            ("commit", |route| commit(route, &id())),
            ("commit_without_source", |route| {
                commit_without_source(route, &id())
            }),
            ("retreat", |route| retreat(route, &id())),
            ("abort", |route| abort(route, &id())),
            ("clean", |route| clean(route, &id())),
            ("reverse", |route| {
                reverse(route, &id(), &MigrationId("b".to_owned()))
            }),
            ("reverse_without_owner", |route| {
                reverse_without_owner(route, &id(), &MigrationId("b".to_owned()))
            }),
            ("release", |route| release(route, &id())),
        ];
        let heads = transitions.iter().map(|(name, _)| format!("{name:23}"));
        let heads: String = heads.collect();
        let mut table = format!("{:11}{}\n", "record", heads.trim_end());
        for (name, route) in records() {
            let cells = transitions.iter().map(|(_, transition)| {
                let result = describe_result(&transition(&route));
                format!("{result:23}")
            });
            let cells: String = cells.collect();
            table += &format!("{name:11}{}\n", cells.trim_end());
        }
        assert_eq!(table, TABLE, "\n{table}");
    }

    #[test]
    fn transitions_of_another_migration_are_refused() {
        let other = MigrationId("n".to_owned());
        for (name, route) in records() {
            let refused = [
                seal(&route, &other),
                commit(&route, &other),
                commit_without_source(&route, &other),
                retreat(&route, &other),
                abort(&route, &other),
                clean(&route, &other),
                relax(&route, &other),
                reverse(&route, &other, &id()),
                reverse_without_owner(&route, &other, &id()),
                release(&route, &other),
            ];
            for (place, changed) in refused.into_iter().enumerate() {
                assert_eq!(changed, Err(TransitionError::NotActive), "{name} {place}");
            }
        }
        let there = claim(&SliceRoute::placed(0), &other, 0, false);
        assert_eq!(there, Err(TransitionError::AlreadyOwner));
    }

    #[test]
    fn both_sides_acknowledge_until_the_record_says_otherwise() {
        let forth = MigrationId("m".to_owned());
        let copying = claim(&SliceRoute::placed(0), &forth, 1, true).unwrap();
        let sealing = seal(&copying, &forth).unwrap();
        let window = commit(&sealing, &forth).unwrap();
        let is_sync = |route: &SliceRoute<u8>| route.moving.as_ref().is_some_and(|it| it.sync);
        let back = forth.way_back();
        for then in [
            reverse(&window, &forth, &back),
            reverse_without_owner(&window, &forth, &back),
        ] {
            assert!(
                is_sync(&then.unwrap()),
                "a reverse migration stays synchronous"
            );
        }
        assert!(relax(&copying, &forth).is_err() && relax(&sealing, &forth).is_err());
        let turned = reverse(&window, &forth, &back).unwrap();
        assert!(!is_sync(&relax(&turned, &back).unwrap()));
        let returning = reverse_without_owner(&window, &forth, &back).unwrap();
        assert!(
            relax(&returning, &back).is_err(),
            "the abandonment relies on it"
        );
        let relaxed = relax(&window, &forth).unwrap();
        assert!(!is_sync(&relaxed));
        assert!(relax(&relaxed, &forth).is_err());
        assert!(!is_sync(&reverse(&relaxed, &forth, &back).unwrap()));
        assert_eq!(relaxed.epoch, window.epoch);
    }

    #[test]
    fn only_a_reverse_migration_commits_without_its_source() {
        let forth = MigrationId("m".to_owned());
        let copying = claim(&SliceRoute::placed(0), &forth, 1, false).unwrap();
        let sealing = seal(&copying, &forth).unwrap();
        assert_eq!(
            commit_without_source(&sealing, &forth),
            Err(TransitionError::NotReverse)
        );
    }
}
